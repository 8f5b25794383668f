// Tests a peer that sends malformed device memory over a real socket. The receiver must return the
// typed error, leave nothing open and give the lease back at once. The connection then goes on, or
// stays broken, as the error demands.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>

#include "channel/device_block.h"
#include "channel/frames.h"
#include "channel/lease_block.h"
#include "connected_kit.h"
#include "memory/ledger.h"
#include "memory/lent_block.h"
#include "tensor/descriptor.h"

namespace cuda_test {
namespace {

using channel::DeviceBlock;
using channel::LeaseBlock;
using tensor::DescriptorContent;
using tensor::Reach;
using Bytes = std::vector<std::byte>;

constexpr uint16_t kLeased = 3;
constexpr uint16_t kDevices = 6;
constexpr uint16_t kLargeDevices = 7;

// The object that the leases keep. It holds nothing, and counts the leases that end.
class Counting final : public memory::Leased {
 public:
  uint64_t leased_nbytes() const noexcept override { return kNbytes; }
  void lease_ended() noexcept override {
    ++ended;
    release();
  }
  std::atomic<int> ended{0};  // the library's thread counts here, too

 private:
  void dispose() noexcept override {}
};

// A frame with one tensor of device memory under a lease, as the library would send it. Each case
// then spoils a part of it.
struct Frame {
  explicit Frame(const CudaExport& exported) {
    leases.slots = {0};
    devices.devices = {{cuda::find_device(0).value().uuid, false, {}}};
    devices.segments = {{0, 0, encode_cuda_handle(exported.route, false).value()}};
    tensor::SegmentRecord segment;
    segment.reach = Reach::kDevice;
    segment.access = static_cast<uint32_t>(memory::Access::kWritable);
    segment.nbytes = kNbytes;
    content.segments = {segment};
    content.storages = {{0, 0, kNbytes}};
    content.dims = {static_cast<int64_t>(kNbytes), 1};
    tensor::TensorRecord one;
    one.dtype = {1, 8, 1};
    one.ndim = 1;
    content.tensors = {one};
  }
  uint16_t kind = kDevices;
  LeaseBlock leases;
  DeviceBlock devices;
  std::function<void(Bytes*)> spoil_block;  // changes the bytes of the device block
  DescriptorContent content;
  bool without_descriptor = false;
  std::vector<int> fds;  // sent after the token's fds
};

// The other end of a connection. It builds every byte by hand.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket), frames_(socket, channel::SocketType::kSeqpacket) {
    ledger_ = memory::Ledger::create({getpid(), getuid()}, true).value();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(socket_); }

