// Arenas: warm blocks allocated, freed and filled, against the bare primitives.
//
// Allocate + free: tenon_storage_new and the release of a block that the arena keeps warm. Copy-in
// warm: tenon_storage_new_from and the release, repeated in one block, against memcpy into mapped
// shared memory. Fresh: into an arena that has no pages yet, against pwrite into a memfd.

#include <fcntl.h>
#include <sys/mman.h>

#include "bench/bench.h"
#include "support/sized.h"

namespace {

using Bytes = std::vector<char>;

tenon_arena* new_arena(uint64_t capacity) {
  auto options = tenon::test::sized<tenon_arena_options>();
  options.capacity_nbytes = capacity;
  tenon_arena* arena = nullptr;
  BENCH_OK(tenon_arena_new(&options, &arena, &err));
  return arena;
}

tenon_storage_options in(tenon_arena* arena) {
  auto options = tenon::test::sized<tenon_storage_options>();
  options.arena = arena;
  return options;
}

void allocate_and_free(uint64_t nbytes, size_t rounds) {
  constexpr int kBatch = 1000;
  tenon_arena* arena = new_arena(uint64_t{64} << 20);
  const tenon_storage_options options = in(arena);
  bench::Row row{"allocate + free a warm block of " + std::to_string(nbytes) + " B",
                 "ns",
                 "",
                 {"ours", "at_most", 100},
                 {},
                 {}};
  for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
    const int64_t begin = bench::now_ns();
    for (int i = 0; i < kBatch; ++i) {
      tenon_storage* storage = nullptr;
      BENCH_OK(tenon_storage_new(&options, nbytes, &storage, &err));
      tenon_storage_release(storage);
    }
    if (round > rounds / 10)
      row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / kBatch);
  }
  tenon_arena_release(arena);
  bench::print(row);
}

void copy_in_warm(uint64_t nbytes, size_t rounds) {
  tenon_arena* arena = new_arena(uint64_t{1} << 30);
  // The source is allocated after the arena. Right before it, source and block would be exactly a
  // gigabyte apart, and loads and stores whose addresses agree in the low bits slow each other
  // down.
  const Bytes source(nbytes, 7);
  const tenon_storage_options options = in(arena);
  const int fd = memfd_create("bare", MFD_CLOEXEC);
  BENCH_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  void* const bytes = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BENCH_CHECK(bytes != MAP_FAILED);
  bench::Row row{"copy " + bench::size_text(nbytes) + " into a warm block",
                 "us",
                 "memcpy into mapped shared memory",
                 {"theirs/ours", "at_least", 0.9},
                 {},
                 {}};
  bench::interleave(
      &row, rounds, 1e3,
      [&] {
        tenon_storage* storage = nullptr;
        BENCH_OK(tenon_storage_new_from(&options, source.data(), nbytes, &storage, &err));
        tenon_storage_release(storage);
      },
      [&] { std::memcpy(bytes, source.data(), nbytes); });
  munmap(bytes, nbytes);
  close(fd);
  tenon_arena_release(arena);
  bench::print(row);
}

void copy_in_fresh(uint64_t nbytes, size_t rounds) {
  const Bytes source(nbytes, 7);
  bench::Row row{"copy " + bench::size_text(nbytes) + " into a fresh arena",
                 "ms",
                 "pwrite into a fresh memfd",
                 {"theirs/ours", "at_least", 0.9},
                 {},
                 {}};
  for (size_t round = 0; round < bench::total_rounds(rounds); ++round) {
    tenon_arena* arena = new_arena(0);
    const tenon_storage_options options = in(arena);
    const int fd = memfd_create("bare", MFD_CLOEXEC);
    BENCH_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
    tenon_storage* storage = nullptr;
    const int64_t begin = bench::now_ns();
    BENCH_OK(tenon_storage_new_from(&options, source.data(), nbytes, &storage, &err));
    const int64_t middle = bench::now_ns();
    for (uint64_t done = 0; done < nbytes;) {
      const ssize_t now = pwrite(fd, source.data() + done, nbytes - done, static_cast<off_t>(done));
      BENCH_CHECK(now > 0);
      done += static_cast<uint64_t>(now);
    }
    const int64_t end = bench::now_ns();
    tenon_storage_release(storage);
    tenon_arena_release(arena);
    close(fd);
    if (round <= rounds / 10) continue;
    row.ours.push_back(static_cast<double>(middle - begin) / 1e6);
    row.theirs.push_back(static_cast<double>(end - middle) / 1e6);
  }
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = bench::wants_smoke(argc, argv);
  for (const uint64_t nbytes : {64, 4096}) allocate_and_free(nbytes, smoke ? 3 : 300);
  for (const uint64_t nbytes : {uint64_t{1} << 20, uint64_t{16} << 20})
    copy_in_warm(nbytes, smoke ? 3 : 200);
  copy_in_fresh(uint64_t{64} << 20, smoke ? 1 : 30);
  return 0;
}
