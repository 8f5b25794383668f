// libFuzzer target: it reads any bytes as what a hostile publisher says to a subscriber, on the
// socket and through the ring. Each message must end in an error, or in memory that can be read.
//
// The input has the form of packets one after another (docs/format/publish.md), as the golden files
// have it. Of a header only kind, flags, payload size and frame fds count. The flags say what the
// publisher does: see Deed.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "channel/connection.h"
#include "channel/frame_kind.h"
#include "channel/outgoing.h"
#include "memory/arena.h"
#include "os/memfd.h"
#include "peers/fuzz/require.h"
#include "storage/storage.h"
#include "tensor/message.h"

namespace {

using namespace tenon;
using channel::FrameSocket;
using channel::SocketType;
using fuzz::require;

constexpr channel::ring_page::Geometry kSmall{4, 256};
constexpr uint64_t kSegmentNbytes = 1 << 20;
constexpr size_t kHeaderNbytes = 32;
constexpr size_t kMostFds = 16;
constexpr os::Wait kNow{.timeout_ns = 0};

enum Deed : uint8_t { kThroughRing = 2, kWithdrawsFirst = 4, kSaysMore = 8 };

template <typename T>
T sound(Result<T> result, const char* what) {
  require(result.is_ok(), what, result.status().message());
  return std::move(result).value();
}

std::pair<os::Fd, os::Fd> socket_pair() {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
  return {os::Fd(ends[0]), os::Fd(ends[1])};
}

// The fds of an account as an honest publisher announces it, and of a segment. They serve all
// inputs.
struct HonestFds {
  HonestFds() {
    auto [ours, theirs] = socket_pair();
    publisher = sound(channel::Connection::create(theirs.get(), {}), "no connection");
    publisher->adopt_socket();
    (void)theirs.detach();
    require(publisher->begin_publishing().is_ok(), "no ring");
    memory::ArenaOptions options;
    options.capacity_nbytes = kSegmentNbytes;
    const Ref<memory::Arena> arena = sound(memory::Arena::create(options), "no arena");
    const Ref<storage::Storage> storage =
        sound(storage::Storage::create({.arena = arena.get()}, 4096), "no storage");
    constexpr int64_t kSize = 4096;
    constexpr int64_t kStride = 1;
    const Ref<tensor::Tensor> made =
        sound(tensor::Tensor::create(storage, {{1, 8, 1}, {&kSize, 1}, {&kStride, 1}, 0}, 0),
              "no tensor");
    tensor::Tensor* const tensor = made.get();
    tensor::Message message;
    require(message.add({&tensor, 1}, nullptr, memory::Access::kAuto).is_ok(), "no message");
    bool is_blocked = false;
    require(publisher->prepare_publish(message, &is_blocked).is_ok(), "not published");
    publisher->publish_prepared();
    FrameSocket frames(ours.get(), SocketType::kSeqpacket);
    os::Waiter waiter(kNow);
    (void)sound(frames.recv(waiter), "no ring");
    channel::InFrame frame = sound(frames.recv(waiter), "no announcement");
    require(frame.fds.size() == 4, "an announcement with other fds than an account and a segment");
    fds = std::move(frame.fds);
  }
  channel::Connection::Owned publisher;
  std::vector<os::Fd> fds;  // token, page, bell and segment
};

struct Packet {
  uint16_t kind = 0;
  uint8_t deeds = 0;
  size_t n_fds = 0;
  std::vector<std::byte> payload;
};

std::optional<Packet> next_packet(std::span<const std::byte>* bytes) {
  if (bytes->size() < kHeaderNbytes) return std::nullopt;
  Packet packet;
  uint32_t nbytes = 0, fds = 0;
  std::memcpy(&packet.kind, bytes->data() + 6, sizeof packet.kind);
  std::memcpy(&packet.deeds, bytes->data() + 8, sizeof packet.deeds);
  std::memcpy(&nbytes, bytes->data() + 12, sizeof nbytes);
  std::memcpy(&fds, bytes->data() + 20, sizeof fds);
  packet.n_fds = std::min<size_t>(fds, kMostFds);
  const std::span<const std::byte> payload =
      bytes->subspan(kHeaderNbytes, std::min<size_t>(nbytes, bytes->size() - kHeaderNbytes));
  packet.payload.assign(payload.begin(), payload.end());
  *bytes = bytes->subspan(kHeaderNbytes + payload.size());
  return packet;
}

// Moves the bytes after the size of a large frame into a memfd of that size.
os::Fd move_into_memfd(std::vector<std::byte>* payload, size_t ahead) {
  const size_t head = std::min(payload->size(), ahead + sizeof(uint64_t));
  const std::span<const std::byte> content = std::span(*payload).subspan(head);
  os::Fd fd = sound(channel::put_into_memfd(content), "no memfd");
  const uint64_t nbytes = content.size();
  if (nbytes > 0) std::memcpy(payload->data() + ahead, &nbytes, sizeof nbytes);
  payload->resize(head);
  return fd;
}

// Receives until there is nothing. False: the subscriber has refused its publisher.
bool receive_all(channel::Connection& subscriber) {
  for (;;) {
    auto got = subscriber.recv(kNow);
    const Code code = got.status().code();
    if (code == Code::kWouldBlock || code == Code::kPeerGone) return true;
    if (!got.is_ok()) {
      fuzz::require_refusal(got.status(),
                            {Code::kCorrupt, Code::kIncompatible, Code::kResourceExhausted});
      if (code == Code::kResourceExhausted) continue;
      if (code == Code::kIncompatible) return true;
      require(subscriber.recv(kNow).status().code() == Code::kCorrupt, "it goes on after CORRUPT");
      return false;
    }
    require(got.value() != nullptr, "no message");
    for (const tensor::Message::Item& each : got.value()->items()) {
      const storage::Storage& storage = *each.tensor->storage();
      if (storage.nbytes() == 0) continue;
      const volatile std::byte* const bytes = storage.data();
      (void)bytes[0];
      (void)bytes[storage.nbytes() - 1];
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t nbytes) {
  static const HonestFds& honest = *new HonestFds;
  auto [ours, theirs] = socket_pair();
  channel::ConnectionOptions options;
  options.subscribes = true;
  options.limits.max_nbytes = 1 << 20;
  const channel::Connection::Owned subscriber =
      sound(channel::Connection::create(theirs.get(), options), "no connection");
  FrameSocket publisher(ours.get(), SocketType::kSeqpacket);
  auto made = sound(channel::RingSender::create(kSmall), "no ring");
  channel::RingSender& ring = *made;
  const auto files = ring.take_fds();
  channel::OutFrame offer;
  offer.kind = channel::frame_kind({.ring = true});
  offer.fds = {(*files)[0].get(), (*files)[1].get()};
  publisher.enqueue(std::move(offer));
  bool full = false;
  require(publisher.hand_over(publisher.enqueued(), &full).is_ok(), "no ring is offered");
  publisher.use_ring(std::move(made));
  require(subscriber->await_ring(kNow).is_ok(), "an honest ring is refused");

  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data), nbytes);
  while (std::optional<Packet> packet = next_packet(&rest)) {
    const channel::FrameParts parts =
        channel::frame_parts(packet->kind).value_or(channel::FrameParts());
    if (parts.devices || parts.ring) continue;  // other targets have these
    uint64_t position = 0;
    if ((packet->deeds & kWithdrawsFirst) != 0) (void)ring.withdraw_oldest(&position);
    channel::OutFrame frame;
    frame.kind = packet->kind;
    frame.payload = std::move(packet->payload);
    frame.by_socket = (packet->deeds & kThroughRing) == 0;
    os::Fd large;
    if (frame.by_socket && parts.in_memfd && packet->n_fds > 0) {
      large = move_into_memfd(&frame.payload, parts.held ? channel::kPositionNbytes : 0);
      frame.fds.push_back(large.get());
    }
    const size_t n_tokens = parts.leases && packet->n_fds > 0 ? 3 : 0;
    for (size_t i = 0; i < n_tokens; ++i) frame.fds.push_back(honest.fds[i].get());
    while (frame.by_socket && frame.fds.size() < packet->n_fds)
      frame.fds.push_back(honest.fds[3].get());
    if (!frame.by_socket) frame.fds.clear();
    publisher.enqueue(std::move(frame));
    (void)publisher.hand_over(publisher.enqueued(), &full);
    if ((packet->deeds & kSaysMore) == 0 && !receive_all(*subscriber)) return 0;
  }
  ours.reset();
  (void)receive_all(*subscriber);
  return 0;
}
