#include "cuda/vmm.h"

#include <cstring>

#include "base/checked.h"
#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {
namespace {

static_assert(sizeof(CUmemFabricHandle) == sizeof(FabricHandle));

// A reference to a piece, which the driver counts.
class PieceReference {
 public:
  explicit PieceReference(const Driver& cu) noexcept : cu_(cu) {}
  PieceReference(const PieceReference&) = delete;
  PieceReference& operator=(const PieceReference&) = delete;
  ~PieceReference() {
    if (handle_ != 0) (void)cu_.cuMemRelease(handle_);
  }
  Status retain(DevicePointer piece) {
    TENON_CUDA(cu_,
               cu_.cuMemRetainAllocationHandle(
                   &handle_, reinterpret_cast<void*>(static_cast<uintptr_t>(piece))),
               format("the handle of the device memory mapped at 0x%llx",
                      static_cast<unsigned long long>(piece)));
    return Status::ok();
  }
  Status import(const PieceHandle& piece) {
    if (piece.fabric != nullptr) {
      CUmemFabricHandle bytes{};
      std::memcpy(&bytes, piece.fabric->data(), sizeof bytes);
      TENON_CUDA(cu_,
                 cu_.cuMemImportFromShareableHandle(&handle_, &bytes, CU_MEM_HANDLE_TYPE_FABRIC),
                 "opening a fabric handle");
      return Status::ok();
    }
    auto* const number = reinterpret_cast<void*>(static_cast<intptr_t>(piece.fd));
    TENON_CUDA(cu_,
               cu_.cuMemImportFromShareableHandle(&handle_, number,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
               format("opening fd %d as device memory", piece.fd));
    return Status::ok();
  }
  CUresult create(uint64_t nbytes, const CUmemAllocationProp& prop) {
    return cu_.cuMemCreate(&handle_, nbytes, &prop, 0);
  }
  CUmemGenericAllocationHandle get() const noexcept { return handle_; }

 private:
  const Driver& cu_;
  CUmemGenericAllocationHandle handle_ = 0;
};

// The status for an address where cuMemGetAddressRange found no memory. NOT_FOUND is documented for
// such an address, and drivers return INVALID_VALUE too. Any other error has another reason, and
// says nothing about the memory.
Status not_mapped(const Driver& cu, CUresult result, DevicePointer at) {
  const auto address = static_cast<unsigned long long>(at);
  const std::string hole =
      format("no device memory is mapped at 0x%llx, in the midst of what is to be lent", address);
  switch (result) {
    case CUDA_SUCCESS: return Status(Code::kUnsupported, hole);  // it described other memory
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_INVALID_VALUE: return unsupported_status(cu, result, hole);
    default: return result_status(cu, result, format("asking what is mapped at 0x%llx", address));
  }
}

}  // namespace

Result<Pieces> find_pieces(DevicePointer pointer, uint64_t nbytes, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  Pieces found;
  const DevicePointer end = pointer + nbytes;
  for (DevicePointer at = pointer; at < end;) {
    CUdeviceptr base = 0;
    size_t size = 0;
    const CUresult result = cu->cuMemGetAddressRange(&base, &size, at);
    if (result != CUDA_SUCCESS || base > at || at - base >= size)
      return not_mapped(*cu, result, at);
    if (found.sizes.empty()) found.base = base;
    found.sizes.push_back(size);
    at = base + size;
  }
  return found;
}

Result<std::vector<os::Fd>> export_pieces(const Pieces& pieces) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kVmm));
  std::vector<os::Fd> fds;
  fds.reserve(pieces.sizes.size());
  DevicePointer at = pieces.base;
  for (const uint64_t nbytes : pieces.sizes) {
    PieceReference piece(*cu);
    TENON_TRY(piece.retain(at));
    int fd = -1;
    TENON_CUDA(
        *cu,
        cu->cuMemExportToShareableHandle(&fd, piece.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                         0),
        format("an fd of the device memory mapped at 0x%llx", static_cast<unsigned long long>(at)));
    fds.emplace_back(fd);
    at += nbytes;
  }
  return fds;
}

Result<FabricHandle> export_fabric(DevicePointer piece_base) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kVmm));
  PieceReference piece(*cu);
  TENON_TRY(piece.retain(piece_base));
  CUmemFabricHandle handle{};
  TENON_CUDA(*cu,
             cu->cuMemExportToShareableHandle(&handle, piece.get(), CU_MEM_HANDLE_TYPE_FABRIC, 0),
             format("the fabric handle of the device memory mapped at 0x%llx",
                    static_cast<unsigned long long>(piece_base)));
  FabricHandle bytes{};
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

