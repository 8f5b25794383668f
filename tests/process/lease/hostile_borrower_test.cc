// These tests run a borrower without the library. It reads messages by hand, writes random bytes
// from several threads over all that it may write, rings without end, and sends unexpected bytes on
// its connection. The lender and the honest borrowers beside it stay correct.
#include <memory>

#include "process/lease/hostile_kit.h"
#include "support/die_with_parent.h"
#include "support/seed.h"

namespace leases::raw {
namespace {

constexpr uint64_t kLentBlock = 64 * 1024;
constexpr uint64_t kLentRoom = 96 * kLentBlock;
// Each of the writing threads takes a processor during the rounds, and TSan makes each round slow.
constexpr int kRounds = TENON_TEST_TSAN ? 8 : 25;

enum class Says {
  kNothing,
  kHalfAFrame,    // the rest never comes
  kRandomBytes,   // without end
  kFramesOfOurs,  // the frames that it got, with their fds, numbered as its own
  kTheSameAgain,  // the frames that it got, with the numbers that they had
  kSpoiltFrames   // the frames that it got, with some bytes changed
};
constexpr std::array<const char*, 6> kNames = {"nothing",        "half a frame",
                                               "random bytes",   "frames that it got",
                                               "the same again", "spoilt frames"};

// The hostile borrower. It runs in a process of its own until it is killed.
class Borrower {
 public:
  Borrower(int socket, Says says, uint64_t seed) : socket_(socket), says_(says), random_(seed) {}

  [[noreturn]] void run() {
    // Messages of the connection are taken. Everything else that the borrower does is noise.
    while (true) {
      Packet packet = take_packet(socket_, true);
      if (packet.bytes.empty()) pause();
      if (accounts_++ < 4 && get<uint16_t>(packet.bytes, 6) >= kLeased && packet.fds.size() >= 3)
        harm(packet);
      if (got_.size() < 64) got_.push_back(packet);
      speak();
    }
  }

 private:
  void harm(const Packet& packet) {
    struct stat info{};
    REQUIRE(fstat(packet.fds[1], &info) == 0);
    const auto words = static_cast<size_t>(info.st_size) / 8;
    void* const page =
        mmap(nullptr, words * 8, PROT_READ | PROT_WRITE, MAP_SHARED, packet.fds[1], 0);
    REQUIRE(page != MAP_FAILED);
    const int bell = packet.fds[2];
    for (int i = 0; i < 2; ++i) {
      std::thread([page, words, seed = random_()] {
        std::mt19937_64 random(seed);
        while (true) {
          // Most writes hit the header and the slots in use, and some hit the other words. Most
          // values are almost all ones.
          const size_t at = random() % 4 == 0   ? random() % words
                            : random() % 2 == 0 ? random() % 512
                                                : 1536 + random() % 8;
          const uint64_t value = random() % 2 == 0 ? random() : random() | random() | random();
          __atomic_store_n(static_cast<uint64_t*>(page) + std::min(at, words - 1), value,
                           __ATOMIC_RELAXED);
        }
      }).detach();
    }
    std::thread([bell, seed = random_()] {
      std::mt19937_64 random(seed);
      const Bytes noise(8192, 'x');
      while (true) {
        if (random() % 8 == 0) {
          (void)send_packet(bell, {Bytes(1 + random() % 100, 'y'), {0, 1, 2}});
        } else {
          (void)::send(bell, noise.data(), 1 + random() % noise.size(),
                       MSG_DONTWAIT | MSG_NOSIGNAL);
        }
      }
    }).detach();
  }

  void speak() {
    switch (says_) {
      case Says::kNothing: break;
      case Says::kHalfAFrame:
        if (std::exchange(spoken_, true)) break;
        (void)send_packet(socket_, {frame_header(kLeased, 0, 5000, 0, 0, 0), {}});
        break;
      case Says::kRandomBytes: {
        Bytes bytes(1 + random_() % 5000);
        for (unsigned char& each : bytes) each = static_cast<unsigned char>(random_());
        (void)send_packet(socket_, {bytes, {}});
        break;
      }
      case Says::kFramesOfOurs:
      case Says::kTheSameAgain:
      case Says::kSpoiltFrames: {
        Packet packet = got_[random_() % got_.size()];
        if (says_ != Says::kTheSameAgain)
          std::memcpy(packet.bytes.data() + 24, &sequence_, sizeof sequence_);
        if (says_ == Says::kSpoiltFrames && packet.bytes.size() > 32) {
          for (int i = 0; i < 3; ++i)
            packet.bytes[32 + random_() % (packet.bytes.size() - 32)] =
                static_cast<unsigned char>(random_());
        }
        if (send_packet(socket_, packet)) ++sequence_;
        break;
      }
    }
  }

