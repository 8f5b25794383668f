#include "channel/ring_page.h"

#include <algorithm>
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
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t nbytes = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), nbytes);
    (to++)->store(word, std::memory_order_release);
    bytes = bytes.subspan(nbytes);
  }
  // The sender looks next whether the receiver sleeps. A release store could be seen after that
  // look.
  slot[0].store(position + 1, std::memory_order_seq_cst);
}

SlotHead read_head(const Word* slot) noexcept {
  const uint64_t length = slot[2].load(std::memory_order_acquire);
  return {slot[1].load(std::memory_order_acquire), static_cast<uint32_t>(length),
          static_cast<uint32_t>(length >> 32)};
}

void copy(const Word* slot, std::span<std::byte> out) noexcept {
  const Word* from = slot + kSlotHeadNbytes / sizeof(Word);
  for (size_t at = 0; at < out.size(); at += sizeof(uint64_t)) {
    const uint64_t word = (from++)->load(std::memory_order_acquire);
    std::memcpy(out.data() + at, &word, std::min(sizeof word, out.size() - at));
  }
}

}  // namespace tenon::channel::ring_page
