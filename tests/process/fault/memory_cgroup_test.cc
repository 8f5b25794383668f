// These tests run near the limit of a memory cgroup (v1 or v2). A call there fails with that
// limit's name, and the kernel's OOM killer never runs.
#include <functional>
#include <utility>

#include "process/fault/kit.h"
#include "support/sized.h"

namespace fault {
namespace {

constexpr const char* kCgroupLimit = "memory cgroup";
constexpr uint64_t kCgroupNbytes = 48 * kMiB;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool write_text(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return good;
}

std::string mount_point(const char* type, const char* option) {
  std::ifstream file("/proc/self/mounts");
  std::string device, where, kind, options, rest;
  while (file >> device >> where >> kind >> options && std::getline(file, rest)) {
    if (kind == type &&
        ("," + options + ",").find(std::string(",") + option + ",") != std::string::npos)
      return where;
  }
  return {};
}

// A memory cgroup of this process. It is empty if this machine or this user has none.
class Cgroup {
 public:
  explicit Cgroup(uint64_t nbytes) {
    static int serial = 0;
    const std::string name =
        "/tenon-fault-" + std::to_string(getpid()) + "-" + std::to_string(serial++);
    std::string root = mount_point("cgroup", "memory");
    v2_ = root.empty();
    if (v2_) {
      root = mount_point("cgroup2", "rw");
      if (root.empty()) {
        why_ = "no memory cgroup hierarchy is mounted";
        return;
      }
      if (read_text(root + "/cgroup.subtree_control").find("memory") == std::string::npos &&
          !write_text(root + "/cgroup.subtree_control", "+memory")) {
        why_ = "the memory controller of " + root + " cannot be handed on (" +
               std::strerror(errno) + ")";
        return;
      }
    }
    if (mkdir((root + name).c_str(), 0755) != 0) {
      why_ = "no memory cgroup can be made in " + root + ": " + std::strerror(errno);
      return;
    }
    folder_ = root + name;
    if (!write_text(folder_ + (v2_ ? "/memory.max" : "/memory.limit_in_bytes"),
                    std::to_string(nbytes)))
      why_ = "its limit cannot be set";
    if (v2_) (void)write_text(folder_ + "/memory.swap.max", "0");
    if (!v2_) (void)write_text(folder_ + "/memory.memsw.limit_in_bytes", std::to_string(nbytes));
  }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;
  ~Cgroup() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }

  const std::string& why() const { return why_; }
  const std::string& folder() const { return folder_; }
  bool enter() const { return write_text(folder_ + "/cgroup.procs", std::to_string(getpid())); }

