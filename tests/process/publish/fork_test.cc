// A publisher or a subscriber dies, or ends, while a forked child of it lives on. The others are
// notified all the same, because the child has no copies of the sockets.
#include "process/publish/kit.h"
#include "support/temporary_directory.h"

namespace publishers {
namespace {

constexpr int64_t kPromptNs = (fault::kSanitized ? 10 : 1) * kSecond;

// A pair of sockets by which two processes wait for each other.
class Signals {
 public:
  Signals() : ends_(fault::socket_ends()) {}
  ~Signals() {
    for (const int each : ends_) close(each);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  void tell(size_t side) const { REQUIRE(::send(ends_[side], "", 1, MSG_NOSIGNAL) == 1); }
  void await(size_t side) const {
    char got = 0;
    REQUIRE(::recv(ends_[side], &got, 1, 0) == 1);
  }

 private:
  std::array<int, 2> ends_;
};

// Runs `use` in a child of a process that dies, and then tells the test that it went well. The fds
// of the child that are opened before `use` stay open.
template <typename Use>
void live_on(const Signals& test, Use&& use) {
  const pid_t child = fault::spawn([&] {
    test.tell(1);
    test.await(1);  // the parent is dead
    std::array<int, 16> own{};
    for (int& each : own) each = open("/dev/null", O_RDONLY | O_CLOEXEC);
    use();
    for (const int each : own) REQUIRE(fcntl(each, F_GETFD) == FD_CLOEXEC);
    REQUIRE(fault::g_failures == 0);
    test.tell(1);
  });
  REQUIRE(child > 0);
}

void check_refuses(tenon_publisher* publisher) {
  CHECK_EQ(publish(publisher, 3, kLong).status, TENON_UNSUPPORTED);
  tenon_publisher_release(publisher);
}

TEST(Fork, AKilledPublisherIsGoneWhileItsChildLives) {
  IN_CHILD([] {
    const tenon::test::TemporaryDirectory directory(tenon::test::temporary_place() +
                                                    "/tenon-publish-");
    const std::string path = directory.path() + "/fork";
    const Signals signals;
    const pid_t victim = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      tenon_publisher* publisher = nullptr;
      REQUIRE_OK(tenon_publisher_new(nullptr, &publisher, err));
      REQUIRE_OK(tenon_publisher_listen(publisher, path.c_str(), 0, err));
      signals.tell(1);
      signals.await(1);  // somebody has subscribed
      REQUIRE(publish(publisher, 1, kLong).ok());
      live_on(signals, [&] { check_refuses(publisher); });
      pause();
    });
    signals.await(0);
    tenon_subscriber* const subscriber = connect_to(path);
    signals.tell(0);
    signals.await(0);
    kill(victim, SIGKILL);
    fault::wait_for_child(victim);
    CHECK_EQ(receive(subscriber).number, 1);
    const Numbered end = receive(subscriber, nullptr, kPromptNs);
    CHECK_SAYING(end.outcome.status == TENON_PEER_GONE &&
                     end.outcome.detail("pid") == std::to_string(victim),
                 end.outcome.text());
    signals.tell(0);
    signals.await(0);
    tenon_subscriber_release(subscriber);
  });
}

TEST(Fork, AReleasedPublisherIsGoneWhileItsChildLives) {
  IN_CHILD([] {
    const Signals signals;
    tenon_publisher* publisher = nullptr;
    REQUIRE_OK(tenon_publisher_new(nullptr, &publisher, err));
    const std::array<int, 2> ends = fault::socket_ends();
    REQUIRE_OK(tenon_publisher_add(publisher, ends[0], err));
    auto options = tenon::test::sized<tenon_connection_options>();
    options.flags = TENON_CONNECTION_ADOPT_SOCKET;
    tenon_subscriber* subscriber = nullptr;
    REQUIRE_OK(tenon_subscriber_new(ends[1], &options, &subscriber, err));
    REQUIRE(publish(publisher, 1, kLong).ok());
    live_on(signals, [&] {
      check_refuses(publisher);
      CHECK_EQ(tenon_subscriber_fd(subscriber), -1);
      tenon_subscriber_release(subscriber);
    });
    signals.await(0);
    tenon_publisher_release(publisher);
    CHECK_EQ(receive(subscriber).number, 1);
    CHECK_EQ(receive(subscriber, nullptr, kPromptNs).outcome.status, TENON_PEER_GONE);
    signals.tell(0);
    signals.await(0);
    tenon_subscriber_release(subscriber);
  });
}

TEST(Fork, AKilledSubscriberIsGoneWhileItsChildLives) {
  IN_CHILD([] {
    const tenon::test::TemporaryDirectory directory(tenon::test::temporary_place() +
                                                    "/tenon-publish-");
    const std::string path = directory.path() + "/fork";
    const Signals signals;
    tenon_publisher* publisher = nullptr;
    REQUIRE_OK(tenon_publisher_new(nullptr, &publisher, err));
    REQUIRE_OK(tenon_publisher_listen(publisher, path.c_str(), 0, err));
    REQUIRE(publish(publisher, 1, kLong).ok());
    const pid_t victim = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      tenon_publisher_release(publisher);
      tenon_subscriber* const subscriber = connect_to(path);
      tenon_message* kept = nullptr;
      REQUIRE(receive(subscriber, &kept).number == 1);
      live_on(signals, [&] {
        CHECK_EQ(receive(subscriber).outcome.status, TENON_UNSUPPORTED);
        CHECK_EQ(tenon_subscriber_fd(subscriber), -1);
        tenon_subscriber_release(subscriber);
        // The message that the parent had received is still there.
        CHECK(fault::has_pattern(tenon_tensor_data(tenon_message_tensor(kept, 0)), kNbytes, 1));
      });
      pause();
    });
    signals.await(0);
    kill(victim, SIGKILL);
    fault::wait_for_child(victim);
    Outcome told;
    CHECK(fault::wait_until([&] { return !(told = publish(publisher, 2, kPromptNs)).ok(); }));
    CHECK_SAYING(told.status == TENON_PEER_GONE && told.detail("pid") == std::to_string(victim),
                 told.text());
    CHECK(publish(publisher, 3, kPromptNs).ok());
    // The child may use the memory of the first message.
    CHECK_EQ(leases_granted(), 1);
    signals.tell(0);
    signals.await(0);
    CHECK(fault::wait_until([] { return leases_granted() == 0; }));
    tenon_publisher_release(publisher);
  });
}

}  // namespace
}  // namespace publishers
