// Rules about what a process leaves behind: one that forked, one that ended, and one that was
// killed at any instruction.
#include <dirent.h>
#include <fcntl.h>

#include <ctime>
#include <random>

#include "peer.h"

using namespace rules;

namespace {

constexpr size_t kSizeAtDeath = size_t{2} << 20;

// Counts the files in the world that belong to objects.
size_t files() {
  size_t count = 0;
  DIR* folder = opendir(std::getenv("FAKE_CUDA_WORLD"));
  while (const dirent* entry = readdir(folder))
    count += std::strchr(entry->d_name, '.') != nullptr && entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

}  // namespace

TEST(fork_after_init) {
  const Started started;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc(&pointer, kSizeAtDeath));
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const bool refused = cu.cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                         cu.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                         cu.cuMemFree(pointer) == CUDA_ERROR_NOT_INITIALIZED;
    // A real driver promises nothing for its exit handlers in a forked child.
    cu.fake ? exit(refused ? 0 : 1) : _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  // The parent still has its objects, although the child ran its exit handlers.
  OK(cu.cuMemsetD8(pointer, 1, kSizeAtDeath));
  OK(cu.cuMemFree(pointer));
  if (!cu.fake) return;
  EQUAL(cu.fake_cuda_processes(), 1U);
  EQUAL(cu.fake_cuda_faults(FAKE_CUDA_USED_AFTER_FORK), 2U);
}

TEST(fork_before_init) {
  const pid_t child = fork();
  if (child == 0) {
    CUcontext context = nullptr;
    CUdeviceptr pointer = 0;
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuMemAlloc(&pointer, kSizeAtDeath));
    OK(cu.cuMemFree(pointer));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    exit(failures == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (cu.fake) EQUAL(cu.fake_cuda_left(0, 0), 0U);
}

PEER(forgets) {
  const Started started;
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  OK(cu.cuMemAlloc(&pointer, kSizeAtDeath));
  OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
}

FAKE_TEST(what_is_left_at_exit, "") {
  {
    Peer peer("forgets");
  }
  EQUAL(cu.fake_cuda_left(FAKE_CUDA_ALLOCATION, 0), 1U);
  EQUAL(cu.fake_cuda_left(FAKE_CUDA_EVENT, 0), 1U);
  EQUAL(cu.fake_cuda_left(0, 1), 0U);
  EQUAL(cu.fake_cuda_live(0, 0), 0U);
  EQUAL(cu.fake_cuda_bytes(0), 0U);
  EQUAL(cu.fake_cuda_calls("cuMemAlloc", 0), 1U);
  EQUAL(files(), 0U);
}

PEER(lends) {
  const Started started;
  CUdeviceptr pointer = 0;
  Sent sent;
  OK(cu.cuMemAlloc(&pointer, kSizeAtDeath));
  OK(cu.cuMemsetD8(pointer, 7, kSizeAtDeath));
  OK(cu.cuIpcGetMemHandle(&sent.memory, pointer));
  parent.send(sent);
  parent.receive<int>();
}

PEER(opens_nothing) {
  const Started started;
  const Sent sent = parent.receive<Sent>();
  CUdeviceptr pointer = 0;
  CHECK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_SUCCESS);
}

