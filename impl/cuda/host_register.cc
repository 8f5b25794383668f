#include "cuda/host_register.h"

#include <string>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {
namespace {

// The flag for registering memory that the device must not write. Each device that is to reach the
// memory is asked, because a flag that restricts the first device need not restrict the others.
Result<unsigned> read_only_flag(const Driver& cu, int32_t ordinal) {
  CUdevice device = 0;
  int has_flag = 0;
  int uses_host_page_tables = 0;
  const std::string what =
      format("whether CUDA device %d can be kept from writing to host memory", ordinal);
  TENON_CUDA(cu, cu.cuDeviceGet(&device, ordinal), what);
  TENON_CUDA(cu,
             cu.cuDeviceGetAttribute(&has_flag,
                                     CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, device),
             what);
  if (has_flag != 0) return unsigned{CU_MEMHOSTREGISTER_READ_ONLY};
  TENON_CUDA(cu,
             cu.cuDeviceGetAttribute(
                 &uses_host_page_tables,
                 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, device),
             what);
  if (uses_host_page_tables != 0) return 0U;
  return Status(Code::kUnsupported, format("the memory is read-only here, and CUDA device %d "
                                           "cannot be kept from writing to host memory",
                                           ordinal));
}

}  // namespace

Status register_host(std::byte* base, uint64_t nbytes, int32_t device, bool read_only) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kHost));
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  if (read_only) {
    TENON_ASSIGN(const unsigned more, read_only_flag(*cu, device));
    flags |= more;
  }
  TENON_CUDA(*cu, cu->cuMemHostRegister(base, nbytes, flags),
             format("registering %llu bytes of host memory with CUDA device %d",
                    static_cast<unsigned long long>(nbytes), device));
  return Status::ok();
}

void unregister_host(std::byte* base, int32_t device) noexcept {
  end_in_primary(device, [&](const Driver& cu) { (void)cu.cuMemHostUnregister(base); });
}

Result<DevicePointer> device_pointer(std::byte* base, int32_t device, bool read_only) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  if (read_only) TENON_TRY(read_only_flag(*cu, device).status());
  CUdeviceptr pointer = 0;
  TENON_CUDA(*cu, cu->cuMemHostGetDevicePointer(&pointer, base, 0),
             format("the address of host memory for CUDA device %d", device));
  return DevicePointer{pointer};
}

}  // namespace tenon::cuda
