// The states of a message on its way from a call of a Connection to the list of frames that wait
// for the socket or the ring (FrameSocket::enqueue()). connection_send.cc sends a message to one
// peer, and connection_publish.cc publishes it. Connection's send mutex guards all of this.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "channel/connection.h"
#include "channel/frame_kind.h"
#include "channel/lending.h"
#include "tensor/pack.h"

namespace tenon::channel {

// Returns a sealed memfd that holds the bytes, for a descriptor that is too long for a frame. The
// errors are those of os::create_memfd(), os::write_file() and os::add_seals().
Result<os::Fd> put_into_memfd(std::span<const std::byte> bytes);

// What a frame keeps until it is sent: the segments whose fds it carries, the device segments, the
// tokens, and the memfd of a large descriptor.
struct Connection::Carried {
  std::vector<Ref<memory::Segment>> segments;
  std::vector<tensor::DeviceSegment> device_segments;
  CarriedTokens tokens;
  os::Fd large;
};

// A message between the call and the frame. Each phase of Connection::enqueue() and of
// prepare_publish() fills in a part.
struct Connection::Outgoing {
  explicit Outgoing(tensor::Packed* scratch) noexcept : packed(*scratch) {}
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  // The scratch is the connection's. Its vectors keep their capacity from message to message, and
  // their references to segments end here.
  ~Outgoing() { packed.clear(); }

  tensor::Packed& packed;
  Lending::Grant grant;
  FrameParts parts{.descriptor = true};
  std::vector<std::byte> block;  // the bytes before the descriptor
  SentNumbers::Added added;      // the segments whose fds travel
  OutFrame frame;
  std::shared_ptr<Carried> carried;  // null: the frame needs nothing kept
};

// The frame that tells the peer what it must know before a published message: fds of segments,
// tokens, and numbers that it can forget.
struct Connection::Announcement {
  OutFrame frame;
  std::shared_ptr<Carried> carried;
};

// The state of a connection of a publisher. Null in other connections.
struct Connection::Publishing {
  struct Leases {
    Ref<memory::Ledger> ledger;
    std::vector<uint32_t> slots;
  };
  explicit Publishing(uint32_t capacity) : leases(capacity) {}
  Leases& leases_of(uint64_t position) noexcept { return leases[position & (leases.size() - 1)]; }
  void clear() noexcept {
    out.reset();
    announcement.reset();
    marker.reset();
  }

  // Of the message in each slot of the ring, so that they can be taken back if it is withdrawn.
  std::vector<Leases> leases;
  // A message that the peer had begun to take when it was withdrawn, and whose fate is not known.
  std::optional<uint64_t> begun;
  Leases begun_leases;
  // The prepared message. `lock` holds the connection's send mutex as long as there is one.
  std::unique_lock<std::mutex> lock;
  std::optional<Outgoing> out;
  std::optional<Announcement> announcement;
  std::optional<OutFrame> marker;
};

}  // namespace tenon::channel