  void send(Frame frame) {
    memory::Leased* const leased = object_.get();
    uint32_t slot = 0;
    ASSERT_TRUE(ledger_->grant({&leased, 1}, &slot).is_ok());
    std::replace(frame.leases.slots.begin(), frame.leases.slots.end(), 0U, slot);
    frame.leases.account = ledger_->id();
    channel::OutFrame out;
    if (ledger_->has_fds()) {
      frame.leases.tokens = {{ledger_->id(), channel::TokenKind::kAccount}};
      out.fds = {ledger_->fds().token.get(), ledger_->fds().page.get(), ledger_->fds().bell.get()};
    }
    Bytes block = encode_device_block(frame.devices);
    if (frame.spoil_block) frame.spoil_block(&block);
    if (frame.kind == kLeased) block.clear();
    out.kind = frame.kind;
    out.payload = encode_lease_block(frame.leases);
    out.payload.insert(out.payload.end(), block.begin(), block.end());
    const Bytes descriptor = frame.without_descriptor ? Bytes() : encode_descriptor(frame.content);
    out.payload.insert(out.payload.end(), descriptor.begin(), descriptor.end());
    out.fds.insert(out.fds.end(), frame.fds.begin(), frame.fds.end());
    os::Fd memfd;
    if (frame.kind == kLargeDevices) {
      memfd = os::Fd(memfd_create("tenon-hostile-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      ASSERT_EQ(write(memfd.get(), out.payload.data(), out.payload.size()),
                static_cast<ssize_t>(out.payload.size()));
      ASSERT_EQ(fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
      const uint64_t nbytes = out.payload.size();
      out.payload.resize(sizeof nbytes);
      std::memcpy(out.payload.data(), &nbytes, sizeof nbytes);
      out.fds.insert(out.fds.begin(), memfd.get());
    }
    frames_.enqueue(std::move(out));
    os::Waiter forever{os::Wait{}};
    ASSERT_TRUE(frames_.flush(forever).is_ok());
    if (ledger_->has_fds()) (void)ledger_->take_fds();
  }
  int given_back() {
    (void)memory::settle_ledgers();
    return object_->ended;
  }

 private:
  int socket_;
  channel::FrameSocket frames_;
  Ref<memory::Ledger> ledger_;
  Ref<Counting> object_ = Ref<Counting>::adopt(new Counting);
};

struct Case {
  const char* what;
  Code expected;
  void (*spoil)(Frame* frame);
};

template <typename T>
auto put_at(size_t at, T value) {
  return [at, value](Bytes* block) { std::memcpy(block->data() + at, &value, sizeof value); };
}
// Returns a segment in PyTorch's form, whose memory the receiver fetches from the process that the
// handle names. That process does not matter here.
Bytes segment_of_torch() {
  Bytes handle(1 + 24 + 4);
  handle[0] = std::byte{'e'};
  const int32_t pid = getpid();
  std::memcpy(handle.data() + 1, &pid, sizeof pid);
  handle[10] = std::byte{0x20};  // 2 MiB
  handle[17] = std::byte{1};
  return handle;
}
// Returns a handle in Tenon's own form: one page of 2 MiB, whose fd travels with it.
Bytes handle_of_a_page() {
  CudaRoute route;
  route.transport = CudaTransport::kFd;
  route.sizes = {kPage};
  return encode_cuda_handle(route, false).value();
}

constexpr Code kGoesOnWell = Code::kOk;

const Case kCases[] = {
    {"nothing is wrong", kGoesOnWell, [](Frame*) {}},
    {"nothing is wrong, in a memfd", kGoesOnWell, [](Frame* f) { f->kind = kLargeDevices; }},

    // These cases spoil the device block.
    {"a block that is cut short", Code::kCorrupt,
     [](Frame* f) { f->spoil_block = [](Bytes* b) { b->resize(b->size() - 8); }; }},
    {"a block that is cut short, in a memfd", Code::kCorrupt,
     [](Frame* f) {
       f->kind = kLargeDevices;
       f->spoil_block = [](Bytes* b) { b->resize(b->size() - 8); };
     }},
    {"no block", Code::kIncompatible,
     [](Frame* f) { f->spoil_block = [](Bytes* b) { b->clear(); }; }},
    {"nothing behind the leases", Code::kCorrupt,
     [](Frame* f) {
       f->spoil_block = [](Bytes* b) { b->clear(); };
       f->without_descriptor = true;
     }},
    {"nothing behind the block", Code::kCorrupt, [](Frame* f) { f->without_descriptor = true; }},
    {"a block of another version", Code::kIncompatible,
     [](Frame* f) { f->spoil_block = put_at<uint32_t>(4, 2); }},
    {"a block of another version, in a memfd", Code::kIncompatible,
     [](Frame* f) {
       f->kind = kLargeDevices;
       f->spoil_block = put_at<uint32_t>(4, 2);
     }},
    {"a block of another length", Code::kCorrupt,
     [](Frame* f) { f->spoil_block = put_at<uint32_t>(0, 16 + 88); }},
    {"a block without devices", Code::kCorrupt, [](Frame* f) { f->devices.devices.clear(); }},
    {"devices without end", Code::kCorrupt,
     [](Frame* f) { f->spoil_block = put_at<uint32_t>(8, UINT32_MAX); }},
    {"segments without end", Code::kCorrupt,
     [](Frame* f) { f->spoil_block = put_at<uint32_t>(12, UINT32_MAX); }},
    {"a segment of no device", Code::kCorrupt, [](Frame* f) { f->devices.segments[0].device = 1; }},
    {"more fds than came", Code::kCorrupt, [](Frame* f) { f->devices.segments[0].n_fds = 2; }},
    {"more fds than any handle has", Code::kCorrupt,
     [](Frame* f) { f->devices.segments[0].n_fds = UINT32_MAX; }},

    // These cases spoil the descriptor.
    {"no lease for the storage", Code::kCorrupt,
     [](Frame* f) { f->leases.slots.push_back(channel::kNoLease); }},
    {"a device segment that is not there", Code::kCorrupt,
     [](Frame* f) { f->content.segments[0].fd_index = 1; }},
    {"device segments in a frame of kind 3", Code::kCorrupt, [](Frame* f) { f->kind = kLeased; }},
    {"device segments without any in the block", Code::kCorrupt,
     [](Frame* f) { f->devices.segments.clear(); }},
    {"a storage outside of what the descriptor says", Code::kCorrupt,
     [](Frame* f) { f->content.storages[0].offset = 1; }},
    {"no device segments in the descriptor", kGoesOnWell,
     [](Frame* f) {
       f->content.segments.clear();
       f->content.storages = {{}};
       f->content.dims = {0, 1};
     }},

    // These cases spoil what the block says about devices and memory.
    {"a device that is not here", Code::kNotFound,
     [](Frame* f) { f->devices.devices[0].uuid.fill(std::byte{0x5a}); }},
    {"an event that is none", Code::kInvalidArgument,
     [](Frame* f) {
       f->devices.devices[0].has_event = true;
       f->devices.devices[0].event.fill(std::byte{0x5a});
     }},
    {"an IPC handle that is none", Code::kInvalidArgument,
     [](Frame* f) { f->devices.segments[0].handle.assign(64, std::byte{0x5a}); }},
    {"a handle of no known form", Code::kCorrupt,
     [](Frame* f) { f->devices.segments[0].handle = {std::byte{1}, std::byte{'x'}}; }},
    {"a handle of a later version", Code::kIncompatible,
     [](Frame* f) { f->devices.segments[0].handle.assign(5, std::byte{9}); }},
    {"a segment of PyTorch's", Code::kCorrupt,
     [](Frame* f) { f->devices.segments[0].handle = segment_of_torch(); }},
    {"an IPC handle with an fd, which is closed", kGoesOnWell,
     [](Frame* f) {
       f->devices.segments[0].n_fds = 1;
       f->fds = {0};
     }},
    {"pieces without their fd", Code::kInvalidArgument,
     [](Frame* f) { f->devices.segments[0].handle = handle_of_a_page(); }},
    {"pieces with another file than memory's", Code::kInvalidArgument,
     [](Frame* f) {
       f->devices.segments[0].handle = handle_of_a_page();
       f->devices.segments[0].n_fds = 1;
       f->fds = {0};
     }},
    {"a storage outside of the allocation", Code::kInvalidArgument,
     [](Frame* f) {
       f->content.segments[0].nbytes = uint64_t{1} << 40;
       f->content.storages[0].offset = (uint64_t{1} << 40) - kNbytes;
     }},
    {"a storage that ends outside of the allocation", Code::kInvalidArgument,
     [](Frame* f) {
       f->content.segments[0].nbytes = 64 * kPage + kNbytes;
       f->content.storages[0].nbytes = 64 * kPage + kNbytes;
     }},
    {"a device's memory that is empty", kGoesOnWell,
     [](Frame* f) {
       f->devices.segments[0].handle.clear();
       f->content.segments[0].nbytes = 0;
       f->content.storages[0].nbytes = 0;
       f->content.dims = {0, 1};
     }},
    {"bytes where no handle leads", Code::kCorrupt,
     [](Frame* f) { f->devices.segments[0].handle.clear(); }},
};

bool ends(Code code) { return code == Code::kCorrupt; }

TEST(CudaConnectionHostile, WhatIsWrongIsSaidAndGivenBack) {
  NEEDS_THE_FAKE("what a driver makes of bytes that it never wrote is its own affair");
  in_child({}, [] {
    Line line;
    std::deque<Socket> sockets(std::size(kCases));
    const pid_t victim = start([&] {
      line.become(1);
      use_device();
      for (size_t i = 0; i < std::size(kCases); ++i) {
        SCOPED_TRACE(kCases[i].what);
        const Connection::Owned connection = sockets[i].connect(1);
        line.expect('1');
        for (const bool first : {true, false}) {
          Result<std::vector<Ref<Storage>>> got = try_receive(*connection);
          const Code code = got.is_ok() ? Code::kOk : got.status().code();
          const Code expected = first || ends(kCases[i].expected) ? kCases[i].expected : Code::kOk;
          EXPECT_EQ(code, expected) << (got.is_ok() ? "" : got.status().message());
          if (!first && got.is_ok()) EXPECT_EQ(byte_at(pointer_of(got.value()[0])), 7);
          if (got.is_ok()) got.value().clear();
          EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_MAPPING, getpid());
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_RESERVATION, getpid());
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_VMM_HANDLE, getpid());
          line.say('r');
          line.expect(first ? '2' : 'd');
        }
      }
    });
    line.become(0);
    use_device();
    Memory memory(kNbytes, 7);
    EXPECT_EQ(byte_at(memory.pointer), 7);
    const std::shared_ptr<const CudaExport> exported =
        cuda_memory(*wrap_cuda(memory.data(), kNbytes, 0, nullptr, nullptr, false).value())
            ->lend_by(CudaTransport::kNone, memory.pointer, kNbytes)
            .value();
    for (size_t i = 0; i < std::size(kCases); ++i) {
      SCOPED_TRACE(kCases[i].what);
      Peer peer(sockets[i].take(0));
      Frame bad(*exported);
      kCases[i].spoil(&bad);
      peer.send(std::move(bad));
      line.ask('1', 'r');
      // The connection stays open, even if it is broken.
      EXPECT_TRUE(wait_until([&] { return peer.given_back() == 1; }));
      peer.send(Frame(*exported));
      line.ask('2', 'r');
      if (!ends(kCases[i].expected))
        EXPECT_TRUE(wait_until([&] { return peer.given_back() == 2; }));
      line.say('d');
      EXPECT_TRUE(wait_until([&] { return peer.given_back() == 2; }));
    }
    EXPECT_EQ(wait_for(victim), 0);
    free_memory(&memory);
    expect_nothing_left();
  });
}

