// The memory of weights that lie on a device, as its holders have it (on_device.h).
#pragma once

#include "base/counted.h"
#include "device/shared_block.h"
#include "modules/shared_weights/fork_closed.h"

namespace tenon::shared_weights {

struct DeviceBlock {
  Ref<device::CudaSharedBlock> block;  // null: the weights lie in the CPU's memory
  ForkClosed fd;                       // of the block; it keeps the memory, and is lent to others
};

}  // namespace tenon::shared_weights
