// These tests listen to what a publisher's connection says to a subscriber. They compare the frames
// of the kinds 9 to 16 and the marker with the committed bytes of tests/peers/golden/publish, and a
// subscriber reads the committed bytes.
#include <cstring>
#include <map>
#include <optional>

#include "channel/connection.h"
#include "channel/lease_block.h"
#include "channel/outgoing.h"
#include "memory/arena.h"
#include "os/memfd.h"
#include "storage/storage.h"
#include "support/golden_files.h"
#include "support/must.h"

#include "frames_kit.h"

namespace tenon::channel::frametest {
namespace {

using Bytes = std::vector<std::byte>;
using tensor::Message;
using Tensors = std::vector<Ref<tensor::Tensor>>;

constexpr ring_page::Geometry kPublishedRing{16, 1024};
constexpr uint64_t kStorageNbytes = 4096;
constexpr size_t kUserNbytes = 2000;  // more than a slot takes
// The segment records of this many storages do not fit into a frame.
constexpr size_t kManySegments = 930;

// A tensor whose bytes all have one value. In an arena it is lent under a lease. Without one it has
// a segment of its own, and no lease.
Ref<tensor::Tensor> tensor_full_of(uint8_t value, memory::Arena* arena) {
  const Bytes bytes(kStorageNbytes, static_cast<std::byte>(value));
  const storage::StorageOptions options{.isolated = arena == nullptr, .arena = arena};
  constexpr int64_t kSize = kStorageNbytes;
  constexpr int64_t kStride = 1;
  return must(tensor::Tensor::create(
      must(storage::Storage::create_from(options, bytes.data(), bytes.size())),
      {{1, 8, 1}, {&kSize, 1}, {&kStride, 1}, 0}, 0));
}

Ref<memory::Arena> small_arena() {
  memory::ArenaOptions options;
  options.capacity_nbytes = 1 << 20;
  return must(memory::Arena::create(options));
}

// Replaces the numbers of a process, such as the serials of its segments, by 1, 2 and so on.
class SmallNumbers {
 public:
  void change(uint64_t* number) {
    *number = known_.try_emplace(*number, known_.size() + 1).first->second;
  }

 private:
  std::map<uint64_t, uint64_t> known_;
};

struct HeardFrame {
  uint16_t kind = 0;
  bool is_in_ring = false;
  Bytes packet;   // the last packet on the socket, or the slot
  Bytes payload;  // of the packet
  Bytes content;  // of the memfd, if there is one
  std::vector<Fd> fds;
};

// The peer of a publisher's connection. It receives everything, and replaces the numbers that
// depend on the process by those of the golden files.
class Listener {
 public:
  Listener() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = Fd(ends[0]);
    ConnectionOptions options;
    options.ring_geometry = kPublishedRing;
    publisher_ = must(Connection::create(ends[1], options));
    publisher_->adopt_socket();
    EXPECT_TRUE(publisher_->begin_publishing().is_ok());
    HeardFrame ring = hear_on_socket().value();
    EXPECT_EQ(ring.kind, 8);
    file_ = Fd(::dup(ring.fds[0].get()));
    ring_ = must(RingReceiver::open(std::span<Fd, 2>(ring.fds.data(), 2)));
    ring_->ready();
  }

  void publish(const Tensors& tensors, size_t user_nbytes) {
    Message message;
    std::vector<tensor::Tensor*> all;
    for (const auto& each : tensors) all.push_back(each.get());
    if (!all.empty()) EXPECT_TRUE(message.add(all, nullptr, memory::Access::kAuto).is_ok());
    EXPECT_TRUE(message.set_user_bytes(pattern(user_nbytes, 3)).is_ok());
    bool is_blocked = false;
    const Status prepared = publisher_->prepare_publish(message, &is_blocked);
    ASSERT_TRUE(prepared.is_ok()) << prepared.message();
    publisher_->publish_prepared();
    for (;;) {
      publisher_->flush_some();
      std::optional<HeardFrame> frame = hear_on_socket();
      if (!frame) frame = hear_in_ring();
      if (!frame) return;
      heard.push_back(std::move(*frame));
    }
  }
  const HeardFrame& heard_of(uint16_t kind) const {
    const auto found = std::find_if(heard.begin(), heard.end(),
                                    [&](const HeardFrame& each) { return each.kind == kind; });
    EXPECT_NE(found, heard.end()) << "no frame of kind " << kind;
    return found != heard.end() ? *found : heard.front();
  }

  std::vector<HeardFrame> heard;

