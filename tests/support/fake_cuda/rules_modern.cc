// Rules of memory that travels as an fd: memory of cuMemCreate and of pools.
#include <fcntl.h>

#include "peer.h"

using namespace rules;

namespace {

CUmemAllocationProp properties(unsigned types) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

CUmemAccessDesc access(CUmemAccess_flags flags) {
  CUmemAccessDesc desc{};
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = flags;
  return desc;
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, CUmemAccess_flags flags) {
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAddressReserve(&pointer, kSize, 0, 0, 0));
  OK(cu.cuMemMap(pointer, kSize, 0, handle, 0));
  const CUmemAccessDesc desc = access(flags);
  OK(cu.cuMemSetAccess(pointer, kSize, &desc, 1));
  return pointer;
}

void unmap(CUdeviceptr pointer) {
  OK(cu.cuMemUnmap(pointer, kSize));
  OK(cu.cuMemAddressFree(pointer, kSize));
}

void* as_handle(int fd) { return reinterpret_cast<void*>(static_cast<intptr_t>(fd)); }

CUmemoryPool make_pool(CUmemAllocationHandleType type) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = type;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  OK(cu.cuMemPoolCreate(&pool, &props));
  return pool;
}

}  // namespace

// A peer does this, because a fault on a real device ends the context, and no later check in the
// process could work.
PEER(writes_without_access) {
  const Started started;
  CUmemAllocationProp prop = properties(0);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemCreate(&handle, kSize, &prop, 0));
  OK(cu.cuMemAddressReserve(&pointer, kSize, 0, 0, 0));
  OK(cu.cuMemMap(pointer, kSize, 0, handle, 0));
  // "calling cuMemMap does not make the address accessible"
  CHECK(cu.cuMemsetD8(pointer, 1, kSize) != CUDA_SUCCESS || cu.cuCtxSynchronize() != CUDA_SUCCESS);
}

TEST(mapped_is_not_accessible) { Peer peer("writes_without_access"); }

