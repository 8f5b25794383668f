// A hostile peer whose connection has rings may write into its own file of a ring and into its page
// of the other one, at any time. The honest side gets typed errors within its timeouts, reads
// nothing out of bounds (the sanitizers' builds run this test), and goes on with its other
// connections.
#include <sys/prctl.h>

#include <atomic>
#include <cinttypes>
#include <random>

#include "process/fault/kit.h"
#include "support/seed.h"

namespace fault {
namespace {

constexpr int64_t kCallNs = 20'000'000;
constexpr int64_t kMostNs = kCallNs + int64_t{kPatienceMs} * 1'000'000;
constexpr uint64_t kRingFileNbytes = 256 + 64 * 1024;  // docs/format/ring.md
constexpr uint64_t kPageNbytes = 4096;

int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

tenon_connection_options ring_options() {
  auto options = tenon::test::sized<tenon_connection_options>();
  options.flags = TENON_CONNECTION_RING;
  return options;
}

tenon_connection* connect_with_ring(int socket) {
  const tenon_connection_options options = ring_options();
  return new_connection(socket, &options);
}

// Sends the number as a message's bytes.
Outcome send_bytes(tenon_connection* connection, uint64_t number, int64_t timeout_ns) {
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  REQUIRE_OK(tenon_message_set_user_bytes(message, &number, sizeof number, err));
  const tenon_wait wait = wait_ns(timeout_ns);
  Outcome outcome = CALL(tenon_send(connection, message, &wait, err));
  tenon_message_release(message);
  return outcome;
}

Outcome receive_bytes(tenon_connection* connection, int64_t timeout_ns, uint64_t* number) {
  tenon_message* message = nullptr;
  const tenon_wait wait = wait_ns(timeout_ns);
  Outcome outcome = CALL(tenon_recv(connection, &wait, &message, err));
  if (!outcome.ok()) return outcome;
  size_t nbytes = 0;
  const void* const bytes = tenon_message_user_bytes(message, &nbytes);
  *number = 0;
  if (nbytes == sizeof *number) std::memcpy(number, bytes, nbytes);
  tenon_message_release(message);
  return outcome;
}

// The memory of rings that this process may write: its own file, and its page of the peer's ring.
struct RingMemory {
  std::vector<std::atomic<uint64_t>*> files, pages;

  RingMemory without(const RingMemory& others) const {
    RingMemory rest;
    const auto keep = [](const auto& from, const auto& not_these, auto* to) {
      for (auto* const each : from) {
        if (std::count(not_these.begin(), not_these.end(), each) == 0) to->push_back(each);
      }
    };
    keep(files, others.files, &rest.files);
    keep(pages, others.pages, &rest.pages);
    return rest;
  }
};

RingMemory find_rings() {
  RingMemory found;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    uint64_t begin = 0, end = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, rights.data()) != 3)
      continue;
    if (line.find("memfd:") == std::string::npos || std::string(rights.data()) != "rw-s") continue;
    auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(begin);
    const bool is_file = std::memcmp(words, "TENONRNG", 8) == 0;
    if (is_file) {
      CHECK(end - begin >= kRingFileNbytes);
      found.files.push_back(words);
    } else if (end - begin == kPageNbytes && static_cast<uint32_t>(words[2].load()) == 1) {
      found.pages.push_back(words);  // `ready` is 1
    }
  }
  return found;
}

enum class Harm { kPage, kFile, kLikely };

void write_harm(const RingMemory& memory, Harm harm, std::mt19937_64* random) {
  const bool of_page = harm == Harm::kPage || (harm == Harm::kLikely && (*random)() % 2 == 0);
  const auto& all = of_page ? memory.pages : memory.files;
  const uint64_t nbytes = of_page ? kPageNbytes : kRingFileNbytes;
  // The words that matter are at the front of the file and of the page.
  const uint64_t most = (*random)() % 4 == 0 ? nbytes / 8 : 64;
  const uint64_t index = (*random)() % most;
  uint64_t value = (*random)() >> ((*random)() % 64);
  if (harm == Harm::kLikely) {
    const uint64_t seen = all[0][index].load(std::memory_order_relaxed);
    const std::array<uint64_t, 8> near = {seen + 1, seen - 1, seen + 64,  seen - 64,
                                          seen ^ 1, 0,        UINT64_MAX, seen + 2};
    value = near[value % near.size()];
  }
  all[0][index].store(value, std::memory_order_relaxed);
}

