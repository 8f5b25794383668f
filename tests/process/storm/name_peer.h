// A process of the storm of names. It makes storages under names and sends them to the other
// processes. It opens what it receives, checks the bytes of everything that it holds, counts,
// sweeps, releases and forks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "process/fault/kit.h"
#include "support/storm/peer.h"

namespace storm {

inline constexpr const char *kShm = "/dev/shm";
// A limit for names that never go. A disturbed look at a name is repeated after up to half a
// second.
inline constexpr int64_t kNamesGoNs = 10'000'000'000;

enum NameOp : uint32_t { kMake = kFirstOp, kShare, kSend, kOpen, kRelease, kSweep, kEndOfOps };
enum NameCount : uint32_t {
  kMade,
  kSent,
  kOpened,
  kTooLate,
  kNoManager,
  kManagerKills,
  kEndOfCounts
};
// A higher role is a worker of a PyTorch: kTorch for the first PyTorch, and so on.
enum NameRole : uint32_t { kSender, kReceiver, kTorch };

// A message. torch_peer.py has the same layout.
struct Note {
  uint32_t in_flight;
  int32_t sender;
  uint64_t seed;
  tenon_filename_handle handle;
};

// Describes the names in /dev/shm that begin with none of these prefixes, for the report of a
// failure: the file or socket, its count and its maker.
std::string describe_names(const std::vector<std::string> &besides);
// Sweeps the names of dead processes.
void sweep_names(uint32_t flags, int64_t min_age_ns);

class NamePeer : public Peer {
 public:
  NamePeer(const Seat &seat, bool with_manager) : Peer(seat), with_manager_(with_manager) {}
  // Makes and releases one file under a name. The world lets a new process do this after a round,
  // to show that names still work, before it looks for what is left.
  void make_one();

 protected:
  void begin(uint32_t role, const std::vector<LinkEnd> &links) override;
  void start() override;
  void step() override;
  void settle(uint32_t phase, uint32_t dead) override;
  void end() override;
  void be_child() override;

 private:
  struct Held {
    tenon_storage *storage = nullptr;
    tenon_filename_handle handle{};
    uint64_t seed = 0;
    bool has_own_name = false;  // this process made its name, and not the lender from which it came
    bool is_inherited = false;  // by fork, and only to read
    bool is_chosen = false;     // another storage can have its name when a message comes to it
  };

  bool is_sender() const { return role_ == kSender; }
  bool is_about_manager(const fault::Outcome &outcome);
  void check(const Held &held);
  void check_all();
  void let_go(Held *held);
  void let_go_of_all();
  Held *place();
  bool share(Held *held, bool for_torch);
  bool has_own_name(Held *held);
  void fill_new(Held *held, tenon_storage *storage, uint64_t nbytes);
  void make_file(bool chosen, bool for_torch);
  void make_memory();
  void send(Held *held);
  void receive();
  void count_there_and_back(Held *held);
  uint64_t some_size();

  bool with_manager_;
  uint32_t role_ = kSender;
  std::vector<LinkEnd> links_;
  std::array<Held, 12> held_{};
  long fds_ = 0;
  uint64_t sent_in_flight_ = 0;
};

}  // namespace storm
