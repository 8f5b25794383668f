#include "process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fake_cuda {
namespace {

enum class State { fresh, initialised, forked };
std::atomic<State> state{State::fresh};
std::atomic<uint64_t> calls_here[kFunctions];
std::mutex failure_mutex;
std::atomic<bool> any_failure{false};
std::vector<Failure>* failures = nullptr;
thread_local const char* name_now = "";

constexpr size_t kPage = 4096;

size_t round_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

const char* name_of(Function function) {
  static const char* const names[] = {
#define FUNCTION(symbol, name, version, stream) name,
#include "functions.inc"
#undef FUNCTION
  };
  return names[static_cast<size_t>(function)];
}

uint64_t count_of_name(const char* name) {
  uint64_t count = 0;
  for (size_t i = 0; i < kFunctions; ++i) {
    if (std::strcmp(name_of(static_cast<Function>(i)), name) == 0) count += calls_here[i];
  }
  return count;
}

CUresult injected(const char* name) {
  if (!any_failure) return CUDA_SUCCESS;
  const std::lock_guard<std::mutex> guard(failure_mutex);
  const uint64_t count = count_of_name(name);
  for (const Failure& failure : *failures) {
    if (failure.function != name) continue;
    if (count == failure.nth || (failure.onwards && count > failure.nth))
      return static_cast<CUresult>(failure.code);
  }
  return CUDA_SUCCESS;
}

void after_fork_in_child() {
  if (state == State::initialised) state = State::forked;
}

}  // namespace

Process& process() {
  static Process* const once = new Process;
  return *once;
}

World& world() { return *World::get(); }

const char* current_function() { return name_now; }

void fail_from_now(const char* function, uint64_t nth, int code) {
  const std::lock_guard<std::mutex> guard(failure_mutex);
  if (failures == nullptr) failures = new std::vector<Failure>(config().failures);
  if (code == 0) {
    failures->erase(std::remove_if(failures->begin(), failures->end(),
                                   [&](const Failure& f) { return f.function == function; }),
                    failures->end());
  } else {
    failures->push_back(
        {function, count_of_name(function) + std::max<uint64_t>(nth, 1), nth == 0, code});
  }
  any_failure = !failures->empty();
}

CUresult enter(Function function, bool needs_init) {
  const auto index = static_cast<size_t>(function);
  name_now = name_of(function);
  ++calls_here[index];
  const State now = state;
  if (now == State::initialised) {
    if (const uint32_t slot = world().self; slot != kNobody)
      ++world().file().processes[slot].calls[index];
  }
  if (const CUresult failure = injected(name_now); failure != CUDA_SUCCESS) return failure;
  const auto& latencies = config().latency_us;
  if (!latencies.empty()) {
    if (const auto found = latencies.find(name_now); found != latencies.end())
      usleep(static_cast<useconds_t>(found->second));
  }
  if (!needs_init) return CUDA_SUCCESS;
  if (now == State::forked) record_fault(FAKE_CUDA_USED_AFTER_FORK, name_now);
  // CUDA_ERROR_NOT_INITIALIZED: "the CUDA driver has not been initialized with ::cuInit() or that
  // initialization has failed". A forked child always gets it.
  return now == State::initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

void record_fault(int32_t rule, const std::string& text) {
  World::Lock lock(world());
  world().fault(rule, current_function(), text);
}

Backing::~Backing() {
  if (owned && hidden != nullptr) munmap(hidden, size);
}

std::shared_ptr<Backing> map_memory(uint32_t allocation, bool imported) {
  const Object& object = world().at(allocation);
  const int fd = ::open(world().path("memory", object.id).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* mapped = mmap(nullptr, object.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return nullptr;
  auto backing = std::make_shared<Backing>();
  backing->hidden = static_cast<unsigned char*>(mapped);
  backing->size = object.size;
  backing->object = allocation;
  backing->id = object.id;
  backing->imported = imported;
  return backing;
}

Range* Process::find(CUdeviceptr pointer) {
  auto after = ranges.upper_bound(pointer);
  if (after == ranges.begin()) return nullptr;
  Range& range = std::prev(after)->second;
  return pointer - range.base < range.size ? &range : nullptr;
}

CUdeviceptr Process::reserve(size_t size, size_t alignment) {
  if (arena_ == 0) {
    // The mapping is private and PROT_NONE. So a host that follows a device pointer faults, as with
    // a real driver.
#ifdef __SANITIZE_THREAD__
    constexpr uintptr_t kSame =
        0x7e9000000000;  // ThreadSanitizer restricts a program's address ranges
#else
    constexpr uintptr_t kSame = 0x300000000000;
#endif
    void* at = config().same_addresses ? reinterpret_cast<void*>(kSame) : nullptr;
    const int flags =
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void* mapped = mmap(at, kArena, PROT_NONE, flags, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    arena_ = reinterpret_cast<CUdeviceptr>(mapped);
    next_ = arena_;
  }
  size = round_up(size, kPage);
  // A page lies between neighbours, so that an access past the end of one range does not reach the
  // next.
  const auto [first, last] = free_.equal_range(size);
  for (auto it = first; it != last; ++it) {
    if (it->second % alignment != 0) continue;
    const CUdeviceptr base = it->second;
    free_.erase(it);
    return base;
  }
  const CUdeviceptr base = round_up(next_, alignment);
  if (base + size + kPage > arena_ + kArena) return 0;
  next_ = base + size + kPage;
  return base;
}

void Process::unreserve(CUdeviceptr base, size_t size, bool shown) {
  size = round_up(size, kPage);
  if (shown || config().mapped) {
    mmap(reinterpret_cast<void*>(base), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  free_.emplace(size, base);
}

void Process::show(CUdeviceptr base, const Backing& backing, size_t size) {
  if (!config().mapped) return;
  const int fd = ::open(world().path("memory", backing.id).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  mmap(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  close(fd);
}

namespace {

CUresult initialise() {
  static std::mutex once;
  const std::lock_guard<std::mutex> guard(once);
  if (state == State::initialised) return CUDA_SUCCESS;
  if (state == State::forked) return CUDA_ERROR_NOT_INITIALIZED;
  World* const shared = World::get();
  // "no CUDA-capable devices were detected by the installed CUDA driver"
  if (shared == nullptr || config().visible.empty()) return CUDA_ERROR_NO_DEVICE;
  {
    World::Lock lock(*shared);
    shared->reclaim();
    if (shared->join(getpid()) == kNobody) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  process().primaries.assign(config().visible.size(), nullptr);
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  state = State::initialised;
  for (size_t i = 0; i < kFunctions; ++i)
    shared->file().processes[shared->self].calls[i] = calls_here[i].load();
  return CUDA_SUCCESS;
}

__attribute__((destructor)) void at_exit() {
  if (state != State::initialised) return;
  World::Lock lock(world());
  world().leave(world().self, false);
  state = State::forked;
}

__attribute__((constructor)) void at_load() {
  failures = new std::vector<Failure>(config().failures);
  any_failure = !failures->empty();
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuInit(unsigned int flags) {
  FAKE_CUDA_TRY(enter(Function::cuInit, false));
  // "Flags parameter must be 0."
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return initialise();
}

FAKE_CUDA_EXPORT CUresult cuDriverGetVersion(int* version) {
  FAKE_CUDA_TRY(enter(Function::cuDriverGetVersion, false));
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = config().driver;
  return CUDA_SUCCESS;
}
