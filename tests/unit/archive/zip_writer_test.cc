// These tests check the container that is written, byte by byte and with the reader.
#include "modules/archive/zip_writer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "modules/archive/crc32.h"
#include "modules/archive/zip_layout.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive {
namespace {

using namespace test;

struct Record {
  std::string name;
  Bytes bytes;
  Compression compression = Compression::kStored;
};

Bytes write_archive(const std::vector<Record>& records, const ZipWriterOptions& options = {}) {
  MemorySink sink;
  Result<ZipWriter> writer = ZipWriter::create(&sink, options);
  EXPECT_OK(writer.status());
  if (!writer.is_ok()) return {};
  for (const Record& record : records)
    EXPECT_OK(writer.value().add(record.name, record.bytes, record.compression));
  EXPECT_OK(writer.value().finish());
  EXPECT_EQ(writer.value().nbytes(), sink.bytes().size());
  return sink.take();
}

std::vector<Record> many_records() {
  const std::string code(5000, 'a');
  const auto code_bytes = view_of(code);
  return {
      {"data/0", noise(8)},
      {"data/1", {}},
      {"data/2", noise(1'000'000)},
      {"data/3", noise(ZipWriter::kCrcAheadUpTo)},
      {"data/4", noise(ZipWriter::kCrcAheadUpTo + 1)},
      {"data/5", noise(63)},
      {"code/__torch__.py", Bytes(code_bytes.begin(), code_bytes.end()), Compression::kDeflated},
      {"code/short.py", noise(200), Compression::kDeflated},
      {"code/noise.py", noise(1000), Compression::kDeflated},
      {"code/long_noise.py", noise(400'000), Compression::kDeflated},
      {"extra/ünïcode", noise(5)},
      {".data/version", noise(3)}};
}

TEST(ZipWriter, EveryByteOfASmallArchive) {
  const std::string text = "hello";
  const Bytes bytes = write_archive({{"v", Bytes(view_of(text).begin(), view_of(text).end())}},
                                    {.prefix = "m", .alignment = 64});
  std::string expected(
      "PK\3\4\x14\0\0\x08\0\0\0\0\0\0\x86\xa6\x10\x36\5\0\0\0\5\0\0\0\3\0\x1f\0m/vFB\x1b\0", 37);
  expected += std::string(27, 'Z') + "hello";
  expected += std::string(
      "PK\1\2\x14\0\x14\0\0\x08\0\0\0\0\0\0\x86\xa6\x10\x36\5\0\0\0\5\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0m/v",
      49);
  expected += std::string(
      "PK\6\6\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 40);
  expected += std::string("\x31\0\0\0\0\0\0\0\x45\0\0\0\0\0\0\0", 16);
  expected += std::string("PK\6\7\0\0\0\0\x76\0\0\0\0\0\0\0\1\0\0\0", 20);
  expected += std::string("PK\5\6\0\0\0\0\1\0\1\0\x31\0\0\0\x45\0\0\0\0\0", 22);
  ASSERT_EQ(bytes.size(), expected.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(bytes[i], static_cast<std::byte>(expected[i])) << "byte " << i;
}

TEST(ZipWriter, TheReaderGivesBackWhatWasAdded) {
  const std::vector<Record> records = many_records();
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{64}, uint64_t{4096}, uint64_t{32768}}) {
    const Bytes bytes = write_archive(records, {.prefix = "name", .alignment = alignment});
    Result<Ref<ZipReader>> opened = open_bytes(bytes, Check::kAll);
    ASSERT_OK(opened.status());
    const ZipReader& reader = *opened.value();
    EXPECT_EQ(reader.prefix(), "name");
    ASSERT_EQ(reader.records().size(), records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      const ZipRecord& record = reader.records()[i];
      EXPECT_EQ(record.name, records[i].name);
      EXPECT_EQ(record.data_offset % alignment, 0U) << record.name;
      EXPECT_EQ(record.crc, crc32(0, records[i].bytes.data(), records[i].bytes.size()));
      Result<Bytes> read = reader.read(record);
      ASSERT_OK(read.status());
      EXPECT_EQ(read.value(), records[i].bytes) << record.name;
      // The writer compresses a record only if that makes the record smaller.
      EXPECT_EQ(record.deflated, record.name == "code/__torch__.py");
      if (!record.deflated)
        EXPECT_EQ(Bytes(reader.view(record).begin(), reader.view(record).end()), records[i].bytes);
    }
  }
}

TEST(ZipWriter, RecordsInNoDirectory) {
  const std::vector<Record> records = many_records();
  const Bytes bytes = write_archive(records, {.has_prefix = false});
  Result<Ref<ZipReader>> opened =
      ZipReader::open(MemorySource::create(bytes), Check::kAll, {}, Prefix::kNone);
  ASSERT_OK(opened.status());
  ASSERT_EQ(opened.value()->records().size(), records.size());
  for (size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(opened.value()->records()[i].name, records[i].name);
  // It begins with the end record, as numpy.load expects of an archive without arrays.
  const Bytes empty = write_archive({}, {.has_prefix = false});
  EXPECT_EQ(empty.size(), 22U);
}

TEST(ZipWriter, SameRecordsGiveSameBytes) {
  EXPECT_EQ(write_archive(many_records()), write_archive(many_records()));
  EXPECT_NE(write_archive(many_records()), write_archive(many_records(), {.prefix = "other"}));
}

// The archive of a long record is the same, whether add() gets the record or append() gets it in
// pieces. A short record would have its checksum in another place.
TEST(ZipWriter, InPieces) {
  const Bytes bytes = noise(700'000);
  for (const size_t piece : {size_t{1000}, size_t{4096}, size_t{300'001}, bytes.size()}) {
    MemorySink sink;
    Result<ZipWriter> writer = ZipWriter::create(&sink);
    ASSERT_OK(writer.status());
    ASSERT_OK(writer.value().begin("data/0", bytes.size()));
    for (size_t at = 0; at < bytes.size(); at += piece)
      ASSERT_OK(
          writer.value().append(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))));
    ASSERT_OK(writer.value().end());
    ASSERT_OK(writer.value().begin("empty", 0));
    ASSERT_OK(writer.value().end());
    ASSERT_OK(writer.value().finish());
    EXPECT_EQ(sink.bytes(), write_archive({{"data/0", bytes}, {"empty", {}}}));
  }
}

TEST(ZipWriter, PiecesThatDoNotFit) {
  MemorySink sink;
  const Bytes bytes = noise(11);
  Result<ZipWriter> over = ZipWriter::create(&sink);
  ASSERT_OK(over.value().begin("a", 10));
  EXPECT_EQ(over.value().append(bytes).code(), Code::kInvalidArgument);
  // The header of the record is already written, so this archive is lost.
  EXPECT_EQ(over.value().append(std::span(bytes).first(10)).code(), Code::kInvalidArgument);
  EXPECT_EQ(over.value().end().code(), Code::kInvalidArgument);
  EXPECT_EQ(over.value().finish().code(), Code::kInvalidArgument);

  Result<ZipWriter> under = ZipWriter::create(&sink);
  ASSERT_OK(under.value().begin("a", 12));
  EXPECT_EQ(under.value().add("b", bytes).code(), Code::kInvalidArgument);
  EXPECT_EQ(under.value().finish().code(), Code::kInvalidArgument);
  ASSERT_OK(under.value().append(bytes));
  EXPECT_EQ(under.value().end().code(), Code::kInvalidArgument);
  EXPECT_EQ(under.value().add("b", bytes).code(), Code::kInvalidArgument);

  Result<ZipWriter> none = ZipWriter::create(&sink);
  EXPECT_EQ(none.value().append(bytes).code(), Code::kInvalidArgument);
  EXPECT_EQ(none.value().end().code(), Code::kInvalidArgument);
}

TEST(ZipWriter, NamesThatAreRefused) {
  MemorySink sink;
  Result<ZipWriter> created = ZipWriter::create(&sink);
  ZipWriter& writer = created.value();
  ASSERT_OK(writer.add_text("data.pkl", "1"));
  const std::string with_nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("/a"), std::string("a//b"), std::string("a/"), std::string("."),
        std::string(".."), std::string("a/../b"), std::string("a/./b"), std::string("a\\b"),
        std::string("a\nb"), std::string("a\x7f"), with_nul, std::string("a\xff"),
        std::string("\xc0\x80"), std::string(4097, 'a'), std::string(4090, 'a'),
        std::string("data.pkl")}) {
    const Status status = writer.add_text(name, "2");
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_EQ(status.detail("record"), name);
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    EXPECT_EQ(writer.begin(name, 5).code(), Code::kInvalidArgument) << name;
  }
  // A name that is refused does not spoil the archive.
  ASSERT_OK(writer.add_text("..a/b../...", "3"));
  ASSERT_OK(writer.finish());
  EXPECT_EQ(writer.add_text("b", "").code(), Code::kInvalidArgument);
  EXPECT_EQ(writer.finish().code(), Code::kInvalidArgument);
  const Result<Ref<ZipReader>> opened = open_bytes(sink.bytes(), Check::kAll);
  ASSERT_OK(opened.status());
}

TEST(ZipWriter, OptionsThatAreRefused) {
  MemorySink sink;
  for (const char* prefix : {"", "a/b", "..", ".", "a\\b", "a\tb", "\xff"})
    EXPECT_EQ(ZipWriter::create(&sink, {.prefix = prefix, .alignment = 64}).status().code(),
              Code::kInvalidArgument)
        << prefix;
  for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{65536}, UINT64_MAX})
    EXPECT_EQ(ZipWriter::create(&sink, {.prefix = "a", .alignment = alignment}).status().code(),
              Code::kInvalidArgument)
        << alignment;
}

TEST(ZipWriter, NameOfAnArchive) {
  EXPECT_EQ(archive_name_of("a.b.c.pt"), "a.b.c");
  EXPECT_EQ(archive_name_of("/x.y/model.pt"), "model");
  EXPECT_EQ(archive_name_of("model"), "model");
  EXPECT_EQ(archive_name_of("C:\\models\\model.pt"), "model");
  EXPECT_EQ(archive_name_of(".pt"), "archive");
  EXPECT_EQ(archive_name_of("/a/b/"), "archive");
  EXPECT_EQ(archive_name_of("..pt"), "archive");
  EXPECT_EQ(archive_name_of("a\nb.pt"), "archive");
  EXPECT_EQ(archive_name_of("名.pt"), "名");
}

// A sink that takes `room` bytes and then fails.
class SmallSink : public Sink {
 public:
  explicit SmallSink(uint64_t room) : room_(room) {}
  Status write(std::span<const std::byte> bytes) override {
    EXPECT_FALSE(failed_) << "written to after a failure";
    failed_ = bytes.size() > room_;
    if (failed_) return Status(Code::kResourceExhausted, "no room");
    room_ -= bytes.size();
    ++calls_;
    return Status::ok();
  }
  bool failed_ = false;
  size_t calls_ = 0;

