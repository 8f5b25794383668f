// These tests follow messages in flight: a handle that was sent and not yet received keeps its
// name, as long as it can still be received.
#include "process/filename/agent.h"

namespace names {
namespace {

constexpr uint32_t kReceive = TENON_OPEN_ALLOW_UNSEALED | TENON_OPEN_DECREF;

Done send_name(Agent& sender, const Folder& folder, const char* name = "") {
  const Done made = sender.create({.directory = folder.path(), .name = name}, 10000, 3);
  Done sent = sender.share(made.slot, {.flags = TENON_FILENAME_IN_FLIGHT});
  REQUIRE(made.ok() && sent.ok());
  sent.slot = made.slot;
  return sent;
}

void check_counts(const tenon_filename_handle& handle, int32_t count, int32_t in_flight, int line) {
  const Head head = head_of(path_of(handle));
  fault::check(head.count == count && head.in_flight == in_flight, "the counts", __FILE__, line,
               std::to_string(head.count) + " and " + std::to_string(head.in_flight));
}
#define CHECK_COUNTS(handle, count, in_flight) \
  check_counts((handle), (count), (in_flight), __LINE__)

TEST(Flight, TheSenderLetsGoFirst) {
  IN_FOLDER([](const Folder& folder) {
    Agent sender, receiver;
    const Done sent = send_name(sender, folder);
    CHECK_COUNTS(sent.handle, 2, 1);
    sender.release(sent.slot);
    CHECK_COUNTS(sent.handle, 1, 1);
    // Sweeps see that the name is held.
    CHECK_EQ(receiver.sweep_all(folder.path()).live, 1);
    const Done got = receiver.open(sent.handle, kReceive);
    CHECK_SAYING(got.ok(), got.outcome.text());
    CHECK_COUNTS(sent.handle, 1, 0);
    CHECK(receiver.shows(got.slot, 3));
    receiver.release(got.slot);
    CHECK(folder.becomes_empty());
  });
}

TEST(Flight, IncrefAndDecref) {
  IN_FOLDER([](const Folder& folder) {
    Agent sender, receiver, third;
    const Done lent = sender.create_shared({.directory = folder.path()}, 100, 1);
    for (int i = 0; i < 3; ++i) CHECK(sender.incref(lent.handle).ok());
    CHECK_COUNTS(lent.handle, 4, 3);
    sender.release(lent.slot);
    CHECK_COUNTS(lent.handle, 3, 3);
    const Done got = receiver.open(lent.handle);
    CHECK_COUNTS(lent.handle, 4, 3);
    CHECK(receiver.decref(lent.handle).ok());
    // A process that does not hold the name may say that a message will never be received.
    CHECK(third.decref(lent.handle).ok());
    CHECK_COUNTS(lent.handle, 2, 1);
    receiver.release(got.slot);
    CHECK_COUNTS(lent.handle, 1, 1);
    CHECK(third.decref(lent.handle).ok());
    CHECK(folder.becomes_empty());
    CHECK(third.decref(lent.handle).ok());  // already gone, which is no error
  });
}

TEST(Flight, WhoHoldsNothingCannotSend) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 100);
    CHECK_NAMES(TENON_NOT_FOUND, path_of(lent.handle),
                CALL(tenon_filename_incref(&lent.handle, err)));
    const tenon_filename_handle none = handle_to(folder.at("none"), 100);
    CHECK_NAMES(TENON_NOT_FOUND, folder.at("none"), CALL(tenon_filename_incref(&none, err)));
    CHECK_COUNTS(lent.handle, 1, 0);
    // An empty storage without a name needs no count.
    const tenon_filename_handle empty = blank_handle();
    CHECK_OK(tenon_filename_incref(&empty, err));
    CHECK_OK(tenon_filename_decref(&empty, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_incref(nullptr, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_decref(nullptr, err));
  });
}

