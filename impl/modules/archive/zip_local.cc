// Checks the local headers and data descriptors of a zip file against its directory (zip_entry.h).
#include <algorithm>
#include <span>
#include <vector>

#include "base/checked.h"
#include "modules/archive/zip_entry.h"
#include "modules/archive/zip_layout.h"

namespace tenon::archive {
namespace {

using namespace zip;

// The least number of bytes to copy. A data descriptor and the next local header, with a name and
// PyTorch's padding, mostly have fewer.
constexpr uint64_t kWindowNbytes = 192;
constexpr uint64_t kMostDescriptorNbytes = 24;
// Headers that are closer together than this are copied in one call, with the bytes between them.
// That takes less time than a call for each.
constexpr uint64_t kNearNbytes = 4096;
constexpr uint64_t kMostWindowNbytes = uint64_t{64} << 10;

// A buffer with a copy of a small part of the source. The descriptor of one record and the header
// of the next are neighbours, so one copy mostly has both.
class Window {
 public:
  explicit Window(const ZipSource& source) noexcept : source_(source) {}

  // Returns the bytes of a range, which must be inside the source. The range is copied if the
  // buffer does not have it. The pointer is valid until the next call.
  Result<const std::byte*> at(uint64_t offset, uint64_t nbytes) {
    if (!has(offset, nbytes)) {
      const uint64_t ahead = offset < ahead_ ? ahead_ - offset : 0;
      nbytes_ = std::min(std::max({nbytes, ahead, kWindowNbytes}), source_.nbytes() - offset);
      if (bytes_.size() < nbytes_) bytes_.resize(nbytes_);
      begin_ = offset;
      TENON_TRY(source_.read(offset, bytes_.data(), nbytes_));
    }
    return static_cast<const std::byte*>(bytes_.data() + (offset - begin_));
  }
  // Whether the buffer has the whole range.
  bool has(uint64_t offset, uint64_t nbytes) const noexcept {
    return offset >= begin_ && range_inside(offset - begin_, nbytes, nbytes_);
  }
  // From now on a copy that begins before the offset `end` extends at least to `end`.
  void look_ahead(uint64_t end) noexcept { ahead_ = end; }

 private:
  const ZipSource& source_;
  std::vector<std::byte> bytes_;
  uint64_t begin_ = 0;
  uint64_t nbytes_ = 0;
  uint64_t ahead_ = 0;
};

class LocalHeaders {
 public:
  explicit LocalHeaders(const ZipSource& source) noexcept : source_(source), window_(source) {}

  // Tells the window which entries will be checked next, in the order of their places in the file.
  void look_ahead(std::span<ZipEntry* const> entries) noexcept {
    const uint64_t begin = entries.front()->header_offset;
    if (window_.has(begin, kWindowNbytes)) return;
    uint64_t end = begin;
    for (const ZipEntry* entry : entries) {
      if (entry->header_offset > end + kNearNbytes ||
          entry->header_offset - begin > kMostWindowNbytes - kWindowNbytes)
        break;
      end = entry->header_offset + kWindowNbytes;
    }
    window_.look_ahead(end);
  }

  // Checks an entry, and sets its data_offset. Its header, bytes and descriptor must lie before the
  // offset `limit`.
  Status check(ZipEntry* entry, uint64_t limit) {
    const auto wrong = [&](const char* what) {
      return wrong_entry(source_, entry->name, entry->header_offset, Code::kCorrupt, what);
    };
    if (!range_inside(entry->header_offset, kLocalNbytes, limit))
      return wrong("overlaps what follows it");
    TENON_ASSIGN(const std::byte* head, window_.at(entry->header_offset, kLocalNbytes));
    if (get32(head) != kLocalSignature)
      return wrong("has no local header where the directory says");
    const uint64_t name_nbytes = get16(head + 26);
    const uint64_t extra_nbytes = get16(head + 28);
    const uint64_t head_nbytes = kLocalNbytes + name_nbytes + extra_nbytes;
    uint64_t whole = 0;
    if (!checked_add(head_nbytes, entry->stored_nbytes, &whole) ||
        !range_inside(entry->header_offset, whole, limit))
      return wrong("overlaps what follows it");
    TENON_ASSIGN(head, window_.at(entry->header_offset, head_nbytes));
    if (get16(head + 6) != entry->flags || get16(head + 8) != entry->method ||
        !agrees(*entry, head, extra_nbytes))
      return wrong("has a local header that disagrees with the directory");
    const auto* const name = reinterpret_cast<const char*>(head + kLocalNbytes);
    if (std::string_view(name, name_nbytes) != entry->name)
      return wrong("has another name in its local header");
    entry->data_offset = entry->header_offset + head_nbytes;
    if ((entry->flags & kHasDescriptor) == 0) return Status::ok();
    TENON_ASSIGN(const bool found, has_descriptor(*entry, limit));
    return found ? Status::ok() : wrong("has a data descriptor that disagrees with the directory");
  }

