// These tests bound what a peer can use up at its receiver: time, address space, fds, and room in a
// queue.
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "channel/connection.h"
#include "content_kit.h"
#include "frames_kit.h"
#include "os/map_budget.h"
#include "support/must.h"
#include "support/sanitizers.h"
#include "tensor/message.h"
#include "unit/os/silent_server.h"

namespace tenon::channel::frametest {
namespace {

using tensor::DescriptorContent;
using tensor::Reach;

class ConnectionBounds : public test::Guarded {};

constexpr Wait kNow{.timeout_ns = 0};

// The shadow memory of a sanitizer takes much of the address space.
constexpr bool kHasAllAddresses = !TENON_TEST_SANITIZED;

// Sets RLIMIT_NOFILE while the object lives.
class FdLimit {
 public:
  explicit FdLimit(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit limit{.rlim_cur = most, .rlim_max = before_.rlim_max};
    is_set_ = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  }
  FdLimit(const FdLimit&) = delete;
  FdLimit& operator=(const FdLimit&) = delete;
  ~FdLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  bool is_set() const noexcept { return is_set_; }

 private:
  rlimit before_{};
  bool is_set_ = false;
};

// A connection under attack, and a peer that makes its frames by hand.
struct Victim {
  explicit Victim(const ConnectionOptions& options = {}) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours = Fd(ends[0]);
    peer = std::make_unique<FrameSocket>(ours.get(), SocketType::kStream);
    Connection::Owned made = must(Connection::create(ends[1], options));
    connection = std::move(made);
    connection->adopt_socket();
  }
  Status recv() { return connection->recv(kNow).status(); }
  void send(const DescriptorContent& content, const std::vector<int>& fds) {
    OutFrame frame;
    frame.kind = 1;
    frame.payload = tensor::encode_descriptor(content);
    frame.fds = fds;
    Fd large;
    if (frame.payload.size() > kMaxFramePayload) {
      large = Fd(::memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      EXPECT_EQ(::write(large.get(), frame.payload.data(), frame.payload.size()),
                static_cast<ssize_t>(frame.payload.size()));
      EXPECT_EQ(::fcntl(large.get(), F_ADD_SEALS,
                        F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                0);
      const uint64_t nbytes = frame.payload.size();
      frame.kind = 2;
      frame.payload.resize(sizeof nbytes);
      std::memcpy(frame.payload.data(), &nbytes, sizeof nbytes);
      frame.fds.insert(frame.fds.begin(), large.get());
    }
    peer->enqueue(std::move(frame));
    EXPECT_TRUE(flush_now(*peer).is_ok());
  }
  Fd ours;
  std::unique_ptr<FrameSocket> peer;
  Connection::Owned connection;
};

Fd sparse(uint64_t nbytes) {
  Fd file(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(nbytes)), 0);
  EXPECT_EQ(::fallocate(file.get(), 0, 0, 4096), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  return file;
}

TEST_F(ConnectionBounds, NumbersThatThePeerChoseCostNoTime) {
  // kPrime is a number of buckets of libstdc++. With the hash of libstdc++ all multiples of it
  // collide.
  constexpr uint64_t kPrime = 10273;
  constexpr uint64_t kCount = 9000;
  constexpr uint64_t kPerMessage = 50;
  ConnectionOptions options;
  options.limits.max_segments = 30000;
  Victim victim(options);
  // All segment numbers belong to one file.
  const Fd file = sparse(4096);
  uint64_t id = 0;
  const FdLimit limit(16384);
  if (!limit.is_set()) GTEST_SKIP() << "RLIMIT_NOFILE cannot be raised";
  while (id < kCount * kPrime) {
    DescriptorContent content;
    std::vector<int> fds;
    for (uint64_t i = 0; i < kPerMessage; ++i) {
      id += kPrime;
      content.segments.push_back(one_byte_of(id, 4096).segments[0]);
      content.segments.back().fd_index = static_cast<uint32_t>(i);
      fds.push_back(file.get());
    }
    victim.send(content, fds);
    ASSERT_TRUE(victim.recv().is_ok());
  }
  DescriptorContent content;
  for (uint64_t i = 1; i <= kCount; ++i) content.forgotten.push_back((1'000'000 + i) * kPrime);
  // If all numbers were in one bucket, each message would walk 81 million links.
  const std::clock_t before = std::clock();
  for (int i = 0; i < 20; ++i) {
    victim.send(content, {});
    EXPECT_TRUE(victim.recv().is_ok());
  }
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC);
  // An honest peer never forgets more segments than it has numbered.
  content.forgotten.push_back(7);
  victim.send(content, {});
  EXPECT_EQ(victim.recv().code(), Code::kCorrupt);
}

TEST_F(ConnectionBounds, ThePeersMemoryTakesAQuarterOfTheAddressSpace) {
  if (!kHasAllAddresses) GTEST_SKIP() << "a sanitizer has much of the address space";
  Victim victim;
  std::vector<std::unique_ptr<tensor::Message>> kept;
  uint64_t id = 0;
  size_t refused = 0;
  for (uint64_t nbytes = uint64_t{1} << 46; nbytes >= uint64_t{1} << 30; nbytes /= 2) {
    for (int i = 0; i < 3; ++i) {
      const Fd file = sparse(nbytes);
      victim.send(one_byte_of(++id, nbytes), {file.get()});
      Result<std::unique_ptr<tensor::Message>> got = victim.connection->recv(kNow);
      if (got.is_ok()) {
        kept.push_back(std::move(got).value());
        continue;
      }
      ++refused;
      EXPECT_EQ(got.status().code(), Code::kResourceExhausted);
      EXPECT_EQ(got.status().detail("limit"), "max_mapped_nbytes") << got.status().message();
    }
  }
  EXPECT_GT(kept.size(), 0U);
  EXPECT_GT(refused, 0U);
  void* const own = ::mmap(nullptr, size_t{1} << 40, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(own, MAP_FAILED);
  ::munmap(own, size_t{1} << 40);
}

TEST_F(ConnectionBounds, AnArenaThatReservesATebibyteIsOpened) {
  if (!kHasAllAddresses) GTEST_SKIP() << "a sanitizer has much of the address space";
  Victim victim;
  std::vector<std::unique_ptr<tensor::Message>> kept;
  for (uint64_t id = 1; id <= 8; ++id) {
    const Fd file = sparse(uint64_t{1} << 40);
    victim.send(one_byte_of(id, uint64_t{1} << 40), {file.get()});
    std::unique_ptr<tensor::Message> got = must(victim.connection->recv(kNow));
    kept.push_back(std::move(got));
  }
}

TEST_F(ConnectionBounds, TheCallerSetsTheAddressSpaceOfAPeer) {
  ConnectionOptions options;
  options.max_mapped_nbytes = 3 * 4096;
  Victim victim(options);
  const Fd two = sparse(2 * 4096);
  const Fd one = sparse(4096);
  const Fd other = sparse(2 * 4096);
  victim.send(one_byte_of(1, 2 * 4096), {two.get()});
  EXPECT_TRUE(victim.recv().is_ok());
  victim.send(one_byte_of(2, 2 * 4096), {other.get()});
  const Status refused = victim.recv();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.detail("limit"), "max_mapped_nbytes");
  EXPECT_EQ(refused.detail("limit_value"), "12288");
  EXPECT_EQ(refused.detail("in_use"), "8192");
  // A refused message costs the connection nothing else, and a forgotten segment makes room again.
  victim.send(one_byte_of(3, 4096), {one.get()});
  EXPECT_TRUE(victim.recv().is_ok());
  DescriptorContent next = one_byte_of(2, 2 * 4096);
  next.segments[0].reach = Reach::kKnown;
  next.segments[0].fd_index = 0;
  next.forgotten = {1};
  victim.send(next, {});
  EXPECT_TRUE(victim.recv().is_ok());
}

TEST_F(ConnectionBounds, AFrameWithManyFdsLeavesSomeForTheProcess) {
  Victim victim;
  const auto send_segments = [&](uint64_t first, uint64_t count) {
    DescriptorContent content;
    std::vector<Fd> files;
    std::vector<int> fds;
    for (uint64_t i = 0; i < count; ++i) {
      content.segments.push_back(one_byte_of(first + i, 4096).segments[0]);
      content.segments.back().fd_index = static_cast<uint32_t>(i);
      fds.push_back(files.emplace_back(sparse(4096)).get());
    }
    victim.send(content, fds);
  };
  const FdLimit limit(static_cast<rlim_t>(test::count_open_fds()) + 43);
  ASSERT_TRUE(limit.is_set());
  send_segments(1, 20);
  EXPECT_TRUE(victim.recv().is_ok());
  // These 18 fds have room, but fewer than 16 would then be left for the process.
  send_segments(100, 18);
  const Status refused = victim.recv();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.detail("limit"), "RLIMIT_NOFILE") << refused.message();
  const Fd own(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(own.is_open());
}

TEST_F(ConnectionBounds, AFileWhoseServerIsSilentHoldsNoReceive) {
  std::optional<os::SilentServer> server(std::in_place);
  if (!server->is_mounted()) GTEST_SKIP() << "no FUSE here";
  for (const bool private_cow : {false, true}) {
    ConnectionOptions options;
    options.open.private_cow = private_cow;
    Victim victim(options);
    Fd file(::open(server->path().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(file.is_open());
    file.mark_foreign();
    server->fall_silent(true);
    const auto before = std::chrono::steady_clock::now();
    victim.send(one_byte_of(1, 4096), {file.get()});
    EXPECT_EQ(victim.recv().code(), Code::kPermission);
    victim.connection.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
    file.reset();
    server->fall_silent(false);
  }
  // The thread that still closes the file gets its error when the server ends.
  server.reset();
}

TEST_F(ConnectionBounds, AQueueToAPeerThatDoesNotReadHasAnEnd) {
  Victim victim;
  Status status;
  size_t kept = 0;
  for (; kept < 20000; ++kept) {
    const tensor::Message message;
    status = victim.connection->send(&message, kNow);
    if (!status.is_ok() && status.code() != Code::kWouldBlock) break;
  }
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "send_queue") << status.message();
  EXPECT_LT(kept, 20000U);
  // The queue has room again as soon as the peer reads.
  for (size_t i = 0; i < kept; ++i) {
    ASSERT_TRUE(recv_now(*victim.peer).is_ok()) << i;
    (void)victim.connection->send(nullptr, kNow);
  }
  const tensor::Message message;
  EXPECT_TRUE(victim.connection->send(&message, kNow).is_ok());
}

}  // namespace
}  // namespace tenon::channel::frametest