// More messages are taken back than were sent. No count goes below 0, and no holder loses its
// bytes.
TEST(Flight, TooManyDecrefs) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker, other;
    const Done lent = maker.create_shared({.directory = folder.path()}, 100, 1);
    const Done held = other.open(lent.handle);
    for (int i = 0; i < 10; ++i) CHECK_OK(tenon_filename_decref(&lent.handle, err));
    CHECK(head_of(path_of(lent.handle)).count >= 0);
    CHECK_EQ(head_of(path_of(lent.handle)).in_flight, 0);
    CHECK(exists(path_of(lent.handle)));
    CHECK(maker.shows(lent.slot, 1) && other.shows(held.slot, 1));
    maker.release(lent.slot);
    CHECK(exists(path_of(lent.handle)) && other.shows(held.slot, 1));
    other.release(held.slot);
    CHECK(folder.becomes_empty());
  });
}

TEST(Flight, TheSenderExitsInOrder) {
  for (const bool released : {false, true}) {
    IN_FOLDER([released](const Folder& folder) {
      Agent sender, receiver;
      const int own = receiver.create({.directory = folder.path()}, 10).slot;  // starts its watch
      const Done sent = send_name(sender, folder);
      if (released) sender.release(sent.slot);
      const int64_t before = real_time_ns();
      sender.quit();
      const Head head = head_of(path_of(sent.handle));
      CHECK_EQ(head.count, 1);
      CHECK_EQ(head.in_flight, 1);
      CHECK_SAYING(head.keep_until_ns > before + 50'000'000'000 &&
                       head.keep_until_ns <= real_time_ns() + 60'000'000'000,
                   std::to_string(head.keep_until_ns - before));
      // No process holds the name, and still no sweep removes it.
      const tenon_sweep_result swept = receiver.sweep_all(folder.path());
      CHECK(swept.in_flight == 1 && swept.dead == 0);
      const Done got = receiver.open(sent.handle, kReceive);
      CHECK_SAYING(got.ok(), got.outcome.text());
      CHECK(receiver.shows(got.slot, 3));
      receiver.release(got.slot);
      CHECK(is_gone(path_of(sent.handle)));
      receiver.release(own);
    });
  }
}

TEST(Flight, TheSenderIsKilled) {
  for (const bool released : {false, true}) {
    IN_FOLDER([released](const Folder& folder) {
      Agent sender, receiver;
      const int own = receiver.create({.directory = folder.path()}, 10).slot;
      const Done sent = send_name(sender, folder);
      if (released) sender.release(sent.slot);
      sender.kill();
      CHECK(is_gone(path_of(sent.handle)));
      CHECK_NAMES(TENON_NOT_FOUND, path_of(sent.handle),
                  receiver.open(sent.handle, kReceive).outcome);
      receiver.release(own);
    });
  }
}

TEST(Flight, TheReceiverIsKilled) {
  IN_FOLDER([](const Folder& folder) {
    Agent sender, receiver;
    const Done sent = send_name(sender, folder);
    sender.release(sent.slot);
    REQUIRE(receiver.open(sent.handle).ok());  // opened, but not yet counted as received
    receiver.kill();
    // The watch must not remove the name, because the sender still keeps it.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(exists(path_of(sent.handle)));
    sender.quit();
    // After the sender's end the name stays for its time, or until one decref.
    CHECK(head_of(path_of(sent.handle)).keep_until_ns > 0);
    CHECK_OK(tenon_filename_decref(&sent.handle, err));
    (void)sweep(folder.path());
  });
}

// The parent keeps a name for its messages. That ends with the parent: a child that was forked
// meanwhile does not hold it.
TEST(Flight, AForkChildKeepsNothing) {
  IN_FOLDER([](const Folder& folder) {
    Agent sender, watcher;
    const int own = watcher.create({.directory = folder.path()}, 10).slot;
    const Done sent = send_name(sender, folder);
    sender.release(sent.slot);
    Agent child = sender.fork_child();
    CHECK(exists(path_of(sent.handle)));
    const Done early = watcher.open(sent.handle);
    CHECK(early.ok());
    watcher.release(early.slot);
    CHECK(exists(path_of(sent.handle)));  // the parent still keeps the name
    sender.kill();
    CHECK(is_gone(path_of(sent.handle)));
    child.quit();
    watcher.release(own);
  });
}

