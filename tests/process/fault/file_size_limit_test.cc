// These tests set ulimit -f. At the limit the kernel sends SIGXFSZ, which kills by default. So
// Tenon must check the limit first.
#include <array>

#include "process/fault/kit.h"

namespace fault {
namespace {

constexpr const char* kFileSizeLimit = "RLIMIT_FSIZE";

void run_under(rlim_t limit_value) {
  const Held before = hold();
  const std::vector<unsigned char> bytes = pattern(limit_value + 8192, 5);
  {
    const Limit limit(RLIMIT_FSIZE, limit_value);
    tenon_storage* storage = nullptr;
    for (const tenon_mode mode : kModes) {
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{TENON_STORAGE_ZEROED}}) {
        const tenon_storage_options options = storage_options(mode, flags);
        for (const uint64_t over : {uint64_t{1}, uint64_t{4096}, uint64_t{8192}}) {
          CHECK_LIMIT(kFileSizeLimit,
                      tenon_storage_new(&options, limit_value + over, &storage, err));
          CHECK_LIMIT(kFileSizeLimit, tenon_storage_new_from(&options, bytes.data(),
                                                             limit_value + over, &storage, err));
        }
        CHECK(storage == nullptr);
        if (limit_value == 0) continue;
        for (const uint64_t nbytes :
             {uint64_t{1}, uint64_t{100}, uint64_t{5000}, uint64_t{limit_value / 16},
              uint64_t{limit_value / 2}, uint64_t{limit_value}}) {
          if (!CHECK_OK(tenon_storage_new_from(&options, bytes.data(), nbytes, &storage, err)))
            continue;
          CHECK(has_pattern(tenon_storage_data(storage), nbytes, 5));
          tenon_storage_release(storage);
          if (!CHECK_OK(tenon_storage_new(&options, nbytes, &storage, err))) continue;
          CHECK_OK(tenon_storage_write(storage, 0, bytes.data(), nbytes, err));
          tenon_storage_release(storage);
        }
        storage = nullptr;
      }
    }
    // Many small storages fill several segments of the limit's size.
    std::vector<tenon_storage*> many;
    for (uint64_t i = 0; limit_value > 0 && i < 300; ++i) {
      if (!CHECK_OK(tenon_storage_new_from(nullptr, bytes.data(), limit_value / 64, &storage, err)))
        break;
      many.push_back(storage);
    }
    for (tenon_storage* each : many)
      CHECK(has_pattern(tenon_storage_data(each), limit_value / 64, 5));
    for (tenon_storage* each : many) tenon_storage_release(each);
    // Private memory is no file, and an empty storage needs no memory.
    const tenon_storage_options in_private =
        storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    CHECK_OK(tenon_storage_new(&in_private, 20 * kMiB, &storage, err));
    tenon_storage_release(storage);
    CHECK_OK(tenon_storage_new(nullptr, 0, &storage, err));
    tenon_storage_release(storage);
  }
  CHECK_HELD(before);
}

TEST(FileSizeLimit, None) {
  IN_CHILD([] { run_under(0); });
}
TEST(FileSizeLimit, OneMiB) {
  IN_CHILD([] { run_under(kMiB); });
}
TEST(FileSizeLimit, TenMiB) {
  IN_CHILD([] { run_under(10 * kMiB); });
}

// The kernel also applies the limit to writes inside a file that is older than the limit.
TEST(FileSizeLimit, LoweredWhileFrozenOnesAreFilled) {
  IN_CHILD([] {
    const tenon_storage_options options = storage_options(TENON_MODE_FROZEN, 0);
    const std::vector<unsigned char> bytes = pattern(2 * kMiB, 6);
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_storage_new(&options, 2 * kMiB, &storage, err));
    {
      const Limit limit(RLIMIT_FSIZE, kMiB);
      CHECK_OK(tenon_storage_write(storage, 0, bytes.data(), kMiB, err));
      CHECK_LIMIT(kFileSizeLimit,
                  tenon_storage_write(storage, kMiB, bytes.data() + kMiB, kMiB, err));
      CHECK_LIMIT(kFileSizeLimit,
                  tenon_storage_write(storage, kMiB / 2, bytes.data() + kMiB / 2, kMiB, err));
    }
    CHECK_OK(tenon_storage_write(storage, kMiB, bytes.data() + kMiB, kMiB, err));
    CHECK_OK(tenon_storage_freeze(storage, err));
    CHECK(has_pattern(tenon_storage_data(storage), 2 * kMiB, 6));
    tenon_storage_release(storage);
  });
}

TEST(FileSizeLimit, LoweredWhileTheArenaLives) {
  IN_CHILD([] {
    const std::vector<unsigned char> bytes = pattern(kMiB, 7);
    for (const tenon_mode mode :
         {tenon_mode{TENON_MODE_SHARED}, tenon_mode{TENON_MODE_LENDER_WRITES}}) {
      const tenon_storage_options options = storage_options(mode, 0);
      std::vector<tenon_storage*> many;
      for (int i = 0; i < 5; ++i) many.push_back(new_storage(kMiB, 7, mode));
      {
        const Limit limit(RLIMIT_FSIZE, kMiB);
        for (const uint64_t nbytes : {uint64_t{128} << 10, uint64_t{100}, uint64_t{5000},
                                      uint64_t{64} << 10, uint64_t{100} << 10}) {
          for (int i = 0; i < 40; ++i) {
            tenon_storage* storage = nullptr;
            if (!CHECK_OK(tenon_storage_new_from(&options, bytes.data(), nbytes, &storage, err)))
              break;
            CHECK(has_pattern(tenon_storage_data(storage), nbytes, 7));
            many.push_back(storage);
          }
        }
      }
      for (tenon_storage* each : many) tenon_storage_release(each);
    }
  });
}

TEST(FileSizeLimit, WritingToAnUnsealedFile) {
  IN_CHILD([] {
    const int fd = foreign_memfd(2 * kMiB, 0);
    const tenon_fd_handle handle = handle_over(fd, 2 * kMiB);
    const tenon_open_options options =
        open_options(TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_WRITABLE);
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
    {
      const Limit limit(RLIMIT_FSIZE, kMiB);
      CHECK_OK(tenon_storage_write(storage, 0, "abc", 3, err));
      CHECK_LIMIT(kFileSizeLimit, tenon_storage_write(storage, kMiB + 5, "abc", 3, err));
    }
    CHECK_OK(tenon_storage_write(storage, kMiB + 5, "abc", 3, err));
    tenon_storage_release(storage);
    close(fd);
  });
}

TEST(FileSizeLimit, LargeMessages) {
  IN_CHILD([] {
    for (const int type : kSocketTypes) {
      const Pair pair(type);
      const tenon_wait now = wait_ns(0);
      tenon_storage* storage = new_storage(100, 8);
      tenon_message* large = new_large_message(storage, 10000);
      tenon_message* got = nullptr;
      {
        const Limit limit(RLIMIT_FSIZE, 4096);
        CHECK_LIMIT(kFileSizeLimit, tenon_send(pair.left, large, &now, err));
      }
      CHECK_STATUS(TENON_WOULD_BLOCK, tenon_recv(pair.right, &now, &got, err));
      CHECK_OK(tenon_send(pair.left, large, &now, err));
      REQUIRE_OK(tenon_recv(pair.right, &now, &got, err));
      tenon_message_release(got);
      tenon_message_release(large);
      tenon_storage_release(storage);
    }
  });
}

}  // namespace
}  // namespace fault
