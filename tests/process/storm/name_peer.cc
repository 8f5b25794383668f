#include "process/storm/name_peer.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "support/temporary_directory.h"

namespace storm {
namespace {

tenon_filename_options name_options() {
  tenon_filename_options options{};
  options.struct_size = sizeof options;
  options.directory = kShm;
  return options;
}

long mappings_left() { return count_mappings_of("memfd:tenon") + count_mappings_of(kShm); }

}  // namespace

std::string describe_names(const std::vector<std::string> &besides) {
  std::string text;
  for (const std::string &name : tenon::test::names_in(kShm)) {
    if (std::any_of(besides.begin(), besides.end(),
                    [&name](const std::string &prefix) { return name.starts_with(prefix); }))
      continue;
    text += " " + name;
    struct stat info{};
    if (lstat((std::string(kShm) + "/" + name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      text += " (a socket)";
      continue;
    }
    // The head of a named file (docs/format/filename.md).
    struct {
      int32_t count;
      uint32_t magic;
      int32_t in_flight;
      int32_t maker;
      char rest[48];
    } head{};
    std::ifstream file(std::string(kShm) + "/" + name, std::ios::binary);
    if (file.read(reinterpret_cast<char *>(&head), sizeof head)) {
      text += head.magic == 0x314e6e54 ? " (Tenon's file" : " (another's file";
      text += ", count " + std::to_string(head.count) + ", in flight " +
              std::to_string(head.in_flight) + ", made by " + std::to_string(head.maker) + ")";
    } else {
      text += " (a file of " + std::to_string(info.st_size) + " bytes)";
    }
  }
  return text;
}

void sweep_names(uint32_t flags, int64_t min_age_ns) {
  tenon_sweep_options options{};
  options.struct_size = sizeof options;
  options.directory = kShm;
  options.flags = flags;
  options.min_age_ns = min_age_ns;
  REQUIRE_OK(tenon_filename_sweep(&options, nullptr, err));
}

// ---- orders

void NamePeer::begin(uint32_t role, const std::vector<LinkEnd> &links) {
  role_ = role;
  links_ = links;
}

// From here on the process has its service thread and the thread's fds.
void NamePeer::start() {
  make_file(false, false);
  make_memory();
  let_go_of_all();
  (void)tenon_storage_trim();
  fds_ = fault::count_open_fds();
}

void NamePeer::make_one() {
  make_file(false, false);
  let_go_of_all();
}

// In phase 1 and later the peer releases what it holds. A sender keeps messages that nobody
// received.
void NamePeer::settle(uint32_t phase, uint32_t /*dead*/) {
  check_all();
  if (phase == 0) return;
  let_go_of_all();
  if (is_sender()) return;
  // The service thread may be the last to release a segment, and a trim takes only segments without
  // a holder. It may also be looking at names that other processes have just left.
  const long most_fds = fds_ + (with_manager_ ? 4 : 0);  // idle connections to a manager
  const auto has_more = [most_fds] {
    (void)tenon_storage_trim();
    return mappings_left() > 0 || fault::count_open_fds() > most_fds;
  };
  for (int i = 0; i < 500 && has_more(); ++i) usleep(2000);
  if (has_more() || sent_in_flight_ > 0)
    fail("a receiver let go of everything, and has " +
         std::to_string(fault::count_open_fds() - most_fds) + " fds more than at first, " +
         std::to_string(mappings_left()) + " mappings");
  const auto left = [] { return describe_names({"tenon-manager-", "torch_"}); };
  for (int64_t i = 0; i < kNamesGoNs / 2'000'000 && !left().empty(); ++i) usleep(2000);
  if (const std::string names = left(); !names.empty()) fail("names with a peer alive:" + names);
}

// A process that exits in order would leave its messages in flight for a minute.
void NamePeer::end() {
  while (true) pause();
}

// The child reads what its parent had, makes something of its own, and ends in one of three ways.
void NamePeer::be_child() {
  sent_in_flight_ = 0;
  for (Held &each : held_) each.is_inherited = true;
  check_all();
  for (uint64_t n = random_.below(30); n > 0; --n) step();
  check_all();
  if (sent_in_flight_ == 0 && random_.below(3) == 0) std::exit(0);
  if (random_.chance(50)) return;
  for (uint64_t n = random_.below(20); n > 0; --n) {
    usleep(500);
    check_all();
  }
  raise(SIGKILL);
}

// ---- held storages

void NamePeer::check(const Held &held) {
  if (held.storage == nullptr) return;
  if (!fault::has_pattern(tenon_storage_data(held.storage), held.handle.nbytes, held.seed))
    fail_wrong(std::string("the bytes of ") + held.handle.name + " are not what they were");
  count_checked();
}

void NamePeer::check_all() {
  for (const Held &each : held_) check(each);
}

void NamePeer::let_go(Held *held) {
  check(*held);
  enter(kRelease);
  tenon_storage_release(held->storage);
  *held = {};
  leave();
}

void NamePeer::let_go_of_all() {
  for (Held &each : held_) let_go(&each);
}

NamePeer::Held *NamePeer::place() {
  Held *const held = &held_[random_.below(held_.size())];
  if (held->storage != nullptr) let_go(held);
  return held;
}

// ---- steps

void NamePeer::step() {
  Held *const any = &held_[random_.below(held_.size())];
  Held *const mine =
      any->storage != nullptr && !any->is_inherited && !any->is_chosen ? any : nullptr;
  const uint64_t dice = random_.below(100);
  const bool sends = is_sender();
  if (dice < (sends ? 30U : 10U)) {
    make_file(random_.below(6) == 0, with_manager_ && random_.chance(50));
  } else if (dice < (sends ? 50U : 15U)) {
    make_memory();
  } else if (dice < (sends ? 75U : 25U)) {
    if (mine != nullptr) send(mine);
  } else if (dice < (sends ? 80U : 85U)) {
    receive();
  } else if (dice < 88) {
    if (mine != nullptr && sends) count_there_and_back(mine);
  } else if (dice < 90) {
    enter(kSweep);
    sweep_names(0, 0);
    leave();
  } else if (dice < 91) {
    if (!is_child_) fork_child(1 << 24);
  } else if (any->storage != nullptr) {
    let_go(any);
  }
  if (!is_child_) reap(false);
  check(held_[random_.below(held_.size())]);
}

// The storm kills a manager now and then. Any other error is a bug.
bool NamePeer::is_about_manager(const fault::Outcome &outcome) {
  if (outcome.detail("path").find("manager") == std::string::npos) return false;
  if (outcome.status != TENON_PEER_GONE && outcome.status != TENON_NOT_FOUND &&
      outcome.status != TENON_TIMEOUT)
    return false;
  count(kNoManager);
  return true;
}

// Returns false if there was no manager.
bool NamePeer::share(Held *held, bool for_torch) {
  tenon_filename_options options = name_options();
  if (for_torch) options.flags |= TENON_FILENAME_TORCH;
  held->handle = {};
  held->handle.struct_size = sizeof held->handle;
  const fault::Outcome shared = call(kShare, [&](tenon_error **err) {
    return tenon_share_filename(held->storage, &options, nullptr, &held->handle, err);
  });
  held->has_own_name = shared.ok();
  if (!shared.ok() && !is_about_manager(shared)) expect(shared, {}, "tenon_share_filename");
  return shared.ok();
}

// Gives the storage a name of this process. Releases the storage and returns false if there was no
// manager.
bool NamePeer::has_own_name(Held *held) {
  if (held->has_own_name || share(held, false)) return true;
  let_go(held);
  return false;
}

uint64_t NamePeer::some_size() {
  return random_.below(20) == 0 ? 200'000 + random_.below(500'000) : 1 + random_.below(9000);
}

void NamePeer::fill_new(Held *held, tenon_storage *storage, uint64_t nbytes) {
  held->storage = storage;
  held->seed = random_.below(1'000'000);
  held->handle.nbytes = nbytes;
  const std::vector<unsigned char> bytes = fault::pattern(nbytes, held->seed);
  REQUIRE_OK(tenon_storage_write(storage, 0, bytes.data(), nbytes, err));
  count(kMade);
}

void NamePeer::make_file(bool chosen, bool for_torch) {
  Held *const held = place();
  tenon_filename_options options = name_options();
  const uint64_t nbytes = some_size();
  // Other processes want this name too.
  const std::string name = "tenon-chosen-" + std::to_string(random_.below(3));
  if (chosen) options.name = name.c_str();
  tenon_storage *storage = nullptr;
  const fault::Outcome made = call(kMake, [&](tenon_error **err) {
    return tenon_storage_new_filename(&options, nbytes, &storage, err);
  });
  if (chosen && made.status == TENON_PERMISSION) return;
  expect(made, {TENON_OK}, "tenon_storage_new_filename");
  fill_new(held, storage, nbytes);
  held->is_chosen = chosen;
  if (!share(held, for_torch)) let_go(held);
}

void NamePeer::make_memory() {
  Held *const held = place();
  tenon_storage_options options{};
  options.struct_size = sizeof options;
  options.mode = fault::kModes[random_.below(3)];
  if (random_.below(4) == 0) options.flags = TENON_STORAGE_ISOLATED;
  if (random_.below(4) == 0) options.flags = TENON_STORAGE_PRIVATE;  // a lend moves it into a file
  const uint64_t nbytes = some_size();
  tenon_storage *storage = nullptr;
  expect(
      call(kMake,
           [&](tenon_error **err) { return tenon_storage_new(&options, nbytes, &storage, err); }),
      {TENON_OK}, "tenon_storage_new");
  fill_new(held, storage, nbytes);
  if (options.mode == TENON_MODE_FROZEN && options.flags != TENON_STORAGE_PRIVATE)
    REQUIRE_OK(tenon_storage_freeze(storage, err));
  (void)has_own_name(held);
}

void NamePeer::send(Held *held) {
  if (!has_own_name(held)) return;
  // A PyTorch opens only what its manager knows.
  const LinkEnd *const link = some_link(&links_, true, &random_, [held](const LinkEnd &each) {
    return each.kind != uint8_t{kTorch} || held->handle.manager[0] != '\0';
  });
  if (link == nullptr) return;
  Note note{};
  // A receiver holds what it passes on. Otherwise the next receiver could come too late.
  note.in_flight = is_sender() && random_.below(3) != 0 ? 1 : 0;
  note.sender = getpid();
  note.seed = held->seed;
  note.handle = held->handle;
  enter(kSend);
  if (note.in_flight != 0) REQUIRE_OK(tenon_filename_incref(&held->handle, err));
  if (put(link->socket, &note, sizeof note, nullptr, 0)) {
    sent_in_flight_ += note.in_flight;
    count(kSent);
  } else if (note.in_flight != 0) {
    REQUIRE_OK(tenon_filename_decref(&held->handle, err));
  }
  leave();
}

void NamePeer::receive() {
  Note note{};
  const auto came = [&note](const LinkEnd &each) {
    return recv(each.socket, &note, sizeof note, MSG_DONTWAIT) == ssize_t{sizeof note};
  };
  if (some_link(&links_, false, &random_, came) == nullptr) return;
  tenon_open_options options{};
  options.struct_size = sizeof options;
  options.flags = TENON_OPEN_ALLOW_UNSEALED | (note.in_flight != 0 ? TENON_OPEN_DECREF : 0);
  tenon_storage *storage = nullptr;
  const auto open = [&] {
    return call(kOpen, [&](tenon_error **err) {
      return tenon_open_filename(&note.handle, &options, nullptr, &storage, err);
    });
  };
  fault::Outcome opened = open();
  if (!opened.ok() && is_about_manager(opened)) {
    options.flags |= TENON_OPEN_NO_MANAGER;
    opened = open();
  }
  if (!opened.ok()) {
    // If a sender was killed, its messages in flight are lost with it.
    const bool is_gone = opened.status == TENON_NOT_FOUND || opened.status == TENON_PEER_GONE;
    if (!is_gone || (note.in_flight != 0 && !is_dead(note.sender)))
      expect(opened, {}, "tenon_open_filename");
    count(kTooLate);
    return;
  }
  Held *const held = place();
  held->storage = storage;
  held->handle = note.handle;
  held->seed = note.seed;
  // The parent of a child may already have passed the same storage on.
  held->is_inherited = is_child_;
  count(kOpened);
  check(*held);
}

void NamePeer::count_there_and_back(Held *held) {
  if (!has_own_name(held)) return;
  REQUIRE_OK(tenon_filename_incref(&held->handle, err));
  REQUIRE_OK(tenon_filename_decref(&held->handle, err));
}

}  // namespace storm
