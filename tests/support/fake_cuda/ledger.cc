#include "ledger.h"

#include <cstring>

#include "process.h"
#include "world.h"

using namespace fake_cuda;

namespace {

const char* const kNames[] = {
#define FUNCTION(symbol, name, version, stream) name,
#include "functions.inc"
#undef FUNCTION
};

template <typename Each>
uint64_t sum_of_calls(int32_t pid, Each counts) {
  World* all = World::get();
  if (all == nullptr) return 0;
  uint64_t sum = 0;
  World::Lock lock(*all);
  for (size_t i = 0; i < kFunctions; ++i) {
    if (!counts(kNames[i])) continue;
    if (pid == 0) sum += all->file().calls_of_ended[i];
    for (const ProcessSlot& process : all->file().processes) {
      if (process.pid != 0 && (pid == 0 || process.pid == pid)) sum += process.calls[i];
    }
  }
  return sum;
}

int32_t pid_of(World& all, const Object& object) {
  return object.process == kNobody ? 0 : all.file().processes[object.process].pid.load();
}

// Dead processes have no live objects, so what they held is released first.
template <typename Do>
void each(int32_t kind, int32_t pid, Do what) {
  World* all = World::get();
  if (all == nullptr) return;
  World::Lock lock(*all);
  all->reclaim();
  const uint32_t used = all->file().objects_used;
  for (uint32_t i = 1; i < used; ++i) {
    const Object& object = all->at(i);
    const auto its = static_cast<int32_t>(object.kind.load());
    if (its == FAKE_CUDA_NOTHING || (kind != 0 && its != kind)) continue;
    const int32_t owner = pid_of(*all, object);
    if (pid == 0 || owner == pid) what(object, owner);
  }
}

}  // namespace

#define LEDGER extern "C" __attribute__((visibility("default")))

LEDGER uint64_t fake_cuda_calls(const char* function, int32_t pid) {
  return sum_of_calls(pid,
                      [function](const char* name) { return std::strcmp(name, function) == 0; });
}

LEDGER uint64_t fake_cuda_all_calls(int32_t pid) {
  return sum_of_calls(pid, [](const char* name) {
    return std::strcmp(name, "cuGetProcAddress") != 0 &&
           std::strcmp(name, "cuDriverGetVersion") != 0 &&
           std::strncmp(name, "cuGetError", 10) != 0;
  });
}

LEDGER uint64_t fake_cuda_live(int32_t kind, int32_t pid) {
  uint64_t count = 0;
  each(kind, pid, [&](const Object&, int32_t) { ++count; });
  return count;
}

LEDGER uint64_t fake_cuda_objects(int32_t kind, int32_t pid, fake_cuda_object* out,
                                  uint64_t capacity) {
  uint64_t count = 0;
  each(kind, pid, [&](const Object& object, int32_t owner) {
    if (count < capacity) {
      fake_cuda_object& to = out[count];
      to.kind = static_cast<int32_t>(object.kind.load());
      to.pid = owner;
      to.device = object.device;
      to.reserved = 0;
      to.id = object.id;
      to.target = object.target_id;
      to.size = object.size;
      to.count = object.count;
      to.address = object.address;
    }
    ++count;
  });
  return count;
}

LEDGER uint64_t fake_cuda_bytes(uint32_t device) {
  World* all = World::get();
  if (all == nullptr || device >= kDevices) return 0;
  World::Lock lock(*all);
  all->reclaim();
  return all->file().bytes[device];
}

LEDGER uint64_t fake_cuda_left(int32_t kind, int32_t killed) {
  World* all = World::get();
  if (all == nullptr || kind < 0 || kind >= FAKE_CUDA_KINDS) return 0;
  World::Lock lock(*all);
  all->reclaim();
  const auto& left = all->file().left[killed != 0 ? 1 : 0];
  if (kind != 0) return left[kind];
  uint64_t sum = 0;
  for (const uint64_t of_kind : left) sum += of_kind;
  return sum;
}

LEDGER uint64_t fake_cuda_processes() {
  World* all = World::get();
  if (all == nullptr) return 0;
  uint64_t count = 0;
  World::Lock lock(*all);
  all->reclaim();
  for (const ProcessSlot& process : all->file().processes) count += process.alive;
  return count;
}

LEDGER uint64_t fake_cuda_faults(int32_t rule) {
  World* all = World::get();
  if (all == nullptr || rule < 0 || rule >= FAKE_CUDA_RULES) return 0;
  World::Lock lock(*all);
  return rule == 0 ? all->file().fault_count : all->file().faults_of_rule[rule];
}

LEDGER int fake_cuda_get_fault(uint64_t number, fake_cuda_fault* out) {
  World* all = World::get();
  if (all == nullptr) return 0;
  World::Lock lock(*all);
  const uint64_t count = all->file().fault_count;
  if (number >= count || count - number > kFaults) return 0;
  *out = all->file().faults[number % kFaults];
  return 1;
}

LEDGER void fake_cuda_fail(const char* function, uint64_t nth, int32_t code) {
  fail_from_now(function, nth, code);
}

LEDGER void fake_cuda_reset() {
  World* all = World::get();
  if (all == nullptr) return;
  World::Lock lock(*all);
  WorldFile& file = all->file();
  for (auto& count : file.calls_of_ended) count = 0;
  for (ProcessSlot& process : file.processes) {
    for (auto& count : process.calls) count = 0;
  }
  std::memset(file.left, 0, sizeof file.left);
  file.fault_count = 0;
  std::memset(file.faults_of_rule, 0, sizeof file.faults_of_rule);
}
