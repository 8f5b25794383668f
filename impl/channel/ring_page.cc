#include "channel/ring_page.h"

#include <cstring>

namespace tenon::channel::ring_page {

void fill(Word* slot, uint64_t position, const SlotHead& head,
          std::span<const std::byte> bytes) noexcept {
  // A receiver that is still reading the message that lay here must not find the old word after it
  // has loaded a byte of this message. So the word is taken away first, and each later store is a
  // release. A receiver that finds no word must also see that the old message is withdrawn, so this
  // store is a release too.
  slot[0].store(0, std::memory_order_release);
  slot[1].store(head.after, std::memory_order_release);
  slot[2].store(uint64_t{head.kind} << 32 | head.nbytes, std::memory_order_release);
  Word* to = slot + kSlotHeadNbytes / sizeof(Word);
  uint64_t word = 0;
  // A copy of a constant size is one instruction, and one of another size is a call.
  for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    (to++)->store(word, std::memory_order_release);
  }
  if (!bytes.empty()) {
    word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    to->store(word, std::memory_order_release);
  }
  // The sender checks next whether the receiver sleeps. A release store could become visible after
  // that check.
  slot[0].store(position + 1, std::memory_order_seq_cst);
}

SlotHead read_head(const Word* slot) noexcept {
  const uint64_t length = slot[2].load(std::memory_order_acquire);
  return {slot[1].load(std::memory_order_acquire), static_cast<uint32_t>(length),
          static_cast<uint32_t>(length >> 32)};
}

void copy(const Word* slot, std::span<std::byte> out) noexcept {
  const Word* from = slot + kSlotHeadNbytes / sizeof(Word);
  for (; out.size() >= sizeof(uint64_t); out = out.subspan(sizeof(uint64_t))) {
    const uint64_t word = (from++)->load(std::memory_order_acquire);
    std::memcpy(out.data(), &word, sizeof word);
  }
  if (!out.empty()) {
    const uint64_t word = from->load(std::memory_order_acquire);
    std::memcpy(out.data(), &word, out.size());
  }
}

}  // namespace tenon::channel::ring_page
