// These tests run the library while the process has as many mappings as vm.max_map_count allows.
// Each call fails with an error that names the limit, or works without a mapping.
#include <thread>

#include "process/fault/kit.h"

namespace fault {
namespace {

constexpr const char* kMapCountLimit = "vm.max_map_count";

// Takes all mappings that this process may still have, except `room`.
class Filled {
 public:
  explicit Filled(size_t room) {
    pages_.reserve(70000);
    for (;;) {
      // Two protections alternate, so that the kernel cannot merge neighbours.
      void* page = mmap(nullptr, 4096, pages_.size() % 2 == 0 ? PROT_NONE : PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (page == MAP_FAILED) break;
      pages_.push_back(page);
      REQUIRE(pages_.size() < 300000);
    }
    for (size_t i = 0; i < room; ++i) {
      munmap(pages_.back(), 4096);
      pages_.pop_back();
    }
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;
  ~Filled() {
    for (void* page : pages_) munmap(page, 4096);
  }

 private:
  std::vector<void*> pages_;
};

void require_a_limit_that_can_be_met() {
  std::ifstream file("/proc/sys/vm/max_map_count");
  long most = 0;
  file >> most;
  if (most <= 0 || most > 200000)
    skip("vm.max_map_count is " + std::to_string(most) + ", which is too many to fill here");
}

TEST(MapCount, IsATypedErrorAndThenAllWorksAgain) {
  SKIP_UNDER_SANITIZERS("its own allocator meets the limit first");
  IN_CHILD([] {
    require_a_limit_that_can_be_met();
    const Held before = hold();
    const int foreign = foreign_memfd(8192);
    const tenon_fd_handle handle = handle_over(foreign, 8192);
    tenon_storage* known = new_storage(4096, 3);
    tenon_fd_handle lent = handle_over(-1, 0);
    REQUIRE_OK(tenon_share_fd(known, nullptr, &lent, err));
    const std::vector<unsigned char> bytes = pattern(100000, 4);
    tenon_storage* storage = nullptr;
    const auto at_the_limit = [&] {
      for (const tenon_mode mode : kModes) {
        const tenon_storage_options options = storage_options(mode, TENON_STORAGE_ISOLATED);
        CHECK_LIMIT(kMapCountLimit, tenon_storage_new(&options, 4096, &storage, err));
        CHECK_LIMIT(kMapCountLimit,
                    tenon_storage_new_from(&options, bytes.data(), bytes.size(), &storage, err));
      }
      const tenon_storage_options private_ones =
          storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
      CHECK_LIMIT(kMapCountLimit, tenon_storage_new(&private_ones, 100000, &storage, err));
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_OPEN_PRIVATE_COW}, uint32_t{TENON_OPEN_PRIVATE_COPY}}) {
        const tenon_open_options options = open_options(flags);
        CHECK_LIMIT(kMapCountLimit, tenon_open_fd(&handle, &options, &storage, err));
      }
      CHECK(storage == nullptr);
      // Calls that need no mapping still work.
      tenon_storage* small = nullptr;
      CHECK_OK(tenon_storage_new(nullptr, 1000, &small, err));
      tenon_storage_release(small);
      CHECK_OK(tenon_open_fd(&lent, nullptr, &small, err));
      CHECK(small == known);
      tenon_storage_release(small);
    };
    const long fds = count_open_fds();
    const tenon_stats figures = stats();
    {
      const Filled filled(0);
      at_the_limit();
      CHECK_EQ(count_open_fds(), fds);
    }
    CHECK_EQ(stats().segments, figures.segments);
    for (const tenon_mode mode : kModes) {
      const tenon_storage_options options = storage_options(mode, TENON_STORAGE_ISOLATED);
      CHECK_OK(tenon_storage_new(&options, 4096, &storage, err));
      tenon_storage_release(storage);
    }
    CHECK_OK(tenon_open_fd(&handle, nullptr, &storage, err));
    tenon_storage_release(storage);
    tenon_fd_handle_close(&lent);
    tenon_storage_release(known);
    close(foreign);
    CHECK_HELD(before);
  });
}

// A segment that the library keeps for later still has a mapping. At the limit the library gives
// such segments back before a call fails.
TEST(MapCount, WhatIsKeptForLaterIsGivenBackFirst) {
  SKIP_UNDER_SANITIZERS("its own allocator meets the limit first");
  IN_CHILD([] {
    require_a_limit_that_can_be_met();
    const Held before = hold();
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES})
      tenon_storage_release(new_storage(kMiB, 1, mode));
    CHECK_EQ(stats().segments, before.figures.segments + 2);
    const tenon_storage_options isolated =
        storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    tenon_storage* storage = nullptr;
    std::vector<tenon_storage*> storages;
    {
      const Filled filled(0);
      Outcome made;
      while ((made = CALL(tenon_storage_new(&isolated, 4096, &storage, err))).ok())
        storages.push_back(storage);
      CHECK_SAYING(made.status == TENON_RESOURCE_EXHAUSTED &&
                       made.detail("limit") == kMapCountLimit && made.detail("kept") == "0",
                   made.text());
      CHECK_SAYING(made.message.find("put small ones into one arena") != std::string::npos,
                   made.text());
    }
    CHECK_EQ(storages.size(), 2);
    for (tenon_storage* each : storages) tenon_storage_release(each);
    CHECK_HELD(before);
  });
}

