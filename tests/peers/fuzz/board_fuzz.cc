// libFuzzer target: it decodes any bytes as a board, also when they change between two readings.
// Decoding must end in an error or in rows that the board has.
#include <cstdint>
#include <cstring>
#include <vector>

#include "memory/board_image.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::memory;

void check(const std::vector<std::byte>& bytes, uint64_t file_nbytes) {
  Result<uint64_t> nbytes = board_image_nbytes(bytes, file_nbytes);
  if (!nbytes.is_ok())
    return fuzz::require_refusal(nbytes.status(),
                                 {Code::kCorrupt, Code::kIncompatible, Code::kWouldBlock});
  const uint64_t wanted = nbytes.value();
  require(wanted <= file_nbytes && wanted % board::kRowNbytes == 0 && wanted >= board::kRowNbytes,
          "a length that is none");
  if (wanted > bytes.size()) return;
  const std::vector<std::byte> first(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(wanted));
  // The bytes after the first board are another reading of it.
  std::vector<std::byte> other = first;
  for (size_t i = 0; i < other.size() && wanted + i < bytes.size(); ++i)
    other[i] = bytes[wanted + i];
  const std::vector<std::byte>* const readings[] = {&first, &other};
  for (const auto* second : readings) {
    for (const auto* last : readings) {
      Result<BoardImage> image = decode_board(first, *second, *last);
      require(image.is_ok(), "the lengths are right, and it is refused");
      const BoardImage& found = image.value();
      require(
          found.arenas.size() + found.ledgers.size() + found.queues.size() + found.unknown_rows <
              wanted / board::kRowNbytes,
          "more rows than there are");
      for (const ArenaOnBoard& each : found.arenas) {
        require(static_cast<uint32_t>(each.mode) < kModes, "a mode that is none");
        require(each.free_nbytes <= each.reserved_nbytes, "more is free than there is");
      }
    }
  }
  require(!decode_board(first, first, std::span(first).subspan(1)).is_ok(),
          "lengths that differ are taken");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  check(bytes, size);
  // A fuzzer seldom guesses the header, so the same bytes are tried with one that fits.
  if (size >= 2 * board::kRowNbytes) {
    const uint64_t rows = size / board::kRowNbytes - 1;
    const auto narrow = static_cast<uint32_t>(rows);
    std::memcpy(bytes.data(), board::kMagic.data(), board::kMagic.size());
    std::memcpy(bytes.data() + 8, &board::kVersion, 4);
    std::memcpy(bytes.data() + 12, &board::kRowNbytes, 4);
    std::memset(bytes.data() + 16, 0, 8);
    std::memcpy(bytes.data() + 36, &narrow, 4);
    const uint64_t used = rows / 2;
    std::memcpy(bytes.data() + 56, &used, 8);
    check(bytes, (rows + 1) * board::kRowNbytes);
  }
  return 0;
}