// Reserves addresses in the current context.
Result<PieceMapping> PieceMapping::reserve(uint64_t nbytes) {
  TENON_ASSIGN(const Driver* const cu, driver());
  PieceMapping mapping;
  CUdeviceptr base = 0;
  TENON_CUDA(
      *cu, cu->cuMemAddressReserve(&base, nbytes, 0, 0, 0),
      format("reserving %llu bytes of device addresses", static_cast<unsigned long long>(nbytes)));
  mapping.base_ = base;
  mapping.nbytes_ = nbytes;
  return mapping;
}

Status PieceMapping::give_access(int32_t device, bool read_only) {
  TENON_ASSIGN(const Driver* const cu, driver());
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  TENON_CUDA(*cu, cu->cuMemSetAccess(base_, nbytes_, &access, 1),
             format("%s access of CUDA device %d to mapped memory",
                    read_only ? "read-only" : "read and write", device));
  return Status::ok();
}

Result<PieceMapping> PieceMapping::map(std::span<const PieceHandle> pieces, int32_t device,
                                       bool read_only) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kVmm));
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  uint64_t nbytes = 0;
  for (const PieceHandle& piece : pieces) {
    if (!checked_add(nbytes, piece.nbytes, &nbytes))
      return Status(Code::kInvalidArgument, "pieces of device memory of more than 2^64 bytes");
  }
  TENON_ASSIGN(PieceMapping mapping, reserve(nbytes));
  for (const PieceHandle& piece : pieces) {
    PieceReference memory(*cu);
    TENON_TRY(memory.import(piece));
    TENON_CUDA(*cu, cu->cuMemMap(mapping.base_ + mapping.mapped_, piece.nbytes, 0, memory.get(), 0),
               format("mapping a piece of device memory of %llu bytes",
                      static_cast<unsigned long long>(piece.nbytes)));
    mapping.mapped_ += piece.nbytes;
  }
  TENON_TRY(mapping.give_access(device, read_only));
  return mapping;
}

namespace {

// The status for memory that could not be made. A driver below 12.3 does not know the handle type
// of fabrics and reports a wrong argument. A newer driver requires the machine's permission for a
// fabric. No other part of the request of create() can cause these two errors.
Status not_made(const Driver& cu, CUresult result, PieceMapping::Handles handles,
                const std::string& what) {
  const bool no_fabric = handles == PieceMapping::Handles::kFabric &&
                         (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_PERMITTED);
  if (no_fabric)
    return unsupported_status(
        cu, result,
        what + ", which go through a fabric: there is none here that this process may use");
  return result_status(cu, result, what);
}

}  // namespace

Result<PieceMapping> PieceMapping::create(uint64_t nbytes, int32_t device, Handles handles) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kVmm));
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  prop.requestedHandleTypes = handles == Handles::kFd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                                      : CU_MEM_HANDLE_TYPE_FABRIC;
  size_t granularity = 0;
  if (const CUresult asked =
          cu->cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      asked != CUDA_SUCCESS) {
    return not_made(*cu, asked, handles, format("how memory of CUDA device %d is mapped", device));
  }
  uint64_t rounded = 0;
  if (granularity == 0 || !checked_round_up(nbytes, granularity, &rounded))
    return Status(Code::kInvalidArgument, "more than 2^64 bytes of device memory");
  PieceReference memory(*cu);
  if (const CUresult made = memory.create(rounded, prop); made != CUDA_SUCCESS) {
    return not_made(
        *cu, made, handles,
        format("%llu bytes of memory of CUDA device %d, with handles for other processes",
               static_cast<unsigned long long>(rounded), device));
  }
  TENON_ASSIGN(PieceMapping mapping, reserve(rounded));
  TENON_CUDA(
      *cu, cu->cuMemMap(mapping.base_, rounded, 0, memory.get(), 0),
      format("mapping %llu bytes of device memory", static_cast<unsigned long long>(rounded)));
  mapping.mapped_ = rounded;
  TENON_TRY(mapping.give_access(device, false));
  return mapping;
}

PieceMapping::~PieceMapping() {
  if (nbytes_ == 0) return;
  Result<const Driver*> found = driver();
  if (!found.is_ok()) return;  // in a child of fork the mapping is the parent's
  const Driver& cu = *found.value();
  if (mapped_ > 0) (void)cu.cuMemUnmap(base_, mapped_);
  (void)cu.cuMemAddressFree(base_, nbytes_);
}

}  // namespace tenon::cuda
