// The kill storm of device memory. Each round starts processes that lend each other memory of the
// fake's devices, and kills most of them at random instructions. The survivors must see the right
// bytes and get back what they lent. When the last process has ended, nothing may be left.
//
// usage: cuda_storm [--seed S] [--kills N] [--seconds T] [--rounds R] [--break
// give-back-early|do-not-wait]
#include <sys/prctl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "process/cuda/storm/driver.h"
#include "process/fault/own_shm.h"
#include "support/temporary_directory.h"

namespace storm::device {
namespace {

struct Options {
  uint64_t seed = 0;
  uint64_t kills = 1000;
  double seconds = 3600;
  uint64_t rounds = UINT64_MAX;
  Break broken = Break::kNothing;
};

bool parse(int argc, char** argv, Options* options) {
  options->seed = mix(static_cast<uint64_t>(now_ns()) ^ static_cast<uint64_t>(getpid())) >> 32;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--seed") {
      options->seed = std::strtoull(value.c_str(), nullptr, 0);
    } else if (name == "--kills") {
      options->kills = std::strtoull(value.c_str(), nullptr, 0);
    } else if (name == "--seconds") {
      options->seconds = std::strtod(value.c_str(), nullptr);
    } else if (name == "--rounds") {
      options->rounds = std::strtoull(value.c_str(), nullptr, 0);
    } else if (name == "--break" && value == "give-back-early") {
      options->broken = Break::kGiveBackEarly;
    } else if (name == "--break" && value == "do-not-wait") {
      options->broken = Break::kDoNotWait;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

int run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  if (TENON_TEST_ASAN)
    std::printf(
        "nobody forks: AddressSanitizer's allocator has locks that a fork beside another thread "
        "can meet held\n");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const bool alone = fault::has_own_shm();
  if (!alone)
    std::printf("no /dev/shm of its own (%s): names count that say that they are of this storm\n",
                std::strerror(errno));
  const tenon::test::TemporaryDirectory world(tenon::test::temporary_place() +
                                              "/tenon-cuda-storm-");
  setenv("FAKE_CUDA_WORLD", world.path().c_str(), 1);
  Board* const board = Board::create();
  REQUIRE(board != nullptr);
  Storm storm(options.seed, board, world.path(), alone, options.broken);
  const int64_t begin = now_ns();
  const auto seconds = [begin] { return static_cast<double>(now_ns() - begin) / 1e9; };
  uint64_t round = 0;
  bool good = true;
  bool freed_early = false;
  try {
    while (round < options.rounds && storm.kills() < options.kills && seconds() < options.seconds)
      storm.run_round(++round);
  } catch (const std::exception& failure) {
    good = false;
    // An early give-back can show before any byte is read: the lender frees memory that the
    // receiver has open.
    freed_early =
        options.broken == Break::kGiveBackEarly &&
        std::string_view(failure.what()).find("is open elsewhere") != std::string_view::npos;
    std::printf("%s in round %llu of seed %llu: %s\n", board->wrong > 0 ? "WRONG BYTE" : "FAILED",
                static_cast<unsigned long long>(round),
                static_cast<unsigned long long>(options.seed), failure.what());
    storm.print_where();
    storm.kill_all();
  }
  std::printf("%llu kills in %llu rounds, %.1f s\n", static_cast<unsigned long long>(storm.kills()),
              static_cast<unsigned long long>(round), seconds());
  storm.print();
  if (options.broken != Break::kNothing) {
    const bool found = board->wrong > 0 || freed_early;
    std::printf("%s\n", found ? "found, as it had to be" : "nothing wrong was found");
    return found ? 0 : 1;
  }
  if (good && options.rounds == UINT64_MAX && storm.kills() < options.kills) {
    std::printf("FAILED: %.0f s are over, and %llu kills were wanted\n", options.seconds,
                static_cast<unsigned long long>(options.kills));
    good = false;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace storm::device

int main(int argc, char** argv) {
  storm::device::Options options;
  if (!storm::device::parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s [--seed S] [--kills N] [--seconds T] [--rounds R] [--break "
                 "give-back-early|do-not-wait]\n",
                 argv[0]);
    return 2;
  }
  return storm::device::run(options);
}
