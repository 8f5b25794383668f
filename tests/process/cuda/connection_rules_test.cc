// Tests that the rules of every connection also hold for device memory: callbacks may call the
// connection, and each limit counts only its own kind of object.
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "connected_kit.h"
#include "details.h"
#include "memory/ledger.h"
#include "os/process.h"
#include "support/must.h"

namespace cuda_test {
namespace {

constexpr int kNoNamespace = 77;

// A storage whose owner's function uses the connection when the storage comes back.
struct Owned {
  Memory memory{kNbytes};
  std::function<void()> then;
  Ref<Storage> wrap() {
    const auto let_go = [](void* context) {
      auto* const self = static_cast<Owned*>(context);
      free_memory(&self->memory);
      self->then();
    };
    return must(wrap_cuda(memory.data(), kNbytes, 0, let_go, this, false));
  }
};

TEST(CudaConnectionRules, AReleaseFunctionMaySend) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        alarm(kSeconds);
        use_device();
        Owned owned;
        int told = 0;
        owned.then = [&] {
          ++told;
          send(connection, {});
        };
        send(connection, {owned.wrap()});
        line.ask('g', 'r');
        EXPECT_EQ(told, 0);
        Memory more(kNbytes);
        send(connection, {wrap(&more)});
        EXPECT_EQ(told, 1);
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && more.freed == 1; }));
        line.say('d');
      },
      [](Line& line, Connection& connection) {
        alarm(kSeconds);
        use_device();
        std::vector<Ref<Storage>> kept = receive(connection);
        EXPECT_EQ(kept.size(), 1U);
        line.expect('g');  // before, the send of this message could already find it given back
        release_all(&kept);
        line.say('r');
        // One of the messages is empty: the owner's function sent it.
        EXPECT_EQ(receive(connection).size() + receive(connection).size(), 1U);
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.expect('d');
      });
}

TEST(CudaConnectionRules, AReleaseFunctionMayReceive) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        alarm(kSeconds);
        use_device();
        Owned owned;
        int told = 0;
        size_t received = 0;
        owned.then = [&] {
          ++told;
          received += receive(connection).size();
        };
        send(connection, {owned.wrap()});
        line.ask('g', 'r');
        EXPECT_EQ(told, 0);
        received += receive(connection).size();
        EXPECT_EQ(told, 1);
        EXPECT_EQ(received, 1U);
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      },
      [](Line& line, Connection& connection) {
        alarm(kSeconds);
        use_device();
        std::vector<Ref<Storage>> kept = receive(connection);
        EXPECT_EQ(kept.size(), 1U);
        line.expect('g');  // before, the send of this message could already find it given back
        release_all(&kept);
        Memory memory(kNbytes);
        send(connection, {wrap(&memory)});
        send(connection, {});
        line.ask('r', 'd');
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && memory.freed == 1; }));
      });
}

// A process that sends only one message over each of its connections also gets back what it lent.
TEST(CudaConnectionRules, TheFirstMessageOfAConnectionLooksToo) {
  in_child({}, [] {
    alarm(kSeconds);
    use_device();
    Memory memory(kNbytes);
    {
      Socket ends;
      const auto [here, there] = ends.connect_both();
      send(*here, {wrap(&memory)});
    }
    EXPECT_EQ(memory.freed, 0);
    Memory other(kNbytes);
    Socket ends;
    const auto [here, there] = ends.connect_both();
    (void)memory::settle_ledgers();
    send(*here, {wrap(&other)});
    EXPECT_EQ(memory.freed, 1);
    EXPECT_EQ(receive(*there).size(), 1U);
    EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && other.freed == 1; }));
  });
}

// The fds of pieces of device memory do not count as segments, and neither do the tokens.
TEST(CudaConnectionRules, OnlySegmentsCountAsSegments) {
  ConnectionOptions one_segment;
  one_segment.limits.max_segments = 1;
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Mapped mapped({1, 1, 1, 1, 1, 1});
        {
          const Ref<Storage> first = mapped.wrap(0, 6 * kPage);
          send(connection, {first});
          line.expect('o');
          Memory second(kNbytes);
          send(connection, {first, wrap(&second)});
          line.expect('o');
          EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && second.freed == 1; }));
        }
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && mapped.gone == 1; }));
      },
      [](Line& line, Connection& connection) {
        use_device();
        EXPECT_EQ(receive(connection).size(), 1U);
        line.say('o');
        const Status refused = try_receive(connection).status();
        EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused.message();
        EXPECT_EQ(refused.detail("limit"), "max_segments");
        EXPECT_EQ(refused.detail("limit_value"), "1");
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('o');
      },
      {}, one_segment);
}

// The receiver may not trace its sender and does not know its pid. The message alone must suffice.
TEST(CudaConnectionRules, AReceiverInAnotherPidNamespaceMayNotTraceItsSender) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes a PID namespace";
  in_child({}, [] {
    alarm(kSeconds);
    Line line;
    Socket ends;
    const pid_t sender = getpid();
    const pid_t other = start([&] {
      if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) std::_Exit(kNoNamespace);
      const pid_t inner = start([&] {
        // A container does this, too: a driver reads /proc/self, and /proc must show this
        // namespace.
        if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("proc", "/proc", "proc", 0, nullptr) != 0)
          std::_Exit(kNoNamespace);
        line.become(1);
        const Connection::Owned connection = ends.connect(1);
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct none[2] = {};
        ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
        EXPECT_EQ(getpid(), 1);
        EXPECT_FALSE(os::open_pidfd(sender).is_open());
        use_device();
        {
          const std::vector<Ref<Storage>> storages = receive(*connection);
          ASSERT_EQ(storages.size(), 1U);
          EXPECT_EQ(byte_at(pointer_of(storages[0])), 7);
          EXPECT_EQ(byte_at(pointer_of(storages[0]) + 3 * kPage - 1), 7);
        }
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.expect('d');
      });
      ends.drop();
      std::_Exit(wait_for(inner));
    });
    line.become(0);
    int ended = 0;
    {
      const Connection::Owned connection = ends.connect(0);
      use_device();
      ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
      Mapped memory({1, 2});
      fill(memory.base(), 7, memory.nbytes());
      send(*connection, {memory.wrap(0, memory.nbytes())});
      EXPECT_TRUE(wait_until([&] {
        (void)collect_cuda();
        siginfo_t info{};
        return memory.gone == 1 ||
               waitid(P_PID, static_cast<id_t>(other), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
               info.si_pid != 0;
      }));
      line.say('d');
      ended = wait_for(other);
      EXPECT_TRUE(memory.gone == 1 || ended == kNoNamespace);
    }
    EXPECT_TRUE(ended == 0 || ended == kNoNamespace) << ended;
    if (ended == 0) expect_nothing_left();
  });
}

}  // namespace
}  // namespace cuda_test