 private:
  std::optional<HeardFrame> hear_on_socket() {
    HeardFrame frame;
    for (;;) {
      Bytes packet(kHeader + kMaxFramePayload);
      os::ReceivedFds fds;
      const os::Transfer got = os::receive_message(socket_.get(), packet, false, &fds);
      if (got.error != 0) return std::nullopt;
      packet.resize(got.nbytes);
      std::memcpy(&frame.kind, &packet[6], sizeof frame.kind);
      if (frame.kind == kBell) continue;
      fds.move_to(frame.fds);
      frame.packet = std::move(packet);
      if ((frame.packet[8] & std::byte{1}) == std::byte{0}) break;
    }
    ++by_socket_;
    frame.payload.assign(frame.packet.begin() + kHeader, frame.packet.end());
    const FrameParts parts = *frame_parts(frame.kind);
    if (parts.ring) return frame;
    if (parts.in_memfd) {
      uint64_t nbytes = 0;
      std::memcpy(&nbytes, &frame.payload[parts.held ? 8 : 0], sizeof nbytes);
      frame.content.resize(nbytes);
      EXPECT_TRUE(os::read_file(frame.fds[0].get(), 0, frame.content.data(), nbytes).is_ok());
      frame.content = normal(parts, frame.content, frame.fds.size() - 1);
      frame.fds[0] = must(put_into_memfd(frame.content));
      return frame;
    }
    const size_t ahead = parts.held ? 8 : 0;
    Bytes content(frame.payload.begin() + static_cast<std::ptrdiff_t>(ahead), frame.payload.end());
    content = normal(parts, content, frame.fds.size());
    std::copy(content.begin(), content.end(),
              frame.payload.begin() + static_cast<std::ptrdiff_t>(ahead));
    std::copy(frame.payload.begin(), frame.payload.end(), frame.packet.begin() + kHeader);
    return frame;
  }

  std::optional<HeardFrame> hear_in_ring() {
    HeardFrame frame;
    const uint64_t slot = ring_->position() % kPublishedRing.capacity;
    const auto taken = must(ring_->take(by_socket_, &frame.payload));
    if (!taken) return std::nullopt;
    frame.kind = taken->kind;
    frame.is_in_ring = true;
    frame.packet.resize(24 + frame.payload.size());
    EXPECT_TRUE(os::read_file(file_.get(),
                              ring_page::kSlotsOffset + slot * kPublishedRing.slot_nbytes,
                              frame.packet.data(), frame.packet.size())
                    .is_ok());
    if (frame.kind != kMarker) frame.payload = normal(*frame_parts(frame.kind), frame.payload, 0);
    return frame;
  }

