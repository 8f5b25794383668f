// A process can die at any step of a deposit or a fetch. In these tests a lender dies at system
// calls of its steps, a receiver dies at system calls and instructions of its steps, and a keeper
// dies between two fetches. Afterwards a living lender has no lease left, /dev/shm has no socket
// left, and every process that holds a message reads the right bytes.
#include <sys/prctl.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "process/fault/kit.h"
#include "process/fault/own_shm.h"
#include "process/storm/victim.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

namespace deposits {
namespace {

using fault::wait_for_child;
using fault::wait_ns;
using storm::g_kills;
using storm::Victim;

constexpr uint64_t kNbytes = 30'000;
constexpr int64_t kPatienceNs = 20'000'000'000;
// A step with more stops than these is killed at every second or third stop, and so on.
constexpr long kMostDepositKills = 16;
constexpr int kRandomDepositKills = 4;

using Bytes = std::vector<unsigned char>;

Bytes bytes_at(const void *data, size_t nbytes) {
  const auto *from = static_cast<const unsigned char *>(data);
  return {from, from + nbytes};
}

// ---- messages: each storage begins with the seed of its bytes

Bytes deposit(uint64_t seed) {
  tenon_message *message = fault::new_message({fault::new_storage(kNbytes, seed)});
  tenon_ticket *ticket = nullptr;
  REQUIRE_OK(tenon_message_deposit(message, &ticket, err));
  tenon_message_release(message);
  size_t nbytes = 0;
  const void *data = tenon_ticket_bytes(ticket, &nbytes);
  Bytes bytes = bytes_at(data, nbytes);
  tenon_ticket_release(ticket);
  return bytes;
}

struct Pieces {
  Bytes head;
  std::vector<Bytes> records;
};
// The first piece lies in an arena, as whole messages do. The second has a segment of its own.
Pieces deposit_pieces(uint64_t seed) {
  Pieces pieces;
  tenon_deposit *deposit = nullptr;
  REQUIRE_OK(tenon_deposit_new(&deposit, err));
  size_t nbytes = 0;
  const void *head = tenon_deposit_head(deposit, &nbytes);
  pieces.head = bytes_at(head, nbytes);
  for (uint32_t i = 0; i < 2; ++i) {
    tenon_storage *storage = fault::new_storage(kNbytes, seed + i, TENON_MODE_SHARED,
                                                i == 1 ? TENON_STORAGE_ISOLATED : 0);
    Bytes record(TENON_DEPOSIT_RECORD_NBYTES);
    REQUIRE_OK(tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, record.data(), &nbytes, err));
    record.resize(nbytes);
    pieces.records.push_back(std::move(record));
    tenon_storage_release(storage);
  }
  tenon_deposit_release(deposit);
  return pieces;
}

struct Fetch {
  tenon_message *message = nullptr;
  fault::Outcome outcome;
};
Fetch try_fetch(const Bytes &ticket) {
  Fetch fetch;
  const tenon_wait wait = wait_ns(kPatienceNs);
  fetch.outcome =
      CALL(tenon_message_fetch(ticket.data(), ticket.size(), nullptr, &wait, &fetch.message, err));
  return fetch;
}
bool has(const tenon_message *message, uint64_t seed) {
  return fault::has_pattern(tenon_tensor_data(tenon_message_tensor(message, 0)), kNbytes, seed);
}
tenon_message *fetch(const Bytes &ticket, uint64_t seed) {
  const Fetch fetch = try_fetch(ticket);
  if (!CHECK_SAYING(fetch.outcome.ok(), fetch.outcome.text())) _exit(1);
  CHECK(has(fetch.message, seed));
  return fetch.message;
}

fault::Outcome try_begin(const Bytes &head, tenon_fetched **out) {
  const tenon_wait wait = wait_ns(kPatienceNs);
  return CALL(tenon_fetched_new(head.data(), head.size(), nullptr, &wait, out, err));
}
tenon_fetched *begin_fetch(const Bytes &head) {
  tenon_fetched *fetched = nullptr;
  const fault::Outcome outcome = try_begin(head, &fetched);
  if (!CHECK_SAYING(outcome.ok(), outcome.text())) _exit(1);
  return fetched;
}
tenon_storage *open_piece(tenon_fetched *fetched, const Bytes &record, uint64_t seed) {
  tenon_storage *storage = nullptr;
  const tenon_wait wait = wait_ns(kPatienceNs);
  REQUIRE_OK(tenon_fetched_storage(fetched, record.data(), record.size(), &wait, &storage, err));
  CHECK(fault::has_pattern(tenon_storage_data(storage), kNbytes, seed));
  return storage;
}

uint64_t unfetched() {
  tenon_deposit_stats figures{};
  figures.struct_size = sizeof figures;
  CHECK_OK(tenon_deposit_stats_get(&figures, err));
  return figures.messages;
}

uint64_t held_leases() {
  std::array<tenon_lease_holder, 16> holders{};
  holders[0].struct_size = sizeof holders[0];
  size_t total = 0;
  CHECK_OK(tenon_lease_holders(holders.data(), holders.size(), &total, err));
  uint64_t leases = 0;
  for (size_t i = 0; i < std::min(total, holders.size()); ++i) leases += holders[i].leases;
  return leases;
}

// ---- /dev/shm, which is this test's own if the user may have one

class Folder {
 public:
  Folder() : own_(fault::has_own_shm()) {
    if (!own_)
      std::printf("  names in /dev/shm are not looked at: this user cannot have one of its own\n");
  }
  // After a sweep, /dev/shm has the sockets of the living lenders and nothing else.
  void check(size_t living, const std::string &where) const {
    if (!own_) return;
    std::set<std::string> left;
    const bool good = fault::wait_until([&] {
      CHECK_OK(tenon_filename_sweep(nullptr, nullptr, err));
      left = tenon::test::names_in("/dev/shm");
      return left.size() == living;
    });
    std::string all;
    for (const std::string &leaf : left) all += " " + leaf;
    CHECK_SAYING(good, where + ": in /dev/shm:" + all);
  }

