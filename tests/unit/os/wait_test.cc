// These tests check waits and pauses: their timeouts, cancels, signals and errors.
#include "os/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <thread>
#include <utility>

#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

using test::now_ns;
using test::SignalStorm;

class WaitTest : public test::Guarded {};

std::pair<Fd, Fd> make_pipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

void write_byte(const Fd& fd) { ASSERT_EQ(::write(fd.get(), "x", 1), 1); }

Cancel* cancel_of_handler = nullptr;

TEST_F(WaitTest, ReadyFdEndsEveryWaitAtOnce) {
  auto [reader, writer] = make_pipe();
  write_byte(writer);
  for (const int64_t timeout :
       {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{INT64_MAX}, int64_t{INT64_MIN}}) {
    Waiter waiter(Wait{timeout, nullptr, false});
    EXPECT_TRUE(waiter.until_ready(reader.get(), POLLIN, "it").is_ok()) << timeout;
  }
}

TEST_F(WaitTest, HangUpCountsAsReady) {
  auto [reader, writer] = make_pipe();
  writer.reset();
  EXPECT_TRUE(Waiter(Wait{}).until_ready(reader.get(), POLLIN, "it").is_ok());
}

TEST_F(WaitTest, TimeoutZeroLooksOnce) {
  auto [reader, writer] = make_pipe();
  Waiter waiter(Wait{0, nullptr, false});
  EXPECT_EQ(waiter.until_ready(reader.get(), POLLIN, "it").code(), Code::kWouldBlock);
  write_byte(writer);
  EXPECT_TRUE(waiter.until_ready(reader.get(), POLLIN, "it").is_ok());
}

TEST_F(WaitTest, TimeoutIsNeverShort) {
  auto [reader, writer] = make_pipe();
  const int64_t start = now_ns();
  Waiter waiter(Wait{20'000'000, nullptr, false});
  EXPECT_EQ(waiter.until_ready(reader.get(), POLLIN, "it").code(), Code::kTimeout);
  EXPECT_GE(now_ns() - start, 20'000'000);
}

