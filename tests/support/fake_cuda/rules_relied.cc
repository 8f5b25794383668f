// Rules that Tenon relies on without checking them: what the driver says about each kind of memory,
// one call for several mappings, an event that is destroyed before a wait for it has passed, and
// refusals.
#include <atomic>
#include <ctime>

#include "peer.h"

using namespace rules;

namespace {

// The questions of impl/cuda/memory.cc, in one call as there.
struct Answers {
  CUmemorytype type{};
  CUcontext context = nullptr;
  CUdeviceptr base = 0;
  size_t size = 0;
  unsigned long long id = 0;
  int device = -1;
  unsigned managed = 0;
  unsigned ipc = 0;
  unsigned long long handle_types = 0;
  CUmemoryPool pool = nullptr;
};

Answers ask(CUdeviceptr pointer) {
  Answers said;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                      CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                      CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
  void* into[] = {&said.type,         static_cast<void*>(&said.context),
                  &said.base,         &said.size,
                  &said.id,           &said.device,
                  &said.managed,      &said.ipc,
                  &said.handle_types, static_cast<void*>(&said.pool)};
  OK(cu.cuPointerGetAttributes(10, attributes, into, pointer));
  // "Returns in *data a boolean": cuda.h does not name its width.
  said.managed &= 0xffU;
  said.ipc &= 0xffU;
  return said;
}

// Checks what holds for all memory of the first device.
void check_device_memory(const Answers& said, CUdeviceptr pointer) {
  EQUAL(said.type, CU_MEMORYTYPE_DEVICE);
  EQUAL(said.device, 0);
  EQUAL(said.managed, 0U);
  CHECK(said.base != 0 && said.base <= pointer && pointer - said.base < said.size);
  CHECK(said.id != 0);
}

CUmemGenericAllocationHandle make_piece(size_t size) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = kFd;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  OK(cu.cuMemCreate(&handle, size, &prop, 0));
  return handle;
}

// Two pieces side by side, with unmapped addresses behind them.
struct TwoPieces {
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle pieces[2] = {make_piece(kSize), make_piece(2 * kSize)};
  TwoPieces() {
    OK(cu.cuMemAddressReserve(&base, 4 * kSize, 0, 0, 0));
    OK(cu.cuMemMap(base, kSize, 0, pieces[0], 0));
    OK(cu.cuMemMap(base + kSize, 2 * kSize, 0, pieces[1], 0));
    CUmemAccessDesc desc{};
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cu.cuMemSetAccess(base, 3 * kSize, &desc, 1));
  }
  TwoPieces(const TwoPieces&) = delete;
  TwoPieces& operator=(const TwoPieces&) = delete;
  ~TwoPieces() {
    OK(cu.cuMemUnmap(base, 3 * kSize));
    OK(cu.cuMemAddressFree(base, 4 * kSize));
    for (const CUmemGenericAllocationHandle piece : pieces) OK(cu.cuMemRelease(piece));
  }
};

}  // namespace

PEER(asks_of_received) {
  const Started started;
  const Sent sent = parent.receive<Sent>();
  CUdeviceptr pointer = 0;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, kLazy));
  const Answers said = ask(pointer + 4096);
  check_device_memory(said, pointer + 4096);
  EQUAL(said.base, pointer);
  EQUAL(said.size, kSize);
  // "an existing device memory allocation created with cuMemAlloc"
  CUipcMemHandle again{};
  REFUSED(cu.cuIpcGetMemHandle(&again, pointer), CUDA_ERROR_INVALID_VALUE);
  OK(cu.cuIpcCloseMemHandle(pointer));
}

