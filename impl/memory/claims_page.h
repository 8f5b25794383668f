// The claims page: shared memory in which the receiver of a deposited message (depot.h) claims it.
// The lender's side is in depot.cc and the receivers' in channel (fetch.h). docs/format/deposit.md
// specifies the bytes: a header, one word for each message that can wait (its claim), one word for
// each thing that has a number (its serial), and one word for each slot (the next slot of the same
// message). A slot is the number of one lease.
//
// All steps are functions of a base pointer, like those of the lease page (lease_page.h). Every
// process that may fetch from a depot can write every byte here. The lender believes a word only as
// far as its own records say that the message is there. No function checks `message`, `thing` or
// `slot`: the caller does. A borrower that follows a chain stops at a slot beyond the page, and
// after as many steps as there are slots.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/status.h"
#include "memory/peer_page.h"

namespace tenon::memory::claims_page {

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'C', 'L', 'M'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMessages = 1U << 20;  // the most that can wait or be held at a time
// The most that a reader accepts. check_header() applies this to the number of things too.
inline constexpr uint32_t kMostMessages = 16U << 20;
// The most things that can have a number at a time. A thing is a segment or a token whose fd
// receivers ask for.
inline constexpr uint32_t kThings = 1U << 16;

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

struct Header {  // NOLINT(clang-analyzer-optin.performance.Padding): what changes has a cache line
                 // of its own
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t messages;
  uint32_t things;
  uint32_t slots;     // as many as the lease pages of this depot's borrowers have
  uint64_t incompat;  // not 0: a reader refuses the page with INCOMPATIBLE
  // How many things that had a number have ended. A receiver that sees another count than last time
  // checks its cached fds against the thing words (forget_ended() in channel/lender_link.h).
  alignas(64) Word ended;
};
static_assert(offsetof(Header, things) == 16 && offsetof(Header, incompat) == 24 &&
              offsetof(Header, ended) == 64);

inline constexpr size_t kClaimsOffset = 4096;

constexpr size_t things_offset(uint32_t messages) noexcept {
  return kClaimsOffset + size_t{messages} * sizeof(Word);
}
constexpr size_t chain_offset(uint32_t messages, uint32_t things) noexcept {
  return things_offset(messages) + size_t{things} * sizeof(Word);
}
constexpr size_t page_nbytes(uint32_t messages, uint32_t things, uint32_t slots) noexcept {
  return chain_offset(messages, things) + size_t{slots} * sizeof(uint32_t);
}

inline constexpr PageKind kClaimsPage{
    .magic = kMagic,
    .version = kVersion,
    .incompat_offset = offsetof(Header, incompat),
    .name = "a claims page",
    .unsealed = "a claims page that is not sealed, or cannot be written",
    .of_huge_pages = "a claims page of huge pages",
    .too_short = "a claims page that is too short",
    .field = "ticket",
};

struct Counts {
  uint32_t messages = 0;
  uint32_t things = 0;
};
// Receiver: checks the header of a claims page before the page is mapped. `bytes` is a private
// copy, `file_nbytes` the size of the page's file, and `slots` the number of slots of the
// receiver's lease page. An unusable page is CORRUPT or INCOMPATIBLE, with detail "field" =
// "ticket".
Result<Counts> check_header(std::span<const std::byte, sizeof(Header)> bytes, uint64_t file_nbytes,
                            uint32_t slots);

inline Header& header(std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<Header*>(base));
}
inline Word& claim_word(std::byte* base, uint32_t message) noexcept {
  return reinterpret_cast<Word*>(base + kClaimsOffset)[message];
}
// The serial of the thing that has this number, or 0 if none has it.
inline Word& thing_word(std::byte* base, uint32_t messages, uint32_t thing) noexcept {
  return reinterpret_cast<Word*>(base + things_offset(messages))[thing];
}

