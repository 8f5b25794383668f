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
  bool operator==(const FrameParts&) const = default;
};

// The entry of a kind is at the index kind - 1. The order is that of the bytes and never changes.
inline constexpr std::array<FrameParts, 8> kFrameKinds = {{
    {.descriptor = true},
    {.descriptor = true, .in_memfd = true},
    {.leases = true, .descriptor = true},
    {.leases = true, .descriptor = true, .in_memfd = true},
    {.leases = true},
    {.leases = true, .devices = true, .descriptor = true},
    {.leases = true, .devices = true, .descriptor = true, .in_memfd = true},
    {.ring = true},
}};
// The kind of a packet that is no frame: it wakes a receiver whose ring has frames. A FrameSocket
// sends and takes it by itself.
inline constexpr uint16_t kBell = 0xffff;

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
static_assert(frame_kind({.leases = true}) == 5);

}  // namespace tenon::channel
