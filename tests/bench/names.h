// Helpers of the benchmarks of names: a directory of their own, names in it, and processes that
// hold names.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <memory>

#include "bench/bench.h"
#include "support/sized.h"
#include "support/temporary_directory.h"

namespace bench {

// Prints a row without a goal.
inline void print_plain(const std::string& measure, const char* unit, const std::string& against,
                        const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::printf("{\"measure\": \"%s\", \"unit\": \"%s\", \"against\": \"%s\", \"goal\": null",
              measure.c_str(), unit, against.c_str());
  print_samples("ours", ours);
  print_samples("theirs", theirs);
  std::printf("}\n");
  std::fflush(stdout);
}
inline void print_plain(const Row& row) {
  print_plain(row.measure, row.unit, row.against, row.ours, row.theirs);
}

class Folder : public tenon::test::TemporaryDirectory {
 public:
  Folder() : TemporaryDirectory("/dev/shm/bench-") {}
  size_t count() const { return names().size(); }
  size_t clear() const {
    const std::set<std::string> all = names();
    for (const std::string& name : all) unlink((*this / name).c_str());
    return all.size();
  }
};

inline tenon_filename_options name_options(const std::string& directory) {
  auto options = tenon::test::sized<tenon_filename_options>();
  options.directory = directory.c_str();
  return options;
}

inline tenon_storage* new_file(const tenon_filename_options& options, uint64_t nbytes, int fill) {
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new_filename(&options, nbytes, &storage, &err));
  void* bytes = nullptr;
  BENCH_OK(tenon_storage_data_mut(storage, &bytes, &err));
  std::memset(bytes, fill, nbytes);
  return storage;
}

inline tenon_filename_handle share_name(tenon_storage* storage,
                                        const tenon_filename_options& options) {
  auto handle = tenon::test::sized<tenon_filename_handle>();
  BENCH_OK(tenon_share_filename(storage, &options, nullptr, &handle, &err));
  return handle;
}

inline tenon_storage* open_name(const tenon_filename_handle& handle) {
  auto options = tenon::test::sized<tenon_open_options>();
  options.flags = TENON_OPEN_ALLOW_UNSEALED;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_open_filename(&handle, &options, nullptr, &storage, &err));
  return storage;
}

inline void raise_fd_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A process that runs `run` and then waits to be killed. After `run` it sends one byte. `run` may
// send more before that.
class Holder {
 public:
  explicit Holder(const std::function<void(int)>& run) {
    int ends[2];
    BENCH_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    socket_ = ends[0];
    const pid_t parent = getpid();
    pid_ = fork();
    BENCH_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      tenon::test::die_with_parent(parent);
      run(ends[1]);
      put_byte(ends[1]);
      pause();
    }
    close(ends[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    kill();
    close(socket_);
  }
  int socket() const { return socket_; }
  void wait() const { get_byte(socket_); }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      BENCH_CHECK(waitpid(pid_, nullptr, 0) == pid_);
    }
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

template <typename T>
void put(int socket, const T& value) {
  BENCH_CHECK(send(socket, &value, sizeof value, MSG_NOSIGNAL) == sizeof value);
}
template <typename T>
T get(int socket) {
  T value{};
  BENCH_CHECK(recv(socket, &value, sizeof value, 0) == sizeof value);
  return value;
}

}  // namespace bench
