// Device memory in the messages of a connection. Connection notes here in which stream each
// device's memory is used, and turns device memory into a device block and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "channel/device_block.h"
#include "cuda/stream.h"
#include "device/lease.h"
#include "os/fd.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/pack.h"

namespace tenon::channel {

// The stream of each device. A device for which none was set uses the default stream.
class DeviceStreams {
 public:
  void set(int32_t device, cuda::Stream stream);
  cuda::Stream of(int32_t device) const;
  // Whether a thread is in set() or of() at this moment. A forked child then leaks the object.
  bool in_use() const noexcept;

 private:
  mutable std::mutex mutex_;
  std::map<int32_t, cuda::Stream> streams_;
};

// Makes the device block of a packed message: a handle for each device segment, and for each device
// an event in its stream. Each device lease of the message (Packed::lent) keeps its device's event
// until the lease ends. If no event can be had, the call waits for the stream. The fds of the
// handles, in the order of the handles, are appended to `fds`. They are borrowed from the exports
// of `packed`. On failure `fds` may have grown. The errors are those of the driver and of
// encode_cuda_handle().
Result<DeviceBlock> make_device_block(const tensor::Packed& packed, const DeviceStreams& streams,
                                      std::vector<int>* fds);

struct DeviceOpenOptions {
  share::OpenOptions open;
  bool keep_open = false;  // as in device::CudaOpenOptions
};
// Reaches the memory of each segment of the block, and returns one ReachableCuda for each. Work
// that is given to the streams of the devices after this call waits for the sender's events. `fds`,
// which are borrowed, must be block.n_fds() in number, and `content` must have passed
// decode_descriptor(). connection_recv.cc checks both. On failure nothing stays open, except what
// `keep_open` keeps.
//
// UNSUPPORTED: private openings, or no driver. CORRUPT: no handle leads to a segment that has
// bytes, or a handle is malformed. This ends the connection. NOT_FOUND: this process does not see
// the device. The other errors are those of device::reach_cuda().
Result<std::vector<device::ReachableCuda>> reach_devices(const DeviceBlock& block,
                                                         std::span<const os::Fd> fds,
                                                         const tensor::DescriptorContent& content,
                                                         const DeviceStreams& streams,
                                                         const DeviceOpenOptions& options);

}  // namespace tenon::channel