TEST_F(WaitTest, AnEndedWaitSaysWhatWasWaitedForAndWhere) {
  auto [reader, writer] = make_pipe();
  const std::string where = "on fd " + std::to_string(reader.get());
  const Status over = Waiter(Wait{5'000'000, nullptr, false})
                          .until_ready(reader.get(), POLLIN, "a message from the peer");
  EXPECT_EQ(over.message(),
            "timed out waiting for a message from the peer " + where + ": call again to go on");
  ASSERT_EQ(over.info()->details.size(), 1U);
  EXPECT_EQ(over.info()->details[0].key, "fd");
  const Status none =
      Waiter(Wait{0, nullptr, false}).until_ready(reader.get(), POLLIN, "a message from the peer");
  EXPECT_EQ(none.message(), "there is not yet a message from the peer " + where +
                                ", and the call was not to wait: poll, then call again");
  EXPECT_EQ(Waiter(Wait{0, nullptr, false}).check_over(7, "a thing").code(), Code::kWouldBlock);
  EXPECT_TRUE(
      Waiter(Wait{int64_t{3600} * 1'000'000'000, nullptr, false}).check_over(7, "a thing").is_ok());
  Waiter passed(Wait{1, nullptr, false});
  EXPECT_EQ(passed.until_ready(reader.get(), POLLIN, "a thing").code(), Code::kTimeout);
  EXPECT_EQ(passed.check_over(7, "a thing").message(),
            "timed out waiting for a thing on fd 7: call again to go on");
}

TEST_F(WaitTest, DeadlineIsSharedAndStillLooksWhenItIsOver) {
  auto [reader, writer] = make_pipe();
  Waiter waiter(Wait{1'000'000, nullptr, false});
  EXPECT_EQ(waiter.until_ready(reader.get(), POLLIN, "it").code(), Code::kTimeout);
  EXPECT_EQ(waiter.until_ready(reader.get(), POLLIN, "it").code(), Code::kTimeout);
  write_byte(writer);
  EXPECT_TRUE(waiter.until_ready(reader.get(), POLLIN, "it").is_ok());
}

TEST_F(WaitTest, ClosedFdIsNamed) {
  auto [reader, writer] = make_pipe();
  const int number = reader.get();
  reader.reset();
  const Status status = Waiter(Wait{}).until_ready(number, POLLIN, "it");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("fd"), std::to_string(number));
  EXPECT_EQ(Waiter(Wait{}).until_ready(-1, POLLIN, "it").code(), Code::kInvalidArgument);
}

TEST_F(WaitTest, EitherOfTwoFdsEndsAWait) {
  auto [reader, writer] = make_pipe();
  auto [other_reader, other_writer] = make_pipe();
  const int number = other_reader.get();
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  for (Cancel* const cancel : {static_cast<Cancel*>(nullptr), made.value().get()}) {
    EXPECT_EQ(Waiter(Wait{1'000'000, cancel, false})
                  .until_ready(reader.get(), POLLIN, "it", number)
                  .code(),
              Code::kTimeout);
    EXPECT_TRUE(
        Waiter(Wait{0, cancel, false}).until_ready(writer.get(), POLLOUT, "it", number).is_ok());
  }
  std::thread other([&] { write_byte(other_writer); });
  EXPECT_TRUE(Waiter(Wait{}).until_ready(reader.get(), POLLIN, "it", number).is_ok());
  other.join();
  EXPECT_TRUE(Waiter(Wait{-1, made.value().get(), false})
                  .until_ready(reader.get(), POLLIN, "it", number)
                  .is_ok());
  made.value()->trigger();
  EXPECT_EQ(Waiter(Wait{-1, made.value().get(), false})
                .until_ready(reader.get(), POLLIN, "it", number)
                .code(),
            Code::kCancelled);
  other_reader.reset();
  const Status closed = Waiter(Wait{}).until_ready(reader.get(), POLLIN, "it", number);
  EXPECT_EQ(closed.code(), Code::kInvalidArgument);
  EXPECT_EQ(closed.detail("fd"), std::to_string(number));
}

TEST_F(WaitTest, CancelWinsOverReadiness) {
  auto [reader, writer] = make_pipe();
  write_byte(writer);
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  Cancel& cancel = *made.value();
  const Wait wait{-1, &cancel, false};
  EXPECT_TRUE(Waiter(wait).until_ready(reader.get(), POLLIN, "it").is_ok());
  EXPECT_TRUE(Waiter(wait).check_cancel().is_ok());
  cancel.trigger();
  cancel.trigger();
  EXPECT_TRUE(cancel.triggered());
  EXPECT_EQ(Waiter(wait).until_ready(reader.get(), POLLIN, "it").code(), Code::kCancelled);
  EXPECT_EQ(Waiter(Wait{0, &cancel, false}).until_ready(reader.get(), POLLIN, "it").code(),
            Code::kCancelled);
  EXPECT_EQ(Waiter(wait).check_cancel().code(), Code::kCancelled);
  cancel.reset();
  EXPECT_FALSE(cancel.triggered());
  cancel.reset();
  EXPECT_TRUE(Waiter(wait).until_ready(reader.get(), POLLIN, "it").is_ok());
}

TEST_F(WaitTest, CancelFromAnotherThread) {
  auto [reader, writer] = make_pipe();
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  std::thread other([&] { made.value()->trigger(); });
  EXPECT_EQ(
      Waiter(Wait{-1, made.value().get(), false}).until_ready(reader.get(), POLLIN, "it").code(),
      Code::kCancelled);
  other.join();
}

TEST_F(WaitTest, CancelFromSignalHandlerWinsOverInterruption) {
  auto [reader, writer] = make_pipe();
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  for (const bool interruptible : {false, true}) {
    made.value()->reset();
    cancel_of_handler = made.value().get();
    const SignalStorm storm(2'000'000, [] { cancel_of_handler->trigger(); });
    EXPECT_EQ(Waiter(Wait{-1, made.value().get(), interruptible})
                  .until_ready(reader.get(), POLLIN, "it")
                  .code(),
              Code::kCancelled);
  }
}

TEST_F(WaitTest, ForkChildTriggersTheSameCancel) {
  auto [reader, writer] = make_pipe();
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    made.value()->trigger();
    ::_exit(0);
  }
  EXPECT_EQ(
      Waiter(Wait{-1, made.value().get(), false}).until_ready(reader.get(), POLLIN, "it").code(),
      Code::kCancelled);
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
}

TEST_F(WaitTest, SignalEndsOnlyInterruptibleWaits) {
  auto [reader, writer] = make_pipe();
  const SignalStorm storm(1'000'000);
  EXPECT_EQ(Waiter(Wait{-1, nullptr, true}).until_ready(reader.get(), POLLIN, "it").code(),
            Code::kInterrupted);
  const int64_t start = now_ns();
  EXPECT_EQ(Waiter(Wait{30'000'000, nullptr, false}).until_ready(reader.get(), POLLIN, "it").code(),
            Code::kTimeout);
  EXPECT_GE(now_ns() - start, 30'000'000);
  EXPECT_GE(SignalStorm::hits(), 2);
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(Waiter(Wait{0, nullptr, true}).until_ready(reader.get(), POLLIN, "it").code(),
              Code::kWouldBlock);
}

TEST_F(WaitTest, HugeTimeoutsDoNotOverflow) {
  auto [reader, writer] = make_pipe();
  for (const int64_t timeout : {INT64_MAX, INT64_MAX - 1, INT64_MAX / 2}) {
    const SignalStorm storm(2'000'000);
    EXPECT_EQ(Waiter(Wait{timeout, nullptr, true}).until_ready(reader.get(), POLLIN, "it").code(),
              Code::kInterrupted)
        << timeout;
  }
}

TEST_F(WaitTest, APauseEndsAsAWaitDoes) {
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  Cancel* const cancel = made.value().get();
  Waiter never(Wait{0, nullptr, true});
  EXPECT_EQ(never.pause(1'000'000'000, "the thing").code(), Code::kWouldBlock);
  EXPECT_TRUE(Waiter(Wait{60'000'000'000, cancel, false}).pause(1, "the thing").is_ok());
  // A pause is at most as long as the time that is left. After that time the caller may check once
  // more. On a busy machine the time can be over before the pause begins.
  bool has_paused = false;
  for (int tries = 0; tries < 100 && !has_paused; ++tries) {
    const int64_t start = now_ns();
    Waiter bounded(Wait{5'000'000, cancel, false});
    has_paused = bounded.pause(int64_t{3600} * 1'000'000'000, "the thing").is_ok();
    const Status over = bounded.pause(1, "the thing");
    EXPECT_EQ(over.code(), Code::kTimeout);
    EXPECT_NE(over.message().find("the thing"), std::string::npos) << over.message();
    EXPECT_GE(now_ns() - start, 5'000'000);
  }
  EXPECT_TRUE(has_paused);
  EXPECT_TRUE(Waiter(Wait{-1, cancel, true}).pause(1'000'000, "the thing").is_ok());
  std::thread other([&] { cancel->trigger(); });
  EXPECT_EQ(
      Waiter(Wait{-1, cancel, false}).pause(int64_t{3600} * 1'000'000'000, "the thing").code(),
      Code::kCancelled);
  other.join();
  EXPECT_EQ(never.pause(1, "the thing").code(), Code::kWouldBlock);
  EXPECT_EQ(Waiter(Wait{0, cancel, false}).pause(1, "the thing").code(), Code::kCancelled);
}

TEST_F(WaitTest, ASignalEndsAPauseButOnlyAnInterruptibleWait) {
  const SignalStorm storm(1'000'000);
  const int64_t hour = int64_t{3600} * 1'000'000'000;
  EXPECT_EQ(Waiter(Wait{-1, nullptr, true}).pause(hour, "the thing").code(), Code::kInterrupted);
  EXPECT_TRUE(Waiter(Wait{-1, nullptr, false}).pause(hour, "the thing").is_ok());
}

TEST_F(WaitTest, OnlyAPlainEndlessWaitIsUnbounded) {
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  EXPECT_TRUE(Waiter(Wait{}).unbounded());
  EXPECT_FALSE(Waiter(Wait{0, nullptr, false}).unbounded());
  EXPECT_FALSE(Waiter(Wait{-1, nullptr, true}).unbounded());
  EXPECT_FALSE(Waiter(Wait{-1, made.value().get(), false}).unbounded());
}

}  // namespace
}  // namespace tenon::os
