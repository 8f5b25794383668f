// These tests check that a tick with many requests comes once, at the earliest requested time.
#include "os/shared_tick.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;
constexpr int64_t kHourNs = 3'600'000'000'000;

int calls = 0;
int works = 0;
void tick_came() noexcept;
constinit SharedTick shared_tick{&tick_came};
void tick_came() noexcept {
  ++calls;
  if (shared_tick.begin()) ++works;
}

// Runs the body in a process of its own that polls the service, so nothing comes before a poll.
void in_polling_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  test::ForkChild child([&](int) {
    EXPECT_TRUE(use_no_thread().is_ok());
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

void poll_after_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  EXPECT_TRUE(poll_service().is_ok());
}

TEST(SharedTick, ManyRequestsAreOneTick) {
  in_polling_child([] {
    for (int i = 0; i < 100; ++i) shared_tick.request(200 * kMillisecondNs);
    poll_after_ms(250);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(works, 1);
    poll_after_ms(30);
    EXPECT_EQ(calls, 1);
    shared_tick.request(0);
    poll_after_ms(1);
    EXPECT_EQ(works, 2);
  });
}

TEST(SharedTick, AnEarlierRequestBringsItForward) {
  in_polling_child([] {
    shared_tick.request(INT64_MAX);
    shared_tick.request(kHourNs);
    shared_tick.request(50 * kMillisecondNs);
    shared_tick.request(5 * kMillisecondNs);
    shared_tick.request(kHourNs);
    poll_after_ms(20);
    EXPECT_EQ(works, 1);
    // The tick of an earlier request comes too, and finds nothing to do.
    poll_after_ms(60);
    EXPECT_GE(calls, 2);
    EXPECT_EQ(works, 1);
  });
}

TEST(SharedTick, AnOverdueTickComesAtOnceAfterTheNextRequest) {
  in_polling_child([] {
    shared_tick.request(0);
    poll_after_ms(1);
    EXPECT_EQ(works, 1);
    shared_tick.request(kMillisecondNs);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    // Nobody has polled yet. The request may not put the work off.
    shared_tick.request(kHourNs);
    poll_after_ms(1);
    EXPECT_EQ(works, 2);
  });
}

TEST(SharedTick, AForkedChildRequestsItAgain) {
  in_polling_child([] {
    shared_tick.request(kMillisecondNs);
    test::ForkChild child([](int) {
      shared_tick.forget();
      poll_after_ms(5);
      EXPECT_EQ(calls, 0);
      shared_tick.request(kMillisecondNs);
      poll_after_ms(5);
      EXPECT_EQ(works, 1);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    });
    EXPECT_EQ(child.reap(), 0);
  });
}

}  // namespace
}  // namespace tenon::os
