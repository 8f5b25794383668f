// Copy-in of 64 MiB and 1 GiB: fresh storages against the kernel's ways, warm ones against memcpy.
//
// Fresh SHARED and FROZEN: tenon_storage_new_from (which also seals, and maps) against memfd_create
// + ftruncate + pwrite in one call. Fresh LENDER_WRITES: the same against memfd_create + ftruncate
// + fallocate + mmap + memcpy. Warm: tenon_storage_write against memcpy, both into a memfd whose
// pages exist and are mapped. Freeing is outside the clock. The source is private memory, written
// before.

#include <fcntl.h>
#include <sys/mman.h>

#include "bench/bench.h"
#include "support/sized.h"

namespace {

using Bytes = std::vector<char>;

int new_memfd(uint64_t nbytes) {
  const int fd = memfd_create("bare", MFD_CLOEXEC);
  BENCH_CHECK(fd >= 0);
  BENCH_CHECK(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  return fd;
}

void* map(int fd, uint64_t nbytes) {
  void* bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  return bytes;
}

tenon_storage* new_from(tenon_mode mode, const Bytes& source) {
  auto options = tenon::test::sized<tenon_storage_options>();
  options.mode = mode;
  tenon_storage* storage = nullptr;
  BENCH_OK(tenon_storage_new_from(&options, source.data(), source.size(), &storage, &err));
  return storage;
}

// Measures the GB/s of two calls, in turn. Their results are freed outside the clock.
template <typename Ours, typename FreeOurs, typename Theirs, typename FreeTheirs>
void measure(bench::Row row, uint64_t nbytes, size_t rounds, const Ours& ours,
             const FreeOurs& free_ours, const Theirs& theirs, const FreeTheirs& free_theirs) {
  for (size_t round = 0; round <= rounds; ++round) {
    int64_t begin = bench::now_ns();
    auto mine = ours();
    const auto ours_ns = static_cast<double>(bench::now_ns() - begin);
    free_ours(mine);
    begin = bench::now_ns();
    auto bare = theirs();
    const auto theirs_ns = static_cast<double>(bench::now_ns() - begin);
    free_theirs(bare);
    if (round == 0) continue;  // warm-up
    row.ours.push_back(static_cast<double>(nbytes) / ours_ns);
    row.theirs.push_back(static_cast<double>(nbytes) / theirs_ns);
  }
  bench::print(row);
}

bench::Row row(const char* what, uint64_t nbytes, const char* against) {
  return {"copy in " + bench::size_text(nbytes) + ", " + what,
          "GB/s",
          against,
          {"ours/theirs", "at_least", 0.9},
          {},
          {}};
}

struct Mapped {
  int fd;
  void* bytes;
};

void run(uint64_t nbytes, size_t rounds) {
  const Bytes source(nbytes, 7);
  const auto release = [](tenon_storage* storage) { tenon_storage_release(storage); };
  for (const auto& [mode, name] :
       {std::pair<tenon_mode, const char*>{TENON_MODE_SHARED, "fresh SHARED"},
        {TENON_MODE_FROZEN, "fresh FROZEN"}}) {
    measure(
        row(name, nbytes, "memfd + pwrite"), nbytes, rounds,
        [&, mode = mode] { return new_from(mode, source); }, release,
        [&] {
          const int fd = new_memfd(nbytes);
          for (uint64_t done = 0; done < nbytes;) {
            const ssize_t now =
                pwrite(fd, source.data() + done, nbytes - done, static_cast<off_t>(done));
            BENCH_CHECK(now > 0);
            done += static_cast<uint64_t>(now);
          }
          return fd;
        },
        [](int fd) { close(fd); });
  }
  measure(
      row("fresh LENDER_WRITES", nbytes, "memfd + fallocate + mmap + memcpy"), nbytes, rounds,
      [&] { return new_from(TENON_MODE_LENDER_WRITES, source); }, release,
      [&] {
        const int fd = new_memfd(nbytes);
        BENCH_CHECK(fallocate(fd, 0, 0, static_cast<off_t>(nbytes)) == 0);
        void* bytes = map(fd, nbytes);
        std::memcpy(bytes, source.data(), nbytes);
        return Mapped{fd, bytes};
      },
      [&](const Mapped& mapped) {
        munmap(mapped.bytes, nbytes);
        close(mapped.fd);
      });

  tenon_storage* storage = new_from(TENON_MODE_SHARED, source);
  const int fd = new_memfd(nbytes);
  void* bytes = map(fd, nbytes);
  std::memset(bytes, 0, nbytes);
  measure(
      row("warm", nbytes, "memcpy"), nbytes, rounds,
      [&] {
        BENCH_OK(tenon_storage_write(storage, 0, source.data(), nbytes, &err));
        return 0;
      },
      [](int) {},
      [&] {
        std::memcpy(bytes, source.data(), nbytes);
        return 0;
      },
      [](int) {});
  tenon_storage_release(storage);
  munmap(bytes, nbytes);
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (bench::wants_smoke(argc, argv)) {
    run(uint64_t{16} << 20, 1);
    return 0;
  }
  run(uint64_t{64} << 20, 40);
  run(uint64_t{1} << 30, 7);
  return 0;
}
