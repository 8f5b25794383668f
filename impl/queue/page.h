// The memory of a queue: words and slots that all members map and write. docs/format/queue.md
// specifies the bytes and says why each memory order is enough.
//
// The memory has a header, an entry for each member, and a lane for each member. A lane is a ring
// of slots that only its member fills, so no member can leave a hole in another's lane. Receivers
// only mark the slots that they have taken. The functions get pointers into the memory, and check
// no index: the caller has checked that members and slots lie inside. queue.cc, queue_send.cc and
// queue_recv.cc are the callers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tenon::queue::page {

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'Q', 'U', 'E'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMostMembers = 256;
inline constexpr uint32_t kMostCapacity = 1U << 16;
inline constexpr uint32_t kLeastSlotNbytes = 64;
inline constexpr uint32_t kMostSlotNbytes = 1U << 16;

using Word = std::atomic<uint64_t>;
using Half = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);
static_assert(Half::is_always_lock_free && sizeof(Half) == 4);

// Bits of Header::incompat. With kRedelivers a receiver acknowledges each message, and the message
// of a receiver that has gone before that is put back.
inline constexpr uint64_t kRedelivers = 1;

// A set of members: bit m % 64 of word m / 64.
using MemberSet = std::array<Word, kMostMembers / 64>;

// The parts that different members write lie in cache lines of their own.
struct Header {  // NOLINT(clang-analyzer-optin.performance.Padding): each line has its writers
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t members;      // the most processes that can be members at a time
  uint32_t capacity;     // slots of a lane, a power of two
  uint32_t slot_nbytes;  // bytes of a slot, a multiple of 64
  uint64_t incompat;     // kRedelivers; a reader refuses other bits with INCOMPATIBLE
  // The members that may sleep because they found no message, or no room in their lane. Only the
  // member itself sets and clears its bit. The bit of a member that ended asleep stays, until a new
  // member has its entry.
  alignas(64) MemberSet receivers_asleep;
  alignas(64) MemberSet senders_asleep;
  // The members that have ever sent. Nobody looks into other lanes.
  alignas(64) MemberSet lanes;
  // `joined` counts the members that have joined and those that have left in order. A member that
  // sees another count than last time looks at the members. `died` counts the members that were
  // found dead. No decision depends on it, because each member hears of a death by a pidfd
  // (process_watch.h).
  alignas(64) Word joined;
  Word died;
};
inline constexpr size_t kHeaderNbytes = 4096;
static_assert(sizeof(Header) == 320 && offsetof(Header, receivers_asleep) == 64);

// One thread of the member sleeps by these words. It stores the next odd number into `asleep`,
// looks once more, and sleeps on `wake`. Once awake it stores the next even number. A sender that
// has a message for it, or a receiver that has made room, and that sees an odd number adds 1 to
// `wake` and wakes it. Each waker keeps its own record of the odd number for which it did so, and
// does not wake twice for the same one. Two wakers may both wake the thread, which only costs it a
// look.
struct alignas(64) SleepWords {
  Half asleep;   // odd: the member may sleep. The member alone writes it
  Half wake;     // the futex
  Word rung_ns;  // CLOCK_MONOTONIC of the last wake, by which the sleeper measures how long it took
};

enum class MemberState : uint8_t {
  kFree = 0,
  kJoining = 1,
  kHere = 2,
  kLeft = 3,  // it left in order
  kDead = 4,  // somebody found that its process has ended
};
struct MemberWord {
  uint32_t pid = 0;
  uint32_t generation = 0;  // 24 bits; another member that takes this entry has the next one
  MemberState state = MemberState::kFree;
  bool operator==(const MemberWord&) const = default;
};
constexpr uint64_t word_of(MemberWord member) noexcept {
  return uint64_t{member.generation} << 40 | uint64_t{member.pid} << 8 |
         static_cast<uint64_t>(member.state);
}
constexpr MemberWord member_of(uint64_t word) noexcept {
  return {static_cast<uint32_t>(word >> 8), static_cast<uint32_t>(word >> 40) & 0xffffffU,
          static_cast<MemberState>(word & 0xff)};
}

struct Member {
  alignas(64) Word word;  // MemberWord
  Word pid_namespace;     // the pid is a number of this namespace
  Word started;           // when the process started, in clock ticks since boot (proc(5))
  Word user;              // the effective uid
  Word lock;              // lock_of() the member if it holds its lock, which lock_at() places
  SleepWords receive;
  SleepWords send;
};
static_assert(sizeof(Member) == 192);

