#include "queue/short_form.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tenon::queue {
namespace {

// A bit beside the mode: StorageTicket::ends_when_opened.
constexpr uint8_t kEndsWhenOpened = 0x80;

// The fields of the short form before its dimensions.
struct WireShort {
  uint32_t message;
  uint32_t generation;
  uint32_t slot;
  uint32_t segment;
  uint64_t serial;
  uint64_t offset;
  uint64_t nbytes;
  uint64_t segment_nbytes;
  uint32_t address;
  uint8_t access;
  uint8_t mode;
  uint8_t ndim;
  uint8_t flags;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  uint32_t user_nbytes;
  uint64_t tensor_offset;
};
static_assert(sizeof(WireShort) == kShortHeadNbytes &&
              offsetof(WireShort, address) == kShortAddressOffset);

Status refuse_short(const char* why) {
  return Status(Code::kCorrupt, why).with("field", std::string("queue"));
}

}  // namespace

const tensor::Message::Item* short_item(const tensor::Message& message) noexcept {
  const auto& items = message.items();
  if (items.size() != 1 || !message.composites().empty() ||
      message.user_bytes().size() > kShortUserNbytes)
    return nullptr;
  const tensor::Message::Item& item = items[0];
  return message.name_of(item) == nullptr && item.tensor->sizes().size() <= kShortDims ? &item
                                                                                       : nullptr;
}

size_t encode_short(const tensor::Message& message, const channel::DepositedStorage& deposited,
                    uint32_t address, std::span<std::byte, kShortNbytes> out) noexcept {
  const tensor::Tensor& tensor = *message.items()[0].tensor;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const std::vector<std::byte>& user = message.user_bytes();
  WireShort wire{};
  wire.message = deposited.place.message;
  wire.generation = deposited.place.generation;
  wire.slot = deposited.storage.slot;
  wire.segment = deposited.storage.segment.number;
  wire.serial = deposited.storage.segment.serial;
  wire.offset = deposited.storage.offset;
  wire.nbytes = deposited.storage.nbytes;
  wire.segment_nbytes = deposited.storage.segment_nbytes;
  wire.address = address;
  wire.access = static_cast<uint8_t>(deposited.storage.access);
  wire.mode = static_cast<uint8_t>(deposited.storage.mode |
                                   (deposited.storage.ends_when_opened ? kEndsWhenOpened : 0U));
  wire.ndim = static_cast<uint8_t>(sizes.size());
  wire.flags = static_cast<uint8_t>(tensor.flags());
  wire.code = tensor.dtype().code;
  wire.bits = tensor.dtype().bits;
  wire.lanes = tensor.dtype().lanes;
  wire.user_nbytes = static_cast<uint32_t>(user.size());
  wire.tensor_offset = tensor.offset();
  std::byte* to = out.data();
  const auto append = [&to](const void* from, size_t nbytes) {
    if (nbytes > 0) std::memcpy(to, from, nbytes);
    to += nbytes;
  };
  append(&wire, sizeof wire);
  append(sizes.data(), sizes.size_bytes());
  append(strides.data(), strides.size_bytes());
  append(user.data(), user.size());
  return static_cast<size_t>(to - out.data());
}

Result<ShortForm> decode_short(std::span<const std::byte> bytes) {
  WireShort wire;
  if (bytes.size() < sizeof wire) return refuse_short("a short form of too few bytes");
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.ndim > kShortDims || wire.user_nbytes > kShortUserNbytes ||
      bytes.size() != sizeof wire + size_t{wire.ndim} * 16 + wire.user_nbytes)
    return refuse_short("a short form of another number of bytes than it says");
  if (wire.serial == 0 || (wire.access != static_cast<uint8_t>(memory::Access::kReadOnly) &&
                           wire.access != static_cast<uint8_t>(memory::Access::kWritable)))
    return refuse_short("a short form without a segment, or with an access that is none");
  ShortForm form;
  form.place = {wire.message, wire.generation};
  form.storage.slot = wire.slot;
  form.storage.segment = {wire.segment, channel::ThingKind::kSegment, wire.serial};
  form.storage.offset = wire.offset;
  form.storage.nbytes = wire.nbytes;
  form.storage.segment_nbytes = wire.segment_nbytes;
  form.storage.access = wire.access;
  form.storage.mode = wire.mode & ~kEndsWhenOpened;
  form.storage.ends_when_opened = (wire.mode & kEndsWhenOpened) != 0;
  form.address = wire.address;
  form.dtype = {wire.code, wire.bits, wire.lanes};
  form.flags = wire.flags;
  form.offset = wire.tensor_offset;
  form.ndim = wire.ndim;
  const size_t dims_nbytes = size_t{wire.ndim} * 16;
  if (dims_nbytes > 0) std::memcpy(form.dims.data(), bytes.data() + sizeof wire, dims_nbytes);
  form.user = bytes.subspan(sizeof wire + dims_nbytes);
  form.layout_bytes = bytes.subspan(offsetof(WireShort, ndim),
                                    sizeof wire - offsetof(WireShort, ndim) + dims_nbytes);
  return form;
}

void write_address(page::LaneHeader* lane, const channel::Ticket& address) noexcept {
  const uint32_t number = lane->address_number.load(std::memory_order_relaxed);
  // An odd number says that the address is being written. The stores of the words are releases, so
  // a reader that sees a new word sees the odd number too.
  lane->address_number.store(number | 1, std::memory_order_relaxed);
  std::array<std::byte, page::kAddressNbytes> bytes{};
  const auto pid = static_cast<uint32_t>(address.pid);
  const auto length = static_cast<uint32_t>(address.rendezvous.size());
  std::memcpy(bytes.data(), &pid, sizeof pid);
  std::memcpy(bytes.data() + 4, &length, sizeof length);
  std::memcpy(bytes.data() + 8, address.depot.data(), address.depot.size());
  std::memcpy(bytes.data() + 24, address.rendezvous.data(),
              std::min(address.rendezvous.size(), bytes.size() - 24));
  for (size_t i = 0; i < lane->address.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
    lane->address[i].store(word, std::memory_order_release);
  }
  lane->address_number.store((number | 1) + 1, std::memory_order_release);
}

Result<std::optional<channel::Ticket>> read_address(const page::LaneHeader& lane, uint32_t number) {
  std::array<std::byte, page::kAddressNbytes> bytes;
  if (lane.address_number.load(std::memory_order_acquire) != number || (number & 1) != 0)
    return std::optional<channel::Ticket>();
  for (size_t i = 0; i < lane.address.size(); ++i) {
    const uint64_t word = lane.address[i].load(std::memory_order_acquire);
    std::memcpy(bytes.data() + i * sizeof word, &word, sizeof word);
  }
  // The loads above are acquire loads, so this one comes after them.
  if (lane.address_number.load(std::memory_order_relaxed) != number)
    return std::optional<channel::Ticket>();
  channel::Ticket address;
  uint32_t length = 0;
  std::memcpy(&address.pid, bytes.data(), sizeof address.pid);
  std::memcpy(&length, bytes.data() + 4, sizeof length);
  std::memcpy(address.depot.data(), bytes.data() + 8, address.depot.size());
  if (length == 0 || length > channel::kMostRendezvousNbytes)
    return refuse_short("the address of a lane has a path of a length that none has");
  address.rendezvous.assign(reinterpret_cast<const char*>(bytes.data()) + 24, length);
  if (address.rendezvous[0] != '/' || address.rendezvous.find('\0') != std::string::npos)
    return refuse_short("the address of a lane has no absolute path");
  return std::optional<channel::Ticket>(std::move(address));
}

}  // namespace tenon::queue