TEST(asked_of_allocated_memory) {
  const Started started;
  CUdeviceptr pointer = 0;
  CUdeviceptr other = 0;
  OK(cu.cuMemAlloc(&pointer, kSize));
  OK(cu.cuMemAlloc(&other, 4096));
  const Answers said = ask(pointer + 5000);
  check_device_memory(said, pointer + 5000);
  EQUAL(said.base, pointer);
  EQUAL(said.size, kSize);
  CHECK(said.context == started.context);
  CHECK(said.pool == nullptr);
  CHECK(said.id != ask(other).id);
  EQUAL(said.id, ask(pointer).id);
  // A device may have no legacy handles at all.
  Sent sent;
  const CUresult has_handle = cu.cuIpcGetMemHandle(&sent.memory, pointer);
  EQUAL(said.ipc, has_handle == CUDA_SUCCESS ? 1U : 0U);
  if (has_handle == CUDA_SUCCESS) {
    Peer peer("asks_of_received");
    peer.send(sent);
  } else {
    lacking = "it has no IPC handles";
  }
  OK(cu.cuMemFree(other));
  OK(cu.cuMemFree(pointer));
}

TEST(asked_of_mapped_memory) {
  const Started started;
  const TwoPieces two;
  for (const size_t offset : {size_t{0}, kSize + 4096}) {
    const CUdeviceptr pointer = two.base + offset;
    const Answers said = ask(pointer);
    check_device_memory(said, pointer);
    EQUAL(said.ipc, 0U);
    EQUAL(said.handle_types, static_cast<unsigned long long>(kFd));
    CHECK(said.pool == nullptr);
    // The answer is the piece that contains the pointer, and not the reservation.
    CUdeviceptr base = 0;
    size_t size = 0;
    OK(cu.cuMemGetAddressRange(&base, &size, pointer));
    EQUAL(base, offset == 0 ? two.base : two.base + kSize);
    EQUAL(size, offset == 0 ? kSize : 2 * kSize);
  }
  CHECK(ask(two.base).id != ask(two.base + kSize).id);
}

TEST(asked_of_pool_memory) {
  const Started started;
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = kFd;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemPoolCreate(&pool, &props));
  OK(cu.cuMemAllocFromPoolAsync(&pointer, kSize, pool, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
  const Answers said = ask(pointer + 4096);
  check_device_memory(said, pointer + 4096);
  EQUAL(said.ipc, 0U);
  CHECK(said.pool == pool);
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
  OK(cu.cuMemPoolDestroy(pool));
}

TEST(asked_of_managed_and_host_memory) {
  const Started started;
  CUdeviceptr managed = 0;
  OK(cu.cuMemAllocManaged(&managed, kSize, CU_MEM_ATTACH_GLOBAL));
  EQUAL(ask(managed).managed, 1U);
  OK(cu.cuMemFree(managed));
  void* pinned = nullptr;
  OK(cu.cuMemHostAlloc(&pinned, 4096, 0));
  EQUAL(ask(reinterpret_cast<CUdeviceptr>(pinned)).type, CU_MEMORYTYPE_HOST);
  OK(cu.cuMemFreeHost(pinned));
}

// Access is set and removed for all mappings at once.
TEST(several_mappings_at_once) {
  const Started started;
  {
    const TwoPieces two;
    OK(cu.cuMemsetD8(two.base, 7, 3 * kSize));
    EQUAL(first_byte(two.base + kSize - 1), 7);
    EQUAL(first_byte(two.base + 3 * kSize - 1), 7);
  }
  if (cu.fake) EQUAL(cu.fake_cuda_bytes(0), 0U);
}

PEER(lets_go_of_the_event) {
  const Started started;
  const Sent sent = parent.receive<Sent>();
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, kLazy));
  OK(cu.cuIpcOpenEventHandle(&event, sent.event));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* late = nullptr;
  // A copy into memory that the driver does not know may block the host, and the gate opens only
  // later.
  OK(cu.cuMemHostAlloc(&late, 1, 0));
  OK(cu.cuStreamWaitEvent(stream, event, 0));
  OK(cu.cuEventDestroy(event));
  OK(cu.cuMemcpyDtoHAsync(late, pointer, 1, stream));
  EQUAL(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  parent.send(1);
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(*static_cast<unsigned char*>(late), 2);
  OK(cu.cuMemFreeHost(late));
  OK(cu.cuStreamDestroy(stream));
  OK(cu.cuIpcCloseMemHandle(pointer));
}

