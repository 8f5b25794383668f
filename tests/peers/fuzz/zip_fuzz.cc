// libFuzzer target: it opens and reads any bytes as an archive. This must end in an error that
// names the place, or in records that lie in the file, do not overlap, and are read within the
// limits.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "modules/archive/crc32.h"
#include "modules/archive/zip_reader.h"
#include "modules/archive/zip_writer.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::archive;

bool is_refusal(const Status& status) {
  switch (status.code()) {
    case Code::kCorrupt:
    case Code::kUnsupported:
    case Code::kIncompatible:
    case Code::kResourceExhausted: return !status.message().empty();
    default: return false;
  }
}

// Writes the records again, and reads the new archive.
void check_again(const ZipReader& reader, const std::vector<std::vector<std::byte>>& contents) {
  MemorySink sink;
  Result<ZipWriter> writer =
      ZipWriter::create(&sink, {.prefix = std::string(reader.prefix()), .alignment = 64});
  require(writer.is_ok(), "a prefix that was read cannot be written");
  size_t i = 0;
  for (const ZipRecord& record : reader.records()) {
    const Compression compression = record.deflated ? Compression::kDeflated : Compression::kStored;
    const Status added = writer.value().add(record.name, contents[i++], compression);
    require(added.is_ok(), "a record that was read cannot be written");
  }
  require(writer.value().finish().is_ok(), "the archive cannot be finished");
  if (reader.records().empty()) return;
  Result<Ref<ZipReader>> again = ZipReader::open(MemorySource::create(sink.bytes()), Check::kAll);
  require(again.is_ok(), "what was written is refused");
  require(again.value()->records().size() == contents.size(), "records got lost");
  for (size_t k = 0; k < contents.size(); ++k) {
    const ZipRecord& record = again.value()->records()[k];
    require(record.name == reader.records()[k].name, "a name changed");
    require(record.crc == crc32(0, contents[k].data(), contents[k].size()), "bytes changed");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const ZipLimits limits{.max_inflated_nbytes = uint64_t{1} << 20};
  Result<Ref<ZipReader>> opened =
      ZipReader::open(MemorySource::create(bytes), Check::kStructure, limits);
  if (!opened.is_ok()) {
    require(is_refusal(opened.status()), "refused with an unexpected code");
    return 0;
  }
  const ZipReader& reader = *opened.value();
  std::vector<std::vector<std::byte>> contents;
  uint64_t total = 0;
  bool all_good = true;
  for (const ZipRecord& record : reader.records()) {
    require(record.data_offset >= record.header_offset + 30 && record.data_offset <= size,
            "bytes that lie nowhere");
    require(record.stored_nbytes <= size - record.data_offset, "bytes beyond the end");
    require(reader.find(record.name) == &record, "a record is not found by its name");
    total += record.stored_nbytes;
    Result<std::vector<std::byte>> read = reader.read(record);
    require(read.is_ok() || is_refusal(read.status()), "read: an unexpected code");
    require(read.is_ok() == reader.verify(record).is_ok(), "read and verify disagree");
    if (read.is_ok()) {
      require(read.value().size() == record.nbytes, "not as many bytes as it has");
      contents.push_back(std::move(read.value()));
    }
    all_good = all_good && read.is_ok();
  }
  require(total <= size, "records that overlap");
  require(all_good == reader.verify_all().is_ok(), "verify_all disagrees");
  if (all_good) check_again(reader, contents);
  return 0;
}
