// The tests of frames share these helpers: two connected sockets, payloads and files that a test
// can tell apart, and packets that are made by hand.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "channel/frames.h"
#include "os/socket.h"
#include "unit/os/guards.h"

namespace tenon::channel::frametest {

using os::Cancel;
using os::Fd;
using os::Wait;
using os::Waiter;
using test::SignalStorm;

constexpr size_t kHeader = 32;

inline Waiter forever() { return Waiter(Wait{}); }
inline Waiter look() { return Waiter(Wait{0, nullptr, false}); }
inline Waiter within_ms(int64_t ms) { return Waiter(Wait{ms * 1'000'000, nullptr, false}); }

inline Status flush_now(FrameSocket& socket) {
  Waiter waiter = look();
  return socket.flush(waiter);
}
inline Status flush_all(FrameSocket& socket) {
  Waiter waiter = forever();
  return socket.flush(waiter);
}
inline Result<InFrame> recv_now(FrameSocket& socket) {
  Waiter waiter = look();
  return socket.recv(waiter);
}
inline Result<InFrame> recv_one(FrameSocket& socket) {
  Waiter waiter = forever();
  return socket.recv(waiter);
}
inline Code code_of(const Result<InFrame>& result) { return result.status().code(); }

inline std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + seed * 17 + (i >> 8)) & 0xff);
  return bytes;
}

inline OutFrame make_frame(uint16_t kind, size_t size, std::vector<int> fds = {}) {
  OutFrame frame;
  frame.kind = kind;
  frame.payload = pattern(size, kind);
  frame.fds = std::move(fds);
  return frame;
}

struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};

inline Identity identity(int fd) {
  struct stat about{};
  EXPECT_EQ(::fstat(fd, &about), 0);
  return {about.st_dev, about.st_ino};
}

// Opens `distinct` files, and lists `count` of their fds. Neighbours in the list are different
// files.
struct Files {
  explicit Files(size_t count, size_t distinct = 41) {
    for (size_t i = 0; i < std::min(count, distinct); ++i) {
      files.emplace_back(::memfd_create("tenon-frames-test", MFD_CLOEXEC));
      EXPECT_TRUE(files.back().is_open());
    }
    for (size_t i = 0; i < count; ++i) fds.push_back(files[i % files.size()].get());
  }
  std::vector<Fd> files;
  std::vector<int> fds;
};

inline void expect_same_files(const std::vector<Fd>& got, const std::vector<int>& sent,
                              size_t count) {
  ASSERT_EQ(got.size(), count);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(identity(got[i].get()), identity(sent[i])) << "fd " << i;
    ASSERT_EQ(::fcntl(got[i].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

inline void expect_frame(Result<InFrame> result, uint16_t kind, size_t size, size_t fds = 0) {
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  const InFrame& frame = result.value();
  EXPECT_EQ(frame.kind, kind);
  EXPECT_TRUE(frame.payload == pattern(size, kind)) << frame.payload.size() << " bytes of " << size;
  EXPECT_EQ(frame.fds.size(), fds);
  EXPECT_EQ(frame.fds_announced, fds);
  EXPECT_TRUE(frame.fds_status.is_ok());
}

// A header that a test sets by hand, to send what a FrameSocket never sends.
struct RawHeader {
  uint32_t magic = 0x464E4E54;
  uint16_t version = 1;
  uint16_t kind = 1;
  uint32_t flags = 0;
  uint32_t payload = 0;
  uint32_t packet_fds = 0;
  uint32_t frame_fds = 0;
  uint64_t sequence = 0;
  std::vector<std::byte> bytes(size_t payload_bytes = 0) const {
    std::vector<std::byte> out(kHeader);
    const auto put = [&](size_t at, uint64_t value, size_t size) {
      for (size_t i = 0; i < size; ++i) out[at + i] = static_cast<std::byte>(value >> (8 * i));
    };
    put(0, magic, 4);
    put(4, version, 2);
    put(6, kind, 2);
    put(8, flags, 4);
    put(12, payload, 4);
    put(16, packet_fds, 4);
    put(20, frame_fds, 4);
    put(24, sequence, 8);
    const auto tail = pattern(payload_bytes, kind);
    out.insert(out.end(), tail.begin(), tail.end());
    return out;
  }
};

inline void send_raw(const Fd& socket, std::span<const std::byte> bytes,
                     std::span<const int> fds = {}) {
  const os::Transfer sent = os::send_message(socket.get(), bytes, {}, fds);
  ASSERT_EQ(sent.error, 0);
  ASSERT_EQ(sent.nbytes, bytes.size());
}

class OneSocket : public test::Guarded {
 protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit_), 0);
    rlimit raised = limit_;
    raised.rlim_cur = limit_.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
    Guarded::SetUp();
  }
  void TearDown() override {
    ::setrlimit(RLIMIT_NOFILE, &limit_);
    Guarded::TearDown();
  }

 private:
  rlimit limit_{};
};

