// The device block stands between the lease block (lease_block.h) and the descriptor
// (tensor/descriptor.h) in a message that has storages on a device. devices.cc makes and uses it.
// This file only encodes and decodes its bytes (docs/format/cuda.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "cuda/device.h"
#include "cuda/ipc.h"

namespace tenon::channel {

struct DeviceRecord {
  cuda::Uuid uuid{};
  // Whether the sender's event comes along. Then the bytes are valid once the event has passed.
  // Without an event they are valid already.
  bool has_event = false;
  cuda::IpcHandle event{};
};

// A range of device memory that one handle reaches. A segment of the descriptor with reach kDevice
// names it by its index in DeviceBlock::segments. The fds of the segments travel in the order of
// the segments, behind those of the lease block. `handle` has the bytes of
// device::encode_cuda_handle(), at most 128. It is empty if all storages of this segment are empty,
// and then there are no fds.
struct DeviceSegmentRecord {
  uint32_t device = 0;  // index in DeviceBlock::devices
  uint32_t n_fds = 0;   // fds that travel with the handle
  std::vector<std::byte> handle;
};

struct DeviceBlock {
  std::vector<DeviceRecord> devices;
  std::vector<DeviceSegmentRecord> segments;

  // The fds of all segments together.
  uint64_t n_fds() const noexcept;
};

// Encodes a block, and checks nothing: the caller gives at most 128 bytes for a handle, and a
// device index that exists.
std::vector<std::byte> encode_device_block(const DeviceBlock& block);
// Decodes the block at the start of `bytes`, which no other process can change meanwhile. `used`
// gets the length of the block, behind which the descriptor begins. Counts, lengths and device
// indices are checked (at most 1024 devices), and the content of a handle is not. INCOMPATIBLE: a
// block of another version. CORRUPT: any other fault. Both have the detail "field" = "devices".
Result<DeviceBlock> decode_device_block(std::span<const std::byte> bytes, size_t* used);

}  // namespace tenon::channel
