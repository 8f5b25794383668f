#include "channel/devices.h"

#include <unordered_map>
#include <utility>

#include "cuda/device.h"
#include "device/memory.h"

namespace tenon::channel {
namespace {

using device::ReachableCuda;
using tensor::DescriptorContent;
using tensor::Reach;
using tensor::SegmentRecord;

// A device of a received message, and the stream in which it is used.
struct Opened {
  int32_t device = 0;
  cuda::Stream stream = nullptr;
};

// A device of a message that is being sent.
struct Used {
  uint32_t index = 0;
  bool is_marked = false;
  // Null in a marked device: no event could be had, so make_device_block() waited for the stream.
  std::shared_ptr<const device::CudaEvent> event;
};

Result<std::vector<Opened>> open_devices(const DeviceBlock& block, const DeviceStreams& streams) {
  std::vector<Opened> opened;
  opened.reserve(block.devices.size());
  for (const DeviceRecord& record : block.devices) {
    TENON_ASSIGN(const cuda::Device device, cuda::find_device(record.uuid));
    cuda::Stream stream = streams.of(device.ordinal);
    if (record.has_event) TENON_TRY(device::wait_for_lender(record.event, stream, device.ordinal));
    opened.push_back({device.ordinal, stream});
  }
  return opened;
}

// For each device segment, whether the receiver must not write it: because the sender lent it
// read-only, or because the connection opens everything read-only.
std::vector<bool> find_read_only(const DeviceBlock& block, const DescriptorContent& content,
                                 memory::Access wanted) {
  std::vector<bool> read_only(block.segments.size(), wanted == memory::Access::kReadOnly);
  for (const SegmentRecord& record : content.segments) {
    if (record.reach == Reach::kDevice &&
        static_cast<memory::Access>(record.access) == memory::Access::kReadOnly)
      read_only[record.fd_index] = true;
  }
  return read_only;
}

// Checks that a handle leads to every segment that has bytes.
Status check_handles(const DeviceBlock& block, const DescriptorContent& content) {
  for (const SegmentRecord& record : content.segments) {
    if (record.reach == Reach::kDevice && record.nbytes != 0 &&
        block.segments[record.fd_index].handle.empty())
      return Status(Code::kCorrupt, "memory of a device to which no handle leads")
          .with("field", std::string("devices"));
  }
  return Status::ok();
}

}  // namespace

void DeviceStreams::set(int32_t device, cuda::Stream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_[device] = stream;
}

cuda::Stream DeviceStreams::of(int32_t device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(device);
  return found == streams_.end() ? nullptr : found->second;
}
bool DeviceStreams::in_use() const noexcept {
  return !std::unique_lock<std::mutex>(mutex_, std::try_to_lock).owns_lock();
}

Result<DeviceBlock> make_device_block(const tensor::Packed& packed, const DeviceStreams& streams,
                                      std::vector<int>* fds) {
  DeviceBlock block;
  std::unordered_map<int32_t, Used> used;  // by ordinal
  block.segments.reserve(packed.device_segments.size());
  for (const tensor::DeviceSegment& segment : packed.device_segments) {
    const auto [place, is_new] = used.try_emplace(segment.device);
    Used& device = place->second;
    if (is_new) {
      TENON_ASSIGN(const cuda::Device found, cuda::find_device(segment.device));
      device.index = static_cast<uint32_t>(block.devices.size());
      block.devices.push_back({found.uuid, false, {}});
    }
    DeviceSegmentRecord& record = block.segments.emplace_back();
    record.device = device.index;
    if (!segment.exported) continue;
    TENON_ASSIGN(record.handle,
                 device::encode_cuda_handle(segment.exported->route, segment.read_only));
    const std::vector<int>& numbers = segment.exported->route.fd_numbers;
    record.n_fds = static_cast<uint32_t>(numbers.size());
    fds->insert(fds->end(), numbers.begin(), numbers.end());
    if (device.is_marked) continue;
    TENON_ASSIGN(device.event, device::mark_lent_cuda(streams.of(segment.device), segment.device));
    device.is_marked = true;
    block.devices[device.index].has_event = device.event != nullptr;
    if (device.event) block.devices[device.index].event = device.event->handle();
  }
  for (const Ref<device::CudaLent>& lent : packed.lent) lent->set_event(used[lent->device()].event);
  return block;
}

Result<std::vector<ReachableCuda>> reach_devices(const DeviceBlock& block,
                                                 std::span<const os::Fd> fds,
                                                 const DescriptorContent& content,
                                                 const DeviceStreams& streams,
                                                 const DeviceOpenOptions& options) {
  TENON_TRY(check_handles(block, content));
  if (options.open.is_private()) {
    return Status(Code::kUnsupported,
                  "memory of a device came, and there are no private openings of it");
  }
  TENON_ASSIGN(const std::vector<Opened> devices, open_devices(block, streams));
  const std::vector<bool> read_only = find_read_only(block, content, options.open.access);
  std::vector<ReachableCuda> reached;
  reached.reserve(block.segments.size());
  for (size_t i = 0; i < block.segments.size(); ++i) {
    const DeviceSegmentRecord& record = block.segments[i];
    const Opened& device = devices[record.device];
    std::vector<int> numbers;
    for (const os::Fd& fd : fds.first(record.n_fds)) numbers.push_back(fd.get());
    fds = fds.subspan(record.n_fds);
    ReachableCuda reach;
    reach.device = device.device;
    if (!record.handle.empty()) {
      TENON_ASSIGN(reach, device::reach_cuda(record.handle, numbers, device.device, read_only[i]));
      if (options.keep_open && reach.mapping) device::keep_cuda_warm(reach.mapping);
    }
    reach.stream = device.stream;
    reached.push_back(std::move(reach));
  }
  return reached;
}

}  // namespace tenon::channel
