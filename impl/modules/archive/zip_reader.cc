#include "modules/archive/zip_reader.h"

#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <utility>

#include "modules/archive/crc32.h"
#include "os/limits.h"

namespace tenon::archive {
namespace {

// Bytes are copied in chunks of this size, so that the checksum is made while a chunk is in the
// cache.
constexpr uint64_t kChunkNbytes = uint64_t{256} << 10;
// A smaller record is read without asking the machine whether there is memory for it.
constexpr uint64_t kAskFrom = uint64_t{1} << 20;

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const noexcept {
    libdeflate_free_decompressor(decompressor);
  }
};

}  // namespace

Result<Ref<ZipReader>> ZipReader::open(Ref<ZipSource> source, Check check, const ZipLimits& limits,
                                       Prefix prefix) {
  TENON_ASSIGN(ZipDirectory directory, read_zip_directory(*source, limits, prefix));
  Ref<ZipReader> reader = Ref<ZipReader>::adopt(
      new ZipReader(std::move(source), std::move(directory), limits.max_read_nbytes));
  if (check == Check::kAll) TENON_TRY(reader->verify_all());
  return reader;
}

Ref<ZipReader> ZipReader::of_ranges(Ref<ZipSource> source, std::span<const Range> ranges,
                                    std::string_view name_prefix) {
  constexpr size_t kMostDigits = std::numeric_limits<size_t>::digits10 + 1;
  ZipDirectory directory;
  directory.records.reserve(ranges.size());
  // The names are views, so the bytes must not move.
  directory.bytes.resize(ranges.size() * (name_prefix.size() + kMostDigits));
  char* at = reinterpret_cast<char*>(directory.bytes.data());
  for (size_t i = 0; i < ranges.size(); ++i) {
    char* const digits = std::ranges::copy(name_prefix, at).out;
    char* const end = std::to_chars(digits, digits + kMostDigits, i).ptr;
    ZipRecord record;
    record.name = {at, end};
    at = end;
    record.data_offset = ranges[i].offset;
    record.nbytes = record.stored_nbytes = ranges[i].nbytes;
    directory.records.push_back(record);
  }
  return Ref<ZipReader>::adopt(new ZipReader(std::move(source), std::move(directory), UINT64_MAX));
}

const ZipRecord* ZipReader::find_range(std::string_view name) const noexcept {
  const size_t before_number = name.find_last_not_of("0123456789") + 1;
  size_t index = SIZE_MAX;
  (void)std::from_chars(name.data() + before_number, name.data() + name.size(), index);
  if (index >= directory_.records.size()) return nullptr;
  const ZipRecord& record = directory_.records[index];
  return record.name == name ? &record : nullptr;
}

const ZipRecord* ZipReader::find(std::string_view name) const noexcept {
  if (directory_.by_name.empty()) return find_range(name);
  const uint64_t hash = ZipDirectory::hash_of(name);
  const auto name_of = [this](const ZipDirectory::Key& key) {
    return directory_.records[key.index].name;
  };
  const auto found =
      std::lower_bound(directory_.by_name.begin(), directory_.by_name.end(), name,
                       [&](const ZipDirectory::Key& key, std::string_view wanted) {
                         return key.hash != hash ? key.hash < hash : name_of(key) < wanted;
                       });
  return found != directory_.by_name.end() && name_of(*found) == name
             ? &directory_.records[found->index]
             : nullptr;
}

Status ZipReader::wrong(const ZipRecord& record, Code code, const std::string& what) const {
  const std::string name(record.name);
  return Status(code,
                format("%s: record %.200s at byte %llu %s", source_->name().c_str(), name.c_str(),
                       static_cast<unsigned long long>(record.data_offset), what.c_str()))
      .with("record", name)
      .with("offset", record.data_offset);
}

Status ZipReader::check_crc(const ZipRecord& record, uint32_t crc) const {
  if (!record.has_crc() || crc == record.crc) return Status::ok();
  return wrong(record, Code::kCorrupt,
               format("has other bytes than were written: their CRC-32 is %08x and not %08x", crc,
                      record.crc));
}

