// The tests of the zip reader build zip files by hand with RawZip. A test can set every field, also
// to a value that no writer would write.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "modules/archive/crc32.h"
#include "modules/archive/zip_layout.h"
#include "unit/archive/zip_kit.h"

namespace tenon::archive::test {

struct RawEntry {
  std::string name = {};
  std::string data = {};  // as the bytes lie in the file
  uint16_t flags = 0;
  uint16_t method = 0;
  std::string local_extra = {};
  std::string central_extra = {};
  std::string after = {};  // the bytes behind the data: a descriptor
  uint16_t disk = 0;
  // A field that is not set gets its right value.
  std::optional<std::string> local_name = {};
  std::optional<uint16_t> local_flags = {};
  std::optional<uint16_t> local_method = {};
  std::optional<uint32_t> local_signature = {};
  std::optional<uint32_t> central_signature = {};
  std::optional<uint32_t> local_crc = {};
  std::optional<uint32_t> local_stored = {};
  std::optional<uint32_t> local_nbytes = {};
  std::optional<uint16_t> local_extra_nbytes = {};
  std::optional<uint32_t> crc = {};
  std::optional<uint32_t> stored = {};
  std::optional<uint32_t> nbytes = {};
  std::optional<uint32_t> offset = {};
};

struct RawZip {
  std::vector<RawEntry> entries = {};
  std::string before = {};            // the bytes in front of the first record
  std::string before_directory = {};  // the bytes behind the last record
  std::string before_end = {};        // the bytes behind the directory
  std::string behind = {};            // the bytes behind the end record
  std::string end64 = {};  // both zip64 end records, which lie in front of the end record
  std::optional<uint16_t> count = {};
  std::optional<uint16_t> count_here = {};
  std::optional<uint16_t> disk = {};
  std::optional<uint32_t> directory_offset = {};
  std::optional<uint32_t> directory_nbytes = {};
  std::optional<uint16_t> comment_nbytes = {};

  template <typename Number>
  static void add(std::string* to, Number number) {
    to->append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  std::string text() const {
    std::string file = before;
    std::string directory;
    for (const RawEntry& entry : entries) {
      const auto offset = static_cast<uint32_t>(file.size());
      const uint32_t crc = entry.crc.value_or(crc32(0, entry.data.data(), entry.data.size()));
      const auto length = static_cast<uint32_t>(entry.data.size());
      const std::string local_name = entry.local_name.value_or(entry.name);
      add(&file, entry.local_signature.value_or(zip::kLocalSignature));
      add(&file, uint16_t{20});
      add(&file, entry.local_flags.value_or(entry.flags));
      add(&file, entry.local_method.value_or(entry.method));
      add(&file, uint32_t{0});
      add(&file, entry.local_crc.value_or(crc));
      add(&file, entry.local_stored.value_or(entry.stored.value_or(length)));
      add(&file, entry.local_nbytes.value_or(entry.nbytes.value_or(length)));
      add(&file, static_cast<uint16_t>(local_name.size()));
      add(&file,
          entry.local_extra_nbytes.value_or(static_cast<uint16_t>(entry.local_extra.size())));
      file += local_name + entry.local_extra + entry.data + entry.after;
      add(&directory, entry.central_signature.value_or(zip::kCentralSignature));
      add(&directory, uint16_t{20});
      add(&directory, uint16_t{20});
      add(&directory, entry.flags);
      add(&directory, entry.method);
      add(&directory, uint32_t{0});
      add(&directory, crc);
      add(&directory, entry.stored.value_or(length));
      add(&directory, entry.nbytes.value_or(length));
      add(&directory, static_cast<uint16_t>(entry.name.size()));
      add(&directory, static_cast<uint16_t>(entry.central_extra.size()));
      add(&directory, uint16_t{0});
      add(&directory, entry.disk);
      add(&directory, uint16_t{0});
      add(&directory, uint32_t{0});
      add(&directory, entry.offset.value_or(offset));
      directory += entry.name + entry.central_extra;
    }
    file += before_directory;
    const auto offset = static_cast<uint32_t>(file.size());
    file += directory + before_end + end64;
    add(&file, zip::kEndSignature);
    add(&file, disk.value_or(0));
    add(&file, disk.value_or(0));
    add(&file, count_here.value_or(count.value_or(static_cast<uint16_t>(entries.size()))));
    add(&file, count.value_or(static_cast<uint16_t>(entries.size())));
    add(&file, directory_nbytes.value_or(static_cast<uint32_t>(directory.size())));
    add(&file, directory_offset.value_or(offset));
    add(&file, comment_nbytes.value_or(static_cast<uint16_t>(behind.size())));
    return file + behind;
  }

  Bytes bytes() const {
    const std::string all = text();
    const auto span = view_of(all);
    return {span.begin(), span.end()};
  }
};

// Returns the bytes of a data descriptor.
inline std::string descriptor(uint32_t crc, uint64_t stored, uint64_t nbytes, bool signature = true,
                              bool wide = false) {
  std::string text = {};
  if (signature) RawZip::add(&text, zip::kDescriptorSignature);
  RawZip::add(&text, crc);
  for (const uint64_t number : {stored, nbytes}) {
    if (wide) {
      RawZip::add(&text, number);
    } else {
      RawZip::add(&text, static_cast<uint32_t>(number));
    }
  }
  return text;
}

// Returns the bytes of a zip64 extra field.
inline std::string wide_field(const std::vector<uint64_t>& numbers,
                              std::optional<uint16_t> length = {}) {
  std::string text = {};
  RawZip::add(&text, zip::kZip64Extra);
  RawZip::add(&text, length.value_or(static_cast<uint16_t>(numbers.size() * 8)));
  for (const uint64_t number : numbers) RawZip::add(&text, number);
  return text;
}

struct RawEnd64 {
  uint64_t entries = 0;
  uint64_t directory_nbytes = 0;
  uint64_t directory_offset = 0;
  uint64_t offset = 0;  // the offset of this record
  uint64_t size = 44;
  uint32_t signature = zip::kEnd64Signature;
  uint32_t disk = 0;
  uint32_t disks = 1;

  std::string text() const {
    std::string text;
    RawZip::add(&text, signature);
    RawZip::add(&text, size);
    RawZip::add(&text, uint32_t{0x002D002D});
    RawZip::add(&text, disk);
    RawZip::add(&text, disk);
    RawZip::add(&text, entries);
    RawZip::add(&text, entries);
    RawZip::add(&text, directory_nbytes);
    RawZip::add(&text, directory_offset);
    RawZip::add(&text, zip::kLocatorSignature);
    RawZip::add(&text, uint32_t{0});
    RawZip::add(&text, offset);
    RawZip::add(&text, disks);
    return text;
  }
};

}  // namespace tenon::archive::test
