// Says where an import puts the tensors of each device that an archive names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::module {

class DeviceMap {
 public:
  // The CPU, or a CUDA device by its ordinal in this process.
  struct Target {
    static constexpr int32_t kCpu = -1;
    int32_t ordinal = kCpu;
    bool operator==(const Target&) const noexcept = default;
  };

  // "cuda:1=cuda:0,mps=cpu": each pair names a device as archives do, and the place of its tensors
  // here. INVALID_ARGUMENT, with the field "device_map", for any other text. Whether this process
  // has the devices is not checked (check_devices() in import_storages.h).
  static Result<DeviceMap> parse(std::string_view text);

  bool is_empty() const noexcept { return entries_.empty(); }
  // Returns the place for tensors of `device`, or nothing if no pair fits. A pair for "cuda:1" wins
  // over a pair for "cuda", which is for every number.
  std::optional<Target> find(std::string_view device) const noexcept;
  // The CUDA devices that tensors can be put on.
  std::vector<int32_t> ordinals() const;

 private:
  struct Entry {
    std::string device;
    Target target;
  };
  std::vector<Entry> entries_;
};

}  // namespace tenon::module
