// Every allocation fails in turn. Each call returns RESOURCE_EXHAUSTED or works without the
// allocation. It leaves its output alone, loses and leaks nothing, and works afterwards.
#include <dlpack/dlpack.h>

#include "process/fault/failing_malloc.h"
#include "support/sized.h"

#if !TENON_TEST_SANITIZED
namespace fault {
namespace {

TEST(Malloc, NewStorages) {
  run_without_leaks([] {
    const std::vector<unsigned char> bytes = pattern(100000, 2);
    for (const tenon_mode mode : kModes) {
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{TENON_STORAGE_PRIVATE},
            uint32_t{TENON_STORAGE_ZEROED}}) {
        const tenon_storage_options options = storage_options(mode, flags);
        for (const uint64_t nbytes : {uint64_t{0}, uint64_t{100}, uint64_t{100000}}) {
          const tenon_stats before = stats();
          AT_EVERY_ALLOCATION(tenon_storage, tenon_storage_release, storage,
                              tenon_storage_new(&options, nbytes, &storage, err));
          AT_EVERY_ALLOCATION(
              tenon_storage, tenon_storage_release, storage,
              tenon_storage_new_from(&options, bytes.data(), nbytes, &storage, err));
          CHECK_EQ(stats().bytes_live, before.bytes_live);
          CHECK_EQ(stats().storages, before.storages);
          tenon_storage_trim();
        }
      }
    }
  });
}

TEST(Malloc, FreedBlocksWithoutMemoryToRememberThem) {
  run_without_leaks([] {
    for (long allowed = 0; allowed < 6; ++allowed) {
      std::vector<tenon_storage*> storages;
      for (uint64_t i = 0; i < 50; ++i) storages.push_back(new_storage(100 * (i + 1), i));
      t_allowed = allowed;
      for (size_t i = 0; i < storages.size(); i += 2) tenon_storage_release(storages[i]);
      t_allowed = -1;
      for (size_t i = 1; i < storages.size(); i += 2)
        CHECK(has_pattern(tenon_storage_data(storages[i]), 100 * (i + 1), i));
      for (size_t i = 0; i < storages.size(); i += 2)
        storages[i] = new_storage(100 * (i + 1), i + 1000);
      for (size_t i = 1; i < storages.size(); i += 2)
        CHECK(has_pattern(tenon_storage_data(storages[i]), 100 * (i + 1), i));
      for (tenon_storage* each : storages) tenon_storage_release(each);
      t_allowed = 0;
      tenon_storage_trim();
      t_allowed = -1;
    }
  });
}

TEST(Malloc, WrapAndFreezeAndWriteAndWeak) {
  run_without_leaks([] {
    static int released = 0;
    char memory[64] = {};
    released = 0;
    int made = 0;
    tenon_storage* wrapped = nullptr;
    fail_at_every_allocation(
        "wrap",
        [&](tenon_error** err) {
          return tenon_storage_wrap(
              memory, sizeof memory, [](void*) { ++released; }, nullptr, nullptr, &wrapped, err);
        },
        [&](bool good, const std::string& where) {
          CHECK_SAYING(released == made, where);
          if (!good) return;
          tenon_storage_release(wrapped);
          CHECK_SAYING(released == ++made, where);
        });
    for (const tenon_mode mode : kModes) {
      const tenon_storage_options options = storage_options(mode, 0);
      tenon_storage* storage = nullptr;
      REQUIRE_OK(tenon_storage_new(&options, 5000, &storage, err));
      char back[6] = {};
      const auto nothing = [](bool, const std::string&) {};
      fail_at_every_allocation(
          "write",
          [&](tenon_error** err) { return tenon_storage_write(storage, 7, "hello", 5, err); },
          nothing);
      fail_at_every_allocation(
          "read", [&](tenon_error** err) { return tenon_storage_read(storage, 7, back, 5, err); },
          nothing);
      CHECK_EQ(std::memcmp(back, "hello", 5), 0);
      if (mode == TENON_MODE_FROZEN)
        fail_at_every_allocation(
            "freeze", [&](tenon_error** err) { return tenon_storage_freeze(storage, err); },
            nothing);
      AT_EVERY_ALLOCATION(tenon_weak, tenon_weak_release, weak,
                          tenon_weak_ref(storage, &weak, err));
      tenon_weak* weak = nullptr;
      REQUIRE_OK(tenon_weak_ref(storage, &weak, err));
      t_allowed = 0;
      tenon_storage* locked = tenon_weak_lock(weak);
      const int expired = tenon_weak_expired(weak);
      tenon_storage_release(locked);
      auto figures = tenon::test::sized<tenon_stats>();
      const tenon_status got = tenon_stats_get(&figures, nullptr);
      t_allowed = -1;
      CHECK(locked == storage && expired == 0 && got == TENON_OK);
      tenon_weak_release(weak);
      tenon_storage_release(storage);
    }
    AT_EVERY_ALLOCATION(tenon_cancel, tenon_cancel_release, cancel, tenon_cancel_new(&cancel, err));
  });
}

