// The process behind a socket may be dead or stopped, or may not use Tenon. The borrower gets an
// error in time, and the error names the socket.
#include <atomic>
#include <functional>

#include "process/filename/agent.h"
#include "support/unix_socket.h"

namespace names {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(Lender, Killed) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender, borrower;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 10000, 1);
    const Done lent = lender.share(made.slot, {.directory = folder.path()});
    const Done held = borrower.open(lent.handle, 0);
    REQUIRE(held.ok());
    borrower.stop();  // otherwise it sees the lender's end and removes the name
    lender.kill();
    tenon_storage* gone = nullptr;
    CHECK_NAMES(TENON_PEER_GONE, path_of(lent.handle), try_open(lent.handle, &gone, 0));
    const tenon_sweep_result dry = sweep(folder.path(), TENON_SWEEP_DRY_RUN);
    CHECK(dry.dead == 1 && dry.live == 0 && !folder.empty());
    CHECK_EQ(sweep(folder.path()).dead, 1);
    CHECK(folder.becomes_empty());
    CHECK_NAMES(TENON_NOT_FOUND, path_of(lent.handle), try_open(lent.handle, &gone, 0));
    borrower.signal(SIGCONT);
    CHECK(borrower.shows(held.slot, 1));
    CHECK(borrower.fill(held.slot, 2).ok() && borrower.shows(held.slot, 2));
  });
}

// A living borrower notices the lender's end and removes its name.
TEST(Lender, ABorrowerRemovesAKilledOnesName) {
  IN_FOLDER([](const Folder& folder) {
    for (const bool chosen : {false, true}) {
      Agent lender;
      const Done made = lender.make(TENON_MODE_SHARED, 0, 10000, 1);
      const Done lent =
          lender.share(made.slot, {.directory = folder.path(), .name = chosen ? "chosen" : ""});
      tenon_storage* storage = open_name(lent.handle, 0);
      lender.kill();
      CHECK(is_gone(path_of(lent.handle)));
      CHECK(shows_pattern(storage, 1));
      put_pattern(storage, 2);
      CHECK(shows_pattern(storage, 2));
      tenon_storage_release(storage);
    }
  });
}

// The name may belong to another lender by the time that the borrower notices the end. That
// lender's name stays.
TEST(Lender, ABorrowerLeavesTheNextOnesName) {
  IN_FOLDER([](const Folder& folder) {
    const Naming naming{.directory = folder.path(), .name = "a"};
    Agent first, second;
    const Done old = first.share(first.make(TENON_MODE_SHARED, 0, 100, 1).slot, naming);
    tenon_storage* storage = open_name(old.handle, 0);
    REQUIRE(first.unlink(folder.at("a")).ok());
    const Done made = second.make(TENON_MODE_SHARED, 0, 100, 2);
    const Done next = second.share(made.slot, naming);
    REQUIRE(next.ok());
    first.kill();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // nothing must happen
    tenon_storage* other = open_name(next.handle, 0);
    CHECK(shows_pattern(other, 2) && shows_pattern(storage, 1));
    tenon_storage_release(other);
    tenon_storage_release(storage);
    second.release(made.slot);
  });
}

// No sweep is called. The next process that makes a name sweeps.
TEST(Lender, WhatAKilledOneLeftGoesWithTheNextName) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender, next;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    REQUIRE(lender.share(made.slot, {.directory = folder.path()}).ok());
    lender.kill();
    CHECK(!folder.empty());
    const Done own = next.make(TENON_MODE_SHARED, 0, 100, 1);
    REQUIRE(next.share(own.slot, {.directory = folder.path()}).ok());
    CHECK_EQ(folder.leaves().size(), 1);
  });
}

TEST(Lender, AKilledOnesChosenNameCanBeTakenAgain) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender, next;
    const Naming naming{.directory = folder.path(), .name = "a"};
    REQUIRE(lender.share(lender.make(TENON_MODE_SHARED, 0, 100, 1).slot, naming).ok());
    const Done own = next.make(TENON_MODE_SHARED, 0, 100, 2);
    CHECK_NAMES(TENON_PERMISSION, folder.at("a"), next.share(own.slot, naming).outcome);
    lender.kill();
    const Done lent = next.share(own.slot, naming);
    CHECK_SAYING(lent.ok(), lent.outcome.text());
    tenon_storage* storage = open_name(handle_to(folder.at("a"), 100, lent.handle.offset), 0);
    CHECK(shows_pattern(storage, 2));
    tenon_storage_release(storage);
  });
}

