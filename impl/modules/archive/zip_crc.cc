#include "modules/archive/zip_crc.h"

#include <array>

#include "base/checked.h"
#include "modules/archive/zip_end.h"
#include "modules/archive/zip_layout.h"

namespace tenon::archive {
namespace {

constexpr uint64_t kFlagsAt = 6;
constexpr uint64_t kLocalCrcAt = 14;
constexpr uint64_t kCentralCrcAt = 16;

// Whether the file has this number at the offset. The file may have changed since its directory was
// checked, so the checksum may be gone.
Result<bool> has_number(const ZipSource& source, uint64_t offset, uint32_t number) {
  std::array<std::byte, 4> bytes{};
  if (!range_inside(offset, bytes.size(), source.nbytes())) return false;
  TENON_TRY(source.read(offset, bytes.data(), bytes.size()));
  return zip::get32(bytes.data()) == number;
}

}  // namespace

Result<std::vector<uint64_t>> find_crc_places(const ZipSource& source, const ZipRecord& record) {
  std::vector<uint64_t> places;
  if (!record.has_crc() || record.nbytes == 0) return places;
  const auto add = [&](uint64_t offset) -> Result<bool> {
    TENON_ASSIGN(const bool found, has_number(source, offset, record.crc));
    if (found) places.push_back(offset);
    return found;
  };
  TENON_ASSIGN(const bool in_directory, add(record.central_offset + kCentralCrcAt));
  if (!in_directory)
    return corrupt_at(source, record.central_offset, "was changed after it was opened");
  TENON_TRY(add(record.header_offset + kLocalCrcAt).status());
  std::array<std::byte, 2> flags{};
  TENON_TRY(source.read(record.header_offset + kFlagsAt, flags.data(), flags.size()));
  if ((zip::get16(flags.data()) & zip::kHasDescriptor) == 0) return places;
  const uint64_t descriptor = record.data_offset + record.stored_nbytes;
  TENON_ASSIGN(const bool is_signed, has_number(source, descriptor, zip::kDescriptorSignature));
  TENON_ASSIGN(const bool after_signature, is_signed ? add(descriptor + 4) : Result<bool>(false));
  if (!after_signature) TENON_TRY(add(descriptor).status());
  return places;
}

}  // namespace tenon::archive