// malloc in a thread cannot fall back to the end of the heap. So an error that needs much memory
// could not be made.
TEST(MapCount, IsATypedErrorInAThreadToo) {
  SKIP_UNDER_SANITIZERS("its own allocator meets the limit first");
  IN_CHILD([] {
    require_a_limit_that_can_be_met();
    const int foreign = foreign_memfd(8192);
    const tenon_fd_handle handle = handle_over(foreign, 8192);
    std::thread([&] {
      free(malloc(1000));
      tenon_storage* storage = nullptr;
      const tenon_storage_options isolated =
          storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
      const Filled filled(0);
      CHECK_LIMIT(kMapCountLimit, tenon_storage_new(&isolated, 4096, &storage, err));
      CHECK_LIMIT(kMapCountLimit, tenon_open_fd(&handle, nullptr, &storage, err));
    }).join();
    close(foreign);
  });
}

TEST(MapCount, AtTheReceiver) {
  SKIP_UNDER_SANITIZERS("its own allocator meets the limit first");
  IN_CHILD([] {
    require_a_limit_that_can_be_met();
    for (const int type : kSocketTypes) {
      int ends[2];
      REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
      const pid_t lender = spawn([&] {
        close(ends[0]);
        tenon_connection* connection = new_connection(ends[1]);
        tenon_message* empty = new_message({});
        REQUIRE_OK(tenon_send(connection, empty, nullptr, err));
        tenon_message_release(empty);
        tenon_storage* first = new_storage(5000, 11, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
        tenon_storage* second = new_storage(5000, 12, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
        for (int i = 0; i < 3; ++i) {
          tenon_message* message =
              new_message({tenon_storage_retain(first), tenon_storage_retain(second)});
          REQUIRE_OK(tenon_send(connection, message, nullptr, err));
          tenon_message_release(message);
        }
        tenon_message* none = nullptr;
        CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &none, err));
        tenon_storage_release(first);
        tenon_storage_release(second);
        tenon_connection_release(connection);
      });
      close(ends[1]);
      const Held before = hold();
      tenon_connection* connection = new_connection(ends[0]);
      tenon_message* message = nullptr;
      // The connection has its buffer from here on.
      REQUIRE_OK(tenon_recv(connection, nullptr, &message, err));
      tenon_message_release(message);
      message = nullptr;
      {
        const Filled filled(0);
        CHECK_LIMIT(kMapCountLimit, tenon_recv(connection, nullptr, &message, err));
      }
      {
        const Filled filled(1);
        CHECK_LIMIT(kMapCountLimit, tenon_recv(connection, nullptr, &message, err));
      }
      REQUIRE_OK(tenon_recv(connection, nullptr, &message, err));
      CHECK_EQ(tenon_message_count(message), 2);
      CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(message, 0)), 5000, 11));
      CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(message, 1)), 5000, 12));
      tenon_message_release(message);
      tenon_connection_release(connection);
      CHECK_HELD([&] {
        Held now = before;
        now.fds -= 1;  // the socket, which the connection adopted
        return now;
      }());
      CHECK_EQ(wait_for_child(lender), 0);
    }
  });
}

}  // namespace
}  // namespace fault
