// Helpers for the fault tests, and for the kits of other folders. A test is a function that runs in
// a child process. So a limit stays in the child, and a crash or a kill by the kernel is a result.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "api/capi/library_thread.h"
#include "support/become_user.h"
#include "support/child_status.h"
#include "support/mappings.h"
#include "support/open_fds.h"
#include "support/run_tests.h"
#include "support/sanitizers.h"
#include "support/sized.h"
#include "support/wait_until.h"

// The sanitizers themselves need mappings, memory and their allocators' locks, which some faults
// here take away from them.
#if TENON_TEST_SANITIZED
#define SKIP_UNDER_SANITIZERS(why) GTEST_SKIP() << "skipped under a sanitizer: " << (why)
#else
#define SKIP_UNDER_SANITIZERS(why) static_cast<void>(0)
#endif

namespace fault {

using tenon::test::count_open_fds;
using tenon::test::describe_status;
using tenon::test::wait_for_child;
using tenon::test::wait_until;

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

inline int g_failures = 0;

// Continues after a failure, so that one run reports every failure. The child then exits with 1.
inline bool check(bool good, const char* text, const char* file, int line,
                  const std::string& more = "") {
  if (!good) {
    ++g_failures;
    std::fprintf(stderr, "%s:%d: [pid %d] failed: %s%s%s\n", file, line, static_cast<int>(getpid()),
                 text, more.empty() ? "" : ": ", more.c_str());
  }
  return good;
}

#define CHECK(condition) ::fault::check((condition), #condition, __FILE__, __LINE__)
#define CHECK_SAYING(condition, more) \
  ::fault::check((condition), #condition, __FILE__, __LINE__, (more))
// Ends the process on failure. Use it for conditions that the rest of the test depends on.
#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!::fault::check((condition), #condition, __FILE__, __LINE__)) _exit(1); \
  } while (false)
#define CHECK_EQ(a, b)                                                           \
  do {                                                                           \
    const long long fault_a = static_cast<long long>(a);                         \
    const long long fault_b = static_cast<long long>(b);                         \
    ::fault::check(fault_a == fault_b, #a " == " #b, __FILE__, __LINE__,         \
                   std::to_string(fault_a) + " and " + std::to_string(fault_b)); \
  } while (false)

// The result of a call. Its error has been read and released.
struct Outcome {
  tenon_status status = TENON_OK;
  std::string message;
  std::map<std::string, std::string> details;

