// Helpers for tests in which the program's malloc fails on demand, as in tests/process/fault.
// malloc never fails inside the driver, because the driver's behaviour without memory is not
// Tenon's. Include this header in one source of a program, and not under sanitizers, as
// process/fault/failing_malloc.h.
#pragma once

#include "connected_kit.h"
#include "gate.h"
#include "process/fault/failing_malloc.h"
#include "share/named_file_head.h"

#if !TENON_TEST_SANITIZED
#include <cstddef>
#include <exception>
#include <new>

namespace {

// Counts the live blocks that a thread with `t_counts` allocated outside the driver. The head of
// each block says whether the block is counted, so that any thread may free it.
thread_local bool t_counts = false;
std::atomic<long> g_counted{0};
struct alignas(std::max_align_t) Head {
  bool is_counted;
};

void* take_block(size_t nbytes) noexcept {
  auto* const head = static_cast<Head*>(malloc(sizeof(Head) + nbytes));
  if (head == nullptr) return nullptr;
  head->is_counted = t_counts;
  g_counted += t_counts ? 1 : 0;
  return head + 1;
}
void give_block(void* block) noexcept {
  if (block == nullptr) return;
  Head* const head = static_cast<Head*>(block) - 1;
  g_counted -= head->is_counted ? 1 : 0;
  free(head);
}

}  // namespace

void* operator new(size_t nbytes) {
  void* const block = take_block(nbytes);
  return block != nullptr ? block : throw std::bad_alloc();
}
void* operator new(size_t nbytes, const std::nothrow_t& /*tag*/) noexcept {
  return take_block(nbytes);
}
void operator delete(void* block) noexcept { give_block(block); }
void operator delete(void* block, size_t /*nbytes*/) noexcept { give_block(block); }
void operator delete(void* block, const std::nothrow_t& /*tag*/) noexcept { give_block(block); }

namespace cuda_test {
namespace {

// ---- no failures inside the driver

template <typename Body>
auto uncounted(const Body& body) {
  const bool counts = std::exchange(t_counts, false);
  auto result = body();
  t_counts = counts;
  return result;
}

template <auto kFunction, typename Pointer>
struct Spared;
template <auto kFunction, typename... Arguments>
struct Spared<kFunction, CUresult (*)(Arguments...)> {
  static inline CUresult (*real)(Arguments...) = nullptr;
  static CUresult call(Arguments... arguments) {
    const long allowed = std::exchange(t_allowed, -1);
    const CUresult result = uncounted([&] { return real(arguments...); });
    t_allowed = allowed;
    return result;
  }
};
template <auto kFunction>
void spare(cuda::Driver* cu) {
  using One = Spared<kFunction, std::remove_reference_t<decltype(cu->*kFunction)>>;
  if (cu->*kFunction != nullptr) One::real = std::exchange(cu->*kFunction, &One::call);
}

// ---- what is done without memory

// The current step, for the handler of std::terminate, which is not told where the program was.
struct Doing {
  std::string what;
  long allowed = -1;
};
Doing g_doing;

[[noreturn]] inline void tell_and_abort() {
  t_allowed = -1;
  std::fprintf(stderr, "[pid %d] std::terminate: %s with %ld allocations\n", getpid(),
               g_doing.what.c_str(), g_doing.allowed);
  std::abort();
}

// Starts the driver and everything else that lives as long as the process. Call it in the process
// of a test, before allocations are limited.
inline void begin() {
  auto* const cu = const_cast<cuda::Driver*>(&driver());
#define FUNCTION(name, version, part) spare<&cuda::Driver::name>(cu);
#include "cuda/functions.inc"
#include "support/sized.h"
#undef FUNCTION
  std::set_terminate(tell_and_abort);
  use_device();
  fault::warm_up();
  t_counts = true;
}

// Runs `body` with `allowed` allocations. Returns whether it wanted more.
template <typename Body>
bool with_allocations(long allowed, const char* what, const Body& body) {
  g_doing = {what, allowed};
  t_refused = false;
  t_allowed = allowed;
  body();
  t_allowed = -1;
  return t_refused;
}

// For steps without an error. Calls `round` with 0, 1, 2, … allocations, until it returns that it
// wanted no more.
template <typename Round>
void until_enough(const char* what, const Round& round) {
  long allowed = 0;
  while (round(allowed)) REQUIRE(++allowed < 1000);
  std::printf("  %s: %ld times without memory\n", what, allowed);
}

// For steps with an error. `after` is told whether the step succeeded, and at which allocation it
// failed.
template <typename Step, typename After>
void fail_at_every_allocation(const char* what, const Step& step, const After& after) {
  until_enough(what, [&](long allowed) {
    tenon_error* error = nullptr;
    tenon_status status = TENON_OK;
    const bool refused = with_allocations(allowed, what, [&] { status = step(&error); });
    const fault::Outcome outcome = fault::read_error(status, error);
    const std::string where =
        std::string(what) + " with " + std::to_string(allowed) + " allocations: " + outcome.text();
    const bool is_want =
        refused && status == TENON_RESOURCE_EXHAUSTED && outcome.detail("limit") == "memory";
    CHECK_SAYING(outcome.ok() || is_want, where);
    after(outcome.ok(), where);
    return refused;
  });
}

// ---- what could leak

// Checks that repeated passes leak nothing. The first two passes fill what lives as long as the
// process. The library's thread frees some blocks late, and some tables drop ended entries only now
// and then. So of the remaining passes one must leave no block: a leak would leave one in each.
constexpr int kPasses = 5;
class Passes {
 public:
  void end_of_one() {
    if (++passed_ > 2) {
      CHECK_HELD(held_);
      for (int tries = 0; tries < 100 && g_counted.load() > blocks_; ++tries) usleep(5000);
      is_clean_ |= g_counted.load() <= blocks_;
    }
    if (passed_ == kPasses)
      CHECK_SAYING(is_clean_, std::to_string(g_counted.load() - blocks_) +
                                  " blocks are left by the last pass");
    held_ = fault::hold();
    blocks_ = g_counted.load();
  }

