// These tests read archives that no honest writer writes. Each archive is refused, and the error
// names what is wrong, the record and its place.
#include <gtest/gtest.h>

#include <functional>

#include "unit/archive/raw_zip.h"

namespace tenon::archive {
namespace {

using namespace test;

constexpr uint32_t kWide = 0xFFFFFFFF;

// Returns a good archive of three records. The second record has a data descriptor, and all are
// stored without compression.
RawZip good_zip() {
  RawZip zip;
  zip.entries = {{.name = "m/data.pkl", .data = "abc"},
                 {.name = "m/data/0", .data = "01234567"},
                 {.name = "m/version", .data = "3\n"}};
  RawEntry& second = zip.entries[1];
  second.flags = 0x808;
  second.local_crc = second.local_nbytes = second.local_stored = 0;
  second.after = descriptor(crc32(0, second.data.data(), 8), 8, 8);
  return zip;
}

struct HostileCase {
  const char* what;
  std::function<void(RawZip*)> change;
  const char* message = "";  // a part of the message
  const char* record = "";   // the record in the details; empty: none
  Code code = Code::kCorrupt;
};

void add_wide_second(RawZip* zip, const std::vector<uint64_t>& numbers) {
  RawEntry& entry = zip->entries[1];
  entry.stored = entry.nbytes = kWide;
  entry.central_extra = wide_field(numbers);
}

std::vector<HostileCase> hostile_cases() {
  const Code unsupported = Code::kUnsupported;
  return {
      // These cases change the end record.
      {"junk in front",
       [](RawZip* zip) {
         const RawZip plain = good_zip();
         zip->before = "junk!";
         zip->directory_offset = static_cast<uint32_t>(plain.text().size() - 22 - (3 * 46 + 27));
       },
       "no directory entry"},
      {"a comment that is cut",
       [](RawZip* zip) {
         zip->behind = "x";
         zip->comment_nbytes = 2;
       },
       "does not end"},
      {"an end record in the comment",
       [](RawZip* zip) { zip->behind = std::string("PK\5\6", 4) + std::string(30, 'x'); },
       "does not end"},
      {"another disk", [](RawZip* zip) { zip->disk = 1; }, "disks"},
      {"two counts", [](RawZip* zip) { zip->count_here = 2; }, "disks"},
      {"too few entries", [](RawZip* zip) { zip->count = 2; }, "longer than its entries"},
      {"too many entries", [](RawZip* zip) { zip->count = 4; }, "too short"},
      {"far too many entries", [](RawZip* zip) { zip->count = 60000; }, "too short"},
      {"no entries", [](RawZip* zip) { zip->entries.clear(); }, "no records"},
      {"a directory behind the end", [](RawZip* zip) { zip->directory_offset = 1 << 20; },
       "does not lie before"},
      {"a directory over the end", [](RawZip* zip) { zip->directory_nbytes = 1 << 20; },
       "does not lie before"},
      {"a directory of 4 GiB less one", [](RawZip* zip) { zip->directory_nbytes = kWide; },
       "lacks its zip64"},
      {"a directory that is too short", [](RawZip* zip) { zip->directory_nbytes = 160; },
       "longer than the directory"},
      {"a directory in the records", [](RawZip* zip) { zip->directory_offset = 0; },
       "no directory entry"},
      {"a bad entry signature", [](RawZip* zip) { zip->entries[1].central_signature = 1; },
       "no directory entry"},
      // These cases change the zip64 end record and its locator.
      {"a locator that leads nowhere",
       [](RawZip* zip) { zip->end64 = RawEnd64{.offset = UINT64_MAX}.text(); }, "leads nowhere"},
      {"a locator that leads to itself",
       [](RawZip* zip) { zip->end64 = RawEnd64{.offset = zip->text().size() - 22 + 56}.text(); },
       "leads nowhere"},
      {"no long end where it should be",
       [](RawZip* zip) { zip->end64 = RawEnd64{.offset = 0}.text(); }, "Copy or download it again"},
      {"a long end of another size",
       [](RawZip* zip) {
         zip->end64 = RawEnd64{.offset = zip->text().size() - 22, .size = 45}.text();
       },
       "no zip64 end record"},
      {"ends that disagree",
       [](RawZip* zip) {
         zip->end64 = RawEnd64{.entries = 2, .offset = zip->text().size() - 22}.text();
       },
       "disagree"},
      {"a long end of many disks",
       [](RawZip* zip) {
         zip->end64 = RawEnd64{.offset = zip->text().size() - 22, .disks = 2}.text();
       },
       "disks"},
      {"a long end on another disk",
       [](RawZip* zip) {
         zip->end64 = RawEnd64{.offset = zip->text().size() - 22, .disk = 7}.text();
       },
       "disks"},
      {"2^64 entries",
       [](RawZip* zip) {
         zip->count = 0xFFFF;
         zip->directory_offset = zip->directory_nbytes = kWide;
         zip->end64 = RawEnd64{.entries = UINT64_MAX, .offset = zip->text().size() - 22}.text();
       },
       "max_records", "", Code::kResourceExhausted},
      {"a directory of 2^64 bytes",
       [](RawZip* zip) {
         zip->count = 0xFFFF;
         zip->directory_offset = zip->directory_nbytes = kWide;
         zip->end64 = RawEnd64{.entries = 3,
                               .directory_nbytes = UINT64_MAX,
                               .directory_offset = 2,
                               .offset = zip->text().size() - 22}
                          .text();
       },
       "does not lie before"},
      // These cases change names.
      {"a name twice", [](RawZip* zip) { zip->entries[2].name = "m/data.pkl"; }, "twice",
       "m/data.pkl"},
      {"an empty name", [](RawZip* zip) { zip->entries[1].name = ""; }, "empty", ""},
      {"..", [](RawZip* zip) { zip->entries[1].name = "m/../../etc/passwd"; }, "\"..\"",
       "m/../../etc/passwd"},
      {".. at the end", [](RawZip* zip) { zip->entries[1].name = "m/.."; }, "\"..\"", "m/.."},
      {".. as a directory", [](RawZip* zip) { zip->entries[1].name = "../"; }, "\"..\"", "../"},
      {"an absolute name", [](RawZip* zip) { zip->entries[1].name = "/m/data/0"; }, "absolute",
       "/m/data/0"},
      {"two slashes", [](RawZip* zip) { zip->entries[1].name = "m//0"; }, "empty component",
       "m//0"},
      {"a backslash", [](RawZip* zip) { zip->entries[1].name = "m\\0"; }, "backslash", "m\\0"},
      {"a NUL", [](RawZip* zip) { zip->entries[1].name = std::string("m/0\0x", 5); }, "control",
       nullptr},
      {"a line break", [](RawZip* zip) { zip->entries[1].name = "m/0\n"; }, "control", "m/0\n"},
      {"an extra file of another archive", [](RawZip* zip) { zip->entries[1].name = "../extra/x"; },
       "\"..\"", "../extra/x"},
      {"no UTF-8", [](RawZip* zip) { zip->entries[1].name = "m/\xfe"; }, "UTF-8", "m/\xfe"},
      {"a long name", [](RawZip* zip) { zip->entries[1].name = "m/" + std::string(5000, 'x'); },
       "max_name_nbytes", "", Code::kResourceExhausted},
      {"no directory", [](RawZip* zip) { zip->entries[0].name = "data.pkl"; }, "not in a directory",
       "data.pkl"},
      // These cases change entries of the directory.
      {"encrypted", [](RawZip* zip) { zip->entries[1].flags |= 1; }, "encrypted", "m/data/0",
       unsupported},
      {"strongly encrypted", [](RawZip* zip) { zip->entries[1].flags |= 64; }, "encrypted",
       "m/data/0", unsupported},
      {"masked", [](RawZip* zip) { zip->entries[1].flags |= 8192; }, "encrypted", "m/data/0",
       unsupported},
      {"bzip2", [](RawZip* zip) { zip->entries[1].method = 12; }, "method 12", "m/data/0",
       unsupported},
      {"a patch", [](RawZip* zip) { zip->entries[1].flags |= 32; }, "deflate", "m/data/0",
       unsupported},
      {"an entry on another disk", [](RawZip* zip) { zip->entries[1].disk = 1; }, "disk",
       "m/data/0"},
      {"stored, of two sizes", [](RawZip* zip) { zip->entries[1].nbytes = 9; }, "two sizes",
       "m/data/0"},
      {"a directory with bytes", [](RawZip* zip) { zip->entries[1].name = "m/data/"; },
       "bytes of its own", "m/data/"},
      {"zip64 without its field",
       [](RawZip* zip) { zip->entries[1].stored = zip->entries[1].nbytes = kWide; }, "zip64 sizes",
       "m/data/0"},
      {"zip64 with half a field", [](RawZip* zip) { add_wide_second(zip, {8}); }, "zip64 sizes",
       "m/data/0"},
      {"zip64 with a field that is cut",
       [](RawZip* zip) {
         add_wide_second(zip, {8, 8});
         zip->entries[1].central_extra[2] = 100;
       },
       "zip64 sizes", "m/data/0"},
      {"2^64 bytes", [](RawZip* zip) { add_wide_second(zip, {UINT64_MAX, UINT64_MAX}); },
       "overlaps", "m/data/0"},
      {"2^63 bytes",
       [](RawZip* zip) { add_wide_second(zip, {uint64_t{1} << 63, uint64_t{1} << 63}); },
       "overlaps", "m/data/0"},
      // These cases change where records lie.
      {"a header behind the directory", [](RawZip* zip) { zip->entries[1].offset = 1 << 20; },
       "overlaps", "m/data/0"},
      {"a header in the directory",
       [](RawZip* zip) {
         zip->entries[2].offset = static_cast<uint32_t>(zip->text().size() - 22 - 60);
       },
       "overlaps", "m/version"},
      {"a header at 2^64",
       [](RawZip* zip) {
         zip->entries[1].offset = kWide;
         zip->entries[1].central_extra = wide_field({UINT64_MAX});
       },
       "overlaps", "m/data/0"},
      {"two records in one place", [](RawZip* zip) { zip->entries[2].offset = 0; }, "overlaps",
       nullptr},
      {"a header one byte on", [](RawZip* zip) { zip->entries[0].offset = 1; }, "no local header",
       "m/data.pkl"},
      {"a record over the next",
       [](RawZip* zip) { zip->entries[0].stored = zip->entries[0].nbytes = 4; }, "overlaps",
       "m/data.pkl"},
      {"the last record over the directory",
       [](RawZip* zip) { zip->entries[2].stored = zip->entries[2].nbytes = 3; }, "overlaps",
       "m/version"},
      {"an extra field over the next",
       [](RawZip* zip) { zip->entries[0].local_extra_nbytes = 65535; }, "overlaps", "m/data.pkl"},
      // These cases change local headers.
      {"no local header", [](RawZip* zip) { zip->entries[1].local_signature = 0; },
       "no local header", "m/data/0"},
      {"another name", [](RawZip* zip) { zip->entries[1].local_name = "m/data/1"; }, "another name",
       "m/data/0"},
      {"a shorter name", [](RawZip* zip) { zip->entries[1].local_name = "m/data/"; },
       "another name", "m/data/0"},
      {"other flags", [](RawZip* zip) { zip->entries[0].local_flags = 8; }, "disagrees",
       "m/data.pkl"},
      {"another method", [](RawZip* zip) { zip->entries[0].local_method = 8; }, "disagrees",
       "m/data.pkl"},
      {"another checksum", [](RawZip* zip) { zip->entries[0].local_crc = 1; }, "disagrees",
       "m/data.pkl"},
      {"no checksum", [](RawZip* zip) { zip->entries[0].local_crc = 0; }, "disagrees",
       "m/data.pkl"},
      {"another size", [](RawZip* zip) { zip->entries[0].local_nbytes = 4; }, "disagrees",
       "m/data.pkl"},
      {"another stored size", [](RawZip* zip) { zip->entries[0].local_stored = 0; }, "disagrees",
       "m/data.pkl"},
      {"bit 3 and another checksum", [](RawZip* zip) { zip->entries[1].local_crc = 1; },
       "disagrees", "m/data/0"},
      {"bit 3 and another size", [](RawZip* zip) { zip->entries[1].local_nbytes = 1; }, "disagrees",
       "m/data/0"},
      {"wide local sizes that disagree",
       [](RawZip* zip) {
         zip->entries[0].local_nbytes = zip->entries[0].local_stored = kWide;
         zip->entries[0].local_extra = wide_field({3, 4});
       },
       "disagrees", "m/data.pkl"},
      {"wide local sizes that lack", [](RawZip* zip) { zip->entries[0].local_nbytes = kWide; },
       "disagrees", "m/data.pkl"},
      // These cases change data descriptors.
      {"no descriptor", [](RawZip* zip) { zip->entries[1].after.clear(); }, "descriptor",
       "m/data/0"},
      {"a descriptor with another checksum", [](RawZip* zip) { zip->entries[1].after[4] ^= 1; },
       "descriptor", "m/data/0"},
      {"a descriptor with another size", [](RawZip* zip) { zip->entries[1].after[8] ^= 1; },
       "descriptor", "m/data/0"},
      {"a descriptor that overlaps", [](RawZip* zip) { zip->entries[1].after.resize(11); },
       "descriptor", "m/data/0"},
      {"a descriptor over the directory",
       [](RawZip* zip) {
         std::swap(zip->entries[1], zip->entries[2]);
         zip->entries[2].after.resize(13);
       },
       "descriptor", "m/data/0"},
      // These cases change compressed records.
      {"far more compressed bytes than bytes",
       [](RawZip* zip) {
         zip->entries[0].method = 8;
         zip->entries[0].data = std::string(10'000, 'x');
         zip->entries[0].nbytes = 4999;
       },
       "10000 compressed bytes that cannot be 4999 inflated ones", "m/data.pkl"},
      {"more than deflate can make",
       [](RawZip* zip) {
         zip->entries[0].method = 8;
         zip->entries[0].nbytes = 1 << 20;
       },
       "cannot be 1048576 inflated ones", "m/data.pkl"},
  };
}

TEST(ZipHostile, TheGoodOneIsGood) {
  Result<Ref<ZipReader>> opened = open_bytes(good_zip().bytes(), Check::kAll);
  ASSERT_OK(opened.status());
  EXPECT_EQ(read_or_error(*opened.value(), "data/0"), "01234567");
}

TEST(ZipHostile, EachIsRefused) {
  for (const HostileCase& each : hostile_cases()) {
    SCOPED_TRACE(each.what);
    RawZip zip = good_zip();
    each.change(&zip);
    const Status status = open_bytes(zip.bytes()).status();
    EXPECT_EQ(status.code(), each.code) << text_of(status);
    EXPECT_NE(status.message().find(each.message), std::string::npos) << text_of(status);
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    if (each.record != nullptr) EXPECT_EQ(status.detail("record"), each.record) << text_of(status);
    if (status.code() != Code::kResourceExhausted)
      EXPECT_FALSE(status.detail("offset").empty()) << text_of(status);
  }
}

// These forms are odd, but valid.
TEST(ZipHostile, EachOfTheseIsTaken) {
  const std::vector<HostileCase> taken = {
      {"room between records", [](RawZip* zip) { zip->entries[0].after = "anything"; }},
      {"room before the directory",
       [](RawZip* zip) { zip->before_directory = std::string(1000, 'x'); }},
      {"room before the end", [](RawZip* zip) { zip->before_end = std::string(100, 'x'); }},
      {"a comment", [](RawZip* zip) { zip->behind = std::string(65535, 'x'); }},
      {"bytes behind the end",
       [](RawZip* zip) {
         zip->behind = "\n";
         zip->comment_nbytes = 0;
       }},
      {"many bytes behind a comment",
       [](RawZip* zip) {
         zip->behind = std::string(65535, 'x');
         zip->comment_nbytes = 7;
       }},
      {"an extra file with an absolute name",
       [](RawZip* zip) { zip->entries[0].name = "m/extra//etc/model/conf.json"; }},
      {"an extra file of Windows",
       [](RawZip* zip) { zip->entries[0].name = "m/extra/meta\\conf.json"; }},
      {"an extra file that leads up",
       [](RawZip* zip) { zip->entries[0].name = "m/extra/../../x\n"; }},
      {"a descriptor without signature", [](RawZip* zip) { zip->entries[1].after.erase(0, 4); }},
      {"a wide descriptor",
       [](RawZip* zip) {
         zip->entries[1].after = descriptor(crc32(0, "01234567", 8), 8, 8, true, true);
       }},
      {"a wide descriptor without signature",
       [](RawZip* zip) {
         zip->entries[1].after = descriptor(crc32(0, "01234567", 8), 8, 8, false, true);
       }},
      {"bit 3, and the numbers are there all the same",
       [](RawZip* zip) {
         zip->entries[1].local_crc.reset();
         zip->entries[1].local_nbytes.reset();
         zip->entries[1].local_stored.reset();
       }},
      {"wide sizes that need not be",
       [](RawZip* zip) {
         add_wide_second(zip, {8, 8});
         zip->entries[1].local_stored = zip->entries[1].local_nbytes = kWide;
         zip->entries[1].local_extra = wide_field({0, 0});
       }},
      {"a wide end",
       [](RawZip* zip) {
         const uint64_t end = zip->text().size() - 22;
         const uint64_t directory = 3 * 46 + 10 + 8 + 9;
         zip->end64 = RawEnd64{.entries = 3,
                               .directory_nbytes = directory,
                               .directory_offset = end - directory,
                               .offset = end}
                          .text();
       }},
  };
  for (const HostileCase& each : taken) {
    SCOPED_TRACE(each.what);
    RawZip zip = good_zip();
    each.change(&zip);
    Result<Ref<ZipReader>> opened = open_bytes(zip.bytes(), Check::kAll);
    ASSERT_OK(opened.status());
    EXPECT_EQ(read_or_error(*opened.value(), "data/0"), "01234567");
    EXPECT_EQ(read_or_error(*opened.value(), "version"), "3\n");
  }
}

// The entries of the directory may come in any order.
TEST(ZipHostile, AnotherOrder) {
  std::string text = good_zip().text();
  const uint64_t directory = text.size() - 22 - (3 * 46 + 10 + 8 + 9);
  const std::string first = text.substr(directory, 46 + 10);
  const std::string others = text.substr(directory + first.size(), 2 * 46 + 8 + 9);
  text.replace(directory, first.size() + others.size(), others + first);
  const auto span = view_of(text);
  Result<Ref<ZipReader>> opened = open_bytes(Bytes(span.begin(), span.end()), Check::kAll);
  ASSERT_OK(opened.status());
  EXPECT_EQ(opened.value()->records()[0].name, "data/0");
  EXPECT_EQ(read_or_error(*opened.value(), "data.pkl"), "abc");
}

TEST(ZipHostile, EveryPrefixOfAnArchive) {
  const Bytes whole = good_zip().bytes();
  for (size_t nbytes = 0; nbytes < whole.size(); ++nbytes) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(nbytes));
    ASSERT_EQ(open_bytes(cut).status().code(), Code::kCorrupt) << nbytes;
  }
}

// A flipped bit is refused when the archive is opened or read, or it lies in a field that means
// nothing to the reader.
TEST(ZipHostile, EveryBit) {
  const Bytes whole = good_zip().bytes();
  size_t taken = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    Result<Ref<ZipReader>> opened = open_bytes(bytes, Check::kAll);
    if (!opened.is_ok()) continue;
    ++taken;
    // Every text that can be read is one that was written, though perhaps under another name.
    for (const ZipRecord& record : opened.value()->records()) {
      Result<std::string> text = opened.value()->read_text(record);
      ASSERT_OK(text.status());
      EXPECT_TRUE(text.value() == "abc" || text.value() == "01234567" || text.value() == "3\n")
          << bit;
    }
  }
  // Versions, times and attributes mean nothing: 8 bytes of each local header, 18 bytes of each
  // entry, and a few more.
  EXPECT_LT(taken, whole.size() * 8 / 3);
}