TEST(Malloc, ErrorsThemselves) {
  run_without_leaks([] {
    // The error of a wrong call can be read even if there is no memory for it.
    for (long allowed = 0; allowed < 12; ++allowed) {
      tenon_error* error = nullptr;
      tenon_storage* storage = nullptr;
      tenon_storage_options options = storage_options(99, 0);
      t_allowed = allowed;
      const tenon_status status = tenon_storage_new(&options, 5, &storage, &error);
      t_allowed = -1;
      CHECK(status == TENON_INVALID_ARGUMENT || status == TENON_RESOURCE_EXHAUSTED);
      const Outcome outcome = read_error(status, error);
      CHECK(storage == nullptr && !outcome.message.empty());
      t_allowed = allowed;
      const tenon_status without = tenon_storage_new(&options, 5, &storage, nullptr);
      t_allowed = -1;
      CHECK(without == TENON_INVALID_ARGUMENT || without == TENON_RESOURCE_EXHAUSTED);
    }
  });
}

TEST(Malloc, ShareAndOpen) {
  run_without_leaks([] {
    for (const tenon_mode mode : kModes) {
      for (const uint32_t flags : {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}}) {
        tenon_storage* storage = new_storage(5000, 3, mode, flags);
        tenon_fd_handle handle{};
        fail_at_every_allocation(
            "tenon_share_fd",
            [&](tenon_error** err) {
              handle = handle_over(-1, 0);
              const tenon_status status = tenon_share_fd(storage, nullptr, &handle, err);
              tenon_fd_handle_close(&handle);
              return status;
            },
            [&](bool good, const std::string& where) {
              CHECK_SAYING(good || handle.nbytes == 0, where);
            });
        handle = handle_over(-1, 0);
        REQUIRE_OK(tenon_share_fd(storage, nullptr, &handle, err));
        // This process knows the memory, so it is the same storage.
        AT_EVERY_ALLOCATION(tenon_storage, tenon_storage_release, opened,
                            tenon_open_fd(&handle, nullptr, &opened, err));
        tenon_fd_handle_close(&handle);
        tenon_storage_release(storage);
      }
    }
    const int fd = foreign_memfd(20000);
    const tenon_fd_handle handle = handle_over(fd, 10000, 4096);
    for (const uint32_t flags : std::initializer_list<uint32_t>{0, 1, 2, 8}) {
      const tenon_open_options options = open_options(flags);
      AT_EVERY_ALLOCATION(tenon_storage, tenon_storage_release, opened,
                          tenon_open_fd(&handle, &options, &opened, err));
    }
    // Only a successful call adopts the fd.
    const tenon_open_options adopt = open_options(TENON_OPEN_ADOPT_FD);
    tenon_storage* opened = nullptr;
    tenon_fd_handle adopted = handle;
    adopted.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    fail_at_every_allocation(
        "tenon_open_fd adopting",
        [&](tenon_error** err) { return tenon_open_fd(&adopted, &adopt, &opened, err); },
        [&](bool good, const std::string& where) {
          if (!good) {
            CHECK_SAYING(fcntl(adopted.fd, F_GETFD) >= 0, where);
            return;
          }
          tenon_storage_release(opened);
          CHECK_SAYING(fcntl(adopted.fd, F_GETFD) < 0, where);
          adopted.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        });
    close(adopted.fd);
    close(fd);
  });
}

