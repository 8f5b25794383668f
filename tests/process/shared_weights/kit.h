// Helpers for processes that share weights by a name: a file, a directory, and children that open
// the name, tell what they got, and keep it until they are told to leave.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <tenon/shared_weights.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "process/fault/kit.h"
#include "support/die_with_parent.h"
#include "support/temporary_directory.h"

namespace sharing {

using fault::Outcome;
using fault::wait_ns;

inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMillisecond;
// Only a failure takes that long.
inline constexpr int64_t kLong = (fault::kSanitized ? 60 : 20) * kSecond;

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * kSecond + now.tv_nsec;
}

// A safetensors file with one tensor of bytes, "a", in a directory on a disk, and a directory for
// the name "net" in /dev/shm.
class Scene {
 public:
  explicit Scene(uint64_t nbytes) : nbytes_(nbytes) {
    write_file(file(), 1);
    // Other users may look into the directories.
    REQUIRE(chmod(files_.path().c_str(), 0755) == 0);
    REQUIRE(chmod(names_.path().c_str(), 0755) == 0);
  }
  std::string file() const { return files_ / "net.safetensors"; }
  // A file with other bytes, for a version of the weights.
  std::string version_file(uint64_t seed) const {
    std::string path = files_ / ("net-" + std::to_string(seed) + ".safetensors");
    if (access(path.c_str(), F_OK) != 0) write_file(path, seed);
    return path;
  }
  std::set<std::string> names() const { return names_.names(); }
  size_t file_count() const { return names_.names().size(); }
  const std::string& directory() const { return names_.path(); }
  std::string socket() const { return names_ / "net.sock"; }
  uint64_t nbytes() const { return nbytes_; }
  // A process that was killed while it made a socket leaves the socket's temporary name, which a
  // loader removes after a minute.
  bool is_clean() const {
    return std::ranges::all_of(names_.names(),
                               [](const std::string& name) { return name.starts_with(".tenon-"); });
  }
  // Looks at every byte of a small tensor, and at parts of a large one.
  bool has(const void* data, uint64_t seed = 1) const {
    constexpr uint64_t kWhole = 200'000;
    const auto* const bytes = static_cast<const unsigned char*>(data);
    if (!fault::has_pattern(data, std::min(nbytes_, kWhole), seed)) return false;
    for (uint64_t i = kWhole; i < nbytes_; i += 1021)
      if (bytes[i] != fault::byte_at(seed, i)) return false;
    return nbytes_ == 0 || bytes[nbytes_ - 1] == fault::byte_at(seed, nbytes_ - 1);
  }
  void write_file(const std::string& path, uint64_t seed) const {
    const std::string size = std::to_string(nbytes_);
    const std::string header =
        R"({"a":{"dtype":"U8","shape":[)" + size + R"(],"data_offsets":[0,)" + size + "]}}";
    const uint64_t header_nbytes = header.size();
    const std::vector<unsigned char> bytes = fault::pattern(nbytes_, seed);
    std::FILE* const out = std::fopen(path.c_str(), "wb");
    REQUIRE(out != nullptr && std::fwrite(&header_nbytes, 8, 1, out) == 1);
    REQUIRE(std::fwrite(header.data(), header.size(), 1, out) == 1);
    REQUIRE(std::fwrite(bytes.data(), nbytes_, 1, out) == 1 && std::fclose(out) == 0);
  }

 private:
  uint64_t nbytes_;
  tenon::test::TemporaryDirectory files_{tenon::test::temporary_place() + "/tenon-weights-test-"};
  tenon::test::TemporaryDirectory names_{"/dev/shm/tenon-weights-test-"};
};

// Weights that this process has open.
class Opened {
 public:
  Opened() = default;
  Opened(Opened&& other) noexcept
      : outcome(std::move(other.outcome)), weights_(std::exchange(other.weights_, nullptr)) {}
  Opened& operator=(Opened&& other) noexcept {
    std::swap(outcome, other.outcome);
    std::swap(weights_, other.weights_);
    return *this;
  }
  ~Opened() { tenon_shared_weights_release(weights_); }

  tenon_shared_weights_info info() const {
    auto info = tenon::test::sized<tenon_shared_weights_info>();
    REQUIRE_OK(tenon_shared_weights_info_get(weights_, &info, err));
    return info;
  }
  // The bytes of the tensor. They stay as long as the weights.
  const void* data() const {
    tenon_value* value = nullptr;
    tenon_tensor* tensor = nullptr;
    REQUIRE_OK(tenon_shared_weights_tensor(weights_, "a", &value, err));
    REQUIRE_OK(tenon_value_get_tensor(value, &tensor, err));
    const void* const found = tenon_tensor_data(tensor);
    tenon_tensor_release(tensor);
    tenon_value_release(value);
    return found;
  }
  Outcome outcome;
  tenon_shared_weights* weights_ = nullptr;
};

struct How {
  const char* path = nullptr;
  int64_t timeout_ns = kLong;
  tenon_shared_weights_progress progress = nullptr;
  void* context = nullptr;
  uint32_t group = 0;  // 0: none
  const char* device = nullptr;
};

