// Asks the ledger of the fake driver which objects and faults are left when all processes of a
// storm have ended.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string>

#include "support/fake_cuda/ledger.h"
#include "support/storm/slot.h"

namespace storm {

template <typename Function>
Function* ledger(Function*, const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  void* const found = dlsym(library, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}
#define STORM_LEDGER(function) ::storm::ledger(static_cast<decltype(&function)>(nullptr), #function)

// Returns a text that names each object and each fault. No fault has an excuse, because a killed
// process cannot break a rule. Memory that it lent stays as long as another process has it open,
// and memory that it had open is closed with it. Its counters, which nobody decrements, keep the
// memory from being freed.
inline std::string left_on_devices() {
  static constexpr std::array<const char*, FAKE_CUDA_KINDS> kNames = {
      "nothing",     "context", "allocation",   "opened memory",   "VMM handle",
      "reservation", "mapping", "pool",         "pool import",     "pool pointer",
      "stream",      "event",   "opened event", "host allocation", "host registration"};
  std::string text;
  for (uint64_t i = 0; i < STORM_LEDGER(fake_cuda_faults)(0); ++i) {
    fake_cuda_fault fault{};
    if (STORM_LEDGER(fake_cuda_get_fault)(i, &fault) != 0)
      text += " fault " + std::to_string(fault.rule) + " of pid " + std::to_string(fault.pid) +
              " in " + fault.function + ": " + fault.text + ",";
  }
  std::array<fake_cuda_object, 8> objects{};
  const uint64_t count = STORM_LEDGER(fake_cuda_objects)(0, 0, objects.data(), objects.size());
  for (uint64_t i = 0; i < std::min<uint64_t>(count, objects.size()); ++i) {
    text += std::string(" ") + kNames[static_cast<size_t>(objects[i].kind)] + " " +
            std::to_string(objects[i].id) + " of pid " + std::to_string(objects[i].pid) + ",";
  }
  if (const uint64_t bytes = STORM_LEDGER(fake_cuda_bytes)(0); bytes != 0)
    text += " " + std::to_string(bytes) + " bytes of the device,";
  return text;
}

}  // namespace storm
