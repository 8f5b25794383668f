// The kill storm of leases. Each round has lenders, borrowers, forwarders, their children and
// sometimes a hostile borrower. Most of them are killed at random instructions. Then the survivors
// report what is left, which must be nothing within a second.
//
// usage: lease_storm [--seed S] [--kills N] [--seconds T] [--rounds R] [--cycles]
// [--expect-wrong-byte]
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>

#include "process/fault/storm/driver.h"
#include "support/own_mounts.h"

namespace storm {
namespace {

// Gives the storm a /dev/shm and abstract sockets of its own, so that everything there belongs to
// this storm. Returns false if the kernel refuses.
bool move_into_namespaces() {
  return tenon::test::enter_namespaces(CLONE_NEWNS | CLONE_NEWNET) &&
         tenon::test::mount_own_tmpfs("/dev/shm", "mode=1777");
}

struct Options {
  uint64_t seed = 0;
  uint64_t kills = 1000;
  double seconds = 3600;
  uint64_t rounds = UINT64_MAX;
  bool cycles = false;
  bool expect_wrong_byte = false;
};

bool parse(int argc, char** argv, Options* options) {
  options->seed = mix(static_cast<uint64_t>(now_ns()) ^ static_cast<uint64_t>(getpid())) >> 32;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--expect-wrong-byte") {
      options->expect_wrong_byte = true;
      continue;
    }
    if (name == "--cycles") {
      options->cycles = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* const value = argv[++i];
    if (name == "--seed") {
      options->seed = std::strtoull(value, nullptr, 0);
    } else if (name == "--kills") {
      options->kills = std::strtoull(value, nullptr, 0);
    } else if (name == "--seconds") {
      options->seconds = std::strtod(value, nullptr);
    } else if (name == "--rounds") {
      options->rounds = std::strtoull(value, nullptr, 0);
    } else {
      return false;
    }
  }
  return true;
}

int run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  if (TENON_TEST_ASAN)
    std::printf(
        "no borrower forks: AddressSanitizer's allocator has locks that a fork beside another "
        "thread can meet held\n");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool alone = move_into_namespaces();
  if (!alone)
    std::printf("no namespaces of its own (%s): names and sockets are not counted\n",
                std::strerror(errno));
  Board* const board = Board::create();
  REQUIRE(board != nullptr);
  Storm storm(options.seed, board, alone, options.cycles);
  const int64_t begin = now_ns();
  const auto seconds = [begin] { return static_cast<double>(now_ns() - begin) / 1e9; };
  uint64_t round = 0;
  bool good = true;
  try {
    while (round < options.rounds && storm.kills() < options.kills && seconds() < options.seconds)
      storm.run_round(++round);
    storm.end();
  } catch (const std::exception& failure) {
    good = false;
    std::printf("%s in round %llu of seed %llu: %s\n", board->wrong > 0 ? "WRONG BYTE" : "FAILED",
                static_cast<unsigned long long>(round),
                static_cast<unsigned long long>(options.seed), failure.what());
    storm.print_where();
    storm.kill_all();
  }
  std::printf("%llu kills in %llu rounds, %.1f s\n", static_cast<unsigned long long>(storm.kills()),
              static_cast<unsigned long long>(round), seconds());
  storm.print();
  if (options.expect_wrong_byte) {
    std::printf("%s\n", board->wrong > 0 ? "found, as it had to be" : "no wrong byte was found");
    return board->wrong > 0 ? 0 : 1;
  }
  // Only processes that ended by SIGKILL count, as waitpid reports it.
  if (good && options.rounds == UINT64_MAX && storm.kills() < options.kills) {
    std::printf("FAILED: %.0f s are over, and %llu kills were wanted\n", options.seconds,
                static_cast<unsigned long long>(options.kills));
    good = false;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace storm

int main(int argc, char** argv) {
  storm::Options options;
  if (!storm::parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s [--seed S] [--kills N] [--seconds T] [--rounds R] [--cycles] "
                 "[--expect-wrong-byte]\n",
                 argv[0]);
    return 2;
  }
  return storm::run(options);
}
