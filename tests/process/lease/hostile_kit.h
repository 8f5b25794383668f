// Makes and sends frames, lease blocks, tokens, lease pages and bells without the library, so that
// the tests of hostile peers can also send wrong ones. The numbers are those of docs/format, not
// the library's constants.
#pragma once

#include <array>
#include <optional>

#include "process/lease/agent.h"

namespace leases::raw {

using Bytes = std::vector<unsigned char>;

template <typename T>
void put(Bytes* to, T value) {
  const auto* at = reinterpret_cast<const unsigned char*>(&value);
  to->insert(to->end(), at, at + sizeof value);
}
template <typename T>
T get(const Bytes& from, size_t at) {
  T value{};
  REQUIRE(at + sizeof value <= from.size());
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

inline constexpr uint16_t kLeased = 3;
inline constexpr uint16_t kLargeLeased = 4;
inline constexpr uint16_t kTokens = 5;
inline constexpr uint32_t kAccount = 1;
inline constexpr uint32_t kInherited = 2;
inline constexpr uint32_t kForgotten = 3;
inline constexpr uint32_t kNoLease = UINT32_MAX;

// ---- frames

struct Packet {
  Bytes bytes;
  std::vector<int> fds;
};

// Returns false if the socket has no room for the packet, or if the other end is closed.
inline bool send_packet(int socket, const Packet& packet, int flags = MSG_DONTWAIT) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 253)> control{};
  iovec part{const_cast<unsigned char*>(packet.bytes.data()), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!packet.fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * packet.fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * packet.fds.size());
    std::memcpy(CMSG_DATA(rights), packet.fds.data(), sizeof(int) * packet.fds.size());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | flags) ==
         static_cast<ssize_t>(packet.bytes.size());
}

