// Checks what a round has left when all its processes have ended (class Storm).
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "process/cuda/storm/driver.h"
#include "support/fake_cuda/ledger.h"

namespace storm::device {
namespace {

template <typename Function>
Function* ledger(Function*, const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  void* const found = dlsym(library, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}
#define LEDGER(function) ledger(static_cast<decltype(&function)>(nullptr), #function)

std::string objects_left() {
  static constexpr std::array<const char*, FAKE_CUDA_KINDS> kNames = {
      "nothing",     "context", "allocation",   "opened memory",   "VMM handle",
      "reservation", "mapping", "pool",         "pool import",     "pool pointer",
      "stream",      "event",   "opened event", "host allocation", "host registration"};
  std::array<fake_cuda_object, 8> objects{};
  const uint64_t count = LEDGER(fake_cuda_objects)(0, 0, objects.data(), objects.size());
  std::string text;
  for (uint64_t i = 0; i < std::min<uint64_t>(count, objects.size()); ++i) {
    text += std::string(" ") + kNames[static_cast<size_t>(objects[i].kind)] + " " +
            std::to_string(objects[i].id) + " of pid " + std::to_string(objects[i].pid) + ",";
  }
  if (const uint64_t bytes = LEDGER(fake_cuda_bytes)(0); bytes != 0)
    text += " " + std::to_string(bytes) + " bytes of the device,";
  return text;
}

// Lists the files that belong to allocations and exports.
std::string files_left(const std::string& world) {
  std::string text;
  for (const auto& each : std::filesystem::directory_iterator(world)) {
    if (const std::string name = each.path().filename(); name != "world" && name != "alive")
      text += " file " + name + ",";
  }
  return text;
}

}  // namespace

// Lists leftover names. In a /dev/shm that others also use, it lists only files whose maker is a
// process of the storm.
std::string Storm::names_left() const {
  std::string text;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm")) {
    if (!alone_) {
      std::array<char, 64> head{};
      std::ifstream file(each.path(), std::ios::binary);
      if (!file.read(head.data(), head.size()) ||
          !each.path().filename().string().starts_with("tenon-cuda-"))
        continue;
      int32_t maker = 0;
      std::memcpy(&maker, head.data() + 12, sizeof maker);  // docs/format/filename.md
      if (!pids_.contains(maker)) continue;
    }
    text += " " + each.path().string() + ",";
  }
  return text;
}

void Storm::look() const {
  const auto wait = [this](const char* what, const std::function<std::string()>& left) {
    // Counts tries and does not read the clock, which runs on while other processes have the
    // processors.
    std::string text = left();
    for (int64_t looks = kSoonNs / 1'000'000; !text.empty() && looks > 0; --looks) {
      usleep(1000);
      text = left();
    }
    if (text.empty()) return;
    board_->complain("a second after everybody ended, %s:%s", what, text.c_str());
    _exit(kFailed);
  };
  // No fault has an excuse, because a killed process cannot break a rule. Memory that it lent stays
  // as long as another process has it open, and memory that it had open is closed with it. Its
  // counters, which nobody decrements, keep the memory from being freed.
  for (uint64_t i = 0; i < LEDGER(fake_cuda_faults)(0); ++i) {
    fake_cuda_fault fault{};
    if (LEDGER(fake_cuda_get_fault)(i, &fault) == 0) continue;
    board_->complain("the ledger has a fault %d of pid %d in %s: %s", fault.rule, fault.pid,
                     fault.function, fault.text);
    _exit(kFailed);
  }
  wait("the devices have", objects_left);
  wait("the world has", [this] { return files_left(world_); });
  // A sweep removes the names that dead processes left.
  tenon_sweep_result swept{};
  swept.struct_size = sizeof swept;
  REQUIRE_OK(tenon_filename_sweep(nullptr, &swept, err));
  wait("there are names", [this] { return names_left(); });
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace storm::device