  int socket_;
  Says says_;
  std::mt19937_64 random_;
  int accounts_ = 0;
  bool spoken_ = false;
  uint64_t sequence_ = 0;
  std::vector<Packet> got_;
};

struct Honestly {
  Agent agent;
  Link link{&agent};
  std::vector<std::pair<int, uint64_t>> held;
  void check() {
    for (const auto& [message, seed] : held) CHECK(agent.shows(message, seed));
  }
  void let_go_of(size_t most) {
    while (held.size() > most) {
      CHECK(agent.shows(held.front().first, held.front().second));
      agent.release(held.front().first);
      held.erase(held.begin());
    }
  }
};

void stand_it(int type, Says says, uint64_t seed) {
  const std::string what = std::string(kNames[static_cast<size_t>(says)]) +
                           (type == SOCK_STREAM ? ", stream" : ", packets") + ", seed " +
                           std::to_string(seed);
  // The hostile process is forked before this one has a service thread. It never calls the library.
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const pid_t parent = getpid();
  const pid_t hostile = fault::spawn([&] {
    tenon::test::die_with_parent(parent);
    close(ends[0]);
    Borrower(ends[1], says, seed).run();
  });
  close(ends[1]);
  const fault::Held before = fault::hold();
  std::vector<std::unique_ptr<Honestly>> honest;
  for (int i = 0; i < 2; ++i) honest.push_back(std::make_unique<Honestly>());
  tenon_connection* connection = fault::new_connection(ends[0]);
  tenon_arena* arena = new_arena(kLentRoom, TENON_MODE_LENDER_WRITES);
  std::vector<tenon_message*> taken;
  uint64_t number = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& each : honest) {
      tenon_storage* storage = new_in(arena, kLentBlock, ++number, kPatienceNs);
      lend(each->link.here, {storage});
      tenon_storage_release(storage);
      const Done got = each->agent.receive(each->link.there);
      REQUIRE(got.ok());
      each->held.emplace_back(got.object, number);
      each->let_go_of(12);
    }
    tenon_storage* storage = nullptr;
    // The hostile borrower holds blocks as long as it likes, and the honest ones need the others.
    if (stats(arena).bytes_lent < kLentRoom / 2 && try_new(arena, kLentBlock, &storage).ok()) {
      names::put_pattern(storage, ~number);
      tenon_message* message = message_of({storage});
      tenon_storage_release(storage);
      const tenon_wait now = fault::wait_ns(0);
      const Outcome sent = CALL(tenon_send(connection, message, &now, err));
      CHECK_SAYING(sent.ok() || sent.status == TENON_WOULD_BLOCK, what + ": " + sent.text());
      tenon_message_release(message);
    }
    tenon_message* message = nullptr;
    const tenon_wait wait = fault::wait_ns(kMs);
    const Outcome got = CALL(tenon_recv(connection, &wait, &message, err));
    const bool typed = got.status == TENON_CORRUPT || got.status == TENON_INCOMPATIBLE ||
                       got.status == TENON_TIMEOUT || got.status == TENON_INVALID_ARGUMENT ||
                       got.status == TENON_RESOURCE_EXHAUSTED || got.status == TENON_PERMISSION;
    CHECK_SAYING(got.ok() || typed, what + ": " + got.text());
    if (message != nullptr && taken.size() < 8) {
      taken.push_back(message);
    } else {
      tenon_message_release(message);
    }
    if (round % 10 == 0) {
      for (const auto& each : honest) each->check();
    }
    uint64_t held = 0;
    for (const auto& each : honest) held += each->held.size();
    CHECK_SAYING(leases_standing() >= held, what);
    CHECK_SAYING(fault::count_open_fds() < before.fds + 100,
                 what + ": " + std::to_string(fault::count_open_fds()) + " fds");
  }
  ::kill(hostile, SIGKILL);
  CHECK_SAYING(WIFSIGNALED(fault::wait_for_child(hostile)), what);
  for (const auto& each : honest) each->let_go_of(0);
  for (tenon_message* each : taken) tenon_message_release(each);
  // The connection delivers what was sent, and then says that the peer is gone.
  Outcome last;
  for (int i = 0; i < 10'000 && last.status != TENON_PEER_GONE && last.status != TENON_CORRUPT &&
                  last.status != TENON_INCOMPATIBLE;
       ++i) {
    tenon_message* message = nullptr;
    last = try_receive(connection, &message);
    tenon_message_release(message);
  }
  CHECK_SAYING(last.status == TENON_PEER_GONE || last.status == TENON_CORRUPT ||
                   last.status == TENON_INCOMPATIBLE,
               what + ": " + last.text());
  tenon_connection_release(connection);
  CHECK_COMES_BACK(arena, kLentRoom);
  CHECK_SAYING(leases_standing() == 0, what);
  tenon_arena_release(arena);
  honest.clear();
  CHECK_SAYING(wait_until([&] { return fault::count_open_fds() < before.fds; }),
               what + ": " + std::to_string(fault::count_open_fds()) + " fds");
}

void stand_it_over_both(Says says) {
  for (const int type : fault::kSocketTypes) {
    IN_CHILD([&] { stand_it(type, says, test_seed()); });
  }
}

TEST(HostileBorrower, WritesOverThePageFromThreads) { stand_it_over_both(Says::kNothing); }
TEST(HostileBorrower, WritesHalfAFrame) { stand_it_over_both(Says::kHalfAFrame); }
TEST(HostileBorrower, SpeaksRandomBytes) { stand_it_over_both(Says::kRandomBytes); }
TEST(HostileBorrower, ReplaysWhatItGot) { stand_it_over_both(Says::kFramesOfOurs); }
TEST(HostileBorrower, ReplaysWithTheNumbersThatWere) { stand_it_over_both(Says::kTheSameAgain); }
TEST(HostileBorrower, ReplaysSpoilt) { stand_it_over_both(Says::kSpoiltFrames); }

}  // namespace
}  // namespace leases::raw
