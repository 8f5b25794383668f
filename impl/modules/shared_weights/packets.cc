#include "modules/shared_weights/packets.h"

#include <bit>
#include <concepts>
#include <string_view>

#include "tensor/name.h"

namespace tenon::shared_weights {
namespace {

constexpr uint32_t kMagic = 0x57534e54;  // "TNSW"
constexpr uint16_t kFormat = 1;
constexpr size_t kHeadNbytes = 16;
// The flag of `weights` of a version after the first. A Tenon that knows one version only refuses
// it, because such a process could later serve its version in place of a newer one.
constexpr uint32_t kIsLaterVersion = 1;
// The flags of `weights` and `status` that say what the memory is: one flag for each kind but
// kFrozen.
constexpr uint32_t kMemoryFlags = 0xe;

uint32_t memory_flag(MemoryKind kind) noexcept {
  return kind == MemoryKind::kFrozen ? 0 : uint32_t{1} << static_cast<uint32_t>(kind);
}

// Nothing for two flags at once.
std::optional<MemoryKind> memory_kind(uint32_t flags) noexcept {
  for (uint32_t kind = 0; kind < kMemoryKinds; ++kind) {
    if ((flags & kMemoryFlags) == memory_flag(static_cast<MemoryKind>(kind)))
      return static_cast<MemoryKind>(kind);
  }
  return std::nullopt;
}

// The flags that a packet of this kind may have.
uint32_t known_flags(PacketKind kind) noexcept {
  if (kind == PacketKind::kWeights) return kIsLaterVersion | kMemoryFlags;
  return kind == PacketKind::kStatus ? kMemoryFlags : 0;
}

template <std::integral Number>
void put(std::vector<std::byte>* out, Number number) {
  using Bits = std::make_unsigned_t<Number>;
  const auto bits = static_cast<Bits>(number);
  for (size_t i = 0; i < sizeof(Bits); ++i)
    out->push_back(static_cast<std::byte>(static_cast<uint8_t>(bits >> (8 * i))));
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  // 0 beyond the end, and then is_whole() is false.
  template <std::integral Number>
  Number take() noexcept {
    using Bits = std::make_unsigned_t<Number>;
    if (bytes_.size() - at_ < sizeof(Bits)) {
      at_ = bytes_.size();
      is_cut_ = true;
      return 0;
    }
    Bits bits = 0;
    for (size_t i = 0; i < sizeof(Bits); ++i)
      bits = static_cast<Bits>(bits |
                               static_cast<Bits>(std::to_integer<Bits>(bytes_[at_++]) << (8 * i)));
    return static_cast<Number>(bits);
  }
  std::string take_text(size_t nbytes) {
    if (bytes_.size() - at_ < nbytes) {
      is_cut_ = true;
      return {};
    }
    const auto* const first = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += nbytes;
    return {first, nbytes};
  }
  bool is_whole() const noexcept { return !is_cut_ && at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool is_cut_ = false;
};

std::vector<std::byte> begin_packet(PacketKind kind, uint32_t flags = 0) {
  std::vector<std::byte> out;
  out.reserve(128);
  put(&out, kMagic);
  put(&out, kFormat);
  put(&out, static_cast<uint16_t>(kind));
  put(&out, uint32_t{0});  // the size, which end_packet() sets
  put(&out, flags);
  return out;
}

std::vector<std::byte> end_packet(std::vector<std::byte> out) {
  const size_t nbytes = out.size();
  for (size_t i = 0; i < 4; ++i)
    out[8 + i] = static_cast<std::byte>(static_cast<uint8_t>(nbytes >> (8 * i)));
  return out;
}

void put_file(std::vector<std::byte>* out, const FileIdentity& file) {
  put(out, file.nbytes);
  put(out, file.mtime_ns);
  put(out, file.head_crc);
}

FileIdentity take_file(Cursor* from) noexcept {
  FileIdentity file;
  file.nbytes = from->take<uint64_t>();
  file.mtime_ns = from->take<int64_t>();
  file.head_crc = from->take<uint64_t>();
  return file;
}

void put_label(std::vector<std::byte>* out, std::string_view label) {
  // A label that is cut in the middle of a character would not be UTF-8.
  if (label.size() > kMaxLabelNbytes || !tensor::is_utf8(label)) label = "a file";
  put(out, static_cast<uint32_t>(label.size()));
  for (const char each : label) out->push_back(static_cast<std::byte>(each));
}

Status wrong(const char* field) {
  return Status(Code::kCorrupt, format("a packet of shared weights has a wrong %s", field))
      .with("field", field);
}

Result<std::string> take_label(Cursor* from) {
  const auto nbytes = from->take<uint32_t>();
  if (nbytes > kMaxLabelNbytes) return wrong("label");
  std::string label = from->take_text(nbytes);
  const bool is_text = tensor::is_utf8(label) && label.find('\0') == std::string::npos;
  if (!is_text) return wrong("label");
  return label;
}

Result<Hello> take_hello(Cursor* from) {
  Hello hello;
  const auto want = from->take<uint32_t>();
  if (want < static_cast<uint32_t>(Want::kWeights) || want > static_cast<uint32_t>(Want::kPublish))
    return wrong("want");
  hello.want = static_cast<Want>(want);
  const auto has_file = from->take<uint32_t>();
  if (has_file > 1) return wrong("has_file");
  const FileIdentity file = take_file(from);
  if (has_file == 0 && file != FileIdentity{}) return wrong("file");
  if (has_file == 1) hello.file = file;
  hello.version = from->take<uint64_t>();
  return hello;
}

Result<Facts> take_facts(Cursor* from, bool with_memory, MemoryKind memory) {
  Facts facts;
  facts.memory = memory;
  facts.file = take_file(from);
  facts.segment_nbytes = from->take<uint64_t>();
  facts.file_offset = from->take<uint64_t>();
  facts.version = from->take<uint64_t>();
  facts.loader_pid = from->take<int32_t>();
  facts.holders = from->take<uint32_t>();
  TENON_ASSIGN(facts.label, take_label(from));
  // The file lies inside the segment. A status of a server that still loads has no segment.
  const bool is_loading = !with_memory && facts.segment_nbytes == 0;
  if (!is_loading && (facts.file_offset >= facts.segment_nbytes ||
                      facts.file_nbytes() > facts.segment_nbytes - facts.file_offset))
    return wrong("segment_nbytes");
  return facts;
}

}  // namespace

std::vector<std::byte> encode_packet(const Hello& hello) {
  std::vector<std::byte> out = begin_packet(PacketKind::kHello);
  put(&out, static_cast<uint32_t>(hello.want));
  put(&out, uint32_t{hello.file ? 1U : 0U});
  put_file(&out, hello.file.value_or(FileIdentity{}));
  put(&out, hello.version);
  return end_packet(std::move(out));
}

std::vector<std::byte> encode_packet(const Progress& progress) {
  std::vector<std::byte> out = begin_packet(PacketKind::kProgress);
  put(&out, progress.done);
  put(&out, progress.total);
  return end_packet(std::move(out));
}

std::vector<std::byte> encode_packet(const Newest& newest) {
  std::vector<std::byte> out = begin_packet(PacketKind::kNewest);
  put(&out, newest.version);
  return end_packet(std::move(out));
}

std::vector<std::byte> encode_packet(PacketKind kind, const Facts& facts) {
  const bool is_later = kind == PacketKind::kWeights && facts.version > kFirstVersion;
  std::vector<std::byte> out =
      begin_packet(kind, (is_later ? kIsLaterVersion : 0) | memory_flag(facts.memory));
  put_file(&out, facts.file);
  put(&out, facts.segment_nbytes);
  put(&out, facts.file_offset);
  put(&out, facts.version);
  put(&out, facts.loader_pid);
  put(&out, facts.holders);
  put_label(&out, facts.label);
  return end_packet(std::move(out));
}

std::vector<std::byte> encode_packet(const Refused& refused) {
  std::vector<std::byte> out = begin_packet(PacketKind::kRefused);
  put(&out, static_cast<uint32_t>(refused.why));
  put(&out, uint32_t{0});
  put_file(&out, refused.file);
  put_label(&out, refused.label);
  return end_packet(std::move(out));
}

Result<Packet> decode_packet(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadNbytes || bytes.size() > kMaxPacketNbytes) return wrong("size");
  Cursor head(bytes.first(kHeadNbytes));
  if (head.take<uint32_t>() != kMagic) return wrong("magic");
  if (const auto version = head.take<uint16_t>(); version != kFormat) {
    if (version < kFormat) return wrong("format");
    return Status(Code::kIncompatible,
                  format("a packet of shared weights has format %u, and this library reads %u: use "
                         "one version of Tenon in all processes that share weights",
                         unsigned{version}, unsigned{kFormat}))
        .with("version", format("%u", unsigned{version}));
  }
  const auto kind = head.take<uint16_t>();
  if (head.take<uint32_t>() != bytes.size()) return wrong("size");
  const auto flags = head.take<uint32_t>();
  const bool has_memory = static_cast<PacketKind>(kind) == PacketKind::kWeights;
  if ((flags & ~known_flags(static_cast<PacketKind>(kind))) != 0) {
    return Status(Code::kIncompatible,
                  format("a packet of shared weights has flags 0x%x, which this library does not "
                         "know: use one version of Tenon in all processes that share weights",
                         unsigned{flags}))
        .with("field", "flags");
  }
  Packet packet;
  Cursor body(bytes.subspan(kHeadNbytes));
  switch (static_cast<PacketKind>(kind)) {
    case PacketKind::kHello: {
      TENON_ASSIGN(packet.hello, take_hello(&body));
      break;
    }
    case PacketKind::kProgress:
      packet.progress.done = body.take<uint64_t>();
      packet.progress.total = body.take<uint64_t>();
      if (packet.progress.done > packet.progress.total) return wrong("done");
      break;
    case PacketKind::kWeights:
    case PacketKind::kStatus: {
      const std::optional<MemoryKind> memory = memory_kind(flags);
      if (!memory) return wrong("flags");
      TENON_ASSIGN(packet.facts, take_facts(&body, has_memory, *memory));
      if (has_memory && (packet.facts.version > kFirstVersion) != ((flags & kIsLaterVersion) != 0))
        return wrong("version");
      break;
    }
    case PacketKind::kRefused: {
      const auto why = body.take<uint32_t>();
      if (why < static_cast<uint32_t>(Refusal::kUser) ||
          why > static_cast<uint32_t>(Refusal::kVersion))
        return wrong("reason");
      packet.refused.why = static_cast<Refusal>(why);
      if (body.take<uint32_t>() != 0) return wrong("reserved");
      packet.refused.file = take_file(&body);
      TENON_ASSIGN(packet.refused.label, take_label(&body));
      break;
    }
    case PacketKind::kNewest: packet.newest.version = body.take<uint64_t>(); break;
    default: return wrong("kind");
  }
  if (!body.is_whole()) return wrong("size");
  packet.kind = static_cast<PacketKind>(kind);
  return packet;
}

}  // namespace tenon::shared_weights