 private:
  const bool own_;
};

// ---- a receiver dies

struct Given {
  uint64_t seed = 0;
  Bytes first, second;
  Pieces pieces;
};

// The tickets and objects of a receiver. Its lender is its parent, and it connects to that lender
// as any other process does.
struct Fetching {
  Given given;
  tenon_message *first = nullptr;
  tenon_message *second = nullptr;
  tenon_fetched *fetched = nullptr;
  tenon_storage *piece = nullptr;
};

struct FetchStep {
  const char *name;
  void (*prepare)(Fetching *);  // not traced
  void (*run)(Fetching *);
};

void meet(Fetching *stage) { stage->first = fetch(stage->given.first, stage->given.seed); }
void fetch_second(Fetching *stage) {
  stage->second = fetch(stage->given.second, stage->given.seed + 1);
}
void begin_pieces(Fetching *stage) { stage->fetched = begin_fetch(stage->given.pieces.head); }
void open_known(Fetching *stage) {
  stage->piece = open_piece(stage->fetched, stage->given.pieces.records[0], stage->given.seed + 2);
}
void open_unknown(Fetching *stage) {
  stage->piece = open_piece(stage->fetched, stage->given.pieces.records[1], stage->given.seed + 3);
}

const FetchStep kReceiverSteps[] = {
    {"fetch, the first call", [](Fetching *) {}, meet},
    {"fetch from a lender that was met", meet, fetch_second},
    {"begin a message in pieces", meet, begin_pieces},
    {"open a piece",
     [](Fetching *stage) {
       meet(stage);
       begin_pieces(stage);
     },
     open_known},
    {"open a piece of another segment",
     [](Fetching *stage) {
       meet(stage);
       begin_pieces(stage);
     },
     open_unknown},
    {"end a message in pieces",
     [](Fetching *stage) {
       meet(stage);
       begin_pieces(stage);
       open_known(stage);
     },
     [](Fetching *stage) { tenon_fetched_release(stage->fetched); }},
    {"give back",
     [](Fetching *stage) {
       meet(stage);
       fetch_second(stage);
       begin_pieces(stage);
       open_known(stage);
       tenon_fetched_release(stage->fetched);
     },
     [](Fetching *stage) {
       tenon_message_release(stage->first);
       tenon_message_release(stage->second);
       tenon_storage_release(stage->piece);
     }},
    {"end in order", meet, [](Fetching *) { std::exit(0); }},
};

// How far a victim comes before it is killed.
struct Moment {
  long stops = 0;  // starts and ends of system calls
  long instructions = 0;
};

Victim start_receiver(const FetchStep &step, const Given &given) {
  Fetching stage;
  stage.given = given;
  return Victim(step.name, [&] { step.prepare(&stage); }, [&] { step.run(&stage); });
}

bool advance(Victim *victim, Moment moment) {
  bool in_time = true;
  for (long i = 0; i < moment.stops && in_time; ++i) in_time = victim->to_next_call();
  for (long i = 0; i < moment.instructions && in_time; ++i) in_time = victim->to_next_instruction();
  return in_time;
}

// Fetches the messages that the dead receiver did not fetch. Returns how many there were.
uint64_t fetch_rest(const Given &given) {
  uint64_t count = 0;
  const Bytes *const tickets[] = {&given.first, &given.second};
  for (uint64_t i = 0; i < 2; ++i) {
    const Fetch rest = try_fetch(*tickets[i]);
    CHECK_SAYING(rest.outcome.ok() || rest.outcome.status == TENON_NOT_FOUND, rest.outcome.text());
    if (!rest.outcome.ok()) continue;
    CHECK(has(rest.message, given.seed + i));
    tenon_message_release(rest.message);
    ++count;
  }
  tenon_fetched *fetched = nullptr;
  const fault::Outcome begun = try_begin(given.pieces.head, &fetched);
  CHECK_SAYING(begun.ok() || begun.status == TENON_NOT_FOUND, begun.text());
  if (!begun.ok()) return count;
  for (uint64_t i = 0; i < 2; ++i)
    tenon_storage_release(open_piece(fetched, given.pieces.records[i], given.seed + 2 + i));
  tenon_fetched_release(fetched);
  return count + 1;
}

// A receiver that lives as long as the test, and checks its bytes at the end.
class Witness {
 public:
  explicit Witness(const Bytes &ticket, uint64_t seed) {
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0);
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(0);
      close(ends_[0]);
      tenon_message *const message = fetch(ticket, seed);
      REQUIRE(send(ends_[1], "x", 1, MSG_NOSIGNAL) == 1);
      char end = 0;
      REQUIRE(recv(ends_[1], &end, 1, 0) == 0);
      CHECK(has(message, seed));
      tenon_message_release(message);
    });
    close(ends_[1]);
    char begun = 0;
    REQUIRE(recv(ends_[0], &begun, 1, 0) == 1);
  }
  void finish() {
    close(ends_[0]);
    CHECK_EQ(wait_for_child(pid_), 0);
  }

 private:
  int ends_[2] = {-1, -1};
  pid_t pid_ = -1;
};

