// What the processes of one fake share: a file in the folder FAKE_CUDA_WORLD, mapped by each of
// them, under one robust mutex.
//
// A process may be killed at any instruction. So an object is made by writing its kind last and
// taken away by clearing its kind first, and all else that the world knows about objects (free
// list, references, memory in use) is worked out anew by who finds the mutex abandoned. What a dead
// process held is taken back by whoever next asks for it: its lock on a byte of `alive` says
// whether it lives.
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
  std::atomic<uint32_t> kind;  // of ledger.h; 0: free
  uint32_t process;            // slot, or kNobody
  uint32_t device;             // physical
  uint32_t source;             // of an allocation
  uint32_t handle_types;       // that it may be exported as
  uint32_t references;         // of an allocation, pool or event: objects that target it
  uint32_t target;
  uint32_t next_free;
  std::atomic<uint32_t> freed;  // its owner gave it up, others still have it
  uint32_t exported;            // there may be fds of it
  uint64_t id;
  uint64_t target_id;
  uint64_t size;
  uint64_t count;
  uint64_t address;
  uint64_t context;
  uint64_t secret_index;  // of a memory handle; makes `secret` findable
  // Of an event: how often a record was asked for, and how far they came.
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> completed;
  std::atomic<uint64_t> completed_ns;
  std::atomic<uint32_t> wake;      // futex of `completed`
  std::atomic<uint32_t> recorder;  // slot of who recorded last
  unsigned char secret[64];        // the bytes by which other processes name it
};

struct ProcessSlot {
  std::atomic<int32_t> pid;  // 0: free
  std::atomic<uint32_t> alive;
  std::atomic<uint64_t> calls[kFunctions];
};

struct WorldFile {
  uint64_t magic;
  uint64_t key[2];  // scrambles the index that is in a handle's bytes
  pthread_mutex_t mutex;
  uint64_t next_id;
  uint32_t first_free;
  std::atomic<uint32_t> objects_used;  // none beyond was ever in use
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
  // nullptr: there is no folder FAKE_CUDA_WORLD.
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

  // Everything below wants the lock held, but for what says otherwise.
  uint32_t create(int32_t kind, uint32_t device, uint64_t size, uint32_t target = kNoObject);
  // The object is not this process's any more; it goes when nobody refers to it. Nothing happens
  // when it was not (a late thread at exit).
  void release(uint32_t index);
  // It never had an owner but who refers to it.
  void disown(uint32_t index);
  void reclaim();
  bool alive(uint32_t slot);  // needs no lock
  uint32_t join(int32_t pid);
  void leave(uint32_t slot, bool killed);
  void fault(int32_t rule, const char* function, const std::string& text);

  // The 64 bytes that name an object in other processes: random, and found again in one step.
  void name(uint32_t index, void* bytes64);
  uint32_t find(const void* bytes64);

  // The file of an allocation's memory, or of an export's token.
  std::string path(const char* what, uint64_t id) const;
  bool make_memory(uint32_t index);
  int export_fd(uint32_t index);
  // kNoObject: that fd was not exported by anyone in this world.
  uint32_t find_fd(int fd);

  Object& at(uint32_t index) { return file_->objects[index]; }
  WorldFile& file() { return *file_; }
  // Of this process; kNobody until it joined, and when it has left, which late threads see.
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
