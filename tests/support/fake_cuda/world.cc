#include "world.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "config.h"

namespace fake_cuda {
namespace {

constexpr int kYields = 100;
constexpr useconds_t kPauseUs = 50;
constexpr uint64_t kMagic = 0x66616b6563756461U + sizeof(WorldFile);

// The byte of `alive` that a process keeps locked while it lives.
struct flock byte_of(uint32_t slot, short type) {
  struct flock byte = {};
  byte.l_type = type;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(slot);
  byte.l_len = 1;
  return byte;
}

}  // namespace

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

World* World::get() {
  static World* const once = []() -> World* {
    const std::string& folder = config().world;
    auto* world = new World;
    if (!folder.empty() && world->open(folder)) return world;
    std::fprintf(
        stderr,
        "fake libcuda: FAKE_CUDA_WORLD=%s is no folder that can be written: there is no device\n",
        folder.c_str());
    delete world;
    return nullptr;
  }();
  return once;
}

bool World::open(const std::string& folder) {
  folder_ = folder;
  const int fd = ::open((folder + "/world").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  alive_ = ::open((folder + "/alive").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || alive_ < 0) return false;
  // A process that was killed while it made the file left no magic. The next process makes the
  // file.
  flock(fd, LOCK_EX);
  if (ftruncate(fd, sizeof(WorldFile)) != 0) return false;
  void* mapped = mmap(nullptr, sizeof(WorldFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return false;
  file_ = static_cast<WorldFile*>(mapped);
  if (file_->magic != kMagic) initialise();
  flock(fd, LOCK_UN);
  close(fd);
  return true;
}

void World::initialise() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&file_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (getrandom(file_->key, sizeof file_->key, 0) != sizeof file_->key) std::abort();
  file_->next_id = 1;
  file_->first_free = kNoObject;
  file_->objects_used = 1;
  file_->magic = kMagic;
}

// No process sleeps in the mutex. When the owner dies, the kernel wakes one sleeper. If that
// sleeper is killed before it has the mutex, the others sleep for ever.
void World::lock() {
  int result = 0;
  for (int tries = 0; (result = pthread_mutex_trylock(&file_->mutex)) == EBUSY; ++tries) {
    if (tries < kYields) {
      sched_yield();
    } else {
      usleep(kPauseUs);
    }
  }
  if (result == EOWNERDEAD) {
    repair();
    pthread_mutex_consistent(&file_->mutex);
  }
}

void World::unlock() { pthread_mutex_unlock(&file_->mutex); }

World::Lock::Lock(World& world) : world_(world) { world_.lock(); }
World::Lock::~Lock() { world_.unlock(); }

void World::repair() {
  file_->first_free = kNoObject;
  std::memset(file_->bytes, 0, sizeof file_->bytes);
  const uint32_t used = file_->objects_used;
  for (uint32_t i = 1; i < used; ++i) at(i).references = 0;
  for (uint32_t i = 1; i < used; ++i) {
    Object& object = at(i);
    if (object.kind == FAKE_CUDA_NOTHING) {
      object.next_free = file_->first_free;
      file_->first_free = i;
      continue;
    }
    if (object.kind == FAKE_CUDA_ALLOCATION) file_->bytes[object.device] += object.size;
    if (object.target != kNoObject) ++at(object.target).references;
  }
  for (uint32_t i = 1; i < used; ++i) {
    if (at(i).kind != FAKE_CUDA_NOTHING) destroy_if_unused(i);
  }
}

uint32_t World::create(int32_t kind, uint32_t device, uint64_t size, uint32_t target) {
  uint32_t index = file_->first_free;
  if (index == kNoObject) {
    index = file_->objects_used;
    if (index == kObjects) {
      std::fprintf(stderr, "fake libcuda: the world is full\n");
      std::abort();
    }
    file_->objects_used = index + 1;
  } else {
    file_->first_free = at(index).next_free;
  }
  Object& object = at(index);
  std::memset(static_cast<void*>(&object), 0, sizeof object);
  object.process = self;
  object.device = device;
  object.target = target;
  object.id = file_->next_id++;
  object.size = size;
  object.count = 1;
  object.recorder = kNobody;
  if (target != kNoObject) {
    object.target_id = at(target).id;
    ++at(target).references;
  }
  if (kind == FAKE_CUDA_ALLOCATION) file_->bytes[device] += size;
  object.kind.store(static_cast<uint32_t>(kind), std::memory_order_release);
  return index;
}

void World::destroy(uint32_t index) {
  Object& object = at(index);
  const uint32_t kind = object.kind;
  const uint32_t target = object.target;
  if (kind == FAKE_CUDA_ALLOCATION) {
    unlink(path("memory", object.id).c_str());
    file_->bytes[object.device] -= object.size;
  }
  if (object.exported != 0) unlink(path("export", object.id).c_str());
  object.kind.store(FAKE_CUDA_NOTHING, std::memory_order_release);
  object.next_free = file_->first_free;
  file_->first_free = index;
  if (target != kNoObject) {
    --at(target).references;
    destroy_if_unused(target);
  }
}

void World::destroy_if_unused(uint32_t index) {
  const Object& object = at(index);
  if (object.process == kNobody && object.references == 0 && !fds_left(index)) destroy(index);
}

void World::disown(uint32_t index) {
  at(index).process = kNobody;
  destroy_if_unused(index);
}

void World::release(uint32_t index) {
  if (self != kNobody && at(index).kind != FAKE_CUDA_NOTHING && at(index).process == self)
    disown(index);
}

bool World::alive(uint32_t slot) {
  if (slot == self) return true;
  if (slot == kNobody || file_->processes[slot].alive == 0) return false;
  struct flock asked = byte_of(slot, F_WRLCK);
  return fcntl(alive_, F_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
}

void World::reclaim() {
  for (uint32_t slot = 0; slot < kProcesses; ++slot) {
    if (file_->processes[slot].alive != 0 && !alive(slot)) leave(slot, true);
  }
  // Exported fds in messages that nobody received leave no other trace.
  const uint32_t used = file_->objects_used;
  for (uint32_t i = 1; i < used; ++i) {
    if (at(i).kind != FAKE_CUDA_NOTHING && at(i).exported != 0) destroy_if_unused(i);
  }
}

uint32_t World::join(int32_t pid) {
  // When a process is killed between taking its lock and its slot, the kernel releases the mutex
  // before its files. So a slot may look free while its byte is still locked.
  const auto take = [this](uint32_t slot) {
    const struct flock mine = byte_of(slot, F_WRLCK);
    return fcntl(alive_, F_SETLK, &mine) == 0;
  };
  uint32_t slot = kNobody;
  for (uint32_t i = 0; i < kProcesses && slot == kNobody; ++i) {
    if (file_->processes[i].pid == 0 && take(i)) slot = i;
  }
  for (uint32_t i = 0; i < kProcesses && slot == kNobody; ++i) {
    if (file_->processes[i].alive == 0 && take(i)) slot = i;
  }
  if (slot == kNobody) return kNobody;
  ProcessSlot& process = file_->processes[slot];
  for (size_t i = 0; i < kFunctions; ++i) file_->calls_of_ended[i] += process.calls[i].exchange(0);
  process.pid = pid;
  process.alive = 1;
  self = slot;
  return slot;
}

void World::leave(uint32_t slot, bool killed) {
  const uint32_t used = file_->objects_used;
  for (uint32_t i = 1; i < used; ++i) {
    Object& object = at(i);
    if (object.kind == FAKE_CUDA_NOTHING) continue;
    // The unfinished work of a dead process counts as complete, so that no process waits for it.
    if (object.recorder == slot && object.completed < object.recorded)
      object.completed.store(object.recorded);
    if (object.process == slot) {
      ++file_->left[killed ? 1 : 0][object.kind];
      disown(i);
    }
  }
  file_->processes[slot].alive = 0;
  if (slot == self) {
    const struct flock mine = byte_of(slot, F_UNLCK);
    fcntl(alive_, F_SETLK, &mine);
    self = kNobody;
  }
}

void World::fault(int32_t rule, const char* function, const std::string& text) {
  fake_cuda_fault& fault = file_->faults[file_->fault_count % kFaults];
  std::memset(&fault, 0, sizeof fault);
  fault.number = file_->fault_count;
  fault.rule = rule;
  fault.pid = getpid();
  std::snprintf(fault.function, sizeof fault.function, "%s", function);
  std::snprintf(fault.text, sizeof fault.text, "%s", text.c_str());
  ++file_->faults_of_rule[rule];
  ++file_->fault_count;
}

std::string World::path(const char* what, uint64_t id) const {
  return folder_ + "/" + what + "." + std::to_string(id);
}

}  // namespace fake_cuda
