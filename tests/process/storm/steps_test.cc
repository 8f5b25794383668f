// A process can die at any instruction. In these tests it dies at system calls of every step of
// lending by name, before and after the call, and at random instructions between. A living reader
// keeps its bytes. While it lives, nothing of the dead process is left after a second. With no
// process alive, nothing is left after the next call of any process.
#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>

#include "process/namespaces/names.h"
#include "process/storm/victim.h"
#include "support/seed.h"

namespace names {
namespace {

using fault::wait_for_child;
using storm::g_kills;
using storm::Victim;

// A step with more stops than these is killed at every second or third stop, and so on. Each run
// chooses the first one anew.
constexpr long kMostKills = 30;
constexpr long kMostKillsWithThePeer = 8;
constexpr int kRandomKills = 10;
constexpr long kMostInstructions = 4000;

tenon_filename_handle with_access(tenon_filename_handle handle, tenon_access access) {
  handle.access = access;
  return handle;
}

// ---- the peer: a living reader

struct PeerNames {
  tenon_filename_handle file = name_handle();
  tenon_filename_handle socket = name_handle();
};

// Holds a file and a segment under a socket's name, and checks its bytes on request.
class Peer {
 public:
  explicit Peer(const std::string &place) {
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(place);
    });
    REQUIRE(pid_ > 0);
    // The peer sends the two handles in two packets.
    names_.file = line_.take<tenon_filename_handle>(0);
    names_.socket = line_.take<tenon_filename_handle>(0);
    leaves_ = tenon::test::names_in(place);
  }
  Peer(const Peer &) = delete;
  Peer &operator=(const Peer &) = delete;
  ~Peer() {
    if (pid_ > 0) kill();
  }
  const PeerNames &names() const { return names_; }
  // The peer's names in the directory, in which no other process had a name before.
  const std::set<std::string> &leaves() const { return leaves_; }
  bool keeps_its_bytes() const { return ask('v'); }
  void send_a_message() const { CHECK(ask('i')); }
  void finish() {
    CHECK(ask('q'));
    CHECK_EQ(wait_for_child(std::exchange(pid_, -1)), 0);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait_for_child(std::exchange(pid_, -1));
  }

 private:
  bool ask(char what) const {
    line_.give(0, what);
    return line_.take<char>(0) == 'y';
  }
  void serve(const std::string &place) const {
    Lent file = lend(Way::kFile, name_options(place), 1);
    Lent socket = lend(Way::kLenderWrites, name_options(place), 2);
    line_.give(1, file.handle);
    line_.give(1, socket.handle);
    for (;;) {
      const char what = line_.take<char>(1);
      bool good = true;
      if (what == 'i') {
        good = CALL(tenon_filename_incref(&file.handle, err)).ok();
      } else {
        good = fault::has_pattern(tenon_storage_data(file.storage), kNbytes, 1) &&
               fault::has_pattern(tenon_storage_data(socket.storage), kNbytes, 2);
      }
      if (what == 'q') {
        tenon_storage_release(file.storage);
        tenon_storage_release(socket.storage);
        tenon_storage_trim();
      }
      line_.give(1, good ? 'y' : 'n');
      if (what == 'q') return;
    }
  }

  Line line_;
  pid_t pid_ = -1;
  PeerNames names_;
  std::set<std::string> leaves_;
};

// ---- the steps

// The objects of a victim.
struct Stage {
  std::string place;
  PeerNames peer;
  tenon_filename_options options{};
  std::vector<Lent> lent;
  tenon_storage *storage = nullptr;

  tenon_filename_options named(const char *name) const {
    tenon_filename_options chosen = options;
    chosen.name = name;
    return chosen;
  }
};

struct Step {
  const char *name;
  void (*prepare)(Stage *);  // not traced
  void (*run)(Stage *);
  bool reads_a_message = false;  // the step opens a message of the peer
};

void nothing(Stage *) {}

// Starts the service thread, and makes it know, watch and sweep the directory.
void warm(Stage *stage) {
  const Lent file = lend(Way::kFile, stage->options, 3);
  tenon_storage_release(file.storage);
  const Lent socket = lend(Way::kFrozen, stage->options, 3);
  tenon_storage_release(socket.storage);
  tenon_storage_trim();
}

template <Way way>
void make(Stage *stage) {
  stage->lent.push_back(lend(way, stage->options, 3));
}

template <Way way>
void warm_and_make(Stage *stage) {
  warm(stage);
  make<way>(stage);
}

void let_go(Stage *stage) {
  for (const Lent &each : stage->lent) tenon_storage_release(each.storage);
  tenon_storage_release(stage->storage);
  tenon_storage_trim();
}

void open_file(Stage *stage) { stage->storage = borrow(stage->peer.file); }
void open_socket(Stage *stage) { stage->storage = borrow(stage->peer.socket); }

