// Several processes open one portable descriptor. They all hold its token, and its leases end with
// the last of them.
#include "process/lease/agent.h"

namespace leases {
namespace {

struct Openers {
  tenon_arena* arena = new_arena(kMiB, TENON_MODE_LENDER_WRITES);
  tenon_descriptor* descriptor = nullptr;
  std::array<pid_t, 2> pids{};
  // An opener writes 'x' once it has opened the message. Each byte to it then asks whether the
  // message shows its pattern.
  std::array<int, 2> sockets{};

  Openers() {
    tenon_storage* storage = new_in(arena, kMiB, 8);
    tenon_message* message = message_of({storage});
    tenon_storage_release(storage);
    REQUIRE_OK(tenon_descriptor_new(message, nullptr, &descriptor, err));
    tenon_message_release(message);
    for (size_t i = 0; i < pids.size(); ++i) {
      std::array<int, 2> ends{};
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
      pids[i] = fault::spawn([&] {
        close(ends[0]);
        if (i > 0) close(sockets[0]);
        open_it(ends[1]);
      });
      close(ends[1]);
      sockets[i] = ends[0];
      char byte = 0;
      REQUIRE(read(sockets[i], &byte, 1) == 1 && byte == 'x');
    }
  }
  Openers(const Openers&) = delete;
  Openers& operator=(const Openers&) = delete;
  ~Openers() {
    for (const int each : sockets) close(each);
    tenon_arena_release(arena);
  }

  void open_it(int socket) {
    size_t nbytes = 0;
    size_t n_fds = 0;
    const void* bytes = tenon_descriptor_bytes(descriptor, &nbytes);
    const int32_t* fds = tenon_descriptor_fds(descriptor, &n_fds);
    tenon_message* opened = nullptr;
    REQUIRE_OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, nullptr, &opened, err));
    tenon_descriptor_release(descriptor);
    char byte = 'x';
    while (write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1)
      byte = shows(opened, 8) ? 'y' : 'n';
    tenon_message_release(opened);
  }
  void check(size_t which) const {
    char byte = '?';
    REQUIRE(write(sockets[which], &byte, 1) == 1 && read(sockets[which], &byte, 1) == 1);
    CHECK_EQ(byte, 'y');
  }
  void kill(size_t which) const {
    ::kill(pids[which], SIGKILL);
    CHECK_EQ(WTERMSIG(fault::wait_for_child(pids[which])), SIGKILL);
  }
  // Ends the opener in order: it releases the message and exits.
  void end(size_t which) const {
    shutdown(sockets[which], SHUT_RDWR);
    CHECK_EQ(fault::wait_for_child(pids[which]), 0);
  }
  // The arena gets no space back, even while other calls check for ended leases.
  void check_kept(size_t by) const {
    for (int i = 0; i < 20; ++i) {
      CHECK_FULL(arena, 64);
      usleep(2000);
    }
    CHECK_EQ(stats(arena).bytes_lent, kMiB);
    check(by);
  }
};

TEST(Descriptor, OneOfTwoOpenersIsKilled) {
  IN_CHILD([] {
    for (const size_t first : {size_t{0}, size_t{1}}) {
      Openers openers;
      tenon_descriptor_release(openers.descriptor);
      openers.kill(first);
      openers.check_kept(1 - first);
      openers.kill(1 - first);
      CHECK_COMES_BACK(openers.arena, kMiB);
      CHECK_EQ(leases_standing(), 0);
    }
  });
}

TEST(Descriptor, OneIsKilledAndTheOtherLetsGo) {
  IN_CHILD([] {
    Openers openers;
    tenon_descriptor_release(openers.descriptor);
    openers.end(0);
    openers.check_kept(1);
    openers.kill(1);
    CHECK_COMES_BACK(openers.arena, kMiB);
    CHECK_EQ(leases_standing(), 0);
  });
}

// The maker still has the descriptor, and could give it to a third process.
TEST(Descriptor, BothOpenersAreKilledAndTheMakerKeepsIt) {
  IN_CHILD([] {
    Openers openers;
    openers.kill(0);
    openers.kill(1);
    for (int i = 0; i < 20; ++i) {
      CHECK_FULL(openers.arena, 64);
      usleep(2000);
    }
    tenon_descriptor_release(openers.descriptor);
    CHECK_COMES_BACK(openers.arena, kMiB);
  });
}

}  // namespace
}  // namespace leases
