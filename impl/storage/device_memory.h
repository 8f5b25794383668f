// DeviceMemory is the memory of a storage whose bytes lie on a device and not in the CPU's memory.
// device/memory.h implements it for CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memory/lease.h"

namespace tenon::storage {

// A device in DLPack's numbers: type 1 is the CPU, and 2 is CUDA.
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
  const std::string& name() const noexcept { return name_; }  // as PyTorch writes the device
  // Called when the storage ends. Frees the memory when neither a stream nor another process uses
  // it any more, which may be now or later. It may call the driver, and release functions of this
  // and other memory, so the caller holds no ranked lock. In a forked child it frees nothing.
  virtual void end(std::unique_ptr<DeviceMemory> self) noexcept = 0;
  // Closes memory of a lender that is gone, as soon as the streams that use it have passed. False:
  // it is this process's own memory, or nothing could be closed.
  virtual bool close_lent() noexcept { return false; }
  // The lease under which the memory was lent to this process. Null: there is none.
  virtual const memory::Lease* lease() const noexcept { return nullptr; }

 private:
  Device device_;
  std::string name_;
};

}  // namespace tenon::storage
