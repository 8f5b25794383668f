// The device block stands between the lease block and the descriptor in a message that has storages
// on a device. devices.cc makes and uses it. This file only encodes and decodes its bytes
// (docs/format/cuda.md).
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

// A range of device memory that one handle reaches.
struct DeviceSegmentRecord {
  uint32_t device = 0;            // index in DeviceBlock::devices
  uint32_t n_fds = 0;             // fds that travel with the handle
  std::vector<std::byte> handle;  // as in tenon_cuda_handle; empty if all storages are
};

struct DeviceBlock {
  std::vector<DeviceRecord> devices;
  std::vector<DeviceSegmentRecord> segments;

  uint64_t n_fds() const noexcept;
};

std::vector<std::byte> encode_device_block(const DeviceBlock& block);
// Decodes the block at the start of `bytes`, which must be private to this process. `used` gets the
// length of the block. The content of a handle is not checked. CORRUPT or INCOMPATIBLE, with detail
// "field" = "devices".
Result<DeviceBlock> decode_device_block(std::span<const std::byte> bytes, size_t* used);

}  // namespace tenon::channel
