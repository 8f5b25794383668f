// These tests send frames that no honest peer sends. The FrameSocket refuses each one and leaks no
// fd.
#include <sys/socket.h>

#include <random>

#include "unit/channel/frames_kit.h"

namespace tenon::channel::frametest {
namespace {

class FramesFromEnemies : public OneSocket {};
class FramesFromEnemiesOverBoth : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesFromEnemiesOverBoth,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

TEST_P(FramesFromEnemiesOverBoth, EveryHeaderByteChanged) {
  const Files files(2);
  const auto good = RawHeader{.kind = 1, .payload = 20, .packet_fds = 2, .frame_fds = 2}.bytes(20);
  for (size_t at = 0; at < kHeader; ++at) {
    for (const unsigned flip : {0x01U, 0x02U, 0x80U, 0xffU}) {
      Link link(GetParam());
      auto bytes = good;
      bytes[at] ^= static_cast<std::byte>(flip);
      send_raw(link.left_fd, bytes, files.fds);
      link.left_fd.reset();
      const auto got = recv_one(*link.right);
      const bool flags_unknown = at == 8 ? (flip & ~1U) != 0 : true;
      if (at < 4) {
        EXPECT_EQ(code_of(got), Code::kCorrupt) << at;
      } else if (at < 6) {
        EXPECT_EQ(code_of(got), Code::kIncompatible) << at;
      } else if (at < 8) {
        EXPECT_TRUE(got.is_ok()) << "kinds are not for frames to judge";
      } else if (at < 12) {
        EXPECT_EQ(code_of(got), flags_unknown ? Code::kIncompatible : Code::kCorrupt) << at;
      } else if (at < 16 && stream() && at < 15) {
        EXPECT_TRUE(code_of(got) == Code::kCorrupt || code_of(got) == Code::kPeerGone)
            << at << " the rest never comes";
      } else {
        EXPECT_EQ(code_of(got), Code::kCorrupt) << at;
      }
      if (!got.is_ok()) {
        EXPECT_EQ(code_of(recv_one(*link.right)), code_of(got)) << "for ever";
      }
    }
  }
}

TEST_P(FramesFromEnemiesOverBoth, HostileCounts) {
  const Files files(253, 3);
  const std::vector<RawHeader> headers = {
      {.payload = 0xffffffff},
      {.payload = kMaxFramePayload + 1},
      {.packet_fds = 253, .frame_fds = 0xffffffff},
      {.flags = 1, .packet_fds = 253, .frame_fds = 0xffffffff},
      {.packet_fds = 0xffffffff, .frame_fds = 0xffffffff},
      {.packet_fds = 254, .frame_fds = 254},
      {.packet_fds = 253, .frame_fds = 254},                            // the flag MORE is missing
      {.flags = 1, .packet_fds = 253, .frame_fds = 253},                // MORE is set without need
      {.flags = 1, .payload = 1, .packet_fds = 253, .frame_fds = 254},  // payload too early
      {.flags = 1, .packet_fds = 252, .frame_fds = 254},                // cut at another place
      {.flags = 1},                                                     // packets without end
      {.packet_fds = 253},
      {.frame_fds = 253},
      {.packet_fds = 253, .frame_fds = 253, .sequence = 1},
      {.packet_fds = 253, .frame_fds = 253, .sequence = UINT64_MAX},
  };
  for (size_t i = 0; i < headers.size(); ++i) {
    Link link(GetParam());
    send_raw(link.left_fd, headers[i].bytes(headers[i].payload == 1 ? 1 : 0), files.fds);
    EXPECT_EQ(code_of(recv_now(*link.right)), Code::kCorrupt) << i;
    EXPECT_EQ(code_of(recv_now(*link.right)), Code::kCorrupt) << i;
  }
}

TEST_P(FramesFromEnemiesOverBoth, PacketsOfAFrameMustAgree) {
  const Files files(254, 3);
  const std::vector<int> most(files.fds.begin(), files.fds.begin() + 253);
  const RawHeader first{.flags = 1, .packet_fds = 253, .frame_fds = 254};
  const RawHeader good{.packet_fds = 1, .frame_fds = 254};
  std::vector<RawHeader> seconds(6, good);
  seconds[1].kind = 2;
  seconds[2].frame_fds = 255;
  seconds[3].sequence = 1;
  seconds[4].flags = 1;
  seconds[5] = RawHeader{};  // a new frame begins in the middle of this one
  for (size_t i = 0; i < seconds.size(); ++i) {
    Link link(GetParam());
    send_raw(link.left_fd, first.bytes(), most);
    send_raw(link.left_fd, seconds[i].bytes(),
             i == 5 ? std::vector<int>() : std::vector<int>{files.fds[253]});
    EXPECT_EQ(code_of(recv_now(*link.right)), i == 0 ? Code::kOk : Code::kCorrupt) << i;
  }
}

TEST_P(FramesFromEnemiesOverBoth, FdsThatWereNotAnnounced) {
  const Files files(253, 3);
  const auto some = [&](size_t count) {
    return std::vector<int>(files.fds.begin(), files.fds.begin() + static_cast<long>(count));
  };
  struct Case {
    uint32_t announced;
    size_t sent;
  };
  for (const Case& one : {Case{0, 1}, Case{0, 253}, Case{1, 2}, Case{2, 1}, Case{1, 253},
                          Case{253, 1}, Case{1, 0}, Case{253, 252}}) {
    for (const size_t payload : {size_t{0}, size_t{50}}) {
      Link link(GetParam());
      const RawHeader header{.payload = static_cast<uint32_t>(payload),
                             .packet_fds = one.announced,
                             .frame_fds = one.announced};
      send_raw(link.left_fd, header.bytes(payload), some(one.sent));
      EXPECT_EQ(code_of(recv_now(*link.right)), Code::kCorrupt) << one.announced << " " << one.sent;
    }
  }
}

TEST_F(FramesFromEnemies, FdsAtTheWrongByte) {
  const Files files(2);
  const auto announced = RawHeader{.payload = 50, .packet_fds = 2, .frame_fds = 2}.bytes(50);
  const auto plain = RawHeader{.payload = 50}.bytes(50);
  const auto next = RawHeader{.sequence = 1}.bytes();
  for (const bool announce : {false, true}) {
    const auto& packet = announce ? announced : plain;
    for (size_t at = 1; at < packet.size(); ++at) {
      for (const bool stepwise : {false, true}) {
        Link link(SocketType::kStream);
        // If the packet announces its fds, they come with the first byte, and then once more
        // further on.
        send_raw(link.left_fd, std::span(packet).first(at),
                 announce ? files.fds : std::vector<int>());
        if (stepwise) {
          ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
        }
        send_raw(link.left_fd, std::span(packet).subspan(at), files.fds);
        auto got = recv_now(*link.right);
        if (got.is_ok()) {  // the fault is known only when the next packet starts
          send_raw(link.left_fd, next);
          got = recv_now(*link.right);
        }
        ASSERT_EQ(code_of(got), Code::kCorrupt) << announce << " " << at << " " << stepwise;
      }
    }
    // The announced fds come late: with the second byte or behind the header, and not with the
    // first byte.
    for (const size_t at : {size_t{1}, size_t{31}, size_t{32}, size_t{40}}) {
      Link link(SocketType::kStream);
      send_raw(link.left_fd, std::span(announced).first(at));
      (void)recv_now(*link.right);
      const os::Transfer sent =
          os::send_message(link.left_fd.get(), std::span(announced).subspan(at), {}, files.fds);
      ASSERT_EQ(sent.error, 0);
      ASSERT_EQ(code_of(recv_now(*link.right)), Code::kCorrupt) << at;
    }
  }
}

// A peer may send fds with every single byte. The receiver still holds at most the fds of one
// packet.
TEST_F(FramesFromEnemies, FdsWithEveryByte) {
  Link link(SocketType::kStream);
  const Files files(253, 3);
  const auto packet = RawHeader{.payload = 1000, .packet_fds = 253, .frame_fds = 253}.bytes(1000);
  const long before = test::count_open_fds();
  Code code = Code::kWouldBlock;
  for (size_t i = 0; i < packet.size() && code == Code::kWouldBlock; ++i) {
    send_raw(link.left_fd, std::span(packet).subspan(i, 1), files.fds);
    code = code_of(recv_now(*link.right));
    EXPECT_LE(test::count_open_fds(), before + 253);
  }
  EXPECT_EQ(code, Code::kCorrupt);
  EXPECT_EQ(test::count_open_fds(), before);
}

TEST_P(FramesFromEnemiesOverBoth, RandomBytes) {
  std::mt19937 random(GetParam() == SocketType::kStream ? 1 : 2);
  const Files files(253, 3);
  for (int round = 0; round < 3000; ++round) {
    Link link(GetParam());
    bool broken = false;
    for (int part = 0; part < 4 && !broken; ++part) {
      std::vector<std::byte> bytes(1 + random() % 200);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      if (random() % 4 != 0) {  // a right beginning lets the bytes reach the later checks
        const RawHeader header{
            .flags = static_cast<uint32_t>(random() % 2),
            .payload = static_cast<uint32_t>(random() % 8 == 0 ? random() : random() % 100),
            .packet_fds = static_cast<uint32_t>(random() % 260),
            .frame_fds = static_cast<uint32_t>(random() % 300)};
        const auto start = header.bytes();
        std::copy_n(start.begin(), std::min<size_t>(bytes.size(), 12 + random() % 20),
                    bytes.begin());
      }
      const size_t count = random() % 2 == 0 ? random() % 254 : 0;
      send_raw(link.left_fd, bytes, std::span(files.fds).first(count));
      const auto got = recv_now(*link.right);
      broken = code_of(got) == Code::kCorrupt || code_of(got) == Code::kIncompatible;
      EXPECT_TRUE(broken || got.is_ok() || code_of(got) == Code::kWouldBlock)
          << got.status().message();
    }
  }
}

TEST_F(FramesFromEnemies, SeqpacketOfTheWrongLength) {
  const auto good = RawHeader{.payload = 100}.bytes(200);
  for (size_t size = 1; size <= good.size(); ++size) {
    Link link(SocketType::kSeqpacket);
    send_raw(link.left_fd, std::span(good).first(size));
    EXPECT_EQ(code_of(recv_now(*link.right)), size == kHeader + 100 ? Code::kOk : Code::kCorrupt)
        << size;
  }
  Link huge(SocketType::kSeqpacket);
  const auto long_packet = RawHeader{.payload = kMaxFramePayload}.bytes(140'000);
  send_raw(huge.left_fd, long_packet);
  EXPECT_EQ(code_of(recv_now(*huge.right)), Code::kCorrupt);
}

TEST_F(FramesFromEnemies, EmptySeqpacketIsNotTheEnd) {
  const Files files(3);
  for (const size_t count : {size_t{0}, size_t{3}}) {
    Link link(SocketType::kSeqpacket);
    send_raw(link.left_fd, {}, std::span(files.fds).first(count));
    EXPECT_EQ(code_of(recv_now(*link.right)), Code::kCorrupt);
  }
}

// Frames do not use urgent data. It must not make a wait hang, and must not become part of a frame.
TEST_F(FramesFromEnemies, UrgentByteDoesNotHang) {
  Link link(SocketType::kStream);
  if (::send(link.left_fd.get(), "!", 1, MSG_OOB) != 1)
    GTEST_SKIP() << "this kernel has no urgent data on AF_UNIX";
  Waiter waiter = within_ms(20);
  const auto got = link.right->recv(waiter);
  EXPECT_TRUE(code_of(got) == Code::kTimeout || code_of(got) == Code::kCorrupt)
      << got.status().message();
}

}  // namespace
}  // namespace tenon::channel::frametest
