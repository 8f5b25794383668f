// A subscriber or a publisher dies, or is stopped, at each named moment of joining, publishing,
// receiving, giving back and leaving. The others go on: a publisher with its other subscriber, and
// subscribers with what was published. The death is reported once, all leases come back, and
// nothing of the dead is left.
//
// Most moments lie between two system calls. So the victim is traced, and this process watches
// a word of a ring's memory until the moment has come. Where no word is shared yet, the victim goes
// from one system call to the next.
#include <poll.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "process/publish/kit.h"
#include "process/storm/victim.h"
#include "support/lease_pages.h"
#include "support/temporary_directory.h"
#include "support/unix_socket.h"

namespace publishers {
namespace {

using storm::Victim;

constexpr uint32_t kCapacity = 4;
constexpr uint32_t kSlotNbytes = 1024;
constexpr size_t kFileNbytes = 8192;  // the sender's file of a ring, in whole pages
constexpr uint64_t kFirst = 1;        // this message brings the memory, before the step
constexpr uint64_t kInHand = 2;       // the victim publishes or receives this one in the step
constexpr uint64_t kLater = 100;
// A victim waits no longer than this. Processes to which a stopped victim is reported wait for
// kShortNs.
constexpr int64_t kVictimNs = (fault::kSanitized ? 4 : 1) * kSecond / 2;
constexpr int64_t kShortNs = (fault::kSanitized ? 4 : 1) * kSecond / 50;

enum class Fate { kKilled, kStoppedAndContinued, kStoppedAndKilled };
constexpr std::array kFates = {Fate::kKilled, Fate::kStoppedAndContinued, Fate::kStoppedAndKilled};

// ---- the memory of a ring. The numbers are those of the format and not the library's constants.

struct SharedMapping {
  uint64_t begin = 0;
  uint64_t nbytes = 0;
  uint64_t inode = 0;
  bool is_writable = false;
};

// The shared mappings of memfds of a process.
std::vector<SharedMapping> shared_mappings(pid_t pid) {
  std::vector<SharedMapping> found;
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(file, line);) {
    SharedMapping one;
    uint64_t end = 0;
    std::array<char, 5> access{};
    if (line.find("memfd:") == std::string::npos ||
        std::sscanf(line.c_str(), "%lx-%lx %4s %*x %*s %lu", &one.begin, &end, access.data(),
                    &one.inode) != 4 ||
        access[3] != 's')
      continue;
    one.nbytes = end - one.begin;
    one.is_writable = access[1] == 'w';
    found.push_back(one);
  }
  return found;
}

class RingMemory {
 public:
  using Word = std::atomic<uint64_t>;
  using Half = std::atomic<uint32_t>;

  // Finds the ring and its subscriber's lease page among the mappings of this process. The inodes
  // in `known` are older than both.
  static RingMemory find(const std::set<uint64_t>& known) {
    RingMemory ring;
    for (const SharedMapping& each : shared_mappings(getpid())) {
      if (known.contains(each.inode)) continue;
      // No other file of one page, or of two, is mapped here.
      if (each.nbytes == kFileNbytes) ring.file_ = each;
      if (each.nbytes == 4096) ring.page_ = each;
      if (each.nbytes == tenon::test::kLeasePageNbytes) ring.leases_ = each;
    }
    REQUIRE(ring.file_.begin != 0 && ring.page_.begin != 0);
    return ring;
  }
  static std::set<uint64_t> inodes() {
    std::set<uint64_t> all;
    for (const SharedMapping& each : shared_mappings(getpid())) all.insert(each.inode);
    return all;
  }
  Word& by_socket() const { return word(file_, 64); }
  Half& waits() const { return half(file_, 76); }
  Word& withdrawn() const { return word(file_, 128); }
  Word& slot(uint64_t position) const {
    return word(file_, 256 + position % kCapacity * kSlotNbytes);
  }
  Word& slot_length(uint64_t position) const {
    return word(file_, 256 + position % kCapacity * kSlotNbytes + 16);
  }
  Word& passed() const { return word(page_, 0); }
  Word& reading() const { return word(page_, 8); }
  Half& ready() const { return half(page_, 16); }
  Half& asleep() const { return half(page_, 64); }
  Word& refused() const { return word(page_, 128); }
  Word& given_back() const { return word(leases_, 4096 + 8192); }

  // Returns the victim's address of the word that this process has at `here`. A child of fork may
  // also have a copy of its parent's mapping, which lies at the parent's address and is not meant.
  const volatile void* in_victim(pid_t victim, const volatile void* here) const {
    const auto at = reinterpret_cast<uint64_t>(here);
    for (const SharedMapping& ours : {file_, page_, leases_}) {
      if (at < ours.begin || at >= ours.begin + ours.nbytes) continue;
      std::vector<SharedMapping> same = shared_mappings(victim);
      std::erase_if(same, [&](const SharedMapping& each) { return each.inode != ours.inode; });
      if (same.size() > 1)
        std::erase_if(same, [&](const SharedMapping& each) { return each.begin == ours.begin; });
      if (same.empty()) break;
      return reinterpret_cast<const volatile void*>(same.front().begin + (at - ours.begin));
    }
    return nullptr;
  }

