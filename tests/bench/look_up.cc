// Look-up of a known segment, and of a known storage, from a key in hand.
//
// The process knows 500 segments. Each sample is the mean over one look-up of each, whose reference
// is released. No system call is made. Getting the key from an fd would need an fstat.

#include "base/counted.h"
#include "bench/bench.h"
#include "share/by_fd.h"
#include "share/cache.h"
#include "storage/storage.h"

namespace {

using tenon::Ref;
using tenon::storage::Storage;

void run(size_t rounds) {
  constexpr size_t kSegments = 500;
  std::vector<Ref<Storage>> storages;
  for (size_t i = 0; i < kSegments; ++i) {
    tenon::Result<Ref<Storage>> storage = Storage::create({.isolated = true}, 4096);
    BENCH_CHECK(storage.is_ok());
    // The lend makes the segment known.
    BENCH_CHECK(tenon::share::lend(storage.value(), tenon::share::Access::kAuto, false).is_ok());
    storages.push_back(std::move(storage).value());
  }
  bench::Row segment{
      "look-up of a known segment by its key", "ns", "", {"ours", "at_most", 100}, {}, {}};
  bench::Row range{
      "look-up of a known storage by its key", "ns", "", {"ours", "at_most", 100}, {}, {}};
  for (size_t round = 0; round <= rounds; ++round) {
    const int64_t begin = bench::now_ns();
    for (const Ref<Storage>& each : storages)
      BENCH_CHECK(tenon::share::find_segment(each->segment()->key()));
    const int64_t middle = bench::now_ns();
    for (const Ref<Storage>& each : storages)
      BENCH_CHECK(
          tenon::share::find_storage(each->segment().get(), each->offset(), each->nbytes()));
    const int64_t end = bench::now_ns();
    if (round == 0) continue;  // warm-up
    segment.ours.push_back(static_cast<double>(middle - begin) / kSegments);
    range.ours.push_back(static_cast<double>(end - middle) / kSegments);
  }
  bench::print(segment);
  bench::print(range);
}

}  // namespace

int main(int argc, char** argv) {
  run(bench::wants_smoke(argc, argv) ? 3 : 1000);
  return 0;
}