  bool ok() const { return status == TENON_OK; }
  std::string detail(const char* key) const {
    const auto found = details.find(key);
    return found == details.end() ? std::string() : found->second;
  }
  std::string text() const {
    std::string all = std::string(tenon_status_name(status)) + " " + message;
    for (const auto& [key, value] : details)
      all.append(" [").append(key).append("=").append(value).append("]");
    return all;
  }
};

inline Outcome read_error(tenon_status status, tenon_error* error) {
  Outcome outcome;
  outcome.status = status;
  if (status == TENON_OK) {
    CHECK(error == nullptr);
    return outcome;
  }
  CHECK(error != nullptr);
  CHECK_EQ(tenon_error_code(error), status);
  outcome.message = tenon_error_message(error);
  CHECK(!outcome.message.empty() && outcome.message.find('\n') == std::string::npos);
  for (size_t i = 0; const char* key = tenon_error_detail_key(error, i); ++i) {
    const char* value = tenon_error_detail(error, key);
    CHECK(value != nullptr);
    outcome.details[key] = value == nullptr ? "" : value;
  }
  tenon_error_release(error);
  return outcome;
}

template <typename Call>
Outcome call(Call&& function) {
  tenon_error* error = nullptr;
  const tenon_status status = function(&error);
  return read_error(status, error);
}

// CALL(tenon_cancel_new(&cancel, err)): the macro declares `err`.
#define CALL(expression) ::fault::call([&](tenon_error** err) { return (expression); })

inline bool check_ok(const Outcome& outcome, const char* text, const char* file, int line) {
  return check(outcome.ok(), text, file, line, outcome.text());
}
#define CHECK_OK(expression) ::fault::check_ok(CALL(expression), #expression, __FILE__, __LINE__)
#define REQUIRE_OK(expression)           \
  do {                                   \
    if (!CHECK_OK(expression)) _exit(1); \
  } while (false)

inline Outcome check_fails(const Outcome& outcome, tenon_status status, const char* limit,
                           const char* text, const char* file, int line) {
  check(outcome.status == status, text, file, line,
        std::string("wanted ") + tenon_status_name(status) + ", got " + outcome.text());
  if (limit != nullptr) {
    check(outcome.detail("limit").find(limit) != std::string::npos, text, file, line,
          std::string("wanted limit ") + limit + ", got " + outcome.text());
    check(!outcome.detail("limit_value").empty(), text, file, line,
          "no limit_value: " + outcome.text());
  }
  return outcome;
}
// Wants RESOURCE_EXHAUSTED with a value and a limit whose name is, or contains, `name`.
#define CHECK_LIMIT(name, expression)                                                           \
  ::fault::check_fails(CALL(expression), TENON_RESOURCE_EXHAUSTED, name, #expression, __FILE__, \
                       __LINE__)
#define CHECK_STATUS(status, expression) \
  ::fault::check_fails(CALL(expression), status, nullptr, #expression, __FILE__, __LINE__)

// ---- what a test could leak

inline long count_lines(const char* path, const char* part) {
  std::ifstream file(path);
  std::string line;
  long count = 0;
  while (std::getline(file, line)) count += line.find(part) != std::string::npos ? 1 : 0;
  return count;
}

inline tenon_stats stats() {
  auto result = tenon::test::sized<tenon_stats>();
  CHECK_OK(tenon_stats_get(&result, err));
  return result;
}

// What this process holds: fds, mappings of memfds, and the figures of tenon_stats. hold() first
// waits for the library's thread and trims, so that nothing idle is counted.
struct Held {
  long fds = count_open_fds();
  long mappings = count_memfd_mappings();
  tenon_stats figures = stats();
};

inline void warm_up();

inline Held hold() {
  warm_up();
  library_thread_settle();
  tenon_storage_trim();
  library_thread_settle();
  return {};
}

inline void check_held(const Held& before, const char* file, int line) {
  // The service thread may end a ledger now, or look at a name through an fd of its own.
  Held now = hold();
  for (int tries = 0; tries < 400 && (now.fds != before.fds || now.mappings != before.mappings);
       ++tries) {
    usleep(5000);
    now = hold();
  }
  const auto same = [&](const char* what, uint64_t a, uint64_t b) {
    check(a == b, what, file, line,
          std::to_string(a) + " before and " + std::to_string(b) + " after");
  };
  same("fds", static_cast<uint64_t>(before.fds), static_cast<uint64_t>(now.fds));
  same("memfd mappings", static_cast<uint64_t>(before.mappings),
       static_cast<uint64_t>(now.mappings));
  same("stats.storages", before.figures.storages, now.figures.storages);
  same("stats.segments", before.figures.segments, now.figures.segments);
  same("stats.segment_fds", before.figures.segment_fds, now.figures.segment_fds);
  same("stats.bytes_live", before.figures.bytes_live, now.figures.bytes_live);
  same("stats.bytes_reserved", before.figures.bytes_reserved, now.figures.bytes_reserved);
  same("stats.bytes_opened", before.figures.bytes_opened, now.figures.bytes_opened);
}
// Checks that the process holds the same as before. Waits up to two seconds for that.
#define CHECK_HELD(before) ::fault::check_held(before, __FILE__, __LINE__)

// ---- processes

inline constexpr unsigned kWatchdogSeconds = TENON_TEST_SANITIZED ? 240 : 60;

// Runs `body` in a child, which an alarm ends after kWatchdogSeconds. The child exits with 0, or
// with 1 if a check failed. The caller waits for it.
template <typename Body>
pid_t spawn(Body&& body) {
  std::fflush(nullptr);
  // A sanitizer's allocator fails in a child if another thread was inside it at the fork.
  if (TENON_TEST_SANITIZED) library_thread_settle();
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kWatchdogSeconds);
  g_failures = 0;
  body();
  std::fflush(nullptr);
  _exit(g_failures == 0 ? 0 : 1);
}

// The two ends of a connection that keeps the bounds of packets.
inline std::array<int, 2> socket_ends() {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return ends;
}

inline constexpr int kSkip = support::kSkipped;

inline constexpr bool kSanitized = TENON_TEST_SANITIZED;
// The time limit of calls and polls that must succeed. Only a failure takes that long.
inline constexpr int kPatienceMs = kSanitized ? 20000 : 5000;
inline constexpr int64_t kSecond = 1'000'000'000;
// The time limit of a step in which other processes take part, in nanoseconds.
inline constexpr int64_t kLong = (kSanitized ? 60 : 20) * kSecond;

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

// Runs `body` in a child. A child that exits 77 has printed why it cannot run here.
#define IN_CHILD(...)                                                                         \
  do {                                                                                        \
    const pid_t fault_child = ::fault::spawn(__VA_ARGS__);                                    \
    ASSERT_GT(fault_child, 0);                                                                \
    const int fault_status = ::fault::wait_for_child(fault_child);                            \
    if (WIFEXITED(fault_status) && WEXITSTATUS(fault_status) == ::fault::kSkip) GTEST_SKIP(); \
    EXPECT_EQ(fault_status, 0) << ::fault::describe_status(fault_status);                     \
  } while (false)

[[noreturn]] inline void skip(const std::string& why) {
  std::fprintf(stderr, "skipped: %s\n", why.c_str());
  std::fflush(nullptr);
  _exit(g_failures == 0 ? kSkip : 1);
}

// Root is exempt from some limits.
inline void leave_root() { REQUIRE(become_unprivileged()); }

// ---- objects

inline tenon_storage_options storage_options(tenon_mode mode, uint32_t flags) {
  auto options = tenon::test::sized<tenon_storage_options>();
  options.mode = mode;
  options.flags = flags;
  return options;
}

inline tenon_open_options open_options(uint32_t flags, tenon_access access = TENON_ACCESS_AUTO) {
  auto options = tenon::test::sized<tenon_open_options>();
  options.access = access;
  options.flags = flags;
  return options;
}

inline tenon_fd_handle handle_over(int fd, uint64_t nbytes, uint64_t offset = 0) {
  auto handle = tenon::test::sized<tenon_fd_handle>();
  handle.fd = fd;
  handle.offset = offset;
  handle.nbytes = nbytes;
  return handle;
}

inline tenon_wait wait_ns(int64_t timeout_ns) {
  auto wait = tenon::test::sized<tenon_wait>();
  wait.timeout_ns = timeout_ns;
  return wait;
}

inline unsigned char byte_at(uint64_t seed, uint64_t i) {
  return static_cast<unsigned char>(seed * 37 + i * 7 + (i >> 8));
}

inline std::vector<unsigned char> pattern(uint64_t nbytes, uint64_t seed) {
  std::vector<unsigned char> bytes(nbytes);
  for (uint64_t i = 0; i < nbytes; ++i) bytes[i] = byte_at(seed, i);
  return bytes;
}

inline bool has_pattern(const void* data, uint64_t nbytes, uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (uint64_t i = 0; i < nbytes; ++i) {
    if (bytes[i] != byte_at(seed, i)) return false;
  }
  return true;
}

// A new storage with the seed's pattern. It is frozen if its mode is FROZEN.
inline tenon_storage* new_storage(uint64_t nbytes, uint64_t seed = 1,
                                  tenon_mode mode = TENON_MODE_SHARED, uint32_t flags = 0) {
  const tenon_storage_options options = storage_options(mode, flags);
  const std::vector<unsigned char> bytes = pattern(nbytes, seed);
  tenon_storage* storage = nullptr;
  REQUIRE_OK(tenon_storage_new(&options, nbytes, &storage, err));
  REQUIRE_OK(tenon_storage_write(storage, 0, bytes.data(), nbytes, err));
  if (mode == TENON_MODE_FROZEN) REQUIRE_OK(tenon_storage_freeze(storage, err));
  return storage;
}

inline tenon_tensor_spec bytes_spec(const int64_t* size, uint64_t offset = 0) {
  auto spec = tenon::test::sized<tenon_tensor_spec>();
  spec.dtype = {TENON_DTYPE_UINT, 8, 1};
  spec.ndim = 1;
  spec.sizes = size;
  spec.offset = offset;
  return spec;
}

inline tenon_tensor* new_tensor(tenon_storage* storage) {
  const auto size = static_cast<int64_t>(tenon_storage_nbytes(storage));
  const tenon_tensor_spec spec = bytes_spec(&size);
  tenon_tensor* tensor = nullptr;
  REQUIRE_OK(tenon_tensor_new(storage, &spec, &tensor, err));
  return tensor;
}

// A message over the whole of each storage. The function takes over the caller's references.
inline tenon_message* new_message(const std::vector<tenon_storage*>& storages) {
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  for (tenon_storage* storage : storages) {
    tenon_tensor* tensor = new_tensor(storage);
    REQUIRE_OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, err));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  return message;
}

