// The lease page: shared memory in which a borrower says which of its leases it gives back. The
// lender's side is in ledger.cc and the borrower's in holding.cc. docs/format/lease.md specifies
// the bytes: a header, then a summary, then the words of `released`, which have one bit for each
// slot. A slot is the number of one lease. A bit of the summary says that a word of `released` may
// have bits, so that the lender need not read all words.
//
// All steps are functions of a base pointer, so that a test can run both roles over one mapping. A
// race detector would see no connection between two mappings. The borrower can write every byte
// here once it has the page. The lender takes every word that it reads as a claim, which it checks
// against its ledger, and it relies on nothing that it wrote here. Its lock around drain() is the
// ledger's or the depot's (Ledger::slots_mutex()). The borrower trusts the page as little:
// Holding::open() checks header, size and seals before it maps the page. No function here checks
// `slot` or `word`: the caller does.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/fence.h"

namespace tenon::memory::lease_page {

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'L', 'S', 'E'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kSlots = 4U << 20;
inline constexpr uint32_t kSlotsUnit = 4096;       // slots that one word of the summary covers
inline constexpr uint32_t kMostSlots = 64U << 20;  // the most that a reader accepts

using Word = std::atomic<uint64_t>;
using Flag = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8 && Flag::is_always_lock_free &&
              sizeof(Flag) == 4);

struct Header {  // NOLINT(clang-analyzer-optin.performance.Padding): what each side writes has a
                 // cache line of its own
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t slots;            // a multiple of kSlotsUnit
  uint64_t incompat;         // not 0: a reader of this version refuses the page
  alignas(64) Flag waiting;  // set by the lender: ring the bell after a release
  // Set by the borrower, which then rings the bell: it has forked, and asks for a new token. Nobody
  // clears it, because a new token has a page of its own.
  alignas(64) Flag renew;
};
static_assert(offsetof(Header, incompat) == 16 && offsetof(Header, waiting) == 64 &&
              offsetof(Header, renew) == 128);

inline constexpr size_t kSummaryOffset = 4096;

constexpr size_t released_offset(uint32_t slots) noexcept {
  const size_t summary = size_t{slots} / kSlotsUnit * sizeof(Word);
  return kSummaryOffset + (summary + 4095) / 4096 * 4096;
}
constexpr size_t page_nbytes(uint32_t slots) noexcept { return released_offset(slots) + slots / 8; }

inline Header& header(std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<Header*>(base));
}
inline Word* summary(std::byte* base) noexcept {
  return reinterpret_cast<Word*>(base + kSummaryOffset);
}
inline Word* released(std::byte* base, uint32_t slots) noexcept {
  return reinterpret_cast<Word*>(base + released_offset(slots));
}

// The borrower gives back the leases of slots whose bits are in one word. True: the lender waits,
// so the caller must ring the bell.
//
// The writes here have release order (memory_order_release), and the exchanges in drain() have
// acquire order. So the borrower's reads of a block happen before the lender's next writes to it.
// One fence stands between the bits and the load of `waiting` here. Another one stands between the
// lender's store to `waiting` and its look at the bits. So the lender sees the bits, or the
// borrower sees `waiting`, or both.
inline bool release_word(std::byte* base, uint32_t slots, uint32_t word, uint64_t bits) noexcept {
  released(base, slots)[word].fetch_or(bits, std::memory_order_release);
  summary(base)[word / 64].fetch_or(uint64_t{1} << (word % 64), std::memory_order_release);
  full_fence();
  return header(base).waiting.load(std::memory_order_relaxed) != 0;
}
inline bool release(std::byte* base, uint32_t slots, uint32_t slot) noexcept {
  return release_word(base, slots, slot / 64, uint64_t{1} << (slot % 64));
}

// The lender calls `each` for every slot below `end` that the borrower has given back since the
// last time. The borrower can set any bit, so `each` may get other slots, too, and some of them at
// `end` or above. A bit is taken before its slot can be granted again, so a bit of an old lease
// never ends a new one.
template <typename Each>
void drain(std::byte* base, uint32_t slots, uint32_t end, Each&& each) noexcept {
  Word* const top = summary(base);
  Word* const words = released(base, slots);
  for (uint32_t unit = 0; unit * kSlotsUnit < end; ++unit) {
    if (top[unit].load(std::memory_order_relaxed) == 0) continue;
    uint64_t units = top[unit].exchange(0, std::memory_order_acquire);
    for (; units != 0; units &= units - 1) {
      const uint32_t word = unit * 64 + static_cast<uint32_t>(std::countr_zero(units));
      uint64_t bits = words[word].exchange(0, std::memory_order_acquire);
      for (; bits != 0; bits &= bits - 1)
        each(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
}

// The lender asks for the bell, or stops asking. After it has asked, it must drain before it
// sleeps.
inline void set_waiting(std::byte* base, bool waiting) noexcept {
  header(base).waiting.store(waiting ? 1 : 0, std::memory_order_relaxed);
  if (waiting) full_fence();
}

}  // namespace tenon::memory::lease_page
