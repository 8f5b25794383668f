// The machine that the fake plays. Each process reads it once from the environment: FAKE_CUDA_* and
// CUDA_VISIBLE_DEVICES.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cuda {

struct Device {
  uint32_t physical = 0;  // the same in every process of a world, like the UUID
  size_t bytes = 0;
  bool mig = false;
  std::array<unsigned char, 16> gpu_uuid{};
  std::array<unsigned char, 16> uuid{};  // the UUID of the MIG instance, or else of the GPU
  std::string name;
};

// The nth call in this process, counted from 1, fails. With `onwards` every later call fails, too.
struct Failure {
  std::string function;
  uint64_t nth = 0;
  bool onwards = false;
  int code = 0;
};

struct Config {
  std::string world;
  int driver = 0;
  std::vector<Device> machine;
  std::vector<uint32_t> visible;  // maps an ordinal of this process to an index in `machine`
  bool ipc = true;
  bool vmm = true;
  bool pools = true;
  bool read_only_access = true;
  bool fabric = false;
  bool integrated = false;
  bool mapped = false;
  bool same_addresses = false;
  uint64_t max_ipc_events = 0;  // 0: as many as the world can hold
  uint64_t stream_latency_us = 0;
  std::map<std::string, uint64_t> latency_us;
  std::vector<Failure> failures;
};

const Config& config();
const Device& device_of(int ordinal);
inline bool is_device(int ordinal) {
  return ordinal >= 0 && static_cast<size_t>(ordinal) < config().visible.size();
}
// Returns -1 if this process does not see the device.
int ordinal_of(uint32_t physical);
std::string uuid_text(const Device& device);

}  // namespace fake_cuda
