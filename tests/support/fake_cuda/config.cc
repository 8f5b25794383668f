#include "config.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace fake_cuda {
namespace {

// The library without cuGetProcAddress_v2 plays a driver of CUDA 11.
#ifndef FAKE_CUDA_NEWEST_DRIVER
#define FAKE_CUDA_NEWEST_DRIVER 13000
#endif

std::string variable(const char* name, const char* unset = "") {
#ifdef FAKE_CUDA_HIDDEN
  // The hidden driver reads only FAKE_CUDA_WORLD, because it has to know the world. A real driver
  // reads none of these variables.
  if (std::strcmp(name, "FAKE_CUDA_WORLD") != 0) return unset;
#endif
  const char* value = std::getenv(name);
  return value == nullptr ? unset : value;
}

bool flag(const char* name, bool unset) { return variable(name, unset ? "1" : "0") != "0"; }

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

[[noreturn]] void refuse(const char* name, const std::string& value) {
  std::fprintf(stderr, "fake libcuda: cannot read %s=%s\n", name, value.c_str());
  std::abort();
}

std::array<unsigned char, 16> uuid_from(uint64_t seed) {
  std::array<unsigned char, 16> uuid{};
  uint64_t state = seed;
  for (size_t i = 0; i < uuid.size(); ++i) {
    state += 0x9e3779b97f4a7c15U;
    uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    uuid[i] = static_cast<unsigned char>(mixed >> 56);
  }
  return uuid;
}

// FAKE_CUDA_DEVICES=gpu=1024,gpu=512,mig=128: sizes in megabytes. Neighbouring MIG instances belong
// to one GPU.
std::vector<Device> read_machine() {
  const std::string text = variable("FAKE_CUDA_DEVICES", "gpu=1024");
  std::vector<Device> machine;
  uint64_t gpu = 0;
  bool was_mig = false;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string kind = part.substr(0, equals);
    if (equals == std::string::npos || (kind != "gpu" && kind != "mig"))
      refuse("FAKE_CUDA_DEVICES", text);
    Device device;
    device.mig = kind == "mig";
    if (!device.mig || !was_mig) ++gpu;
    was_mig = device.mig;
    device.physical = static_cast<uint32_t>(machine.size());
    device.bytes = std::strtoull(part.c_str() + equals + 1, nullptr, 10) << 20;
    device.gpu_uuid = uuid_from(gpu);
    device.uuid = device.mig ? uuid_from(1000 + machine.size()) : device.gpu_uuid;
    device.name = device.mig ? "Fake GPU MIG 1g" : "Fake GPU";
    machine.push_back(device);
  }
  return machine;
}

// Reads CUDA_VISIBLE_DEVICES as the real driver does: indices or UUIDs, or prefixes of UUIDs. An
// entry that names no device hides all entries after it.
std::vector<uint32_t> read_visible(const std::vector<Device>& machine) {
  std::vector<uint32_t> visible;
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  if (value == nullptr) {
    for (const Device& device : machine) visible.push_back(device.physical);
  } else {
    for (const std::string& entry : split(value, ',')) {
      const Device* found = nullptr;
      for (const Device& device : machine) {
        const bool by_index = entry == std::to_string(device.physical);
        const bool by_uuid =
            entry.size() > 4 && uuid_text(device).compare(0, entry.size(), entry) == 0;
        if (found == nullptr && (by_index || by_uuid)) found = &device;
      }
      if (found == nullptr) break;
      visible.push_back(found->physical);
    }
  }
  // A process that sees a MIG instance sees no other device.
  for (const uint32_t physical : visible) {
    if (machine[physical].mig) return {physical};
  }
  return visible;
}

// FAKE_CUDA_FAIL=cuMemAlloc:2=2,cuIpcOpenMemHandle:1+=801: the function, the number of the call
// (with + also every later call), and the error code.
std::vector<Failure> read_failures() {
  const std::string text = variable("FAKE_CUDA_FAIL");
  std::vector<Failure> failures;
  for (const std::string& part : split(text, ',')) {
    const size_t colon = part.find(':');
    const size_t equals = part.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals < colon)
      refuse("FAKE_CUDA_FAIL", text);
    Failure failure;
    failure.function = part.substr(0, colon);
    failure.nth = std::strtoull(part.c_str() + colon + 1, nullptr, 10);
    failure.onwards = part[equals - 1] == '+';
    failure.code = std::atoi(part.c_str() + equals + 1);
    failures.push_back(failure);
  }
  return failures;
}

// FAKE_CUDA_LATENCY=stream=2000,cuIpcOpenMemHandle=1330: microseconds for each operation in a
// stream, and for each call of a function.
void read_latencies(Config& config) {
  const std::string text = variable("FAKE_CUDA_LATENCY");
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) refuse("FAKE_CUDA_LATENCY", text);
    const uint64_t us = std::strtoull(part.c_str() + equals + 1, nullptr, 10);
    if (part.substr(0, equals) == "stream") {
      config.stream_latency_us = us;
    } else {
      config.latency_us[part.substr(0, equals)] = us;
    }
  }
}

Config read() {
  Config config;
  config.world = variable("FAKE_CUDA_WORLD");
  config.driver = std::atoi(
      variable("FAKE_CUDA_DRIVER", std::to_string(FAKE_CUDA_NEWEST_DRIVER).c_str()).c_str());
  if (config.driver < 11030 || config.driver > FAKE_CUDA_NEWEST_DRIVER)
    refuse("FAKE_CUDA_DRIVER", variable("FAKE_CUDA_DRIVER"));
  config.machine = read_machine();
  config.visible = read_visible(config.machine);
  config.ipc = flag("FAKE_CUDA_IPC", true);
  config.vmm = flag("FAKE_CUDA_VMM", true);
  config.pools = flag("FAKE_CUDA_POOLS", true);
  config.read_only_access = flag("FAKE_CUDA_READ_ONLY", true);
  config.fabric = flag("FAKE_CUDA_FABRIC", false);
  config.integrated = flag("FAKE_CUDA_INTEGRATED", false);
  config.mapped = flag("FAKE_CUDA_MAPPED", false);
  config.same_addresses = flag("FAKE_CUDA_SAME_ADDRESSES", false);
  config.max_ipc_events = std::strtoull(variable("FAKE_CUDA_IPC_EVENTS", "0").c_str(), nullptr, 10);
  config.failures = read_failures();
  read_latencies(config);
#ifdef FAKE_CUDA_HIDDEN
  config.stream_latency_us = 20;  // on a real device work is not done when its call returns
#endif
  return config;
}

}  // namespace

const Config& config() {
  static const Config* const once = new Config(read());
  return *once;
}

const Device& device_of(int ordinal) {
  return config().machine[config().visible[static_cast<size_t>(ordinal)]];
}

int ordinal_of(uint32_t physical) {
  const std::vector<uint32_t>& visible = config().visible;
  for (size_t i = 0; i < visible.size(); ++i) {
    if (visible[i] == physical) return static_cast<int>(i);
  }
  return -1;
}

std::string uuid_text(const Device& device) {
  std::string text = device.mig ? "MIG-" : "GPU-";
  for (size_t i = 0; i < device.uuid.size(); ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", device.uuid[i]);
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace fake_cuda