 private:
  static Word& word(const SharedMapping& in, uint64_t at) {
    return *reinterpret_cast<Word*>(in.begin + at);
  }
  static Half& half(const SharedMapping& in, uint64_t at) {
    return *reinterpret_cast<Half*>(in.begin + at);
  }

  SharedMapping file_, page_, leases_;
};

// ---- the other subscriber, which tells what it receives

class OtherSubscriber {
 public:
  OtherSubscriber(int socket, const std::function<void()>& release_inherited) {
    const std::array<int, 2> ends = fault::socket_ends();
    reports_ = ends[0];
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      release_inherited();
      close(ends[0]);
      auto options = tenon::test::sized<tenon_connection_options>();
      options.flags = TENON_CONNECTION_ADOPT_SOCKET;
      tenon_subscriber* subscriber = nullptr;
      REQUIRE_OK(tenon_subscriber_new(socket, &options, &subscriber, err));
      for (;;) {
        const Numbered received = receive(subscriber);
        const bool is_over = received.outcome.status == TENON_PEER_GONE;
        CHECK_SAYING(received.outcome.ok() || is_over, received.outcome.text());
        const uint64_t report =
            is_over ? std::stoull(received.outcome.detail("pid")) | kOver : received.number;
        REQUIRE(::send(ends[1], &report, sizeof report, MSG_NOSIGNAL) == sizeof report);
        if (!received.outcome.ok()) break;
      }
      tenon_subscriber_release(subscriber);
    });
    close(ends[1]);
    close(socket);
  }
  OtherSubscriber(const OtherSubscriber&) = delete;
  OtherSubscriber& operator=(const OtherSubscriber&) = delete;
  ~OtherSubscriber() { close(reports_); }

  // The next message has this number.
  void await(uint64_t number, const std::string& where) {
    uint64_t report = 0;
    CHECK_SAYING(next(&report) && report == number, where + ": the other subscriber got " +
                                                        std::to_string(report) + " and not " +
                                                        std::to_string(number));
  }
  // Receives what is left, and that its publisher is gone. Returns the numbers.
  std::vector<uint64_t> finish(pid_t publisher) {
    std::vector<uint64_t> numbers;
    uint64_t report = 0;
    while (next(&report) && (report & kOver) == 0) numbers.push_back(report);
    CHECK_EQ(report & ~kOver, publisher);
    CHECK_EQ(fault::wait_for_child(pid_), 0);
    return numbers;
  }

 private:
  static constexpr uint64_t kOver = uint64_t{1} << 63;
  bool next(uint64_t* report) const {
    pollfd ready{reports_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(kLong / 1'000'000)) != 1) return false;
    return ::recv(reports_, report, sizeof *report, 0) == sizeof *report;
  }
  int reports_ = -1;
  pid_t pid_ = -1;
};

tenon_publisher* new_publisher(tenon_publish_policy policy) {
  auto options = tenon::test::sized<tenon_publisher_options>();
  options.policy = policy;
  options.capacity = kCapacity;
  options.slot_nbytes = kSlotNbytes;
  tenon_publisher* publisher = nullptr;
  REQUIRE_OK(tenon_publisher_new(&options, &publisher, err));
  return publisher;
}

void add(tenon_publisher* publisher, int socket) {
  REQUIRE_OK(tenon_publisher_add(publisher, socket, err));
}