// Returns an empty packet if none is there. A blocking call waits until a packet comes or the other
// end is closed.
inline Packet take_packet(int socket, bool blocking = false) {
  Packet packet;
  packet.bytes.resize(1 << 17);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 253)> control{};
  iovec part{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (blocking ? 0 : MSG_DONTWAIT));
  packet.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  for (cmsghdr* each = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr; each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const size_t before = packet.fds.size();
    packet.fds.resize(before + (each->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(packet.fds.data() + before, CMSG_DATA(each),
                (packet.fds.size() - before) * sizeof(int));
  }
  return packet;
}

inline Bytes frame_header(uint16_t kind, uint32_t flags, size_t nbytes, size_t packet_fds,
                          size_t frame_fds, uint64_t sequence) {
  Bytes bytes;
  put<uint32_t>(&bytes, 0x464E4E54);
  put<uint16_t>(&bytes, 1);
  put<uint16_t>(&bytes, kind);
  put<uint32_t>(&bytes, flags);
  put<uint32_t>(&bytes, static_cast<uint32_t>(nbytes));
  put<uint32_t>(&bytes, static_cast<uint32_t>(packet_fds));
  put<uint32_t>(&bytes, static_cast<uint32_t>(frame_fds));
  put<uint64_t>(&bytes, sequence);
  return bytes;
}

struct Frame {
  uint16_t kind = kLeased;
  Bytes payload;
  std::vector<int> fds;  // borrowed
};

// Cuts a frame into as many packets as its fds need.
inline std::vector<Packet> cut(const Frame& frame, uint64_t sequence) {
  std::vector<Packet> packets;
  for (size_t gone = 0;;) {
    const size_t left = frame.fds.size() - gone;
    const size_t now = std::min<size_t>(left, 253);
    const bool more = left > 253;
    Packet packet;
    packet.bytes = frame_header(frame.kind, more ? 1 : 0, more ? 0 : frame.payload.size(), now,
                                frame.fds.size(), sequence);
    if (!more) packet.bytes.insert(packet.bytes.end(), frame.payload.begin(), frame.payload.end());
    packet.fds.assign(frame.fds.begin() + static_cast<long>(gone),
                      frame.fds.begin() + static_cast<long>(gone + now));
    packets.push_back(std::move(packet));
    gone += now;
    if (!more) return packets;
  }
}

// ---- lease blocks

struct TokenRecord {
  uint64_t id = 1;
  uint32_t kind = kAccount;
  uint32_t n_fds = 3;
};

struct Block {
  std::optional<uint32_t> nbytes{};  // computed, unless set
  uint32_t version = 1;
  uint64_t account = 1;
  std::optional<uint32_t> n_tokens{};
  std::optional<uint32_t> n_leases{};
  std::vector<TokenRecord> tokens{};
  std::vector<uint32_t> slots{};
  unsigned char padding = 0;

  Bytes bytes() const {
    const size_t end = 24 + tokens.size() * 16 + slots.size() * 4;
    const size_t whole = (end + 7) / 8 * 8;
    Bytes all;
    put<uint32_t>(&all, nbytes.value_or(static_cast<uint32_t>(whole)));
    put<uint32_t>(&all, version);
    put<uint64_t>(&all, account);
    put<uint32_t>(&all, n_tokens.value_or(static_cast<uint32_t>(tokens.size())));
    put<uint32_t>(&all, n_leases.value_or(static_cast<uint32_t>(slots.size())));
    for (const TokenRecord& each : tokens) {
      put<uint64_t>(&all, each.id);
      put<uint32_t>(&all, each.kind);
      put<uint32_t>(&all, each.n_fds);
    }
    for (const uint32_t each : slots) put<uint32_t>(&all, each);
    all.resize(whole, padding);
    return all;
  }
};

// ---- the parts of an account

struct PageSpec {
  std::array<char, 8> magic = {'T', 'E', 'N', 'O', 'N', 'L', 'S', 'E'};
  uint32_t version = 1;
  uint32_t slots = 4096;
  uint64_t incompat = 0;
  std::optional<uint64_t> nbytes{};
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  bool read_only = false;  // whether the fd of the page is read-only
};

inline constexpr uint64_t released_at(uint32_t slots) {
  return 4096 + (uint64_t{slots} / 4096 * 8 + 4095) / 4096 * 4096;
}
inline constexpr uint64_t page_nbytes(uint32_t slots) { return released_at(slots) + slots / 8; }

inline int make_page(const PageSpec& spec = {}) {
  int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fd >= 0);
  Bytes head(spec.magic.begin(), spec.magic.end());
  put(&head, spec.version);
  put(&head, spec.slots);
  put(&head, spec.incompat);
  const uint64_t nbytes = spec.nbytes.value_or(page_nbytes(spec.slots));
  REQUIRE(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  if (nbytes >= head.size())
    REQUIRE(pwrite(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()));
  if (spec.seals != 0) REQUIRE(fcntl(fd, F_ADD_SEALS, spec.seals) == 0);
  if (spec.read_only) {
    const int narrow = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(narrow >= 0);
    close(fd);
    fd = narrow;
  }
  return fd;
}

// Closes *fd and sets it to -1.
inline void let_go(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

// The lender's side of an account. It also has the fds that travel, until let_go_of_sent().
struct Account {
  uint64_t id;
  int watch = -1;
  int token = -1;
  int page = -1;
  int listener = -1;
  int bell = -1;
  int own_page = -1;  // another fd of the page
  explicit Account(uint64_t number = 1, const PageSpec& spec = {})
      : id(number), page(make_page(spec)) {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    watch = ends[0];
    token = ends[1];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    listener = ends[0];
    bell = ends[1];
    own_page = fcntl(page, F_DUPFD_CLOEXEC, 0);
  }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;
  ~Account() {
    let_go_of_sent();
    for (int* each : {&watch, &listener, &own_page}) let_go(each);
  }
  void let_go_of_sent() {
    for (int* each : {&token, &page, &bell}) let_go(each);
  }
  std::vector<int> fds() const { return {token, page, bell}; }

  // Whether every copy of the token is closed.
  bool has_hung_up() const {
    pollfd polled{watch, 0, 0};
    return poll(&polled, 1, 0) == 1 && (polled.revents & POLLHUP) != 0;
  }
  bool is_given_back(uint32_t slot, uint32_t slots = 4096) const {
    uint64_t word = 0;
    REQUIRE(pread(own_page, &word, sizeof word,
                  static_cast<off_t>(released_at(slots) + slot / 64 * 8)) == sizeof word);
    return (word >> slot % 64 & 1) != 0;
  }
};

// The token and the watch of a lender further up. The token is sent as an INHERITED one.
struct Pipe {
  int watch = -1;
  int token = -1;
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    watch = ends[0];
    token = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    let_go(&watch);
    let_go(&token);
  }
  bool has_hung_up() const {
    pollfd polled{watch, 0, 0};
    return poll(&polled, 1, 0) == 1 && (polled.revents & POLLHUP) != 0;
  }
};

// ---- something to lend

inline constexpr uint64_t kPatternSeed = 77;

// The fds and descriptors that an honest lender sends for two storages, without the lease blocks.
// The lender is a process of its own, so this process does not know its memory.
struct Honest {
  static constexpr int kMore = 60;
  Bytes descriptor;
  std::vector<int> fds;     // the fds of its segments
  std::vector<Bytes> more;  // more descriptors over that segment, whose fd has crossed by then

  explicit Honest(uint64_t nbytes = 4096) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const pid_t lender = fault::spawn([&] {
      close(ends[0]);
      tenon_connection* connection = fault::new_connection(ends[1]);
      tenon_arena* arena = new_arena(kMiB, TENON_MODE_LENDER_WRITES);
      for (int i = 0; i < 1 + kMore; ++i)
        lend(connection,
             {new_in(arena, nbytes, kPatternSeed), new_in(arena, nbytes, kPatternSeed + 1)});
      tenon_connection_release(connection);
    });
    close(ends[1]);
    CHECK_EQ(fault::wait_for_child(lender), 0);
    for (int i = 0; i < 1 + kMore; ++i) {
      const Packet packet = take_packet(ends[0]);
      REQUIRE(get<uint16_t>(packet.bytes, 6) == kLeased && packet.fds.size() == (i == 0 ? 4 : 0));
      const auto block = get<uint32_t>(packet.bytes, 32);
      Bytes rest(packet.bytes.begin() + 32 + block, packet.bytes.end());
      if (i == 0) {
        descriptor = std::move(rest);
        for (size_t at = 0; at < 3; ++at) close(packet.fds[at]);
        fds = {packet.fds[3]};
      } else {
        more.push_back(std::move(rest));
      }
    }
    close(ends[0]);
  }
  Honest(const Honest&) = delete;
  Honest& operator=(const Honest&) = delete;
  ~Honest() {
    for (const int each : fds) close(each);
  }
};