using OpenCall = tenon_status (*)(const char*, const char*, const tenon_shared_weights_options*,
                                  const tenon_wait*, tenon_shared_weights**, tenon_error**);

inline Opened open_weights(const Scene& scene, const How& how,
                           OpenCall call = &tenon_open_shared_weights) {
  auto options = tenon::test::sized<tenon_shared_weights_options>();
  options.directory = scene.directory().c_str();
  options.progress = how.progress;
  options.progress_context = how.context;
  options.group = how.group;
  options.device = how.device;
  options.flags = how.group != 0 ? uint32_t{TENON_SHARED_WEIGHTS_GROUP} : 0U;
  const tenon_wait wait = wait_ns(how.timeout_ns);
  Opened opened;
  opened.outcome = CALL(call(how.path, "net", &options, &wait, &opened.weights_, err));
  return opened;
}

// A build without JSON reads no safetensors file.
inline void skip_without_json(const Opened& opened) {
  if (opened.outcome.status == TENON_UNSUPPORTED &&
      opened.outcome.message.find("this build of Tenon") != std::string::npos)
    fault::skip(opened.outcome.message);
}

// Publishes a file as the next version.
inline Opened publish_file(const Scene& scene, const std::string& path,
                           int64_t timeout_ns = kLong) {
  return open_weights(scene, {.path = path.c_str(), .timeout_ns = timeout_ns},
                      &tenon_publish_shared_weights);
}

// Publishes the file of a seed, and must succeed.
inline Opened must_publish(const Scene& scene, uint64_t seed) {
  Opened published = publish_file(scene, scene.version_file(seed));
  skip_without_json(published);
  if (!CHECK_SAYING(published.outcome.ok(), published.outcome.text())) _exit(1);
  return published;
}

// Opens the newest version that a process has, and must succeed.
inline Opened must_attach(const Scene& scene) {
  Opened opened = open_weights(scene, {});
  if (!CHECK_SAYING(opened.outcome.ok(), opened.outcome.text())) _exit(1);
  return opened;
}

inline Outcome changed(const Opened& opened, int64_t timeout_ns, uint64_t* version) {
  const tenon_wait wait = wait_ns(timeout_ns);
  return CALL(tenon_shared_weights_changed(opened.weights_, &wait, version, err));
}

// Opens by the path of the file, and must succeed.
inline Opened must_open(const Scene& scene) {
  const std::string file = scene.file();
  Opened opened = open_weights(scene, {.path = file.c_str()});
  skip_without_json(opened);
  if (!CHECK_SAYING(opened.outcome.ok(), opened.outcome.text())) _exit(1);
  return opened;
}

// The inode of the memory at an address. Two processes with one copy of the weights have one inode.
inline uint64_t inode_at(const void* address) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  char line[512];
  uint64_t found = 0;
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long begin = 0;
    unsigned long long end = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line, "%llx-%llx %*s %*s %*s %llu", &begin, &end, &inode) != 3) continue;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at >= begin && at < end) found = inode;
  }
  std::fclose(maps);
  return found;
}

// What a child tells about its weights, in memory that parent and children share.
struct Report {
  std::atomic<uint64_t> inode;  // 0: it has no weights now
  std::atomic<uint64_t> turn;   // grows with each opening
  std::atomic<uint32_t> loads;  // how often it has loaded the file
  std::atomic<uint32_t> serves;
  std::atomic<int64_t> opened_at_ns;
  std::atomic<uint32_t> bad;
  std::atomic<uint32_t> go;  // set by the parent
};

template <typename Shared>
Shared* new_shared() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return new (memory) Shared();
}

// A child that opens the weights and keeps them until the parent sets `go`.
inline pid_t spawn_holder(const Scene& scene, Report* report, bool waits_for_go = false) {
  const pid_t parent = getpid();
  return fault::spawn([&] {
    tenon::test::die_with_parent(parent);
    while (waits_for_go && report->go.load() == 0) usleep(50);
    {
      const Opened opened = must_open(scene);
      const void* const data = opened.data();
      if (!scene.has(data)) report->bad.fetch_add(1);
      report->loads.fetch_add(opened.info().loaded);
      report->opened_at_ns.store(now_ns());
      report->inode.store(inode_at(data));
      while (report->go.load() < 2) {
        report->serves.store(opened.info().serves);
        usleep(500);
      }
      if (!scene.has(data)) report->bad.fetch_add(1);
    }
    REQUIRE(fault::g_failures == 0);
    _exit(0);
  });
}

// Stops a child, and returns when none of its threads runs.
inline void stop_now(pid_t child) {
  kill(child, SIGSTOP);
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
}

inline void kill_now(pid_t child) {
  kill(child, SIGKILL);
  fault::wait_for_child(child);
}

// Ends a child that spawn_holder() made.
inline void leave_now(pid_t child, Report* report) {
  report->go.store(2);
  CHECK_EQ(fault::wait_for_child(child), 0);
}

inline void await_weights(const Report& report) {
  REQUIRE(fault::wait_until([&] { return report.inode.load() != 0; }));
}

}  // namespace sharing