 private:
  std::string folder_;
  std::string why_;
  bool v2_ = false;
};

// TSan's shadow takes several times the memory that the program touches, and the cgroup counts it.
#if TENON_TEST_TSAN
#define SKIP_UNDER_TSAN GTEST_SKIP() << "skipped under a sanitizer: its shadow memory counts too"
#else
#define SKIP_UNDER_TSAN static_cast<void>(0)
#endif

#define IN_CGROUP(nbytes, ...)                           \
  do {                                                   \
    SKIP_UNDER_TSAN;                                     \
    const Cgroup fault_cgroup(nbytes);                   \
    if (!fault_cgroup.why().empty()) {                   \
      GTEST_SKIP() << "skipped: " << fault_cgroup.why(); \
    }                                                    \
    IN_CHILD([&] {                                       \
      REQUIRE(fault_cgroup.enter());                     \
      (__VA_ARGS__)(fault_cgroup);                       \
    });                                                  \
  } while (false)

// Memory that can be read and that takes no pages.
const void* much_of_nothing(uint64_t nbytes) {
  const void* bytes =
      mmap(nullptr, nbytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(bytes != MAP_FAILED);
  return bytes;
}

TEST(MemoryCgroup, MoreThanFitsIsRefusedByName) {
  IN_CGROUP(kCgroupNbytes, [](const Cgroup& cgroup) {
    const Held before = hold();
    const void* bytes = much_of_nothing(4 * kCgroupNbytes);
    tenon_storage* storage = nullptr;
    for (const tenon_mode mode : kModes) {
      for (const uint32_t flags :
           {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{TENON_STORAGE_PRIVATE},
            uint32_t{TENON_STORAGE_ZEROED}}) {
        const tenon_storage_options options = storage_options(mode, flags);
        for (const uint64_t nbytes : {kCgroupNbytes, 2 * kCgroupNbytes, 4 * kCgroupNbytes}) {
          Outcome outcome =
              CHECK_LIMIT(kCgroupLimit, tenon_storage_new(&options, nbytes, &storage, err));
          CHECK_SAYING(outcome.detail("limit").find(cgroup.folder()) != std::string::npos,
                       outcome.text());
          CHECK_LIMIT(kCgroupLimit, tenon_storage_new_from(&options, bytes, nbytes, &storage, err));
        }
      }
    }
    CHECK(storage == nullptr);
    CHECK_HELD(before);
  });
}

// Releases storages. The library keeps them for later as long as nothing else needs their memory.
void keep_much(uint64_t nbytes, bool retired) {
  std::vector<tenon_storage*> storages;
  for (uint64_t done = 0; done < nbytes; done += kMiB) storages.push_back(new_storage(kMiB, 1));
  for (tenon_storage* each : storages) {
    auto handle = tenon::test::sized<tenon_fd_handle>();
    if (retired) {
      REQUIRE_OK(tenon_share_fd(each, nullptr, &handle, err));
      tenon_fd_handle_close(&handle);
    }
    tenon_storage_release(each);
  }
}

TEST(MemoryCgroup, WhatIsKeptForLaterIsGivenBackFirst) {
  SKIP_UNDER_SANITIZERS(
      "its own memory is charged to the cgroup too, and little is left beside what is kept");
  IN_CGROUP(kCgroupNbytes, [](const Cgroup&) {
    constexpr uint64_t kKept = 30 * kMiB;
    constexpr uint64_t kWanted = 26 * kMiB;
    const tenon_storage_options plain = storage_options(TENON_MODE_SHARED, 0);
    const tenon_storage_options isolated =
        storage_options(TENON_MODE_LENDER_WRITES, TENON_STORAGE_ISOLATED);
    const tenon_storage_options frozen = storage_options(TENON_MODE_FROZEN, 0);
    const tenon_storage_options own = storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    auto named = tenon::test::sized<tenon_filename_options>();
    const void* nothing = much_of_nothing(kWanted);
    tenon_storage* storage = nullptr;
    for (const bool retired : {false, true}) {
      const auto wanted = [&](const char* what,
                              const std::function<tenon_status(tenon_error**)>& make) {
        keep_much(kKept, retired);
        const Outcome made = call(make);
        CHECK_SAYING(made.ok(), std::string(what) + ": " + made.text());
        tenon_storage_release(std::exchange(storage, nullptr));
      };
      wanted("plain",
             [&](tenon_error** err) { return tenon_storage_new(&plain, kWanted, &storage, err); });
      wanted("isolated", [&](tenon_error** err) {
        return tenon_storage_new(&isolated, kWanted, &storage, err);
      });
      wanted("filled", [&](tenon_error** err) {
        return tenon_storage_new_from(&plain, nothing, kWanted, &storage, err);
      });
      wanted("frozen", [&](tenon_error** err) {
        return tenon_storage_new_from(&frozen, nothing, kWanted, &storage, err);
      });
      wanted("private",
             [&](tenon_error** err) { return tenon_storage_new(&own, kWanted, &storage, err); });
      wanted("named", [&](tenon_error** err) {
        return tenon_storage_new_filename(&named, kWanted, &storage, err);
      });
    }
    auto capacity = tenon::test::sized<tenon_arena_options>();
    capacity.capacity_nbytes = 2 * kWanted;
    tenon_arena* arena = nullptr;
    REQUIRE_OK(tenon_arena_new(&capacity, &arena, err));
    tenon_storage_options in_arena = storage_options(TENON_MODE_SHARED, 0);
    in_arena.arena = arena;
    keep_much(kKept, false);
    const Outcome made = CALL(tenon_storage_new(&in_arena, kWanted, &storage, err));
    CHECK_SAYING(made.ok(), "in an arena: " + made.text());
    tenon_storage_release(storage);
    tenon_arena_release(arena);
  });
}

TEST(MemoryCgroup, ARefusalSaysWhatIsHeld) {
  IN_CGROUP(kCgroupNbytes, [](const Cgroup& cgroup) {
    tenon_storage* stays = new_storage(kMiB, 1);
    tenon_storage* storage = nullptr;
    const tenon_storage_options isolated =
        storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    const tenon_storage_options own = storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    for (const tenon_storage_options& options : {isolated, own}) {
      const Outcome refused =
          CHECK_LIMIT(kCgroupLimit, tenon_storage_new(&options, 2 * kCgroupNbytes, &storage, err));
      CHECK_EQ(std::stoull(refused.detail("limit_value")), kCgroupNbytes);
      CHECK_EQ(std::stoull(refused.detail("live")), kMiB);
      CHECK_EQ(std::stoull(refused.detail("lent")), 0);
      CHECK_EQ(std::stoull(refused.detail("retired")), 0);
      CHECK_EQ(std::stoull(refused.detail("kept")), stats().bytes_reserved - kMiB);
      for (const std::string& part :
           {cgroup.folder(), "of " + std::to_string(kCgroupNbytes) + " are left",
            std::string("1048576 bytes are in storages"),
            std::string("release storages, or raise the memory limit of the container")}) {
        CHECK_SAYING(refused.message.find(part) != std::string::npos,
                     part + " is not in " + refused.text());
      }
    }
    tenon_storage_release(stays);
  });
}

// A segment that gets no more pages must not hide the free block of another segment.
TEST(MemoryCgroup, AFreeBlockThatFitsIsFound) {
  IN_CGROUP(kCgroupNbytes, [](const Cgroup&) {
    std::vector<tenon_storage*> storages;
    tenon_storage* storage = nullptr;
    const tenon_storage_options plain = storage_options(TENON_MODE_SHARED, 0);
    while (CALL(tenon_storage_new(&plain, 512 * 1024, &storage, err)).ok())
      storages.push_back(storage);
    REQUIRE(storages.size() > 8);
    // Two neighbours make one block of twice the size.
    for (const size_t i : {size_t{2}, size_t{3}}) tenon_storage_release(storages[i]);
    const Outcome made = CALL(tenon_storage_new(&plain, kMiB, &storage, err));
    CHECK_SAYING(made.ok(), made.text());
    tenon_storage_release(storage);
    for (size_t i = 0; i < storages.size(); ++i) {
      if (i != 2 && i != 3) tenon_storage_release(storages[i]);
    }
  });
}

uint64_t allocate_until_refused(const tenon_storage_options& options, uint64_t nbytes, bool from,
                                const void* source, std::vector<tenon_storage*>* out) {
  for (uint64_t total = 0;; total += nbytes) {
    tenon_storage* storage = nullptr;
    const Outcome outcome =
        from ? CALL(tenon_storage_new_from(&options, source, nbytes, &storage, err))
             : CALL(tenon_storage_new(&options, nbytes, &storage, err));
    if (!outcome.ok()) {
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                       outcome.detail("limit").find(kCgroupLimit) == 0,
                   outcome.text());
      return total;
    }
    out->push_back(storage);
    REQUIRE(total < 2 * kCgroupNbytes);
  }
}

void touch(const std::vector<tenon_storage*>& storages) {
  for (tenon_storage* each : storages) {
    void* data = nullptr;
    if (tenon_storage_data_mut(each, &data, nullptr) == TENON_OK)
      std::memset(data, 1, tenon_storage_nbytes(each));
  }
}

TEST(MemoryCgroup, ALoopEndsWithARefusalAndFreedMemoryCanBeHadAgain) {
  // The loop fills the cgroup up. When the storages are released afterwards, the sanitizer keeps
  // each freed block in its quarantine, and the kernel kills the process.
  SKIP_UNDER_SANITIZERS("its own memory is charged to the cgroup too, and grows after a refusal");
  for (const uint32_t flags :
       {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}, uint32_t{TENON_STORAGE_PRIVATE}}) {
    for (const tenon_mode mode : kModes) {
      if (flags == TENON_STORAGE_PRIVATE && mode != TENON_MODE_SHARED) continue;
      for (const bool from : {false, true}) {
        for (const uint64_t nbytes : {64 * uint64_t{1024}, 9 * kMiB + 100}) {
          SCOPED_TRACE(testing::Message() << "flags " << flags << " mode " << mode << " from "
                                          << from << " nbytes " << nbytes);
          IN_CGROUP(kCgroupNbytes, [&](const Cgroup&) {
            const tenon_storage_options options = storage_options(mode, flags);
            const void* source = much_of_nothing(nbytes);
            std::vector<tenon_storage*> storages;
            uint64_t first = 0;
            for (int round = 0; round < 2; ++round) {
              const uint64_t total =
                  allocate_until_refused(options, nbytes, from, source, &storages);
              touch(storages);
              CHECK_SAYING(total >= kCgroupNbytes / 2,
                           std::to_string(total) + " bytes in round " + std::to_string(round));
              if (round == 0) first = total;
              CHECK_SAYING(
                  total + 4 * kMiB + nbytes >= first,
                  std::to_string(first) + " bytes at first and " + std::to_string(total) + " then");
              for (tenon_storage* each : storages) tenon_storage_release(each);
              storages.clear();
              tenon_storage_trim();
            }
          });
        }
      }
    }
  }
}

