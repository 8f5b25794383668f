#include "modules/flatbuffer/storage_ranges.h"

#ifdef TENON_HAS_FLATBUFFERS

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "modules/flatbuffer/generated.h"

namespace tenon::flatbuffer {

using Range = archive::ZipReader::Range;

namespace {

constexpr uint64_t kSmallStorageNbytes = 4096;
// A file may have only a limited number of bytes that are no storages, and small storages count as
// such bytes. So together they have at most this part of the limit.
constexpr uint64_t kPartOfLimit = 256;

// Follows the offsets of a flatbuffer. A function that returns a place returns 0 if there is none.
class Scout {
 public:
  using ReadAt = std::function<bool(uint64_t offset, void* to, uint64_t nbytes)>;
  Scout(uint64_t nbytes, ReadAt read_at) : nbytes_(nbytes), read_at_(std::move(read_at)) {}

  uint64_t root() const { return follow(0); }
  // Returns the place to which the offset at `at` points.
  uint64_t follow(uint64_t at) const {
    const std::optional<uint32_t> offset = number(at);
    return offset && *offset != 0 && at + *offset < nbytes_ ? at + *offset : 0;
  }
  // Returns the table that is an item of a vector of tables.
  uint64_t item(uint64_t vector, uint64_t index) const { return follow(vector + 4 + 4 * index); }
  // Returns the place of the field in `table` whose offset is at `place` of the vtable.
  uint64_t field(uint64_t table, uint16_t place) const {
    const std::optional<uint32_t> back = number(table);
    if (!back) return 0;
    const auto vtable =
        static_cast<uint64_t>(static_cast<int64_t>(table) - static_cast<int32_t>(*back));
    uint16_t size = 0;
    uint16_t offset = 0;
    if (!read(vtable, &size) || place >= size || !read(vtable + place, &offset) || offset == 0)
      return 0;
    return table + offset;
  }
  // Returns the table, vector or text to which such a field points.
  uint64_t pointed(uint64_t table, uint16_t place) const {
    const uint64_t at = field(table, place);
    return at == 0 ? 0 : follow(at);
  }
  // Returns the number of bytes or items of a vector. 0 if there is no vector, or if the file has
  // no room for that many.
  uint64_t count(uint64_t vector) const {
    const std::optional<uint32_t> count = vector == 0 ? std::nullopt : number(vector);
    return count && *count <= nbytes_ - vector - 4 ? *count : 0;
  }
  uint8_t byte(uint64_t at) const {
    uint8_t value = 0;
    return read(at, &value) ? value : 0;
  }

 private:
  template <typename T>
  bool read(uint64_t at, T* out) const {
    if (at > nbytes_ || nbytes_ - at < sizeof(T) || !read_at_(at, out, sizeof(T))) return false;
    *out = ::flatbuffers::EndianScalar(*out);
    return true;
  }
  std::optional<uint32_t> number(uint64_t at) const {
    uint32_t value = 0;
    return read(at, &value) ? std::optional(value) : std::nullopt;
  }

  uint64_t nbytes_;
  ReadAt read_at_;
};

// Reads a file through a few windows that it keeps, because each storage needs several numbers that
// lie close together, and a system call for each number takes most of the time.
class Windows {
 public:
  explicit Windows(const archive::ZipSource& source) noexcept : source_(source) {}

  // The caller has checked that the bytes are in the file.
  bool read(uint64_t offset, void* to, uint64_t count) {
    const uint64_t number = offset / kWindowNbytes;
    const uint64_t within = offset % kWindowNbytes;
    if (within + count > kWindowNbytes) return source_.read(offset, to, count).is_ok();
    Window& window = windows_[number % windows_.size()];
    if (window.number != number) {
      const uint64_t first = number * kWindowNbytes;
      window.number = kNoNumber;
      const uint64_t nbytes = std::min(kWindowNbytes, source_.nbytes() - first);
      if (!source_.read(first, window.bytes.data(), nbytes).is_ok()) return false;
      window.number = number;
    }
    std::memcpy(to, window.bytes.data() + within, count);
    return true;
  }

 private:
  static constexpr uint64_t kWindowNbytes = 512;
  static constexpr uint64_t kNoNumber = UINT64_MAX;
  struct Window {
    uint64_t number = kNoNumber;
    std::array<std::byte, kWindowNbytes> bytes;
  };

  const archive::ZipSource& source_;
  std::array<Window, 16> windows_;
};

}  // namespace

std::vector<Range> likely_storages(const archive::ZipSource& source, uint64_t most_nbytes) {
  Windows windows(source);
  const Scout scout(source.nbytes(), [&](uint64_t offset, void* to, uint64_t count) {
    return windows.read(offset, to, count);
  });
  std::vector<Range> found;
  const uint64_t vector = scout.pointed(scout.root(), form::Module::VT_STORAGE_DATA);
  const uint64_t count =
      std::min(scout.count(vector), std::min(source.nbytes(), most_nbytes) / sizeof(uint32_t));
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t data = scout.pointed(scout.item(vector, i), form::StorageData::VT_DATA);
    if (const uint64_t size = scout.count(data); size != 0)
      found.push_back({data + sizeof(uint32_t), size});
  }
  std::ranges::sort(found, {}, &Range::offset);
  // One read of a small storage with its neighbours takes less time than two reads beside it.
  const auto is_small = [](const Range& range) { return range.nbytes < kSmallStorageNbytes; };
  uint64_t small_nbytes = 0;
  for (const Range& range : found) small_nbytes += is_small(range) ? range.nbytes : 0;
  if (small_nbytes <= most_nbytes / kPartOfLimit) std::erase_if(found, is_small);
  std::vector<Range> joined;
  for (const Range& range : found) {
    if (joined.empty() || joined.back().offset + joined.back().nbytes < range.offset) {
      joined.push_back(range);
    } else {
      joined.back().nbytes =
          std::max(joined.back().offset + joined.back().nbytes, range.offset + range.nbytes) -
          joined.back().offset;
    }
  }
  return joined;
}

bool has_shared_texts(std::span<const std::byte> file, uint64_t own_nbytes) {
  const Scout scout(file.size(), [file](uint64_t offset, void* to, uint64_t count) {
    std::memcpy(to, file.data() + offset, count);
    return true;
  });
  const uint64_t most = own_nbytes / sizeof(uint32_t);
  uint64_t left = most;
  const auto takes = [&left](uint64_t count) {
    if (count > left) return false;
    left -= count;
    return true;
  };
  const uint64_t root = scout.root();
  const uint64_t values = scout.pointed(root, form::Module::VT_IVALUES);
  const uint64_t value_count = std::min(scout.count(values), most);
  for (uint64_t i = 0; i < value_count; ++i) {
    const uint64_t value = scout.item(values, i);
    const uint64_t type = scout.field(value, form::IValue::VT_VAL_TYPE);
    if (type == 0 || scout.byte(type) != static_cast<uint8_t>(form::IValueUnion::Function))
      continue;
    const uint64_t function = scout.pointed(value, form::IValue::VT_VAL);
    if (!takes(scout.count(scout.pointed(function, form::Function::VT_TYPE_ANNOTATIONS))))
      return true;
  }
  const uint64_t classes = scout.pointed(root, form::Module::VT_OBJECT_TYPES);
  const uint64_t class_count = std::min(scout.count(classes), most);
  for (uint64_t i = 0; i < class_count; ++i) {
    if (!takes(scout.count(scout.pointed(scout.item(classes, i), form::ObjectType::VT_ATTR_NAMES))))
      return true;
  }
  return false;
}

}  // namespace tenon::flatbuffer

#endif
