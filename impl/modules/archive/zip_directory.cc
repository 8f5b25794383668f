#include "modules/archive/zip_directory.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/checked.h"
#include "modules/archive/zip_end.h"
#include "modules/archive/zip_entry.h"
#include "modules/archive/zip_layout.h"
#include "modules/archive/zip_names.h"

namespace tenon::archive {
namespace {

using namespace zip;

// The most inflated bytes for one compressed byte. Deflate's densest code stands for 258 bytes in
// two bits.
constexpr uint64_t kMostInflation = 1032;
// A record of at most this many compressed bytes may have more compressed bytes than two for each
// inflated one, because the headers of deflate blocks can be longer than a short content.
constexpr uint64_t kThinUpTo = 4096;

Status over_limit(const ZipSource& source, const char* limit, uint64_t limit_value,
                  uint64_t found) {
  return Status(Code::kResourceExhausted,
                format("%s: %llu is over the limit %s (%llu)", source.name().c_str(),
                       static_cast<unsigned long long>(found), limit,
                       static_cast<unsigned long long>(limit_value)))
      .with("limit", std::string(limit))
      .with("limit_value", limit_value);
}

std::string_view top_of(std::string_view name) noexcept { return name.substr(0, name.find('/')); }

// Whether the name is that of an extra file. PyTorch writes extra files under any name that the
// user gives, so find_name_fault() does not apply to them. That is safe: the reader of a module
// gives them a safe name (zip_names.h), and no file is ever unpacked under its name.
bool is_extra_file(std::string_view name) noexcept {
  const std::string_view top = top_of(name);
  return find_prefix_fault(top) == nullptr && name.substr(top.size()).starts_with("/extra/") &&
         !name.ends_with('/');
}

class DirectoryReader {
 public:
  DirectoryReader(const ZipSource& source, const ZipLimits& limits, Prefix prefix) noexcept
      : source_(source), limits_(limits), prefix_(prefix) {}

  Result<ZipDirectory> run() {
    TENON_ASSIGN(const ZipEnd end, find_zip_end(source_));
    if (end.entries > limits_.max_records)
      return over_limit(source_, "max_records", limits_.max_records, end.entries);
    if (end.directory_nbytes > limits_.max_directory_nbytes)
      return over_limit(source_, "max_directory_nbytes", limits_.max_directory_nbytes,
                        end.directory_nbytes);
    if (end.entries == 0) return corrupt_at(source_, end.directory_offset, "has no records");
    if (end.entries > end.directory_nbytes / kCentralNbytes)
      return corrupt_at(source_, end.directory_offset,
                        "has a directory that is too short for its entries");
    directory_offset_ = end.directory_offset;
    result_.oddities.trailing_nbytes = end.trailing_nbytes;
    result_.bytes.resize(end.directory_nbytes);
    TENON_TRY(source_.read(directory_offset_, result_.bytes.data(), result_.bytes.size()));
    entries_.reserve(end.entries);
    for (uint64_t i = 0; i < end.entries; ++i) TENON_TRY(read_entry());
    if (at_ != result_.bytes.size())
      return corrupt_at(source_, directory_offset_ + at_,
                        "has a directory that is longer than its entries");
    TENON_TRY(take_prefix());
    TENON_TRY(sort_names());
    TENON_TRY(check_local_headers(source_, directory_offset_, &entries_));
    take_records();
    return std::move(result_);
  }

 private:
  uint64_t here() const noexcept { return directory_offset_ + at_; }
  Status wrong(std::string_view name, Code code, const std::string& what) const {
    return wrong_entry(source_, name, here(), code, what);
  }

  Status read_entry() {
    const std::byte* const head = result_.bytes.data() + at_;
    const uint64_t room = result_.bytes.size() - at_;
    if (room < kCentralNbytes || get32(head) != kCentralSignature)
      return corrupt_at(source_, here(), "has no directory entry where one should be");
    const uint64_t name_nbytes = get16(head + 28);
    const uint64_t extra_nbytes = get16(head + 30);
    const uint64_t nbytes = kCentralNbytes + name_nbytes + extra_nbytes + get16(head + 32);
    if (nbytes > room)
      return corrupt_at(source_, here(), "has a directory entry that is longer than the directory");
    ZipEntry entry;
    entry.name =
        std::string_view(reinterpret_cast<const char*>(head + kCentralNbytes), name_nbytes);
    entry.central_offset = here();
    entry.flags = get16(head + 8);
    entry.method = get16(head + 10);
    entry.crc = get32(head + 16);
    entry.stored_nbytes = get32(head + 20);
    entry.nbytes = get32(head + 24);
    entry.header_offset = get32(head + 42);
    const ZipWideNumbers wide{entry.nbytes == kIn64 ? &entry.nbytes : nullptr,
                              entry.stored_nbytes == kIn64 ? &entry.stored_nbytes : nullptr,
                              entry.header_offset == kIn64 ? &entry.header_offset : nullptr};
    const bool is_wide =
        wide.nbytes != nullptr || wide.stored_nbytes != nullptr || wide.header_offset != nullptr;
    if (is_wide && !read_wide_numbers(head + kCentralNbytes + name_nbytes, extra_nbytes, wide))
      return wrong(entry.name, Code::kCorrupt, "lacks its zip64 sizes");
    TENON_TRY(check_entry(entry, get16(head + 34)));
    at_ += nbytes;
    entries_.push_back(entry);
    return Status::ok();
  }