FAKE_TEST(killed_exporter, "") {
  const Started started;
  Peer peer("lends");
  const Sent sent = peer.receive<Sent>();
  CUdeviceptr pointer = 0;
  OK(cu.cuIpcOpenMemHandle(&pointer, sent.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  peer.kill();
  // The memory of the dead exporter stays with the process that has it open, and cannot be opened
  // again.
  EQUAL(first_byte(pointer), 7);
  EQUAL(cu.fake_cuda_bytes(0), kSizeAtDeath);
  Peer late("opens_nothing");
  late.send(sent);
  EQUAL(late.join(), 0);
  OK(cu.cuIpcCloseMemHandle(pointer));
  EQUAL(cu.fake_cuda_bytes(0), 0U);
  EQUAL(cu.fake_cuda_faults(0), 0U);
}

// When a starting process is killed, the kernel releases the world's mutex before its files. For a
// moment its slot looks free while its lock on the slot still stands.
FAKE_TEST(killed_while_it_starts, "") {
  const std::string alive = std::string(std::getenv("FAKE_CUDA_WORLD")) + "/alive";
  int ready[2] = {-1, -1};
  CHECK(pipe(ready) == 0);
  const pid_t dying = fork();
  if (dying == 0) {
    struct flock first = {};
    first.l_type = F_WRLCK;
    first.l_len = 2;
    const int fd = open(alive.c_str(), O_RDWR | O_CREAT, 0666);
    if (fcntl(fd, F_SETLK, &first) != 0 || write(ready[1], "r", 1) != 1) _exit(1);
    pause();
  }
  close(ready[1]);
  char byte = 0;
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  const Started started;
  kill(dying, SIGKILL);
  waitpid(dying, nullptr, 0);
  EQUAL(cu.fake_cuda_processes(), 1U);
}

// Repeats every operation that leaves something behind.
PEER(works_until_killed) {
  const Started started;
  const Sent sent = parent.receive<Sent>();
  parent.send(1);
  for (;;) {
    CUdeviceptr opened = 0;
    CUdeviceptr own = 0;
    CUevent event = nullptr;
    CUevent local = nullptr;
    OK(cu.cuIpcOpenMemHandle(&opened, sent.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cu.cuMemAlloc(&own, kSizeAtDeath));
    OK(cu.cuIpcOpenEventHandle(&event, sent.event));
    OK(cu.cuEventCreate(&local, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventRecord(event, nullptr));
    OK(cu.cuStreamWaitEvent(nullptr, event, 0));
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    OK(cu.cuMemCreate(&handle, kSizeAtDeath, &prop, 0));
    int fd = -1;
    OK(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUmemGenericAllocationHandle again = 0;
    OK(cu.cuMemImportFromShareableHandle(&again, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemRelease(again));
    OK(cu.cuEventDestroy(local));
    OK(cu.cuEventDestroy(event));
    OK(cu.cuMemFree(own));
    OK(cu.cuIpcCloseMemHandle(opened));
    if (failures > 0) _exit(1);
  }
}

FAKE_TEST(killed_anywhere, "") {
  const Started started;
  CUdeviceptr pointer = 0;
  CUevent event = nullptr;
  Sent sent;
  OK(cu.cuMemAlloc(&pointer, kSizeAtDeath));
  OK(cu.cuMemsetD8(pointer, 7, kSizeAtDeath));
  OK(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  OK(cu.cuIpcGetMemHandle(&sent.memory, pointer));
  OK(cu.cuIpcGetEventHandle(&sent.event, event));
  const char* asked = std::getenv("RULES_KILLS");
  const int kills = asked == nullptr ? 100 : std::atoi(asked);
  std::mt19937 random(static_cast<unsigned>(kills));
  for (int i = 0; i < kills; i += 2) {
    Peer one("works_until_killed");
    Peer other("works_until_killed");
    one.send(sent);
    other.send(sent);
    one.receive<int>();
    other.receive<int>();
    const timespec time = {0, static_cast<long>(random() % 3000000)};
    nanosleep(&time, nullptr);
    one.kill();
    nanosleep(&time, nullptr);
    other.kill();
    EQUAL(cu.fake_cuda_bytes(0), kSizeAtDeath);
    EQUAL(cu.fake_cuda_processes(), 1U);
    EQUAL(cu.fake_cuda_live(0, 0), cu.fake_cuda_live(0, getpid()));
  }
  EQUAL(first_byte(pointer), 7);
  OK(cu.cuEventSynchronize(event));
  OK(cu.cuEventDestroy(event));
  OK(cu.cuMemFree(pointer));
  EQUAL(cu.fake_cuda_faults(0), 0U);
  EQUAL(cu.fake_cuda_live(FAKE_CUDA_ALLOCATION, 0), 0U);
  EQUAL(files(), 0U);
}
