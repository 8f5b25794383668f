// These tests play a peer that breaks the protocol. It sends garbage, fds that are no memory, and
// too much of everything.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <random>

#include "process/fault/kit.h"

namespace fault {
namespace {

// One packet, or one piece of a stream, with its fds.
struct Piece {
  std::vector<unsigned char> bytes;
  std::vector<int> fds;
};

Piece receive_piece(int socket) {
  Piece piece;
  piece.bytes.resize(200000);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)];
  iovec part{piece.bytes.data(), piece.bytes.size()};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  piece.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  for (cmsghdr* each = got > 0 ? CMSG_FIRSTHDR(&packet) : nullptr; each != nullptr;
       each = CMSG_NXTHDR(&packet, each)) {
    const size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = piece.fds.size();
    piece.fds.resize(before + count);
    std::memcpy(piece.fds.data() + before, CMSG_DATA(each), count * sizeof(int));
  }
  return piece;
}

void send_piece(int socket, const std::vector<unsigned char>& bytes, const std::vector<int>& fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {};
  iovec part{const_cast<unsigned char*>(bytes.data()), bytes.size()};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (!fds.empty()) {
    packet.msg_control = control;
    packet.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  (void)!sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Returns what an honest connection sends for this message, in pieces. The lender is a process of
// its own, so this process does not know its memory.
template <typename Make>
std::vector<Piece> capture(int type, Make make) {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t lender = spawn([&] {
    close(ends[0]);
    tenon_connection* connection = new_connection(ends[1]);
    make(connection);
    tenon_connection_release(connection);
  });
  close(ends[1]);
  CHECK_EQ(wait_for_child(lender), 0);
  std::vector<Piece> pieces;
  for (;;) {
    Piece piece = receive_piece(ends[0]);
    if (piece.bytes.empty()) break;
    pieces.push_back(std::move(piece));
  }
  close(ends[0]);
  REQUIRE(!pieces.empty());
  return pieces;
}

std::vector<Piece> capture_one(int type, uint64_t nbytes, tenon_mode mode) {
  return capture(type, [&](tenon_connection* connection) {
    tenon_message* message = new_message({new_storage(nbytes, 1, mode, TENON_STORAGE_ISOLATED)});
    const tenon_wait now = wait_ns(0);
    REQUIRE_OK(tenon_send(connection, message, &now, err));
    tenon_message_release(message);
  });
}

void close_all(std::vector<Piece>* pieces) {
  for (Piece& piece : *pieces) {
    for (const int fd : piece.fds) close(fd);
  }
  pieces->clear();
}

// Feeds bytes and fds to a connection. Every receive must end with a typed error. Then the
// connection is released, and nothing of what it received may be left.
template <typename Feed>
std::vector<Outcome> feed_and_expect_errors(int type, Feed feed,
                                            const tenon_connection_options* options = nullptr) {
  const Held before = hold();
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  tenon_connection* connection = new_connection(ends[0], options);
  std::vector<Outcome> outcomes;
  const tenon_wait now = wait_ns(0);
  const auto receive = [&] {
    tenon_message* message = nullptr;
    Outcome outcome = CALL(tenon_recv(connection, &now, &message, err));
    if (outcome.ok()) tenon_message_release(message);
    outcomes.push_back(outcome);
    return outcomes.back();
  };
  feed(ends[1], receive);
  shutdown(ends[1], SHUT_WR);
  for (int i = 0; i < 3; ++i) receive();
  // The received bytes do not harm the other direction.
  const Outcome sent = CALL(tenon_send(connection, nullptr, &now, err));
  CHECK_SAYING(sent.ok(), sent.text());
  tenon_connection_release(connection);
  close(ends[1]);
  CHECK_HELD(before);
  return outcomes;
}

TEST(HostilePeer, Garbage) {
  IN_CHILD([] {
    std::mt19937 random(20261121);
    for (const int type : kSocketTypes) {
      for (const size_t nbytes : std::initializer_list<size_t>{1, 4, 31, 32, 33, 64, 1000, 65536}) {
        for (int round = 0; round < 8; ++round) {
          std::vector<unsigned char> bytes(nbytes);
          for (unsigned char& each : bytes)
            each = round == 0 ? 0 : round == 1 ? 0xff : static_cast<unsigned char>(random());
          const std::vector<int> fds(static_cast<size_t>(round % 3), 2);
          const auto outcomes = feed_and_expect_errors(type, [&](int socket, auto receive) {
            send_piece(socket, bytes, fds);
            receive();
          });
          CHECK_SAYING(!outcomes.back().ok(), outcomes.back().text());
          for (const Outcome& each : outcomes) {
            const bool typed = each.status == TENON_CORRUPT || each.status == TENON_INCOMPATIBLE ||
                               each.status == TENON_PEER_GONE || each.status == TENON_WOULD_BLOCK;
            CHECK_SAYING(typed, each.text());
          }
        }
      }
    }
  });
}

// Flips every byte of an honest message, one at a time, and cuts the message at every length.
TEST(HostilePeer, HonestBytesSpoilt) {
  IN_CHILD([] {
    for (const int type : kSocketTypes) {
      std::vector<Piece> honest = capture_one(type, 4096, TENON_MODE_SHARED);
      REQUIRE(honest.size() == 1);
      const Piece& piece = honest.front();
      const auto check = [](const std::vector<Outcome>& outcomes, size_t at) {
        for (const Outcome& each : outcomes) {
          CHECK_SAYING(each.status != TENON_INTERNAL && each.status != TENON_IO,
                       std::to_string(at) + ": " + each.text());
        }
      };
      for (size_t i = 0; i < piece.bytes.size(); ++i) {
        for (const int flip : {0xff, 0x01}) {
          std::vector<unsigned char> spoilt = piece.bytes;
          spoilt[i] = static_cast<unsigned char>(spoilt[i] ^ flip);
          check(feed_and_expect_errors(type,
                                       [&](int socket, auto receive) {
                                         send_piece(socket, spoilt, piece.fds);
                                         receive();
                                       }),
                i);
        }
        const std::vector<unsigned char> cut(piece.bytes.begin(),
                                             piece.bytes.begin() + static_cast<long>(i));
        if (!cut.empty()) {
          const auto outcomes = feed_and_expect_errors(
              type, [&](int socket, auto) { send_piece(socket, cut, piece.fds); });
          CHECK(!outcomes.back().ok());
          check(outcomes, i);
        }
      }
      // First too few fds, then too many.
      for (const std::vector<int>& fds : {std::vector<int>(), std::vector<int>(2, piece.fds[0])}) {
        const auto outcomes = feed_and_expect_errors(type, [&](int socket, auto receive) {
          send_piece(socket, piece.bytes, fds);
          CHECK_EQ(receive().status, TENON_CORRUPT);
          send_piece(socket, piece.bytes, piece.fds);
        });
        CHECK_EQ(outcomes.back().status, TENON_CORRUPT);
      }
      close_all(&honest);
    }
  });
}

struct WrongFd {
  const char* name;
  std::function<int()> make;
};

std::vector<WrongFd> wrong_fds(uint64_t nbytes) {
  return {
      {"a pipe",
       [] {
         int ends[2];
         REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
         close(ends[0]);
         return ends[1];
       }},
      {"a socket", [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }},
      {"a directory", [] { return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }},
      {"a device", [] { return open("/dev/zero", O_RDWR | O_CLOEXEC); }},
      {"an eventfd", [] { return eventfd(0, EFD_CLOEXEC); }},
      {"an epoll", [] { return epoll_create1(EPOLL_CLOEXEC); }},
      {"a path", [] { return open("/proc/self/exe", O_PATH | O_CLOEXEC); }},
      {"a file on a disk", [] { return open("/proc/self/exe", O_RDONLY | O_CLOEXEC); }},
      {"a file of /proc", [] { return open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }},
      {"an unsealed memfd", [nbytes] { return foreign_memfd(nbytes, 0); }},
      {"a memfd that is too short", [nbytes] { return foreign_memfd(nbytes - 1); }},
      {"an empty memfd", [] { return foreign_memfd(0); }},
      {"a memfd that is open for writing only",
       [nbytes] {
         const int fd = foreign_memfd(nbytes);
         const std::string path = "/proc/self/fd/" + std::to_string(fd);
         const int narrow = open(path.c_str(), O_WRONLY | O_CLOEXEC);
         close(fd);
         return narrow;
       }},
      {"a memfd of holes that is open for reading only",
       [nbytes] {
         const int fd = foreign_memfd(nbytes, F_SEAL_SHRINK | F_SEAL_GROW, false);
         const std::string path = "/proc/self/fd/" + std::to_string(fd);
         const int narrow = open(path.c_str(), O_RDONLY | O_CLOEXEC);
         close(fd);
         return narrow;
       }},
  };
}

TEST(HostilePeer, FdsThatAreNoMemory) {
  IN_CHILD([] {
    constexpr uint64_t kNbytes = 65536;
    for (const int type : kSocketTypes) {
      for (const tenon_mode mode : kModes) {
        std::vector<Piece> honest = capture_one(type, kNbytes, mode);
        const Piece& piece = honest.front();
        REQUIRE(piece.fds.size() == 1);
        for (const uint32_t open_flags :
             {uint32_t{0}, uint32_t{TENON_OPEN_PRIVATE_COPY}, uint32_t{TENON_OPEN_PRIVATE_COW}}) {
          tenon_connection_options options{};
          options.open_flags = open_flags;
          for (const WrongFd& wrong : wrong_fds(kNbytes)) {
            const int fd = wrong.make();
            if (!CHECK_SAYING(fd >= 0, wrong.name)) continue;
            const auto outcomes = feed_and_expect_errors(
                type,
                [&](int socket, auto receive) {
                  send_piece(socket, piece.bytes, {fd});
                  receive();
                },
                &options);
            const Outcome& outcome = outcomes.front();
            // A copy may come from any file that is large enough.
            const bool may_be_copied = open_flags == TENON_OPEN_PRIVATE_COPY &&
                                       (std::strstr(wrong.name, "disk") != nullptr ||
                                        std::strstr(wrong.name, "holes") != nullptr ||
                                        std::strstr(wrong.name, "unsealed") != nullptr);
            // Copy-on-write needs only a sealed size.
            const bool may_be_mapped =
                open_flags == TENON_OPEN_PRIVATE_COW && std::strstr(wrong.name, "holes") != nullptr;
            const bool typed = outcome.status == TENON_INVALID_ARGUMENT ||
                               outcome.status == TENON_CORRUPT ||
                               outcome.status == TENON_PERMISSION;
            CHECK_SAYING(typed || (outcome.ok() && (may_be_copied || may_be_mapped)),
                         std::string(wrong.name) + ": " + outcome.text());
            // CORRUPT ends the connection, whichever part of the receive finds it.
            CHECK_EQ(outcomes.back().status,
                     outcome.status == TENON_CORRUPT ? TENON_CORRUPT : TENON_PEER_GONE);
            close(fd);
          }
        }
        close_all(&honest);
      }
    }
  });
}

TEST(HostilePeer, MoreSegmentsThanAreAccepted) {
  IN_CHILD([] {
    for (const int type : kSocketTypes) {
      std::vector<Piece> pieces = capture(type, [](tenon_connection* connection) {
        const tenon_wait now = wait_ns(0);
        for (const int count : {3, 3, 10, 2, 1}) {
          std::vector<tenon_storage*> storages;
          for (int i = 0; i < count; ++i)
            storages.push_back(new_storage(600, static_cast<uint64_t>(i), TENON_MODE_SHARED,
                                           TENON_STORAGE_ISOLATED));
          // The storages stay alive to the end, so that the sender sends no notice that they are
          // forgotten.
          for (tenon_storage* each : storages) tenon_storage_retain(each);
          tenon_message* message = new_message(storages);
          REQUIRE_OK(tenon_send(connection, message, &now, err));
          tenon_message_release(message);
        }
      });
      tenon_connection_options options{};
      options.max_segments = 8;
      const auto outcomes = feed_and_expect_errors(
          type,
          [&](int socket, auto receive) {
            const long fds = count_open_fds();
            for (const Piece& piece : pieces) send_piece(socket, piece.bytes, piece.fds);
            CHECK(receive().ok());
            CHECK(receive().ok());
            const Outcome over = receive();
            CHECK_SAYING(over.status == TENON_RESOURCE_EXHAUSTED &&
                             over.detail("limit") == "max_segments" &&
                             over.detail("limit_value") == "8",
                         over.text());
            receive();
            receive();
            CHECK_SAYING(count_open_fds() <= fds + 8,
                         std::to_string(count_open_fds() - fds) + " fds are held");
          },
          &options);
      // Two more messages fitted, and the next one did not.
      CHECK_SAYING(outcomes[3].ok(), outcomes[3].text());
      CHECK_SAYING(outcomes[4].status == TENON_RESOURCE_EXHAUSTED &&
                       outcomes[4].detail("limit") == "max_segments",
                   outcomes[4].text());
      close_all(&pieces);
    }
  });
}

// A frame has many more fds than the receiver accepts. The receiver must not take them all first.
TEST(HostilePeer, AFrameOfManyFdsDoesNotTakeThemAll) {
  IN_CHILD([] {
    std::vector<Piece> pieces = capture(SOCK_SEQPACKET, [](tenon_connection* connection) {
      std::vector<tenon_storage*> storages;
      for (uint64_t i = 0; i < 1000; ++i)
        storages.push_back(new_storage(64, i, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED));
      tenon_message* message = new_message(storages);
      const tenon_wait now = wait_ns(0);
      REQUIRE_OK(tenon_send(connection, message, &now, err));
      tenon_message_release(message);
    });
    CHECK(pieces.size() >= 4);
    tenon_connection_options options{};
    options.max_segments = 8;
    feed_and_expect_errors(
        SOCK_SEQPACKET,
        [&](int socket, auto receive) {
          const long fds = count_open_fds();
          long most = 0;
          for (size_t i = 0; i < pieces.size(); ++i) {
            send_piece(socket, pieces[i].bytes, pieces[i].fds);
            CHECK(!receive().ok());
            most = std::max(most, count_open_fds() - fds);
          }
          CHECK_SAYING(most <= 253 + 8, std::to_string(most) + " fds were open");
        },
        &options);
    close_all(&pieces);
  });
}

TEST(HostilePeer, LargerMessagesThanAreAccepted) {
  IN_CHILD([] {
    for (const int type : kSocketTypes) {
      std::vector<Piece> pieces = capture(type, [](tenon_connection* connection) {
        tenon_storage* storage = new_storage(100, 1);
        const tenon_wait now = wait_ns(0);
        for (const size_t count : std::initializer_list<size_t>{3, 100, 5000, 3}) {
          tenon_message* message = new_large_message(storage, count);
          REQUIRE_OK(tenon_send(connection, message, &now, err));
          tenon_message_release(message);
        }
      });
      for (const bool by_count : {false, true}) {
        tenon_connection_options options{};
        (by_count ? options.max_tensors : options.max_message_nbytes) = by_count ? 50 : 4096;
        const char* limit = by_count ? "max_tensors" : "max_message_nbytes";
        feed_and_expect_errors(
            type,
            [&](int socket, auto receive) {
              for (const Piece& piece : pieces) send_piece(socket, piece.bytes, piece.fds);
              CHECK(receive().ok());
              for (int i = 0; i < 2; ++i) {
                const Outcome over = receive();
                CHECK_SAYING(over.status == TENON_RESOURCE_EXHAUSTED &&
                                 over.detail("limit") == limit &&
                                 !over.detail("limit_value").empty(),
                             over.text());
              }
              const Outcome last = receive();
              CHECK_SAYING(last.ok(), "a small message after large ones: " + last.text());
            },
            &options);
      }
      close_all(&pieces);
    }
  });
}

}  // namespace
}  // namespace fault