void leave_a_dead_name(Stage *stage) {
  const pid_t dead = fork();
  REQUIRE(dead >= 0);
  if (dead == 0) {
    const tenon_filename_options file = stage->named("chosen");
    const tenon_filename_options socket = stage->named("chosen-socket");
    (void)lend(Way::kFile, file, 4);
    (void)lend(Way::kShared, socket, 4);
    ::kill(getpid(), SIGKILL);
  }
  wait_for_child(dead);
}

const Step kSteps[] = {
    {"make a file, the first call", nothing, make<Way::kFile>},
    {"make a file", warm, make<Way::kFile>},
    {"make a file in place of a dead one", leave_a_dead_name,
     [](Stage *stage) {
       const tenon_filename_options options = stage->named("chosen");
       tenon_storage *storage = nullptr;
       // A watching peer may be looking at the dead name at this moment.
       const fault::Outcome made =
           CALL(tenon_storage_new_filename(&options, kNbytes, &storage, err));
       CHECK_SAYING(made.ok() || made.status == TENON_PERMISSION, made.text());
     }},
    {"move private memory into a file", warm,
     [](Stage *stage) {
       tenon_storage_options options =
           fault::storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
       tenon_storage *storage = nullptr;
       tenon_filename_handle handle = name_handle();
       REQUIRE_OK(tenon_storage_new(&options, kNbytes, &storage, err));
       REQUIRE_OK(tenon_storage_write(storage, 0, "moved", 5, err));
       REQUIRE_OK(tenon_share_filename(storage, &stage->options, nullptr, &handle, err));
     }},
    {"lend a segment, the first call", nothing, make<Way::kShared>},
    {"lend a segment", warm, make<Way::kFrozen>},
    {"lend a segment under a chosen name that is dead", leave_a_dead_name,
     [](Stage *stage) { (void)lend(Way::kShared, stage->named("chosen-socket"), 3); }},
    {"open a file, the first call", nothing, open_file},
    {"open a file", warm, open_file},
    {"open a file to read", warm,
     [](Stage *stage) {
       stage->storage = borrow(with_access(stage->peer.file, TENON_ACCESS_READ_ONLY));
     }},
    {"receive a file", warm,
     [](Stage *stage) { stage->storage = borrow(stage->peer.file, TENON_OPEN_DECREF); }, true},
    {"open a segment, the first call", nothing, open_socket},
    {"open a segment", warm, open_socket},
    {"take a message back", warm,
     [](Stage *stage) { REQUIRE_OK(tenon_filename_decref(&stage->peer.file, err)); }, true},
    {"count a message of a borrowed file",
     [](Stage *stage) {
       warm(stage);
       open_file(stage);
     },
     [](Stage *stage) { REQUIRE_OK(tenon_filename_incref(&stage->peer.file, err)); }},
    {"let go of a file, alone", warm_and_make<Way::kFile>, let_go},
    {"let go of a borrowed file",
     [](Stage *stage) {
       warm(stage);
       open_file(stage);
     },
     let_go},
    {"let go of a segment", warm_and_make<Way::kFrozen>, let_go},
    {"let go of a borrowed segment",
     [](Stage *stage) {
       warm(stage);
       open_socket(stage);
     },
     let_go},
    {"let go with a message on its way", warm_and_make<Way::kFile>,
     [](Stage *stage) {
       REQUIRE_OK(tenon_filename_incref(&stage->lent.back().handle, err));
       let_go(stage);
     }},
    {"sweep a dead name",
     [](Stage *stage) {
       warm(stage);
       leave_a_dead_name(stage);
     },
     [](Stage *stage) { (void)sweep_names(stage->place); }},
    {"unlink", warm_and_make<Way::kFile>,
     [](Stage *stage) { REQUIRE_OK(tenon_filename_unlink(stage->lent.back().handle.name, err)); }},
    {"end in order",
     [](Stage *stage) {
       warm(stage);
       make<Way::kFile>(stage);
       make<Way::kShared>(stage);
       open_file(stage);
     },
     [](Stage *) { std::exit(0); }},
    {"fork", warm_and_make<Way::kFile>,
     [](Stage *stage) {
       const pid_t child = fork();
       REQUIRE(child >= 0);
       if (child == 0) {
         prctl(PR_SET_PDEATHSIG, SIGKILL);
         CHECK(has(stage->lent.back().storage, 3));
         let_go(stage);
         _exit(0);
       }
       wait_for_child(child);
     }},
};

// ---- the kills

Victim start(const Step &step, Stage stage) {
  return Victim(
      step.name,
      [&] {
        stage.options = name_options(stage.place);
        step.prepare(&stage);
      },
      [&] { step.run(&stage); });
}

std::string list(const std::set<std::string> &leaves) {
  std::string all;
  for (const std::string &leaf : leaves) all += " " + leaf;
  return all;
}

std::string where_left(const Meeting &meeting) {
  return "left in the end:" + list(meeting.names());
}

// Makes one call in a new process.
void call_once(const std::string &place) {
  const pid_t caller = fault::spawn(
      [&] { tenon_storage_release(lend(Way::kFile, name_options(place), 9).storage); });
  CHECK_EQ(wait_for_child(caller), 0);
}

