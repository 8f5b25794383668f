// The container of an archive: 512 MiB in 100 records against pwrite; opening 1,000 records.
//
// Both write the same bytes to a new file in the same directory (TMPDIR, or /tmp), which is removed
// before the next one. Nothing is made durable. The writer also makes checksums, headers, a
// directory and the name. The opening verifies the checksums of the level `structure`.

#include "bench/bench.h"
#include "bench/files.h"
#include "modules/archive/file_mapping.h"
#include "modules/archive/file_output.h"
#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_writer.h"

namespace {

using namespace tenon::archive;
using Bytes = std::vector<std::byte>;

void write_archive(const std::string& path, const Bytes& bytes, size_t records) {
  auto output = FileOutput::create(path);
  BENCH_CHECK(output.is_ok());
  auto writer = ZipWriter::create(&output.value());
  BENCH_CHECK(writer.is_ok());
  const size_t each = bytes.size() / records;
  for (size_t i = 0; i < records; ++i) {
    BENCH_CHECK(writer.value()
                    .add("data/" + std::to_string(i), std::span(bytes).subspan(i * each, each))
                    .is_ok());
  }
  BENCH_CHECK(writer.value().finish().is_ok());
  BENCH_CHECK(output.value().commit(Durability::kNone).is_ok());
}

constexpr size_t kRecords = 100;

void measure_writing(uint64_t nbytes, size_t rounds) {
  const Bytes bytes(nbytes, std::byte{7});
  const std::string path = bench::file_path();
  bench::Row row{"write an archive of " + bench::size_text(nbytes),
                 "GB/s",
                 "pwrite",
                 {"ours/theirs", "at_least", 0.9},
                 {},
                 {}};
  for (size_t round = 0; round <= rounds; ++round) {
    bench::settle_files();
    const int64_t begin = bench::now_ns();
    write_archive(path, bytes, kRecords);
    const auto ours_ns = static_cast<double>(bench::now_ns() - begin);
    unlink(path.c_str());
    bench::settle_files();
    const auto theirs_ns =
        static_cast<double>(bench::pwrite_ns(bytes.data(), nbytes, kRecords, false));
    if (round == 0) continue;  // warm-up
    row.ours.push_back(static_cast<double>(nbytes) / ours_ns);
    row.theirs.push_back(static_cast<double>(nbytes) / theirs_ns);
  }
  bench::print(row);
}

void measure_opening(uint64_t nbytes, size_t records, size_t rounds) {
  const std::string path = bench::file_path();
  write_archive(path, Bytes(nbytes, std::byte{7}), records);
  const std::string what = "open an archive of " + bench::size_text(nbytes) + ", " +
                           std::to_string(records) + " records";
  bench::Row row{what, "ms", "", {"ours", "at_most", 1}, {}, {}};
  for (size_t round = 0; round <= rounds; ++round) {
    const int64_t begin = bench::now_ns();
    {
      auto source = FileMapping::open(path);
      BENCH_CHECK(source.is_ok());
      auto reader = ZipReader::open(std::move(source.value()));
      BENCH_CHECK(reader.is_ok() && reader.value()->records().size() == records);
    }
    if (round > 0) row.ours.push_back(static_cast<double>(bench::now_ns() - begin) / 1e6);
  }
  unlink(path.c_str());
  bench::print(row);
}

}  // namespace

int main(int argc, char** argv) {
  if (bench::wants_smoke(argc, argv)) {
    measure_writing(uint64_t{1} << 20, 1);
    measure_opening(uint64_t{1} << 20, 10, 1);
    return 0;
  }
  measure_writing(uint64_t{512} << 20, 9);
  measure_opening(uint64_t{512} << 20, 1000, 50);
  return 0;
}
