// The engine of the storms. A storm starts processes that share memory, kills them at random
// moments, and checks that nothing is lost, leaked or corrupt. This header is all that a new storm
// needs to know.
//
// The engine has the main function. In each round it asks the world for a plan, starts the peers
// that do not live, gives them their links, strikes, leads the survivors through the world's
// phases, and looks at what is left. The first complaint of any process ends the storm, and the
// engine prints it with the round, the seed, the links and the state of every process.
//
// To write a new world:
//  1. Derive a class from storm::Peer (peer.h). Its step() uses the library and checks bytes. It
//     wraps each call that is worth dying in in enter() and leave(), or in call().
//  2. Derive a class from storm::World. Its Rules name the calls, the counts, the phases and the
//     planted faults. plan() fills the plan of a round (plan.h), and make_peer() makes the peer.
//     left() names what the dead may not leave in the world, beyond the names in /dev/shm, the
//     sockets, the processes and the fds that the engine looks for itself.
//  3. Define storm::make_world(), and add the program and its tests as in
//     tests/process/fault/storm/CMakeLists.txt.
//
// Each program takes these arguments:
//   --kills N     end after so many kills (1000); fewer are a failure
//   --seconds T   start no round after so many seconds (3600)
//   --rounds R    end after so many rounds, with any number of kills
//   --seed S      repeat the plans of another run; every run prints its seed
//   --break NAME  plant a fault (Rules::breaks); the run succeeds only if the storm finds it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "support/storm/board.h"
#include "support/storm/crew.h"
#include "support/storm/peer.h"
#include "support/storm/plan.h"

namespace storm {

// A step in which all survivors settle, after the kills. The next phase begins when all have
// answered.
struct Phase {
  const char* meaning;  // completes the sentence "not every peer ..."
  int64_t limit_ns = kPatienceNs;
};

// A wrong use of the library by the peers, which the storm has to find: as a wrong byte, or in a
// complaint that contains `shows_as`.
struct Break {
  const char* name;
  const char* shows_as = nullptr;
};

struct Rules {
  uint32_t n_peers;
  OpNames ops;                          // the kinds of calls, from kFirstOp on
  std::span<const char* const> counts;  // what Peer::count() counts
  std::span<const Phase> phases;
  std::span<const Break> breaks = {};
  std::span<const char* const> options = {};  // switches of the world's own, such as "--cycles"
  bool survivors_stay = false;                // in the next round; otherwise all peers are new
  // The rest is for a world in which other processes serve the peers. Their names and sockets stay,
  // so left() has to look at /dev/shm itself, which must be the storm's own.
  bool has_servants = false;
  int64_t look_ns = kSoonNs;  // how long left() may take to become empty
};

class World {
 public:
  explicit World(const Rules& its_rules) : rules(its_rules) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  virtual void plan(Plan* plan) = 0;
  // Runs in the new process, which has a copy of this object as it was after plan().
  virtual std::unique_ptr<Peer> make_peer(const Seat& seat) = 0;
  // Tells what a round has left in the world. The engine calls it in a new process until it returns
  // an empty text, for Rules::look_ns.
  virtual std::string left() { return {}; }
  // Tells what the whole storm should have done and did not, or what it has left.
  virtual std::string missed(uint64_t /*kills*/) { return {}; }
  // Runs before each kill.
  virtual void before_kill() {}
  // Starts a peer that is another program, and returns its pid. It must be a child of this process
  // and obey the orders of peer.h. The default is a fork that runs make_peer().
  virtual std::optional<pid_t> start_elsewhere(const Seat& /*seat*/) { return {}; }
  // Whether that end of a peer is no failure. SIGKILL never is.
  virtual bool excuses(uint32_t /*index*/, int /*status*/) { return false; }
  // Whether that child of the engine is no peer and no peer's child, and lives on.
  virtual bool is_servant(pid_t /*pid*/) { return false; }
  // These two are for the report of a failure.
  virtual std::string describe(const LinkPlan& /*link*/) { return "sends"; }
  virtual std::string printed_by_servants() { return {}; }

  bool is_broken_by(std::string_view name) const {
    return broken != nullptr && broken->name == name;
  }

  const Rules rules;
  // The engine sets these.
  Board* board = nullptr;
  const Break* broken = nullptr;
  std::set<std::string> given;  // of Rules::options
  uint64_t reports = 0;         // of Crew::reports()
  bool is_alone = false;        // no other process has names in this /dev/shm
  std::set<int32_t> pids;       // of all processes that ever were peers
};

std::unique_ptr<World> make_world();

}  // namespace storm