 private:
  int passed_ = 0;
  bool is_clean_ = false;
  long blocks_ = 0;
  fault::Held held_;
};

// Runs `body` in a process with a world of its own.
inline void in_one(const std::function<void()>& body,
                   const std::vector<std::string>& environment = {}) {
  in_child(environment, [&] {
    begin();
    body();
    expect_nothing_left();
    EXPECT_EQ(fault::g_failures, 0);
  });
}
// Runs the same `body` several times in such a process, and checks that it leaks nothing.
inline void in_one_without_leaks(const std::function<void()>& body) {
  in_one([&] {
    Passes passes;
    for (int i = 0; i < kPasses; ++i) {
      body();
      passes.end_of_one();
    }
  });
}

// The number of other processes' objects that this process has open.
inline uint64_t opened_here() {
  uint64_t count = 0;
  for (const fake_cuda_kind kind :
       {FAKE_CUDA_IPC_OPEN, FAKE_CUDA_EVENT_IMPORT, FAKE_CUDA_VMM_HANDLE, FAKE_CUDA_RESERVATION,
        FAKE_CUDA_MAPPING, FAKE_CUDA_POOL_IMPORT, FAKE_CUDA_POOL_POINTER}) {
    count += LEDGER(fake_cuda_live)(kind, getpid());
  }
  return count;
}

// ---- handles

inline tenon_storage* as_c(const Ref<Storage>& storage) {
  return reinterpret_cast<tenon_storage*>(storage.get());
}
inline CUdeviceptr pointer_of(const tenon_storage* storage) {
  return reinterpret_cast<uintptr_t>(tenon_storage_data(storage));
}

// Reads the counter from its file, as any process can; -1: there is no such file.
inline int64_t counter_of(const tenon_cuda_handle& handle) {
  const os::Fd file(
      ::open((std::string("/dev/shm") + handle.counter).c_str(), O_RDONLY | O_CLOEXEC));
  int64_t value = -1;
  const auto at = static_cast<off_t>(share::kFilenameHeaderNbytes + handle.slot * sizeof value);
  if (file.is_open()) CHECK_EQ(pread(file.get(), &value, sizeof value, at), sizeof value);
  return value;
}

inline tenon_cuda_handle no_handle() {
  auto handle = tenon::test::sized<tenon_cuda_handle>();
  return handle;
}
inline tenon_cuda_handle share_it(const Ref<Storage>& storage, CUstream stream = nullptr) {
  tenon_cuda_handle handle = no_handle();
  REQUIRE_OK(tenon_share_cuda(as_c(storage), stream, nullptr, &handle, err));
  return handle;
}
inline void let_go(const tenon_cuda_handle& handle) {
  CHECK_OK(tenon_release_cuda_counter(handle.counter, handle.slot, err));
}

}  // namespace
}  // namespace cuda_test
#endif
