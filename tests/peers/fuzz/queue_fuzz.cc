// libFuzzer target: it reads any bytes as what another member of a queue can write: the header of
// the queue's memory, a lane's address, a slot, and the short form of a message. This must end in
// an error or in a sound content.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peers/fuzz/require.h"
#include "queue/page.h"
#include "queue/short_form.h"

namespace {

using namespace tenon;
using fuzz::require;
namespace page = queue::page;

void check_queue_header(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(page::Header)> header{};
  std::memcpy(header.data(), bytes.data(), std::min(bytes.size(), header.size()));
  const uint64_t nbytes = bytes.size() * 1024;
  Result<page::Geometry> geometry = page::read_header(header, nbytes);
  if (!geometry.is_ok())
    return fuzz::require_refusal(geometry.status(), {Code::kCorrupt, Code::kIncompatible});
  require(page::check_geometry(geometry.value()).is_ok() && geometry.value().nbytes() <= nbytes,
          "a geometry that does not fit");
}

void check_lane_address(std::span<const std::byte> bytes) {
  page::LaneHeader lane{};
  std::array<uint64_t, sizeof(page::LaneHeader) / sizeof(uint64_t)> words{};
  std::memcpy(words.data(), bytes.data(), std::min(bytes.size(), sizeof words));
  lane.address_number.store(static_cast<uint32_t>(words[8]));
  for (size_t i = 0; i < lane.address.size(); ++i) lane.address[i].store(words[9 + i]);
  Result<std::optional<channel::Ticket>> address =
      queue::read_address(lane, lane.address_number.load());
  if (!address.is_ok()) return fuzz::require_refusal(address.status(), {Code::kCorrupt});
  if (!address.value()) return;
  const std::string& path = address.value()->rendezvous;
  require(!path.empty() && path.size() <= channel::kMostRendezvousNbytes && path[0] == '/' &&
              path.find('\0') == std::string::npos,
          "a path that is none");
}

void check_slot(std::span<const std::byte> bytes) {
  constexpr page::Geometry kSlots{1, 2, 256};
  std::array<page::Word, 32> slot{};
  for (size_t i = 0; i < slot.size() && bytes.size() >= (i + 1) * 8; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * 8, sizeof word);
    slot[i].store(word);
  }
  std::vector<std::byte> out(kSlots.room());
  page::Kind kind = page::Kind::kTicket;
  const uint32_t nbytes = page::copy(slot.data(), kSlots.room(), &kind, out.data());
  require(nbytes == UINT32_MAX || nbytes <= kSlots.room(), "more bytes than a slot has");
}

void check_short_form(std::span<const std::byte> bytes) {
  Result<queue::ShortForm> decoded = queue::decode_short(bytes);
  if (!decoded.is_ok()) return fuzz::require_refusal(decoded.status(), {Code::kCorrupt});
  const queue::ShortForm& form = decoded.value();
  require(form.ndim <= queue::kShortDims && form.user.size() <= queue::kShortUserNbytes,
          "more dimensions or bytes of the user than a short form has");
  require(form.storage.segment.serial != 0, "a segment without a serial");
  const tensor::Layout layout = form.layout();
  require(layout.sizes.size() == form.ndim && layout.strides.size() == form.ndim,
          "a layout of other dimensions");
  require(bytes.size() == queue::kShortHeadNbytes + form.ndim * 16 + form.user.size(),
          "bytes that nothing was read from");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + nbytes);
  if (bytes.empty()) return 0;
  check_queue_header(bytes);
  check_lane_address(bytes);
  check_slot(bytes);
  check_short_form(bytes);
  return 0;
}
