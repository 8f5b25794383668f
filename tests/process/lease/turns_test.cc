// In these tests several threads, the service thread among them, take turns on one connection. No
// message is lost or sent twice, and no call fails with WOULD_BLOCK without need.
#include <atomic>
#include <map>
#include <thread>

#include "process/lease/agent.h"

namespace leases {
namespace {

constexpr int64_t kNow = 0;
constexpr int64_t kBriefly = 20 * kMs;

tenon_message* named(const std::string& name, size_t nbytes) {
  tenon_message* message = nullptr;
  REQUIRE_OK(tenon_message_new(&message, err));
  const std::string bytes = name + std::string(nbytes - name.size(), '.');
  REQUIRE_OK(tenon_message_set_user_bytes(message, bytes.data(), bytes.size(), err));
  return message;
}

std::string name_in(const tenon_message* message) {
  size_t nbytes = 0;
  const auto* const bytes = static_cast<const char*>(tenon_message_user_bytes(message, &nbytes));
  const std::string all(bytes, nbytes);
  return all.substr(0, all.find('.'));
}

tenon_status send_within(tenon_connection* connection, const tenon_message* message,
                         int64_t timeout_ns) {
  const tenon_wait wait = fault::wait_ns(timeout_ns);
  return CALL(tenon_send(connection, message, &wait, err)).status;
}

// Both ends of a connection in this process. The sending direction is full.
struct Full {
  fault::Pair pair{SOCK_STREAM};
  std::vector<tenon_message*> sent;

  Full() {
    do {
      sent.push_back(named("noise", 60000));
    } while (send_within(pair.left, sent.back(), kNow) == TENON_OK);
  }
  Full(const Full&) = delete;
  Full& operator=(const Full&) = delete;
  ~Full() {
    for (tenon_message* each : sent) tenon_message_release(each);
  }
  tenon_message* make(const std::string& name, size_t nbytes = 60000) {
    return sent.emplace_back(named(name, nbytes));
  }
  // Receives until "end" or until nothing comes, and counts the messages by name.
  std::map<std::string, int> drain() const {
    std::map<std::string, int> count;
    tenon_message* message = nullptr;
    while (CALL(tenon_recv(pair.right, nullptr, &message, err)).ok()) {
      const std::string name = name_in(message);
      tenon_message_release(message);
      if (name == "end") break;
      ++count[name];
    }
    return count;
  }
};

// Waits until another thread has the turn of that direction. Only an attempt to send shows that.
void await_turn(Full* full) {
  CHECK(wait_until([&] {
    const tenon_wait wait = fault::wait_ns(kNow);
    const Outcome outcome = CALL(tenon_send(full->pair.left, nullptr, &wait, err));
    return outcome.text().find("another thread") != std::string::npos;
  }));
}

TEST(Turns, WhatCouldNotBeSentNowIsKept) {
  IN_CHILD([] {
    Full full;
    tenon_message* const first = full.make("first");
    std::thread thread(
        [&] { CHECK_EQ(send_within(full.pair.left, first, kPatienceNs), TENON_OK); });
    await_turn(&full);
    CHECK_EQ(send_within(full.pair.left, full.make("second", 10), kNow), TENON_WOULD_BLOCK);
    CHECK_EQ(send_within(full.pair.left, full.make("third", 10), kNow), TENON_WOULD_BLOCK);
    tenon_message* const end = full.make("end", 10);
    std::thread last([&] { CHECK_EQ(send_within(full.pair.left, end, kPatienceNs), TENON_OK); });
    std::map<std::string, int> came = full.drain();
    thread.join();
    last.join();
    CHECK_EQ(came["first"], 1);
    CHECK_EQ(came["second"], 1);
    CHECK_EQ(came["third"], 1);
  });
}

// The first thread asks for its message again after another thread has sent everything.
TEST(Turns, WhatAnotherThreadSentIsNotSentTwice) {
  for (const bool by_flush : {false, true}) {
    IN_CHILD([by_flush] {
      Full full;
      tenon_message* const kept = full.make("kept");
      CHECK_EQ(send_within(full.pair.left, kept, kBriefly), TENON_TIMEOUT);
      tenon_message* const others = by_flush ? nullptr : full.make("other", 10);
      std::thread other(
          [&] { CHECK_EQ(send_within(full.pair.left, others, kPatienceNs), TENON_OK); });
      std::map<std::string, int> came;
      std::thread reader([&] { came = full.drain(); });
      other.join();
      CHECK_EQ(send_within(full.pair.left, kept, kPatienceNs), TENON_OK);
      CHECK_EQ(send_within(full.pair.left, full.make("end", 10), kPatienceNs), TENON_OK);
      reader.join();
      CHECK_EQ(came["kept"], 1);
      CHECK_EQ(came["other"], by_flush ? 0 : 1);
    });
  }
}

// A caller that was told that its message is sent may send it again, as often as it likes.
TEST(Turns, WhoHeardThatItIsThroughSendsItAnew) {
  for (const bool by_flush : {false, true}) {
    IN_CHILD([by_flush] {
      Full full;
      tenon_message* const again = full.make("again", 10);
      CHECK_EQ(send_within(full.pair.left, again, kNow), TENON_WOULD_BLOCK);
      CHECK_EQ(send_within(full.pair.left, again, kNow), TENON_WOULD_BLOCK);
      std::map<std::string, int> came;
      std::thread reader([&] { came = full.drain(); });
      CHECK_EQ(
          send_within(full.pair.left, by_flush ? nullptr : full.make("other", 10), kPatienceNs),
          TENON_OK);
      for (int i = 0; i < 2; ++i)
        CHECK_EQ(send_within(full.pair.left, again, kPatienceNs), TENON_OK);
      CHECK_EQ(send_within(full.pair.left, full.make("end", 10), kPatienceNs), TENON_OK);
      reader.join();
      CHECK_EQ(came["again"], 3);
    });
  }
}

// Many threads send. None of them waits long, and each one retries until its message is sent.
TEST(Turns, ManyThatComeBack) {
  IN_CHILD([] {
    constexpr int kThreads = 4;
    constexpr int kEach = TENON_TEST_TSAN ? 100 : 400;
    fault::Pair pair(SOCK_STREAM);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&pair, thread] {
        for (int i = 0; i < kEach; ++i) {
          tenon_message* const message =
              named(std::to_string(thread) + " " + std::to_string(i), 20000);
          tenon_status status = TENON_WOULD_BLOCK;
          for (int64_t limit = 0; status == TENON_WOULD_BLOCK || status == TENON_TIMEOUT;
               limit = kMs) {
            status = send_within(pair.left, message, limit);
          }
          CHECK_EQ(status, TENON_OK);
          tenon_message_release(message);
        }
      });
    }
    std::map<std::string, int> next;
    for (int i = 0; i < kThreads * kEach; ++i) {
      tenon_message* const message = receive(pair.right);
      const std::string name = name_in(message);
      const size_t blank = name.find(' ');
      CHECK_EQ(next[name.substr(0, blank)]++, std::stoi(name.substr(blank + 1)));
      tenon_message_release(message);
    }
    for (std::thread& thread : threads) thread.join();
    tenon_message* none = nullptr;
    const tenon_wait now = fault::wait_ns(kNow);
    CHECK_EQ(CALL(tenon_recv(pair.right, &now, &none, err)).status, TENON_WOULD_BLOCK);
  });
}

