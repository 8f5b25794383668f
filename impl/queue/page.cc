#include "queue/page.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace tenon::queue::page {
namespace {

Status refuse_memory(Code code, std::string what) {
  return Status(code, std::move(what)).with("field", std::string("queue"));
}

}  // namespace

Status check_geometry(const Geometry& geometry) {
  if (geometry.members == 0 || geometry.members > kMostMembers)
    return invalid(
        format("a queue can have 1 to %u members, not %u", kMostMembers, geometry.members));
  if (!std::has_single_bit(geometry.capacity) || geometry.capacity < 2 ||
      geometry.capacity > kMostCapacity)
    return invalid(format("the capacity of a queue is a power of two from 2 to %u, not %u",
                          kMostCapacity, geometry.capacity));
  if (geometry.slot_nbytes % 64 != 0 || geometry.slot_nbytes < kLeastSlotNbytes ||
      geometry.slot_nbytes > kMostSlotNbytes)
    return invalid(format("a slot of a queue has a multiple of 64 bytes, from %u to %u, not %u",
                          kLeastSlotNbytes, kMostSlotNbytes, geometry.slot_nbytes));
  return Status::ok();
}

void write_header(std::byte* base, const Geometry& geometry) noexcept {
  Header& header = page::header(base);
  header.version = kVersion;
  header.members = geometry.members;
  header.capacity = geometry.capacity;
  header.slot_nbytes = geometry.slot_nbytes;
  header.incompat = geometry.redelivers ? kRedelivers : 0;
  header.magic = kMagic;
}

Result<Geometry> read_header(std::span<const std::byte, sizeof(Header)> bytes, uint64_t nbytes) {
  const auto read = [&](size_t offset) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  uint64_t incompat = 0;
  std::memcpy(&incompat, bytes.data() + offsetof(Header, incompat), sizeof incompat);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return refuse_memory(Code::kCorrupt, "the storage holds no queue: make one in it first");
  if (const uint32_t version = read(offsetof(Header, version)); version != kVersion)
    return refuse_memory(
        Code::kIncompatible,
        format("a queue of version %u, and this Tenon knows version %u", version, kVersion));
  if ((incompat & ~kRedelivers) != 0)
    return refuse_memory(Code::kIncompatible, "a queue with features of a later version");
  const Geometry geometry{read(offsetof(Header, members)), read(offsetof(Header, capacity)),
                          read(offsetof(Header, slot_nbytes)), (incompat & kRedelivers) != 0};
  if (!check_geometry(geometry).is_ok() || geometry.nbytes() > nbytes)
    return refuse_memory(Code::kCorrupt, "a queue of a size that its storage does not have");
  return geometry;
}

void fill(Word* slot, uint64_t position, Kind kind, std::span<const std::byte> bytes,
          uint32_t put_backs) noexcept {
  slot[1].store(uint64_t{static_cast<uint32_t>(kind)} << 32 | bytes.size(),
                std::memory_order_relaxed);
  Word* to = slot + 2;
  uint64_t word = 0;
  size_t at = 0;
  for (; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    (to++)->store(word, std::memory_order_relaxed);
  }
  if (at < bytes.size()) {
    // The last word is put together byte by byte in a register. A load behind shorter stores would
    // wait until all stores before it have reached the cache.
    word = 0;
    for (size_t i = bytes.size(); i-- > at;) word = word << 8 | std::to_integer<uint64_t>(bytes[i]);
    to->store(word, std::memory_order_relaxed);
  }
  // The sender checks next for sleepers. A release store could become visible after that check.
  slot[0].store(word_of({position, put_backs, SlotState::kFull}), std::memory_order_seq_cst);
}

uint32_t copy(const Word* slot, uint32_t room, Kind* kind, std::byte* out) noexcept {
  const uint64_t head = slot[1].load(std::memory_order_relaxed);
  const auto nbytes = static_cast<uint32_t>(head);
  *kind = static_cast<Kind>(head >> 32);
  if (nbytes > room) return UINT32_MAX;
  const Word* from = slot + 2;
  // `room` is a multiple of 8, so the last word has room too.
  for (uint32_t at = 0; at < nbytes; at += sizeof(uint64_t)) {
    const uint64_t word = (from++)->load(std::memory_order_relaxed);
    std::memcpy(out + at, &word, sizeof word);
  }
  return nbytes;
}

}  // namespace tenon::queue::page