TEST(Lender, StoppedObeysEveryKindOfWait) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    const Done lent = lender.share(made.slot, {.directory = folder.path()});
    const std::string path = path_of(lent.handle);
    lender.stop();
    tenon_storage* storage = nullptr;
    tenon_wait wait = fault::wait_ns(100 * kMs);
    int64_t begin = now_ns();
    const Outcome late = CHECK_NAMES(TENON_TIMEOUT, path,
                                     try_open(lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait));
    const int64_t took = now_ns() - begin;
    CHECK_SAYING(took >= 100 * kMs && took < kPatienceMs * kMs, std::to_string(took));
    CHECK_SAYING(late.detail("pid") == std::to_string(lender.pid()), late.text());
    wait = fault::wait_ns(0);
    CHECK_NAMES(TENON_WOULD_BLOCK, path,
                try_open(lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait));

    // A cancel comes before the wait and during it.
    wait = fault::wait_ns(-1);
    REQUIRE_OK(tenon_cancel_new(&wait.cancel, err));
    tenon_cancel_trigger(wait.cancel);
    CHECK_NAMES(TENON_CANCELLED, path,
                try_open(lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait));
    tenon_cancel_reset(wait.cancel);
    std::thread canceller([cancel = wait.cancel] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      tenon_cancel_trigger(cancel);
    });
    CHECK_NAMES(TENON_CANCELLED, path,
                try_open(lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait));
    canceller.join();
    tenon_cancel_release(wait.cancel);
    wait.cancel = nullptr;

    // A signal ends the wait, if the caller asked for that. It is sent until it hits the wait.
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    wait.flags = TENON_WAIT_INTERRUPTIBLE;
    std::atomic<bool> over{false};
    std::thread knocker([&over, target = pthread_self()] {
      while (!over) {
        pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    CHECK_NAMES(TENON_INTERRUPTED, path,
                try_open(lent.handle, &storage, 0, TENON_ACCESS_AUTO, &wait));
    over = true;
    knocker.join();

    lender.signal(SIGCONT);
    storage = open_name(lent.handle, 0);
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(storage);
  });
}

TEST(Lender, StoppedIsAliveForASweep) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    REQUIRE(lender.share(made.slot, {.directory = folder.path()}).ok());
    lender.stop();
    const tenon_sweep_result found = sweep(folder.path());
    CHECK(found.live == 1 && found.dead == 0);
    lender.signal(SIGCONT);
  });
}

// ---- another program listens

int listen_at(const std::string& path, int type = SOCK_SEQPACKET) {
  const int listener = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  REQUIRE(tenon::test::bind_path(listener, path) && listen(listener, 8) == 0);
  return listener;
}

struct Answer {
  uint32_t magic = 0x31536e54;
  int32_t code = 0;
  uint32_t access = 2;
  uint32_t zero = 0;
  uint64_t nbytes = 4096;
};

// The result of one attempt to open a name of 4096 bytes, when `server` answers it.
Outcome against(const std::function<void(int client)>& server, std::string* path,
                int64_t limit_ns) {
  const Folder folder;
  *path = folder.at("tenon-evil");
  const int listener = listen_at(*path);
  Agent borrower;
  std::thread thread([&] {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(client >= 0);
    char request[64];
    CHECK_EQ(recv(client, request, sizeof request, 0), 8);
    server(client);
    char more = 0;
    (void)!recv(client, &more, 1, 0);  // until the borrower has its answer
    close(client);
  });
  const Done done = borrower.open(handle_to(*path, 4096), 0, TENON_ACCESS_AUTO, limit_ns);
  thread.join();
  close(listener);
  unlink(path->c_str());
  // Whatever the server sent, the borrower works as before.
  const Done own = borrower.create({.directory = folder.path()}, 100);
  CHECK(own.ok());
  borrower.release(own.slot);
  return done.outcome;
}