// The lender of all the receivers that die.
class Lender {
 public:
  Lender() : witness_(deposit(1), 1) {
    // The depot and its arena live as long as the process.
    give(0);
    for (const Bytes *const ticket : {&given_.first, &given_.second})
      CHECK_OK(tenon_ticket_withdraw(ticket->data(), ticket->size(), nullptr, err));
    CHECK_OK(
        tenon_ticket_withdraw(given_.pieces.head.data(), given_.pieces.head.size(), nullptr, err));
    CHECK_EQ(unfetched(), 0);
    CHECK_EQ(held_leases(), 1);
    before_ = fault::hold();
  }
  const Given &give(uint64_t round) {
    given_.seed = 10 * round + 2;
    given_.first = deposit(given_.seed);
    given_.second = deposit(given_.seed + 1);
    given_.pieces = deposit_pieces(given_.seed + 2);
    return given_;
  }
  // Call this after the victim's death. Returns how many messages the victim had not claimed. Until
  // the death is reported to the lender, the lender still counts a message that the victim claimed
  // and did not open.
  uint64_t check_rest(const std::string &where) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t heir = fault::spawn([&] {
      const uint64_t count = fetch_rest(given_);
      REQUIRE(write(ends[1], &count, sizeof count) == sizeof count);
    });
    CHECK_SAYING(wait_for_child(heir) == 0, where);
    close(ends[1]);
    uint64_t left = 0;
    REQUIRE(read(ends[0], &left, sizeof left) == sizeof left);
    close(ends[0]);
    CHECK_SAYING(fault::wait_until([] { return unfetched() == 0; }), where + ": messages are left");
    CHECK_SAYING(fault::wait_until([] { return held_leases() == 1; }), where + ": leases are left");
    CHECK_HELD(before_);
    return left;
  }
  void finish() { witness_.finish(); }

 private:
  Given given_;
  Witness witness_;
  fault::Held before_;
};