TEST(Malloc, TensorsAndDlpack) {
  run_without_leaks([] {
    tenon_storage* storage = new_storage(4096, 4);
    const std::vector<int64_t> ones(40, 1);
    for (const int ndim : {0, 2, 40}) {
      tenon_tensor_spec spec = bytes_spec(ones.data());
      spec.ndim = ndim;
      AT_EVERY_ALLOCATION(tenon_tensor, tenon_tensor_release, tensor,
                          tenon_tensor_new(storage, &spec, &tensor, err));
    }
    tenon_tensor* tensor = new_tensor(storage);
    const auto give_back = [](auto* managed) { managed->deleter(managed); };
    AT_EVERY_ALLOCATION(DLManagedTensorVersioned, give_back, managed,
                        tenon_tensor_to_dlpack(tensor, &managed, err));
    AT_EVERY_ALLOCATION(DLManagedTensor, give_back, managed,
                        tenon_tensor_to_dlpack_legacy(tensor, &managed, err));

    static int deleted = 0;
    static int64_t shape[2] = {4, 8};
    static float data[32] = {};
    const DLTensor plain = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    const auto take = [&](auto* managed, auto function) {
      deleted = 0;
      int made = 0;
      tenon_tensor* taken = nullptr;
      fail_at_every_allocation(
          "from_dlpack", [&](tenon_error** err) { return function(managed, &taken, err); },
          [&](bool good, const std::string& where) {
            CHECK_SAYING(deleted == made, where + ": the deleter was called " +
                                              std::to_string(deleted - made) + " times");
            made = deleted;
            if (!good) return;
            tenon_tensor_release(taken);
            CHECK_SAYING(deleted == ++made, where);
          });
    };
    DLManagedTensor legacy = {plain, nullptr, [](DLManagedTensor*) { ++deleted; }};
    DLManagedTensorVersioned versioned = {
        {1, 0}, nullptr, [](DLManagedTensorVersioned*) { ++deleted; }, 0, plain};
    take(&legacy, &tenon_tensor_from_dlpack_legacy);
    take(&versioned, &tenon_tensor_from_dlpack);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  });
}

TEST(Malloc, MessagesAndDescriptors) {
  run_without_leaks([] {
    AT_EVERY_ALLOCATION(tenon_message, tenon_message_release, empty,
                        tenon_message_new(&empty, err));
    tenon_storage* storage = new_storage(4096, 5);
    tenon_storage* other = new_storage(4096, 6, TENON_MODE_FROZEN);
    tenon_message* message = new_message({});
    const std::vector<tenon_tensor*> tensors = {new_tensor(storage), new_tensor(other),
                                                new_tensor(storage)};
    const char* const names[] = {"a name that is too long to be kept in the string itself", "b",
                                 nullptr};
    size_t count = 0;
    fail_at_every_allocation(
        "tenon_message_add",
        [&](tenon_error** err) {
          return tenon_message_add(message, tensors.data(), names, 3, nullptr, err);
        },
        [&](bool good, const std::string& where) {
          count += good ? 3 : 0;
          CHECK_SAYING(tenon_message_count(message) == count, where);
        });
    std::vector<unsigned char> user = pattern(100, 7);
    REQUIRE_OK(tenon_message_set_user_bytes(message, "before", 6, err));
    fail_at_every_allocation(
        "tenon_message_set_user_bytes",
        [&](tenon_error** err) {
          return tenon_message_set_user_bytes(message, user.data(), user.size(), err);
        },
        [&](bool good, const std::string& where) {
          size_t nbytes = 0;
          const void* bytes = tenon_message_user_bytes(message, &nbytes);
          CHECK_SAYING(good ? nbytes == 100 && has_pattern(bytes, 100, 7)
                            : nbytes == 6 && std::memcmp(bytes, "before", 6) == 0,
                       where);
        });
    for (long allowed = 0; allowed < 6; ++allowed) {
      t_allowed = allowed;
      (void)tenon_message_find(message, "b");
      t_allowed = -1;
    }
    CHECK(tenon_message_find(message, "b") == tensors[1]);
    CHECK(tenon_message_find(message, names[0]) == tensors[0]);
    for (const uint32_t flags : {uint32_t{0}, uint32_t{TENON_DESCRIPTOR_BYTES_ONLY}}) {
      auto options = tenon::test::sized<tenon_descriptor_options>();
      options.flags = flags;
      AT_EVERY_ALLOCATION(tenon_descriptor, tenon_descriptor_release, descriptor,
                          tenon_descriptor_new(message, &options, &descriptor, err));
      tenon_descriptor* descriptor = nullptr;
      REQUIRE_OK(tenon_descriptor_new(message, &options, &descriptor, err));
      size_t nbytes = 0;
      size_t n_fds = 0;
      const void* bytes = tenon_descriptor_bytes(descriptor, &nbytes);
      const int32_t* fds = tenon_descriptor_fds(descriptor, &n_fds);
      for (const uint32_t how : std::initializer_list<uint32_t>{0, 1, 2}) {
        const tenon_open_options open = open_options(how);
        AT_EVERY_ALLOCATION(tenon_message, tenon_message_release, opened,
                            tenon_descriptor_open(bytes, nbytes, fds, n_fds, &open, &opened, err));
      }
      tenon_descriptor_release(descriptor);
    }
    for (tenon_tensor* each : tensors) tenon_tensor_release(each);
    tenon_message_release(message);
    tenon_storage_release(storage);
    tenon_storage_release(other);
  });
}

