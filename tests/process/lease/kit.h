// Helpers for the tests of arenas and leases: arenas, storages with a pattern, connections to lend
// over, and checks of the free space of an arena. CALL, CHECK_OK, REQUIRE_OK and Outcome are those
// of process/fault/kit.h: CALL and the checks declare `err`, and a failed REQUIRE ends the process.
#pragma once

#include <tenon/arena.h>
#include <tenon/lease.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "process/filename/served.h"
#include "support/sized.h"

namespace leases {

using fault::kMiB;
using fault::Outcome;
using names::kPatienceMs;
using names::kSanitized;
using names::wait_until;

inline constexpr int64_t kMs = 1'000'000;
// How long a test waits for an event that must come. Only a failure takes that long.
inline constexpr int64_t kPatienceNs = kPatienceMs * kMs;

inline long count_threads() {
  long count = 0;
  DIR* const folder = opendir("/proc/self/task");
  REQUIRE(folder != nullptr);
  while (const dirent* each = readdir(folder)) count += each->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count;
}

inline tenon_arena_options arena_options(uint64_t capacity, tenon_mode mode = TENON_MODE_SHARED) {
  auto options = tenon::test::sized<tenon_arena_options>();
  options.mode = mode;
  options.capacity_nbytes = capacity;
  // An arena of huge pages has more room than was asked for. Whether the machine gives huge pages
  // is a setting of the whole system, which other test programs change.
  options.pages = TENON_PAGES_SMALL;
  return options;
}

inline tenon_arena* new_arena(uint64_t capacity, tenon_mode mode = TENON_MODE_SHARED) {
  const tenon_arena_options options = arena_options(capacity, mode);
  tenon_arena* arena = nullptr;
  REQUIRE_OK(tenon_arena_new(&options, &arena, err));
  return arena;
}

// An arena that is released at the end of its block.
class Arena {
 public:
  explicit Arena(uint64_t capacity, tenon_mode mode = TENON_MODE_SHARED)
      : arena_(new_arena(capacity, mode)) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { tenon_arena_release(arena_); }
  tenon_arena* get() const { return arena_; }
  operator tenon_arena*() const { return arena_; }  // NOLINT(google-explicit-constructor)

 private:
  tenon_arena* arena_;
};

inline tenon_storage_options born_in(tenon_arena* arena, const tenon_wait* wait = nullptr) {
  auto options = tenon::test::sized<tenon_storage_options>();
  options.arena = arena;
  options.wait = wait;
  return options;
}

// Waits up to `wait_ns` nanoseconds for free space. 0 does not wait.
inline Outcome try_new(tenon_arena* arena, uint64_t nbytes, tenon_storage** out,
                       int64_t wait_ns = 0) {
  const tenon_wait wait = fault::wait_ns(wait_ns);
  const tenon_storage_options options = born_in(arena, &wait);
  return CALL(tenon_storage_new(&options, nbytes, out, err));
}

inline tenon_storage* new_in(tenon_arena* arena, uint64_t nbytes, uint64_t seed = 1,
                             int64_t wait_ns = 0) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = try_new(arena, nbytes, &storage, wait_ns);
  CHECK_SAYING(outcome.ok(), outcome.text());
  REQUIRE(storage != nullptr);
  names::put_pattern(storage, seed);
  return storage;
}

// Checks that the arena is full: the call fails at once, and its error names the limit "arena".
inline Outcome check_full(tenon_arena* arena, uint64_t nbytes, const char* file, int line) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = try_new(arena, nbytes, &storage);
  tenon_storage_release(storage);
  fault::check(outcome.status == TENON_RESOURCE_EXHAUSTED, "the arena is full", file, line,
               "got " + outcome.text());
  fault::check(outcome.detail("limit") == "arena", "detail limit", file, line, outcome.text());
  return outcome;
}
#define CHECK_FULL(arena, nbytes) ::leases::check_full(arena, nbytes, __FILE__, __LINE__)

// Checks that free space comes back before the wait ends.
inline void check_comes_back(tenon_arena* arena, uint64_t nbytes, const char* file, int line) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = try_new(arena, nbytes, &storage, kPatienceNs);
  fault::check(outcome.ok(), "the room comes back", file, line, outcome.text());
  tenon_storage_release(storage);
}
#define CHECK_COMES_BACK(arena, nbytes) \
  ::leases::check_comes_back(arena, nbytes, __FILE__, __LINE__)

inline tenon_arena_stats stats(const tenon_arena* arena) {
  auto result = tenon::test::sized<tenon_arena_stats>();
  CHECK_OK(tenon_arena_stats_get(arena, &result, err));
  return result;
}

inline std::vector<tenon_lease_holder> holders() {
  std::vector<tenon_lease_holder> all(16);
  all[0].struct_size = sizeof all[0];
  size_t total = 0;
  REQUIRE_OK(tenon_lease_holders(all.data(), all.size(), &total, err));
  REQUIRE(total <= all.size());
  all.resize(total);
  return all;
}

inline uint64_t leases_standing() {
  uint64_t count = 0;
  for (const tenon_lease_holder& each : holders()) count += each.leases;
  return count;
}

// A message over the whole of each storage. The caller keeps its references, and the message has
// references of its own.
inline tenon_message* message_of(const std::vector<tenon_storage*>& storages) {
  for (tenon_storage* each : storages) tenon_storage_retain(each);
  return fault::new_message(storages);
}

inline Outcome try_send(tenon_connection* connection, const tenon_message* message) {
  const tenon_wait wait = fault::wait_ns(kPatienceNs);
  return CALL(tenon_send(connection, message, &wait, err));
}

inline void lend(tenon_connection* connection, const std::vector<tenon_storage*>& storages) {
  tenon_message* message = message_of(storages);
  const Outcome outcome = try_send(connection, message);
  CHECK_SAYING(outcome.ok(), outcome.text());
  tenon_message_release(message);
}

// Lends a new storage of the arena, and keeps no reference to it.
inline void lend_new(tenon_connection* connection, tenon_arena* arena, uint64_t nbytes,
                     uint64_t seed = 1, int64_t wait_ns = 0) {
  tenon_storage* storage = new_in(arena, nbytes, seed, wait_ns);
  lend(connection, {storage});
  tenon_storage_release(storage);
}

inline Outcome try_receive(tenon_connection* connection, tenon_message** out) {
  const tenon_wait wait = fault::wait_ns(kPatienceNs);
  return CALL(tenon_recv(connection, &wait, out, err));
}

inline tenon_message* receive(tenon_connection* connection) {
  tenon_message* message = nullptr;
  const Outcome outcome = try_receive(connection, &message);
  CHECK_SAYING(outcome.ok(), outcome.text());
  REQUIRE(message != nullptr);
  return message;
}

// Whether every tensor shows its pattern. Each tensor covers a whole storage. Tensor i has the
// pattern of seed + i, or with `same` that of `seed`.
inline bool shows(const tenon_message* message, uint64_t seed, bool same = false) {
  for (size_t i = 0; i < tenon_message_count(message); ++i) {
    tenon_storage* storage = nullptr;
    tenon_tensor* const tensor = tenon_message_tensor(message, i);
    storage = tenon_tensor_storage(tensor);
    if (!names::shows_pattern(storage, same ? seed : seed + i)) return false;
  }
  return true;
}

}  // namespace leases
