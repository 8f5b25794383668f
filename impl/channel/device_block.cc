#include "channel/device_block.h"

#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/zeros.h"
#include "device/route.h"

namespace tenon::channel {
namespace {

struct DeviceBlockHeader {
  uint32_t nbytes;
  uint32_t version;
  uint32_t n_devices;
  uint32_t n_segments;
};
struct WireDevice {
  std::array<std::byte, 16> uuid;
  uint32_t has_event;
  uint32_t reserved;
  std::array<std::byte, 64> event;
};
struct WireSegment {
  uint32_t device;
  uint32_t n_fds;
  uint32_t handle_nbytes;
  uint32_t reserved;
  std::array<std::byte, 128> handle;
};
static_assert(sizeof(DeviceBlockHeader) == 16 && sizeof(WireDevice) == 88 &&
              sizeof(WireSegment) == 144);
static_assert(device::kMostCudaRouteNbytes == sizeof(WireSegment::handle));

constexpr uint32_t kDeviceBlockVersion = 1;
constexpr uint32_t kMostDevices = 1024;

Status corrupt_device_block(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("devices"));
}

uint64_t device_block_length(uint64_t n_devices, uint64_t n_segments) noexcept {
  return sizeof(DeviceBlockHeader) + n_devices * sizeof(WireDevice) +
         n_segments * sizeof(WireSegment);
}

template <typename T>
void put_next(std::byte** to, const T& record) noexcept {
  std::memcpy(*to, &record, sizeof record);
  *to += sizeof record;
}
template <typename T>
T take(const std::byte** from) noexcept {
  T record;
  std::memcpy(&record, *from, sizeof record);
  *from += sizeof record;
  return record;
}

}  // namespace

uint64_t DeviceBlock::n_fds() const noexcept {
  uint64_t count = 0;
  for (const DeviceSegmentRecord& segment : segments) count += segment.n_fds;
  return count;
}

std::vector<std::byte> encode_device_block(const DeviceBlock& block) {
  const uint64_t nbytes = device_block_length(block.devices.size(), block.segments.size());
  std::vector<std::byte> bytes(nbytes);
  std::byte* to = bytes.data();
  put_next(&to, DeviceBlockHeader{static_cast<uint32_t>(nbytes), kDeviceBlockVersion,
                                  static_cast<uint32_t>(block.devices.size()),
                                  static_cast<uint32_t>(block.segments.size())});
  for (const DeviceRecord& device : block.devices) {
    WireDevice record{};
    record.uuid = device.uuid;
    record.has_event = device.has_event ? 1 : 0;
    if (device.has_event) record.event = device.event;
    put_next(&to, record);
  }
  for (const DeviceSegmentRecord& segment : block.segments) {
    WireSegment record{};
    record.device = segment.device;
    record.n_fds = segment.n_fds;
    record.handle_nbytes = static_cast<uint32_t>(segment.handle.size());
    std::copy(segment.handle.begin(), segment.handle.end(), record.handle.begin());
    put_next(&to, record);
  }
  return bytes;
}

Result<DeviceBlock> decode_device_block(std::span<const std::byte> bytes, size_t* used) {
  if (bytes.size() < sizeof(DeviceBlockHeader))
    return corrupt_device_block("a device block that is cut short");
  const std::byte* from = bytes.data();
  const auto header = take<DeviceBlockHeader>(&from);
  if (header.version != kDeviceBlockVersion) {
    return Status(Code::kIncompatible, format("a device block of version %u", header.version))
        .with("field", std::string("devices"));
  }
  if (header.n_devices == 0 || header.n_devices > kMostDevices)
    return corrupt_device_block("a device block of no devices, or too many");
  const uint64_t nbytes = device_block_length(header.n_devices, header.n_segments);
  if (header.nbytes != nbytes || nbytes > bytes.size())
    return corrupt_device_block("a device block of another length than it says");
  DeviceBlock block;
  block.devices.resize(header.n_devices);
  for (DeviceRecord& device : block.devices) {
    const auto record = take<WireDevice>(&from);
    if (record.has_event > 1 || record.reserved != 0)
      return corrupt_device_block("a device that neither has an event nor has none");
    if (record.has_event == 0 && !is_zero(record.event))
      return corrupt_device_block("a device's event that it does not have");
    device.uuid = record.uuid;
    device.has_event = record.has_event == 1;
    device.event = record.event;
  }
  block.segments.resize(header.n_segments);
  for (DeviceSegmentRecord& segment : block.segments) {
    const auto record = take<WireSegment>(&from);
    if (record.device >= header.n_devices)
      return corrupt_device_block("a segment of no device of the block");
    if (record.handle_nbytes > record.handle.size() || record.reserved != 0)
      return corrupt_device_block("a handle that is too long");
    const std::span<const std::byte> handle(record.handle);
    if (!is_zero(handle.subspan(record.handle_nbytes)))
      return corrupt_device_block("bytes behind a handle that are not 0");
    if (record.n_fds > device::kMostCudaFds || (record.handle_nbytes == 0 && record.n_fds != 0))
      return corrupt_device_block("a handle with too many fds");
    segment.device = record.device;
    segment.n_fds = record.n_fds;
    segment.handle.assign(handle.begin(), handle.begin() + record.handle_nbytes);
  }
  *used = nbytes;
  return block;
}

}  // namespace tenon::channel