class Receivers {
 public:
  // Kills a victim at that moment. Returns how many messages are unfetched then, or nothing if the
  // step was over before.
  std::optional<uint64_t> kill_at(const FetchStep &step, Moment moment) {
    alarm(fault::kWatchdogSeconds);
    const Given &given = lender_.give(++round_);
    bool in_time = true;
    {
      Victim victim = start_receiver(step, given);
      in_time = advance(&victim, moment);
      victim.kill();
      CHECK(victim.went_well());
    }
    const std::string where = std::string(step.name) + ", killed " +
                              std::to_string(moment.instructions) + " instructions after stop " +
                              std::to_string(moment.stops);
    const uint64_t left = lender_.check_rest(where);
    return in_time ? std::optional<uint64_t>(left) : std::nullopt;
  }
  // How many stops the step has.
  long count_stops(const FetchStep &step) {
    Victim victim = start_receiver(step, lender_.give(++round_));
    long stops = 0;
    while (victim.to_next_call()) ++stops;
    victim.kill();
    CHECK(victim.went_well());
    (void)lender_.check_rest(step.name);
    return stops;
  }
  void finish(const Folder &folder) {
    lender_.finish();
    folder.check(1, "a living lender");  // the lender's socket
  }

 private:
  Lender lender_;
  uint64_t round_ = 0;
};

TEST(DepositDeaths, OfAReceiverAtSystemCalls) {
  IN_CHILD([] {
    const Folder folder;
    Receivers receivers;
    std::mt19937_64 random(test_seed());
    for (const FetchStep &step : kReceiverSteps) {
      const long stops = receivers.count_stops(step);
      const long apart = stops / kMostDepositKills + 1;
      for (long stop = static_cast<long>(random() % static_cast<uint64_t>(apart)); stop <= stops;
           stop += apart)
        (void)receivers.kill_at(step, {stop, 0});
      for (int i = 0; i < kRandomDepositKills && stops > 0; ++i)
        (void)receivers.kill_at(step, {static_cast<long>(random() % static_cast<uint64_t>(stops)),
                                       static_cast<long>(random() % 4000)});
      std::printf("  %s: %ld stops\n", step.name, stops);
      if (fault::g_failures > 0) return;
    }
    receivers.finish(folder);
    std::printf("  %llu kills\n", static_cast<unsigned long long>(g_kills));
  });
}

