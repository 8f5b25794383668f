// The tests of names in containers share these helpers: a directory of their own, a line between
// two processes, and lending and borrowing by name.
#pragma once

#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "process/fault/kit.h"
#include "support/sized.h"
#include "support/temporary_directory.h"

namespace names {

using tenon::test::names_in;
using tenon::test::wait_until;

inline constexpr uint64_t kNbytes = 300'000;

// The directory of names that the sides of a test share, as the test's own process sees it. It lies
// in /dev/shm, because a name's file is memory.
class Meeting : public tenon::test::TemporaryDirectory {
 public:
  explicit Meeting(mode_t mode = 0700) : TemporaryDirectory("/dev/shm/meeting-") {
    REQUIRE(chmod(path().c_str(), mode) == 0);
  }
  // The number of names that a lender chose. The library may have hidden ones beside them.
  size_t visible() const {
    const std::set<std::string> all = names();
    return static_cast<size_t>(std::count_if(
        all.begin(), all.end(), [](const std::string& leaf) { return leaf[0] != '.'; }));
  }
};

// A line between two processes, for bytes and handles. No fd ever crosses it. Each process uses one
// end, 0 or 1. If one process fails, the alarm ends the one that waits for it.
class Line {
 public:
  Line() { REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) == 0); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    for (const int end : ends_) close(end);
  }
  template <typename T>
  void give(int end, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    REQUIRE(send(ends_[end], &value, sizeof value, MSG_NOSIGNAL) == sizeof value);
  }
  template <typename T>
  T take(int end) const {
    T value{};
    REQUIRE(recv(ends_[end], &value, sizeof value, 0) == sizeof value);
    return value;
  }
  void signal(int end) const { give(end, 'x'); }
  void await(int end) const { CHECK_EQ(take<char>(end), 'x'); }

 private:
  int ends_[2] = {-1, -1};
};

// A name must be gone within this time.
inline constexpr std::chrono::milliseconds kSoon{TENON_TEST_SANITIZED ? 4000 : 1000};

inline tenon_filename_options name_options(const std::string& directory) {
  auto options = tenon::test::sized<tenon_filename_options>();
  options.directory = directory.c_str();
  return options;
}

inline tenon_filename_handle name_handle() {
  auto handle = tenon::test::sized<tenon_filename_handle>();
  return handle;
}

// The ways to lend by name: a file in the directory, or a socket in it from which the borrower gets
// an fd of memory in one of three modes.
enum class Way { kFile, kShared, kLenderWrites, kFrozen };
inline constexpr Way kWays[] = {Way::kFile, Way::kShared, Way::kLenderWrites, Way::kFrozen};
inline const char* text(Way way) {
  constexpr const char* texts[] = {"a file", "a socket, SHARED", "a socket, LENDER_WRITES",
                                   "a socket, FROZEN"};
  return texts[static_cast<int>(way)];
}
inline bool borrower_writes(Way way) { return way == Way::kFile || way == Way::kShared; }

struct Lent {
  tenon_storage* storage = nullptr;
  tenon_filename_handle handle = name_handle();
};

// Lends kNbytes bytes with the pattern of `seed`.
inline Lent lend(Way way, const tenon_filename_options& options, uint64_t seed) {
  Lent lent;
  if (way == Way::kFile) {
    REQUIRE_OK(tenon_storage_new_filename(&options, kNbytes, &lent.storage, err));
    const std::vector<unsigned char> bytes = fault::pattern(kNbytes, seed);
    REQUIRE_OK(tenon_storage_write(lent.storage, 0, bytes.data(), kNbytes, err));
  } else {
    constexpr tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                    TENON_MODE_FROZEN};
    lent.storage = fault::new_storage(kNbytes, seed, modes[static_cast<int>(way)]);
  }
  REQUIRE_OK(tenon_share_filename(lent.storage, &options, nullptr, &lent.handle, err));
  return lent;
}

inline fault::Outcome open_named(const tenon_filename_handle& handle, uint32_t flags,
                                 tenon_storage** out, tenon_access access = TENON_ACCESS_AUTO) {
  const tenon_open_options options = fault::open_options(flags, access);
  return CALL(tenon_open_filename(&handle, &options, nullptr, out, err));
}

// Opens a name, or ends this process as failed. `flags` are added to TENON_OPEN_ALLOW_UNSEALED.
inline tenon_storage* borrow(const tenon_filename_handle& handle, uint32_t flags = 0,
                             tenon_access access = TENON_ACCESS_AUTO) {
  tenon_storage* storage = nullptr;
  const fault::Outcome outcome =
      open_named(handle, flags | TENON_OPEN_ALLOW_UNSEALED, &storage, access);
  if (!CHECK_SAYING(outcome.ok(), outcome.text())) _exit(1);
  return storage;
}

// Whether the storage has the pattern of `seed`.
inline bool has(const tenon_storage* storage, uint64_t seed) {
  return fault::has_pattern(tenon_storage_data(storage), kNbytes, seed);
}

inline void overwrite(tenon_storage* storage, uint64_t seed) {
  void* data = nullptr;
  REQUIRE_OK(tenon_storage_data_mut(storage, &data, err));
  const std::vector<unsigned char> bytes = fault::pattern(kNbytes, seed);
  std::memcpy(data, bytes.data(), kNbytes);
}

inline tenon_sweep_result sweep_names(const std::string& directory, uint32_t flags = 0) {
  auto options = tenon::test::sized<tenon_sweep_options>();
  options.flags = flags;
  options.directory = directory.c_str();
  auto result = tenon::test::sized<tenon_sweep_result>();
  REQUIRE_OK(tenon_filename_sweep(&options, &result, err));
  return result;
}

}  // namespace names