// "An event may be destroyed before it is complete": this holds for an imported event, too, and the
// stream goes on waiting.
TEST(imported_event_goes_before_its_wait) {
  const Started started;
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  Sent sent;
  OK(cu.cuMemAlloc(&pointer, kSize));
  OK(cu.cuMemsetD8(pointer, 1, kSize));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, kInterprocess));
  OK(cu.cuIpcGetMemHandle(&sent.memory, pointer));
  OK(cu.cuIpcGetEventHandle(&sent.event, event));
  static std::atomic<int> gate{0};
  const auto wait = [](void*) {
    const timespec pause = {0, 1000000};
    while (gate == 0) nanosleep(&pause, nullptr);
  };
  OK(cu.cuLaunchHostFunc(stream, wait, nullptr));
  OK(cu.cuMemsetD8Async(pointer, 2, kSize, stream));
  OK(cu.cuEventRecord(event, stream));
  {
    Peer peer("lets_go_of_the_event");
    peer.send(sent);
    peer.receive<int>();
    gate = 1;
  }
  OK(cu.cuEventDestroy(event));
  OK(cu.cuStreamDestroy(stream));
  OK(cu.cuMemFree(pointer));
  if (cu.fake) EQUAL(cu.fake_cuda_faults(0), 0U);
}

TEST(event_is_recorded_in_its_context) {
  const Started started;
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUcontext second = nullptr;
  CUstream of_second = nullptr;
  OK(cu.cuCtxCreate(&second, 0, started.device));
  OK(cu.cuStreamCreate(&of_second, CU_STREAM_NON_BLOCKING));
  // "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE is
  // returned."
  EQUAL(cu.cuEventRecord(event, of_second), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.cuStreamWaitEvent(of_second, event, 0));
  OK(cu.cuStreamDestroy(of_second));
  OK(cu.cuCtxDestroy(second));
  OK(cu.cuCtxSetCurrent(started.context));
  OK(cu.cuEventDestroy(event));
}

PEER(has_no_context) {
  OK(cu.cuInit(0));
  const Sent sent = parent.receive<Sent>();
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  REFUSED(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_CONTEXT);
  REFUSED(cu.cuIpcOpenMemHandle(&pointer, sent.memory, kLazy), CUDA_ERROR_INVALID_CONTEXT);
  REFUSED(cu.cuIpcOpenEventHandle(&event, sent.event), CUDA_ERROR_INVALID_CONTEXT);
  const Started started;
  // Only the context was missing before. A handle that no driver made is still refused.
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, kLazy));
  OK(cu.cuIpcOpenEventHandle(&event, sent.event));
  OK(cu.cuEventDestroy(event));
  OK(cu.cuIpcCloseMemHandle(pointer));
  REFUSED(cu.cuIpcOpenEventHandle(&event, CUipcEventHandle{}), CUDA_ERROR_INVALID_HANDLE);
}

TEST(events_and_opens_need_a_context) {
  const Started started;
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  Sent sent;
  OK(cu.cuMemAlloc(&pointer, kSize));
  OK(cu.cuEventCreate(&event, kInterprocess));
  OK(cu.cuIpcGetMemHandle(&sent.memory, pointer));
  OK(cu.cuIpcGetEventHandle(&sent.event, event));
  {
    Peer peer("has_no_context");
    peer.send(sent);
  }
  OK(cu.cuEventDestroy(event));
  OK(cu.cuMemFree(pointer));
}

FAKE_TEST(piece_is_released_once, "") {
  const Started started;
  const CUmemGenericAllocationHandle piece = make_piece(kSize);
  OK(cu.cuMemRelease(piece));
  EQUAL(cu.cuMemRelease(piece), CUDA_ERROR_INVALID_VALUE);
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_FREED_TWICE), 1U);
}
