#include "process/fault/storm/peer.h"

#include <algorithm>

#include "support/storm/deadline.h"

namespace storm {

LeasePeer::LeasePeer(const Seat& seat, bool gives_back_early)
    : Peer(seat), gives_back_early_(gives_back_early) {
  // The capacity is a power of two, so that one block can fill the arena.
  for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
    capacities_.push_back(uint64_t{1} << (18 + random_.below(5)));
    tenon_arena_options options{};
    options.struct_size = sizeof options;
    options.mode = mode;
    options.capacity_nbytes = capacities_.back();
    tenon_arena* arena = nullptr;
    REQUIRE_OK(tenon_arena_new(&options, &arena, err));
    arenas_.push_back(arena);
    // The first lend makes the fd that the borrowers get.
    const fault::Pair pair(SOCK_STREAM);
    tenon_storage_options born{};
    born.struct_size = sizeof born;
    born.arena = arena;
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_storage_new(&born, 1, &storage, err));
    tenon_message* message = fault::new_message({storage});
    REQUIRE_OK(tenon_send(pair.left, message, nullptr, err));
    tenon_message_release(message);
    REQUIRE_OK(tenon_recv(pair.right, nullptr, &message, err));
    tenon_message_release(message);
  }
  (void)fault::hold();
  // The service thread may still be ending one of these ledgers. The lease page is unmapped last.
  for (const int64_t deadline = now_ns() + kSoonNs; !lease_pages().empty() && now_ns() < deadline;)
    usleep(500);
  REQUIRE(lease_pages().empty());
  before_ = fault::hold();
}

void LeasePeer::begin(uint32_t role, const std::vector<LinkEnd>& links) {
  hostile_ = role == kHostile;
  if (hostile_) forks_left_ = 0;
  links_.assign(links.size(), {});
  for (size_t i = 0; i < links_.size(); ++i) {
    links_[i].carrier = static_cast<Carrier>(links[i].kind);
    links_[i].out = links[i].out;
    if (links_[i].carrier == kDescriptor) {
      links_[i].raw = links[i].socket;
      continue;
    }
    tenon_connection_options options{};
    options.struct_size = sizeof options;
    options.flags = TENON_CONNECTION_ADOPT_SOCKET;
    if (i % 2 == 0) options.flags |= TENON_CONNECTION_RING;
    expect(call(kConnect,
                [&](tenon_error** err) {
                  return tenon_connection_new(links[i].socket, &options, &links_[i].connection,
                                              err);
                }),
           {TENON_OK}, "tenon_connection_new");
  }
}

void LeasePeer::end() {
  for (tenon_arena* arena : arenas_) tenon_arena_release(arena);
}

// ---- settling

// Every peer releases all that it has, and every message that still comes, while the connections
// stay open. So every lender gets its memory back. Then each peer releases its connections too.
void LeasePeer::settle(uint32_t phase, uint32_t /*dead*/) {
  if (phase == 0) {
    while (!own_.empty()) release_own(own_.size() - 1);
    let_go_of_all();
  } else if (phase == 1) {
    get_back();
  } else {
    close_all();
  }
  enter(kSettling);
}

void LeasePeer::idle() {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].out) {
      send(i, nullptr, {});
    } else {
      while (receive(i, false)) let_go_of_all();
    }
  }
  enter(kSettling);
  usleep(200);
}

void LeasePeer::get_back() {
  const Deadline deadline(board_->slots, 4 * kSoonNs / 5);  // the driver waits a little longer
  for (idle(); !nothing_is_lent(); idle()) {
    if (!deadline.is_over()) continue;
    board_->complain("nobody holds anything, and it does not get back what it lent:" + holders());
    usleep(500'000);  // so that the driver can look at every process
    die(kFailed);
  }
}

void LeasePeer::close_all() {
  for (size_t i = 0; i < links_.size(); ++i) drop(i);
  links_.clear();
  const Deadline deadline(board_->slots, kSoonNs);
  std::string left = what_is_left();
  while (!left.empty() && !deadline.is_over()) {
    usleep(500);
    left = what_is_left();
  }
  if (!left.empty()) fail("a second after the round it has" + left);
}

bool LeasePeer::nothing_is_lent() {
  for (const tenon_arena* arena : arenas_) {
    tenon_arena_stats stats{};
    stats.struct_size = sizeof stats;
    REQUIRE_OK(tenon_arena_stats_get(arena, &stats, err));
    if (stats.bytes_lent > 0 || stats.blocks_lent > 0) return false;
  }
  size_t total = 0;
  REQUIRE_OK(tenon_lease_holders(nullptr, 0, &total, err));
  return total == 0;
}

std::string LeasePeer::holders() {
  std::array<tenon_lease_holder, 16> all{};
  all[0].struct_size = sizeof all[0];
  size_t total = 0;
  REQUIRE_OK(tenon_lease_holders(all.data(), all.size(), &total, err));
  std::string text;
  for (size_t i = 0; i < std::min(total, all.size()); ++i) {
    text += " pid " + std::to_string(all[i].pid) + " has " + std::to_string(all[i].leases) +
            " of " + std::to_string(all[i].granted) + " leases that it got,";
  }
  return text;
}

std::string LeasePeer::what_is_left() {
  std::string left;
  const auto compare = [&](const char* what, uint64_t wanted, uint64_t got) {
    if (wanted != got)
      left += std::string(" ") + std::to_string(got) + " " + what + " (" + std::to_string(wanted) +
              " before),";
  };
  size_t total = 0;
  REQUIRE_OK(tenon_lease_holders(nullptr, 0, &total, err));
  compare("holders of leases", 0, total);
  for (size_t i = 0; i < arenas_.size(); ++i) {
    tenon_storage_options options{};
    options.struct_size = sizeof options;
    options.arena = arenas_[i];
    tenon_storage* all = nullptr;
    const fault::Outcome outcome = CALL(tenon_storage_new(&options, capacities_[i], &all, err));
    if (!outcome.ok()) left += " no room for all of its arena: " + outcome.text() + ",";
    tenon_storage_release(all);
    tenon_arena_stats stats{};
    stats.struct_size = sizeof stats;
    REQUIRE_OK(tenon_arena_stats_get(arenas_[i], &stats, err));
    compare("bytes lent in an arena", 0, stats.bytes_lent);
    compare("blocks lent in an arena", 0, stats.blocks_lent);
    compare("bytes live in an arena", 0, stats.bytes_live);
    compare("bytes retired in an arena", 0, stats.bytes_retired);
  }
  const fault::Held now = fault::hold();
  compare("fds", static_cast<uint64_t>(before_.fds), static_cast<uint64_t>(now.fds));
  compare("mappings of memfds", static_cast<uint64_t>(before_.mappings),
          static_cast<uint64_t>(now.mappings));
  compare("lease pages", 0, lease_pages().size());
  compare("storages", before_.figures.storages, now.figures.storages);
  // Segments of the library's own arenas were trimmed. One that still had a leased block would
  // remain.
  compare("segments", before_.figures.segments, now.figures.segments);
  compare("fds of segments", before_.figures.segment_fds, now.figures.segment_fds);
  compare("bytes live", before_.figures.bytes_live, now.figures.bytes_live);
  compare("bytes opened", before_.figures.bytes_opened, now.figures.bytes_opened);
  compare("bytes retired", before_.figures.bytes_retired, now.figures.bytes_retired);
  return left;
}

}  // namespace storm