// Uses a connection with rings in both directions, and does harm meanwhile, until it is killed.
[[noreturn]] void be_hostile(int socket, Harm harm, uint64_t seed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const RingMemory inherited = find_rings();
  tenon_connection* const mine = connect_with_ring(socket);
  uint64_t number = 0;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(receive_bytes(mine, 5'000'000'000, &number).ok());
    REQUIRE(send_bytes(mine, number, 5'000'000'000).ok());
  }
  const RingMemory memory = find_rings().without(inherited);
  REQUIRE(memory.files.size() == 1 && memory.pages.size() == 1);
  REQUIRE(receive_bytes(mine, 5'000'000'000, &number).ok());
  std::thread traffic([&] {
    while (true) {
      uint64_t got = 0;
      (void)receive_bytes(mine, 1'000'000, &got);
      (void)send_bytes(mine, 1, 1'000'000);
    }
  });
  std::mt19937_64 random(seed);
  while (true) {
    write_harm(memory, harm, &random);
    if (random() % 64 == 0) usleep(50);
  }
}

bool is_typed(tenon_status status) {
  switch (status) {
    case TENON_OK:
    case TENON_WOULD_BLOCK:
    case TENON_TIMEOUT:
    case TENON_CORRUPT:
    case TENON_INCOMPATIBLE:
    case TENON_PEER_GONE:
    case TENON_RESOURCE_EXHAUSTED: return true;
    default: return false;
  }
}

void check_call(const char* what, int64_t begin, const Outcome& outcome) {
  const int64_t took = clock_ns() - begin;
  CHECK_SAYING(is_typed(outcome.status), std::string(what) + ": " + outcome.text());
  CHECK_SAYING(took < kMostNs, std::string(what) + " took " + std::to_string(took) + " ns");
}

// Both ends of a connection of this process, with rings in both directions.
struct HonestPair {
  HonestPair() {
    const std::array<int, 2> ends = socket_ends();
    left = connect_with_ring(ends[0]);
    right = connect_with_ring(ends[1]);
  }
  HonestPair(const HonestPair&) = delete;
  HonestPair& operator=(const HonestPair&) = delete;
  ~HonestPair() {
    tenon_connection_release(left);
    tenon_connection_release(right);
  }
  void check(uint64_t number) const {
    uint64_t got = 0;
    CHECK(send_bytes(left, number, kCallNs * 100).ok());
    CHECK(receive_bytes(right, kCallNs * 100, &got).ok());
    CHECK_EQ(got, number);
    CHECK(send_bytes(right, number + 1, kCallNs * 100).ok());
    CHECK(receive_bytes(left, kCallNs * 100, &got).ok());
    CHECK_EQ(got, number + 1);
  }
  tenon_connection* left = nullptr;
  tenon_connection* right = nullptr;
};

// Returns how many calls were made on the connection to the hostile peer.
uint64_t use_beside(Harm harm, uint64_t seed, const HonestPair& other) {
  const std::array<int, 2> ends = socket_ends();
  const pid_t hostile = spawn([&] {
    close(ends[0]);
    be_hostile(ends[1], harm, seed);
  });
  close(ends[1]);
  tenon_connection* const mine = connect_with_ring(ends[0]);
  uint64_t number = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    CHECK(send_bytes(mine, i, 5'000'000'000).ok());
    CHECK(receive_bytes(mine, 5'000'000'000, &number).ok());
    CHECK_EQ(number, i);
  }
  CHECK(send_bytes(mine, 3, 5'000'000'000).ok());  // the harm begins
  uint64_t calls = 0;
  bool is_broken = false;
  for (const int64_t end = clock_ns() + 150'000'000;
       clock_ns() < end && !is_broken && g_failures == 0; ++calls) {
    int64_t begin = clock_ns();
    const Outcome sent = send_bytes(mine, calls, kCallNs);
    check_call("send", begin, sent);
    begin = clock_ns();
    const Outcome received = receive_bytes(mine, kCallNs, &number);
    check_call("receive", begin, received);
    other.check(calls);
    is_broken = received.status == TENON_CORRUPT;
    if (is_broken) {
      const Outcome again = receive_bytes(mine, kCallNs, &number);
      CHECK_SAYING(again.status == TENON_CORRUPT, again.text());
    }
  }
  kill(hostile, SIGKILL);
  (void)wait_for_child(hostile);
  tenon_connection_release(mine);
  return calls;
}

void beside_hostile_rings(Harm harm) {
  const uint64_t seed = test_seed();
  IN_CHILD([&] {
    uint64_t calls = 0;
    {
      const HonestPair other;
      other.check(1);
      for (uint64_t i = 0; i < 8 && g_failures == 0; ++i)
        calls += use_beside(harm, seed + i, other);
      other.check(2);
    }
    CHECK(calls > 8);
  });
}

TEST(HostileRing, RandomWordsInTheReceiversPage) { beside_hostile_rings(Harm::kPage); }
TEST(HostileRing, RandomWordsInTheSendersFile) { beside_hostile_rings(Harm::kFile); }
// Words that are nearly right: positions, numbers of sleeps, lengths.
TEST(HostileRing, LikelyWordsInBoth) { beside_hostile_rings(Harm::kLikely); }

}  // namespace
}  // namespace fault
