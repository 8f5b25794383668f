// The state that all processes of a world share: a file in the folder FAKE_CUDA_WORLD, which each
// of them maps, under one robust mutex.
//
// A process may be killed at any instruction. So an object is created by writing its kind last, and
// removed by clearing its kind first. All other state about objects (free list, references, memory
// in use) is computed again by the process that finds the mutex abandoned. The next process that
// needs what a dead process held takes it back. The lock on a byte of `alive` says whether a
// process lives.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ledger.h"

namespace fake_cuda {

enum class Function : uint32_t {
#define FUNCTION(symbol, name, version, stream) symbol,
#include "functions.inc"
#undef FUNCTION
  count
};
constexpr size_t kFunctions = static_cast<size_t>(Function::count);

constexpr uint32_t kNobody = ~0U;
constexpr uint32_t kNoObject = 0;
constexpr size_t kProcesses = 256;
constexpr size_t kObjects = 65536;
constexpr size_t kFaults = 1024;
constexpr size_t kDevices = 16;

enum class Source : uint32_t { legacy = 1, managed, vmm, pool };

struct Object {
  std::atomic<uint32_t> kind;  // as in ledger.h; 0: free
  uint32_t process;            // its slot, or kNobody
  uint32_t device;             // physical
  uint32_t source;             // of an allocation
  uint32_t handle_types;       // the types that it may be exported as
  uint32_t references;         // allocations, pools, events: the objects that target it
  uint32_t target;
  uint32_t next_free;
  std::atomic<uint32_t> freed;  // its owner released it, and others still have it
  uint32_t exported;            // there may be exported fds of it
  uint64_t id;
  uint64_t target_id;
  uint64_t size;
  uint64_t count;
  uint64_t address;
  uint64_t context;
  uint64_t secret_index;  // of a memory handle: the index that finds `secret`
  // Of an event: the number of records that were requested, and of those that are complete.
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> completed;
  std::atomic<uint64_t> completed_ns;
  std::atomic<uint32_t> wake;      // futex of `completed`
  std::atomic<uint32_t> recorder;  // slot of the last process that recorded
  unsigned char secret[64];        // the bytes that name the object in other processes
};

struct ProcessSlot {
  std::atomic<int32_t> pid;  // 0: free
  std::atomic<uint32_t> alive;
  std::atomic<uint64_t> calls[kFunctions];
};

struct WorldFile {
  uint64_t magic;
  uint64_t key[2];  // scrambles the index in the bytes of a handle
  pthread_mutex_t mutex;
  uint64_t next_id;
  uint32_t first_free;
  std::atomic<uint32_t> objects_used;  // objects from here on were never in use
  uint64_t bytes[kDevices];
  uint64_t left[2][FAKE_CUDA_KINDS];
  std::atomic<uint64_t> calls_of_ended[kFunctions];
  uint64_t fault_count;
  uint64_t faults_of_rule[FAKE_CUDA_RULES];
  fake_cuda_fault faults[kFaults];
  ProcessSlot processes[kProcesses];
  Object objects[kObjects];
};

class World {
 public:
  // Returns null if the folder FAKE_CUDA_WORLD does not exist.
  static World* get();

  class Lock {
   public:
    explicit Lock(World& world);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    World& world_;
  };

  // The caller of the functions below holds the lock, unless a comment says otherwise.
  uint32_t create(int32_t kind, uint32_t device, uint64_t size, uint32_t target = kNoObject);
  // Gives up this process's ownership of the object. The object goes when no object refers to it.
  // Does nothing if this process does not own the object (a late thread at exit).
  void release(uint32_t index);
  // Removes the owner of the object, whoever it is. The object goes when no object refers to it.
  void disown(uint32_t index);
  // Takes back what dead processes held.
  void reclaim();
  bool alive(uint32_t slot);  // needs no lock
  uint32_t join(int32_t pid);
  void leave(uint32_t slot, bool killed);
  void fault(int32_t rule, const char* function, const std::string& text);

  // The 64 random bytes that name an object in other processes. They lead back to it in one step.
  void name(uint32_t index, void* bytes64);
  uint32_t find(const void* bytes64);

  // The path of the file of an allocation's memory, or of an export's token.
  std::string path(const char* what, uint64_t id) const;
  bool make_memory(uint32_t index);
  int export_fd(uint32_t index);
  // Returns kNoObject if the fd was not exported in this world.
  uint32_t find_fd(int fd);

  Object& at(uint32_t index) { return file_->objects[index]; }
  WorldFile& file() { return *file_; }
  // The slot of this process; kNobody before it joins and after it leaves. Late threads may see the
  // latter.
  std::atomic<uint32_t> self{kNobody};

 private:
  World() = default;
  bool open(const std::string& folder);
  void initialise();
  void repair();
  void destroy(uint32_t index);
  void destroy_if_unused(uint32_t index);
  bool fds_left(uint32_t index);
  void unlock();
  void lock();

  std::string folder_;
  int alive_ = -1;
  WorldFile* file_ = nullptr;
};

uint64_t now_ns();

}  // namespace fake_cuda
