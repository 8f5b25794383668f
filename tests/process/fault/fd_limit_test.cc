// These tests run the library at the three limits of fds: the fds of this process, the fds in
// flight in sockets, and the fds of the receiving process.
#include "process/fault/kit.h"
#include "support/sized.h"

namespace fault {
namespace {

constexpr const char* kFdLimit = "RLIMIT_NOFILE";

#define CHECK_NO_FD(out, expression)                                                 \
  do {                                                                               \
    const auto fault_before = (out);                                                 \
    const Outcome fault_outcome = CHECK_LIMIT(kFdLimit, expression);                 \
    CHECK_SAYING(fault_outcome.detail("limit_value") == std::to_string(limit_value), \
                 #expression ": " + fault_outcome.text());                           \
    CHECK_SAYING(fault_before == (out), "output touched: " #expression);             \
    CHECK_EQ(count_open_fds(), fds);                                                 \
  } while (false)

TEST(FdLimit, OwnIsATypedErrorAndThenAllWorksAgain) {
  IN_CHILD([] {
    const Held before = hold();
    tenon_storage* arena = new_storage(5000, 2);
    tenon_storage* lender_writes = new_storage(5000, 3, TENON_MODE_LENDER_WRITES);
    tenon_storage* unfrozen = nullptr;
    const tenon_storage_options frozen = storage_options(TENON_MODE_FROZEN, 0);
    REQUIRE_OK(tenon_storage_new(&frozen, 5000, &unfrozen, err));
    tenon_message* message = new_message({tenon_storage_retain(arena)});
    tenon_message* lent =
        new_message({new_storage(5000, 4, TENON_MODE_LENDER_WRITES, TENON_STORAGE_ISOLATED)});
    tenon_message* large = new_large_message(arena, 10000);
    const int foreign = foreign_memfd(8192);
    const tenon_fd_handle handle = handle_over(foreign, 8192);
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    tenon_connection* left = new_connection(ends[0]);
    tenon_connection* right = new_connection(ends[1]);
    const tenon_wait now = wait_ns(0);
    const std::vector<unsigned char> bytes = pattern(100000, 9);
    tenon_storage* storage = nullptr;
    auto out = tenon::test::sized<tenon_fd_handle>();
    out.fd = -7;
    tenon_cancel* cancel = nullptr;
    tenon_descriptor* descriptor = nullptr;
    auto bytes_only = tenon::test::sized<tenon_descriptor_options>();
    bytes_only.flags = TENON_DESCRIPTOR_BYTES_ONLY;
    const auto try_all = [&](long fds, rlim_t limit_value, bool open) {
      for (const tenon_mode mode : kModes) {
        const tenon_storage_options options = storage_options(mode, TENON_STORAGE_ISOLATED);
        if (open) {
          CHECK_OK(tenon_storage_new(&options, 4096, &storage, err));
          tenon_storage_release(storage);
          CHECK_OK(tenon_storage_new_from(&options, bytes.data(), bytes.size(), &storage, err));
          tenon_storage_release(storage);
          storage = nullptr;
        } else {
          CHECK_NO_FD(storage, tenon_storage_new(&options, 4096, &storage, err));
          CHECK_NO_FD(storage,
                      tenon_storage_new_from(&options, bytes.data(), bytes.size(), &storage, err));
        }
      }
      if (open) {
        for (tenon_storage* each : {arena, lender_writes}) {
          CHECK_OK(tenon_share_fd(each, nullptr, &out, err));
          tenon_fd_handle_close(&out);
        }
        CHECK_OK(tenon_open_fd(&handle, nullptr, &storage, err));
        tenon_storage_release(storage);
        storage = nullptr;
        CHECK_OK(tenon_cancel_new(&cancel, err));
        tenon_cancel_release(cancel);
        cancel = nullptr;
        CHECK_OK(tenon_descriptor_new(message, nullptr, &descriptor, err));
        tenon_descriptor_release(descriptor);
        CHECK_OK(tenon_descriptor_new(message, &bytes_only, &descriptor, err));
        tenon_descriptor_release(descriptor);
        descriptor = nullptr;
      } else {
        CHECK_NO_FD(out.fd, tenon_share_fd(arena, nullptr, &out, err));
        CHECK_NO_FD(out.fd, tenon_share_fd(lender_writes, nullptr, &out, err));
        CHECK_NO_FD(storage, tenon_open_fd(&handle, nullptr, &storage, err));
        CHECK_NO_FD(cancel, tenon_cancel_new(&cancel, err));
        CHECK_NO_FD(descriptor, tenon_descriptor_new(message, nullptr, &descriptor, err));
        CHECK_NO_FD(descriptor, tenon_descriptor_new(message, &bytes_only, &descriptor, err));
        CHECK_NO_FD(descriptor, tenon_descriptor_new(lent, &bytes_only, &descriptor, err));
        CHECK_NO_FD(0, tenon_send(left, large, &now, err));
        CHECK_NO_FD(0, tenon_send(left, lent, &now, err));
      }
    };
    for (int round = 0; round < 2; ++round) {
      {
        const rlim_t value = fd_limit_with_room(0);
        const Limit limit(RLIMIT_NOFILE, value);
        try_all(count_open_fds(), value, false);
        // Calls that need no fd still work.
        tenon_storage* small = nullptr;
        CHECK_OK(tenon_storage_new(nullptr, 100, &small, err));
        tenon_storage_release(small);
        const tenon_open_options copy = open_options(TENON_OPEN_PRIVATE_COPY);
        // A copy needs no fd, but the check for enough memory does.
        const Outcome copied = CALL(tenon_open_fd(&handle, &copy, &small, err));
        CHECK_SAYING(copied.ok() || copied.detail("limit") == kFdLimit, copied.text());
        if (copied.ok()) tenon_storage_release(small);
        CHECK_OK(tenon_storage_freeze(unfrozen, err));
      }
      try_all(count_open_fds(), 0, true);
    }
    // The messages that were refused at the limit are sent now, once each.
    for (tenon_message* each : {large, lent, message}) CHECK_OK(tenon_send(left, each, &now, err));
    for (const size_t count : {size_t{10000}, size_t{1}, size_t{1}}) {
      tenon_message* got = nullptr;
      REQUIRE_OK(tenon_recv(right, &now, &got, err));
      CHECK_EQ(tenon_message_count(got), count);
      tenon_message_release(got);
    }
    CHECK_STATUS(TENON_WOULD_BLOCK, tenon_recv(right, &now, &large, err));
    for (tenon_message* each : {message, lent, large}) tenon_message_release(each);
    for (tenon_storage* each : {arena, lender_writes, unfrozen}) tenon_storage_release(each);
    tenon_connection_release(left);
    tenon_connection_release(right);
    close(foreign);
    CHECK_HELD(before);
  });
}

// A segment that the library keeps for later still has its fds. At the limit the library gives such
// segments back before a call fails.
TEST(FdLimit, WhatIsKeptForLaterIsGivenBackFirst) {
  IN_CHILD([] {
    const Held before = hold();
    for (const uint32_t flags : {uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{0}}) {
      for (const tenon_mode mode : kModes) {
        if (mode != TENON_MODE_FROZEN) tenon_storage_release(new_storage(kMiB, 1, mode));
      }
      CHECK_EQ(stats().segments, before.figures.segments + 2);
      tenon_storage* storage = nullptr;
      const tenon_storage_options options = storage_options(TENON_MODE_SHARED, flags);
      {
        const Limit limit(RLIMIT_NOFILE, fd_limit_with_room(0));
        CHECK_OK(tenon_storage_new(&options, 16 * kMiB, &storage, err));
        // Now there is nothing left to give back.
        tenon_storage* other = nullptr;
        const Outcome refused =
            CHECK_LIMIT(kFdLimit, tenon_storage_new(&options, 256 * kMiB, &other, err));
        CHECK_SAYING(refused.message.find(kFdLimit) != std::string::npos &&
                         refused.message.find("raise the limit") != std::string::npos,
                     refused.text());
      }
      tenon_storage_release(storage);
    }
    CHECK_HELD(before);
  });
}

// At the limit /proc cannot be read. The library must not remember what it learned about the
// machine then.
TEST(FdLimit, NothingWrongIsRemembered) {
  IN_CHILD([] {
    const auto ends = fault::socket_ends();
    const pid_t opener = spawn([&] {
      char bytes[4096];
      const ssize_t nbytes = recv(ends[1], bytes, sizeof bytes, 0);
      REQUIRE(nbytes > 0);
      tenon_message* got = nullptr;
      CHECK_OK(tenon_descriptor_open(bytes, static_cast<size_t>(nbytes), nullptr, 0, nullptr, &got,
                                     err));
      tenon_message_release(got);
    });
    tenon_message* message = new_message({});
    tenon_descriptor* descriptor = nullptr;
    {
      const Limit limit(RLIMIT_NOFILE, fd_limit_with_room(0));
      const Outcome outcome = CALL(tenon_descriptor_new(message, nullptr, &descriptor, err));
      if (outcome.ok()) tenon_descriptor_release(descriptor);
    }
    tenon_message_release(message);
    message = new_message({new_storage(4096, 5)});
    auto options = tenon::test::sized<tenon_descriptor_options>();
    options.flags = TENON_DESCRIPTOR_BYTES_ONLY;
    REQUIRE_OK(tenon_descriptor_new(message, &options, &descriptor, err));
    size_t nbytes = 0;
    const void* bytes = tenon_descriptor_bytes(descriptor, &nbytes);
    REQUIRE(send(ends[0], bytes, nbytes, 0) == static_cast<ssize_t>(nbytes));
    CHECK_EQ(wait_for_child(opener), 0);
    tenon_descriptor_release(descriptor);
    tenon_message_release(message);
  });
}

TEST(FdLimit, BytesOnlyOpenAtTheLimit) {
  IN_CHILD([] {
    const auto ends = fault::socket_ends();
    const pid_t lender = spawn([&] {
      close(ends[0]);
      tenon_message* message =
          new_message({new_storage(4096, 6, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED)});
      auto options = tenon::test::sized<tenon_descriptor_options>();
      options.flags = TENON_DESCRIPTOR_BYTES_ONLY;
      tenon_descriptor* descriptor = nullptr;
      REQUIRE_OK(tenon_descriptor_new(message, &options, &descriptor, err));
      size_t nbytes = 0;
      const void* bytes = tenon_descriptor_bytes(descriptor, &nbytes);
      REQUIRE(send(ends[1], bytes, nbytes, 0) == static_cast<ssize_t>(nbytes));
      char done = 0;
      REQUIRE(recv(ends[1], &done, 1, 0) == 1);
      tenon_descriptor_release(descriptor);
      tenon_message_release(message);
    });
    close(ends[1]);
    const Held before = hold();
    char bytes[4096];
    const ssize_t nbytes = recv(ends[0], bytes, sizeof bytes, 0);
    REQUIRE(nbytes > 0);
    tenon_message* message = nullptr;
    for (int room = 0; room < 3; ++room) {
      const rlim_t value = fd_limit_with_room(room);
      const Limit limit(RLIMIT_NOFILE, value);
      const Outcome outcome = CALL(tenon_descriptor_open(bytes, static_cast<size_t>(nbytes),
                                                         nullptr, 0, nullptr, &message, err));
      if (outcome.ok()) {
        CHECK_SAYING(room >= 2, "worked with room for " + std::to_string(room));
        tenon_message_release(message);
        message = nullptr;
        continue;
      }
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                       outcome.detail("limit") == kFdLimit &&
                       outcome.detail("limit_value") == std::to_string(value),
                   outcome.text());
    }
    REQUIRE_OK(tenon_descriptor_open(bytes, static_cast<size_t>(nbytes), nullptr, 0, nullptr,
                                     &message, err));
    CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(message, 0)), 4096, 6));
    tenon_message_release(message);
    CHECK_HELD(before);
    REQUIRE(send(ends[0], "!", 1, 0) == 1);
    CHECK_EQ(wait_for_child(lender), 0);
  });
}

