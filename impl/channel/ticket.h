// A ticket is the bytes by which a deposited message is fetched. They travel by any carrier of
// bytes. deposit.cc writes tickets, and fetch.cc and fetch_pieces.cc read them. This file only
// encodes and decodes the bytes (docs/format/deposit.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace tenon::channel {

using DepotId = std::array<uint8_t, 16>;

enum class ThingKind : uint32_t {
  kSegment = 1,
  kToken = 2,  // a token of a lender further up
};

// A segment or a token whose fd a receiver asks for once, unless it has the fd already.
struct Thing {
  uint32_t number = 0;
  ThingKind kind = ThingKind::kSegment;
  uint64_t serial = 0;  // not 0; no two things of a depot have the same
  bool operator==(const Thing&) const = default;
};

struct Ticket {
  DepotId depot{};
  std::string rendezvous;  // the path of the lender's socket
  int32_t pid = 0;         // of the lender, for error messages alone: it is not checked
  uint32_t message = 0;
  uint32_t generation = 0;
  // The slot of a lease of 0 bytes, the envelope, which keeps the message's storages. The receiver
  // gives it back once it has opened everything.
  uint32_t envelope = 0;
  std::vector<uint32_t> slots;  // one for each storage of the descriptor; kNoLease: it has none
  // First one for each segment of the descriptor, in the same order, then the tokens.
  std::vector<Thing> things;
};

// The ticket of one storage of a message that is deposited in pieces, which docs/format/deposit.md
// calls a record. The ticket of that message, its head, has no slots, things and descriptor.
struct StorageTicket {
  uint32_t slot = 0;  // kNoLease: it has none
  Thing segment;      // serial 0: the storage is empty
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
  uint32_t access = 0;  // TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE
  uint32_t mode = 0;    // TENON_MODE_*
  // The slot's lease is the message's own. It ends when the receiver has opened the storage, which
  // needs no lease itself. Only the short form of a queue (queue/short_form.h) has such slots.
  bool ends_when_opened = false;
  std::vector<Thing> tokens;
};

inline constexpr size_t kMostRendezvousNbytes = 255;

// Returns the bytes of the ticket, with the descriptor behind them. Like encode_storage_ticket() it
// checks no limit (kMostRendezvousNbytes, kMostRecordThings).
std::vector<std::byte> encode_ticket(const Ticket& ticket, std::span<const std::byte> descriptor);
// Decodes the ticket at the start of `bytes`, which must be private to this process. `used` gets
// the length of the ticket. The descriptor follows there. The caller checks that the slots and
// things fit the descriptor. CORRUPT or INCOMPATIBLE (another version, or an unknown kind of
// thing), with detail "field" = "ticket".
Result<Ticket> decode_ticket(std::span<const std::byte> bytes, size_t* used);

// The most things, segment and tokens together, in a record of TENON_DEPOSIT_RECORD_NBYTES.
inline constexpr size_t kMostRecordThings = 30;
std::vector<std::byte> encode_storage_ticket(const StorageTicket& ticket);
// `bytes` are exactly one ticket, without padding. CORRUPT, with detail "field" = "ticket".
Result<StorageTicket> decode_storage_ticket(std::span<const std::byte> bytes);

}  // namespace tenon::channel