// The victim has lent two pieces of memory to an honest borrower, and the peer knows the route to
// one of them. The peer asks for the other by an address that it guessed.
TEST(CudaConnectionHostile, WhatOthersWereLentDoesNotComeHome) {
  in_child({}, [] {
    use_device();
    std::array<Memory, 2> both{Memory(2 * kNbytes), Memory(2 * kNbytes)};
    if (both[1].pointer < both[0].pointer) std::swap(both[0], both[1]);
    auto& [told, other] = both;  // so that the offset from `told` to `other` is positive
    Socket honest;
    auto [lender, borrower] = honest.connect_both();
    const Ref<Storage> storage = wrap(&told);
    send(*lender, {storage});
    send(*lender, {wrap(&other)});
    const std::shared_ptr<const CudaExport> exported =
        cuda_memory(*storage)->lend_by(CudaTransport::kNone, told.pointer, told.nbytes).value();
    const auto ask = [&](uint64_t offset, uint64_t nbytes, bool with_handle) {
      Socket socket;
      std::array<int, 2> ends = socket.take_both();
      Peer peer(ends[0]);
      const Connection::Owned connection = Socket::adopt(ends[1], {});
      Frame frame(*exported);
      frame.content.segments[0].nbytes = offset + nbytes;
      frame.content.storages[0] = {0, offset, nbytes};
      frame.content.dims = {static_cast<int64_t>(nbytes), 1};
      if (!with_handle) frame.devices.segments[0].handle.clear();
      peer.send(std::move(frame));
      Result<std::vector<Ref<Storage>>> got = try_receive(*connection);
      EXPECT_TRUE(wait_until([&] { return peer.given_back() == 1; }));
      if (got.is_ok()) EXPECT_EQ(got.value()[0].get(), storage.get());
      return got.is_ok() ? Code::kOk : got.status().code();
    };
    EXPECT_EQ(ask(0, told.nbytes, true), Code::kOk);
    EXPECT_EQ(ask(0, 512, true), Code::kInvalidArgument);
    EXPECT_EQ(ask(other.pointer - told.pointer, other.nbytes, true), Code::kInvalidArgument);
    EXPECT_EQ(ask(other.pointer, other.nbytes, false), Code::kCorrupt);
    EXPECT_EQ(ask(told.pointer, told.nbytes, false), Code::kCorrupt);
  });
}

}  // namespace
}  // namespace cuda_test
