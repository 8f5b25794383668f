// Sockets as the kernel has them: bytes and fds in, bytes and fds out, one system call each.
// Meaning is given to them in channel/.
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

// INVALID_ARGUMENT if `fd` is closed or no socket.
Result<SocketFacts> socket_facts(int fd);
// SO_SNDBUF as the kernel counts it; nothing if it cannot be asked.
std::optional<uint64_t> send_buffer_size(int fd) noexcept;
// Whether the peer has closed its end or shut it for writing.
bool peer_hung_up(int fd) noexcept;
// Whether an fd is one of two ends: a pipe's or a socket's.
bool can_hang_up(int fd) noexcept;

// The fds of one recvmsg, closed unless moved on. A fixed array: once the kernel has made the fds,
// nothing may fail any more.
class ReceivedFds {
 public:
  ReceivedFds() noexcept = default;
  ReceivedFds(const ReceivedFds&) = delete;
  ReceivedFds& operator=(const ReceivedFds&) = delete;
  ReceivedFds& operator=(ReceivedFds&& other) noexcept;
  ~ReceivedFds() { clear(); }

  size_t size() const noexcept { return count_; }
  bool cut() const noexcept { return cut_; }  // MSG_CTRUNC: the kernel dropped some, the last ones
  void add(int fd) noexcept;                  // closes it if there is no place
  void mark_cut() noexcept { cut_ = true; }
  void clear() noexcept;
  // Appends all to `out` and is empty then. If memory fails, nothing has moved.
  void move_to(std::vector<Fd>& out);

 private:
  std::array<int, kMaxFdsPerMessage> fds_;  // not initialised: only the first count_ mean anything
  size_t count_ = 0;
  bool cut_ = false;
};

struct Transfer {
  size_t nbytes = 0;
  int error = 0;          // errno; 0: it went well
  bool data_cut = false;  // MSG_TRUNC: the packet was longer than the room for it
};

// Hands `head` and `body` over in one call, with `fds` (at most kMaxFdsPerMessage). Never raises
// SIGPIPE, never returns EINTR.
Transfer send_message(int socket, std::span<const std::byte> head, std::span<const std::byte> body,
                      std::span<const int> fds) noexcept;
// recvmsg. `fds` must be empty; what it gets is close-on-exec. With `may_block` it sleeps as long
// as the socket's own flags let it. Never returns EINTR.
Transfer receive_message(int socket, std::span<std::byte> room, bool may_block,
                         ReceivedFds* fds) noexcept;

// How many fds this process has open (nothing if /proc does not tell).
std::optional<uint64_t> open_fd_count() noexcept;

}  // namespace tenon::os