// A receiver claims a message by one exchange, which is one instruction between two system calls. A
// search finds that instruction: before it the message is unfetched, and behind it the message ends
// with the victim.
TEST(DepositDeaths, OfAReceiverAroundTheExchange) {
  IN_CHILD([] {
    constexpr uint64_t kAll = 3;
    constexpr long kMostInstructions = 1 << 16;
    const Folder folder;
    Receivers receivers;
    for (const FetchStep &step :
         {kReceiverSteps[0], FetchStep{"begin a message in pieces, the first call",
                                       [](Fetching *) {}, begin_pieces}}) {
      const auto is_fetched = [&](Moment moment) {
        return receivers.kill_at(step, moment).value_or(0) < kAll;
      };
      long stops = 0;
      for (long end = receivers.count_stops(step); end - stops > 1;) {
        const long middle = stops + (end - stops) / 2;
        (is_fetched({middle, 0}) ? end : stops) = middle;
      }
      long before = 0;
      long after = 64;
      while (after < kMostInstructions && !is_fetched({stops, after})) after *= 2;
      while (after - before > 1) {
        const long middle = before + (after - before) / 2;
        (is_fetched({stops, middle}) ? after : before) = middle;
      }
      CHECK(after < kMostInstructions);
      // Two runs need not have the same number of instructions.
      int fetched = 0;
      for (long near = -3; near <= 3; ++near)
        fetched += is_fetched({stops, std::max(before + near, 0L)}) ? 1 : 0;
      std::printf(
          "  %s: the exchange is %ld instructions behind stop %ld, %d of 7 beside it were "
          "fetched\n",
          step.name, after, stops, fetched);
      if (fault::g_failures > 0) return;
    }
    receivers.finish(folder);
    std::printf("  %llu kills\n", static_cast<unsigned long long>(g_kills));
  });
}

// ---- a lender dies

// A packet from a lender to its receiver: what is in it, and the seed of the bytes.
enum class What : unsigned char { kFetchNow = 'n', kFetchLater = 'l', kHead = 'h', kRecord = 'r' };

