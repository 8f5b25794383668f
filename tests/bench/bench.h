// The base of all C++ benchmarks: a clock, checks, two processes, and rows. A row is printed as one
// line of JSON with all its samples. bench.py computes medians, spread and ratio from them.
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/die_with_parent.h"

#define BENCH_CHECK(condition)                                                            \
  do {                                                                                    \
    if (!(condition)) ::bench::die(__FILE__, __LINE__, #condition, std::strerror(errno)); \
  } while (false)

// Checks a call that passes `err` as its error argument.
#define BENCH_OK(call)                                                                      \
  do {                                                                                      \
    tenon_error* err = nullptr;                                                             \
    if ((call) != TENON_OK)                                                                 \
      ::bench::die(__FILE__, __LINE__, #call, err ? tenon_error_message(err) : "no error"); \
  } while (false)

namespace bench {

[[noreturn]] inline void die(const char* file, int line, const char* what, const char* why) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
  std::_Exit(1);
}

inline int64_t now_ns() noexcept {
  struct timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// --smoke: a few rounds only, to check that the rows are printed.
inline bool wants_smoke(int argc, char** argv) {
  return argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
}

inline std::string size_text(uint64_t nbytes) {
  if (nbytes >= uint64_t{1} << 30) return std::to_string(nbytes >> 30) + " GiB";
  if (nbytes >= uint64_t{1} << 20) return std::to_string(nbytes >> 20) + " MiB";
  return std::to_string(nbytes >> 10) + " KiB";
}

// The bound that the median must keep. `of` names the quantity: "ours", "ours/theirs",
// "theirs/ours" or "ours-theirs".
struct Goal {
  const char* of = nullptr;     // null: no goal
  const char* bound = nullptr;  // "at_most" or "at_least"
  double value = 0;
};

struct Row {
  std::string measure;
  const char* unit;
  std::string against;  // empty: compared with nothing, and `theirs` stays empty
  Goal goal;
  std::vector<double> ours;
  std::vector<double> theirs;
};

inline void print_samples(const char* name, const std::vector<double>& samples) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < samples.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ", ", samples[i]);
  std::printf("]");
}

inline void print(const Row& row) {
  std::printf("{\"measure\": \"%s\", \"unit\": \"%s\", \"against\": \"%s\", \"goal\": ",
              row.measure.c_str(), row.unit, row.against.c_str());
  if (row.goal.of == nullptr) {
    std::printf("null");
  } else {
    std::printf("{\"of\": \"%s\", \"%s\": %g}", row.goal.of, row.goal.bound, row.goal.value);
  }
  print_samples("ours", row.ours);
  print_samples("theirs", row.theirs);
  std::printf("}\n");
  std::fflush(stdout);
}

// Runs A B A B ..., and times each run by itself. The first rounds only warm up.
inline void interleave(Row* row, size_t rounds, double ns_per_unit,
                       const std::function<void()>& ours, const std::function<void()>& theirs) {
  const size_t warm_up = rounds / 10 + 1;
  for (size_t round = 0; round < rounds + warm_up; ++round) {
    const int64_t begin = now_ns();
    ours();
    const int64_t middle = now_ns();
    theirs();
    const int64_t end = now_ns();
    if (round < warm_up) continue;
    row->ours.push_back(static_cast<double>(middle - begin) / ns_per_unit);
    row->theirs.push_back(static_cast<double>(end - middle) / ns_per_unit);
  }
}

inline size_t total_rounds(size_t rounds) { return rounds + rounds / 10 + 1; }

// The other process of a benchmark. It dies with this process, and its failure fails this process.
class Child {
 public:
  explicit Child(const std::function<void()>& run) {
    const pid_t parent = getpid();
    pid_ = fork();
    BENCH_CHECK(pid_ >= 0);
    if (pid_ != 0) return;
    tenon::test::die_with_parent(parent);
    run();
    std::_Exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    int status = 0;
    BENCH_CHECK(waitpid(pid_, &status, 0) == pid_);
    if (status != 0) die(__FILE__, __LINE__, "the other process", "failed");
  }

 private:
  pid_t pid_;
};

// Both ends of a socket, as tenon.pair() makes them: one for this process and one for the child.
struct Sockets {
  int here = -1;
  int there = -1;
  Sockets() {
    int ends[2];
    BENCH_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    here = ends[0];
    there = ends[1];
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  // Each process keeps only its own end, so that it notices the other's death.
  void keep_here() { close(std::exchange(there, -1)); }
  void keep_there() { close(std::exchange(here, -1)); }
  ~Sockets() {
    if (here >= 0) close(here);
    if (there >= 0) close(there);
  }
};

inline void put_byte(int socket) {
  const char byte = 1;
  BENCH_CHECK(send(socket, &byte, 1, MSG_NOSIGNAL) == 1);
}

inline void get_byte(int socket) {
  char byte = 0;
  BENCH_CHECK(recv(socket, &byte, 1, 0) == 1);
}

// Loads the byte. Its value does not matter.
inline void touch(const void* byte) { (void)*static_cast<const volatile unsigned char*>(byte); }

}  // namespace bench