// The service thread uses the connection while it makes a new token. The socket has room all the
// time.
TEST(Turns, ASendIsNotRefusedWhileATokenIsMade) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage* storage = new_in(arena, 4096, 4);
    Agent borrower;
    Link link(&borrower);
    for (int round = 0; round < 400; ++round) {
      tenon_message* const message = message_of({storage});
      CHECK_EQ(send_within(link.here, message, kNow), TENON_OK);
      tenon_message_release(message);
      const Done got = borrower.receive(link.there);
      REQUIRE(got.ok());
      borrower.ask_renewal();
      borrower.release(got.object);
      borrower.ring(1);
      usleep(static_cast<useconds_t>(round % 20 * 5));
    }
    tenon_storage_release(storage);
  });
}

// A check of the leases asks the connection whether memory came home. A receive at that moment must
// still return a message that is already here, without a wait.
TEST(Turns, AReceiveIsNotRefusedWhileTheConnectionIsAsked) {
  IN_CHILD([] {
    constexpr int kMessages = 60;
    const Arena arena(kMiB);
    tenon_storage* storage = new_in(arena, 4096, 4);
    std::atomic<bool> done{false};
    std::thread looker([&] {
      while (!done) (void)leases_standing();
    });
    for (int round = 0; round < 30; ++round) {
      Agent borrower;
      Link link(&borrower);
      lend(link.here, {storage});
      const Done got = borrower.receive(link.there);
      REQUIRE(got.ok());
      for (int i = 0; i <= kMessages; ++i) CHECK(borrower.pass(link.there, got.object).ok());
      tenon_message_release(receive(link.here));
      borrower.kill();
      for (int i = 0; i < kMessages; ++i) {
        tenon_message* message = nullptr;
        const tenon_wait now = fault::wait_ns(kNow);
        const Outcome outcome = CALL(tenon_recv(link.here, &now, &message, err));
        if (!CHECK_SAYING(outcome.ok(), outcome.text())) break;
        tenon_message_release(message);
      }
    }
    done = true;
    looker.join();
    tenon_storage_release(storage);
    CHECK_COMES_BACK(arena, kMiB);
  });
}

}  // namespace
}  // namespace leases
