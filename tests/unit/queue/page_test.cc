// These tests compare the committed bytes of tests/peers/golden/queue, and check the steps on a
// queue's memory that need no second process.
#include "queue/page.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "queue/short_form.h"
#include "support/golden_files.h"
#include "support/must.h"

namespace tenon::queue::page {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Geometry kGeometry{3, 4, 128};

// Zeroed memory with a queue in it, as Queue::create() makes it.
class PageMemory {
 public:
  explicit PageMemory(const Geometry& geometry = kGeometry)
      : nbytes_(geometry.nbytes()),
        base_(static_cast<std::byte*>(::operator new(nbytes_, std::align_val_t{4096}))) {
    std::memset(base_, 0, nbytes_);
    write_header(base_, geometry);
  }
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;
  ~PageMemory() { ::operator delete(base_, std::align_val_t{4096}); }

  std::byte* base() const noexcept { return base_; }
  size_t nbytes() const noexcept { return nbytes_; }
  Bytes bytes(size_t offset, size_t nbytes) const {
    return {base_ + offset, base_ + offset + nbytes};
  }

 private:
  size_t nbytes_;
  std::byte* base_;
};

Bytes numbered(size_t nbytes, uint8_t first) {
  Bytes bytes(nbytes);
  for (size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

Bytes header_bytes() {
  const PageMemory memory;
  Header& header = page::header(memory.base());
  add(&header.receivers_asleep, 2);
  add(&header.senders_asleep, 1);
  add(&header.lanes, 0);
  add(&header.lanes, 2);
  header.joined.store(3);
  header.died.store(1);
  return memory.bytes(0, sizeof(Header));
}

Bytes member_bytes(uint64_t lock) {
  const PageMemory memory;
  Member& entry = member(memory.base(), 1);
  entry.word.store(word_of(MemberWord{4711, 2, MemberState::kHere}));
  entry.pid_namespace.store(0x1122334455667788);
  entry.started.store(123'456);
  entry.user.store(1000);
  entry.lock.store(lock);
  entry.receive.asleep.store(7);
  entry.receive.wake.store(3);
  entry.receive.rung_ns.store(9'876'543'210);
  entry.send.asleep.store(2);
  entry.send.wake.store(1);
  return memory.bytes(kHeaderNbytes + sizeof(Member), sizeof(Member));
}

channel::Ticket golden_address() {
  channel::Ticket address;
  address.pid = 4711;
  for (size_t i = 0; i < address.depot.size(); ++i) address.depot[i] = static_cast<uint8_t>(i + 1);
  address.rendezvous = "/dev/shm/depot";
  return address;
}

// A tensor of 2 x 3 float32 with 5 bytes of the user.
Bytes short_bytes() {
  storage::StorageOptions options;
  options.is_private = true;
  const std::array<int64_t, 2> sizes{2, 3};
  const std::array<int64_t, 2> strides{3, 1};
  const tensor::Layout layout{{2, 32, 1}, sizes, strides, 1};
  const Ref<tensor::Tensor> tensor = must(tensor::Tensor::create(
      must(storage::Storage::create(options, 64)), layout, tensor::kFlagRequiresGrad));
  tensor::Message message;
  message.add_received(tensor, memory::Access::kAuto, std::nullopt);
  EXPECT_TRUE(message.set_user_bytes(numbered(5, 0x70)).is_ok());
  channel::DepositedStorage deposited;
  deposited.place = {17, 3};
  deposited.storage.slot = 21;
  deposited.storage.segment = {5, channel::ThingKind::kSegment, 0x1122334455667788};
  deposited.storage.offset = 4096;
  deposited.storage.nbytes = 64;
  deposited.storage.segment_nbytes = uint64_t{64} << 20;
  deposited.storage.access = 2;
  deposited.storage.mode = 1;
  std::array<std::byte, kShortNbytes> out;
  const size_t nbytes = encode_short(message, deposited, 2, out);
  return {out.begin(), out.begin() + static_cast<ptrdiff_t>(nbytes)};
}

// A lane of four slots. Message 0 was taken by member 2, message 1 waits, and so does message 2,
// which is long. The last slot was never used.
Bytes lane_bytes() {
  const PageMemory memory;
  std::byte* const lane = page::lane(memory.base(), kGeometry, 1);
  lane_header(lane).cpu.store(5);
  write_address(&lane_header(lane), golden_address());
  fill(slot(lane, kGeometry, 0), 0, Kind::kTicket, numbered(20, 0x10));
  fill(slot(lane, kGeometry, 1), 1, Kind::kTicket, numbered(kGeometry.room(), 0x40));
  fill(slot(lane, kGeometry, 2), 2, Kind::kIndirect, numbered(8, 0xe0));
  EXPECT_TRUE(take(slot(lane, kGeometry, 0), slot(lane, kGeometry, 0)->load(), 2));
  return memory.bytes(kGeometry.lanes_offset() + kGeometry.lane_nbytes(), kGeometry.lane_nbytes());
}

// A lane of a queue that redelivers: message 0 was acknowledged, member 2 holds message 1, and
// message 2 was put back once.
Bytes lane_redeliver_bytes() {
  const PageMemory memory;
  std::byte* const lane = page::lane(memory.base(), kGeometry, 1);
  for (uint64_t i = 0; i < 3; ++i) {
    Word* const word = slot(lane, kGeometry, i);
    fill(word, i, Kind::kBytes, numbered(16, static_cast<uint8_t>(0x10 * (i + 1))), i == 2 ? 1 : 0);
    if (i < 2) EXPECT_TRUE(take(word, word->load(), taker_of(2, 1), SlotState::kHeld));
  }
  EXPECT_TRUE(acknowledge(slot(lane, kGeometry, 0), 0, taker_of(2, 1)));
  EXPECT_FALSE(acknowledge(slot(lane, kGeometry, 0), 0, taker_of(2, 1)));
  EXPECT_FALSE(hold(slot(lane, kGeometry, 1), 1, taker_of(3, 1), taker_of(1, 1)));
  lane_header(lane).put_back.store(2);
  return memory.bytes(kGeometry.lanes_offset() + kGeometry.lane_nbytes(), kGeometry.lane_nbytes());
}

Bytes header_redeliver_bytes() {
  Geometry geometry = kGeometry;
  geometry.redelivers = true;
  const PageMemory memory(geometry);
  return memory.bytes(0, sizeof(Header));
}

struct GoldenPage {
  const char* file;
  Bytes bytes;
};

TEST(QueuePage, TheSameContentHasTheCommittedBytes) {
  const std::vector<GoldenPage> all = {{"header.bin", header_bytes()},
                                       {"member.bin", member_bytes(0)},
                                       {"member_locked.bin", member_bytes(lock_of(2))},
                                       {"lane.bin", lane_bytes()},
                                       {"header_redeliver.bin", header_redeliver_bytes()},
                                       {"lane_redeliver.bin", lane_redeliver_bytes()},
                                       {"short.bin", short_bytes()}};
  test::GoldenFiles("queue").expect_committed(all,
                                              [](const GoldenPage& each) { return each.bytes; });
}

TEST(QueuePage, TheCommittedHeaderIsRead) {
  const Bytes bytes = test::GoldenFiles("queue").read("header.bin");
  ASSERT_EQ(bytes.size(), sizeof(Header));
  const Geometry got =
      must(read_header(std::span<const std::byte, sizeof(Header)>(bytes), kGeometry.nbytes()));
  EXPECT_EQ(got.members, 3U);
  EXPECT_EQ(got.capacity, 4U);
  EXPECT_EQ(got.slot_nbytes, 128U);
}

TEST(QueuePage, TheCommittedQueueThatRedeliversIsRead) {
  const Bytes header = test::GoldenFiles("queue").read("header_redeliver.bin");
  ASSERT_EQ(header.size(), sizeof(Header));
  EXPECT_TRUE(
      must(read_header(std::span<const std::byte, sizeof(Header)>(header), kGeometry.nbytes()))
          .redelivers);
  const Bytes lane = test::GoldenFiles("queue").read("lane_redeliver.bin");
  ASSERT_EQ(lane.size(), kGeometry.lane_nbytes());
  const PageMemory memory;
  std::byte* const base = page::lane(memory.base(), kGeometry, 1);
  std::memcpy(base, lane.data(), lane.size());
  EXPECT_EQ(lane_header(base).put_back.load(), 2U);
  const std::array<SlotWord, 3> words = {SlotWord{0, taker_of(2, 1), SlotState::kTaken},
                                         SlotWord{1, taker_of(2, 1), SlotState::kHeld},
                                         SlotWord{2, 1, SlotState::kFull}};
  for (uint64_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(slot_of(slot(base, kGeometry, i)->load()), words[i]) << i;
}

TEST(QueuePage, TheCommittedMemberAndLaneAreRead) {
  const PageMemory memory;
  const Bytes entry = test::GoldenFiles("queue").read("member.bin");
  const Bytes lane = test::GoldenFiles("queue").read("lane.bin");
  ASSERT_EQ(entry.size(), sizeof(Member));
  ASSERT_EQ(lane.size(), kGeometry.lane_nbytes());
  std::memcpy(memory.base() + kHeaderNbytes + sizeof(Member), entry.data(), entry.size());
  std::memcpy(page::lane(memory.base(), kGeometry, 1), lane.data(), lane.size());
  EXPECT_EQ(member_of(member(memory.base(), 1).word.load()),
            (MemberWord{4711, 2, MemberState::kHere}));
  EXPECT_EQ(member(memory.base(), 1).receive.asleep.load(), 7U);
  std::byte* const base = page::lane(memory.base(), kGeometry, 1);
  EXPECT_EQ(lane_header(base).cpu.load(), 5U);
  const auto address = must(read_address(lane_header(base), 2));
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(address->pid, golden_address().pid);
  EXPECT_EQ(address->depot, golden_address().depot);
  EXPECT_EQ(address->rendezvous, golden_address().rendezvous);
  const std::array<SlotWord, 4> words = {SlotWord{0, 2, SlotState::kTaken},
                                         SlotWord{1, 0, SlotState::kFull},
                                         SlotWord{2, 0, SlotState::kFull}, SlotWord{}};
  for (uint64_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(slot_of(slot(base, kGeometry, i)->load()), words[i]) << i;
  Kind kind{};
  Bytes out(kGeometry.room());
  EXPECT_EQ(copy(slot(base, kGeometry, 2), kGeometry.room(), &kind, out.data()), 8U);
  EXPECT_EQ(kind, Kind::kIndirect);
  out.resize(8);
  EXPECT_EQ(out, numbered(8, 0xe0));
}

Status read_status(const Bytes& bytes, uint64_t nbytes) {
  return read_header(std::span<const std::byte, sizeof(Header)>(bytes), nbytes).status();
}

// Each case has one wrong field.
TEST(QueuePage, WrongHeadersAreRefused) {
  struct WrongHeader {
    const char* what;
    size_t offset;
    uint64_t value;
    size_t width;
    Code code;
  };
  const std::vector<WrongHeader> cases = {
      {"another magic", 7, 'F', 1, Code::kCorrupt},
      {"no magic", 0, 0, 8, Code::kCorrupt},
      {"version 0", 8, 0, 4, Code::kIncompatible},
      {"version 2", 8, 2, 4, Code::kIncompatible},
      {"no members", 12, 0, 4, Code::kCorrupt},
      {"too many members", 12, 257, 4, Code::kCorrupt},
      {"one member more than the memory has", 12, 4, 4, Code::kCorrupt},
      {"no slots", 16, 0, 4, Code::kCorrupt},
      {"one slot", 16, 1, 4, Code::kCorrupt},
      {"slots that are no power of two", 16, 3, 4, Code::kCorrupt},
      {"more slots than the memory has", 16, 8, 4, Code::kCorrupt},
      {"too many slots", 16, 1U << 17, 4, Code::kCorrupt},
      {"empty slots", 20, 0, 4, Code::kCorrupt},
      {"slots that are no multiple of 64", 20, 96, 4, Code::kCorrupt},
      {"larger slots than the memory has", 20, 192, 4, Code::kCorrupt},
      {"too large slots", 20, (1U << 16) + 64, 4, Code::kCorrupt},
      {"an unknown feature", 24, 2, 8, Code::kIncompatible},
      {"another unknown feature", 24, uint64_t{1} << 63, 8, Code::kIncompatible}};
  const Bytes good = header_bytes();
  ASSERT_TRUE(read_status(good, kGeometry.nbytes()).is_ok());
  for (const WrongHeader& each : cases) {
    Bytes bytes = good;
    std::memcpy(bytes.data() + each.offset, &each.value, each.width);
    const Status status = read_status(bytes, kGeometry.nbytes());
    EXPECT_EQ(status.code(), each.code) << each.what << ": " << status.message();
    EXPECT_EQ(status.detail("field"), "queue") << each.what;
  }
  EXPECT_EQ(read_status(good, kGeometry.nbytes() - 1).code(), Code::kCorrupt);
  EXPECT_EQ(read_status(good, 0).code(), Code::kCorrupt);
}

TEST(QueuePage, TheLargestGeometryDoesNotOverflow) {
  const Geometry largest{kMostMembers, kMostCapacity, kMostSlotNbytes};
  EXPECT_TRUE(check_geometry(largest).is_ok());
  EXPECT_EQ(largest.nbytes(), 4096 + 256 * 192 + 256 * (384 + (uint64_t{1} << 32)));
}

TEST(QueuePage, WordsHaveTheirFields) {
  for (const uint32_t pid : {0U, 1U, 4'194'304U, UINT32_MAX}) {
    for (const uint32_t generation : {0U, 1U, 0xffffffU}) {
      for (const MemberState state : {MemberState::kFree, MemberState::kHere, MemberState::kDead}) {
        const MemberWord word{pid, generation, state};
        EXPECT_EQ(member_of(word_of(word)), word);
      }
    }
  }
  for (const uint64_t position : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 48) - 1}) {
    for (const uint32_t taker : {0U, 255U, 0xfffU}) {
      for (const SlotState state : {SlotState::kEmpty, SlotState::kFull, SlotState::kTaken}) {
        const SlotWord word{position, taker, state};
        EXPECT_EQ(slot_of(word_of(word)), word);
      }
    }
  }
  EXPECT_EQ(word_of(SlotWord{1, 2, SlotState::kTaken}), 0x10022U);
  EXPECT_EQ(word_of(MemberWord{1, 1, MemberState::kHere}), 0x10000000102U);
  EXPECT_EQ(word_of(SlotWord{}), 0U);    // zeroed memory is an empty queue
  EXPECT_EQ(word_of(MemberWord{}), 0U);  // without members
}

TEST(QueuePage, SlotsFollowThePositions) {
  const PageMemory memory;
  std::byte* const lane = page::lane(memory.base(), kGeometry, 2);
  for (const uint64_t position : {0U, 1U, 3U}) {
    const auto at = reinterpret_cast<std::byte*>(slot(lane, kGeometry, position)) - lane;
    EXPECT_EQ(at, static_cast<ptrdiff_t>(384 + position * 128));
    EXPECT_EQ(slot(lane, kGeometry, position), slot(lane, kGeometry, position + 4));
    EXPECT_EQ(slot(lane, kGeometry, position),
              slot(lane, kGeometry, position + (uint64_t{1} << 40)));
  }
  EXPECT_EQ(lane + kGeometry.lane_nbytes(), memory.base() + memory.nbytes());
}

// A sender can write any length into a slot, also while a receiver reads it.
TEST(QueuePage, ACopyStaysWithinItsRoom) {
  const PageMemory memory;
  std::byte* const lane = page::lane(memory.base(), kGeometry, 0);
  Word* const slot = page::slot(lane, kGeometry, 0);
  const uint32_t room = kGeometry.room();
  ASSERT_EQ(room, 112U);
  Bytes out(room + 16, std::byte{0xee});
  Kind kind{};
  for (const uint32_t lie : {room + 1, 0x7fffffffU, UINT32_MAX}) {
    slot[1].store(uint64_t{1} << 32 | lie);
    EXPECT_EQ(copy(slot, room, &kind, out.data()), UINT32_MAX) << lie;
    EXPECT_EQ(out, Bytes(room + 16, std::byte{0xee})) << lie;
  }
  for (const uint32_t nbytes : {0U, 1U, 7U, 8U, 9U, room}) {
    fill(slot, 0, Kind::kTicket, numbered(nbytes, 1));
    std::fill(out.begin(), out.end(), std::byte{0xee});
    ASSERT_EQ(copy(slot, room, &kind, out.data()), nbytes);
    EXPECT_EQ(kind, Kind::kTicket);
    EXPECT_EQ(Bytes(out.begin(), out.begin() + nbytes), numbered(nbytes, 1)) << nbytes;
    const uint32_t end = (nbytes + 7) / 8 * 8;  // the last word is copied whole
    EXPECT_EQ(Bytes(out.begin() + end, out.end()), Bytes(out.size() - end, std::byte{0xee}));
  }
}

TEST(QueuePage, AMessageIsTakenOnceAndOnlyAsItWasSeen) {
  const PageMemory memory;
  Word* const slot = page::slot(page::lane(memory.base(), kGeometry, 0), kGeometry, 0);
  fill(slot, 0, Kind::kTicket, numbered(8, 1));
  const uint64_t seen = slot->load();
  EXPECT_TRUE(take(slot, seen, 1));
  EXPECT_FALSE(take(slot, seen, 2));
  EXPECT_EQ(slot_of(slot->load()), (SlotWord{0, 1, SlotState::kTaken}));
  // The sender has filled the slot again, and the receiver tries the word that it saw before.
  fill(slot, 4, Kind::kTicket, numbered(8, 1));
  EXPECT_FALSE(take(slot, seen, 2));
  EXPECT_EQ(slot_of(slot->load()), (SlotWord{4, 0, SlotState::kFull}));
}

// A sender fills its lane many times while two receivers copy and take. Each message is taken by
// one of them, and a copy that was taken is whole.
TEST(QueuePage, TwoReceiversRaceForEachMessage) {
  constexpr uint64_t kMessages = 50'000;
  const PageMemory memory;
  std::byte* const lane = page::lane(memory.base(), kGeometry, 0);
  std::vector<std::atomic<uint32_t>> takers(kMessages);
  std::atomic<uint64_t> torn{0};
  std::atomic<uint64_t> unordered{0};
  const auto receive = [&](uint32_t self) {
    uint64_t cursor = 0;
    Bytes out(kGeometry.room());
    Kind kind{};
    while (cursor < kMessages) {
      Word* const slot = page::slot(lane, kGeometry, cursor);
      const uint64_t seen = slot->load();
      const SlotWord word = slot_of(seen);
      if (word.state == SlotState::kEmpty || word.position < cursor) {
        std::this_thread::yield();
        continue;
      }
      if (word.position > cursor) {
        cursor = word.position - kGeometry.capacity + 1;
        continue;
      }
      if (word.state == SlotState::kFull) {
        const uint32_t nbytes = copy(slot, kGeometry.room(), &kind, out.data());
        if (!take(slot, seen, self)) continue;
        takers[cursor].fetch_add(1);
        std::array<uint64_t, 4> content{};
        if (nbytes == sizeof content) std::memcpy(content.data(), out.data(), nbytes);
        for (const uint64_t each : content) torn += each == cursor + 1 ? 0 : 1;
      }
      ++cursor;
    }
  };
  std::thread first(receive, 1);
  std::thread second(receive, 2);
  for (uint64_t position = 0; position < kMessages; ++position) {
    Word* const slot = page::slot(lane, kGeometry, position);
    for (;;) {
      const SlotWord word = slot_of(slot->load());
      if (word.state == SlotState::kEmpty) break;
      if (word.state == SlotState::kTaken) {
        unordered += word.position + kGeometry.capacity == position ? 0 : 1;
        break;
      }
      std::this_thread::yield();
    }
    std::array<uint64_t, 4> content{};
    content.fill(position + 1);
    fill(slot, position, Kind::kTicket, std::as_bytes(std::span(content)));
  }
  first.join();
  second.join();
  uint64_t taken_once = 0;
  for (const auto& each : takers) taken_once += each.load() == 1 ? 1 : 0;
  EXPECT_EQ(taken_once, kMessages);
  EXPECT_EQ(torn.load(), 0U);
  EXPECT_EQ(unordered.load(), 0U);
}

TEST(QueuePage, SetsHoldEachMember) {
  const PageMemory memory;
  MemberSet& set = header(memory.base()).lanes;
  for (const uint32_t index : {0U, 63U, 64U, 255U}) add(&set, index);
  EXPECT_EQ(set[0].load(), uint64_t{1} << 63 | 1);
  EXPECT_EQ(set[1].load(), 1U);
  EXPECT_EQ(set[3].load(), uint64_t{1} << 63);
  remove(&set, 63);
  remove(&set, 255);
  EXPECT_EQ(set[0].load(), 1U);
  EXPECT_EQ(set[3].load(), 0U);
}

TEST(ShortForm, WhatIsEncodedIsDecoded) {
  const Bytes bytes = test::GoldenFiles("queue").read("short.bin");
  const ShortForm form = must(decode_short(bytes));
  EXPECT_EQ(form.place.message, 17U);
  EXPECT_EQ(form.place.generation, 3U);
  EXPECT_EQ(form.storage.slot, 21U);
  EXPECT_EQ(form.storage.segment.number, 5U);
  EXPECT_EQ(form.storage.segment.serial, 0x1122334455667788U);
  EXPECT_EQ(form.storage.offset, 4096U);
  EXPECT_EQ(form.storage.nbytes, 64U);
  EXPECT_EQ(form.storage.segment_nbytes, uint64_t{64} << 20);
  EXPECT_EQ(form.address, 2U);
  EXPECT_EQ(form.dtype, (tensor::DType{2, 32, 1}));
  EXPECT_EQ(form.flags, tensor::kFlagRequiresGrad);
  EXPECT_EQ(form.offset, 1U);
  const tensor::Layout layout = form.layout();
  EXPECT_EQ(std::vector<int64_t>(layout.sizes.begin(), layout.sizes.end()),
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::vector<int64_t>(layout.strides.begin(), layout.strides.end()),
            (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(Bytes(form.user.begin(), form.user.end()), numbered(5, 0x70));
  EXPECT_EQ(form.storage.mode, 1U);
  EXPECT_FALSE(form.storage.ends_when_opened);
}

TEST(ShortForm, ALeaseOfTheMessageIsABitBesideTheMode) {
  Bytes bytes = test::GoldenFiles("queue").read("short.bin");
  bytes[53] |= std::byte{0x80};
  const ShortForm form = must(decode_short(bytes));
  EXPECT_EQ(form.storage.mode, 1U);
  EXPECT_TRUE(form.storage.ends_when_opened);
}

// Short forms with bytes cut off, added or made large are refused, and nothing is read out of
// bounds.
TEST(ShortForm, WrongBytesAreRefused) {
  const Bytes good = test::GoldenFiles("queue").read("short.bin");
  for (size_t nbytes = 0; nbytes < good.size(); ++nbytes)
    EXPECT_EQ(decode_short(std::span(good).first(nbytes)).status().code(), Code::kCorrupt)
        << nbytes;
  Bytes longer = good;
  longer.push_back({});
  EXPECT_EQ(decode_short(longer).status().code(), Code::kCorrupt);
  const auto with = [&](size_t offset, uint8_t value) {
    Bytes wrong = good;
    wrong[offset] = std::byte{value};
    return decode_short(wrong).status().code();
  };
  EXPECT_EQ(with(52, 0), Code::kCorrupt);  // access
  EXPECT_EQ(with(52, 3), Code::kCorrupt);
  EXPECT_EQ(with(54, 9), Code::kCorrupt);  // ndim
  EXPECT_EQ(with(54, 255), Code::kCorrupt);
  EXPECT_EQ(with(60, 255), Code::kCorrupt);  // the user's bytes
  EXPECT_EQ(with(63, 255), Code::kCorrupt);
  Bytes without = good;
  std::fill_n(without.begin() + 16, 8, std::byte{});
  EXPECT_EQ(decode_short(without).status().code(), Code::kCorrupt);
}

TEST(ShortForm, AnAddressIsReadByItsNumberAlone) {
  PageMemory memory;
  LaneHeader& lane = lane_header(page::lane(memory.base(), kGeometry, 0));
  EXPECT_FALSE(must(read_address(lane, 2)).has_value());
  write_address(&lane, golden_address());
  channel::Ticket other = golden_address();
  other.rendezvous = std::string(channel::kMostRendezvousNbytes, 'x').replace(0, 1, "/");
  EXPECT_TRUE(must(read_address(lane, 2)).has_value());
  write_address(&lane, other);
  EXPECT_FALSE(must(read_address(lane, 2)).has_value());
  EXPECT_EQ(must(read_address(lane, 4))->rendezvous, other.rendezvous);
  lane.address_number.store(5);
  EXPECT_FALSE(must(read_address(lane, 5)).has_value());
  EXPECT_FALSE(must(read_address(lane, 4)).has_value());
  lane.address_number.store(4);
  for (const uint64_t length : {uint64_t{0}, uint64_t{256}, uint64_t{UINT32_MAX}}) {
    lane.address[0].store(length << 32);
    EXPECT_EQ(read_address(lane, 4).status().code(), Code::kCorrupt) << length;
  }
}

}  // namespace
}  // namespace tenon::queue::page