// A word of memory that this process and the victim share.
class SharedMark {
 public:
  SharedMark()
      : word_(static_cast<volatile uint32_t*>(
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedMark() { munmap(const_cast<uint32_t*>(word_), 4096); }
  SharedMark(const SharedMark&) = delete;
  SharedMark& operator=(const SharedMark&) = delete;
  volatile uint32_t& word() const { return *word_; }

 private:
  volatile uint32_t* word_;
};

using HasCome = bool (*)(const RingMemory& ring, uint32_t mark);
using WordOf = const volatile void* (*)(const RingMemory& ring);

// Lets the victim go on until the moment has come. False: the step is over.
bool go_to(Victim* victim, const RingMemory* ring, WordOf word, HasCome has_come,
           const SharedMark& mark, uint32_t calls) {
  if (word != nullptr || has_come != nullptr) {
    // Without a word of the ring, the mark is watched.
    const volatile void* const at =
        word != nullptr ? ring->in_victim(victim->pid(), word(*ring)) : &mark.word();
    REQUIRE(at != nullptr);
    const bool can_watch = victim->watch(at);
    while (!has_come(*ring, mark.word())) {
      if (!(can_watch ? victim->to_next_store() : victim->to_next_instruction())) return false;
    }
    victim->watch_nothing();
  }
  for (uint32_t i = 0; i < calls; ++i) {
    if (!victim->to_next_call()) return false;
  }
  // After the step, when the mark is set, the victim makes system calls that do not belong to the
  // step.
  const bool is_behind = has_come == nullptr && mark.word() != 0;
  return !is_behind;
}

// Lets the victim meet its fate. `while_stopped` and `while_continued` check the others.
template <typename Stopped, typename Continued>
void meet(Victim* victim, Fate fate, Stopped&& while_stopped, Continued&& while_continued) {
  if (fate == Fate::kKilled) return;
  victim->stop();
  while_stopped();
  if (fate != Fate::kStoppedAndContinued) return;
  victim->finish_step();
  while_continued();
}

// ---- a subscriber is the victim

enum class Reading { kJoin, kReceive, kGiveBack, kLeave };

struct ReaderMoment {
  const char* name;
  Reading step;
  WordOf word;
  HasCome has_come;
  uint32_t calls = 0;  // then so many starts and ends of system calls
  tenon_publish_policy policy = TENON_PUBLISH_BLOCK;
  Crossing crossing = Crossing::kKnown;
  // The message is withdrawn when the victim has begun with it.
  bool is_overtaken = false;
  bool is_awaited = true;  // a message is there
  bool waits_for_room = false;
};

const volatile void* at_passed(const RingMemory& ring) { return &ring.passed(); }
const volatile void* at_reading(const RingMemory& ring) { return &ring.reading(); }
const volatile void* at_ready(const RingMemory& ring) { return &ring.ready(); }
const volatile void* at_asleep(const RingMemory& ring) { return &ring.asleep(); }
const volatile void* at_refused(const RingMemory& ring) { return &ring.refused(); }
const volatile void* at_given_back(const RingMemory& ring) { return &ring.given_back(); }

bool has_begun(const RingMemory& ring, uint32_t) { return ring.reading() == 2; }
bool has_passed(const RingMemory& ring, uint32_t) { return ring.passed() == 2; }
bool has_told(const RingMemory& ring, uint32_t) {
  return ring.passed() == 2 && ring.reading() == 0;
}
bool has_refused(const RingMemory& ring, uint32_t) { return ring.refused() == 2; }
bool has_given_back(const RingMemory& ring, uint32_t) { return ring.given_back() != 0; }
bool is_asleep(const RingMemory& ring, uint32_t) { return ring.asleep() % 2 != 0; }
bool has_said_that_it_leaves(const RingMemory& ring, uint32_t) { return ring.ready() == 2; }
bool has_marked(const RingMemory&, uint32_t mark) { return mark != 0; }

const ReaderMoment kReaderMoments[] = {
    {"it has joined", Reading::kJoin, nullptr, has_marked},
    {"it has begun with a message", Reading::kReceive, at_reading, has_begun},
    {"it has passed a message", Reading::kReceive, at_passed, has_passed},
    {"it has taken a message", Reading::kReceive, at_reading, has_told},
    {"it has received a message", Reading::kReceive, nullptr, has_marked},
    {"it has received an announcement", Reading::kReceive, nullptr, has_marked, 0,
     TENON_PUBLISH_BLOCK, Crossing::kNew},
    {"it has received a held message", Reading::kReceive, nullptr, has_marked, 0,
     TENON_PUBLISH_BLOCK, Crossing::kHeld},
    {"it has begun with a message that is withdrawn", Reading::kReceive, at_reading, has_begun, 0,
     TENON_PUBLISH_DROP_OLDEST, Crossing::kKnown, true},
    {"it has refused a message", Reading::kReceive, at_refused, has_refused, 0,
     TENON_PUBLISH_DROP_OLDEST, Crossing::kKnown, true},
    {"it has begun beside a publisher that fails", Reading::kReceive, at_reading, has_begun, 0,
     TENON_PUBLISH_ERROR},
    {"it has taken a message for whose room its publisher waits", Reading::kReceive, at_reading,
     has_told, 0, TENON_PUBLISH_BLOCK, Crossing::kKnown, false, true, true},
    {"about to ring for room", Reading::kReceive, at_reading, has_told, 1, TENON_PUBLISH_BLOCK,
     Crossing::kKnown, false, true, true},
    {"it has rung for room", Reading::kReceive, at_reading, has_told, 2, TENON_PUBLISH_BLOCK,
     Crossing::kKnown, false, true, true},
    {"about to sleep", Reading::kReceive, at_asleep, is_asleep, 0, TENON_PUBLISH_BLOCK,
     Crossing::kKnown, false, false},
    {"asleep", Reading::kReceive, at_asleep, is_asleep, 1, TENON_PUBLISH_BLOCK, Crossing::kKnown,
     false, false},
    {"it has given a lease back", Reading::kGiveBack, at_given_back, has_given_back},
    {"it has said that it leaves", Reading::kLeave, at_ready, has_said_that_it_leaves},
    {"about to close its socket", Reading::kLeave, at_ready, has_said_that_it_leaves, 1},
};

// A publisher with the victim and another subscriber.
class ReaderCase {
 public:
  explicit ReaderCase(const ReaderMoment& moment)
      : moment_(moment), publisher_(new_publisher(moment.policy)) {
    const std::array<int, 2> ends = fault::socket_ends();
    add(publisher_, ends[0]);
    other_ =
        std::make_unique<OtherSubscriber>(ends[1], [&] { tenon_publisher_release(publisher_); });
    // A subscriber that joins later gets this message when it joins.
    say(kFirst);
    REQUIRE_OK(tenon_publisher_listen(publisher_, path_.c_str(), 0, err));
  }
  ReaderCase(const ReaderCase&) = delete;
  ReaderCase& operator=(const ReaderCase&) = delete;

  // False: the step was over before the moment.
  bool run(Fate fate) {
    const bool is_member = moment_.step != Reading::kJoin;
    const std::set<uint64_t> known = RingMemory::inodes();
    Victim victim(moment_.name, [&] { prepare(); }, [&] { run_step(); });
    pid_ = victim.pid();
    if (is_member) {
      // The library's thread has made the ring. This call takes the lock that orders the two.
      CHECK_EQ(state_of_victim(), TENON_SUBSCRIBER_HERE);
      ring_ = RingMemory::find(known);
    }
    if (moment_.is_awaited && moment_.step == Reading::kReceive) say(kInHand, moment_.crossing);
    std::thread waiting;
    if (moment_.waits_for_room) waiting = fill_up();
    const bool has_come = advance(&victim);
    const auto check = [&](const char* state) {
      if (waiting.joinable()) waiting.join();
      check_goes_on(state, fate);
    };
    if (has_come) meet(&victim, fate, [&] { check("stopped"); }, [&] { check("continued"); });
    // After its step the victim is at the end of its life. Its state says whether its end is a
    // death.
    const bool is_told = state_of_victim() == TENON_SUBSCRIBER_HERE;
    victim.kill();
    CHECK(victim.went_well());
    if (waiting.joinable()) waiting.join();
    check_death(is_told);
    check_goes_on("dead", Fate::kKilled);
    return has_come;
  }

  void finish() {
    if (fault::g_failures > 0) return;
    CHECK_SAYING(fault::wait_until([] { return leases_granted() == 0; }),
                 std::string(moment_.name) + ": leases are left");
    tenon_publisher_release(publisher_);
    CHECK(other_->finish(getpid()).empty());
  }

 private:
  std::string where(const char* state) const {
    return std::string(moment_.name) + ", and the victim is " + state;
  }

  void prepare() {
    tenon_publisher_release(publisher_);
    if (moment_.step == Reading::kJoin) return;
    subscriber_ = connect_to(path_);
    tenon_message** const kept = moment_.step == Reading::kGiveBack ? &kept_ : nullptr;
    REQUIRE(receive(subscriber_, kept).number == kFirst);
  }
  void run_step() {
    switch (moment_.step) {
      case Reading::kJoin: subscriber_ = connect_to(path_); break;
      case Reading::kReceive: {
        const Numbered received = receive(subscriber_, &kept_, kVictimNs);
        const tenon_status status = received.outcome.status;
        CHECK_SAYING(status == TENON_OK || status == TENON_TIMEOUT, received.outcome.text());
        // A message that was overtaken is withdrawn. Otherwise the victim gets it.
        if (status == TENON_OK && moment_.is_awaited)
          CHECK_EQ(received.number == kInHand, !moment_.is_overtaken);
        break;
      }
      case Reading::kGiveBack: tenon_message_release(kept_); break;
      case Reading::kLeave: tenon_subscriber_release(subscriber_); break;
    }
    mark_.word() = 1;
  }

  bool advance(Victim* victim) {
    const RingMemory* const ring = ring_ ? &*ring_ : nullptr;
    static const RingMemory none;
    if (moment_.is_overtaken) {
      if (!go_to(victim, ring, at_reading, has_begun, mark_, 0)) return false;
      for (uint32_t i = 0; i < 2 * kCapacity; ++i) say(++later_);
      if (moment_.word == at_reading) return true;
    }
    const bool has_come = go_to(victim, ring != nullptr ? ring : &none, moment_.word,
                                moment_.has_come, mark_, moment_.calls);
    CHECK_SAYING(has_come || moment_.word == nullptr, "the moment did not come");
    return has_come;
  }

  // Publishes a message to both subscribers, and checks that the other subscriber receives it.
  void say(uint64_t number, Crossing how = Crossing::kKnown) {
    const Outcome outcome = publish(publisher_, number, kLong, how);
    if (CHECK_SAYING(outcome.ok(), outcome.text())) other_->await(number, moment_.name);
  }

  // Fills the victim's ring, and starts a thread that waits for room there. Its errors name the
  // victim as the slow one.
  std::thread fill_up() {
    for (uint32_t i = 1; i < kCapacity; ++i) say(++later_);
    std::thread waiting([this] {
      const uint64_t number = ++later_;
      for (;;) {
        const Outcome outcome = publish(publisher_, number, kVictimNs);
        if (outcome.ok()) break;
        CHECK_EQ(std::stoi(outcome.detail("pid")), pid_);
        if (outcome.status == TENON_PEER_GONE) n_told_ += 1;
        if (!CHECK_SAYING(outcome.status == TENON_TIMEOUT || outcome.status == TENON_PEER_GONE,
                          outcome.text()))
          return;
      }
      other_->await(number, moment_.name);
    });
    CHECK(fault::wait_until([&] { return ring_->waits() % 2 != 0; }));
    return waiting;
  }

  // The other subscriber gets what is published. The policy decides about the victim.
  void check_goes_on(const char* state, Fate fate) {
    const bool is_dead = fate == Fate::kKilled;
    // If a thread waits for room, the ring of a living victim is full.
    if (fault::g_failures > 0 || (moment_.waits_for_room && !is_dead)) return;
    say(++later_);
    if (is_dead || moment_.step == Reading::kLeave) return;
    if (moment_.policy == TENON_PUBLISH_DROP_OLDEST) {
      for (uint32_t i = 0; i < 2 * kCapacity; ++i) say(++later_);
    } else if (std::string(state) == "stopped" && fate == Fate::kStoppedAndKilled &&
               state_of_victim() == TENON_SUBSCRIBER_HERE) {
      check_names_the_slow();
    }
  }
  void check_names_the_slow() {
    for (uint32_t i = 0; i <= kCapacity; ++i) {
      const Outcome outcome = publish(publisher_, later_ + 1, kShortNs);
      if (outcome.ok()) {
        other_->await(++later_, moment_.name);
        continue;
      }
      CHECK_EQ(outcome.status,
               moment_.policy == TENON_PUBLISH_ERROR ? TENON_RESOURCE_EXHAUSTED : TENON_TIMEOUT);
      CHECK_EQ(std::stoi(outcome.detail("pid")), pid_);
      return;
    }
    CHECK_SAYING(false, where("stopped") + ": its ring is never full");
  }

  tenon_subscriber_state state_of_victim() {
    std::array<tenon_publisher_subscriber, 4> all{};
    all[0].struct_size = sizeof all[0];
    size_t total = 0;
    REQUIRE_OK(tenon_publisher_subscribers(publisher_, all.data(), all.size(), &total, err));
    for (size_t i = 0; i < total; ++i) {
      if (all[i].pid == pid_) return all[i].state;
    }
    return TENON_SUBSCRIBER_LEFT;
  }

  void check_death(bool is_told) {
    const auto n_subscribers = [&] {
      auto figures = tenon::test::sized<tenon_publisher_stats>();
      REQUIRE_OK(tenon_publisher_stats_get(publisher_, &figures, err));
      return figures.subscribers;
    };
    // A socket that nobody has accepted yet may be the victim's.
    if (moment_.step == Reading::kJoin) library_thread_settle();
    const int64_t begin = now_ns();
    while (fault::g_failures == 0 && now_ns() - begin < kLong) {
      const bool is_over = is_told ? n_told_ > 0 : n_subscribers() == 1;
      if (is_over && state_of_victim() == TENON_SUBSCRIBER_LEFT) break;
      const Outcome outcome = publish(publisher_, later_ + 1, kShortNs);
      if (outcome.ok()) {
        other_->await(++later_, where("dead"));
        continue;
      }
      const bool names = outcome.detail("pid") == std::to_string(pid_);
      if (outcome.status == TENON_PEER_GONE && names) {
        n_told_ += 1;
      } else {
        // The victim's end is not noticed yet.
        CHECK_SAYING(names && outcome.status == (moment_.policy == TENON_PUBLISH_ERROR
                                                     ? TENON_RESOURCE_EXHAUSTED
                                                     : TENON_TIMEOUT),
                     where("dead") + ": " + outcome.text());
      }
    }
    CHECK_SAYING(n_told_ == (is_told ? 1 : 0),
                 where("dead") + ": told " + std::to_string(n_told_) + " times");
    CHECK_EQ(n_subscribers(), 1);
  }

  const ReaderMoment& moment_;
  tenon::test::TemporaryDirectory directory_{tenon::test::temporary_place() + "/tenon-publish-"};
  std::string path_ = directory_.path() + "/steps";
  tenon_publisher* publisher_;
  std::unique_ptr<OtherSubscriber> other_;
  std::optional<RingMemory> ring_;
  SharedMark mark_;
  uint64_t later_ = kLater;
  int n_told_ = 0;
  pid_t pid_ = -1;
  tenon_subscriber* subscriber_ = nullptr;  // this and kept_ are the victim's
  tenon_message* kept_ = nullptr;
};

// ---- a publisher is the victim

enum class Writing { kAdd, kPublish, kRemove, kRelease };

struct WriterMoment {
  const char* name;
  Writing step;
  WordOf word;
  HasCome has_come;
  uint32_t calls = 0;
  tenon_publish_policy policy = TENON_PUBLISH_BLOCK;
  Crossing crossing = Crossing::kKnown;
  bool is_full = false;  // the ring of this process has no room
};

const volatile void* at_length(const RingMemory& ring) { return &ring.slot_length(1); }
const volatile void* at_slot(const RingMemory& ring) { return &ring.slot(1); }
const volatile void* at_by_socket(const RingMemory& ring) { return &ring.by_socket(); }
const volatile void* at_waits(const RingMemory& ring) { return &ring.waits(); }
const volatile void* at_withdrawn(const RingMemory& ring) { return &ring.withdrawn(); }

bool is_filling(const RingMemory& ring, uint32_t) {
  return ring.slot_length(1) != 0 && ring.slot(1) == 0;
}
bool is_full(const RingMemory& ring, uint32_t) { return ring.slot(1) == 2; }
// The frames before it brought the ring's files and the first message's memory.
bool is_counted(const RingMemory& ring, uint32_t) { return ring.by_socket() == 3; }
bool has_waited(const RingMemory& ring, uint32_t) { return ring.waits() % 2 != 0; }
// This process has taken the first message, so the victim withdraws the second one.
bool has_withdrawn(const RingMemory& ring, uint32_t) { return ring.withdrawn() == 2; }

const WriterMoment kWriterMoments[] = {
    {"filling a slot", Writing::kPublish, at_length, is_filling},
    {"a slot is full", Writing::kPublish, at_slot, is_full},
    {"a slot is full where the oldest would be dropped", Writing::kPublish, at_slot, is_full, 0,
     TENON_PUBLISH_DROP_OLDEST},
    {"a slot is full where it would fail", Writing::kPublish, at_slot, is_full, 0,
     TENON_PUBLISH_ERROR},
    {"about to ring", Writing::kPublish, at_slot, is_full, 1},
    {"it has rung", Writing::kPublish, at_slot, is_full, 2},
    {"it has counted an announcement", Writing::kPublish, at_by_socket, is_counted, 0,
     TENON_PUBLISH_BLOCK, Crossing::kNew},
    {"about to send an announcement", Writing::kPublish, at_by_socket, is_counted, 1,
     TENON_PUBLISH_BLOCK, Crossing::kNew},
    {"it has sent an announcement", Writing::kPublish, at_by_socket, is_counted, 2,
     TENON_PUBLISH_BLOCK, Crossing::kNew},
    {"an announced message is published", Writing::kPublish, at_slot, is_full, 0,
     TENON_PUBLISH_BLOCK, Crossing::kNew},
    {"about to send a held message", Writing::kPublish, at_by_socket, is_counted, 1,
     TENON_PUBLISH_BLOCK, Crossing::kHeld},
    {"it has sent a held message", Writing::kPublish, at_by_socket, is_counted, 2,
     TENON_PUBLISH_BLOCK, Crossing::kHeld},
    {"a held message has its marker", Writing::kPublish, at_slot, is_full, 0, TENON_PUBLISH_BLOCK,
     Crossing::kHeld},
    {"about to wait for room", Writing::kPublish, at_waits, has_waited, 0, TENON_PUBLISH_BLOCK,
     Crossing::kKnown, true},
    {"it waits for room", Writing::kPublish, at_waits, has_waited, 1, TENON_PUBLISH_BLOCK,
     Crossing::kKnown, true},
    {"it has withdrawn the oldest", Writing::kPublish, at_withdrawn, has_withdrawn, 0,
     TENON_PUBLISH_DROP_OLDEST, Crossing::kKnown, true},
};

// The victim publishes to this process and to another subscriber.
class WriterCase {
 public:
  explicit WriterCase(const WriterMoment& moment) : moment_(moment) {}
  WriterCase(const WriterCase&) = delete;
  WriterCase& operator=(const WriterCase&) = delete;

  bool run(Fate fate) {
    // The victim connects, so that the kernel knows it as the peer.
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const std::string path = directory_.path() + "/steps";
    REQUIRE(tenon::test::bind_path(listener, path) && ::listen(listener, 3) == 0);
    const std::set<uint64_t> known = RingMemory::inodes();
    Victim victim(
        moment_.name,
        [&] {
          close(listener);
          prepare(path);
        },
        [&] { run_step(); });
    const int mine = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int others = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int third = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    close(listener);
    other_ = std::make_unique<OtherSubscriber>(others, [&] {
      close(mine);
      close(third);
    });
    auto options = tenon::test::sized<tenon_connection_options>();
    options.flags = TENON_CONNECTION_ADOPT_SOCKET;
    REQUIRE_OK(tenon_subscriber_new(mine, &options, &subscriber_, err));
    take(kFirst);
    ring_ = RingMemory::find(known);
    if (!moment_.is_full) {
      // A receive that finds nothing leaves the subscriber asleep, so that the publisher rings its
      // bell.
      CHECK_EQ(receive(subscriber_, nullptr, 0).outcome.status, TENON_WOULD_BLOCK);
      if (fate == Fate::kKilled && moment_.step == Writing::kPublish) start_to_wait();
    }
    const bool has_come =
        go_to(&victim, &*ring_, moment_.word, moment_.has_come, mark_, moment_.calls);
    CHECK_SAYING(has_come || moment_.word == nullptr, "the moment did not come");
    pid_ = victim.pid();
    is_published_ = !moment_.is_full && ring_->slot(1) == 2;
    if (has_come) {
      meet(
          &victim, fate, [&] { check_stopped(); },
          [&] { is_published_ = moment_.step == Writing::kPublish; });
    }
    victim.kill();
    CHECK(victim.went_well());
    close(third);
    return has_come;
  }

  // The subscribers receive what lay in their rings, and then get an error that names the dead
  // publisher.
  void finish() {
    if (fault::g_failures > 0) return;
    check_end();
  }

 private:
  void prepare(const std::string& path) {
    publisher_ = new_publisher(moment_.policy);
    std::array<int, 3> sockets{};
    for (int& each : sockets) {
      each = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
      REQUIRE(tenon::test::connect_path(each, path));
    }
    add(publisher_, sockets[0]);
    add(publisher_, sockets[1]);
    third_ = sockets[2];
    const uint64_t n = moment_.is_full ? kCapacity : 1;
    for (uint64_t i = 0; i < n; ++i)
      REQUIRE(publish(publisher_, i == 0 ? kFirst : kLater + i, kLong).ok());
    if (moment_.is_full) made_.push_back(numbered(kLater + kCapacity));
    made_.push_back(numbered(kInHand, moment_.crossing));
  }
  void run_step() {
    const tenon_wait wait = wait_ns(kVictimNs);
    switch (moment_.step) {
      case Writing::kAdd: add(publisher_, third_); break;
      case Writing::kPublish: {
        for (tenon_message* each : made_) {
          const Outcome outcome = CALL(tenon_publish(publisher_, each, &wait, err));
          CHECK_SAYING(outcome.ok() || (moment_.is_full && outcome.status == TENON_TIMEOUT),
                       outcome.text());
        }
        break;
      }
      case Writing::kRemove: CHECK_OK(tenon_publisher_remove(publisher_, getppid(), err)); break;
      case Writing::kRelease: tenon_publisher_release(publisher_); break;
    }
    mark_.word() = 1;
  }

  // Starts a receive in this process, which sleeps when the victim dies.
  void start_to_wait() {
    const uint32_t before = ring_->asleep();
    waiting_ = std::thread([this] { waited_ = receive(subscriber_); });
    CHECK(fault::wait_until([&] { return ring_->asleep() > before; }));
  }

  void take(uint64_t number) {
    const Numbered received = receive(subscriber_);
    CHECK_SAYING(received.outcome.ok(), received.outcome.text());
    CHECK_EQ(received.number, number);
  }

  // A message that lies in the ring is received while its publisher is stopped.
  void check_stopped() {
    if (moment_.step != Writing::kPublish || moment_.is_full) return;
    const Numbered received = receive(subscriber_, nullptr, kShortNs);
    if (is_published_) {
      CHECK_SAYING(received.outcome.ok() && received.number == kInHand, received.outcome.text());
      is_taken_ = true;
    } else {
      CHECK_EQ(received.outcome.status, TENON_TIMEOUT);
    }
  }

  void check_end() {
    std::vector<uint64_t> mine;
    if (waiting_.joinable()) {
      waiting_.join();
      if (waited_.outcome.ok()) mine.push_back(waited_.number);
    }
    Numbered received;
    while ((received = receive(subscriber_)).outcome.ok()) mine.push_back(received.number);
    CHECK_SAYING(received.outcome.status == TENON_PEER_GONE &&
                     received.outcome.detail("pid") == std::to_string(pid_),
                 received.outcome.text());
    if (!moment_.is_full) {
      const std::vector<uint64_t> wanted(is_published_ && !is_taken_ ? 1 : 0, kInHand);
      CHECK_SAYING(mine == wanted, std::to_string(mine.size()) + " messages are left");
    }
    tenon_subscriber_release(subscriber_);
    // The other subscriber has all that lay in its ring, in order.
    const std::vector<uint64_t> others = other_->finish(pid_);
    CHECK(!others.empty() || moment_.is_full);
    if (!moment_.is_full) {
      CHECK_EQ(others.front(), kFirst);
      CHECK(others.size() == 1 || (others.size() == 2 && others.back() == kInHand));
    }
  }

  const WriterMoment& moment_;
  tenon::test::TemporaryDirectory directory_{tenon::test::temporary_place() + "/tenon-publish-"};
  std::unique_ptr<OtherSubscriber> other_;
  std::optional<RingMemory> ring_;
  SharedMark mark_;
  std::thread waiting_;
  Numbered waited_;
  bool is_published_ = false;
  bool is_taken_ = false;
  pid_t pid_ = -1;
  tenon_subscriber* subscriber_ = nullptr;
  // The victim's objects:
  int third_ = -1;
  tenon_publisher* publisher_ = nullptr;
  std::vector<tenon_message*> made_;
};

// ---- the tests

template <typename Case, typename Moment>
bool run_one(const Moment& moment, Fate fate) {
  bool has_come = false;
  const fault::Held before = fault::hold();
  {
    Case one(moment);
    has_come = one.run(fate);
    one.finish();
  }
  CHECK_HELD(before);
  return has_come;
}

template <typename Case, typename Moment>
void run_all_fates(const Moment& moment) {
  for (const Fate fate : kFates) {
    SCOPED_TRACE(moment.name + std::string(", case ") + std::to_string(static_cast<int>(fate)));
    IN_CHILD([&] { (void)run_one<Case>(moment, fate); });
  }
}

// The victim is killed at the start of every other system call of its step, and stopped at the
// others.
template <typename Case, typename Moment>
void run_each_call(Moment moment) {
  IN_CHILD([&] {
    constexpr uint32_t kMostCalls = 500;
    uint32_t call = 0;
    for (; call < kMostCalls && fault::g_failures == 0; ++call) {
      alarm(fault::kWatchdogSeconds);
      moment.calls = 2 * call + 1;  // each call has a start and an end
      const Fate fate = call % 2 == 0   ? Fate::kKilled
                        : call % 4 == 1 ? Fate::kStoppedAndContinued
                                        : Fate::kStoppedAndKilled;
      if (!run_one<Case>(moment, fate)) break;
    }
    CHECK(call > 1 && call < kMostCalls);
    if (fault::g_failures > 0) std::fprintf(stderr, "at call %u of: %s\n", call, moment.name);
  });
}

std::string name_of(const char* moment) {
  std::string name = moment;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

class SubscriberSteps : public ::testing::TestWithParam<size_t> {};

TEST_P(SubscriberSteps, OthersGoOn) { run_all_fates<ReaderCase>(kReaderMoments[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Each, SubscriberSteps,
                         ::testing::Range(size_t{0}, std::size(kReaderMoments)),
                         [](const auto& each) { return name_of(kReaderMoments[each.param].name); });

class PublisherSteps : public ::testing::TestWithParam<size_t> {};

TEST_P(PublisherSteps, OthersGoOn) { run_all_fates<WriterCase>(kWriterMoments[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Each, PublisherSteps,
                         ::testing::Range(size_t{0}, std::size(kWriterMoments)),
                         [](const auto& each) { return name_of(kWriterMoments[each.param].name); });

TEST(SubscriberCalls, Join) {
  run_each_call<ReaderCase>(ReaderMoment{"a call of joining", Reading::kJoin, nullptr, nullptr});
}

TEST(SubscriberCalls, ReceiveAnAnnouncement) {
  run_each_call<ReaderCase>(ReaderMoment{"a call of receiving", Reading::kReceive, nullptr, nullptr,
                                         0, TENON_PUBLISH_BLOCK, Crossing::kNew});
}

TEST(SubscriberCalls, Leave) {
  run_each_call<ReaderCase>(ReaderMoment{"a call of leaving", Reading::kLeave, nullptr, nullptr});
}

TEST(PublisherCalls, Add) {
  run_each_call<WriterCase>(
      WriterMoment{"a call of taking a subscriber", Writing::kAdd, nullptr, nullptr});
}

TEST(PublisherCalls, PublishNewMemory) {
  run_each_call<WriterCase>(WriterMoment{"a call of publishing", Writing::kPublish, nullptr,
                                         nullptr, 0, TENON_PUBLISH_BLOCK, Crossing::kNew});
}

TEST(PublisherCalls, Remove) {
  run_each_call<WriterCase>(WriterMoment{"a call of removing", Writing::kRemove, nullptr, nullptr});
}

TEST(PublisherCalls, Release) {
  run_each_call<WriterCase>(
      WriterMoment{"a call of releasing", Writing::kRelease, nullptr, nullptr});
}

}  // namespace
}  // namespace publishers
