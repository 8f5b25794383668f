// How long the memory of a killed producer stays, with a peer alive and with no process alive.
//
// Without a peer the memory stays until the next call of any process. The benchmark has a /dev/shm
// of its own, whose free space shows when the memory is back. The time runs from the SIGKILL, so it
// includes the kernel's own work for the dead process. Without a peer it is the time of the next
// call, in a new process.

#include <sys/statvfs.h>

#include <memory>

#include "bench/names.h"
#include "process/fault/own_shm.h"

namespace {

uint64_t used_blocks() {
  struct statvfs info{};
  BENCH_CHECK(statvfs("/dev/shm", &info) == 0);
  return info.f_blocks - info.f_bfree;
}

std::unique_ptr<bench::Holder> new_producer(uint64_t nbytes) {
  auto producer = std::make_unique<bench::Holder>(
      [nbytes](int) { (void)bench::new_file(bench::name_options("/dev/shm"), nbytes, 1); });
  producer->wait();
  return producer;
}

void print_rows(const std::string& what, const std::vector<double>& samples,
                const std::vector<double>& theirs) {
  bench::print({what,
                "ms",
                theirs.empty() ? "" : "the same without a name",
                {"ours", "at_most", 100},
                samples,
                theirs});
  bench::print({what + ", the slowest of " + std::to_string(samples.size()),
                "ms",
                "",
                {"ours", "at_most", 100},
                {*std::max_element(samples.begin(), samples.end())},
                {}});
}

// Memory that ends with its process, without a name. It shows the time that the kernel itself
// needs.
std::unique_ptr<bench::Holder> new_nameless(uint64_t nbytes) {
  auto holder = std::make_unique<bench::Holder>([nbytes](int) {
    const int fd = open("/dev/shm", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    BENCH_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes)) == 0 &&
                fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
    void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    BENCH_CHECK(bytes != MAP_FAILED);
    close(fd);
    std::memset(bytes, 1, nbytes);
  });
  holder->wait();
  return holder;
}

double kill_and_wait(const bench::Holder& holder, uint64_t before) {
  BENCH_CHECK(used_blocks() > before);
  const int64_t begin = bench::now_ns();
  ::kill(holder.pid(), SIGKILL);
  while (used_blocks() > before) {
    BENCH_CHECK(bench::now_ns() - begin < 10'000'000'000);
  }
  return static_cast<double>(bench::now_ns() - begin) / 1e6;
}

void run_with_peer(uint64_t nbytes, size_t rounds) {
  // The peer has used the directory, holds a name there, and is idle.
  const auto peer = new_producer(64);
  const uint64_t before = used_blocks();
  std::vector<double> samples;
  std::vector<double> bare;
  for (size_t round = 0; round < rounds; ++round) {
    samples.push_back(kill_and_wait(*new_producer(nbytes), before));
    bare.push_back(kill_and_wait(*new_nameless(nbytes), before));
  }
  print_rows("memory of a killed producer back, " + bench::size_text(nbytes) + ", a peer alive",
             samples, bare);
}

void run_alone(uint64_t nbytes, size_t rounds) {
  // The first call also removes what the earlier peer left.
  const uint64_t before = used_blocks();
  std::vector<double> samples;
  for (size_t round = 0; round < rounds; ++round) {
    new_producer(nbytes)->kill();
    BENCH_CHECK(used_blocks() > before);
    bench::Holder caller([](int socket) {
      const int64_t begin = bench::now_ns();
      tenon_storage_release(bench::new_file(bench::name_options("/dev/shm"), 64, 1));
      bench::put(socket, static_cast<double>(bench::now_ns() - begin) / 1e6);
    });
    samples.push_back(bench::get<double>(caller.socket()));
    BENCH_CHECK(used_blocks() <= before);
  }
  print_rows("memory of a killed producer back, " + bench::size_text(nbytes) + ", by the next call",
             samples, {});
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  if (!fault::has_own_shm("size=2g,mode=1777")) {
    std::printf(
        "{\"left_out\": \"the time until a killed producer's memory is back: no mount namespace "
        "can be made here\"}\n");
    return 0;
  }
  run_with_peer(uint64_t{64} << 10, smoke ? 3 : 100);
  run_with_peer(uint64_t{256} << 20, smoke ? 1 : 100);
  run_alone(uint64_t{64} << 10, smoke ? 3 : 100);
  run_alone(uint64_t{256} << 20, smoke ? 1 : 20);
  return 0;
}
