// A ticket: the bytes by which a deposited message is fetched. They travel by whatever carries
// bytes. Bytes only; specified in docs/format/deposit.md.
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
  kToken = 2,  // of a lender further up
};

// Something whose fd a receiver asks for once, unless he has it.
struct Thing {
  uint32_t number = 0;
  ThingKind kind = ThingKind::kSegment;
  uint64_t serial = 0;  // not 0; no two things of a depot have the same
  bool operator==(const Thing&) const = default;
};

struct Ticket {
  DepotId depot{};
  std::string rendezvous;  // the path of the lender's socket
  int32_t pid = 0;         // the lender's, for messages
  uint32_t message = 0;
  uint32_t generation = 0;
  uint32_t envelope = 0;        // the slot that is given back when all has been opened
  std::vector<uint32_t> slots;  // one for each storage of the descriptor; kNoLease: it has none
  // Of the descriptor's segments, one for each in their order, then tokens.
  std::vector<Thing> things;
};

// One storage of a message that is deposited piece by piece: its ticket has no slots, things and
// descriptor.
struct StorageTicket {
  uint32_t slot = 0;  // kNoLease: it has none
  Thing segment;      // serial 0: the storage is empty
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
  uint32_t access = 0;  // TENON_ACCESS_READ_ONLY or TENON_ACCESS_WRITABLE
  uint32_t mode = 0;    // TENON_MODE_*
  std::vector<Thing> tokens;
};

inline constexpr size_t kMostRendezvousNbytes = 255;

// With room for the descriptor behind it.
std::vector<std::byte> encode_ticket(const Ticket& ticket, std::span<const std::byte> descriptor);
// From the start of `bytes`, which must be private to this process. `used`: how long it is; the
// descriptor follows. CORRUPT or INCOMPATIBLE, with detail "field" = "ticket".
Result<Ticket> decode_ticket(std::span<const std::byte> bytes, size_t* used);

// The segment and tokens of a record that fits TENON_DEPOSIT_RECORD_NBYTES.
inline constexpr size_t kMostRecordThings = 30;
std::vector<std::byte> encode_storage_ticket(const StorageTicket& ticket);
Result<StorageTicket> decode_storage_ticket(std::span<const std::byte> bytes);

}  // namespace tenon::channel
