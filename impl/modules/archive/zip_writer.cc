#include "modules/archive/zip_writer.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/checked.h"
#include "modules/archive/crc32.h"
#include "modules/archive/zip_layout.h"
#include "modules/archive/zip_names.h"
#include "os/named_file.h"

namespace tenon::archive {
namespace {

using namespace zip;

constexpr uint64_t kMostHeldBack = uint64_t{64} << 10;
constexpr uint64_t kMostAlignment = 32768;  // the padding's length has 16 bits
constexpr int kDeflateLevel = 9;

// A record's header, a directory entry or an end record, composed field by field.
class Fields {
 public:
  template <typename Number>
  Fields& add(Number number) noexcept {
    std::memcpy(bytes_.data() + nbytes_, &number, sizeof number);
    nbytes_ += sizeof number;
    return *this;
  }
  std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), nbytes_}; }

 private:
  std::array<std::byte, 96> bytes_;
  size_t nbytes_ = 0;
};

uint32_t narrow(uint64_t number) noexcept {
  return static_cast<uint32_t>(std::min<uint64_t>(number, kIn64));
}
bool is_wide(uint64_t number) noexcept { return number >= kIn64; }

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const noexcept {
    libdeflate_free_compressor(compressor);
  }
};

}  // namespace

std::string archive_name_of(std::string_view path) {
  const size_t slash = path.find_last_of("/\\");
  std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  name = name.substr(0, name.rfind('.'));
  return std::string(find_prefix_fault(name) == nullptr ? name : "archive");
}

Result<ZipWriter> ZipWriter::create(Sink* sink, ZipWriterOptions options) {
  if (!options.has_prefix) options.prefix.clear();
  const char* const fault = options.has_prefix ? find_prefix_fault(options.prefix) : nullptr;
  if (fault != nullptr)
    return Status(Code::kInvalidArgument,
                  format("the archive's name \"%s\" %s", options.prefix.c_str(), fault));
  if (!is_power_of_two(options.alignment) || options.alignment > kMostAlignment) {
    return Status(Code::kInvalidArgument,
                  format("an alignment of %llu: not a power of two up to 32768",
                         static_cast<unsigned long long>(options.alignment)));
  }
  ZipWriter writer(sink, std::move(options));
  writer.held_back_.reserve(kMostHeldBack);
  return writer;
}

Status ZipWriter::fail(Status status) {
  failure_ = status;
  return status;
}

Status ZipWriter::check_name(std::string_view name) const {
  if (!failure_.is_ok()) return failure_;
  if (finished_)
    return Status(Code::kInvalidArgument, "the archive is finished: nothing can be added");
  if (in_record_)
    return Status(Code::kInvalidArgument,
                  format("record %s was begun and not ended", entries_.back().name.c_str()));
  std::string text(name);
  const char* fault = find_name_fault(name);
  if (fault == nullptr && options_.prefix.size() + 1 + name.size() > kMostNameNbytes)
    fault = "is, with the archive's, longer than 4096 bytes";
  if (fault == nullptr && has(name)) fault = "is there already";
  if (fault == nullptr) return Status::ok();
  return Status(Code::kInvalidArgument,
                format("a record's name \"%.200s\" %s", text.c_str(), fault))
      .with("record", std::move(text));
}

bool ZipWriter::has(std::string_view name) const { return names_.contains(std::string(name)); }

Status ZipWriter::put_held_back() {
  if (held_back_.empty()) return Status::ok();
  Status written = sink_->write(held_back_);
  held_back_.clear();
  return written.is_ok() ? written : fail(std::move(written));
}

Status ZipWriter::put(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  if (held_back_.size() + bytes.size() <= kMostHeldBack) {
    held_back_.insert(held_back_.end(), bytes.begin(), bytes.end());
    return Status::ok();
  }
  if (bytes.size() <= kMostHeldBack / 2) {
    TENON_TRY(put_held_back());
    held_back_.assign(bytes.begin(), bytes.end());
    return Status::ok();
  }
  Status written = held_back_.empty() ? sink_->write(bytes) : sink_->write_both(held_back_, bytes);
  held_back_.clear();
  return written.is_ok() ? written : fail(std::move(written));
}