// Runs the step until its `stops`th stop, and `instructions` more, and kills it there. A stop is
// the start or the end of a system call. Returns false if the step was over before.
bool kill_at(const Step &step, long stops, long instructions, const Meeting &meeting, Peer *peer,
             bool kill_peer, const std::string &where) {
  Stage stage;
  stage.place = meeting.path();
  stage.peer = peer->names();
  if (step.reads_a_message) peer->send_a_message();
  bool in_time = true;
  {
    Victim victim = start(step, stage);
    for (long i = 0; i < stops && in_time; ++i) in_time = victim.to_next_call();
    for (long i = 0; i < instructions && in_time; ++i) in_time = victim.to_next_instruction();
    victim.kill();
    if (!CHECK_SAYING(victim.went_well(), where)) return false;
  }
  std::set<std::string> wanted;
  if (kill_peer) {
    peer->kill();
    g_kills += 1;
  } else {
    CHECK_SAYING(peer->keeps_its_bytes(), where + ": a reader lost its bytes");
    wanted = peer->leaves();
  }
  std::set<std::string> left;
  const bool gone = wait_until(
      [&] {
        if (kill_peer) call_once(meeting.path());
        left = meeting.names();
        return left == wanted;
      },
      kill_peer ? kSoon * 2 : kSoon);
  CHECK_SAYING(gone, where + ": left after " +
                         (kill_peer ? "the next calls:" : "a second with a peer alive:") +
                         list(left));
  // One failure is enough, and it must not spoil the next tests.
  return in_time && gone;
}

// Returns the number of stops of the step, which are two for each system call.
long count_stops(const Step &step, const Meeting &meeting, Peer *peer) {
  Stage stage;
  stage.place = meeting.path();
  stage.peer = peer->names();
  if (step.reads_a_message) peer->send_a_message();
  Victim victim = start(step, stage);
  long stops = 0;
  while (victim.to_next_call()) ++stops;
  victim.kill();
  CHECK_SAYING(victim.went_well() && stops > 0, step.name);
  return stops;
}

long random_below(std::mt19937_64 *random, long bound) {
  return static_cast<long>((*random)() % static_cast<uint64_t>(bound));
}

class Steps : public ::testing::TestWithParam<size_t> {};

TEST_P(Steps, KilledAtEachSystemCallBesideAPeer) {
  IN_CHILD([this] {
    const Step &step = kSteps[GetParam()];
    const Meeting meeting;
    Peer peer(meeting.path());
    const long stops = count_stops(step, meeting, &peer);
    std::printf("  %s: %ld stops\n", step.name, stops);
    std::mt19937_64 random(test_seed());
    // The last stop comes after the step.
    const long apart = stops / kMostKills + 1;
    for (long stop = random_below(&random, apart); stop <= stops; stop += apart) {
      const std::string where = std::string(step.name) + ", killed at stop " +
                                std::to_string(stop) + " of " + std::to_string(stops);
      (void)kill_at(step, stop, 0, meeting, &peer, false, where);
      if (fault::g_failures > 0) return;
    }
    for (int i = 0; i < kRandomKills; ++i) {
      const long stop = random_below(&random, stops);
      const long instructions = random_below(&random, kMostInstructions);
      const std::string where = std::string(step.name) + ", killed " +
                                std::to_string(instructions) + " instructions after stop " +
                                std::to_string(stop);
      (void)kill_at(step, stop, instructions, meeting, &peer, false, where);
      if (fault::g_failures > 0) return;
    }
    if (step.reads_a_message) {
      // A message that a killed receiver did not get to stays in flight as long as its sender
      // lives.
      peer.kill();
      call_once(meeting.path());
    } else {
      peer.finish();
    }
    CHECK_SAYING(wait_until([&] { return meeting.names().empty(); }, kSoon), where_left(meeting));
    std::printf("  %llu kills\n", static_cast<unsigned long long>(g_kills));
  });
}

TEST_P(Steps, KilledAtEachSystemCallWithThePeer) {
  IN_CHILD([this] {
    const Step &step = kSteps[GetParam()];
    const Meeting meeting;
    long stops = 0;
    {
      Peer peer(meeting.path());
      stops = count_stops(step, meeting, &peer);
    }
    call_once(meeting.path());
    std::mt19937_64 random(test_seed());
    const long apart = stops / kMostKillsWithThePeer + 1;
    for (long stop = random_below(&random, apart); stop <= stops; stop += apart) {
      Peer peer(meeting.path());
      const std::string where = std::string(step.name) + ", both killed at stop " +
                                std::to_string(stop) + " of " + std::to_string(stops);
      (void)kill_at(step, stop, 0, meeting, &peer, true, where);
      if (fault::g_failures > 0) return;
    }
    std::printf("  %llu kills\n", static_cast<unsigned long long>(g_kills));
  });
}

std::string test_name(const ::testing::TestParamInfo<size_t> &each) {
  std::string name = kSteps[each.param].name;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Each, Steps, ::testing::Range(size_t{0}, std::size(kSteps)), test_name);

}  // namespace
}  // namespace names
