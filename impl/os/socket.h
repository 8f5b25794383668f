// Thin wrappers of socket calls: bytes and fds out, bytes and fds in, each with one system call
// that is repeated only after EINTR. The folder channel/ gives them a meaning. The functions keep
// no state, so any thread may call them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

inline constexpr size_t kMaxFdsPerMessage = 253;  // the kernel's SCM_MAX_FD

struct SocketFacts {
  int domain = 0;  // AF_*
  int type = 0;    // SOCK_*
  bool listening = false;
  bool connected = false;
};

// INVALID_ARGUMENT if `fd` is closed or is no socket.
Result<SocketFacts> socket_facts(int fd);
// SO_SNDBUF as the kernel counts it: twice what was asked for, its own overhead included. No value
// if it cannot be read.
std::optional<uint64_t> send_buffer_size(int fd) noexcept;
// Whether the peer has closed its end or shut it for writing. Also true if `fd` is not open, and
// for a socket that was never connected.
bool peer_hung_up(int fd) noexcept;
// Whether the socket takes a packet now. The kernel says so while three quarters of the send buffer
// are free. Also true if sending would fail.
bool is_writable(int fd) noexcept;
// Whether the fd is a pipe or a socket, which can hang up.
bool can_hang_up(int fd) noexcept;

// The fds of one recvmsg. They are closed unless they are moved on. The array has a fixed size
// because nothing may fail once the kernel has made the fds.
class ReceivedFds {
 public:
  ReceivedFds() noexcept = default;
  ReceivedFds(const ReceivedFds&) = delete;
  ReceivedFds& operator=(const ReceivedFds&) = delete;
  ReceivedFds& operator=(ReceivedFds&& other) noexcept;
  ~ReceivedFds() { clear(); }

  size_t size() const noexcept { return count_; }
  bool cut() const noexcept { return cut_; }  // MSG_CTRUNC: the kernel dropped the last fds
  void add(int fd) noexcept;                  // closes the fd if the array is full
  void mark_cut() noexcept { cut_ = true; }
  void clear() noexcept;
  // Appends all fds to `out` and is empty afterwards. Throws std::bad_alloc if there is no memory,
  // and then no fd has moved.
  void move_to(std::vector<Fd>& out);

 private:
  std::array<int, kMaxFdsPerMessage> fds_;  // not initialised: only the first count_ are valid
  size_t count_ = 0;
  bool cut_ = false;
};

struct Transfer {
  size_t nbytes = 0;      // received 0 without an error: the other end has closed
  int error = 0;          // errno, 0 for success; EAGAIN: the call would have to wait
  bool data_cut = false;  // MSG_TRUNC: the packet was longer than the room for it
};

// Sends `head` and `body` in one call, with `fds` (at most kMaxFdsPerMessage). Never blocks, never
// raises SIGPIPE, never returns EINTR. `nbytes` of the result counts both parts together, and is 0
// after an error. A stream socket may take only a part. The fds have then gone with its first byte,
// so the caller sends the rest in another call and passes no fds to it. On a stream socket, fds
// without a byte do not arrive.
Transfer send_message(int socket, std::span<const std::byte> head, std::span<const std::byte> body,
                      std::span<const int> fds) noexcept;
// Receives one packet, or what a stream socket has. `fds` must be empty, and the fds that it gets
// are close-on-exec. With `may_block` the call sleeps if the socket itself is in blocking mode.
// Never returns EINTR.
Transfer receive_message(int socket, std::span<std::byte> room, bool may_block,
                         ReceivedFds* fds) noexcept;

// The number of fds that this process has open. No value if /proc does not tell.
std::optional<uint64_t> open_fd_count() noexcept;

}  // namespace tenon::os
