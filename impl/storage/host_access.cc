#include "storage/host_access.h"

namespace tenon::storage {

Status check_host(Device device) {
  if (device.type == kCpu.type) return Status::ok();
  return Status(Code::kUnsupported, format("the bytes are on device (%d, %d), not the CPU's: only "
                                           "work of that device reads and writes them",
                                           device.type, device.id));
}

}  // namespace tenon::storage
