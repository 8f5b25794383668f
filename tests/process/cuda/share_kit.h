// Helpers for tests in which two processes lend device memory to each other: the line between the
// processes, and device memory to send.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "cuda/context.h"
#include "cuda/driver.h"
#include "device/by_cuda.h"
#include "device/import.h"
#include "device/memory.h"
#include "kit.h"
#include "support/packet.h"
#include "support/wait_until.h"

namespace cuda_test {

using namespace tenon;          // NOLINT(google-build-using-namespace): tests of its insides
using namespace tenon::device;  // NOLINT(google-build-using-namespace)
using storage::Storage;
using tenon::test::wait_until;

inline const cuda::Driver& driver() {
  static const cuda::Driver* const it = [] {
    Result<const cuda::Driver*> found = cuda::driver();
    if (found.is_ok()) return found.value();
    std::fprintf(stderr, "pid %d has no driver: %s\n", getpid(), found.status().message().c_str());
    std::abort();
  }();
  return *it;
}
#define CU(call) ASSERT_EQ(::cuda_test::driver().call, CUDA_SUCCESS)

// Makes the primary context of a device current in this thread.
inline void use_device(int ordinal = 0) {
  const CUcontext context = cuda::primary_context(driver(), ordinal).value();
  EXPECT_EQ(driver().cuCtxPushCurrent(context), CUDA_SUCCESS);
}

// The bytes of an event's IPC handle, as processes send it to each other.
using IpcBytes = std::array<uint8_t, 64>;

inline CUstream new_stream() {
  CUstream stream = nullptr;
  EXPECT_EQ(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  return stream;
}

// Makes the nth call of a function of the fake driver fail, or every call if nth is 0.
// CUDA_SUCCESS takes that back.
inline void fail_driver(const char* function, uint64_t nth, CUresult result) {
  LEDGER(fake_cuda_fail)(function, nth, result);
}

inline void fill(CUdeviceptr pointer, unsigned char byte, uint64_t nbytes,
                 CUstream stream = nullptr) {
  EXPECT_EQ(driver().cuMemsetD8Async(pointer, byte, nbytes, stream), CUDA_SUCCESS);
}

// Memory as from cudaMalloc, with a count of how often it was freed.
struct Memory {
  explicit Memory(uint64_t size) : nbytes(size) {
    EXPECT_EQ(driver().cuMemAlloc(&pointer, size), CUDA_SUCCESS);
  }
  Memory(uint64_t size, unsigned char byte) : Memory(size) { cuda_test::fill(pointer, byte, size); }
  std::byte* data(uint64_t offset = 0) const {
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer + offset));
  }
  CUdeviceptr pointer = 0;
  uint64_t nbytes;
  int freed = 0;
};
inline void free_memory(void* context) {
  auto* memory = static_cast<Memory*>(context);
  EXPECT_EQ(driver().cuMemFree(memory->pointer), CUDA_SUCCESS);
  ++memory->freed;
}
inline void count_free(void* context) { ++static_cast<Memory*>(context)->freed; }

inline Ref<Storage> wrap(Memory* memory) {
  Result<Ref<Storage>> storage =
      wrap_cuda(memory->data(), memory->nbytes, 0, free_memory, memory, false);
  EXPECT_TRUE(storage.is_ok()) << storage.status().message();
  return std::move(storage).value();
}