class ToReceiver {
 public:
  explicit ToReceiver(int socket) : socket_(socket) {}
  void give(What what, uint64_t seed, const Bytes &bytes) const {
    Bytes packet{static_cast<unsigned char>(what), static_cast<unsigned char>(seed)};
    packet.insert(packet.end(), bytes.begin(), bytes.end());
    REQUIRE(send(socket_, packet.data(), packet.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(packet.size()));
    char answer = 0;
    if (what == What::kFetchNow) REQUIRE(recv(socket_, &answer, 1, 0) == 1);
  }
  void give(uint64_t seed, const Pieces &pieces) const {
    give(What::kHead, seed, pieces.head);
    for (uint64_t i = 0; i < pieces.records.size(); ++i)
      give(What::kRecord, seed + i, pieces.records[i]);
  }

 private:
  int socket_;
};

// The errors that a receiver may get for messages of a dead lender.
struct Allowed {
  bool peer_gone = false;
  bool not_found = false;
  bool allows(const fault::Outcome &outcome) const {
    return outcome.ok() || (peer_gone && outcome.status == TENON_PEER_GONE) ||
           (not_found && outcome.status == TENON_NOT_FOUND);
  }
};

// A receiver: fetches some messages at once, and the others when the lender has died.
void receive(int socket, Allowed allowed) {
  std::vector<std::pair<uint64_t, tenon_message *>> kept;
  std::vector<std::pair<uint64_t, Bytes>> later;
  Bytes head;
  std::vector<std::pair<uint64_t, Bytes>> records;
  for (;;) {
    Bytes packet(8192);
    const ssize_t got = recv(socket, packet.data(), packet.size(), 0);
    if (got < 2) break;
    const auto what = static_cast<What>(packet[0]);
    const uint64_t seed = packet[1];
    Bytes bytes(packet.begin() + 2, packet.begin() + got);
    if (what == What::kFetchNow) {
      kept.emplace_back(seed, fetch(bytes, seed));
      REQUIRE(send(socket, "x", 1, MSG_NOSIGNAL) == 1);
    } else if (what == What::kFetchLater) {
      later.emplace_back(seed, std::move(bytes));
    } else if (what == What::kHead) {
      head = std::move(bytes);
    } else {
      records.emplace_back(seed, std::move(bytes));
    }
  }
  for (const auto &[seed, ticket] : later) {
    const Fetch rest = try_fetch(ticket);
    CHECK_SAYING(allowed.allows(rest.outcome), rest.outcome.text());
    if (rest.outcome.ok()) kept.emplace_back(seed, rest.message);
  }
  tenon_fetched *fetched = nullptr;
  if (!head.empty()) {
    const fault::Outcome begun = try_begin(head, &fetched);
    CHECK_SAYING(allowed.allows(begun), begun.text());
  }
  // The receiver does not know the segment of the second piece.
  for (size_t i = 0; fetched != nullptr && i < records.size(); ++i) {
    tenon_storage *storage = nullptr;
    const tenon_wait wait = wait_ns(kPatienceNs);
    const Bytes &record = records[i].second;
    const fault::Outcome opened =
        CALL(tenon_fetched_storage(fetched, record.data(), record.size(), &wait, &storage, err));
    CHECK_SAYING(i == 0 ? opened.ok() : opened.ok() || opened.status == TENON_PEER_GONE,
                 opened.text());
    if (opened.ok())
      CHECK(fault::has_pattern(tenon_storage_data(storage), kNbytes, records[i].first));
    tenon_storage_release(storage);
  }
  tenon_fetched_release(fetched);
  for (const auto &[seed, message] : kept) {
    CHECK(has(message, seed));
    tenon_message_release(message);
  }
}

struct LenderStep {
  const char *name;
  Allowed allowed;
  void (*prepare)(const ToReceiver &, Bytes *);
  void (*run)(const ToReceiver &, Bytes *);
};

void lend_and_meet(const ToReceiver &to, Bytes *) { to.give(What::kFetchNow, 1, deposit(1)); }

void lend_two(const ToReceiver &to, Bytes *second) {
  to.give(What::kFetchLater, 1, deposit(1));
  *second = deposit(2);
  to.give(What::kFetchLater, 2, *second);
}

const LenderStep kLenderSteps[] = {
    {"deposit, the first call",
     {.peer_gone = true},
     [](const ToReceiver &, Bytes *) {},
     [](const ToReceiver &to, Bytes *) { to.give(What::kFetchLater, 2, deposit(2)); }},
    {"deposit, and the receiver has met the lender",
     {},
     lend_and_meet,
     [](const ToReceiver &to, Bytes *) { to.give(What::kFetchLater, 2, deposit(2)); }},
    {"deposit in pieces",
     {},
     lend_and_meet,
     [](const ToReceiver &to, Bytes *) { to.give(3, deposit_pieces(3)); }},
    {"withdraw",
     {.not_found = true},
     [](const ToReceiver &to, Bytes *second) {
       lend_and_meet(to, second);
       lend_two(to, second);
     },
     [](const ToReceiver &, Bytes *second) {
       REQUIRE_OK(tenon_ticket_withdraw(second->data(), second->size(), nullptr, err));
     }},
    {"end in order",
     {.peer_gone = true},
     lend_two,
     [](const ToReceiver &, Bytes *) { std::exit(0); }},
    {"hand over",
     {.peer_gone = true},
     lend_two,
     [](const ToReceiver &, Bytes *) {
       REQUIRE_OK(tenon_deposit_hand_over(nullptr, nullptr, err));
     }},
};

// Keepers lose their parent and become children of this process, which is a subreaper.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::ifstream file("/proc/thread-self/children");
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}
// Waits until each keeper has ended.
void await_keepers(const std::string &where) {
  CHECK_SAYING(fault::wait_until([] {
                 while (waitpid(-1, nullptr, WNOHANG) > 0) {
                 }
                 return children().empty();
               }),
               where + ": a keeper is left");
}

// Kills the lender at that stop. A negative `stop` lets it end and counts. Returns how many stops
// there were.
long kill_lender(const LenderStep &step, long stop, const Folder &folder) {
  alarm(fault::kWatchdogSeconds);
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t receiver = fault::spawn([&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    receive(ends[1], step.allowed);
  });
  long stops = 0;
  {
    const ToReceiver to(ends[0]);
    Bytes second;
    Victim victim(
        step.name,
        [&] {
          close(ends[1]);
          step.prepare(to, &second);
        },
        [&] { step.run(to, &second); });
    close(ends[0]);
    close(ends[1]);
    while ((stop < 0 || stops < stop) && victim.to_next_call()) ++stops;
    victim.kill();
    CHECK(victim.went_well());
  }
  const std::string where = std::string(step.name) + ", killed at stop " + std::to_string(stop);
  const int how = wait_for_child(receiver);
  CHECK_SAYING(how == 0, where + ": the receiver: " + fault::describe_status(how));
  await_keepers(where);
  folder.check(0, where);
  return stops;
}

