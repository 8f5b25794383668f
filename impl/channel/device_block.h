// The device block: what stands between lease block and descriptor in a message with storages of a
// device. Bytes only; specified in docs/format/cuda.md.
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
  bool has_event = false;  // the bytes are good once it has passed; else they are already
  cuda::IpcHandle event{};
};

// Storages that one handle leads to.
struct DeviceSegmentRecord {
  uint32_t device = 0;            // index
  uint32_t n_fds = 0;             // that go with the handle
  std::vector<std::byte> handle;  // as in tenon_cuda_handle; empty: of empty storages
};

struct DeviceBlock {
  std::vector<DeviceRecord> devices;
  std::vector<DeviceSegmentRecord> segments;

  uint64_t n_fds() const noexcept;
};

std::vector<std::byte> encode_device_block(const DeviceBlock& block);
// From the start of `bytes`, which must be private to this process. `used`: how long it is. What a
// handle says is not looked at.
Result<DeviceBlock> decode_device_block(std::span<const std::byte> bytes, size_t* used);

}  // namespace tenon::channel