// Without an fd /proc and the cgroup's files cannot be read, so the library knows no limit. It must
// not take that for enough memory.
TEST(MemoryCgroup, AtTheFdLimitToo) {
  IN_CGROUP(32 * kMiB, [](const Cgroup&) {
    tenon_storage* first = new_storage(100, 1);  // the arena's segment
    std::vector<tenon_storage*> storages;
    {
      const Limit limit(RLIMIT_NOFILE, fd_limit_with_room(0));
      for (int i = 0; i < 60; ++i) {
        tenon_storage* storage = nullptr;
        const Outcome outcome = CALL(tenon_storage_new(nullptr, kMiB, &storage, err));
        CHECK_SAYING(outcome.ok() || outcome.status == TENON_RESOURCE_EXHAUSTED, outcome.text());
        if (!outcome.ok()) break;
        storages.push_back(storage);
      }
    }
    for (tenon_storage* each : storages) tenon_storage_release(each);
    tenon_storage_release(first);
  });
}

TEST(MemoryCgroup, JustAfterTheFdLimitToo) {
  IN_CGROUP(32 * kMiB, [](const Cgroup&) {
    tenon_storage* storage = new_storage(100, 1);
    {
      const Limit limit(RLIMIT_NOFILE, fd_limit_with_room(0));
      tenon_storage* at_limit = nullptr;
      (void)CALL(tenon_storage_new(nullptr, 4 * kMiB, &at_limit, err));
      tenon_storage_release(at_limit);
    }
    const tenon_storage_options isolated =
        storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    tenon_storage* large = nullptr;
    CHECK_LIMIT(kCgroupLimit, tenon_storage_new(&isolated, 64 * kMiB, &large, err));
    tenon_storage_release(storage);
  });
}

