// The kinds of frames of a connection (docs/format/frames.md), and what the payload of each kind is
// made of. connection_send.cc and connection_recv.cc ask for the parts, and never compare kinds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tenon::channel {

// The parts of a payload, in this order. A frame without a descriptor brings tokens and no message.
// `in_memfd`: the parts are in a sealed memfd, which is the frame's first fd. The payload is then
// the size of the parts in bytes.
struct FrameParts {
  bool leases = false;      // a lease block (lease_block.h)
  bool devices = false;     // a device block (device_block.h)
  bool descriptor = false;  // the descriptor of the message (tensor/descriptor.h)
  bool in_memfd = false;
  bool ring = false;  // the two files of a ring (frame_ring.h)
  // The frame makes tokens and segments known that later messages use, and brings no message.
  bool announces = false;
  // The frame waits until the ring has its marker (kMarker). The payload begins with the marker's
  // position in the ring, in 8 bytes. The parts follow.
  bool held = false;
  bool operator==(const FrameParts&) const = default;
};

// The entry of a kind is at the index kind - 1. The order is that of the bytes and never changes.
inline constexpr std::array<FrameParts, 16> kFrameKinds = {{
    {.descriptor = true},
    {.descriptor = true, .in_memfd = true},
    {.leases = true, .descriptor = true},
    {.leases = true, .descriptor = true, .in_memfd = true},
    {.leases = true},
    {.leases = true, .devices = true, .descriptor = true},
    {.leases = true, .devices = true, .descriptor = true, .in_memfd = true},
    {.ring = true},
    {.descriptor = true, .announces = true},
    {.descriptor = true, .in_memfd = true, .announces = true},
    {.leases = true, .descriptor = true, .announces = true},
    {.leases = true, .descriptor = true, .in_memfd = true, .announces = true},
    {.descriptor = true, .held = true},
    {.descriptor = true, .in_memfd = true, .held = true},
    {.leases = true, .descriptor = true, .held = true},
    {.leases = true, .descriptor = true, .in_memfd = true, .held = true},
}};
// The kind of a packet that is no frame: it wakes a receiver whose ring has frames. A FrameSocket
// sends and takes it by itself.
inline constexpr uint16_t kBell = 0xffff;
// A kind that is only in a ring: the held frame of this position is the next message.
inline constexpr uint16_t kMarker = 0xfffe;

// The bytes of the position in front of the parts of a held frame.
inline constexpr size_t kPositionNbytes = 8;

// Returns nothing for a kind that is not known.
constexpr std::optional<FrameParts> frame_parts(uint16_t kind) noexcept {
  if (kind < 1 || kind > kFrameKinds.size()) return std::nullopt;
  return kFrameKinds[kind - size_t{1}];
}

// The kind of a frame with these parts, which must be those of a kind.
constexpr uint16_t frame_kind(const FrameParts& parts) noexcept {
  uint16_t kind = 1;
  while (kind < kFrameKinds.size() && !(kFrameKinds[kind - size_t{1}] == parts)) ++kind;
  return kind;
}
static_assert(frame_kind({.leases = true}) == 5 && frame_kind({.ring = true}) == 8);
static_assert(frame_kind({.descriptor = true, .announces = true}) == 9);
static_assert(frame_kind({.leases = true, .descriptor = true, .in_memfd = true, .held = true}) ==
              16);

}  // namespace tenon::channel