// Writes the local header. If the checksum follows the bytes, its field and those of the sizes are
// zero, as the format demands.
Status ZipWriter::start(std::string_view name, Entry entry) {
  if (options_.has_prefix) entry.name = options_.prefix + "/";
  entry.name += name;
  entry.header_offset = position_;
  const bool later = (entry.flags & kHasDescriptor) != 0;
  const bool wide = is_wide(entry.nbytes) || is_wide(entry.stored_nbytes);
  const uint64_t extra64 = wide ? kExtraHeadNbytes + 16 : 0;
  const uint64_t unpadded =
      position_ + kLocalNbytes + entry.name.size() + extra64 + kExtraHeadNbytes;
  const uint64_t padding = round_up(unpadded, options_.alignment) - unpadded;
  Fields head;
  head.add(kLocalSignature)
      .add(wide ? kVersion64 : kVersion)
      .add(entry.flags)
      .add(entry.method)
      .add(uint32_t{0});
  head.add(entry.crc);
  head.add(wide ? kIn64 : narrow(later ? 0 : entry.stored_nbytes))
      .add(wide ? kIn64 : narrow(later ? 0 : entry.nbytes));
  head.add(static_cast<uint16_t>(entry.name.size()))
      .add(static_cast<uint16_t>(extra64 + kExtraHeadNbytes + padding));
  Fields extra;
  if (wide)
    extra.add(kZip64Extra)
        .add(uint16_t{16})
        .add(later ? 0 : entry.nbytes)
        .add(later ? 0 : entry.stored_nbytes);
  extra.add(kPaddingExtra).add(static_cast<uint16_t>(padding));
  TENON_TRY(put(head.bytes()));
  TENON_TRY(put(bytes_of(entry.name)));
  TENON_TRY(put(extra.bytes()));
  TENON_TRY(put(bytes_of(std::string(padding, 'Z'))));
  names_.emplace(name);
  entries_.push_back(std::move(entry));
  return Status::ok();
}

Status ZipWriter::add_whole(std::string_view name, std::span<const std::byte> stored,
                            const Entry& entry) {
  TENON_TRY(start(name, entry));
  return put(stored);
}

Status ZipWriter::add_text(std::string_view name, std::string_view text, Compression compression) {
  return add(name, bytes_of(text), compression);
}

Status ZipWriter::add(std::string_view name, std::span<const std::byte> bytes,
                      Compression compression, SourceKind reach) {
  TENON_TRY(check_name(name));
  const bool deflate = compression == Compression::kDeflated && bytes.size() > kStoredUpTo;
  if (bytes.size() > kCrcAheadUpTo && !deflate) {
    TENON_TRY(begin(name, bytes.size()));
    TENON_TRY(append(bytes, reach));
    return end();
  }
  if (reach == SourceKind::kMappedFile) {
    copied_.resize(bytes.size());
    if (Status copied = os::copy_from_mapping(bytes.data(), copied_.data(), bytes.size());
        !copied.is_ok())
      return fail(std::move(copied));
    bytes = copied_;
  }
  if (deflate) {
    bool smaller = false;
    TENON_TRY(add_deflated(name, bytes, &smaller));
    if (smaller) return Status::ok();
    if (bytes.size() > kCrcAheadUpTo) return add(name, bytes);
  }
  Entry entry;
  entry.nbytes = entry.stored_nbytes = bytes.size();
  entry.crc = crc32(0, bytes.data(), bytes.size());
  entry.flags = kUtf8;
  entry.method = kStored;
  return add_whole(name, bytes, entry);
}

Status ZipWriter::add_deflated(std::string_view name, std::span<const std::byte> bytes,
                               bool* smaller) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(kDeflateLevel));
  if (compressor == nullptr)
    return fail(Status(Code::kResourceExhausted, "no memory for compression")
                    .with("limit", std::string("memory")));
  std::vector<std::byte> packed(bytes.size() - 1);
  Entry entry;
  entry.stored_nbytes = libdeflate_deflate_compress(compressor.get(), bytes.data(), bytes.size(),
                                                    packed.data(), packed.size());
  *smaller = entry.stored_nbytes != 0;
  if (!*smaller) return Status::ok();
  entry.nbytes = bytes.size();
  entry.crc = crc32(0, bytes.data(), bytes.size());
  entry.flags = kUtf8;
  entry.method = kDeflated;
  return add_whole(name, std::span(packed).first(entry.stored_nbytes), entry);
}

Status ZipWriter::begin(std::string_view name, uint64_t nbytes) {
  TENON_TRY(check_name(name));
  Entry entry;
  entry.nbytes = entry.stored_nbytes = nbytes;
  entry.flags = nbytes == 0 ? kUtf8 : static_cast<uint16_t>(kUtf8 | kHasDescriptor);
  entry.method = kStored;
  TENON_TRY(start(name, std::move(entry)));
  in_record_ = true;
  missing_ = nbytes;
  return Status::ok();
}

Status ZipWriter::append(std::span<const std::byte> bytes, SourceKind reach) {
  if (!failure_.is_ok()) return failure_;
  if (!in_record_) return Status(Code::kInvalidArgument, "no record was begun");
  Entry& entry = entries_.back();
  if (bytes.size() > missing_) {
    return fail(Status(Code::kInvalidArgument,
                       format("record %s gets more than its %llu bytes", entry.name.c_str(),
                              static_cast<unsigned long long>(entry.nbytes))));
  }
  missing_ -= bytes.size();
  while (!bytes.empty()) {
    // Chunks end at multiples of their size in the file, so they end with a page of the file.
    std::span<const std::byte> piece =
        bytes.first(std::min<uint64_t>(bytes.size(), kChunkNbytes - position_ % kChunkNbytes));
    bytes = bytes.subspan(piece.size());
    if (reach == SourceKind::kMappedFile) {
      copied_.resize(kChunkNbytes);
      if (Status copied = os::copy_from_mapping(piece.data(), copied_.data(), piece.size());
          !copied.is_ok())
        return fail(std::move(copied));
      piece = std::span(copied_).first(piece.size());
    }
    TENON_TRY(put(piece));
    entry.crc = crc32(entry.crc, piece.data(), piece.size());
  }
  return Status::ok();
}