class BothSockets : public OneSocket, public ::testing::WithParamInterface<SocketType> {
 protected:
  bool stream() const { return GetParam() == SocketType::kStream; }
};

// Two connected sockets with a FrameSocket on each.
struct Link {
  explicit Link(SocketType type) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(
        ::socketpair(AF_UNIX,
                     (type == SocketType::kStream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0,
                     ends),
        0);
    left_fd = Fd(ends[0]);
    right_fd = Fd(ends[1]);
    left = std::make_unique<FrameSocket>(ends[0], type);
    right = std::make_unique<FrameSocket>(ends[1], type);
  }
  void set_send_buffer(int size) {
    EXPECT_EQ(::setsockopt(left_fd.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
  }
  Fd left_fd, right_fd;
  std::unique_ptr<FrameSocket> left, right;
};

// One packet that a FrameSocket wrote. packets_of() returns the packets of some frames in order.
struct Packet {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

inline std::vector<Packet> packets_of(std::vector<OutFrame> frames) {
  Link link(SocketType::kSeqpacket);
  std::vector<Packet> packets;
  for (OutFrame& frame : frames) link.left->enqueue(std::move(frame));
  EXPECT_TRUE(flush_all(*link.left).is_ok());
  for (;;) {
    Packet packet;
    packet.bytes.resize(kHeader + kMaxFramePayload);
    os::ReceivedFds fds;
    const os::Transfer got = os::receive_message(link.right_fd.get(), packet.bytes, false, &fds);
    if (got.error == EAGAIN) return packets;
    packet.bytes.resize(got.nbytes);
    fds.move_to(packet.fds);
    packets.push_back(std::move(packet));
  }
}

inline std::vector<int> numbers(const std::vector<Fd>& fds) {
  std::vector<int> out;
  for (const Fd& fd : fds) out.push_back(fd.get());
  return out;
}

// Lets the process open exactly `count` more fds while the object lives.
class RoomForFds {
 public:
  explicit RoomForFds(size_t count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    // UBSan opens a pipe when it checks the vtable of a type for the first time. This line makes
    // UBSan open the pipe for the type inside Status before the limit is set.
    const Status first = Status(Code::kIo, "first"), second = first;
    std::vector<Fd> taken;
    for (size_t i = 0; i <= count; ++i) taken.emplace_back(::dup(0));
    // The first number that the kernel refuses is the one behind the `count` free numbers.
    set(static_cast<rlim_t>(taken.back().get()));
  }
  RoomForFds(const RoomForFds&) = delete;
  RoomForFds& operator=(const RoomForFds&) = delete;
  ~RoomForFds() { set(before_.rlim_cur); }

 private:
  void set(rlim_t most) {
    const rlimit limit{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  rlimit before_{};
};

inline std::string socket_name(const ::testing::TestParamInfo<SocketType>& one) {
  return one.param == SocketType::kStream ? "stream" : "seqpacket";
}

}  // namespace tenon::channel::frametest
