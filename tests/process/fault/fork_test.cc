// These tests fork at any moment, while other threads work. The child uses, releases, allocates and
// connects. The child changes nothing of the parent's, and neither process hangs.
#include <atomic>
#include <thread>

#include "process/fault/kit.h"

namespace fault {
namespace {

constexpr uint64_t kForkedNbytes = 3000;

void send_to_itself(uint64_t seed) {
  const Pair pair(SOCK_SEQPACKET);
  tenon_message* message = new_message({new_storage(kForkedNbytes, seed)});
  tenon_message* got = nullptr;
  const tenon_wait wait = wait_ns(10'000'000'000);
  REQUIRE_OK(tenon_send(pair.left, message, &wait, err));
  REQUIRE_OK(tenon_recv(pair.right, &wait, &got, err));
  CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(got, 0)), kForkedNbytes, seed));
  tenon_message_release(got);
  tenon_message_release(message);
}

TEST(Fork, WithThreadsThatAllocateAndLendAndSend) {
  SKIP_UNDER_SANITIZERS("gcc's run-time does not survive a fork of a process with threads");
  IN_CHILD([] {
    std::atomic<bool> stop{false};
    std::vector<tenon_storage*> inherited;
    for (uint64_t i = 0; i < 30; ++i)
      inherited.push_back(new_storage(kForkedNbytes, i, kModes[i % 3]));
    const int foreign = foreign_memfd(8192);
    const Pair pair(SOCK_STREAM);
    std::vector<std::thread> threads;
    // This thread allocates and releases in all modes.
    threads.emplace_back([&] {
      for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i)
        tenon_storage_release(
            new_storage(100 + i % 5000, i, kModes[i % 3], i % 7 == 0 ? TENON_STORAGE_ISOLATED : 0));
    });
    // This thread lends the storage that the child lends too, and opens it.
    threads.emplace_back([&] {
      for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        tenon_fd_handle handle = handle_over(-1, 0);
        CHECK_OK(tenon_share_fd(inherited[i % inherited.size()], nullptr, &handle, err));
        tenon_storage* opened = nullptr;
        CHECK_OK(tenon_open_fd(&handle, nullptr, &opened, err));
        tenon_storage_release(opened);
        tenon_fd_handle_close(&handle);
        const tenon_fd_handle other = handle_over(foreign, 4096 + i % 4096);
        CHECK_OK(tenon_open_fd(&other, nullptr, &opened, err));
        tenon_storage_release(opened);
      }
    });
    threads.emplace_back([&] {
      for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        tenon_message* message = new_message({new_storage(kForkedNbytes, i)});
        tenon_message* got = nullptr;
        const tenon_wait wait = wait_ns(10'000'000'000);
        REQUIRE_OK(tenon_send(pair.left, message, &wait, err));
        tenon_message_release(message);
        REQUIRE_OK(tenon_recv(pair.right, &wait, &got, err));
        CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(got, 0)), kForkedNbytes, i));
        tenon_message_release(got);
      }
    });
    for (int round = 0; round < 200; ++round) {
      const pid_t child = spawn([&] {
        for (uint64_t i = 0; i < inherited.size(); ++i) {
          CHECK(has_pattern(tenon_storage_data(inherited[i]), kForkedNbytes, i));
          tenon_fd_handle handle = handle_over(-1, 0);
          if (i < 6) CHECK_OK(tenon_share_fd(inherited[i], nullptr, &handle, err));
          tenon_fd_handle_close(&handle);
        }
        std::vector<tenon_storage*> mine;
        for (uint64_t i = 0; i < 20; ++i)
          mine.push_back(new_storage(kForkedNbytes, 1000 + i, kModes[i % 3]));
        for (tenon_storage* each : inherited) tenon_storage_release(each);
        for (uint64_t i = 0; i < mine.size(); ++i)
          CHECK(has_pattern(tenon_storage_data(mine[i]), kForkedNbytes, 1000 + i));
        for (tenon_storage* each : mine) tenon_storage_release(each);
        send_to_itself(7);
        const tenon_wait now = wait_ns(0);
        tenon_message* none = nullptr;
        CHECK_STATUS(TENON_UNSUPPORTED, tenon_send(pair.left, nullptr, &now, err));
        CHECK_STATUS(TENON_UNSUPPORTED, tenon_recv(pair.right, &now, &none, err));
        tenon_connection_release(pair.left);
        tenon_connection_release(pair.right);
        tenon_storage_trim();
      });
      REQUIRE(child > 0);
      const int status = wait_for_child(child);
      if (!CHECK_SAYING(status == 0,
                        "round " + std::to_string(round) + ": " + describe_status(status)))
        break;
    }
    stop = true;
    for (std::thread& each : threads) each.join();
    for (uint64_t i = 0; i < inherited.size(); ++i) {
      CHECK(has_pattern(tenon_storage_data(inherited[i]), kForkedNbytes, i));
      tenon_storage_release(inherited[i]);
    }
    send_to_itself(9);
    close(foreign);
  });
}

