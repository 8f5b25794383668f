// These tests open messages under leases in different ways: with both ends in one process, as
// private copies, by copy-on-write, with names and user bytes, and from portable descriptors.
// Handles by fd and by name have no lease.
#include "process/lease/agent.h"
#include "support/sized.h"

namespace leases {
namespace {

TEST(Message, BothEndsInOneProcess) {
  IN_CHILD([] {
    const fault::Held before = fault::hold();
    for (const int type : fault::kSocketTypes) {
      const Arena arena(kMiB);
      {
        fault::Pair pair(type);
        tenon_storage* storage = new_in(arena, kMiB, 3);
        lend(pair.left, {storage});
        tenon_message* message = receive(pair.right);
        CHECK(tenon_tensor_storage(tenon_message_tensor(message, 0)) == storage);
        // It is the same storage object, so it needs no lease.
        CHECK_EQ(leases_standing(), 0);
        tenon_storage_release(storage);
        CHECK_FULL(arena, kMiB);
        CHECK(shows(message, 3));
        tenon_message_release(message);
        CHECK_COMES_BACK(arena, kMiB);
        // The storage is released while the message is on its way. The lease keeps the block, and
        // the receiver opens it anew.
        storage = new_in(arena, kMiB, 4);
        lend(pair.left, {storage});
        tenon_storage_release(storage);
        CHECK_FULL(arena, kMiB);
        message = receive(pair.right);
        CHECK(shows(message, 4));
        CHECK_FULL(arena, kMiB);
        tenon_message_release(message);
        CHECK_COMES_BACK(arena, kMiB);
      }
    }
    CHECK_HELD(before);
  });
}

TEST(Message, NamesAndUserBytes) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    fault::Pair pair(SOCK_SEQPACKET);
    tenon_storage* storage = new_in(arena, 8192, 3);
    tenon_tensor* tensor = fault::new_tensor(storage);
    tenon_storage_release(storage);
    tenon_message* message = nullptr;
    REQUIRE_OK(tenon_message_new(&message, err));
    // Two tensors over one storage need one lease.
    tenon_tensor* const both[] = {tensor, tensor};
    const char* const names[] = {"weight", "bias"};
    REQUIRE_OK(tenon_message_add(message, both, names, 2, nullptr, err));
    tenon_tensor_release(tensor);
    REQUIRE_OK(tenon_message_set_user_bytes(message, "hello", 5, err));
    REQUIRE(try_send(pair.left, message).ok());
    CHECK_EQ(leases_standing(), 1);
    tenon_message_release(message);
    tenon_message* got = receive(pair.right);
    CHECK_EQ(tenon_message_count(got), 2);
    CHECK_EQ(std::strcmp(tenon_message_name(got, 0), "weight"), 0);
    CHECK(tenon_message_find(got, "bias") != nullptr);
    size_t nbytes = 0;
    const void* bytes = tenon_message_user_bytes(got, &nbytes);
    CHECK(nbytes == 5 && std::memcmp(bytes, "hello", 5) == 0);
    CHECK(shows(got, 3, true));
    tenon_message_release(got);
    CHECK_COMES_BACK(arena, kMiB);
  });
}

TEST(Message, OnlyUserBytesNeedNoLease) {
  IN_CHILD([] {
    fault::Pair pair(SOCK_STREAM);
    const long fds = fault::count_open_fds();
    tenon_message* message = nullptr;
    REQUIRE_OK(tenon_message_new(&message, err));
    REQUIRE_OK(tenon_message_set_user_bytes(message, "x", 1, err));
    REQUIRE(try_send(pair.left, message).ok());
    tenon_message_release(message);
    tenon_message_release(receive(pair.right));
    CHECK_EQ(fault::count_open_fds(), fds);
  });
}

TEST(Message, PrivateCopiesGiveBackAtOnce) {
  IN_CHILD([] {
    const Arena arena(kMiB, TENON_MODE_LENDER_WRITES);
    Agent borrower;
    const Link link(&borrower, {.open_flags = TENON_OPEN_PRIVATE_COPY});
    for (uint64_t round = 0; round < 3; ++round) {
      lend_new(link.here, arena, kMiB, round);
      const Done got = borrower.receive(link.there);
      REQUIRE(got.ok());
      CHECK_EQ(leases_standing(), 0);
      tenon_storage_release(new_in(arena, kMiB, 99));
      CHECK(borrower.shows(got.object, round));
    }
  });
}