 private:
  // Whether the checksum and the sizes in the local header `head` are those of the directory. Each
  // may be 0 if the entry has a descriptor, which repeats them.
  static bool agrees(const ZipEntry& entry, const std::byte* head, uint64_t extra_nbytes) noexcept {
    const uint32_t crc = get32(head + 14);
    uint64_t stored_nbytes = get32(head + 18);
    uint64_t nbytes = get32(head + 22);
    if (stored_nbytes == kIn64 || nbytes == kIn64) {
      // A local header has both sizes in the extra field, even if only one is too large.
      const std::byte* const extra = head + kLocalNbytes + get16(head + 26);
      uint64_t wide_nbytes = 0;
      uint64_t wide_stored = 0;
      const bool is_wide =
          read_wide_numbers(extra, extra_nbytes, {&wide_nbytes, &wide_stored, nullptr});
      if (is_wide && nbytes == kIn64) nbytes = wide_nbytes;
      if (is_wide && stored_nbytes == kIn64) stored_nbytes = wide_stored;
    }
    const bool later = (entry.flags & kHasDescriptor) != 0;
    const auto is = [later](uint64_t here, uint64_t there) {
      return here == there || (later && here == 0);
    };
    return is(crc, entry.crc) && is(stored_nbytes, entry.stored_nbytes) && is(nbytes, entry.nbytes);
  }

  // Whether a data descriptor that agrees with the directory follows the entry's bytes. It may have
  // one of four forms: with or without a signature, and with sizes of 8 or of 4 bytes.
  Result<bool> has_descriptor(const ZipEntry& entry, uint64_t limit) {
    const uint64_t offset = entry.data_offset + entry.stored_nbytes;
    const uint64_t room = std::min(limit - offset, kMostDescriptorNbytes);
    TENON_ASSIGN(const std::byte* bytes, window_.at(offset, room));
    const auto fits = [&](uint64_t signature_nbytes, uint64_t number_nbytes) {
      if (room < signature_nbytes + 4 + 2 * number_nbytes) return false;
      if (signature_nbytes != 0 && get32(bytes) != kDescriptorSignature) return false;
      const std::byte* const at = bytes + signature_nbytes;
      const auto number = [&](const std::byte* from) {
        return number_nbytes == 8 ? get64(from) : get32(from);
      };
      return get32(at) == entry.crc && number(at + 4) == entry.stored_nbytes &&
             number(at + 4 + number_nbytes) == entry.nbytes;
    };
    return fits(4, 8) || fits(4, 4) || fits(0, 8) || fits(0, 4);
  }

  const ZipSource& source_;
  Window window_;
};

}  // namespace

bool read_wide_numbers(const std::byte* extra, uint64_t extra_nbytes,
                       const ZipWideNumbers& wanted) noexcept {
  for (uint64_t at = 0; extra_nbytes - at >= kExtraHeadNbytes;) {
    const uint64_t field_nbytes = get16(extra + at + 2);
    const std::byte* from = extra + at + kExtraHeadNbytes;
    if (!range_inside(at + kExtraHeadNbytes, field_nbytes, extra_nbytes)) return false;
    if (get16(extra + at) == kZip64Extra) {
      uint64_t left = field_nbytes;
      for (uint64_t* number : {wanted.nbytes, wanted.stored_nbytes, wanted.header_offset}) {
        if (number == nullptr) continue;
        if (left < 8) return false;
        *number = get64(from);
        from += 8;
        left -= 8;
      }
      return true;
    }
    at += kExtraHeadNbytes + field_nbytes;
  }
  return false;
}

Status check_local_headers(const ZipSource& source, uint64_t directory_offset,
                           std::vector<ZipEntry>* entries) {
  // The entries sorted by their places in the file. Nearly all archives have their directory in
  // this order.
  std::vector<ZipEntry*> in_place;
  in_place.reserve(entries->size());
  for (ZipEntry& entry : *entries) in_place.push_back(&entry);
  const auto before = [](const ZipEntry* a, const ZipEntry* b) {
    return a->header_offset < b->header_offset;
  };
  if (!std::ranges::is_sorted(in_place, before)) std::ranges::sort(in_place, before);
  LocalHeaders headers(source);
  for (size_t i = 0; i < in_place.size(); ++i) {
    const uint64_t limit =
        i + 1 < in_place.size() ? in_place[i + 1]->header_offset : directory_offset;
    if (limit - in_place[i]->header_offset <= kNearNbytes)
      headers.look_ahead(std::span(in_place).subspan(i));
    TENON_TRY(headers.check(in_place[i], std::min(limit, directory_offset)));
  }
  return Status::ok();
}

}  // namespace tenon::archive