  Status check_entry(const ZipEntry& entry, uint16_t disk) {
    if (entry.name.size() > limits_.max_name_nbytes) {
      return over_limit(source_, "max_name_nbytes", limits_.max_name_nbytes, entry.name.size());
    }
    const bool is_folder = entry.name.ends_with('/');
    const std::string_view name =
        is_folder ? entry.name.substr(0, entry.name.size() - 1) : entry.name;
    if (const char* fault = find_name_fault(name); fault != nullptr && !is_extra_file(entry.name))
      return wrong(entry.name, Code::kCorrupt, format("has a name that %s", fault));
    if ((entry.flags & (kEncrypted | kStronglyEncrypted | kMasked)) != 0)
      return wrong(entry.name, Code::kUnsupported, "is encrypted");
    if ((entry.flags & kPatch) != 0 || (entry.method != kStored && entry.method != kDeflated))
      return wrong(
          entry.name, Code::kUnsupported,
          format("is compressed by method %u: only deflate is known", unsigned{entry.method}));
    if (disk != 0) return wrong(entry.name, Code::kCorrupt, "is on another disk");
    if (is_folder && entry.nbytes != 0)
      return wrong(entry.name, Code::kCorrupt, "is a directory with bytes of its own");
    if (entry.method == kStored && entry.nbytes != entry.stored_nbytes)
      return wrong(entry.name, Code::kCorrupt, "is not compressed and has two sizes");
    if (entry.method == kDeflated) return check_inflation(entry);
    return Status::ok();
  }

  // Counts the entry's inflated bytes towards max_inflated_nbytes. Refuses an entry that claims
  // more inflated bytes than deflate can make from its compressed ones. Also refuses many
  // compressed bytes for few inflated ones: deflate blocks without content would cost time and give
  // nothing.
  Status check_inflation(const ZipEntry& entry) {
    if (!checked_add(inflated_nbytes_, entry.nbytes, &inflated_nbytes_) ||
        inflated_nbytes_ > limits_.max_inflated_nbytes)
      return over_limit(source_, "max_inflated_nbytes", limits_.max_inflated_nbytes,
                        inflated_nbytes_);
    const bool too_dense = entry.nbytes / kMostInflation > entry.stored_nbytes;
    const bool too_thin = entry.stored_nbytes / 2 > entry.nbytes && entry.stored_nbytes > kThinUpTo;
    if (!too_dense && !too_thin) return Status::ok();
    return wrong(entry.name, Code::kCorrupt,
                 format("has %llu compressed bytes that cannot be %llu inflated ones",
                        static_cast<unsigned long long>(entry.stored_nbytes),
                        static_cast<unsigned long long>(entry.nbytes)));
  }

  Status take_prefix() {
    if (prefix_ == Prefix::kNone) return Status::ok();
    const std::string_view first = entries_.front().name;
    if (first.find('/') == std::string_view::npos) {
      if (prefix_ == Prefix::kOptional) return Status::ok();
      return wrong_entry(source_, first, directory_offset_, Code::kCorrupt,
                         "is not in a directory, as every record of an archive is. Give a file "
                         "that torch.jit.save or Tenon wrote");
    }
    result_.prefix = top_of(first);
    return Status::ok();
  }

  // Whether the entry lies in the folder result_.prefix. inner() removes the prefix from such a
  // name. Equal whole names have equal inner names, so a hash of the inner name finds twins too.
  bool is_inside(std::string_view name) const noexcept {
    const size_t nbytes = result_.prefix.size();
    if (nbytes == 0) return true;
    return name.size() > nbytes && name[nbytes] == '/' && name.starts_with(result_.prefix);
  }
  std::string_view inner(std::string_view name) const noexcept {
    return is_inside(name) && !result_.prefix.empty() ? name.substr(result_.prefix.size() + 1)
                                                      : name;
  }

