// What the machine is that the fake plays: read once per process from the environment, FAKE_CUDA_*
// and CUDA_VISIBLE_DEVICES.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_cuda {

struct Device {
  uint32_t physical = 0;  // the same in every process of a world, as the UUID is
  size_t bytes = 0;
  bool mig = false;
  std::array<unsigned char, 16> gpu_uuid{};
  std::array<unsigned char, 16> uuid{};  // of the MIG instance, else that of the GPU
  std::string name;
};

// The nth call, counted from 1 in this process; with `onwards` each one from there.
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
  std::vector<uint32_t> visible;  // ordinal of this process -> index in `machine`
  bool ipc = true;
  bool vmm = true;
  bool pools = true;
  bool read_only_access = true;
  bool fabric = false;
  bool integrated = false;
  bool mapped = false;
  bool same_addresses = false;
  uint64_t max_ipc_events = 0;  // 0: as many as the world holds
  uint64_t stream_latency_us = 0;
  std::map<std::string, uint64_t> latency_us;
  std::vector<Failure> failures;
};

const Config& config();
const Device& device_of(int ordinal);
inline bool is_device(int ordinal) {
  return ordinal >= 0 && static_cast<size_t>(ordinal) < config().visible.size();
}
// -1: this process does not see it.
int ordinal_of(uint32_t physical);
std::string uuid_text(const Device& device);

}  // namespace fake_cuda
