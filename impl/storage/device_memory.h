// What stands behind a storage whose bytes are not the CPU's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memory/lease.h"

namespace tenon::storage {

// In DLPack's numbers.
struct Device {
  int32_t type = 1;
  int32_t id = 0;
  bool operator==(const Device&) const noexcept = default;
};
inline constexpr Device kCpu{};
inline constexpr int32_t kCuda = 2;

class DeviceMemory {
 public:
  explicit DeviceMemory(Device device)
      : device_(device), name_("cuda:" + std::to_string(device.id)) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  Device device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }  // as PyTorch writes it
  // The storage has gone. The memory goes when nobody uses it any more, in a stream or in another
  // process: now, or later.
  virtual void end(std::unique_ptr<DeviceMemory> self) noexcept = 0;
  // Closes memory of a lender that is gone, as soon as the streams that use it have passed. False:
  // it is this process's own memory, or nothing could be closed.
  virtual bool close_lent() noexcept { return false; }
  // The lease that it came under; null: none.
  virtual const memory::Lease* lease() const noexcept { return nullptr; }

 private:
  Device device_;
  std::string name_;
};

}  // namespace tenon::storage