  // Fills result_.by_name: the entries sorted by the hash of the inner name, and then by the whole
  // name. Equal names are neighbours then, and are refused with CORRUPT.
  Status sort_names() {
    std::vector<ZipDirectory::Key>& keys = result_.by_name;
    const auto name = [this](const ZipDirectory::Key& key) { return entries_[key.index].name; };
    const auto before = [&](const auto& a, const auto& b) {
      return a.hash != b.hash ? a.hash < b.hash : name(a) < name(b);
    };
    // Distributes the entries into about as many buckets as there are entries, by the first bits of
    // the hash, and then sorts each bucket.
    const auto bits =
        static_cast<unsigned>(std::clamp(static_cast<int>(std::bit_width(entries_.size())), 1, 20));
    const auto bucket = [bits](uint64_t hash) { return static_cast<size_t>(hash >> (64 - bits)); };
    std::vector<ZipDirectory::Key> unordered;
    unordered.reserve(entries_.size());
    std::vector<uint32_t> ends((size_t{1} << bits) + 1);
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      unordered.push_back({ZipDirectory::hash_of(inner(entries_[i].name)), i});
      ++ends[bucket(unordered.back().hash) + 1];
    }
    for (size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
    keys.resize(entries_.size());
    for (const ZipDirectory::Key& key : unordered) keys[ends[bucket(key.hash)]++] = key;
    for (size_t i = 0, begin = 0; i + 1 < ends.size(); begin = ends[i++]) {
      if (ends[i] - begin > 1)
        std::sort(keys.begin() + static_cast<ptrdiff_t>(begin), keys.begin() + ends[i], before);
    }
    const auto twice = std::ranges::adjacent_find(
        keys, [&](const auto& a, const auto& b) { return a.hash == b.hash && name(a) == name(b); });
    if (twice == keys.end()) return Status::ok();
    return wrong_entry(source_, name(*twice), directory_offset_, Code::kCorrupt,
                       "is in the directory twice");
  }

  // Makes the records from the entries. Folders and files outside of the prefix become none, and
  // leave by_name. The indexes in by_name become those of the records.
  void take_records() {
    constexpr auto kNone = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> place(entries_.size(), kNone);
    result_.records.reserve(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      const size_t before = result_.records.size();
      take_record(entries_[i]);
      if (result_.records.size() > before) place[i] = static_cast<uint32_t>(before);
    }
    std::erase_if(result_.by_name,
                  [&](const ZipDirectory::Key& key) { return place[key.index] == kNone; });
    for (ZipDirectory::Key& key : result_.by_name) key.index = place[key.index];
  }

  void take_record(const ZipEntry& entry) {
    ZipOddities& oddities = result_.oddities;
    if (entry.name.ends_with('/')) {
      ++oddities.folders;
      return;
    }
    if (!is_inside(entry.name)) {
      if (oddities.outside_prefix++ == 0) oddities.first_outside_prefix = entry.name;
      return;
    }
    ZipRecord record;
    record.name = inner(entry.name);
    record.central_offset = entry.central_offset;
    record.header_offset = entry.header_offset;
    record.data_offset = entry.data_offset;
    record.nbytes = entry.nbytes;
    record.stored_nbytes = entry.stored_nbytes;
    record.crc = entry.crc;
    record.deflated = entry.method == kDeflated;
    if (!record.has_crc() && oddities.without_crc++ == 0) oddities.first_without_crc = record.name;
    result_.records.push_back(record);
  }

  const ZipSource& source_;
  const ZipLimits& limits_;
  const Prefix prefix_;
  ZipDirectory result_;
  std::vector<ZipEntry> entries_;
  uint64_t directory_offset_ = 0;
  uint64_t at_ = 0;
  uint64_t inflated_nbytes_ = 0;
};

}  // namespace

Status wrong_entry(const ZipSource& source, std::string_view name, uint64_t offset, Code code,
                   const std::string& what) {
  std::string text(name);
  return Status(code, format("%s: record %.200s %s (byte %llu)", source.name().c_str(),
                             text.c_str(), what.c_str(), static_cast<unsigned long long>(offset)))
      .with("record", std::move(text))
      .with("offset", offset);
}

Result<ZipDirectory> read_zip_directory(const ZipSource& source, const ZipLimits& limits,
                                        Prefix prefix) {
  return DirectoryReader(source, limits, prefix).run();
}

}  // namespace tenon::archive