 private:
  uint64_t room_;
};

TEST(ZipWriter, ASinkThatFails) {
  const std::vector<Record> records = many_records();
  const uint64_t whole = write_archive(records).size();
  for (uint64_t room = 0; room < whole; room += whole / 97) {
    SmallSink sink(room);
    Result<ZipWriter> writer = ZipWriter::create(&sink);
    Status status;
    for (const Record& record : records) {
      const Status added = writer.value().add(record.name, record.bytes, record.compression);
      if (status.is_ok()) {
        status = added;
      } else {
        EXPECT_EQ(added.code(), status.code());
      }
    }
    EXPECT_EQ(writer.value().finish().code(), Code::kResourceExhausted) << room;
    EXPECT_TRUE(sink.failed_);
  }
}

// Each call of a sink is expensive: it is a system call, or a call into another language. So the
// writer collects small pieces.
TEST(ZipWriter, FewCalls) {
  SmallSink sink(UINT64_MAX);
  Result<ZipWriter> writer = ZipWriter::create(&sink);
  for (int i = 0; i < 1000; ++i)
    ASSERT_OK(writer.value().add("data/" + std::to_string(i), noise(64)));
  ASSERT_OK(writer.value().finish());
  EXPECT_LE(sink.calls_, writer.value().nbytes() / 60'000 + 1);
}

TEST(ZipWriter, BytesOfAMappedFileThatWasCutShort) {
  const int fd = memfd_create("cut", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  constexpr uint64_t kNbytes = 600'000;
  ASSERT_EQ(ftruncate(fd, kNbytes), 0);
  void* mapped = mmap(nullptr, kNbytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(mapped), kNbytes);
  MemorySink whole;
  Result<ZipWriter> good = ZipWriter::create(&whole);
  ASSERT_OK(good.value().add("large", bytes, Compression::kStored, SourceKind::kMappedFile));
  ASSERT_OK(
      good.value().add("small", bytes.first(1000), Compression::kStored, SourceKind::kMappedFile));
  ASSERT_OK(good.value().add("deflated", bytes, Compression::kDeflated, SourceKind::kMappedFile));
  ASSERT_OK(good.value().finish());
  const Result<Ref<ZipReader>> opened = open_bytes(whole.bytes(), Check::kAll);
  ASSERT_OK(opened.status());
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  for (const uint64_t nbytes : {kNbytes, uint64_t{10'000}}) {
    for (const Compression compression : {Compression::kStored, Compression::kDeflated}) {
      MemorySink sink;
      Result<ZipWriter> writer = ZipWriter::create(&sink);
      EXPECT_EQ(writer.value()
                    .add("cut", bytes.first(nbytes), compression, SourceKind::kMappedFile)
                    .code(),
                Code::kCorrupt);
      EXPECT_EQ(writer.value().finish().code(), Code::kCorrupt);
    }
  }
  munmap(mapped, kNbytes);
  close(fd);
}

// A sink that counts all bytes, and keeps only those of short calls.
class HugeSink : public Sink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    if (bytes.size() < 100'000) small_.insert(small_.end(), bytes.begin(), bytes.end());
    nbytes_ += bytes.size();
    return Status::ok();
  }
  uint64_t nbytes_ = 0;
  Bytes small_;
};

TEST(ZipWriter, RecordsOfFourGiB) {
  constexpr uint64_t kHuge = (uint64_t{1} << 32) + 5;
  const Bytes piece(uint64_t{16} << 20);
  HugeSink sink;
  Result<ZipWriter> created = ZipWriter::create(&sink);
  ZipWriter& writer = created.value();
  ASSERT_OK(writer.begin("data/0", kHuge));
  for (uint64_t left = kHuge; left > 0;) {
    const uint64_t now = std::min<uint64_t>(left, piece.size());
    ASSERT_OK(writer.append(std::span(piece).first(now)));
    left -= now;
  }
  ASSERT_OK(writer.end());
  ASSERT_OK(writer.add("data/1", noise(8)));
  ASSERT_OK(writer.finish());
  EXPECT_EQ(sink.nbytes_, writer.nbytes());
  // The file holds the complete archive for the reader. The large record is a hole in the file.
  const int fd = memfd_create("huge", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(sink.nbytes_)), 0);
  constexpr uint64_t kHeader = 128;  // with its padding, and 64 more bytes for the zip64 field
  const uint64_t tail = sink.small_.size() - kHeader;
  ASSERT_EQ(pwrite(fd, sink.small_.data(), kHeader, 0), static_cast<ssize_t>(kHeader));
  ASSERT_EQ(pwrite(fd, sink.small_.data() + kHeader, tail, static_cast<off_t>(sink.nbytes_ - tail)),
            static_cast<ssize_t>(tail));
  void* mapped = mmap(nullptr, sink.nbytes_, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  {
    const std::span<const std::byte> all(static_cast<const std::byte*>(mapped), sink.nbytes_);
    Result<Ref<ZipReader>> opened = ZipReader::open(MemorySource::create(all));
    ASSERT_OK(opened.status());
    const ZipReader& reader = *opened.value();
    EXPECT_EQ(reader.records()[0].nbytes, kHuge);
    EXPECT_EQ(reader.records()[0].data_offset, kHeader);
    EXPECT_GT(reader.records()[1].header_offset, uint64_t{1} << 32);
    EXPECT_OK(reader.verify(reader.records()[1]));
    const Result<Bytes> refused = reader.read(reader.records()[0]);
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
    EXPECT_EQ(refused.status().detail("limit"), "max_read_nbytes");
  }
  munmap(mapped, sink.nbytes_);
  close(fd);
}

TEST(ZipWriter, ManyRecords) {
  constexpr size_t kCount = 70'000;  // more than the short end record can count
  MemorySink sink;
  Result<ZipWriter> writer = ZipWriter::create(&sink, {.prefix = "m", .alignment = 1});
  for (size_t i = 0; i < kCount; ++i) ASSERT_OK(writer.value().add_text(std::to_string(i), "x"));
  ASSERT_OK(writer.value().finish());
  EXPECT_EQ(writer.value().record_count(), kCount);
  Result<Ref<ZipReader>> opened = open_bytes(sink.bytes());
  ASSERT_OK(opened.status());
  EXPECT_EQ(opened.value()->records().size(), kCount);
  EXPECT_EQ(read_or_error(*opened.value(), "69999"), "x");
  EXPECT_FALSE(opened.value()->has("70000"));
}

}  // namespace
}  // namespace tenon::archive
