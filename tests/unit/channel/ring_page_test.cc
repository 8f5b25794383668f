// These tests compare the committed bytes of tests/peers/golden/ring, and check the functions of a
// ring's memory.
#include "channel/ring_page.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "channel/frame_ring.h"
#include "os/memfd.h"
#include "support/golden_files.h"
#include "support/must.h"

namespace tenon::channel::ring_page {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Geometry kGeometry{4, 128};

Bytes counted(size_t nbytes, uint8_t first) {
  Bytes bytes(nbytes);
  for (size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

Bytes file_bytes(const os::Fd& fd, uint64_t offset, uint64_t nbytes) {
  Bytes bytes(nbytes);
  EXPECT_TRUE(os::read_file(fd.get(), offset, bytes.data(), nbytes).is_ok());
  return bytes;
}

// The two files of a ring of four slots. Four frames began to cross on the socket. Of three frames
// in the ring, the first was taken and the second withdrawn. The receiver has passed both, and may
// sleep. The sender waits for room.
struct GoldenRing {
  GoldenRing() {
    const auto sender = must(RingSender::create(kGeometry));
    const auto fds = sender->take_fds();
    const auto receiver = must(RingReceiver::open(std::span<os::Fd, 2>(*fds)));
    receiver->ready();
    sender->begin_at(3);
    Bytes payload;
    EXPECT_TRUE(sender->put(1, counted(8, 0x10)));
    EXPECT_TRUE(must(receiver->take(3, &payload)).has_value());
    receiver->wake_up();
    EXPECT_TRUE(sender->put(3, counted(kGeometry.room(), 0x20)));
    sender->count_by_socket();
    EXPECT_TRUE(sender->put(5, counted(21, 0xa0)));
    uint64_t position = 0;
    EXPECT_EQ(sender->withdraw_oldest(&position), RingSender::Withdrawn::kWithdrawn);
    EXPECT_EQ(position, 1U);
    EXPECT_FALSE(must(receiver->take(3, &payload)).has_value());
    receiver->fall_asleep();
    sender->wait_for_room();
    header = file_bytes((*fds)[0], 0, kSlotsOffset);
    // These two values depend on the machine.
    const uint32_t cpu = 2;
    const uint64_t rung_ns = 9'876'543'210;
    std::memcpy(&header[offsetof(Header, cpu)], &cpu, sizeof cpu);
    std::memcpy(&header[offsetof(Header, rung_ns)], &rung_ns, sizeof rung_ns);
    slot = file_bytes((*fds)[0], kSlotsOffset + 2 * kGeometry.slot_nbytes, kGeometry.slot_nbytes);
    page = file_bytes((*fds)[1], 0, sizeof(Receiver));
  }
  Bytes header, slot, page;
};

struct GoldenPart {
  const char* file;
  Bytes bytes;
};

TEST(RingPage, TheSameContentHasTheCommittedBytes) {
  const GoldenRing ring;
  const std::vector<GoldenPart> all = {
      {"header.bin", ring.header}, {"slot.bin", ring.slot}, {"receiver.bin", ring.page}};
  test::GoldenFiles("ring").expect_committed(all,
                                             [](const GoldenPart& each) { return each.bytes; });
}

// A sender's file with these bytes, sealed as `seals` says, and a page for the receiver.
struct RingFiles {
  explicit RingFiles(const Bytes& bytes, unsigned seals = os::kSealShrink | os::kSealGrow) {
    fds[0] = must(os::create_memfd(must(os::random_nonce()), bytes.size()));
    EXPECT_TRUE(os::write_file(fds[0].get(), 0, bytes.data(), bytes.size()).is_ok());
    if (seals != 0) EXPECT_TRUE(os::add_seals(fds[0].get(), seals).is_ok());
    fds[1] = must(os::create_memfd(must(os::random_nonce()), kReceiverNbytes));
    EXPECT_TRUE(os::add_seals(fds[1].get(), os::kSealShrink | os::kSealGrow).is_ok());
  }
  Result<std::unique_ptr<RingReceiver>> open() {
    return RingReceiver::open(std::span<os::Fd, 2>(fds));
  }
  std::array<os::Fd, 2> fds;
};

Bytes committed_file() {
  const test::GoldenFiles files("ring");
  Bytes bytes = files.read("header.bin");
  const Bytes slot = files.read("slot.bin");
  bytes.resize(kGeometry.nbytes());
  std::copy(slot.begin(), slot.end(), bytes.begin() + kSlotsOffset + 2 * kGeometry.slot_nbytes);
  return bytes;
}

TEST(RingPage, TheCommittedRingIsRead) {
  RingFiles files(committed_file());
  const auto receiver = must(files.open());
  EXPECT_EQ(receiver->geometry().capacity, kGeometry.capacity);
  EXPECT_EQ(receiver->geometry().slot_nbytes, kGeometry.slot_nbytes);
  EXPECT_TRUE(receiver->must_ring());
  EXPECT_TRUE(receiver->expects_socket(3));
  // Positions 0 and 1 are withdrawn for a receiver that comes late.
  Bytes payload;
  EXPECT_FALSE(must(receiver->take(3, &payload)).has_value());
  const auto taken = must(receiver->take(4, &payload));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->kind, 5);
  EXPECT_EQ(payload, counted(21, 0xa0));
  EXPECT_EQ(receiver->position(), 3U);
  EXPECT_EQ(receiver->missed(), 2U);
}

TEST(RingPage, TheCommittedPageOfTheReceiverIsRead) {
  const Bytes bytes = test::GoldenFiles("ring").read("receiver.bin");
  ASSERT_EQ(bytes.size(), sizeof(Receiver));
  alignas(64) std::array<std::byte, sizeof(Receiver)> memory;
  std::copy(bytes.begin(), bytes.end(), memory.begin());
  const Receiver& page = receiver(memory.data());
  EXPECT_EQ(page.passed.load(), 2U);
  EXPECT_EQ(page.reading.load(), 0U);
  EXPECT_EQ(page.ready.load(), kReads);
  EXPECT_EQ(page.asleep.load(), 3U);
  EXPECT_EQ(page.refused[0].load(), 2U);
}

// Each case has one wrong field.
TEST(RingPage, WrongFilesAreRefused) {
  struct WrongField {
    const char* what;
    size_t offset;
    uint64_t value;
    size_t width;
    Code code;
  };
  const std::vector<WrongField> cases = {
      {"another magic", 7, 'F', 1, Code::kCorrupt},
      {"no magic", 0, 0, 8, Code::kCorrupt},
      {"version 0", 8, 0, 4, Code::kIncompatible},
      {"version 2", 8, 2, 4, Code::kIncompatible},
      {"no slots", 12, 0, 4, Code::kCorrupt},
      {"slots that are no power of two", 12, 3, 4, Code::kCorrupt},
      {"more slots than the file has", 12, 8, 4, Code::kCorrupt},
      {"too many slots", 12, 1U << 17, 4, Code::kCorrupt},
      {"empty slots", 16, 0, 4, Code::kCorrupt},
      {"slots that are no multiple of 64", 16, 96, 4, Code::kCorrupt},
      {"larger slots than the file has", 16, 192, 4, Code::kCorrupt},
      {"too large slots", 16, (1U << 16) + 64, 4, Code::kCorrupt},
      {"an unknown feature", 24, 1, 8, Code::kIncompatible},
      {"another unknown feature", 24, uint64_t{1} << 63, 8, Code::kIncompatible}};
  const Bytes good = committed_file();
  for (const WrongField& each : cases) {
    Bytes bytes = good;
    std::memcpy(bytes.data() + each.offset, &each.value, each.width);
    RingFiles files(bytes);
    const Status status = files.open().status();
    EXPECT_EQ(status.code(), each.code) << each.what << ": " << status.message();
    EXPECT_EQ(status.detail("field"), "ring") << each.what;
  }
  for (const size_t nbytes : {size_t{1}, sizeof(Header) - 1, kGeometry.nbytes() - 1}) {
    RingFiles files(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(nbytes)));
    EXPECT_EQ(files.open().status().code(), Code::kCorrupt) << nbytes;
  }
}

TEST(RingPage, FilesThatSomebodyCouldCutShortAreRefused) {
  for (const unsigned seals : {0U, unsigned{os::kSealGrow}, unsigned{os::kSealShrink}}) {
    RingFiles files(committed_file(), seals);
    EXPECT_EQ(files.open().status().code(), Code::kCorrupt) << seals;
  }
  RingFiles files(committed_file());
  files.fds[1] = must(os::create_memfd(must(os::random_nonce()), kReceiverNbytes));
  EXPECT_EQ(files.open().status().code(), Code::kCorrupt) << "the page is not sealed";
  files.fds[1] = must(os::create_memfd(must(os::random_nonce()), kReceiverNbytes - 1));
  ASSERT_TRUE(os::add_seals(files.fds[1].get(), os::kSealShrink | os::kSealGrow).is_ok());
  EXPECT_EQ(files.open().status().code(), Code::kCorrupt) << "the page is too short";
}

TEST(RingPage, SizesThatNoRingHasAreRefused) {
  for (const Geometry& wrong :
       {Geometry{0, 128}, Geometry{3, 128}, Geometry{kMostCapacity * 2, 128}, Geometry{4, 0},
        Geometry{4, 32}, Geometry{4, 100}, Geometry{4, kMostSlotNbytes + 64}})
    EXPECT_EQ(RingSender::create(wrong).status().code(), Code::kInvalidArgument)
        << wrong.capacity << " slots of " << wrong.slot_nbytes << " bytes";
  EXPECT_EQ((Geometry{kMostCapacity, kMostSlotNbytes}.nbytes()), 256 + (uint64_t{1} << 32));
}

// A sender may write anything into a slot. A length that is not in a slot is CORRUPT before any
// byte is copied.
TEST(RingPage, SlotsThatSayTooMuchAreRefused) {
  struct WrongSlot {
    const char* what;
    uint64_t word, after, length;
  };
  const uint64_t good_length = uint64_t{1} << 32 | 8;
  const std::vector<WrongSlot> cases = {
      {"one byte more than the slot has", 3, 0, uint64_t{1} << 32 | (kGeometry.room() + 1)},
      {"the longest length", 3, 0, uint64_t{1} << 32 | UINT32_MAX},
      {"a kind of more than 16 bits", 3, 0, uint64_t{1} << 48 | 8},
      {"a frame behind more frames than the socket had", 3, 5, good_length},
      {"a frame behind the most frames", 3, UINT64_MAX, good_length},
      {"a later position", 7, 0, good_length},
      {"a position of another slot", 2, 0, good_length},
      {"a position far away", uint64_t{1} << 63, 0, good_length}};
  for (const WrongSlot& each : cases) {
    Bytes bytes = committed_file();
    const std::array<uint64_t, 3> head = {each.word, each.after, each.length};
    std::memcpy(bytes.data() + kSlotsOffset + 2 * kGeometry.slot_nbytes, head.data(), sizeof head);
    RingFiles files(bytes);
    const auto receiver = must(files.open());
    Bytes payload;
    EXPECT_EQ(receiver->take(4, &payload).status().code(), Code::kCorrupt) << each.what;
    EXPECT_LE(payload.capacity(), kGeometry.room()) << each.what;
  }
}

}  // namespace
}  // namespace tenon::channel::ring_page
