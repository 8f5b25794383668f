// An entry of a zip file's directory while it is checked, and the checks of what it leads to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "archive/zip_source.h"
#include "base/status.h"

namespace tenon::archive {

struct ZipEntry {
  std::string_view name;  // whole, as in the directory
  uint64_t central_offset = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;  // known from the local header only
  uint64_t nbytes = 0;
  uint64_t stored_nbytes = 0;
  uint32_t crc = 0;
  uint16_t flags = 0;
  uint16_t method = 0;
};

// An error that names the entry, and the offset in the file where it is seen.
Status wrong_entry(const ZipSource& source, std::string_view name, uint64_t offset, Code code,
                   const std::string& what);

// Local headers and data descriptors say what the directory says, and all lie before the directory,
// none over another. Fills in data_offset.
Status check_local_headers(const ZipSource& source, uint64_t directory_offset,
                           std::vector<ZipEntry>* entries);

// The numbers of a zip64 extra field among `extra`, each of which is there only if its short one
// asks for it: uncompressed size, compressed size, offset. False if the field is missing or too
// short, or if the extra fields are no fields.
struct ZipWideNumbers {
  uint64_t* nbytes = nullptr;
  uint64_t* stored_nbytes = nullptr;
  uint64_t* header_offset = nullptr;
};
bool read_wide_numbers(const std::byte* extra, uint64_t extra_nbytes,
                       const ZipWideNumbers& wanted) noexcept;

}  // namespace tenon::archive
