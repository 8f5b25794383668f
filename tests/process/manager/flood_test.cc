// These tests run clients that are slow, many, hostile or too many. Each may delay only itself.
#include <filesystem>
#include <random>
#include <system_error>

#include "process/manager/kit.h"
#include "support/become_user.h"

namespace manager_test {
namespace {

using Flood = ManagerTest;

// PyTorch waits one second for an answer. The tests print the real time. This limit is larger,
// because a busy machine may not run the manager for a while.
constexpr milliseconds kAtOnce{10000};

// The longest answer of `rounds` registers, in microseconds, or -1 if one failed.
double slowest_answer(const Client& client, int rounds) {
  double slowest = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    if (!client.say(0, "/torch_1_2_" + std::to_string(i % 50)) || client.answer() != "OK")
      return -1;
    slowest = std::max(slowest, us_since(start));
  }
  return slowest;
}

void raise_own_fd_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(Flood, HalfMessagesBlockNobody) {
  start();
  std::vector<Client> halves;
  const auto bytes = Client::message(0, "/torch_1_2_3");
  for (int i = 0; i < 300; ++i) {
    halves.emplace_back(socket());
    ASSERT_TRUE(halves.back().send_bytes(bytes.data(), static_cast<size_t>(1 + i % 67)));
  }
  const Client good(socket());
  const double slowest = slowest_answer(good, 200);
  EXPECT_GE(slowest, 0);
  EXPECT_LT(slowest, static_cast<double>(kAtOnce.count()) * 1000);
  for (int i = 0; i < 300; ++i) {
    const auto sent = static_cast<size_t>(1 + i % 67);
    ASSERT_TRUE(
        halves[static_cast<size_t>(i)].send_bytes(bytes.data() + sent, bytes.size() - sent));
    ASSERT_EQ(halves[static_cast<size_t>(i)].answer(), "OK") << i;
  }
}

TEST_F(Flood, AClientThatNeverReadsBlocksOnlyItself) {
  start();
  const Client mute(socket());
  const Client good(socket());
  ASSERT_TRUE(good.add("/torch_1_2_3"));
  // The loop sends until the manager reads no more from this client.
  const auto bytes = Client::message(0, "/torch_1_2_3");
  size_t sent = 0;
  for (auto last = Clock::now(); ms_since(last) < 300;) {
    const ssize_t step = send(mute.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (step < 0) {
      ASSERT_EQ(errno, EAGAIN);
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    ASSERT_EQ(step, static_cast<ssize_t>(bytes.size()));
    ++sent;
    last = Clock::now();
  }
  EXPECT_LT(sent, 5000U);
  const long before = status_number(manager_->pid(), "VmRSS");
  EXPECT_GE(slowest_answer(good, 200), 0);
  // A sanitizer keeps freed memory.
  if (!TENON_TEST_SANITIZED) EXPECT_LE(status_number(manager_->pid(), "VmRSS"), before + 1024);
  // No answer is lost: the client gets all of them once it reads.
  for (size_t i = 0; i < sent; ++i) ASSERT_EQ(mute.answer(), "OK") << i << " of " << sent;
}

TEST_F(Flood, OneClientsFloodIsServedInTurnWithTheOthers) {
  start();
  const Signal started;
  Child flood([&] {
    const Client client(socket());
    std::string burst;
    for (int i = 0; i < 200; ++i) {
      const auto bytes = Client::message(i % 2, "/torch_5_5_5");
      burst.append(bytes.data(), bytes.size());
    }
    started.give();
    std::array<char, 4096> answers;
    for (;;) {
      if (!client.send_bytes(burst.data(), burst.size())) return 1;
      while (recv(client.fd(), answers.data(), answers.size(), MSG_DONTWAIT) > 0) {
      }
    }
  });
  ASSERT_TRUE(started.wait());
  const Client good(socket());
  // The flood keeps a processor busy until the last answer.
  constexpr int kAnswers = TENON_TEST_SANITIZED ? 100 : 500;
  const double slowest = slowest_answer(good, kAnswers);
  EXPECT_GE(slowest, 0);
  EXPECT_LT(slowest, static_cast<double>(kAtOnce.count()) * 1000);
  std::printf("beside a flood the slowest of %d answers took %.1f ms\n", kAnswers, slowest / 1000);
  EXPECT_EQ(flood.end(SIGKILL), 1000 + SIGKILL);
}

TEST_F(Flood, GarbageDropsOnlyWhoSentIt) {
  const Client good = start_with_client();
  std::vector<std::array<char, 68>> bad;
  bad.push_back(Client::message(2, "/torch_1_2_3"));
  bad.push_back(Client::message(0, "torch_1_2_3"));
  bad.push_back(Client::message(0, ""));
  bad.push_back(Client::message(0, "/"));
  bad.push_back(Client::message(0, "/."));
  bad.push_back(Client::message(0, "/.."));
  bad.push_back(Client::message(1, "/../etc/passwd"));
  bad.push_back(Client::message(0, "/" + std::string(59, 'x')));  // no NUL
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::array<char, 68> bytes{};
    for (char& byte : bytes) byte = static_cast<char>(random());
    bytes[4] = static_cast<char>(bytes[4] | 2);
    bad.push_back(bytes);
  }
  for (const auto& bytes : bad) {
    const Client client(socket());
    ASSERT_TRUE(client.send_bytes(bytes.data(), bytes.size()));
    EXPECT_EQ(client.answer(), "");
  }
  EXPECT_TRUE(good.add("/torch_1_2_3"));
}

TEST_F(Flood, FdsThatAreSentAreNotKept) {
  Client client = start_with_client();
  const std::string fds = "/proc/" + std::to_string(manager_->pid()) + "/fd";
  std::error_code error;
  const std::filesystem::directory_iterator probe(fds, error);
  if (error) GTEST_SKIP() << "its fds cannot be seen by this user";
  const size_t before = names_in(fds).size();
  for (int i = 0; i < 20; ++i) {
    const auto bytes = Client::message(0, "/torch_1_2_3");
    ASSERT_TRUE(send_with_fds(client.fd(), {bytes.data(), bytes.size()}, {0, 1, 2}));
    ASSERT_EQ(client.answer(), "OK");
  }
  EXPECT_EQ(names_in(fds).size(), before);
}

TEST_F(Flood, TooManyNamesDropOnlyWhoRegistersThem) {
  const Client good = start_with_client();
  const long memory_before = status_number(manager_->pid(), "VmRSS");
  const Signal over;
  Child greedy([&] {
    const Client client(socket());
    std::string burst;
    std::array<char, 4096> answers;
    for (int sent = 0; sent < 250000; sent += 64) {
      burst.clear();
      for (int i = 0; i < 64; ++i) {
        const auto bytes =
            Client::message(0, "/name-of-a-usual-length-" + std::to_string(sent + i));
        burst.append(bytes.data(), bytes.size());
      }
      if (!client.send_bytes(burst.data(), burst.size())) return sent < 200000 ? 2 : 0;
      // The client never has more unread answers than the manager tolerates.
      for (size_t got = 0; got < 128;) {
        const ssize_t step =
            recv(client.fd(), answers.data(), std::min<size_t>(answers.size(), 128 - got), 0);
        if (step <= 0) return sent < 200000 - 64 ? 3 : 0;
        got += static_cast<size_t>(step);
      }
    }
    return 1;
  });
  // The other client gets answers while the greedy one grows and while its names are dropped.
  double slowest = 0;
  while (!greedy.ended_in_time(milliseconds(0))) {
    const double answer = slowest_answer(good, 20);
    ASSERT_GE(answer, 0);
    slowest = std::max(slowest, answer);
    // The pause keeps the measurement from taking the manager's time.
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(greedy.end(), 0);
  slowest = std::max(slowest, slowest_answer(good, 200));
  EXPECT_LT(slowest, static_cast<double>(kAtOnce.count()) * 1000);
  std::printf("beside 200,000 names the slowest answer took %.1f ms; they took %ld KiB at most\n",
              slowest / 1000, status_number(manager_->pid(), "VmHWM") - memory_before);
}

TEST_F(Flood, AThousandClients) {
  raise_own_fd_limit();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t wanted = std::min<size_t>(1000, limit.rlim_cur / 2 - 50);
  start();
  std::vector<Client> clients;
  clients.emplace_back(socket());
  ASSERT_TRUE(clients[0].add("/torch_1_2_3"));
  const double one = slowest_answer(clients[0], 200);
  const long before = status_number(manager_->pid(), "VmRSS");
  const auto start = Clock::now();
  while (clients.size() < wanted) {
    clients.emplace_back(socket());
    ASSERT_EQ(clients.back().error(), 0) << std::strerror(clients.back().error());
    ASSERT_TRUE(clients.back().add("/torch_1_2_" + std::to_string(clients.size())));
  }
  const double connecting = us_since(start) / static_cast<double>(wanted);
  const long after = status_number(manager_->pid(), "VmRSS");
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    for (const Client& client : clients) {
      const auto asked = Clock::now();
      ASSERT_TRUE(client.add("/torch_9_9_9"));
      times.push_back(us_since(asked));
    }
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "%zu clients: %ld KiB in all (%ld KiB with one), %.1f us to connect and register, an answer "
      "takes %.1f us (median), %.1f us "
      "(99%%), %.1f us at most; alone %.1f us at most\n",
      clients.size(), after, before, connecting, times[times.size() / 2],
      times[times.size() * 99 / 100], times.back(), one);
  if (!TENON_TEST_SANITIZED) EXPECT_LT(after, 65536);
}

// At its fd limit the manager serves the clients that it has, and accepts the others when some have
// left.
TEST_F(Flood, WithoutFdsItGoesOn) {
  Start poor;
  poor.fd_limit = 32;
  start(poor);
  std::vector<Client> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(socket());
    ASSERT_EQ(clients.back().error(), 0);
    ASSERT_TRUE(clients.back().say(0, "/torch_1_2_3"));
  }
  EXPECT_EQ(clients.front().answer(), "OK");
  EXPECT_TRUE(clients.front().add("/torch_1_2_4"));
  EXPECT_EQ(clients.back().answer(milliseconds(300)), "?");
  while (clients.size() > 10) clients.erase(clients.begin());
  for (const Client& client : clients) EXPECT_EQ(client.answer(), "OK");
}

// If the manager has no fd to watch a client, it learns of the death from the end of the
// connection.
TEST_F(Flood, WithoutFdsTheDeadAreSeenToo) {
  Start poor;
  poor.fd_limit = 32;
  start(poor);
  Client witness(socket());
  ASSERT_TRUE(witness.add("/torch_1_2_3"));
  std::vector<Child> children;
  DeletionWatch watch(objects_.path());
  constexpr size_t kChildren = 14;
  for (size_t i = 0; i < kChildren; ++i) {
    SCOPED_TRACE(i);
    children.push_back(holder());
  }
  children.clear();
  EXPECT_TRUE(watch.wait(kChildren));
}

TEST_F(Flood, AnotherUserIsTurnedAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start();
  ASSERT_EQ(chmod(place_.path().c_str(), 0777), 0);
  ASSERT_EQ(chmod(socket().c_str(), 0777), 0);
  const Client good(socket());
  ASSERT_TRUE(good.add("/torch_1_2_3"));
  Child other([&] {
    if (!become_user(12345, 12345)) return 9;
    const Client client(socket());
    if (client.error() != 0) return 8;
    client.say(0, "/torch_1_2_3");
    return client.answer().empty() ? 0 : 1;
  });
  EXPECT_EQ(other.end(), 0);
  EXPECT_TRUE(good.add("/torch_1_2_4"));
}

}  // namespace
}  // namespace manager_test