// Asks for memory first: otherwise the kernel might kill this process instead of refusing the
// memory.
Status ZipReader::check_readable(const ZipRecord& record) const {
  if (record.nbytes <= max_read_nbytes_) {
    const uint64_t nbytes = record.nbytes + (record.deflated ? record.stored_nbytes : 0);
    return nbytes < kAskFrom ? Status::ok() : os::ask_headroom(nbytes);
  }
  return wrong(record, Code::kResourceExhausted,
               format("has %llu bytes, which is over max_read_nbytes (%llu)",
                      static_cast<unsigned long long>(record.nbytes),
                      static_cast<unsigned long long>(max_read_nbytes_)))
      .with("limit", std::string("max_read_nbytes"))
      .with("limit_value", max_read_nbytes_);
}

Result<std::vector<std::byte>> ZipReader::read(const ZipRecord& record) const {
  TENON_TRY(check_readable(record));
  std::vector<std::byte> bytes(record.nbytes);
  TENON_TRY(read_into(record, bytes.data()));
  return bytes;
}

Result<std::string> ZipReader::read_text(const ZipRecord& record) const {
  TENON_TRY(check_readable(record));
  std::string text(record.nbytes, '\0');
  TENON_TRY(read_into(record, text.data()));
  return text;
}

Status ZipReader::inflate_into(const ZipRecord& record, void* to) const {
  const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  if (decompressor == nullptr)
    return Status(Code::kResourceExhausted, "no memory for decompression")
        .with("limit", std::string("memory"));
  std::vector<std::byte> packed(record.stored_nbytes);
  TENON_TRY(source_->read(record.data_offset, packed.data(), packed.size()));
  size_t taken = 0;
  size_t given = 0;
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      decompressor.get(), packed.data(), packed.size(), to, record.nbytes, &taken, &given);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
    return wrong(record, Code::kCorrupt, "inflates to more bytes than its header says");
  if (result != LIBDEFLATE_SUCCESS)
    return wrong(record, Code::kCorrupt, "cannot be inflated: its compressed bytes are broken");
  if (given != record.nbytes)
    return wrong(record, Code::kCorrupt, "inflates to fewer bytes than its header says");
  if (taken != packed.size())
    return wrong(record, Code::kCorrupt, "has bytes behind its compressed ones");
  return check_crc(record, crc32(0, to, record.nbytes));
}

Status ZipReader::read_piece(const ZipRecord& record, uint64_t offset, std::span<std::byte> to,
                             uint32_t* crc) const {
  for (uint64_t done = 0; done < to.size();) {
    const uint64_t piece = std::min(to.size() - done, kChunkNbytes);
    TENON_TRY(source_->read(record.data_offset + offset + done, to.data() + done, piece));
    if (record.has_crc()) *crc = crc32(*crc, to.data() + done, piece);
    done += piece;
  }
  return Status::ok();
}

Status ZipReader::read_into(const ZipRecord& record, void* to) const {
  if (record.deflated) return inflate_into(record, to);
  uint32_t crc = 0;
  TENON_TRY(read_piece(record, 0, {static_cast<std::byte*>(to), record.nbytes}, &crc));
  return check_crc(record, crc);
}

Status ZipReader::verify(const ZipRecord& record) const {
  if (record.deflated) {
    TENON_TRY(check_readable(record));
    std::vector<std::byte> bytes(record.nbytes);
    return inflate_into(record, bytes.data());
  }
  if (!record.has_crc()) return Status::ok();
  if (!source_->is_file())
    return check_crc(record, crc32(0, source_->base() + record.data_offset, record.nbytes));
  std::vector<std::byte> chunk(std::min(record.nbytes, kChunkNbytes));
  uint32_t crc = 0;
  for (uint64_t done = 0; done < record.nbytes;) {
    const uint64_t piece = std::min(record.nbytes - done, kChunkNbytes);
    TENON_TRY(source_->read(record.data_offset + done, chunk.data(), piece));
    crc = crc32(crc, chunk.data(), piece);
    done += piece;
  }
  return check_crc(record, crc);
}

Status ZipReader::verify_all() const {
  for (const ZipRecord& record : directory_.records) TENON_TRY(verify(record));
  return Status::ok();
}

std::span<const std::byte> ZipReader::view(const ZipRecord& record) const noexcept {
  if (record.deflated || record.nbytes == 0) return {};
  return {source_->base() + record.data_offset, record.nbytes};
}

}  // namespace tenon::archive
