#include "modules/archive/zip_end.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "modules/archive/zip_layout.h"
#include "os/file_kind.h"

namespace tenon::archive {
namespace {

using namespace zip;

constexpr uint64_t kMostCommentNbytes = 65535;

// The error for a file without an end record. Mostly it is another kind of file.
Status no_zip(const ZipSource& source) {
  std::array<std::byte, os::kFileKindNbytes> head{};
  const uint64_t nbytes = std::min<uint64_t>(head.size(), source.nbytes());
  TENON_TRY(source.read(0, head.data(), nbytes));
  const std::string kind = os::file_kind(std::span(head).first(nbytes), source.nbytes());
  if (kind.empty() || kind.starts_with("cut short") || kind.starts_with("empty")) {
    const std::string what = kind.empty()
                                 ? "no archive, or its end is missing: it has no end record of a "
                                   "zip file. Give a file that "
                                   "torch.jit.save or Tenon wrote, or copy or download it again"
                                 : kind;
    return corrupt_at(source, source.nbytes(), ("is " + what).c_str());
  }
  return Status(Code::kIncompatible, source.name() + " is " + kind);
}

// Finds the offset of the last end record. *tail becomes the bytes from there to the end.
Result<uint64_t> find_end_record(const ZipSource& source, std::vector<std::byte>* tail) {
  const uint64_t total = source.nbytes();
  // Nearly all archives end without a comment.
  for (const uint64_t wanted : {kEndNbytes, kEndNbytes + kMostCommentNbytes}) {
    const uint64_t nbytes = std::min(wanted, total);
    if (nbytes < kEndNbytes) break;
    tail->resize(nbytes);
    TENON_TRY(source.read(total - nbytes, tail->data(), nbytes));
    for (uint64_t at = nbytes - kEndNbytes + 1; at-- > 0;) {
      if (get32(tail->data() + at) != kEndSignature) continue;
      tail->erase(tail->begin(), tail->begin() + static_cast<std::ptrdiff_t>(at));
      return total - nbytes + at;
    }
  }
  return no_zip(source);
}

struct Numbers {
  uint64_t entries;
  uint64_t directory_nbytes;
  uint64_t directory_offset;
};

// Whether a number of the short end record equals that of the zip64 end record, or says that it is
// there.
bool agree(uint64_t narrow, uint64_t wide, uint64_t in_wide) noexcept {
  return narrow == wide || narrow == in_wide;
}

// Reads the zip64 end record, which lies right before its locator. *end becomes its offset.
Status read_end64(const ZipSource& source, const std::byte* locator, Numbers* numbers,
                  uint64_t* end) {
  const uint64_t locator_offset = *end - kLocatorNbytes;
  const uint64_t offset = get64(locator + 8);
  if (get32(locator + 4) != 0 || get32(locator + 16) > 1)
    return corrupt_at(source, locator_offset, "is one of several disks");
  if (!range_inside(offset, kEnd64Nbytes, locator_offset))
    return corrupt_at(source, locator_offset, "has a zip64 locator that leads nowhere");
  std::array<std::byte, kEnd64Nbytes> record{};
  TENON_TRY(source.read(offset, record.data(), record.size()));
  if (get32(record.data()) != kEnd64Signature ||
      get64(record.data() + 4) != locator_offset - offset - 12)
    return corrupt_at(source, offset,
                      "has no zip64 end record where its locator says: it is damaged, or cut short "
                      "behind an archive that is one of its "
                      "records. Copy or download it again");
  if (get32(record.data() + 16) != 0 || get32(record.data() + 20) != 0 ||
      get64(record.data() + 24) != get64(record.data() + 32))
    return corrupt_at(source, offset, "is one of several disks");
  const Numbers wide{get64(record.data() + 32), get64(record.data() + 40),
                     get64(record.data() + 48)};
  if (!agree(numbers->entries, wide.entries, kIn64Short) ||
      !agree(numbers->directory_nbytes, wide.directory_nbytes, kIn64) ||
      !agree(numbers->directory_offset, wide.directory_offset, kIn64)) {
    return corrupt_at(source, offset, "has two end records that disagree");
  }
  *numbers = wide;
  *end = offset;
  return Status::ok();
}

}  // namespace

Status corrupt_at(const ZipSource& source, uint64_t offset, const char* what) {
  return Status(Code::kCorrupt, format("%s %s (byte %llu)", source.name().c_str(), what,
                                       static_cast<unsigned long long>(offset)))
      .with("offset", offset);
}

Result<ZipEnd> find_zip_end(const ZipSource& source) {
  std::vector<std::byte> tail;
  TENON_ASSIGN(uint64_t end, find_end_record(source, &tail));
  const std::byte* const record = tail.data();
  const uint64_t behind = tail.size() - kEndNbytes;
  const uint64_t comment_nbytes = get16(record + 20);
  if (comment_nbytes > behind)
    return corrupt_at(source, end, "does not end where its end record says");
  if (get16(record + 4) != 0 || get16(record + 6) != 0 || get16(record + 8) != get16(record + 10))
    return corrupt_at(source, end, "is one of several disks");
  Numbers numbers{get16(record + 10), get32(record + 12), get32(record + 16)};
  const uint64_t narrow_end = end;
  bool is_wide = false;
  if (end >= kLocatorNbytes) {
    std::array<std::byte, kLocatorNbytes> locator{};
    TENON_TRY(source.read(end - kLocatorNbytes, locator.data(), locator.size()));
    is_wide = get32(locator.data()) == kLocatorSignature;
    if (is_wide) TENON_TRY(read_end64(source, locator.data(), &numbers, &end));
  }
  if (!is_wide && (numbers.directory_nbytes == kIn64 || numbers.directory_offset == kIn64))
    return corrupt_at(source, narrow_end, "lacks its zip64 end record");
  if (!range_inside(numbers.directory_offset, numbers.directory_nbytes, end))
    return corrupt_at(source, narrow_end,
                      "has an end record whose directory does not lie before it");
  // Mail programs and shells may add a line to the file. PyTorch does not read bytes behind the
  // end, and neither does this reader.
  return ZipEnd{numbers.directory_offset, numbers.directory_nbytes, numbers.entries,
                behind - comment_nbytes};
}

}  // namespace tenon::archive