// The slots of a message form a chain. It begins with the slot of the envelope (depot.h), and the
// last slot leads to kNoSlot. The chain stays whole until the last lease of the message has ended.
inline constexpr uint32_t kNoSlot = 0xffffffffU;
inline std::atomic<uint32_t>& next_slot(std::byte* base, uint32_t messages, uint32_t things,
                                        uint32_t slot) noexcept {
  return reinterpret_cast<std::atomic<uint32_t>*>(base + chain_offset(messages, things))[slot];
}

// A claim says who has the message: it has one of these values or the number of a borrower. The
// numbers of borrowers begin at 1, and none is used twice.
inline constexpr uint32_t kUnfetched = 0;
inline constexpr uint32_t kClosed = 0x7fffffffU;
// A bit beside a borrower's number: the borrower has opened all storages that it will open, and
// asks for no more of the message's things.
inline constexpr uint32_t kOpened = 0x80000000U;

struct Claim {
  // Counts the messages that have had this number. A ticket names the number and the generation, so
  // a late receiver cannot claim a later message that has the same number.
  uint32_t generation;
  uint32_t borrower;  // the number of a borrower, kUnfetched or kClosed
  bool operator==(const Claim&) const = default;
};
constexpr uint64_t word_of(Claim claim) noexcept {
  return uint64_t{claim.generation} << 32 | claim.borrower;
}
constexpr Claim claim_of(uint64_t word) noexcept {
  return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word) & ~kOpened};
}

// Who has the message of this number now, and which message it is.
inline Claim look(std::byte* base, uint32_t message) noexcept {
  return claim_of(claim_word(base, message).load(std::memory_order_acquire));
}

// A borrower claims the message, if nobody has it yet, and then sees what the lender wrote before
// open(). The lender takes an unfetched message back by claiming it for kClosed. Only one of
// several callers succeeds. `borrower` may have the bit kOpened beside it.
inline bool claim(std::byte* base, uint32_t message, uint32_t generation,
                  uint32_t borrower) noexcept {
  uint64_t expected = word_of({generation, kUnfetched});
  return claim_word(base, message)
      .compare_exchange_strong(expected, word_of({generation, borrower}), std::memory_order_acq_rel,
                               std::memory_order_acquire);
}

// A borrower sets kOpened before it gives the envelope back. If another message has the number by
// now, its word stays as it is.
inline void say_opened(std::byte* base, uint32_t message, Claim own) noexcept {
  uint64_t expected = word_of(own);
  (void)claim_word(base, message)
      .compare_exchange_strong(expected, expected | kOpened, std::memory_order_acq_rel,
                               std::memory_order_relaxed);
}
// Whether the message is unfetched, or its borrower has not yet opened all that it will open.
inline bool is_pending(std::byte* base, uint32_t message, uint32_t generation) noexcept {
  const uint64_t word = claim_word(base, message).load(std::memory_order_acquire);
  const Claim claim = claim_of(word);
  return claim.generation == generation && claim.borrower != kClosed && (word & kOpened) == 0;
}

// For a borrower: whether any message is open and unfetched. Lenders use the words of messages from
// the first one up, so the first word that was never used ends the search. Such a word is 0,
// because generations begin at 1.
inline bool has_unfetched(std::byte* base, uint32_t messages) noexcept {
  for (uint32_t message = 0; message < messages; ++message) {
    const uint64_t word = claim_word(base, message).load(std::memory_order_acquire);
    if (word == 0) return false;
    if (claim_of(word).borrower == kUnfetched) return true;
  }
  return false;
}

// The lender opens a message: from now on any process that has the ticket can claim it.
inline void open(std::byte* base, uint32_t message, uint32_t generation) noexcept {
  claim_word(base, message).store(word_of({generation, kUnfetched}), std::memory_order_release);
}

// The lender closes a message that nobody can have claimed, or that is over. The call overwrites
// any claim. To take an open message back, the lender claims it for kClosed.
inline void close(std::byte* base, uint32_t message, uint32_t generation) noexcept {
  claim_word(base, message).store(word_of({generation, kClosed}), std::memory_order_release);
}

}  // namespace tenon::memory::claims_page
