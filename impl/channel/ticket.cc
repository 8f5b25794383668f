#include "channel/ticket.h"

#include <libdeflate.h>

#include <cstring>

#include "base/checked.h"
#include "base/zeros.h"
#include "channel/lease_block.h"

namespace tenon::channel {
namespace {

struct TicketHeader {
  std::array<uint8_t, 4> magic;
  uint16_t version;
  uint16_t zero;
  uint32_t nbytes;  // bytes of the ticket without the descriptor; a multiple of 8
  uint32_t crc32;   // CRC-32 of these bytes, with 0 in this field
  DepotId depot;
  uint32_t message;
  uint32_t generation;
  uint32_t envelope;
  int32_t pid;
  uint32_t n_slots;
  uint32_t n_things;
  uint32_t rendezvous_nbytes;
  uint32_t zero_too;
};
struct WireThing {
  uint32_t number;
  uint32_t kind;
  uint64_t serial;
};
static_assert(sizeof(TicketHeader) == 64 && offsetof(TicketHeader, depot) == 16 &&
              offsetof(TicketHeader, n_slots) == 48);
static_assert(sizeof(WireThing) == 16);

struct WireStorage {
  uint32_t slot;
  uint32_t segment;
  uint64_t serial;
  uint64_t offset;
  uint64_t nbytes;
  uint64_t segment_nbytes;
  uint32_t access;
  uint32_t mode;
};
static_assert(sizeof(WireStorage) == 48);

constexpr std::array<uint8_t, 4> kTicketMagic = {'T', 'n', 'T', '1'};
constexpr uint16_t kVersion = 1;
// Each record of a descriptor has at least 16 bytes, so a descriptor of 64 MiB has no more records
// than this.
constexpr uint32_t kMostRecords = 4U << 20;

Status refuse_ticket(Code code, const char* what) {
  return Status(code, what).with("field", std::string("ticket"));
}

struct Places {
  uint64_t rendezvous;
  uint64_t slots;
  uint64_t things;
  uint64_t end;
};
// The sums cannot overflow, because the counts were bounded.
Places places_of(uint64_t rendezvous_nbytes, uint64_t n_slots, uint64_t n_things) noexcept {
  Places at{};
  at.rendezvous = sizeof(TicketHeader);
  at.slots = round_up(at.rendezvous + rendezvous_nbytes, 8);
  at.things = round_up(at.slots + n_slots * sizeof(uint32_t), 8);
  at.end = at.things + n_things * sizeof(WireThing);
  return at;
}

uint32_t checksum_of(TicketHeader header, std::span<const std::byte> ticket) noexcept {
  header.crc32 = 0;
  const uint32_t of_header = libdeflate_crc32(0, &header, sizeof header);
  const std::span<const std::byte> rest = ticket.subspan(sizeof header);
  return libdeflate_crc32(of_header, rest.data(), rest.size());
}

}  // namespace

std::vector<std::byte> encode_ticket(const Ticket& ticket, std::span<const std::byte> descriptor) {
  const Places at = places_of(ticket.rendezvous.size(), ticket.slots.size(), ticket.things.size());
  std::vector<std::byte> bytes(at.end + descriptor.size());
  TicketHeader header{};
  header.magic = kTicketMagic;
  header.version = kVersion;
  header.nbytes = static_cast<uint32_t>(at.end);
  header.depot = ticket.depot;
  header.message = ticket.message;
  header.generation = ticket.generation;
  header.envelope = ticket.envelope;
  header.pid = ticket.pid;
  header.n_slots = static_cast<uint32_t>(ticket.slots.size());
  header.n_things = static_cast<uint32_t>(ticket.things.size());
  header.rendezvous_nbytes = static_cast<uint32_t>(ticket.rendezvous.size());
  std::memcpy(bytes.data() + at.rendezvous, ticket.rendezvous.data(), ticket.rendezvous.size());
  if (!ticket.slots.empty())
    std::memcpy(bytes.data() + at.slots, ticket.slots.data(),
                ticket.slots.size() * sizeof(uint32_t));
  std::byte* to = bytes.data() + at.things;
  for (const Thing& thing : ticket.things) {
    const WireThing record{thing.number, static_cast<uint32_t>(thing.kind), thing.serial};
    std::memcpy(to, &record, sizeof record);
    to += sizeof record;
  }
  header.crc32 = checksum_of(header, std::span(bytes).first(at.end));
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!descriptor.empty()) std::memcpy(bytes.data() + at.end, descriptor.data(), descriptor.size());
  return bytes;
}

