// Weights in the memory of a CUDA device. The whole file lies there, byte for byte. The names and
// places of the tensors are in a FROZEN segment of the CPU's memory that is as large as the
// device's memory and has only the bytes of the file that belong to no tensor. The rest of the
// segment are holes, which take no memory. So weights on a device are read from the segment by the
// code that reads a file, and the segment has the member as its tail (member.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "modules/shared_weights/device_block.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/place.h"
#include "modules/weights/weights.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::shared_weights {

// The CUDA device of "cuda:N", and nothing for "cpu". INVALID_ARGUMENT, with the detail "field",
// for any other text.
Result<std::optional<int32_t>> parse_device(std::string_view text);

// Does what choose_place() does, for weights in the memory of this device or, without one, of the
// CPU. The first call for a device starts the driver. INVALID_ARGUMENT: there is no such device.
// UNSUPPORTED: there is no driver, or this process is a child of fork that has none.
Result<Place> choose_place_on(std::optional<int32_t> device, const std::string& name,
                              const Access& access);

// Does what load_file() does. With a device, streams the file through a small buffer into memory of
// that device. UNSUPPORTED with the detail "name": a tensor that no view can show, because its
// record is compressed, has the other byte order or is misaligned; or the device has no memory that
// can be lent by an fd. RESOURCE_EXHAUSTED: the device has too little memory.
Result<Loaded> load_on(std::optional<int32_t> device, const OpenedFile& file, uint64_t max_nbytes,
                       std::atomic<uint64_t>* done, const std::function<Status()>& report,
                       const os::Waiter& waiter);

// Maps the memory behind an fd that a server sent. `segment` has the bytes that belong to no
// tensor, and is released after the memory.
Result<DeviceBlock> open_block(const os::Fd& fd, int32_t device,
                               const Ref<memory::Segment>& segment);

// Does what weights_of() does. The tensors are views of the block, unless it is null.
Result<Ref<weights::Weights>> weights_in(const Ref<memory::Segment>& segment,
                                         const Ref<device::CudaSharedBlock>& block,
                                         uint64_t file_offset, uint64_t file_nbytes,
                                         const std::string& label);

}  // namespace tenon::shared_weights