TEST(DepositDeaths, OfALender) {
  IN_CHILD([] {
    const Folder folder;
    REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    std::mt19937_64 random(test_seed());
    for (const LenderStep &step : kLenderSteps) {
      const long stops = kill_lender(step, -1, folder);
      const long apart = stops / kMostDepositKills + 1;
      for (long stop = static_cast<long>(random() % static_cast<uint64_t>(apart));
           stop <= stops && fault::g_failures == 0; stop += apart)
        (void)kill_lender(step, stop, folder);
      std::printf("  %s: %ld stops\n", step.name, stops);
      if (fault::g_failures > 0) return;
    }
    std::printf("  %llu kills\n", static_cast<unsigned long long>(g_kills));
  });
}

// ---- a keeper dies

enum class When { kBeforeItIsMet, kBetweenTwoFetches, kAfterTheExchange };

void kill_keeper(When when, const Folder &folder) {
  const std::string where = "keeper, case " + std::to_string(static_cast<int>(when));
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t lender = fault::spawn([&] {
    const auto say = [&](const Bytes &bytes) {
      REQUIRE(send(ends[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    };
    say(deposit(1));
    say(deposit(2));
    const Pieces pieces = deposit_pieces(3);
    say(pieces.head);
    for (const Bytes &record : pieces.records) say(record);
    size_t kept = 0;
    REQUIRE_OK(tenon_deposit_hand_over(nullptr, &kept, err));
    CHECK_EQ(kept, 3);
  });
  CHECK_EQ(wait_for_child(lender), 0);
  const std::vector<pid_t> keepers = children();
  REQUIRE(keepers.size() == 1);
  const auto kill_it = [&] {
    REQUIRE(kill(keepers[0], SIGKILL) == 0);
    wait_for_child(keepers[0]);
    ++g_kills;
  };
  const auto take = [&] {
    Bytes bytes(8192);
    const ssize_t got = recv(ends[0], bytes.data(), bytes.size(), 0);
    REQUIRE(got > 0);
    bytes.resize(static_cast<size_t>(got));
    return bytes;
  };
  const Bytes first = take();
  const Bytes second = take();
  const Bytes head = take();
  const Bytes known = take();
  const Bytes unknown = take();
  close(ends[0]);
  close(ends[1]);
  if (when == When::kBeforeItIsMet) {
    kill_it();
    CHECK(try_fetch(first).outcome.status == TENON_PEER_GONE);
    tenon_fetched *fetched = nullptr;
    CHECK(try_begin(head, &fetched).status == TENON_PEER_GONE);
  } else {
    tenon_message *const one = fetch(first, 1);
    tenon_fetched *fetched = when == When::kAfterTheExchange ? begin_fetch(head) : nullptr;
    kill_it();
    tenon_message *const two = fetch(second, 2);
    if (fetched == nullptr) fetched = begin_fetch(head);
    tenon_storage *storage = open_piece(fetched, known, 3);
    tenon_storage *none = nullptr;
    CHECK_STATUS(TENON_PEER_GONE, tenon_fetched_storage(fetched, unknown.data(), unknown.size(),
                                                        nullptr, &none, err));
    tenon_fetched_release(fetched);
    CHECK(has(one, 1) && has(two, 2) &&
          fault::has_pattern(tenon_storage_data(storage), kNbytes, 3));
    tenon_storage_release(storage);
    tenon_message_release(one);
    tenon_message_release(two);
  }
  await_keepers(where);
  folder.check(0, where);
}

TEST(DepositDeaths, OfAKeeper) {
  IN_CHILD([] {
    const Folder folder;
    REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    for (const When when :
         {When::kBeforeItIsMet, When::kBetweenTwoFetches, When::kAfterTheExchange})
      kill_keeper(when, folder);
  });
}

}  // namespace
}  // namespace deposits