// A message under leases that is right. A test changes the fields that are to be wrong.
struct Message {
  uint16_t kind = kLeased;
  Block block;
  Bytes descriptor;
  std::vector<int> token_fds;
  std::vector<int> segment_fds;
  Message(const Honest& honest, const Account& account)
      : descriptor(honest.descriptor), token_fds(account.fds()), segment_fds(honest.fds) {
    block.account = account.id;
    block.tokens = {{account.id, kAccount, 3}};
    block.slots = {7, 4095};
  }
  Bytes content() const {
    Bytes all = block.bytes();
    all.insert(all.end(), descriptor.begin(), descriptor.end());
    return all;
  }
  Frame frame() const {
    Frame frame{kind, content(), token_fds};
    frame.fds.insert(frame.fds.end(), segment_fds.begin(), segment_fds.end());
    return frame;
  }
  // The same message as a large frame. `memfd` has the content.
  Frame large(int memfd) const {
    Frame frame{kLargeLeased, {}, {memfd}};
    put<uint64_t>(&frame.payload, content().size());
    const Frame small = this->frame();
    frame.fds.insert(frame.fds.end(), small.fds.begin(), small.fds.end());
    return frame;
  }
};

inline int memfd_with(const Bytes& bytes, int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) {
  const int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (seals != 0) REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0);
  return fd;
}

}  // namespace leases::raw