// A real driver loads the code of a fill or a copy on the first use. The load can wait for all
// running work, and would block for ever if that work waits for this process. So this function runs
// both kinds first.
inline void load_code() {
  static const bool once = [] {
    constexpr uint64_t kRoom = 4096;
    CUdeviceptr room = 0;
    EXPECT_EQ(driver().cuMemAlloc(&room, 2 * kRoom), CUDA_SUCCESS);
    fill(room, 0, kRoom);
    fill(room + 1, 0, 1);
    EXPECT_EQ(driver().cuMemcpyAsync(room + kRoom, room, kRoom, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(driver().cuMemFree(room), CUDA_SUCCESS);
    return true;
  }();
  (void)once;
}
// Makes the stream slow on every driver: work that is queued later waits for a function of the
// host.
inline void take_time(CUstream stream = nullptr) {
  load_code();
  const auto launch =
      reinterpret_cast<PFN_cuLaunchHostFunc_v10000>(dlsym(library(), "cuLaunchHostFunc"));
  ASSERT_NE(launch, nullptr);
  ASSERT_EQ(launch(stream, [](void*) { usleep(200000); }, nullptr), CUDA_SUCCESS);
}
// Host memory that the driver knows. A copy from a device to any other host memory blocks until it
// is done, so a test that copies behind a closed gate would deadlock.
class HostRoom {
 public:
  explicit HostRoom(size_t nbytes) {
    void* room = nullptr;
    EXPECT_EQ(driver().cuMemHostAlloc(&room, nbytes, 0), CUDA_SUCCESS);
    bytes_ = static_cast<unsigned char*>(room);
    std::memset(bytes_, 0, nbytes);
  }
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;
  ~HostRoom() { EXPECT_EQ(driver().cuMemFreeHost(bytes_), CUDA_SUCCESS); }
  CUdeviceptr pointer(size_t at = 0) const { return reinterpret_cast<uintptr_t>(bytes_ + at); }
  unsigned char operator[](size_t at) const { return bytes_[at]; }

 private:
  unsigned char* bytes_ = nullptr;
};
inline CUdeviceptr pointer_of(const Ref<Storage>& storage) {
  return reinterpret_cast<uintptr_t>(storage->data());
}
// Reads a byte after all work that is queued in the stream.
inline int byte_at(CUdeviceptr pointer, CUstream stream = nullptr) {
  unsigned char byte = 0;
  EXPECT_EQ(driver().cuMemcpyAsync(reinterpret_cast<uintptr_t>(&byte), pointer, 1, stream),
            CUDA_SUCCESS);
  EXPECT_EQ(driver().cuStreamSynchronize(stream), CUDA_SUCCESS);
  return byte;
}

// A socket between two processes of a test. It carries signals, values and handles with their fds.
class Line {
 public:
  Line() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_.data()), 0); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (ends_[side_] >= 0) close(ends_[side_]);
  }
  // Chooses this process's end. Both processes call it after the fork.
  void become(int side) {
    side_ = side;
    close(std::exchange(ends_[1 - side], -1));
  }

  void say(char word) { send_as(word); }
  void expect(char word) { ASSERT_EQ(receive_as<char>(), word); }
  // Says a word, and waits for the answer.
  void ask(char word, char answer) {
    say(word);
    expect(answer);
  }
  template <typename Value>
  void send_as(const Value& value) {
    if (!packets::put_packet(ends_[side_], &value, sizeof value, -1)) end("is not there to hear");
  }
  template <typename Value>
  Value receive_as() {
    Value value{};
    int none = -1;
    if (!packets::take_packet(ends_[side_], &value, sizeof value, &none)) end("says no more");
    return value;
  }
  void send(const CudaHandle& handle) {
    Packet packet{};
    packet.device = handle.device;
    packet.memory_nbytes = handle.memory.size();
    std::copy(handle.memory.begin(), handle.memory.end(),
              reinterpret_cast<std::byte*>(packet.memory));
    packet.nbytes = handle.nbytes;
    packet.offset = handle.offset;
    std::snprintf(packet.counter, sizeof packet.counter, "%s", handle.counter.c_str());
    packet.slot = handle.slot;
    packet.event = handle.event;
    packet.has_event = handle.has_event;
    packet.uuid = handle.uuid;
    packet.has_uuid = handle.has_uuid;
    packet.transport = handle.transport;
    packet.n_fds = handle.fds.size();
    send_as(packet);
    for (const int fd : handle.fds) {
      if (!packets::put_packet(ends_[side_], "", 1, fd)) end("is not there to take fds");
    }
  }
  CudaHandle receive() {
    const auto packet = receive_as<Packet>();
    CudaHandle handle;
    handle.device = packet.device;
    const auto* memory = reinterpret_cast<const std::byte*>(packet.memory);
    handle.memory.assign(memory, memory + packet.memory_nbytes);
    handle.nbytes = packet.nbytes;
    handle.offset = packet.offset;
    handle.counter = packet.counter;
    handle.slot = packet.slot;
    handle.event = packet.event;
    handle.has_event = packet.has_event;
    handle.uuid = packet.uuid;
    handle.has_uuid = packet.has_uuid;
    handle.transport = packet.transport;
    std::vector<int>& numbers = received_.emplace_back();
    for (uint64_t i = 0; i < packet.n_fds; ++i) {
      char nothing = 0;
      int fd = -1;
      if (!packets::take_packet(ends_[side_], &nothing, 1, &fd) || fd < 0)
        end("has no fds to give");
      numbers.push_back(fds_.emplace_back(fd).get());
    }
    handle.fds = numbers;
    return handle;
  }
  // Closes the fds of all received handles. Those handles cannot be opened afterwards.
  void close_fds() { fds_.clear(); }

 private:
  // Ends the process, because later checks would mean nothing.
  [[noreturn]] static void end(const char* what) {
    std::fprintf(stderr, "pid %d: the other side %s\n", getpid(), what);
    std::_Exit(2);
  }
  struct Packet {
    int32_t device;
    uint64_t memory_nbytes;
    unsigned char memory[256];
    uint64_t nbytes;
    uint64_t offset;
    char counter[256];
    uint64_t slot;
    cuda::IpcHandle event;
    bool has_event;
    cuda::Uuid uuid;
    bool has_uuid;
    CudaTransport transport;
    uint64_t n_fds;
  };
  std::array<int, 2> ends_{-1, -1};
  std::vector<os::Fd> fds_;
  std::deque<std::vector<int>> received_;
  int side_ = 0;
};

