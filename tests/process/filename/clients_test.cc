// Every process of the user can connect to a lender's socket. These tests send what no honest
// client sends, and check that the other clients are served.
#include "process/filename/agent.h"
#include "support/become_user.h"
#include "support/unix_socket.h"

namespace names {
namespace {

struct Lent {
  Folder folder;
  Agent lender;
  Done made;
  Done lent;
  Lent()
      : made(lender.make(TENON_MODE_SHARED, 0, 5000, 1)),
        lent(lender.share(made.slot, {.directory = folder.path()})) {
    REQUIRE(lent.ok());
  }
};

int connect_to(const std::string& path) {
  const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (client < 0) return -1;
  if (tenon::test::connect_path(client, path)) return client;
  close(client);
  return -1;
}

void check_serves(const Lent& all) {
  tenon_storage* storage = open_name(all.lent.handle, 0);
  CHECK(shows_pattern(storage, 1));
  tenon_storage_release(storage);
}

// Returns the code that the lender answers to a client, or -1 if it hangs up.
int32_t code_after(int client) {
  pollfd waiting{client, POLLIN, 0};
  REQUIRE(poll(&waiting, 1, kPatienceMs * 2) == 1);
  struct {
    uint32_t magic;
    int32_t code;
    uint32_t rest[4];
  } answer{};
  const ssize_t got = recv(client, &answer, sizeof answer, 0);
  return got == 24 ? answer.code : -1;
}

TEST(HostileClient, Garbage) {
  IN_CHILD([] {
    const Lent all;
    const std::string path = path_of(all.lent.handle);
    const uint32_t good[2] = {0x31536e54, 1};
    for (const uint32_t request : {0U, 4U, 1000U, UINT32_MAX}) {
      const uint32_t packet[2] = {0x31536e54, request};
      const int client = connect_to(path);
      CHECK(put_packet(client, packet, sizeof packet, -1));
      CHECK_EQ(code_after(client), TENON_INVALID_ARGUMENT);
      close(client);
    }
    for (const size_t nbytes : {size_t{1}, size_t{4}, size_t{7}, size_t{9}, size_t{100000}}) {
      std::vector<char> bytes(nbytes);
      std::memcpy(bytes.data(), good, std::min(nbytes, sizeof good));
      const int client = connect_to(path);
      CHECK(put_packet(client, bytes.data(), nbytes, -1));
      CHECK_EQ(code_after(client), TENON_INVALID_ARGUMENT);
      close(client);
    }
    const uint32_t foreign[2] = {0x31536e55, 1};
    int client = connect_to(path);
    CHECK(put_packet(client, foreign, sizeof foreign, -1));
    CHECK_EQ(code_after(client), TENON_INVALID_ARGUMENT);
    close(client);
    // An fd that was not asked for comes with a good request.
    client = connect_to(path);
    CHECK(put_packet(client, good, sizeof good, 0));
    CHECK_EQ(code_after(client), TENON_OK);
    close(client);
    // The client is gone before it is answered.
    for (int i = 0; i < 100; ++i) {
      client = connect_to(path);
      if (i % 2 == 0) (void)put_packet(client, good, sizeof good, -1);
      close(client);
    }
    check_serves(all);
  });
}

// A client says "received" without having received anything. The lender loses no message in flight,
// because the storage's holder still has it.
TEST(HostileClient, ReceivedWithoutEnd) {
  IN_CHILD([] {
    const Lent all;
    const std::string path = path_of(all.lent.handle);
    const uint32_t received[2] = {0x31536e54, 3};
    for (int i = 0; i < 100; ++i) {
      const int client = connect_to(path);
      CHECK(put_packet(client, received, sizeof received, -1));
      CHECK_EQ(code_after(client), TENON_OK);
      close(client);
    }
    check_serves(all);
  });
}

TEST(HostileClient, SilenceAndTwoThousandConnections) {
  IN_CHILD([] {
    const Lent all;
    const std::string path = path_of(all.lent.handle);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<int> clients;
    for (int i = 0; i < 2000; ++i) {
      const int client = connect_to(path);
      if (client < 0) break;
      clients.push_back(client);
      if (i % 200 == 0) {
        // Until the lender is full, other clients are served at once. After that they get an error,
        // and no call waits for ever.
        tenon_storage* storage = nullptr;
        const tenon_wait wait = fault::wait_ns(int64_t{kPatienceMs} * 1'000'000);
        const Outcome outcome = try_open(all.lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait);
        CHECK_SAYING(outcome.ok() || outcome.status == TENON_RESOURCE_EXHAUSTED, outcome.text());
        tenon_storage_release(storage);
      }
    }
    CHECK_SAYING(clients.size() >= 1000, std::to_string(clients.size()));
    // The lender drops a silent client after 5 seconds, and then serves everybody again.
    CHECK(wait_until(
        [&] {
          tenon_storage* storage = nullptr;
          const bool served = try_open(all.lent.handle, &storage, 0).ok();
          tenon_storage_release(storage);
          return served;
        },
        std::chrono::seconds(20)));
    for (const int client : clients) close(client);
    check_serves(all);
  });
}

// A served client may stay connected, but must not leave the lender's process without fds.
TEST(HostileClient, ServedAndNeverGone) {
  IN_CHILD([] {
    SKIP_UNDER_SANITIZERS("they need fds of their own");
    const Folder folder;
    const auto start = [] {
      const fault::Limit limit(RLIMIT_NOFILE, 256);
      return Agent();
    };
    Agent lender = start();
    const Done lent =
        lender.share(lender.make(TENON_MODE_SHARED, 0, 100, 1).slot, {.directory = folder.path()});
    REQUIRE(lent.ok());
    const uint32_t good[2] = {0x31536e54, 1};
    std::vector<int> clients;
    for (int i = 0; i < 500; ++i) {
      const int client = connect_to(path_of(lent.handle));
      REQUIRE(client >= 0);
      CHECK(put_packet(client, good, sizeof good, -1));
      CHECK_EQ(code_after(client), TENON_OK);
      clients.push_back(client);
    }
    const Done made = lender.make(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 100, 2);
    const Done more = lender.share(made.slot, {.directory = folder.path()});
    CHECK_SAYING(made.ok() && more.ok(), more.outcome.text());
    CHECK(lender.create({.directory = folder.path()}, 100).ok());
    for (const int client : clients) close(client);
  });
}

// The name is open to other users. They must be unable to use up the lender's fds, or the places
// for its own user.
TEST(HostileClient, SilentClientsOfAnotherUser) {
  IN_CHILD([] {
    SKIP_UNDER_SANITIZERS("they need fds of their own");
    if (geteuid() != 0) fault::skip("only root can become another user");
    const Folder folder(01777);
    const auto start = [] {
      const fault::Limit limit(RLIMIT_NOFILE, 256);
      return Agent();
    };
    Agent lender = start();
    const Done lent = lender.share(lender.make(TENON_MODE_SHARED, 0, 100, 1).slot,
                                   {.directory = folder.path(), .mode = 0666});
    REQUIRE(lent.ok());
    int ready[2] = {-1, -1};
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
    const pid_t stranger = fork();
    if (stranger == 0) {
      if (!become_user(65534, 65534)) _exit(1);
      for (int i = 0; i < 500; ++i) (void)connect_to(path_of(lent.handle));
      const char byte = 1;
      if (write(ready[1], &byte, 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(ready[1]);
    char byte = 0;
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    // The lender takes clients in order. When it answers this one, it has answered the earlier
    // ones, except the few that have a place.
    tenon_storage* storage = open_name(lent.handle, 0);
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(storage);
    for (unsigned i = 0; i < 50; ++i) {
      const Done made = lender.make(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 100, i);
      CHECK_SAYING(made.ok(), made.outcome.text());
    }
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  });
}

// A lender without a free fd cannot accept clients. They wait, and are served when an fd is free.
TEST(HostileClient, ALenderWithoutFds) {
  IN_FOLDER([](const Folder& folder) {
    const Naming naming{.directory = folder.path()};
    Agent borrower;
    tenon_storage* storage = fault::new_storage(100);
    const tenon_filename_handle handle = share(storage, naming);
    {
      const fault::Limit limit(RLIMIT_NOFILE, fault::least_fd_limit());
      const Done late = borrower.open(handle, 0, TENON_ACCESS_AUTO, 50'000'000);
      CHECK_NAMES(TENON_TIMEOUT, path_of(handle), late.outcome);
    }
    const Done opened = borrower.open(handle, 0);
    CHECK_SAYING(opened.ok(), opened.outcome.text());
    let_go(storage);
  });
}

TEST(HostileClient, LeavesNothingInTheLender) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100);
    const tenon_filename_handle handle = share(storage, {.directory = folder.path()});
    const std::string path = path_of(handle);
    const uint32_t good[2] = {0x31536e54, 1};
    const auto storm = [&] {
      for (int i = 0; i < 300; ++i) {
        const int client = connect_to(path);
        REQUIRE(client >= 0);
        if (i % 3 == 0) CHECK(put_packet(client, good, sizeof good, -1));
        if (i % 3 == 1) CHECK(put_packet(client, "garbage", 7, -1));
        close(client);
      }
    };
    Agent borrower;
    // Count before the first client: later the last clients may still be closing.
    const long fds = fault::count_open_fds();
    for (int i = 0; i < 2; ++i) {
      storm();
      // The service thread takes clients in order, so this answer comes after all the others.
      REQUIRE(borrower.open(handle, 0).ok());
      CHECK(wait_until([&] { return fault::count_open_fds() == fds; }));
    }
    let_go(storage);
    CHECK(wait_until([&] { return fault::count_open_fds() < fds; }));
  });
}

}  // namespace
}  // namespace names