// A message whose descriptor is too long for a packet: `count` tensors over one storage. The caller
// keeps its reference to the storage.
inline tenon_message* new_large_message(tenon_storage* storage, size_t count) {
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  tenon_tensor* tensor = new_tensor(storage);
  const std::vector<tenon_tensor*> tensors(count, tensor);
  REQUIRE_OK(tenon_message_add(message, tensors.data(), nullptr, count, nullptr, err));
  tenon_tensor_release(tensor);
  return message;
}

inline tenon_connection* new_connection(int socket,
                                        const tenon_connection_options* given = nullptr) {
  tenon_connection_options options{};
  if (given != nullptr) options = *given;
  options.struct_size = sizeof options;
  options.flags |= TENON_CONNECTION_ADOPT_SOCKET;
  tenon_connection* connection = nullptr;
  REQUIRE_OK(tenon_connection_new(socket, &options, &connection, err));
  return connection;
}

// Two connections of this process, one on each end of a socket pair.
struct Pair {
  tenon_connection* left = nullptr;
  tenon_connection* right = nullptr;
  explicit Pair(int type, const tenon_connection_options* right_options = nullptr) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
    left = new_connection(ends[0]);
    right = new_connection(ends[1], right_options);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    tenon_connection_release(left);
    tenon_connection_release(right);
  }
};

