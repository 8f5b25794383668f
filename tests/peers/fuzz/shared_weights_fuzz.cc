// libFuzzer target: it decodes any bytes as a packet of shared weights. This must end in a refusal
// or in a packet whose numbers are sound, and which encodes to the very same bytes.
#include <cstdint>
#include <cstring>
#include <vector>

#include "modules/shared_weights/packets.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::shared_weights;

using Bytes = std::vector<std::byte>;

Bytes encode_again(const Packet& packet) {
  switch (packet.kind) {
    case PacketKind::kHello: return encode_packet(packet.hello);
    case PacketKind::kProgress: return encode_packet(packet.progress);
    case PacketKind::kRefused: return encode_packet(packet.refused);
    case PacketKind::kNewest: return encode_packet(packet.newest);
    case PacketKind::kWeights:
    case PacketKind::kStatus: break;
  }
  return encode_packet(packet.kind, packet.facts);
}

void check_packet(const Bytes& bytes) {
  Result<Packet> decoded = decode_packet(bytes);
  if (!decoded.is_ok()) {
    fuzz::require_refusal(decoded.status(), {Code::kCorrupt, Code::kIncompatible});
    return;
  }
  const Packet& packet = decoded.value();
  const Facts& facts = packet.facts;
  if (packet.kind == PacketKind::kWeights) {
    require(facts.segment_nbytes > 0 && facts.file_offset <= facts.segment_nbytes &&
                facts.file_nbytes() <= facts.segment_nbytes - facts.file_offset,
            "a file outside its segment");
  }
  require(facts.label.size() <= kMaxLabelNbytes, "a label that is too long");
  require(packet.progress.done <= packet.progress.total, "more is done than there is");
  require(encode_again(packet) == bytes, "encoded it has other bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const Bytes bytes(begin, begin + size);
  check_packet(bytes);
  // Sets the head, because no fuzzer guesses it.
  if (size < 16) return 0;
  Bytes fixed = bytes;
  const auto nbytes = static_cast<uint32_t>(size);
  std::memcpy(fixed.data(), "TNSW\x01\x00", 6);
  std::memcpy(fixed.data() + 8, &nbytes, sizeof nbytes);
  std::memset(fixed.data() + 12, 0, 4);
  check_packet(fixed);
  return 0;
}
