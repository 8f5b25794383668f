// These tests take the memory away from the timer ticks of deposits. A tick that was lost is
// requested again, so a message still expires. The test is a program of its own, because it
// replaces operator new.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "channel/deposit.h"
#include "channel/deposit_limits.h"
#include "channel/deposit_watch.h"
#include "support/wait_until.h"
#include "tensor/tensor.h"
#include "unit/failing_new.h"

namespace tenon::channel {
namespace {

using test::wait_until;

std::vector<std::byte> deposit_bytes(uint64_t nbytes) {
  const Ref<storage::Storage> storage = storage::Storage::create({}, nbytes).value();
  const auto size = static_cast<int64_t>(nbytes);
  constexpr int64_t kStride = 1;
  const Ref<tensor::Tensor> one =
      tensor::Tensor::create(storage, {{1, 8, 1}, {&size, 1}, {&kStride, 1}, 0}, 0).value();
  tensor::Tensor* const tensor = one.get();
  tensor::Message message;
  EXPECT_TRUE(message.add({&tensor, 1}, nullptr, memory::Access::kAuto).is_ok());
  return deposit(message).value();
}

TEST(DepositWithoutMemory, ALostAgeTickIsRequestedAgain) {
  (void)set_deposit_limits({.nbytes = UINT64_MAX});
  const uint64_t before = deposit_stats().expired;
  (void)deposit_bytes(5000);
  // Without memory set_deposit_limits() loses the tick. Each deposit would withdraw the message
  // itself, so only a tick can do it here.
  allocations_left = 0;
  const Status set = set_deposit_limits({.age_ns = 50'000'000});
  allocations_left = -1;
  ASSERT_TRUE(set.is_ok());
  EXPECT_TRUE(wait_until([&] { return deposit_stats().expired == before + 1; }));
  // Later ticks come as usual.
  (void)deposit_bytes(5000);
  EXPECT_TRUE(wait_until([&] { return deposit_stats().expired == before + 2; }));
}

TEST(DepositWithoutMemory, ALostWatchTickIsRequestedAgain) {
  (void)set_deposit_limits({});
  const uint64_t before = deposit_stats().expired;
  for (uint64_t round = 1; round <= 2; ++round) {
    const std::vector<std::byte> ticket = deposit_bytes(5000);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    // The fewest allocations with which the call succeeds are too few for its tick.
    for (int allowed = 0;; ++allowed) {
      try {
        allocations_left = allowed;
        const Status watched = watch_deposit(ticket, ends[0], 0);
        allocations_left = -1;
        ASSERT_TRUE(watched.is_ok());
        break;
      } catch (const std::bad_alloc&) {
        allocations_left = -1;
      }
    }
    close(ends[1]);
    EXPECT_TRUE(wait_until([&] { return deposit_stats().expired == before + round; }));
  }
}

}  // namespace
}  // namespace tenon::channel
