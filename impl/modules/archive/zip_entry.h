// An entry of a zip file's directory while it is checked, and the checks of the local header and
// the data descriptor that belong to it. zip_directory.cc uses them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/archive/zip_source.h"

namespace tenon::archive {

struct ZipEntry {
  std::string_view name;  // with the prefix, as in the directory
  uint64_t central_offset = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;  // only the local header tells it
  uint64_t nbytes = 0;
  uint64_t stored_nbytes = 0;
  uint32_t crc = 0;
  uint16_t flags = 0;
  uint16_t method = 0;
};

// Makes an error that names the entry and the offset in the file at which the fault is seen. `what`
// follows the entry's name in the message.
Status wrong_entry(const ZipSource& source, std::string_view name, uint64_t offset, Code code,
                   const std::string& what);

// Checks that local headers and data descriptors agree with the directory, that all of them and the
// records' bytes lie before the directory, and that no two records overlap. Fills in data_offset of
// each entry. An error is CORRUPT, as wrong_entry() makes it, or one of ZipSource::read().
Status check_local_headers(const ZipSource& source, uint64_t directory_offset,
                           std::vector<ZipEntry>* entries);

// The places in which read_wide_numbers() stores the numbers of a zip64 extra field: uncompressed
// size, compressed size, offset. The field contains a number only if the short field of that number
// asks for it. A null pointer means that it does not.
struct ZipWideNumbers {
  uint64_t* nbytes = nullptr;
  uint64_t* stored_nbytes = nullptr;
  uint64_t* header_offset = nullptr;
};
// Reads the wanted numbers from the zip64 field among `extra`. False if that field is missing or
// too short, or if the extra fields are malformed.
bool read_wide_numbers(const std::byte* extra, uint64_t extra_nbytes,
                       const ZipWideNumbers& wanted) noexcept;

}  // namespace tenon::archive
