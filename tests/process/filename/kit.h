// Helpers for the tests of names: folders in shared memory, options and handles, and the head of a
// named file (docs/format/filename.md).
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "process/fault/kit.h"
#include "support/sized.h"
#include "support/temporary_directory.h"

namespace names {

using fault::kPatienceMs;
using fault::kSanitized;
using fault::Outcome;
using fault::wait_until;

inline bool exists(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

inline bool is_gone(const std::string& path) {
  return wait_until([&] { return !exists(path); });
}

inline struct stat look(const std::string& path) {
  struct stat info{};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info;
}

// A folder in shared memory for one test. Its destructor checks that no name is left in it.
class Folder : public tenon::test::TemporaryDirectory {
 public:
  explicit Folder(mode_t mode = 0700) : TemporaryDirectory("/dev/shm/names-") {
    REQUIRE(chmod(path().c_str(), mode) == 0);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    (void)becomes_empty();
    for (const std::string& leaf : names()) {
      const mode_t mode = look(at(leaf)).st_mode;
      CHECK_SAYING(false, "left behind: " + leaf +
                              (S_ISREG(mode)    ? ", a file"
                               : S_ISSOCK(mode) ? ", a socket"
                                                : ""));
    }
    CHECK(remove());
  }
  std::string at(const std::string& leaf) const { return *this / leaf; }
  // The names that the test asked for, without the bells that a lender keeps beside its sockets.
  std::set<std::string> leaves() const {
    std::set<std::string> found = names();
    std::erase_if(found, [](const std::string& leaf) { return leaf.starts_with(".tenon-bell-"); });
    return found;
  }
  bool empty() const { return names().empty(); }
  // The last holder and the service thread can meet at a name. One of them removes the name,
  // perhaps a moment later.
  bool becomes_empty() const {
    return wait_until([this] { return empty(); });
  }
};

// Gives a body a new folder.
template <typename Body>
auto with_folder(Body body) {
  return [body] {
    const Folder folder;
    body(folder);
  };
}
// Runs a body in a child, with a folder of its own: IN_FOLDER([](const Folder& folder) { … }).
#define IN_FOLDER(...) IN_CHILD(::names::with_folder(__VA_ARGS__))

// tenon_filename_options that own their strings. An empty string is passed as null.
struct Naming {
  std::string directory{};
  std::string name{};
  std::string prefix{};
  uint32_t flags = 0;
  uint32_t mode = 0;
  uint32_t group = 0;
  tenon_access access = TENON_ACCESS_AUTO;

  tenon_filename_options options() const&& = delete;  // its strings would be gone
  tenon_filename_options options() const& {
    auto options = tenon::test::sized<tenon_filename_options>();
    options.access = access;
    options.flags = flags;
    options.mode = mode;
    options.group = group;
    options.directory = directory.empty() ? nullptr : directory.c_str();
    options.prefix = prefix.empty() ? nullptr : prefix.c_str();
    options.name = name.empty() ? nullptr : name.c_str();
    return options;
  }
};

inline tenon_filename_handle blank_handle() {
  auto handle = tenon::test::sized<tenon_filename_handle>();
  return handle;
}

inline tenon_filename_handle handle_to(const std::string& name, uint64_t nbytes,
                                       uint64_t offset = 0) {
  tenon_filename_handle handle = blank_handle();
  handle.nbytes = nbytes;
  handle.offset = offset;
  REQUIRE(name.size() < sizeof handle.name);
  std::memcpy(handle.name, name.c_str(), name.size() + 1);
  return handle;
}

// The path of the file that a handle names.
inline std::string path_of(const tenon_filename_handle& handle) {
  const std::string name = handle.name;
  return name.find('/', 1) == std::string::npos ? "/dev/shm" + name : name;
}

// ---- calls of this process

inline tenon_storage* create(const Naming& naming, uint64_t nbytes) {
  const tenon_filename_options options = naming.options();
  tenon_storage* storage = nullptr;
  REQUIRE_OK(tenon_storage_new_filename(&options, nbytes, &storage, err));
  return storage;
}

inline Outcome try_create(const Naming& naming, uint64_t nbytes, tenon_storage** out) {
  const tenon_filename_options options = naming.options();
  return CALL(tenon_storage_new_filename(&options, nbytes, out, err));
}

inline Outcome try_share(tenon_storage* storage, const Naming& naming, tenon_filename_handle* out) {
  const tenon_filename_options options = naming.options();
  return CALL(tenon_share_filename(storage, &options, nullptr, out, err));
}

inline tenon_filename_handle share(tenon_storage* storage, const Naming& naming = {}) {
  const tenon_filename_options options = naming.options();
  tenon_filename_handle handle = blank_handle();
  REQUIRE_OK(tenon_share_filename(storage, &options, nullptr, &handle, err));
  return handle;
}

inline Outcome try_open(const tenon_filename_handle& handle, tenon_storage** out,
                        uint32_t flags = TENON_OPEN_ALLOW_UNSEALED,
                        tenon_access access = TENON_ACCESS_AUTO, const tenon_wait* wait = nullptr) {
  const tenon_open_options options = fault::open_options(flags, access);
  return CALL(tenon_open_filename(&handle, &options, wait, out, err));
}

inline tenon_storage* open_name(const tenon_filename_handle& handle,
                                uint32_t flags = TENON_OPEN_ALLOW_UNSEALED,
                                tenon_access access = TENON_ACCESS_AUTO) {
  tenon_storage* storage = nullptr;
  const Outcome outcome = try_open(handle, &storage, flags, access);
  CHECK_SAYING(outcome.ok(), outcome.text());
  REQUIRE(storage != nullptr);
  return storage;
}

// Also trims. An arena keeps a segment for reuse after its last storage, and a segment that was
// lent under a name keeps that name.
inline void let_go(tenon_storage* storage) {
  tenon_storage_release(storage);
  (void)tenon_storage_trim();
}

inline void put_pattern(tenon_storage* storage, uint64_t seed) {
  void* data = nullptr;
  REQUIRE_OK(tenon_storage_data_mut(storage, &data, err));
  const std::vector<unsigned char> bytes = fault::pattern(tenon_storage_nbytes(storage), seed);
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
}

inline bool shows_pattern(const tenon_storage* storage, uint64_t seed) {
  return fault::has_pattern(tenon_storage_data(storage), tenon_storage_nbytes(storage), seed);
}

inline tenon_sweep_result sweep(const std::string& directory, uint32_t flags = 0,
                                int64_t min_age_ns = 0) {
  auto options = tenon::test::sized<tenon_sweep_options>();
  options.flags = flags;
  options.directory = directory.c_str();
  options.min_age_ns = min_age_ns;
  auto result = tenon::test::sized<tenon_sweep_result>();
  REQUIRE_OK(tenon_filename_sweep(&options, &result, err));
  return result;
}

// Checks the code of an error, and that its detail "path" is `path`.
inline Outcome check_names(const Outcome& outcome, tenon_status status, const std::string& path,
                           const char* file, int line) {
  fault::check(outcome.status == status, "the status", file, line,
               std::string("wanted ") + tenon_status_name(status) + ", got " + outcome.text());
  fault::check(outcome.detail("path") == path, "the detail path", file, line,
               "wanted " + path + ", got " + outcome.text());
  return outcome;
}
#define CHECK_NAMES(status, path, outcome) \
  ::names::check_names((outcome), (status), (path), __FILE__, __LINE__)

// ---- files as other programs write them

struct Head {
  int32_t count = 0;
  uint32_t magic = 0;
  int32_t in_flight = 0;
  int32_t maker_pid = 0;
  uint64_t nbytes = 0;
  int64_t made_ns = 0;
  int64_t keep_until_ns = 0;
  uint64_t maker_pid_namespace = 0;
  uint8_t zero[16] = {};
};
static_assert(sizeof(Head) == 64);
inline constexpr uint32_t kMagic = 0x314e6e54;

// Opens the file only for reading. A watch of the directory would report an opening for writing.
inline Head head_of(const std::string& path) {
  Head head;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(read(fd, &head, sizeof head) == static_cast<ssize_t>(sizeof head));
  close(fd);
  return head;
}

// Returns the fd of the file. While the fd is open, no sweep takes the file for dead.
inline int plant_open(const std::string& path, const Head& head, uint64_t payload,
                      mode_t mode = 0600) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  REQUIRE(fd >= 0);
  REQUIRE(fchmod(fd, mode) == 0);
  REQUIRE(write(fd, &head, sizeof head) == static_cast<ssize_t>(sizeof head));
  REQUIRE(fallocate(fd, 0, 0, static_cast<off_t>(sizeof head + payload)) == 0);
  return fd;
}

inline void plant(const std::string& path, const Head& head, uint64_t payload, mode_t mode = 0600) {
  close(plant_open(path, head, payload, mode));
}

inline int64_t real_time_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace names
