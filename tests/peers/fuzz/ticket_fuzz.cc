// libFuzzer target: it decodes any bytes as a ticket or as the record of a storage. This must end
// in an error or in a sound content. An accepted record encodes to bytes that decode to the same
// record. An accepted ticket encodes to the very same bytes.
#include <libdeflate.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "channel/ticket.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::channel;

using Bytes = std::vector<std::byte>;

constexpr size_t kHeaderNbytes = 64;

void check_refusal(const Status& status) {
  fuzz::require_refusal(status, {Code::kCorrupt, Code::kIncompatible});
}

void check_ticket(const Bytes& bytes) {
  size_t used = 0;
  Result<Ticket> result = decode_ticket(bytes, &used);
  if (!result.is_ok()) return check_refusal(result.status());
  const Ticket& ticket = result.value();
  require(used >= kHeaderNbytes && used % 8 == 0 && used <= bytes.size(), "a length that is none");
  const std::string& path = ticket.rendezvous;
  require(!path.empty() && path.size() <= kMostRendezvousNbytes && path[0] == '/' &&
              path.find('\0') == std::string::npos,
          "a path that is none");
  bool in_tokens = false;
  for (const Thing& thing : ticket.things) {
    require(thing.serial != 0, "a thing without a serial");
    require(thing.kind == ThingKind::kSegment || thing.kind == ThingKind::kToken,
            "a kind that is none");
    require(!in_tokens || thing.kind == ThingKind::kToken, "a segment behind a token");
    in_tokens = thing.kind == ThingKind::kToken;
  }
  const std::span<const std::byte> rest = std::span(bytes).subspan(used);
  const Bytes again = encode_ticket(ticket, rest);
  require(again == bytes, "encoded it has other bytes");
}

void check_record(const Bytes& bytes) {
  Result<StorageTicket> result = decode_storage_ticket(bytes);
  if (!result.is_ok()) return check_refusal(result.status());
  const StorageTicket& record = result.value();
  require(record.offset <= record.segment_nbytes &&
              record.nbytes <= record.segment_nbytes - record.offset,
          "bytes outside their segment");
  require((record.nbytes == 0) == (record.segment.serial == 0),
          "bytes of no segment, or a segment of no bytes");
  require(record.access >= 1 && record.access <= 2 && record.mode <= 2,
          "an access or a mode that is none");
  for (const Thing& token : record.tokens)
    require(token.kind == ThingKind::kToken && token.serial != 0, "a token that is none");
  require(encode_storage_ticket(record) == bytes, "encoded it gives other bytes");
}

// Sets lengths and a checksum that fit, because no fuzzer guesses these.
Bytes fixed(Bytes bytes) {
  uint32_t n_slots = 0;
  uint32_t n_things = 0;
  uint32_t path_nbytes = 0;
  std::memcpy(&n_slots, bytes.data() + 48, sizeof n_slots);
  std::memcpy(&n_things, bytes.data() + 52, sizeof n_things);
  std::memcpy(&path_nbytes, bytes.data() + 56, sizeof path_nbytes);
  const uint64_t slots = (kHeaderNbytes + uint64_t{path_nbytes} + 7) / 8 * 8;
  const uint64_t nbytes = (slots + uint64_t{n_slots} * 4 + 7) / 8 * 8 + uint64_t{n_things} * 16;
  if (nbytes > bytes.size()) return bytes;
  const auto narrow = static_cast<uint32_t>(nbytes);
  const uint16_t version = 1;
  std::memcpy(bytes.data(), "TnT1", 4);
  std::memcpy(bytes.data() + 4, &version, sizeof version);
  std::memcpy(bytes.data() + 8, &narrow, sizeof narrow);
  std::memset(bytes.data() + 12, 0, 4);
  const uint32_t sum = libdeflate_crc32(0, bytes.data(), nbytes);
  std::memcpy(bytes.data() + 12, &sum, sizeof sum);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const Bytes bytes(begin, begin + size);
  check_ticket(bytes);
  check_record(bytes);
  if (size >= kHeaderNbytes) check_ticket(fixed(bytes));
  return 0;
}