// Tests one lock at a time. The fork comes while a thread only lends, fills or freezes the segment
// that the child then lends.
TEST(Fork, WhileTheSegmentThatTheChildLendsIsInUse) {
  SKIP_UNDER_SANITIZERS("gcc's run-time does not survive a fork of a process with threads");
  IN_CHILD([] {
    std::atomic<bool> stop{false};
    tenon_storage* lent = new_storage(kForkedNbytes, 1, TENON_MODE_LENDER_WRITES);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        while (!stop.load(std::memory_order_relaxed)) {
          tenon_fd_handle handle = handle_over(-1, 0);
          CHECK_OK(tenon_share_fd(lent, nullptr, &handle, err));
          tenon_fd_handle_close(&handle);
        }
      });
    }
    for (int round = 0; round < 300; ++round) {
      const pid_t child = spawn([&] {
        alarm(10);
        tenon_fd_handle handle = handle_over(-1, 0);
        CHECK_OK(tenon_share_fd(lent, nullptr, &handle, err));
        tenon_fd_handle_close(&handle);
      });
      const int status = wait_for_child(child);
      if (!CHECK_SAYING(status == 0,
                        "round " + std::to_string(round) + ": " + describe_status(status)))
        break;
    }
    stop = true;
    for (std::thread& each : threads) each.join();
    tenon_storage_release(lent);
  });
}

// The child releases a connection that threads of the parent were using at the fork.
TEST(Fork, WhileTheConnectionThatTheChildReleasesIsInUse) {
  SKIP_UNDER_SANITIZERS("gcc's run-time does not survive a fork of a process with threads");
  IN_CHILD([] {
    std::atomic<bool> stop{false};
    const Pair pair(SOCK_STREAM);
    std::thread sender([&] {
      const tenon_wait wait = wait_ns(10'000'000'000);
      while (!stop.load(std::memory_order_relaxed)) {
        std::vector<tenon_storage*> several;
        for (uint64_t i = 0; i < 20; ++i)
          several.push_back(
              new_storage(kForkedNbytes, i, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED));
        tenon_message* message = new_message(several);
        CHECK_OK(tenon_send(pair.left, message, &wait, err));
        tenon_message_release(message);
      }
    });
    std::thread receiver([&] {
      tenon_message* got = nullptr;
      tenon_status status = TENON_OK;
      while ((status = tenon_recv(pair.right, nullptr, &got, nullptr)) == TENON_OK)
        tenon_message_release(got);
      CHECK(status == TENON_PEER_GONE);
    });
    for (int round = 0; round < 1000; ++round) {
      const pid_t child = spawn([&] {
        alarm(10);
        tenon_connection_release(pair.left);
        tenon_connection_release(pair.right);
      });
      const int status = wait_for_child(child);
      if (!CHECK_SAYING(status == 0,
                        "round " + std::to_string(round) + ": " + describe_status(status)))
        break;
    }
    stop = true;
    sender.join();
    // The receiver reads until this end of its socket is shut down. A time limit could stop it
    // while the sender, which gets little time on a busy machine, still fills the socket.
    REQUIRE(shutdown(tenon_connection_fd(pair.left), SHUT_WR) == 0);
    receiver.join();
  });
}

}  // namespace
}  // namespace fault