// A page that was not written is still the lender's.
TEST(Message, CopiesOnWriteKeepTheLease) {
  IN_CHILD([] {
    const Arena arena(kMiB, TENON_MODE_LENDER_WRITES);
    Agent borrower;
    const Link link(&borrower, {.open_flags = TENON_OPEN_PRIVATE_COW});
    lend_new(link.here, arena, kMiB, 8);
    const Done got = borrower.receive(link.there);
    REQUIRE(got.ok());
    CHECK_EQ(leases_standing(), 1);
    CHECK_FULL(arena, kMiB);
    CHECK(borrower.shows(got.object, 8));
    borrower.release(got.object);
    CHECK_COMES_BACK(arena, kMiB);
  });
}

// Nobody reports when the borrower of an fd is done, so the block is never used again.
TEST(Message, WhatIsLentByFdIsRetired) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage* storage = new_in(arena, kMiB / 2, 8);
    auto handle = tenon::test::sized<tenon_fd_handle>();
    REQUIRE_OK(tenon_share_fd(storage, nullptr, &handle, err));
    tenon_fd_handle_close(&handle);
    // A lease on the same block does not change that.
    Agent borrower;
    const Link link(&borrower);
    lend(link.here, {storage});
    const int message = borrower.receive(link.there).object;
    tenon_storage_release(storage);
    CHECK_EQ(stats(arena).bytes_retired, 0);
    borrower.release(message);
    CHECK_EQ(stats(arena).bytes_retired, kMiB / 2);
    CHECK_EQ(stats(arena).bytes_lent, 0);
    CHECK_FULL(arena, kMiB);
    CHECK_COMES_BACK(arena, kMiB / 2);
  });
}

// A name or bytes alone carry no token either.
TEST(Message, WhatIsLentByNameOrByBytesIsRetired) {
  IN_CHILD([] {
    const names::Folder folder;
    for (const bool by_name : {false, true}) {
      const Arena arena(kMiB, TENON_MODE_LENDER_WRITES);
      tenon_storage* storage = new_in(arena, kMiB / 2, 8);
      if (by_name) {
        (void)names::share(storage, {.directory = folder.path()});
      } else {
        tenon_message* message = message_of({storage});
        auto options = tenon::test::sized<tenon_descriptor_options>();
        options.flags = TENON_DESCRIPTOR_BYTES_ONLY;
        tenon_descriptor* descriptor = nullptr;
        REQUIRE_OK(tenon_descriptor_new(message, &options, &descriptor, err));
        tenon_message_release(message);
        tenon_descriptor_release(descriptor);
      }
      tenon_storage_release(storage);
      CHECK(wait_until([&] { return stats(arena).bytes_retired == kMiB / 2; }));
      CHECK_FULL(arena, kMiB);
      CHECK_COMES_BACK(arena, kMiB / 2);
    }
    (void)tenon_storage_trim();
  });
}

// ---- portable descriptors: the token is one of their fds

struct Described {
  tenon_arena* arena = new_arena(kMiB);
  tenon_descriptor* descriptor = nullptr;
  Described() {
    tenon_storage* storage = new_in(arena, kMiB, 8);
    tenon_message* message = message_of({storage});
    tenon_storage_release(storage);
    REQUIRE_OK(tenon_descriptor_new(message, nullptr, &descriptor, err));
    tenon_message_release(message);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() { tenon_arena_release(arena); }
};

TEST(Descriptor, NobodyOpensIt) {
  IN_CHILD([] {
    Described described;
    CHECK_FULL(described.arena, kMiB);
    CHECK_EQ(stats(described.arena).bytes_lent, kMiB);
    tenon_descriptor_release(described.descriptor);
    CHECK_COMES_BACK(described.arena, kMiB);
    CHECK_EQ(stats(described.arena).bytes_retired, 0);
  });
}

TEST(Descriptor, IsOpenedAndLetGoOf) {
  IN_CHILD([] {
    Described described;
    size_t nbytes = 0;
    size_t n_fds = 0;
    const void* bytes = tenon_descriptor_bytes(described.descriptor, &nbytes);
    const int32_t* fds = tenon_descriptor_fds(described.descriptor, &n_fds);
    CHECK_EQ(n_fds, 2);
    // This process plays the receiver of some other transport.
    tenon_message* opened = nullptr;
    REQUIRE_OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, nullptr, &opened, err));
    tenon_descriptor_release(described.descriptor);
    CHECK_FULL(described.arena, kMiB);
    CHECK(shows(opened, 8));
    tenon_message_release(opened);
    CHECK_COMES_BACK(described.arena, kMiB);
  });
}