TEST(ZipHostile, Limits) {
  RawZip zip = good_zip();
  zip.entries[0].method = 8;
  zip.entries[0].nbytes = 1000;
  const struct {
    const char* limit;
    ZipLimits limits;
  } all[] = {{"max_records", {.max_records = 2}},
             {"max_directory_nbytes", {.max_directory_nbytes = 100}},
             {"max_name_nbytes", {.max_name_nbytes = 5}},
             {"max_inflated_nbytes", {.max_inflated_nbytes = 999}}};
  EXPECT_OK(open_bytes(zip.bytes()).status());
  for (const auto& each : all) {
    const Status status = open_bytes(zip.bytes(), Check::kStructure, each.limits).status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_EQ(status.detail("limit"), each.limit);
    EXPECT_FALSE(status.detail("limit_value").empty());
  }
}

TEST(ZipHostile, BytesBehindTheEndAreCounted) {
  RawZip zip = good_zip();
  zip.behind = "abcde";
  zip.comment_nbytes = 2;
  EXPECT_EQ(open_bytes(zip.bytes()).value()->oddities().trailing_nbytes, 3U);
  zip.comment_nbytes = 5;
  EXPECT_EQ(open_bytes(zip.bytes()).value()->oddities().trailing_nbytes, 0U);
}

TEST(ZipHostile, OldFilesOfPyTorch) {
  for (const char* text : {"PYTORCH1 and so on", "\x80\x02 and so on"}) {
    const auto span = view_of(text);
    EXPECT_EQ(open_bytes(Bytes(span.begin(), span.end())).status().code(), Code::kIncompatible);
  }
}

}  // namespace
}  // namespace tenon::archive