// A date in the head that is later than any sender sets it is ignored.
TEST(Flight, DatesThatCannotBe) {
  IN_FOLDER([](const Folder& folder) {
    const auto look_at = [&](Head head, bool kept) {
      head.magic = kMagic;
      head.nbytes = 100;
      plant(folder.at("tenon-x"), head, 100);
      const tenon_sweep_result found = sweep(folder.path());
      CHECK_SAYING(found.in_flight == (kept ? 1 : 0) && found.dead == (kept ? 0 : 1),
                   std::to_string(head.keep_until_ns));
      CHECK_EQ(folder.empty(), !kept);
      unlink(folder.at("tenon-x").c_str());
    };
    const int64_t now = real_time_ns();
    const int64_t second = 1'000'000'000;
    look_at({.count = 1, .in_flight = 1, .keep_until_ns = now + 30 * second}, true);
    look_at({.count = 1, .in_flight = 1, .keep_until_ns = now + 90 * second}, false);
    look_at({.count = 1, .in_flight = 1, .keep_until_ns = INT64_MAX}, false);
    look_at({.count = 1, .in_flight = 1, .keep_until_ns = now - second}, false);
    look_at({.count = 1, .in_flight = 1, .keep_until_ns = INT64_MIN}, false);
    look_at({.count = 1, .in_flight = 1}, false);
    look_at({.count = 0, .in_flight = 1, .keep_until_ns = now + 30 * second}, false);
    look_at({.count = 1, .in_flight = 0, .keep_until_ns = now + 30 * second}, false);
    look_at({.count = 1, .in_flight = 1, .made_ns = INT64_MIN}, false);
    look_at({.count = 1, .in_flight = 1, .made_ns = INT64_MAX}, false);
    look_at({.count = -1, .in_flight = INT32_MAX, .keep_until_ns = now + 30 * second}, false);
  });
}

TEST(Flight, BehindASocket) {
  IN_FOLDER([](const Folder& folder) {
    Agent sender, receiver;
    for (const char* name : {"", "chosen"}) {
      const Done made = sender.make(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 1000, 4);
      const Done sent = sender.share(
          made.slot, {.directory = folder.path(), .name = name, .flags = TENON_FILENAME_IN_FLIGHT});
      REQUIRE(sent.ok());
      sender.release(made.slot);
      CHECK_SAYING(exists(path_of(sent.handle)), name);
      const Done got = receiver.open(sent.handle, TENON_OPEN_DECREF);
      CHECK_SAYING(got.ok(), got.outcome.text());
      CHECK(receiver.shows(got.slot, 4));
      CHECK(folder.becomes_empty());
      receiver.release(got.slot);
    }
    // A message that was not received can be taken back, at either end.
    for (const bool there : {false, true}) {
      const Done made = sender.make(TENON_MODE_FROZEN, 0, 1000, 4);
      const Done sent = sender.share(made.slot, {.directory = folder.path()});
      CHECK(sender.incref(sent.handle).ok());
      CHECK(sender.incref(sent.handle).ok());
      sender.release(made.slot);
      CHECK((there ? receiver : sender).decref(sent.handle).ok());
      CHECK(exists(path_of(sent.handle)));
      CHECK((there ? receiver : sender).decref(sent.handle).ok());
      CHECK(folder.becomes_empty());
      CHECK((there ? receiver : sender).decref(sent.handle).ok());
    }
    const Done made = sender.make(TENON_MODE_SHARED, 0, 1000, 4);
    const Done sent =
        sender.share(made.slot, {.directory = folder.path(), .flags = TENON_FILENAME_IN_FLIGHT});
    sender.quit();  // no process is left to hand it out
    CHECK(folder.becomes_empty());
    CHECK_NAMES(TENON_NOT_FOUND, path_of(sent.handle),
                receiver.open(sent.handle, TENON_OPEN_DECREF).outcome);
  });
}

}  // namespace
}  // namespace names