TEST(vmm) {
  const Started started;
  CUmemAllocationProp prop = properties(0);
  size_t granularity = 0;
  OK(cu.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(granularity != 0 && kSize % granularity == 0);
  CUmemGenericAllocationHandle handle = 0;
  EQUAL(cu.cuMemCreate(&handle, granularity + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemCreate(&handle, kSize, &prop, 0));
  int fd = -1;
  CHECK(cu.cuMemExportToShareableHandle(&fd, handle, kFd, 0) != CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAddressReserve(&pointer, kSize, 0, 0, 0));
  OK(cu.cuMemMap(pointer, kSize, 0, handle, 0));
  // "cuMemMap can only create mappings on VA range reservations that are not currently mapped."
  REFUSED(cu.cuMemMap(pointer, kSize, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  const CUmemAccessDesc desc = access(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  OK(cu.cuMemSetAccess(pointer, kSize, &desc, 1));
  OK(cu.cuMemsetD8(pointer, 1, kSize));
  EQUAL(first_byte(pointer + kSize - 1), 1);
  // This memory has no legacy handle, and an attribute says so beforehand.
  CUipcMemHandle old{};
  EQUAL(cu.cuIpcGetMemHandle(&old, pointer), CUDA_ERROR_INVALID_VALUE);
  unsigned capable = 1;
  OK(cu.cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer));
  EQUAL(capable & 0xffU, 0U);
  // "The generic memory handle can be freed when there are still outstanding mappings made with
  // this handle."
  OK(cu.cuMemRelease(handle));
  EQUAL(first_byte(pointer), 1);
  CUmemGenericAllocationHandle again = 0;
  OK(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(pointer + granularity)));
  EQUAL(again, handle);
  OK(cu.cuMemRelease(again));
  if (cu.fake) CHECK(cu.cuMemAddressFree(pointer, kSize) != CUDA_SUCCESS);
  REFUSED(cu.cuMemUnmap(pointer, kSize - granularity), CUDA_ERROR_INVALID_VALUE);
  unmap(pointer);
  if (cu.fake) EQUAL(cu.fake_cuda_bytes(0), 0U);
}

PEER(imports) {
  const Started started;
  int fd = -1;
  parent.receive<int>(&fd);
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemImportFromShareableHandle(&handle, as_handle(fd), kFd));
  close(fd);
  const CUdeviceptr pointer = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EQUAL(first_byte(pointer), 7);
  OK(cu.cuMemsetD8(pointer, 8, kSize));
  const CUmemAccessDesc desc = access(CU_MEM_ACCESS_FLAGS_PROT_READ);
  if (cu.cuMemSetAccess(pointer, kSize, &desc, 1) == CUDA_SUCCESS && cu.fake) {
    EQUAL(first_byte(pointer), 8);
    EQUAL(cu.cuMemsetD8(pointer, 9, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    EQUAL(cu.fake_cuda_faults(FAKE_CUDA_READ_ONLY_WRITTEN), 1U);
  }
  OK(cu.cuMemRelease(handle));
  unmap(pointer);
  // An fd that no driver made.
  const int other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(cu.cuMemImportFromShareableHandle(&handle, as_handle(other), kFd) != CUDA_SUCCESS);
  close(other);
  parent.send(1);
  parent.receive<int>();
}

TEST(vmm_by_fd) {
  const Started started;
  CUmemAllocationProp prop = properties(kFd);
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemCreate(&handle, kSize, &prop, 0));
  const CUdeviceptr pointer = map(handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  unsigned long long types = 0;
  OK(cu.cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, pointer));
  EQUAL(types, static_cast<unsigned long long>(kFd));
  OK(cu.cuMemsetD8(pointer, 7, kSize));
  int fd = -1;
  REFUSED(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_WIN32, 0),
          CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemExportToShareableHandle(&fd, handle, kFd, 0));
  Peer peer("imports");
  // The exporter closes and frees everything before the peer reads the message. The fd in the
  // message keeps the memory.
  peer.send(0, fd);
  close(fd);
  OK(cu.cuMemRelease(handle));
  unmap(pointer);
  peer.receive<int>();
  if (cu.fake) EQUAL(cu.fake_cuda_bytes(0), 0U);
  peer.send(1);
}

FAKE_TEST(vmm_by_unread_message, "") {
  const Started started;
  CUmemAllocationProp prop = properties(kFd);
  CUmemGenericAllocationHandle handle = 0;
  int ends[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  OK(cu.cuMemCreate(&handle, kSize, &prop, 0));
  int fd = -1;
  OK(cu.cuMemExportToShareableHandle(&fd, handle, kFd, 0));
  Channel(ends[0]).send(0, fd);
  close(fd);
  OK(cu.cuMemRelease(handle));
  EQUAL(cu.fake_cuda_bytes(0), kSize);
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_VMM_HANDLE, 0), 0U);
  close(ends[0]);
  close(ends[1]);
  EQUAL(cu.fake_cuda_bytes(0), 0U);
}

RULES_TEST(fabric, false, "FAKE_CUDA_FABRIC=1") {
  const Started started;
  CUmemAllocationProp prop = properties(CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle handle = 0;
  if (cu.version < 12030) {
    REFUSED(cu.cuMemCreate(&handle, kSize, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    return;
  }
  if (!cu.fake) {
    int supported = 0;
    constexpr auto kSupported = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    if (cu.cuDeviceGetAttribute(&supported, kSupported, started.device) != CUDA_SUCCESS ||
        supported == 0) {
      lacking = "it has no fabric";
      return;
    }
  }
  const CUresult made = cu.cuMemCreate(&handle, kSize, &prop, 0);
  if (!cu.fake && made == CUDA_ERROR_NOT_PERMITTED) {
    lacking = "this process may not use its fabric";
    return;
  }
  EQUAL(made, CUDA_SUCCESS);
  CUmemFabricHandle name{};
  int fd = -1;
  REFUSED(cu.cuMemExportToShareableHandle(&fd, handle, kFd, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuMemExportToShareableHandle(&name, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  CUmemGenericAllocationHandle other = 0;
  OK(cu.cuMemImportFromShareableHandle(&other, &name, CU_MEM_HANDLE_TYPE_FABRIC));
  OK(cu.cuMemRelease(other));
  name.data[5] = static_cast<unsigned char>(name.data[5] ^ 1);
  CHECK(cu.cuMemImportFromShareableHandle(&other, &name, CU_MEM_HANDLE_TYPE_FABRIC) !=
        CUDA_SUCCESS);
  OK(cu.cuMemRelease(handle));
  if (cu.fake) EQUAL(cu.fake_cuda_bytes(0), 0U);
}

FAKE_TEST(no_fabric, "") {
  const Started started;
  CUmemAllocationProp prop = properties(CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle handle = 0;
  EQUAL(cu.cuMemCreate(&handle, kSize, &prop, 0),
        cu.version < 12030 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_PERMITTED);
}

PEER(imports_pool) {
  const Started started;
  int fd = -1;
  auto data = parent.receive<CUmemPoolPtrExportData>(&fd);
  CUmemoryPool pool = nullptr;
  OK(cu.cuMemPoolImportFromShareableHandle(&pool, as_handle(fd), kFd, 0));
  close(fd);
  CUdeviceptr pointer = 0;
  // "Imported memory pools do not support creating new allocations."
  CHECK(cu.cuMemAllocFromPoolAsync(&pointer, kSize, pool, nullptr) != CUDA_SUCCESS);
  OK(cu.cuMemPoolImportPointer(&pointer, pool, &data));
  EQUAL(first_byte(pointer), 7);
  // "an imported pool cannot be re-exported"
  CHECK(cu.cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0) != CUDA_SUCCESS);
  if (cu.fake) CHECK(cu.cuMemPoolExportPointer(&data, pointer) != CUDA_SUCCESS);
  parent.send(1);
  parent.receive<int>();
  OK(cu.cuMemFree(pointer));
  OK(cu.cuMemPoolDestroy(pool));
}

static void send_pool_memory(Peer& peer, CUmemoryPool pool, CUdeviceptr pointer) {
  CUmemPoolPtrExportData data{};
  int fd = -1;
  OK(cu.cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0));
  OK(cu.cuMemPoolExportPointer(&data, pointer));
  peer.send(data, fd);
  close(fd);
}

TEST(pool) {
  const Started started;
  CUmemoryPool pool = make_pool(kFd);
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocFromPoolAsync(&pointer, kSize, pool, nullptr));
  OK(cu.cuMemsetD8(pointer, 7, kSize));
  CUmemoryPool of = nullptr;
  OK(cu.cuPointerGetAttribute(static_cast<void*>(&of), CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                              pointer));
  CHECK(of == pool);
  CUipcMemHandle old{};
  EQUAL(cu.cuIpcGetMemHandle(&old, pointer), CUDA_ERROR_INVALID_VALUE);
  {
    Peer peer("imports_pool");
    send_pool_memory(peer, pool, pointer);
    peer.receive<int>();
    if (cu.fake) EQUAL(cu.fake_cuda_live(FAKE_CUDA_POOL_POINTER, peer.pid()), 1U);
    peer.send(1);
  }
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
  OK(cu.cuMemPoolDestroy(pool));
  if (!cu.fake) return;
  EQUAL(cu.fake_cuda_faults(0), 0U);
  EQUAL(cu.fake_cuda_bytes(0), 0U);
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_POOL, 0), 0U);
}

FAKE_TEST(pool_memory_is_freed_by_importers_first, "") {
  const Started started;
  CUmemoryPool pool = make_pool(kFd);
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocFromPoolAsync(&pointer, kSize, pool, nullptr));
  OK(cu.cuMemsetD8(pointer, 7, kSize));
  {
    Peer peer("imports_pool");
    send_pool_memory(peer, pool, pointer);
    peer.receive<int>();
    OK(cu.cuMemFreeAsync(pointer, nullptr));
    OK(cu.cuStreamSynchronize(nullptr));
    EQUAL(cu.fake_cuda_faults(FAKE_CUDA_POOL_FREED_BEFORE_IMPORTERS), 1U);
    peer.send(1);
  }
  OK(cu.cuMemPoolDestroy(pool));
  EQUAL(cu.fake_cuda_bytes(0), 0U);
}

TEST(pool_without_handle_type) {
  const Started started;
  CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAllocFromPoolAsync(&pointer, kSize, pool, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
  int fd = -1;
  CHECK(cu.cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0) != CUDA_SUCCESS);
  OK(cu.cuMemFree(pointer));
  OK(cu.cuMemPoolDestroy(pool));
  // A default pool has no handle type, and "cannot be destroyed".
  OK(cu.cuDeviceGetDefaultMemPool(&pool, started.device));
  CHECK(cu.cuMemPoolExportToShareableHandle(&fd, pool, kFd, 0) != CUDA_SUCCESS);
  CHECK(cu.cuMemPoolDestroy(pool) != CUDA_SUCCESS);
  OK(cu.cuMemAllocAsync(&pointer, kSize, nullptr));
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
}
