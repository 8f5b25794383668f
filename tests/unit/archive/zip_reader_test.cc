// These tests read records: checksums, compressed bytes that are wrong, and files that change while
// they are read.
#include "modules/archive/zip_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/archive/file_mapping.h"
#include "unit/archive/raw_zip.h"

namespace tenon::archive {
namespace {

using namespace test;

std::string deflate(const std::string& text) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string packed(libdeflate_deflate_compress_bound(compressor, text.size()), '\0');
  packed.resize(libdeflate_deflate_compress(compressor, text.data(), text.size(), packed.data(),
                                            packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

RawEntry deflated_entry(const std::string& text) {
  RawEntry entry{.name = "m/text", .data = deflate(text)};
  entry.method = 8;
  entry.nbytes = static_cast<uint32_t>(text.size());
  entry.crc = crc32(0, text.data(), text.size());
  return entry;
}

void expect_corrupt(const RawZip& zip, const std::string& record, const char* message) {
  const Bytes bytes = zip.bytes();
  Result<Ref<ZipReader>> opened = open_bytes(bytes);
  ASSERT_OK(opened.status());
  const ZipReader& reader = *opened.value();
  const ZipRecord* found = reader.find(record);
  ASSERT_NE(found, nullptr);
  Bytes into(found->nbytes);
  for (const Status& status : {reader.read(*found).status(), reader.read_text(*found).status(),
                               reader.read_into(*found, into.data()), reader.verify(*found),
                               reader.verify_all(), open_bytes(bytes, Check::kAll).status()}) {
    EXPECT_EQ(status.code(), Code::kCorrupt) << text_of(status);
    EXPECT_NE(status.message().find(message), std::string::npos) << text_of(status);
    EXPECT_EQ(status.detail("record"), record);
    EXPECT_EQ(status.detail("offset"), std::to_string(found->data_offset));
  }
}

TEST(ZipReader, AByteThatChanged) {
  RawZip zip{.entries = {{.name = "m/a", .data = "abc"}}};
  zip.entries[0].crc = crc32(0, "abd", 3);
  expect_corrupt(zip, "a", "CRC-32");
}

TEST(ZipReader, CompressedBytesThatLie) {
  const std::string text(100'000, 'x');
  RawZip zip{.entries = {deflated_entry(text)}};
  {
    const Bytes bytes = zip.bytes();
    Result<Ref<ZipReader>> opened = open_bytes(bytes, Check::kAll);
    ASSERT_OK(opened.status());
    EXPECT_EQ(read_or_error(*opened.value(), "text"), text);
    EXPECT_TRUE(opened.value()->view(*opened.value()->find("text")).empty());
  }
  RawZip more = zip;
  more.entries[0].nbytes = static_cast<uint32_t>(text.size() - 1);
  expect_corrupt(more, "text", "more bytes");
  RawZip fewer = zip;
  fewer.entries[0].nbytes = static_cast<uint32_t>(text.size() + 1);
  expect_corrupt(fewer, "text", "fewer bytes");
  RawZip behind = zip;
  behind.entries[0].data += "x";
  expect_corrupt(behind, "text", "behind");
  RawZip broken = zip;
  broken.entries[0].data[0] = '\7';  // this kind of block does not exist
  expect_corrupt(broken, "text", "broken");
  RawZip other = zip;
  other.entries[0].crc = 1;
  expect_corrupt(other, "text", "CRC-32");
}

// An archive whose ratio of compression deflate cannot reach is refused when it is opened
// (zip_hostile_test.cc). The limits of this test bound what deflate can reach.
TEST(ZipReader, ABomb) {
  const std::string text(uint64_t{64} << 20, '\0');
  const Bytes bytes = RawZip{.entries = {deflated_entry(text)}}.bytes();
  EXPECT_LT(bytes.size(), 70'000U);
  EXPECT_OK(open_bytes(bytes).status());
  const Status status =
      open_bytes(bytes, Check::kStructure, {.max_inflated_nbytes = uint64_t{32} << 20}).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "max_inflated_nbytes");
  Result<Ref<ZipReader>> opened = open_bytes(bytes, Check::kStructure, {.max_read_nbytes = 1000});
  ASSERT_OK(opened.status());
  const Status refused = opened.value()->read_text(opened.value()->records()[0]).status();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.detail("limit"), "max_read_nbytes");
}

TEST(ZipReader, WithoutAChecksum) {
  RawZip zip{.entries = {{.name = "m/a", .data = "abc"},
                         {.name = "m/b"},
                         deflated_entry("text text text text")}};
  zip.entries[0].crc = 0;
  zip.entries[2].crc = 0;
  const Bytes bytes = zip.bytes();
  Result<Ref<ZipReader>> opened = open_bytes(bytes, Check::kAll);
  ASSERT_OK(opened.status());
  const ZipReader& reader = *opened.value();
  EXPECT_EQ(read_or_error(reader, "a"), "abc");
  EXPECT_EQ(read_or_error(reader, "text"), "text text text text");
  EXPECT_EQ(reader.oddities().without_crc, 2U);
  EXPECT_EQ(reader.oddities().first_without_crc, "a");
  EXPECT_TRUE(reader.find("b")->has_crc());
}

TEST(ZipReader, OnlyThePrefixHasRecords) {
  const Bytes bytes = RawZip{.entries = {{.name = "m/"},
                                         {.name = "m/z", .data = "1"},
                                         {.name = "mm/y", .data = "2"},
                                         {.name = "m"},
                                         {.name = "n/a", .data = "3"},
                                         {.name = "m/a/b", .data = "4"},
                                         {.name = "m/a/", .data = ""}}}
                          .bytes();
  Result<Ref<ZipReader>> opened = open_bytes(bytes);
  ASSERT_OK(opened.status());
  const ZipReader& reader = *opened.value();
  EXPECT_EQ(reader.prefix(), "m");
  ASSERT_EQ(reader.records().size(), 2U);
  EXPECT_EQ(reader.records()[0].name, "z");
  EXPECT_TRUE(reader.has("a/b"));
  for (const char* name : {"", "y", "m/z", "a", "a/", "a/b/", "b", "zz", "\xff"})
    EXPECT_FALSE(reader.has(name)) << name;
  EXPECT_EQ(reader.oddities().outside_prefix, 3U);
  EXPECT_EQ(reader.oddities().first_outside_prefix, "mm/y");
  EXPECT_EQ(reader.oddities().folders, 2U);
}

class MappedFile : public ::testing::Test {
 protected:
  // Writes an archive with one record of `nbytes` bytes.
  std::string write(uint64_t nbytes) {
    MemorySink sink;
    Result<ZipWriter> writer = ZipWriter::create(&sink);
    EXPECT_OK(writer.value().add("data/0", noise(nbytes)));
    EXPECT_OK(writer.value().finish());
    std::string path = folder_ / "a.pt";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(sink.bytes().data()),
               static_cast<std::streamsize>(sink.bytes().size()));
    return path;
  }
  Folder folder_;
};

TEST_F(MappedFile, OpenedByPathAndByFd) {
  const std::string path = write(1'000'000);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  Result<Ref<ZipSource>> by_path = FileMapping::open(path);
  Result<Ref<ZipSource>> by_fd = FileMapping::open(fd);
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0);
  close(fd);
  for (Result<Ref<ZipSource>>* source : {&by_path, &by_fd}) {
    ASSERT_OK(source->status());
    Result<Ref<ZipReader>> opened = ZipReader::open(std::move(source->value()), Check::kAll);
    ASSERT_OK(opened.status());
    const ZipRecord& record = opened.value()->records()[0];
    const auto view = opened.value()->view(record);
    EXPECT_EQ(Bytes(view.begin(), view.end()), noise(1'000'000));
    Result<Bytes> read = opened.value()->read(record);
    ASSERT_OK(read.status());
    EXPECT_EQ(read.value(), noise(1'000'000));
  }
}

TEST_F(MappedFile, WhatIsNoFile) {
  EXPECT_EQ(FileMapping::open(folder_ / "none").status().code(), Code::kNotFound);
  EXPECT_EQ(FileMapping::open(folder_.path()).status().code(), Code::kInvalidArgument);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(FileMapping::open(folder_ / "fifo").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FileMapping::open(-1).status().code(), Code::kInvalidArgument);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(FileMapping::open(ends[0]).status().code(), Code::kInvalidArgument);
  close(ends[0]);
  close(ends[1]);
  const int write_only = open((folder_ / "new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(FileMapping::open(write_only).status().code(), Code::kInvalidArgument);
  close(write_only);
  Result<Ref<ZipSource>> empty = FileMapping::open(folder_ / "new");
  ASSERT_OK(empty.status());
  EXPECT_EQ(ZipReader::open(std::move(empty.value())).status().code(), Code::kCorrupt);
}

TEST_F(MappedFile, CutShortUnderTheReader) {
  const std::string path = write(1'000'000);
  Result<Ref<ZipSource>> source = FileMapping::open(path);
  ASSERT_OK(source.status());
  Result<Ref<ZipReader>> opened = ZipReader::open(source.value());
  ASSERT_OK(opened.status());
  const ZipRecord& record = opened.value()->records()[0];
  ASSERT_EQ(truncate(path.c_str(), 300'000), 0);
  Bytes into(record.nbytes);
  // The reads raise no SIGBUS, and do not return half of the bytes as the complete record.
  for (const Status& status :
       {opened.value()->read(record).status(), opened.value()->read_into(record, into.data()),
        opened.value()->verify(record)}) {
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find("cut short"), std::string::npos) << text_of(status);
  }
  // Opening the archive again fails in the same way.
  EXPECT_EQ(ZipReader::open(source.value()).status().code(), Code::kCorrupt);
}

TEST_F(MappedFile, ReplacedUnderTheReader) {
  const std::string path = write(100'000);
  Result<Ref<ZipSource>> source = FileMapping::open(path);
  Result<Ref<ZipReader>> opened = ZipReader::open(std::move(source.value()));
  ASSERT_OK(opened.status());
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_OK(opened.value()->verify_all());
}

}  // namespace
}  // namespace tenon::archive