void send_until_too_many_in_flight(int type) {
  leave_root();
  constexpr rlim_t kRoom = 300;
  constexpr int kPerMessage = 60;
  const Held before = hold();
  const Limit limit(RLIMIT_NOFILE, kRoom);
  {
    const Pair pair(type);
    const tenon_wait now = wait_ns(0);
    int sent = 0;
    int refused = 0;
    int received = 0;
    const auto receive_one = [&] {
      tenon_message* got = nullptr;
      REQUIRE_OK(tenon_recv(pair.right, &now, &got, err));
      CHECK_EQ(tenon_message_count(got), kPerMessage);
      const auto seed = static_cast<uint64_t>(received++);
      for (size_t i = 0; i < kPerMessage; ++i)
        CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(got, i)), 512, seed * 100 + i));
      tenon_message_release(got);
    };
    for (; sent < 14; ++sent) {
      std::vector<tenon_storage*> storages;
      for (int i = 0; i < kPerMessage; ++i)
        storages.push_back(new_storage(512, static_cast<uint64_t>(sent * 100 + i),
                                       TENON_MODE_SHARED, TENON_STORAGE_ISOLATED));
      tenon_message* message = new_message(storages);
      for (;;) {
        const Outcome outcome = CALL(tenon_send(pair.left, message, &now, err));
        if (outcome.ok()) break;
        ++refused;
        CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                         outcome.detail("limit") == kFdLimit &&
                         outcome.detail("limit_value") == "300" &&
                         outcome.detail("errno") == std::to_string(ETOOMANYREFS),
                     outcome.text());
        REQUIRE(received < sent);
        receive_one();
        // The waiting message is sent with the next message, or by a send without one.
        if (refused == 2) REQUIRE_OK(tenon_send(pair.left, nullptr, &now, err));
        if (refused == 2) break;
      }
      tenon_message_release(message);
    }
    CHECK(refused > 3);
    while (received < sent) receive_one();
    tenon_message* none = nullptr;
    CHECK_STATUS(TENON_WOULD_BLOCK, tenon_recv(pair.right, &now, &none, err));
  }
  CHECK_HELD(before);
}

