// These tests find the places of a record's checksum, which a writer needs to change a record in
// place. They also read archives without a folder.
#include "modules/archive/zip_crc.h"

#include <cstring>

#include "modules/archive/crc32.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive::test {
namespace {

Bytes archive_of_two(size_t nbytes) {
  MemorySink sink;
  Result<ZipWriter> writer = ZipWriter::create(&sink);
  EXPECT_OK(writer.status());
  EXPECT_OK(writer.value().add("first", noise(nbytes, 1)));
  EXPECT_OK(writer.value().add("second", noise(nbytes, 2)));
  EXPECT_OK(writer.value().finish());
  return sink.take();
}

// The writer puts the checksum of a short record in front of the record, and that of a long one
// behind it.
TEST(ZipCrc, ChangesARecordWhereItLies) {
  for (const size_t nbytes : {size_t{100}, size_t{ZipWriter::kCrcAheadUpTo} + 1}) {
    Bytes bytes = archive_of_two(nbytes);
    Result<Ref<ZipReader>> opened = open_bytes(bytes);
    ASSERT_OK(opened.status());
    const ZipReader& reader = *opened.value();
    const ZipRecord& record = *reader.find("second");
    Result<std::vector<uint64_t>> places = find_crc_places(*reader.source(), record);
    ASSERT_OK(places.status());
    EXPECT_EQ(places.value().size(), 2u);
    bytes[record.data_offset] ^= std::byte{1};
    EXPECT_EQ(open_bytes(bytes, Check::kAll).status().code(), Code::kCorrupt);
    const uint32_t crc = crc32(0, bytes.data() + record.data_offset, record.nbytes);
    for (const uint64_t place : places.value()) std::memcpy(bytes.data() + place, &crc, sizeof crc);
    EXPECT_OK(open_bytes(bytes, Check::kAll).status());
  }
}

TEST(ZipCrc, TellsThatTheFileChanged) {
  Bytes bytes = archive_of_two(100);
  Result<Ref<ZipReader>> opened = open_bytes(bytes);
  ASSERT_OK(opened.status());
  const ZipRecord& record = opened.value()->records()[0];
  bytes[record.central_offset + 16] ^= std::byte{1};
  EXPECT_EQ(find_crc_places(OwnedBytes(bytes), record).status().code(), Code::kCorrupt);
}

// The archive has the same records, but its first file lies in no folder.
TEST(ZipCrc, ReadsAnArchiveWithoutAFolder) {
  Bytes bytes = archive_of_two(100);
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (std::memcmp(bytes.data() + i, "archive/", 8) == 0) bytes[i + 7] = std::byte{'_'};
  }
  EXPECT_EQ(open_bytes(bytes).status().code(), Code::kCorrupt);
  Result<Ref<ZipReader>> opened = ZipReader::open(Ref<ZipSource>::adopt(new OwnedBytes(bytes)),
                                                  Check::kAll, {}, Prefix::kOptional);
  ASSERT_OK(opened.status());
  EXPECT_EQ(opened.value()->prefix(), "");
  EXPECT_TRUE(opened.value()->has("archive_first"));
  EXPECT_EQ(opened.value()->records().size(), 2u);
}

}  // namespace
}  // namespace tenon::archive::test