void check_against(tenon_status status, const std::function<void(int client)>& server, int line) {
  std::string path;
  const Outcome outcome =
      against(server, &path, status == TENON_TIMEOUT ? 300 * kMs : 20'000 * kMs);
  check_names(outcome, status, path, __FILE__, line);
}
#define AGAINST(status, ...) check_against((status), __VA_ARGS__, __LINE__)

void give(int client, const Answer& answer, int fd, size_t nbytes = sizeof(Answer)) {
  std::vector<char> bytes(nbytes);
  std::memcpy(bytes.data(), &answer, std::min(nbytes, sizeof answer));
  CHECK(put_packet(client, bytes.data(), nbytes, fd));
}

TEST(HostileLender, SaysNothingOrHangsUp) {
  IN_CHILD([] {
    AGAINST(TENON_TIMEOUT, [](int) {});
    AGAINST(TENON_PEER_GONE, [](int client) { shutdown(client, SHUT_RDWR); });
  });
}

TEST(HostileLender, Garbage) {
  IN_CHILD([] {
    AGAINST(TENON_CORRUPT,
            [](int client) { CHECK(put_packet(client, "HTTP/1.1 400 Bad Request", 24, -1)); });
    AGAINST(TENON_CORRUPT, [](int client) { CHECK(put_packet(client, "x", 1, -1)); });
    for (const size_t nbytes : {size_t{8}, size_t{23}, size_t{25}, size_t{65536}})
      AGAINST(TENON_CORRUPT, [nbytes](int client) { give(client, {}, -1, nbytes); });
    AGAINST(TENON_CORRUPT, [](int client) { give(client, {.magic = 0x32536e54}, -1); });
    for (const int32_t code : {-1, 15, 1000000, INT32_MIN, INT32_MAX})
      AGAINST(TENON_CORRUPT, [code](int client) { give(client, {.code = code}, -1); });
    for (const uint32_t access : {0U, 3U, UINT32_MAX}) {
      AGAINST(TENON_CORRUPT, [access](int client) {
        const int fd = fault::foreign_memfd(4096);
        give(client, {.access = access}, fd);
        close(fd);
      });
    }
  });
}

TEST(HostileLender, NoFdOrAWrongOne) {
  IN_CHILD([] {
    AGAINST(TENON_CORRUPT, [](int client) { give(client, {}, -1); });
    const auto with = [](int fd, tenon_status status, Answer answer = {}) {
      REQUIRE(fd >= 0);
      AGAINST(status, [fd, answer](int client) { give(client, answer, fd); });
      close(fd);
    };
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    close(ends[1]);
    // For TENON_OPEN_FD an fd that is no memory is INVALID_ARGUMENT. Here the lender sent it, so it
    // is CORRUPT.
    with(ends[0], TENON_CORRUPT);
    with(open("/dev/null", O_RDWR | O_CLOEXEC), TENON_CORRUPT);
    with(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), TENON_CORRUPT);
    with(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), TENON_CORRUPT);
    // This is memory that no lender lends: it is too small, or it can be cut short.
    with(fault::foreign_memfd(100), TENON_CORRUPT);
    // Either side may be wrong: the handle or the lender.
    with(fault::foreign_memfd(100), TENON_INVALID_ARGUMENT, {.nbytes = 100});
    with(fault::foreign_memfd(4096, 0), TENON_PERMISSION);
    with(fault::foreign_memfd(4096), TENON_CORRUPT, {.nbytes = uint64_t{1} << 62});
    with(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), TENON_PERMISSION);
  });
}

TEST(HostileLender, ManyFds) {
  IN_CHILD([] {
    std::string path;
    const Outcome outcome = against(
        [](int client) {
          int fds[64];
          for (int& fd : fds) fd = fault::foreign_memfd(4096);
          Answer answer;
          iovec part{&answer, sizeof answer};
          alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
          msghdr packet{};
          packet.msg_iov = &part;
          packet.msg_iovlen = 1;
          packet.msg_control = control;
          packet.msg_controllen = sizeof control;
          cmsghdr* head = CMSG_FIRSTHDR(&packet);
          head->cmsg_level = SOL_SOCKET;
          head->cmsg_type = SCM_RIGHTS;
          head->cmsg_len = CMSG_LEN(sizeof fds);
          std::memcpy(CMSG_DATA(head), fds, sizeof fds);
          CHECK(sendmsg(client, &packet, MSG_NOSIGNAL) == sizeof answer);
          for (const int fd : fds) close(fd);
        },
        &path, 20'000 * kMs);
    CHECK_NAMES(TENON_CORRUPT, path, outcome);
  });
}

TEST(HostileLender, ASocketOfAnotherKind) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("a");
    tenon_storage* storage = nullptr;
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
      const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
      REQUIRE(tenon::test::bind_path(fd, path));
      if (type == SOCK_STREAM) REQUIRE(listen(fd, 1) == 0);
      CHECK_NAMES(TENON_CORRUPT, path, try_open(handle_to(path, 100), &storage, 0));
      close(fd);
      // Now the server is dead.
      const Outcome dead = try_open(handle_to(path, 100), &storage, 0);
      CHECK_SAYING(dead.status == TENON_PEER_GONE && dead.detail("path") == path, dead.text());
      unlink(path.c_str());
    }
  });
}

// The queue of the listener is full and nobody empties it. Connecting must obey the wait.
TEST(HostileLender, AFullQueue) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("a");
    const int listener = listen_at(path);
    std::vector<int> waiting;
    while (true) {
      const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      waiting.push_back(client);
      if (!tenon::test::connect_path(client, path)) break;
    }
    tenon_storage* storage = nullptr;
    const tenon_wait wait = fault::wait_ns(50 * kMs);
    CHECK_NAMES(TENON_TIMEOUT, path,
                try_open(handle_to(path, 100), &storage, 0, TENON_ACCESS_AUTO, &wait));
    for (const int client : waiting) close(client);
    close(listener);
    unlink(path.c_str());
  });
}

}  // namespace
}  // namespace names