// A member holds a lock on a byte of the queue's file (os/byte_lock.h), by which members of other
// pid namespaces learn of its death. Each membership has a byte of its own. The number in the entry
// says that it holds the lock. Numbers that an earlier member left mean nothing.
constexpr uint64_t lock_of(uint32_t generation) noexcept { return uint64_t{generation} + 1; }
constexpr uint64_t lock_at(uint32_t index, uint32_t generation) noexcept {
  return uint64_t{1} << 62 | uint64_t{generation} << 8 | index;
}

struct LaneHeader {
  // The CPU on which the member filled a slot last. A receiver on the same CPU does not spin.
  alignas(64) Half cpu;
  // With kRedelivers: the number of put-backs, times 2. Odd: the member puts a message back. A
  // receiver that sees another number than last time looks through the whole lane.
  Half put_back;
  // The address of the member's depot (short_form.h), and its number, which is even and grows with
  // each change. Odd: the address is being written.
  alignas(64) Half address_number;
  std::array<Word, 35> address;
};
inline constexpr size_t kAddressNbytes = 280;
inline constexpr size_t kLaneHeaderNbytes = 384;
static_assert(sizeof(LaneHeader) == kLaneHeaderNbytes);

// A slot begins with its word, which says whether the slot holds a message. The lane's member may
// fill a slot that is kEmpty, or kTaken with a position one round (`capacity`) lower.
enum class SlotState : uint8_t {
  kEmpty = 0,
  kFull = 1,
  kTaken = 2,  // a receiver has copied the message, and the sender may fill the slot again
  kHeld = 3,   // with kRedelivers: as kTaken, but the receiver has not acknowledged the message
};
struct SlotWord {
  uint64_t position = 0;  // 48 bits: the message is the lane's message of this number, from 0 on
  // 12 bits. kTaken, kHeld: taker_of() the member that took it. kFull: how often it was put back.
  // So a message that was put back has another word than before, and a copy that was begun before
  // that is not taken.
  uint32_t taker = 0;
  SlotState state = SlotState::kEmpty;
  bool operator==(const SlotWord&) const = default;
};
constexpr uint64_t word_of(SlotWord slot) noexcept {
  return slot.position << 16 | uint64_t{slot.taker} << 4 | static_cast<uint64_t>(slot.state);
}
constexpr SlotWord slot_of(uint64_t word) noexcept {
  return {word >> 16, static_cast<uint32_t>(word >> 4) & 0xfffU,
          static_cast<SlotState>(word & 0xf)};
}

// Names the member that took a message: its entry in 8 bits, and the low 4 bits of its generation.
// When a member has died, a sender withdraws the messages that this member took and did not fetch.
// By the generation the sender does not confuse them with messages that the entry's next member
// took.
constexpr uint32_t taker_of(uint32_t index, uint32_t generation) noexcept {
  return (generation & 0xfU) << 8 | index;
}

// A message that was put back so often is lost when its next receiver has gone.
inline constexpr uint32_t kMostPutBacks = 0xfff;

// What a slot holds behind its word.
enum class Kind : uint32_t {
  kTicket = 1,  // the ticket of a deposited message (channel/ticket.h)
  // The ticket was too long for the slot, and was put into the tensor of a second message. The slot
  // holds the ticket of that one.
  kIndirect = 2,
  kShort = 3,  // a message of one tensor (short_form.h)
  kBytes = 4,  // a message without tensors: the user's bytes
};
// The element type of the tensor of kIndirect, which holds the longer ticket: uint8.
inline constexpr tensor::DType kBytes{1, 8, 1};
// The slot's word, then the number of bytes (u32) and their Kind (u32). The bytes follow.
inline constexpr size_t kSlotHeadNbytes = 16;

struct Geometry {
  uint32_t members = 0;
  uint32_t capacity = 0;
  uint32_t slot_nbytes = 0;
  bool redelivers = false;

  constexpr size_t lane_nbytes() const noexcept {
    return kLaneHeaderNbytes + size_t{capacity} * slot_nbytes;
  }
  constexpr size_t lanes_offset() const noexcept {
    return kHeaderNbytes + size_t{members} * sizeof(Member);
  }
  constexpr size_t nbytes() const noexcept { return lanes_offset() + members * lane_nbytes(); }
  // How many bytes a slot holds behind its head.
  constexpr uint32_t room() const noexcept {
    return slot_nbytes - static_cast<uint32_t>(kSlotHeadNbytes);
  }
};
// INVALID_ARGUMENT if a queue of this geometry cannot exist.
Status check_geometry(const Geometry& geometry);

// Writes the header into memory that is all zero.
void write_header(std::byte* base, const Geometry& geometry) noexcept;
// Checks a header that another process wrote, of which `bytes` is a private copy. CORRUPT or
// INCOMPATIBLE, with detail "field" = "queue". `nbytes` is the size of the memory.
Result<Geometry> read_header(std::span<const std::byte, sizeof(Header)> bytes, uint64_t nbytes);