// Sends a message with failing memory until it is sent, and receives it in the same way. Every
// message arrives once and complete.
void through_a_connection(int type) {
  const tenon_wait now = wait_ns(0);
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  AT_EVERY_ALLOCATION(tenon_connection, tenon_connection_release, connection,
                      tenon_connection_new(ends[0], nullptr, &connection, err));
  tenon_connection* left = new_connection(ends[0]);
  tenon_connection* right = new_connection(ends[1]);
  uint64_t seed = 0;
  // Each round fails one allocation later, so each failure comes with a new message and new
  // segments.
  const auto round = [&](long allow_send, long allow_recv, bool large) {
    ++seed;
    tenon_storage* storage = new_storage(3000, seed, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    tenon_message* message = new_message(
        {tenon_storage_retain(storage), new_storage(3000, seed + 1, TENON_MODE_FROZEN)});
    // The message is longer than a packet, so it travels in a memfd.
    const std::vector<unsigned char> user =
        pattern(large ? TENON_MESSAGE_MAX_USER_NBYTES : 0, seed);
    REQUIRE_OK(tenon_message_set_user_bytes(message, user.data(), user.size(), err));
    const size_t count = tenon_message_count(message);
    bool refused = false;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::string where = "message " + std::to_string(seed) + " of " + std::to_string(count) +
                                ", time " + std::to_string(repeat) + ", sent with " +
                                std::to_string(allow_send) + " allocations and received with " +
                                std::to_string(allow_recv);
      tenon_error* error = nullptr;
      t_refused = false;
      t_allowed = allow_send;
      tenon_status status = tenon_send(left, message, &now, &error);
      t_allowed = -1;
      refused |= t_refused;
      Outcome outcome = read_error(status, error);
      if (!outcome.ok()) {
        CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED, where + ": " + outcome.text());
        outcome = CALL(tenon_send(left, message, &now, err));
        if (!CHECK_SAYING(outcome.ok(), where + ": sent again: " + outcome.text())) _exit(1);
      }
      tenon_message* got = nullptr;
      error = nullptr;
      t_refused = false;
      t_allowed = allow_recv;
      status = tenon_recv(right, &now, &got, &error);
      t_allowed = -1;
      refused |= t_refused;
      outcome = read_error(status, error);
      if (!outcome.ok()) {
        CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED && got == nullptr,
                     where + ": received: " + outcome.text());
        outcome = CALL(tenon_recv(right, &now, &got, err));
        if (!CHECK_SAYING(outcome.ok(), where + ": received again: " + outcome.text())) continue;
      }
      size_t user_nbytes = 0;
      const void* got_user = tenon_message_user_bytes(got, &user_nbytes);
      CHECK_SAYING(user_nbytes == user.size() && has_pattern(got_user, user_nbytes, seed), where);
      CHECK_SAYING(tenon_message_count(got) == count &&
                       has_pattern(tenon_tensor_data(tenon_message_tensor(got, 0)), 3000, seed),
                   where);
      tenon_message_release(got);
      got = nullptr;
      CHECK_SAYING(CALL(tenon_recv(right, &now, &got, err)).status == TENON_WOULD_BLOCK,
                   where + ": came twice");
    }
    tenon_message_release(message);
    tenon_storage_release(storage);
    return refused;
  };
  for (const bool large : {false, true}) {
    for (long allowed = 0; round(allowed, -1, large); ++allowed) REQUIRE(allowed < 1000);
    for (long allowed = 0; round(-1, allowed, large); ++allowed) REQUIRE(allowed < 5000);
  }
  // Whatever failed, the sender reports which of its segments have ended, so the receiver holds
  // none for ever.
  for (int i = 0; i < 300; ++i) round(-1, -1, false);
  const tenon_stats figures = stats();
  CHECK_SAYING(figures.segments < 20,
               std::to_string(figures.segments) + " segments are still held");
  tenon_connection_release(left);
  tenon_connection_release(right);
}

TEST(Malloc, ConnectionsOnAStream) {
  run_without_leaks([] { through_a_connection(SOCK_STREAM); });
}
TEST(Malloc, ConnectionsOnSeqpacket) {
  run_without_leaks([] { through_a_connection(SOCK_SEQPACKET); });
}

}  // namespace
}  // namespace fault

#else
TEST(Malloc, Injection) { GTEST_SKIP() << "skipped: the sanitizer stands in for malloc itself"; }
#endif
