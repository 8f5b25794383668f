// The state of one process: its contexts, its address space, and the tables behind its handles.
// Nothing here is ever destroyed, because the threads of streams may run until the process ends. At
// exit the process leaves the world. The world notices a killed process by itself.
//
// Lock order: Process::mutex, the mutex of the streams, the world's lock. No thread waits for a
// stream while it holds any of them.
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
  std::vector<std::weak_ptr<Stream>> streams;  // guarded by the mutex of the streams

  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
};

// The fake's own mapping of memory, at an address that no user knows. Queued work keeps it alive.
struct Backing {
  unsigned char* hidden = nullptr;
  size_t size = 0;
  uint32_t object = kNoObject;  // the allocation
  uint64_t id = 0;
  bool imported = false;
  bool owned = true;  // whether the destructor unmaps it

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
  uint32_t object = kNoObject;  // this process's object: the allocation, or its open
  uint32_t physical = 0;
  Context* context = nullptr;
  uint64_t buffer_id = 0;
  unsigned flags = 0;
  CUmemoryPool pool = nullptr;
  std::shared_ptr<Backing> backing;
};

// A range of memory for queued work.
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
  // Destroyed contexts and pools. They are kept, so that a stale handle never equals a new one.
  std::vector<const void*> ended;
  uint64_t next_buffer = 1;

  Range* find(CUdeviceptr pointer);
  CUdeviceptr reserve(size_t size, size_t alignment);
  void unreserve(CUdeviceptr base, size_t size, bool shown = false);
  bool in_arena(CUdeviceptr pointer) const {
    return pointer >= arena_ && pointer < arena_ + kArena;
  }
  // With FAKE_CUDA_MAPPED the host can access the memory at this address. Without it the host
  // faults.
  void show(CUdeviceptr base, const Backing& backing, size_t size);

 private:
  static constexpr size_t kArena = size_t{1} << 38;
  CUdeviceptr arena_ = 0;
  CUdeviceptr next_ = 0;
  std::multimap<size_t, CUdeviceptr> free_;
};

Process& process();
World& world();  // call it only after cuInit

// Every function begins with this. It counts the call, lets it fail or sleeps if the settings say
// so, and checks that cuInit was called.
CUresult enter(Function function, bool needs_init = true);
const char* current_function();
void fail_from_now(const char* function, uint64_t nth, int code);

// The current context of this thread, or null.
Context* current();
CUresult need_context(Context** context);
Context* find_context(CUcontext handle);

// Calls `fault` for a caller that does not hold the world's lock.
void record_fault(int32_t rule, const std::string& text);

// Returns the result of a call from the function around it, unless the call succeeds.
#define FAKE_CUDA_TRY(call)                                                    \
  do {                                                                         \
    if (const CUresult result = (call); result != CUDA_SUCCESS) return result; \
  } while (false)
#define FAKE_CUDA_ENTER(symbol) FAKE_CUDA_TRY(::fake_cuda::enter(::fake_cuda::Function::symbol));

}  // namespace fake_cuda
