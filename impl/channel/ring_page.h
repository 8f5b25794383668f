// The memory of a ring: the frames of one direction of a connection that carry no fds, and the
// words by which both ends agree. docs/format/ring.md specifies the bytes and says why each memory
// order is enough.
//
// A ring has two files. Only the sender writes the first one, which has the slots. Only the
// receiver writes the second one, the receiver's page. So each word has one writer, and what a
// hostile receiver writes reaches nobody but the sender of this one ring. The functions get
// pointers into the memory, and check no index. RingSender and RingReceiver (frame_ring.cc) call
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace tenon::channel::ring_page {

inline constexpr std::array<uint8_t, 8> kMagic = {'T', 'E', 'N', 'O', 'N', 'R', 'N', 'G'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kMostCapacity = 1U << 16;
inline constexpr uint32_t kLeastSlotNbytes = 64;
inline constexpr uint32_t kMostSlotNbytes = 1U << 16;

using Word = std::atomic<uint64_t>;
using Half = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);
static_assert(Half::is_always_lock_free && sizeof(Half) == 4);

// The sender's file begins with this. The slots follow at kSlotsOffset.
struct Header {  // NOLINT(clang-analyzer-optin.performance.Padding): each line has its purpose
  std::array<uint8_t, 8> magic;
  uint32_t version;
  uint32_t capacity;     // slots, a power of two
  uint32_t slot_nbytes;  // bytes of a slot, a multiple of 64
  uint32_t reserved;
  uint64_t incompat;  // not 0: a reader refuses the memory with INCOMPATIBLE
  // How many frames the sender has begun to send over the socket. A receiver that has taken as many
  // expects the next frame in the ring.
  alignas(64) Word by_socket;
  Half cpu;      // on which the sender filled a slot last
  Half waits;    // odd: the sender may wait for room, and the receiver rings once for each value
  Word rung_ns;  // CLOCK_MONOTONIC of the last bell
  // The frames before this position are withdrawn, except those that the receiver had taken, or was
  // taking, when this was stored.
  alignas(64) Word withdrawn;
};
inline constexpr size_t kSlotsOffset = 256;
static_assert(sizeof(Header) == 192 && offsetof(Header, by_socket) == 64 &&
              offsetof(Header, withdrawn) == 128);

// The receiver's page. The sender believes a word of it only as far as the word can be true.
struct Receiver {  // NOLINT(clang-analyzer-optin.performance.Padding): each line has its purpose
  // The position of the receiver's next frame. It has taken all frames before that, or has passed
  // over them because they were withdrawn.
  Word passed;
  Word reading;  // the position plus 1 of the frame that it takes at this moment. 0: none
  Half ready;    // 0, kReads or kLeft
  alignas(64) Half asleep;  // odd: the receiver may sleep until the socket is readable
  // The positions plus 1 of the last frames that were withdrawn and that the receiver therefore did
  // not take. The receiver writes the entries in turn, each before it changes `reading` or
  // `passed`.
  alignas(64) std::array<Word, 8> refused;
};
inline constexpr uint32_t kReads = 1;  // Receiver::ready: the receiver reads the ring
inline constexpr uint32_t kLeft = 2;   // Receiver::ready: it has left, and reads the ring no more
inline constexpr size_t kReceiverNbytes = 4096;
static_assert(sizeof(Receiver) == 192 && offsetof(Receiver, ready) == 16 &&
              offsetof(Receiver, asleep) == 64 && offsetof(Receiver, refused) == 128);

// A slot is a number of words of 8 bytes: its word, which is the position plus 1 of the frame in it
// (0: none yet), then `after`, then the length (u32) and kind (u32) of the frame, then its bytes.
// `after` is the number of frames that the sender had begun to send over the socket before. The
// receiver takes all of these first.
inline constexpr size_t kSlotHeadNbytes = 24;

struct Geometry {
  uint32_t capacity = 0;
  uint32_t slot_nbytes = 0;
  constexpr size_t nbytes() const noexcept { return kSlotsOffset + size_t{capacity} * slot_nbytes; }
  // How many bytes a slot holds behind its head.
  constexpr uint32_t room() const noexcept {
    return slot_nbytes - static_cast<uint32_t>(kSlotHeadNbytes);
  }
};

inline Header& header(std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<Header*>(base));
}
inline const Header& header(const std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<const Header*>(base));
}
inline Receiver& receiver(std::byte* base) noexcept {
  return *std::launder(reinterpret_cast<Receiver*>(base));
}
inline Word* slot(std::byte* base, const Geometry& geometry, uint64_t position) noexcept {
  const size_t index = position & (geometry.capacity - 1);
  return reinterpret_cast<Word*>(base + kSlotsOffset + index * geometry.slot_nbytes);
}
inline const Word* slot(const std::byte* base, const Geometry& geometry,
                        uint64_t position) noexcept {
  return slot(const_cast<std::byte*>(base), geometry, position);
}

struct SlotHead {
  uint64_t after = 0;
  uint32_t nbytes = 0;
  uint32_t kind = 0;
};
// The sender fills a slot and publishes it. The bytes are stored word by word. A receiver may load
// them while the sender fills the slot of a withdrawn frame again. It notices that by the slot's
// word, which has another value then.
void fill(Word* slot, uint64_t position, const SlotHead& head,
          std::span<const std::byte> bytes) noexcept;
// Reads the head, unchecked: a hostile sender may have written any length and kind.
SlotHead read_head(const Word* slot) noexcept;
// Fills `out`, which is no longer than Geometry::room(), with the first bytes of the frame, in
// words of 8 bytes.
void copy(const Word* slot, std::span<std::byte> out) noexcept;

}  // namespace tenon::channel::ring_page