Result<Ticket> decode_ticket(std::span<const std::byte> bytes, size_t* used) {
  TicketHeader header;
  if (bytes.size() < sizeof header)
    return refuse_ticket(Code::kCorrupt, "a ticket that is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kTicketMagic)
    return refuse_ticket(Code::kCorrupt, "bytes that are no ticket");
  if (header.version != kVersion)
    return refuse_ticket(Code::kIncompatible,
                         "a ticket of another version: update Tenon where it is fetched");
  if (header.n_slots > kMostRecords || header.n_things > kMostRecords ||
      header.rendezvous_nbytes > kMostRendezvousNbytes)
    return refuse_ticket(Code::kCorrupt, "a ticket with more records than a message has");
  const Places at = places_of(header.rendezvous_nbytes, header.n_slots, header.n_things);
  if (header.nbytes != at.end || bytes.size() < at.end)
    return refuse_ticket(Code::kCorrupt, "a ticket of another length than it says");
  const std::span<const std::byte> own = bytes.first(at.end);
  if (header.crc32 != checksum_of(header, own))
    return refuse_ticket(Code::kCorrupt, "a ticket whose checksum is wrong");
  if (header.zero != 0 || header.zero_too != 0)
    return refuse_ticket(Code::kCorrupt, "a ticket whose unused fields are not 0");
  const uint64_t path_end = at.rendezvous + header.rendezvous_nbytes,
                 slots_end = at.slots + header.n_slots * sizeof(uint32_t);
  if (!is_zero(own.subspan(path_end, at.slots - path_end)) ||
      !is_zero(own.subspan(slots_end, at.things - slots_end)))
    return refuse_ticket(Code::kCorrupt, "a ticket whose padding is not 0");
  Ticket ticket;
  ticket.depot = header.depot;
  ticket.message = header.message;
  ticket.generation = header.generation;
  ticket.envelope = header.envelope;
  ticket.pid = header.pid;
  ticket.rendezvous.assign(reinterpret_cast<const char*>(own.data() + at.rendezvous),
                           header.rendezvous_nbytes);
  if (ticket.rendezvous.empty() || ticket.rendezvous.front() != '/' ||
      ticket.rendezvous.find('\0') != std::string::npos)
    return refuse_ticket(Code::kCorrupt, "a ticket whose socket has no path");
  ticket.slots.resize(header.n_slots);
  if (header.n_slots > 0)
    std::memcpy(ticket.slots.data(), own.data() + at.slots, header.n_slots * sizeof(uint32_t));
  ticket.things.reserve(header.n_things);
  bool in_tokens = false;
  for (uint32_t i = 0; i < header.n_things; ++i) {
    WireThing record;
    std::memcpy(&record, own.data() + at.things + i * sizeof record, sizeof record);
    const bool is_token = record.kind == static_cast<uint32_t>(ThingKind::kToken);
    if (!is_token && record.kind != static_cast<uint32_t>(ThingKind::kSegment))
      return refuse_ticket(Code::kIncompatible, "a ticket with a kind of thing that is not known");
    if (record.serial == 0 || (in_tokens && !is_token))
      return refuse_ticket(Code::kCorrupt, "a ticket with a thing that cannot be");
    in_tokens = is_token;
    ticket.things.push_back({record.number, static_cast<ThingKind>(record.kind), record.serial});
  }
  *used = at.end;
  return ticket;
}

std::vector<std::byte> encode_storage_ticket(const StorageTicket& ticket) {
  const WireStorage storage{
      ticket.slot,   ticket.segment.number, ticket.segment.serial, ticket.offset,
      ticket.nbytes, ticket.segment_nbytes, ticket.access,         ticket.mode};
  std::vector<std::byte> bytes(sizeof storage + ticket.tokens.size() * sizeof(WireThing));
  std::memcpy(bytes.data(), &storage, sizeof storage);
  std::byte* to = bytes.data() + sizeof storage;
  for (const Thing& token : ticket.tokens) {
    const WireThing record{token.number, static_cast<uint32_t>(token.kind), token.serial};
    std::memcpy(to, &record, sizeof record);
    to += sizeof record;
  }
  return bytes;
}

Result<StorageTicket> decode_storage_ticket(std::span<const std::byte> bytes) {
  WireStorage storage;
  if (bytes.size() < sizeof storage || (bytes.size() - sizeof storage) % sizeof(WireThing) != 0)
    return refuse_ticket(Code::kCorrupt, "a storage's ticket of a length that none has");
  std::memcpy(&storage, bytes.data(), sizeof storage);
  if (storage.access < 1 || storage.access > 2 || storage.mode > 2)
    return refuse_ticket(Code::kCorrupt,
                         "a storage's ticket with an access or a mode that is none");
  if ((storage.serial == 0) != (storage.nbytes == 0) || storage.offset > storage.segment_nbytes ||
      storage.nbytes > storage.segment_nbytes - storage.offset)
    return refuse_ticket(Code::kCorrupt,
                         "a storage's ticket whose bytes lie outside their segment");
  StorageTicket ticket{storage.slot,
                       {storage.segment, ThingKind::kSegment, storage.serial},
                       storage.offset,
                       storage.nbytes,
                       storage.segment_nbytes,
                       storage.access,
                       storage.mode,
                       false,
                       {}};
  for (std::span<const std::byte> left = bytes.subspan(sizeof storage); !left.empty();
       left = left.subspan(sizeof(WireThing))) {
    WireThing record;
    std::memcpy(&record, left.data(), sizeof record);
    if (record.kind != static_cast<uint32_t>(ThingKind::kToken) || record.serial == 0)
      return refuse_ticket(Code::kCorrupt, "a storage's ticket with a token that is none");
    ticket.tokens.push_back({record.number, ThingKind::kToken, record.serial});
  }
  return ticket;
}

}  // namespace tenon::channel