inline CudaHandle share(const Ref<Storage>& storage, CUstream stream = nullptr,
                        const CudaShareOptions& options = {}) {
  Result<CudaHandle> handle = share_cuda(storage, stream, options);
  EXPECT_TRUE(handle.is_ok()) << handle.status().message();
  return std::move(handle).value();
}
inline Ref<Storage> open(const CudaHandle& handle, CUstream stream = nullptr) {
  Result<Ref<Storage>> storage = open_cuda(handle, stream, {});
  EXPECT_TRUE(storage.is_ok()) << storage.status().message();
  return storage.is_ok() ? std::move(storage).value() : Ref<Storage>();
}

// How much is still lent or borrowed. Unless a latency is set, a stream of the fake has finished
// when a call returns. The streams of a real device take their time.
inline uint64_t left() {
  if (!on_the_fake()) (void)wait_until([] { return collect_cuda() == 0; }, std::chrono::seconds(5));
  return collect_cuda();
}

// Releases what is held, and expects that all lent and borrowed memory then comes back.
template <typename Held>
void release_all(Held* held) {
  *held = Held();
  EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
}

// Expects that nothing is left and that no rule was broken.
inline void expect_nothing_left() {
  EXPECT_EQ(left(), 0U);
  for (const fake_cuda_kind kind :
       {FAKE_CUDA_IPC_OPEN, FAKE_CUDA_EVENT_IMPORT, FAKE_CUDA_ALLOCATION, FAKE_CUDA_VMM_HANDLE,
        FAKE_CUDA_RESERVATION, FAKE_CUDA_MAPPING, FAKE_CUDA_POOL_IMPORT, FAKE_CUDA_POOL_POINTER}) {
    EXPECT_COUNT(0U, fake_cuda_live, kind, 0) << kind;
  }
  EXPECT_COUNT(0U, fake_cuda_faults, 0);
}

// Runs a sender and a receiver, each in a process of one world. The receiver may have extra
// variables.
inline void in_two(const std::vector<std::string>& environment,
                   const std::function<void(Line&)>& sender,
                   const std::function<void(Line&)>& receiver,
                   const std::vector<std::string>& of_receiver = {}) {
  in_child(environment, [&] {
    Line line;
    const pid_t other = start([&] {
      for (const std::string& entry : of_receiver) putenv(strdup(entry.c_str()));
      line.become(1);
      receiver(line);
    });
    line.become(0);
    sender(line);
    EXPECT_EQ(wait_for(other), 0);
    expect_nothing_left();
  });
}

constexpr uint64_t kNbytes = 4096;

// Lends one storage, and keeps it until the borrower says that it has released it.
inline void lend_one(Line& line) {
  use_device();
  Memory memory(kNbytes);
  fill(memory.pointer, 7, kNbytes);
  Ref<Storage> storage = wrap(&memory);
  line.send(share(storage));
  line.expect('o');
  storage = nullptr;
  EXPECT_EQ(collect_cuda(), 1U);
  EXPECT_EQ(memory.freed, 0);
  line.ask('r', 'd');
  EXPECT_EQ(left(), 0U);
  EXPECT_EQ(memory.freed, 1);
}

}  // namespace cuda_test
