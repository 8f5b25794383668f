// These tests send messages that cannot be right. Such a message ends the connection, whichever
// part of the library finds the fault.
#include "channel/connection.h"

#include <functional>

#include "support/must.h"

#include "content_kit.h"
#include "frames_kit.h"

namespace tenon::channel::frametest {
namespace {

using tensor::DescriptorContent;
using tensor::Reach;

class ConnectionEnds : public test::Guarded {};

void enqueue(FrameSocket* peer, const DescriptorContent& content, const std::vector<int>& fds) {
  OutFrame frame;
  frame.kind = 1;
  frame.payload = tensor::encode_descriptor(content);
  frame.fds = fds;
  peer->enqueue(std::move(frame));
}

// Sends a wrong message and then a good one. The connection ends at the first, and never gives out
// the second.
void expect_end(const std::vector<int>& fds, const std::function<void(DescriptorContent*)>& change,
                const std::string& words) {
  SCOPED_TRACE(words);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd ours(ends[0]);
  Connection::Owned connection = must(Connection::create(ends[1], {}));
  connection->adopt_socket();
  FrameSocket peer(ours.get(), SocketType::kSeqpacket);
  DescriptorContent content = one_byte_of(1, 1);
  change(&content);
  enqueue(&peer, content, fds);
  enqueue(&peer, DescriptorContent(), {});
  ASSERT_TRUE(flush_all(peer).is_ok());
  const Wait now{.timeout_ns = 0};
  const Status first = connection->recv(now).status();
  EXPECT_EQ(first.code(), Code::kCorrupt) << first.message();
  EXPECT_NE(first.message().find(words), std::string::npos) << first.message();
  for (int i = 0; i < 2; ++i) {
    const Status next = connection->recv(now).status();
    EXPECT_EQ(next.code(), Code::kCorrupt) << next.message();
    EXPECT_EQ(next.message(), first.message());
  }
}

TEST_F(ConnectionEnds, AtASegmentThatCannotBe) {
  const Fd file(::memfd_create("a file", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  expect_end(
      {}, [](DescriptorContent* content) { content->segments[0].reach = Reach::kKnown; },
      "never crossed this connection");
  expect_end(
      {file.get()}, [](DescriptorContent* content) { content->segments[0].id = 0; },
      "without a number");
  expect_end(
      {},
      [](DescriptorContent* content) {
        content->segments[0].reach = Reach::kProc;
        content->segments[0].pid = 1;
        content->segments[0].proc_fd = 0;
      },
      "reached through /proc");
  expect_end(
      {file.get()},
      [](DescriptorContent* content) {
        content->segments[0].nbytes = 8192;
        content->storages[0].nbytes = 8192;
      },
      "8192 are claimed");
}

}  // namespace
}  // namespace tenon::channel::frametest