TEST(FdLimit, InFlightOnAStream) {
  IN_CHILD([] { send_until_too_many_in_flight(SOCK_STREAM); });
}
TEST(FdLimit, InFlightOnSeqpacket) {
  IN_CHILD([] { send_until_too_many_in_flight(SOCK_SEQPACKET); });
}

void lose_fds_at_the_receiver(int type) {
  const Held before = hold();
  {
    const Pair pair(type);
    const tenon_wait now = wait_ns(0);
    std::vector<tenon_storage*> kept;
    for (uint64_t i = 0; i < 20; ++i)
      kept.push_back(new_storage(700, i, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED));
    const auto send_these = [&](std::vector<size_t> which) {
      std::vector<tenon_storage*> storages;
      for (const size_t i : which) storages.push_back(tenon_storage_retain(kept[i]));
      tenon_message* message = new_message(storages);
      REQUIRE_OK(tenon_send(pair.left, message, &now, err));
      tenon_message_release(message);
    };
    const auto receive_these = [&](std::vector<size_t> which) {
      tenon_message* got = nullptr;
      REQUIRE_OK(tenon_recv(pair.right, &now, &got, err));
      CHECK_EQ(tenon_message_count(got), which.size());
      for (size_t i = 0; i < which.size(); ++i)
        CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(got, i)), 700, which[i]));
      tenon_message_release(got);
    };
    tenon_message* got = nullptr;
    send_these({0, 1});
    receive_these({0, 1});
    send_these({2, 3, 4, 5, 6, 7});
    send_these({0});
    send_these({});
    send_these({7});
    send_these({1, 8});
    {
      const rlim_t value = fd_limit_with_room(2);
      const Limit limit(RLIMIT_NOFILE, value);
      const Outcome outcome = CHECK_LIMIT(kFdLimit, tenon_recv(pair.right, &now, &got, err));
      CHECK_SAYING(outcome.detail("limit_value") == std::to_string(value), outcome.text());
      CHECK(got == nullptr);
    }
    receive_these({0});
    receive_these({});
    CHECK_LIMIT(kFdLimit, tenon_recv(pair.right, &now, &got, err));
    receive_these({1, 8});
    CHECK_STATUS(TENON_WOULD_BLOCK, tenon_recv(pair.right, &now, &got, err));
    // The memfd of a large descriptor finds no free fd.
    tenon_message* large = new_large_message(kept[0], 10000);
    REQUIRE_OK(tenon_send(pair.left, large, &now, err));
    {
      const Limit limit(RLIMIT_NOFILE, fd_limit_with_room(0));
      CHECK_LIMIT(kFdLimit, tenon_recv(pair.right, &now, &got, err));
    }
    REQUIRE_OK(tenon_send(pair.left, large, &now, err));
    REQUIRE_OK(tenon_recv(pair.right, &now, &got, err));
    CHECK_EQ(tenon_message_count(got), 10000);
    tenon_message_release(got);
    tenon_message_release(large);
    for (tenon_storage* each : kept) tenon_storage_release(each);
  }
  CHECK_HELD(before);
}

TEST(FdLimit, AtTheReceiverOnAStream) {
  IN_CHILD([] { lose_fds_at_the_receiver(SOCK_STREAM); });
}
TEST(FdLimit, AtTheReceiverOnSeqpacket) {
  IN_CHILD([] { lose_fds_at_the_receiver(SOCK_SEQPACKET); });
}

}  // namespace
}  // namespace fault