TEST(Descriptor, ItsOpenerIsKilled) {
  IN_CHILD([] {
    Described described;
    int ready[2];
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
    const pid_t opener = fault::spawn([&] {
      size_t nbytes = 0;
      size_t n_fds = 0;
      const void* bytes = tenon_descriptor_bytes(described.descriptor, &nbytes);
      const int32_t* fds = tenon_descriptor_fds(described.descriptor, &n_fds);
      tenon_message* opened = nullptr;
      REQUIRE_OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, nullptr, &opened, err));
      tenon_descriptor_release(described.descriptor);
      CHECK(shows(opened, 8));
      REQUIRE(write(ready[1], "x", 1) == 1);
      pause();
    });
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    tenon_descriptor_release(described.descriptor);
    CHECK_FULL(described.arena, kMiB);
    ::kill(opener, SIGKILL);
    CHECK_EQ(WTERMSIG(fault::wait_for_child(opener)), SIGKILL);
    CHECK_COMES_BACK(described.arena, kMiB);
  });
}

TEST(Message, NotSentNotLent) {
  IN_CHILD([] {
    const fault::Held before = fault::hold();
    tenon_arena* arena = new_arena(kMiB);
    const auto ends = fault::socket_ends();
    tenon_connection* here = fault::new_connection(ends[0]);
    close(ends[1]);
    tenon_storage* storage = new_in(arena, kMiB, 8);
    tenon_message* message = message_of({storage});
    tenon_storage_release(storage);
    CHECK_EQ(try_send(here, message).status, TENON_PEER_GONE);
    tenon_message_release(message);
    tenon_connection_release(here);
    CHECK_COMES_BACK(arena, kMiB);
    CHECK(wait_until([] { return leases_standing() == 0; }));
    tenon_arena_release(arena);
    CHECK_HELD(before);
  });
}

TEST(Message, HoldersAreTold) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrower;
    const Link link(&borrower);
    CHECK(holders().empty());
    tenon_storage* one = new_in(arena, 4096, 1);
    tenon_storage* other = new_in(arena, 8192, 2);
    lend(link.here, {one, other});
    const int message = borrower.receive(link.there).object;
    CHECK(wait_until([&] { return holders()[0].pid == borrower.pid(); }));
    const tenon_lease_holder holder = holders()[0];
    CHECK_EQ(holders().size(), 1);
    CHECK_EQ(holder.uid, geteuid());
    CHECK_EQ(holder.leases, 2);
    CHECK_EQ(holder.nbytes, 4096 + 8192);
    CHECK_EQ(holder.granted, 2);
    CHECK_EQ(holder.granted_bytes, 4096 + 8192);
    CHECK(holder.age_ns > 0);
    borrower.release(message);
    CHECK(holders().empty());
    lend(link.here, {one});
    CHECK_EQ(holders()[0].granted, 3);
    CHECK_EQ(holders()[0].leases, 1);
    size_t total = 99;
    CHECK_OK(tenon_lease_holders(nullptr, 0, &total, err));
    CHECK_EQ(total, 1);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_holders(nullptr, 1, &total, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_holders(nullptr, 0, nullptr, err));
    tenon_lease_holder small{};
    small.struct_size = 0;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_holders(&small, 1, &total, err));
    tenon_storage_release(one);
    tenon_storage_release(other);
    borrower.kill();
    CHECK_COMES_BACK(arena, kMiB);
  });
}

}  // namespace
}  // namespace leases
