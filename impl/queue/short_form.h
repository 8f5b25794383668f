// The short form of a message: a tensor without a name, and few bytes of the user. Most messages
// have it. With up to two dimensions and no user bytes it fits into two cache lines with its slot's
// head, and it needs no memory on the heap. Almost all other messages travel by their ticket
// (channel/ticket.h). This file only encodes and decodes the bytes, which docs/format/queue.md
// specifies, and reads and writes a lane's address. Queue calls it (queue_send.cc, queue_recv.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "channel/deposit.h"
#include "channel/ticket.h"
#include "queue/page.h"
#include "tensor/layout.h"
#include "tensor/message.h"

namespace tenon::queue {

inline constexpr size_t kShortDims = 8;  // the most dimensions
// The most bytes of the user. They have room for the pickle with which a Python process puts one
// tensor into a queue (docs/format/object.md).
inline constexpr size_t kShortUserNbytes = 192;
// The fields before the dimensions, as in docs/format/queue.md, and where the number of the address
// lies among them.
inline constexpr size_t kShortHeadNbytes = 72;
inline constexpr size_t kShortAddressOffset = 48;
inline constexpr size_t kShortNbytes = kShortHeadNbytes + 2 * kShortDims * 8 + kShortUserNbytes;

// How many bytes the short form of such a message has.
constexpr size_t short_nbytes(size_t ndim, size_t user_nbytes) noexcept {
  return kShortHeadNbytes + 2 * ndim * 8 + user_nbytes;
}

// The only tensor of a message, if the message can have the short form. Null: it cannot.
const tensor::Message::Item* short_item(const tensor::Message& message) noexcept;

// Encodes a message for which short_item() is not null, and whose storage is deposited already.
// `address` is LaneHeader::address_number of the sender's lane. Returns how many bytes it wrote,
// which is short_nbytes().
size_t encode_short(const tensor::Message& message, const channel::DepositedStorage& deposited,
                    uint32_t address, std::span<std::byte, kShortNbytes> out) noexcept;

struct ShortForm {
  memory::Depot::MessageSlot place;
  channel::StorageTicket storage;
  uint32_t address = 0;
  tensor::DType dtype;
  uint8_t flags = 0;
  uint64_t offset = 0;  // of the tensor, in elements
  size_t ndim = 0;
  std::array<int64_t, 2 * kShortDims> dims{};  // sizes, then strides
  std::span<const std::byte> user;             // of the decoded bytes
  // Everything of the decoded bytes that layout() and `flags` come from.
  std::span<const std::byte> layout_bytes;
  tensor::Layout layout() const noexcept {
    return {dtype, std::span(dims).first(ndim), std::span(dims).subspan(ndim, ndim), offset};
  }
};
// Decodes a private copy of the bytes, to which the result points. CORRUPT, with detail "field" =
// "queue". The caller checks that the layout fits the storage.
Result<ShortForm> decode_short(std::span<const std::byte> bytes);

// Writes the address of the depot in which the lane's member keeps its messages. The lane has it
// once for all messages. Only the member writes it, under its send lock, and only while no slot of
// the lane holds a message that nobody has taken.
void write_address(page::LaneHeader* lane, const channel::Ticket& address) noexcept;
// Reads the address if it has this number. No value: the lane has an address of another number by
// now. CORRUPT: the bytes are no address.
Result<std::optional<channel::Ticket>> read_address(const page::LaneHeader& lane, uint32_t number);

}  // namespace tenon::queue