  Bytes normal(const FrameParts& parts, std::span<const std::byte> bytes, size_t n_fds) {
    LeaseBlock block;
    size_t used = 0;
    if (parts.leases) {
      block = must(decode_lease_block(bytes, &used));
      accounts_.change(&block.account);
      for (TokenRecord& each : block.tokens) accounts_.change(&each.id);
    }
    tensor::DescriptorContent content =
        must(tensor::decode_descriptor(bytes.subspan(used), n_fds - block.n_fds(), {}));
    // The content is as before, but for the numbers that were replaced.
    const Bytes again = tensor::encode_descriptor(content);
    EXPECT_TRUE(std::equal(again.begin(), again.end(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(used), bytes.end()));
    content.sender_pid = 4711;
    content.boot_id.fill(0xb0);
    content.pid_namespace = 4'026'531'836;
    for (tensor::SegmentRecord& each : content.segments) {
      segments_.change(&each.id);
      each.device = 1;
      each.inode = each.id;
      each.nonce.fill(0xa0);
    }
    for (uint64_t& each : content.forgotten) segments_.change(&each);
    Bytes normal = parts.leases ? encode_lease_block(block) : Bytes();
    const Bytes descriptor = tensor::encode_descriptor(content);
    normal.insert(normal.end(), descriptor.begin(), descriptor.end());
    EXPECT_EQ(normal.size(), bytes.size());
    return normal;
  }

  Fd socket_;
  Fd file_;
  Connection::Owned publisher_;
  std::unique_ptr<RingReceiver> ring_;
  uint64_t by_socket_ = 0;
  SmallNumbers accounts_, segments_;
};

// Two publishers, which together use every kind.
struct Broadcasts {
  Broadcasts() {
    for (size_t i = 0; i < kManySegments; ++i)
      many.push_back(tensor_full_of(static_cast<uint8_t>(i + 3), nullptr));
    all.push_back(leased.front());
    all.insert(all.end(), many.begin(), many.end());
    few.publish(leased, 8);
    few.publish({tensor_full_of(2, nullptr)}, 8);
    few.publish({}, kUserNbytes);
    few.publish(leased, kUserNbytes);
    few.publish({}, tensor::kMaxUserNbytes);
    few.publish(leased, tensor::kMaxUserNbytes);
    few.publish(many, 8);
    all_new.publish(all, 8);
  }
  Ref<memory::Arena> arena = small_arena();
  Tensors leased{tensor_full_of(1, arena.get())};
  Tensors many, all;
  Listener few, all_new;
};

struct GoldenFrame {
  const char* file;
  const HeardFrame& frame;
};

std::vector<GoldenFrame> golden_frames(const Broadcasts& all) {
  return {{"announce.bin", all.few.heard_of(9)},
          {"large_announce.bin", all.few.heard_of(10)},
          {"announce_tokens.bin", all.few.heard_of(11)},
          {"large_announce_tokens.bin", all.all_new.heard_of(12)},
          {"held.bin", all.few.heard_of(13)},
          {"large_held.bin", all.few.heard_of(14)},
          {"held_leased.bin", all.few.heard_of(15)},
          {"large_held_leased.bin", all.few.heard_of(16)},
          {"marker.bin", all.few.heard_of(kMarker)}};
}

class PublishFrames : public test::Guarded {
 protected:
  // The library's thread keeps some fds from the first connection on.
  PublishFrames() { const Listener first; }
};

TEST_F(PublishFrames, TheSameMessagesHaveTheCommittedBytes) {
  const Broadcasts all;
  test::GoldenFiles("publish").expect_committed(
      golden_frames(all), [](const GoldenFrame& each) { return each.frame.packet; });
}

// Sends what a listener has heard to a subscriber, and checks its messages. Frames that are
// committed cross with the committed bytes.
void expect_read(const Listener& from, const std::map<const HeardFrame*, Bytes>& committed,
                 const std::vector<std::pair<Tensors, size_t>>& messages) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd ours(ends[0]);
  ConnectionOptions options;
  options.subscribes = true;
  const Connection::Owned subscriber = must(Connection::create(ends[1], options));
  subscriber->adopt_socket();
  FrameSocket peer(ours.get(), SocketType::kSeqpacket);
  auto ring = must(RingSender::create(kPublishedRing));
  const auto files = ring->take_fds();
  OutFrame offer;
  offer.kind = 8;
  offer.fds = {(*files)[0].get(), (*files)[1].get()};
  peer.enqueue(std::move(offer));
  ASSERT_TRUE(flush_all(peer).is_ok());
  ring->expect_reader();
  peer.use_ring(std::move(ring));
  size_t next = 0;
  for (const HeardFrame& each : from.heard) {
    OutFrame frame;
    frame.kind = each.kind;
    frame.payload = each.payload;
    if (const auto found = committed.find(&each); found != committed.end()) {
      const size_t head = each.is_in_ring ? 24 : kHeader;
      frame.payload.assign(found->second.begin() + static_cast<std::ptrdiff_t>(head),
                           found->second.end());
    }
    for (const Fd& fd : each.fds) frame.fds.push_back(fd.get());
    frame.by_socket = !each.is_in_ring;
    peer.enqueue(std::move(frame));
    ASSERT_TRUE(flush_all(peer).is_ok());
    auto got = subscriber->recv(Wait{.timeout_ns = 0});
    if (!each.is_in_ring) {
      ASSERT_EQ(got.status().code(), Code::kWouldBlock) << each.kind << got.status().message();
      continue;
    }
    ASSERT_TRUE(got.is_ok()) << each.kind << ": " << got.status().message();
    const auto& [tensors, user_nbytes] = messages.at(next++);
    EXPECT_EQ(got.value()->user_bytes(), pattern(user_nbytes, 3));
    ASSERT_EQ(got.value()->items().size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      EXPECT_EQ(
          std::memcmp(got.value()->items()[i].tensor->data(), tensors[i]->data(), kStorageNbytes),
          0);
  }
  EXPECT_EQ(next, messages.size());
}

TEST_F(PublishFrames, ASubscriberReadsTheCommittedBytes) {
  const Broadcasts all;
  std::map<const HeardFrame*, Bytes> committed;
  const test::GoldenFiles files("publish");
  for (const GoldenFrame& each : golden_frames(all))
    committed.emplace(&each.frame, files.read(each.file));
  const Tensors isolated{tensor_full_of(2, nullptr)};
  expect_read(all.few, committed,
              {{all.leased, 8},
               {isolated, 8},
               {{}, kUserNbytes},
               {all.leased, kUserNbytes},
               {{}, tensor::kMaxUserNbytes},
               {all.leased, tensor::kMaxUserNbytes},
               {all.many, 8}});
  expect_read(all.all_new, committed, {{all.all, 8}});
}

}  // namespace
}  // namespace tenon::channel::frametest