// Starts the service thread and opens its fds, which stay until the process ends. The first lend
// under a lease does that.
inline void warm_up() {
  static pid_t warm = 0;
  if (warm == getpid()) return;
  warm = getpid();
  const Pair pair(SOCK_STREAM);
  tenon_message* message = new_message({new_storage(1, 1)});
  tenon_message* got = nullptr;
  const tenon_wait wait = wait_ns(10'000'000'000);
  REQUIRE_OK(tenon_send(pair.left, message, &wait, err));
  REQUIRE_OK(tenon_recv(pair.right, &wait, &got, err));
  tenon_message_release(got);
  tenon_message_release(message);
}

inline constexpr int kSocketTypes[] = {SOCK_STREAM, SOCK_SEQPACKET};
inline constexpr tenon_mode kModes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                        TENON_MODE_FROZEN};

// Makes memory as a peer would lend it, but without Tenon, so that this process does not know it.
inline int foreign_memfd(uint64_t nbytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW,
                         bool filled = true) {
  const int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  if (filled && nbytes > 0) REQUIRE(fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
  if (seals != 0) REQUIRE(fcntl(fd, F_ADD_SEALS, seals) == 0);
  return fd;
}

// Lowers a resource limit of this process until the object is destroyed.
class Limit {
 public:
  Limit(__rlimit_resource_t which, rlim_t soft) : which_(which) {
    getrlimit(which_, &before_);
    rlimit now = before_;
    now.rlim_cur = soft;
    REQUIRE(setrlimit(which_, &now) == 0);
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { setrlimit(which_, &before_); }

 private:
  __rlimit_resource_t which_;
  rlimit before_{};
};

// The RLIMIT_NOFILE under which this process can open `room` more fds.
inline rlim_t fd_limit_with_room(int room) {
  std::vector<int> taken;
  int next = 0;
  for (int i = 0; i <= room; ++i) {
    next = fcntl(0, F_DUPFD_CLOEXEC, 0);
    REQUIRE(next >= 0);
    taken.push_back(next);
  }
  for (const int fd : taken) close(fd);
  return static_cast<rlim_t>(next);
}

// Like fd_limit_with_room(0), for a process whose service thread watches a directory. That thread
// has an fd for a moment when it looks at a name, so this function takes the least of many results.
inline rlim_t least_fd_limit() {
  rlim_t least = RLIM_INFINITY;
  for (int i = 0; i < 50; ++i) {
    least = std::min(least, fd_limit_with_room(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return least;
}

}  // namespace fault
