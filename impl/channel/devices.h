// Memory of devices in the messages of a connection: in which streams it is used, and how it gets
// into a device block and out of one.
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
#include "os/fd.h"
#include "share/by_fd.h"
#include "share/cuda_lent.h"
#include "tensor/descriptor.h"
#include "tensor/pack.h"

namespace tenon::channel {

// One for each device; the default stream where none is named.
class DeviceStreams {
 public:
  void set(int32_t device, cuda::Stream stream);
  cuda::Stream of(int32_t device) const;
  bool in_use() const noexcept;  // by a thread, at this moment

 private:
  mutable std::mutex mutex_;
  std::map<int32_t, cuda::Stream> streams_;
};

// For what is packed: its handles, and for each device an event of its stream, which the leases
// keep. Without an event to be had it waits for the stream. `fds`: of the handles, in their order,
// behind what is there; borrowed from the exports of `packed`.
Result<DeviceBlock> make_device_block(const tensor::Packed& packed, const DeviceStreams& streams,
                                      std::vector<int>* fds);

struct DeviceOpenOptions {
  share::OpenOptions open;
  bool keep_open = false;
};
// One for each segment of the block. What is given from now on to the streams of its devices waits
// for the sender's. The fds are borrowed.
Result<std::vector<share::CudaReach>> reach_devices(const DeviceBlock& block,
                                                    std::span<const os::Fd> fds,
                                                    const tensor::DescriptorContent& content,
                                                    const DeviceStreams& streams,
                                                    const DeviceOpenOptions& options);

}  // namespace tenon::channel