Status ZipWriter::put_descriptor(const Entry& entry) {
  Fields fields;
  fields.add(kDescriptorSignature).add(entry.crc);
  if (is_wide(entry.nbytes)) {
    fields.add(entry.stored_nbytes).add(entry.nbytes);
  } else {
    fields.add(narrow(entry.stored_nbytes)).add(narrow(entry.nbytes));
  }
  return put(fields.bytes());
}

Status ZipWriter::end() {
  if (!failure_.is_ok()) return failure_;
  if (!in_record_) return Status(Code::kInvalidArgument, "no record was begun");
  const Entry& entry = entries_.back();
  if (missing_ > 0) {
    return fail(Status(Code::kInvalidArgument,
                       format("record %s lacks %llu of its %llu bytes", entry.name.c_str(),
                              static_cast<unsigned long long>(missing_),
                              static_cast<unsigned long long>(entry.nbytes))));
  }
  in_record_ = false;
  return (entry.flags & kHasDescriptor) != 0 ? put_descriptor(entry) : Status::ok();
}

Status ZipWriter::put_central(const Entry& entry) {
  Fields extra;
  const bool wide_nbytes = is_wide(entry.nbytes);
  const bool wide_stored = is_wide(entry.stored_nbytes);
  const bool wide_offset = is_wide(entry.header_offset);
  const bool wide = wide_nbytes || wide_stored || wide_offset;
  if (wide)
    extra.add(kZip64Extra)
        .add(static_cast<uint16_t>(8 * (int{wide_nbytes} + int{wide_stored} + int{wide_offset})));
  if (wide_nbytes) extra.add(entry.nbytes);
  if (wide_stored) extra.add(entry.stored_nbytes);
  if (wide_offset) extra.add(entry.header_offset);
  const uint16_t version = wide ? kVersion64 : kVersion;
  Fields head;
  head.add(kCentralSignature)
      .add(version)
      .add(version)
      .add(entry.flags)
      .add(entry.method)
      .add(uint32_t{0})
      .add(entry.crc);
  head.add(narrow(entry.stored_nbytes)).add(narrow(entry.nbytes));
  head.add(static_cast<uint16_t>(entry.name.size()))
      .add(static_cast<uint16_t>(extra.bytes().size()));
  // These fields are the length of the comment, the disk and the attributes.
  head.add(uint16_t{0}).add(uint16_t{0}).add(uint16_t{0}).add(uint32_t{0});
  head.add(narrow(entry.header_offset));
  TENON_TRY(put(head.bytes()));
  TENON_TRY(put(bytes_of(entry.name)));
  return put(extra.bytes());
}

Status ZipWriter::put_end(uint64_t directory_offset) {
  const uint64_t end_offset = position_;
  const uint64_t count = entries_.size();
  const uint64_t directory_nbytes = end_offset - directory_offset;
  Fields wide;
  wide.add(kEnd64Signature)
      .add(uint64_t{kEnd64Nbytes - 12})
      .add(kVersion64)
      .add(kVersion64)
      .add(uint32_t{0})
      .add(uint32_t{0});
  wide.add(count).add(count).add(directory_nbytes).add(directory_offset);
  wide.add(kLocatorSignature).add(uint32_t{0}).add(end_offset).add(uint32_t{1});
  // PyTorch always has these records. numpy.load knows an archive without arrays by its first
  // bytes, which must be those of the narrow record.
  const bool is_large =
      count >= kIn64Short || is_wide(directory_nbytes) || is_wide(directory_offset);
  if (options_.has_prefix || is_large) TENON_TRY(put(wide.bytes()));
  const auto narrow_count = static_cast<uint16_t>(std::min<uint64_t>(count, kIn64Short));
  Fields narrow_end;
  narrow_end.add(kEndSignature)
      .add(uint16_t{0})
      .add(uint16_t{0})
      .add(narrow_count)
      .add(narrow_count);
  narrow_end.add(narrow(directory_nbytes)).add(narrow(directory_offset)).add(uint16_t{0});
  return put(narrow_end.bytes());
}

Status ZipWriter::finish() {
  if (!failure_.is_ok()) return failure_;
  if (finished_) return Status(Code::kInvalidArgument, "the archive is finished already");
  if (in_record_)
    return Status(Code::kInvalidArgument,
                  format("record %s was begun and not ended", entries_.back().name.c_str()));
  const uint64_t directory_offset = position_;
  for (const Entry& entry : entries_) TENON_TRY(put_central(entry));
  TENON_TRY(put_end(directory_offset));
  finished_ = true;
  return put_held_back();
}

}  // namespace tenon::archive
