// How long the memory of a killed producer stays: with a peer alive, and with nobody alive until the next call of anyone.
//
// On a /dev/shm of its own, whose free space tells when the memory is back; from the SIGKILL on, so the kernel's own work for the dead is
// in the time. Without a peer the time is that of the next call, in a process that was never here before.

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <memory>

#include "bench/names.h"

namespace {

bool put_text(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return good;
}

bool has_own_shm() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid != 0 && !(put_text("/proc/self/setgroups", "deny") &&
                    put_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1") &&
                    put_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1"))) {
    return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=2g,mode=1777") == 0;
}

uint64_t used_blocks() {
  struct statvfs info{};
  BENCH_CHECK(statvfs("/dev/shm", &info) == 0);
  return info.f_blocks - info.f_bfree;
}

std::unique_ptr<bench::Holder> new_producer(uint64_t nbytes) {
  auto producer = std::make_unique<bench::Holder>([nbytes](int) { (void)bench::new_file(bench::name_options("/dev/shm"), nbytes, 1); });
  producer->wait();
  return producer;
}

void print_rows(const std::string& what, const std::vector<double>& samples) {
  bench::print({what, "ms", "", {"ours", "at_most", 100}, samples, {}});
  bench::print({what + ", the slowest of " + std::to_string(samples.size()),
                "ms",
                "",
                {"ours", "at_most", 100},
                {*std::max_element(samples.begin(), samples.end())},
                {}});
}

void run_with_peer(uint64_t nbytes, size_t rounds) {
  // It has been in the directory, holds a name there and does nothing.
  const auto peer = new_producer(64);
  const uint64_t before = used_blocks();
  std::vector<double> samples;
  for (size_t round = 0; round < rounds; ++round) {
    const auto producer = new_producer(nbytes);
    BENCH_CHECK(used_blocks() > before);
    const int64_t begin = bench::now_ns();
    ::kill(producer->pid(), SIGKILL);
    while (used_blocks() > before) {
      BENCH_CHECK(bench::now_ns() - begin < 10'000'000'000);
    }
    samples.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
  }
  print_rows("memory of a killed producer back, " + bench::size_text(nbytes) + ", a peer alive", samples);
}

void run_alone(uint64_t nbytes, size_t rounds) {
  // What the peer of before left, the first call takes along.
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
  print_rows("memory of a killed producer back, " + bench::size_text(nbytes) + ", by the next call", samples);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  if (!has_own_shm()) {
    std::printf("{\"left_out\": \"the time until a killed producer's memory is back: no mount namespace can be made here\"}\n");
    return 0;
  }
  run_with_peer(uint64_t{64} << 10, smoke ? 3 : 100);
  run_with_peer(uint64_t{256} << 20, smoke ? 1 : 100);
  run_alone(uint64_t{64} << 10, smoke ? 3 : 100);
  run_alone(uint64_t{256} << 20, smoke ? 1 : 20);
  return 0;
}
