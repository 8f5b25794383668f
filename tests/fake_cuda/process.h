// What one process has: contexts, address space and the tables behind its handles. Nothing of it is
// ever torn down, as streams' threads may run until the end; the world is told at exit, and learns
// of a kill by itself.
//
// Order of locks: Process::mutex, that of the streams, the world's. No stream is waited for under
// any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "config.h"
#include "cuda_api.h"
#include "world.h"

namespace fake_cuda {

class Stream;

struct Context {
  int ordinal = 0;
  uint32_t physical = 0;
  uint64_t id = 0;
  bool primary = false;
  unsigned flags = 0;
  unsigned retained = 0;
  uint32_t object = kNoObject;
  std::shared_ptr<Stream> legacy;
  std::vector<std::weak_ptr<Stream>> streams;  // under the mutex of the streams

  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
};

// The fake's own view of memory: nobody else knows its address. Queued work keeps it.
struct Backing {
  unsigned char* hidden = nullptr;
  size_t size = 0;
  uint32_t object = kNoObject;  // the allocation
  uint64_t id = 0;
  bool imported = false;
  bool owned = true;  // to unmap

  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  ~Backing();
};
std::shared_ptr<Backing> map_memory(uint32_t allocation, bool imported);

enum class RangeKind {
  allocated,
  managed,
  ipc,
  pooled,
  pool_pointer,
  host_allocated,
  host_registered
};

struct Range {
  CUdeviceptr base = 0;
  size_t size = 0;
  RangeKind kind = RangeKind::allocated;
  uint32_t object = kNoObject;  // of this process: the allocation, or the open of it
  uint32_t physical = 0;
  Context* context = nullptr;
  uint64_t buffer_id = 0;
  unsigned flags = 0;
  CUmemoryPool pool = nullptr;
  std::shared_ptr<Backing> backing;
};

// A piece of memory as work on it sees it.
struct Place {
  unsigned char* bytes = nullptr;
  std::shared_ptr<Backing> backing;
  bool writable = true;
};

class Process {
 public:
  std::mutex mutex;
  std::vector<Context*> primaries;  // by ordinal
  std::unordered_map<const void*, Context*> contexts;
  std::map<CUdeviceptr, Range> ranges;
  // Destroyed contexts and pools: kept, so that a stale handle is never that of a new one.
  std::vector<const void*> ended;
  uint64_t next_buffer = 1;

  Range* find(CUdeviceptr pointer);
  CUdeviceptr reserve(size_t size, size_t alignment);
  void unreserve(CUdeviceptr base, size_t size, bool shown = false);
  bool in_arena(CUdeviceptr pointer) const {
    return pointer >= arena_ && pointer < arena_ + kArena;
  }
  // With FAKE_CUDA_MAPPED the host sees the memory there, else it faults.
  void show(CUdeviceptr base, const Backing& backing, size_t size);

 private:
  static constexpr size_t kArena = size_t{1} << 38;
  CUdeviceptr arena_ = 0;
  CUdeviceptr next_ = 0;
  std::multimap<size_t, CUdeviceptr> free_;
};

Process& process();
World& world();  // only after cuInit

// What every function begins with: the call is counted, may be told to fail or to take its time,
// and needs cuInit.
CUresult enter(Function function, bool needs_init = true);
const char* current_function();
void fail_from_now(const char* function, uint64_t nth, int code);

// The context that is current on this thread; nullptr is none.
Context* current();
CUresult need_context(Context** context);
Context* find_context(CUcontext handle);

// `fault` for the caller who does not hold the world's lock.
void record_fault(int32_t rule, const std::string& text);

#define FAKE_CUDA_ENTER(symbol)                                                   \
  if (const CUresult entered = ::fake_cuda::enter(::fake_cuda::Function::symbol); \
      entered != CUDA_SUCCESS) {                                                  \
    return entered;                                                               \
  }

}  // namespace fake_cuda