// Memory is reserved before the call returns. That holds for private memory that nobody has touched
// yet, too.
TEST(MemoryCgroup, PrivateMemoryThatIsTouchedLater) {
  IN_CGROUP(kCgroupNbytes, [](const Cgroup&) {
    const tenon_storage_options options = storage_options(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    std::vector<tenon_storage*> storages;
    for (int i = 0; i < 40; ++i) {
      tenon_storage* storage = nullptr;
      const Outcome outcome = CALL(tenon_storage_new(&options, 8 * kMiB, &storage, err));
      if (!outcome.ok()) break;
      storages.push_back(storage);
    }
    touch(storages);
    for (tenon_storage* each : storages) tenon_storage_release(each);
  });
}

// A peer lends memory full of holes. Opening it writable makes the pages, at the cost of the
// opener.
TEST(MemoryCgroup, OpeningHolesLargerThanTheLimit) {
  IN_CGROUP(kCgroupNbytes, [](const Cgroup&) {
    const Held before = hold();
    const int fd = foreign_memfd(uint64_t{1} << 30, F_SEAL_SHRINK | F_SEAL_GROW, false);
    const tenon_fd_handle handle = handle_over(fd, uint64_t{1} << 30);
    tenon_storage* storage = nullptr;
    const Outcome outcome = CALL(tenon_open_fd(&handle, nullptr, &storage, err));
    CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED || outcome.status == TENON_CORRUPT,
                 outcome.text());
    struct stat info{};
    REQUIRE(fstat(fd, &info) == 0);
    CHECK_EQ(info.st_blocks, 0);
    const tenon_open_options copy = open_options(TENON_OPEN_PRIVATE_COPY);
    CHECK_LIMIT(kCgroupLimit, tenon_open_fd(&handle, &copy, &storage, err));
    close(fd);
    CHECK_HELD(before);
  });
}

TEST(MemoryCgroup, ALargeMessage) {
  SKIP_UNDER_SANITIZERS("its heap takes several times the memory that the program asks for");
  IN_CGROUP(24 * kMiB, [](const Cgroup&) {
    const Pair pair(SOCK_STREAM);
    tenon_storage* storage = new_storage(100, 1);
    tenon_message* large = new_large_message(storage, 30000);
    const tenon_wait now = wait_ns(0);
    tenon_storage* hog = nullptr;
    std::vector<tenon_storage*> hogs;
    const tenon_storage_options isolated =
        storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    while (CALL(tenon_storage_new(&isolated, 256 * 1024, &hog, err)).ok()) hogs.push_back(hog);
    // The descriptor is built on the heap, which has no check of the limit.
    for (int i = 0; i < 40 && !hogs.empty(); ++i, hogs.pop_back())
      tenon_storage_release(hogs.back());
    const Outcome outcome = CALL(tenon_send(pair.left, large, &now, err));
    CHECK_SAYING(outcome.ok() || (outcome.status == TENON_RESOURCE_EXHAUSTED &&
                                  outcome.detail("limit").find(kCgroupLimit) == 0),
                 outcome.text());
    for (tenon_storage* each : hogs) tenon_storage_release(each);
    if (!outcome.ok()) CHECK_OK(tenon_send(pair.left, large, &now, err));
    tenon_message* got = nullptr;
    CHECK_OK(tenon_recv(pair.right, &now, &got, err));
    tenon_message_release(got);
    tenon_message_release(large);
    tenon_storage_release(storage);
  });
}

}  // namespace
}  // namespace fault