inline Header& header(std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<Header*>(base));
}
inline Member& member(std::byte* base, uint32_t index) noexcept {
  return reinterpret_cast<Member*>(base + kHeaderNbytes)[index];
}
inline std::byte* lane(std::byte* base, const Geometry& geometry, uint32_t index) noexcept {
  return base + geometry.lanes_offset() + index * geometry.lane_nbytes();
}
inline LaneHeader& lane_header(std::byte* lane) noexcept {
  return *std::launder(reinterpret_cast<LaneHeader*>(lane));
}
// The words of the slot for the lane's message `position`. The first one is the slot's word.
inline Word* slot(std::byte* lane, const Geometry& geometry, uint64_t position) noexcept {
  const size_t index = position & (geometry.capacity - 1);
  return reinterpret_cast<Word*>(lane + kLaneHeaderNbytes + index * geometry.slot_nbytes);
}

// Calls the function with each member of the set, from `first` on and then from the start, until it
// returns true. False: it never did. Bits beyond `members` are not believed.
template <typename Call>
bool any_from(const MemberSet& set, uint32_t members, uint32_t first, Call call) {
  if (first >= members) first = 0;
  const uint32_t words = (members + 63) / 64;
  const uint64_t behind = ~uint64_t{0} << (first % 64);
  // The word with `first` comes first, and once more at the end with the members before `first`.
  for (uint32_t i = 0; i <= words; ++i) {
    uint32_t at = first / 64 + i;
    if (at >= words) at -= words;
    uint64_t bits = set[at].load(std::memory_order_seq_cst);
    if (i == 0) bits &= behind;
    if (i == words) bits &= ~behind;
    for (; bits != 0; bits &= bits - 1) {
      const uint32_t index = at * 64 + static_cast<uint32_t>(__builtin_ctzll(bits));
      if (index < members && call(index)) return true;
    }
  }
  return false;
}
// add() and remove() set and clear a member's bit. Only the member itself calls them.
inline void add(MemberSet* set, uint32_t member) noexcept {
  (*set)[member / 64].fetch_or(uint64_t{1} << (member % 64), std::memory_order_seq_cst);
}
inline void remove(MemberSet* set, uint32_t member) noexcept {
  // A member that is awake looks for messages next, and nobody wakes it from here on.
  (*set)[member / 64].fetch_and(~(uint64_t{1} << (member % 64)), std::memory_order_seq_cst);
}

// The sender fills a slot that it owns, and publishes it. The bytes are stored word by word,
// because a receiver that is late may read them while the sender fills the slot again. The
// receiver notices it by the slot's word, which has another value then.
void fill(Word* slot, uint64_t position, Kind kind, std::span<const std::byte> bytes,
          uint32_t put_backs = 0) noexcept;

// Copies a published message. `out` has room for Geometry::room() bytes. The copy is whole if the
// slot's word is unchanged after it, which take() checks. The length that is returned is at most
// `room`, and UINT32_MAX for a head that says more. Up to 7 bytes behind that length are written
// too.
uint32_t copy(const Word* slot, uint32_t room, Kind* kind, std::byte* out) noexcept;

// Takes the message for the receiver `taker`. False: the slot's word, which was `seen` with the
// state kFull before, has changed, so another receiver was faster.
inline bool take(Word* slot, uint64_t seen, uint32_t taker,
                 SlotState taken = SlotState::kTaken) noexcept {
  const SlotWord full = slot_of(seen);
  return slot->compare_exchange_strong(seen, word_of({full.position, taker, taken}),
                                       std::memory_order_seq_cst, std::memory_order_relaxed);
}

// The message of a slot that `taker` holds is acknowledged. False: it was put back.
inline bool acknowledge(Word* slot, uint64_t position, uint32_t taker) noexcept {
  uint64_t held = word_of({position, taker, SlotState::kHeld});
  return slot->compare_exchange_strong(held, word_of({position, taker, SlotState::kTaken}),
                                       std::memory_order_seq_cst, std::memory_order_relaxed);
}

// The sender takes a message from `taker`, which is gone. False: it was acknowledged.
inline bool hold(Word* slot, uint64_t position, uint32_t taker, uint32_t sender) noexcept {
  uint64_t held = word_of({position, taker, SlotState::kHeld});
  return slot->compare_exchange_strong(held, word_of({position, sender, SlotState::kHeld}),
                                       std::memory_order_seq_cst, std::memory_order_relaxed);
}

}  // namespace tenon::queue::page
