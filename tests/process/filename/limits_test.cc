// These tests reach the limits of names. At a limit a call fails with an error that names the
// limit, and leaves no name and no fd. With free space it works again.
#include <sched.h>
#include <sys/mount.h>

#include "process/fault/own_shm.h"
#include "process/filename/agent.h"
#include "support/sized.h"

namespace names {
namespace {

using fault::kMiB;

void check_limit(const Outcome& outcome, const std::string& limit, int line) {
  fault::check(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                   outcome.detail("limit").find(limit) != std::string::npos &&
                   !outcome.detail("limit_value").empty(),
               limit.c_str(), __FILE__, line, outcome.text());
}
#define LIMIT(limit, outcome) check_limit((outcome), (limit), __LINE__)

TEST(Limit, AFullDirectory) {
  IN_CHILD([] {
    const Folder outer;
    fault::mount_small_tmpfs(outer.path(), "size=4m");
    tenon_storage* storage = nullptr;
    const Outcome too_large = try_create({.directory = outer.path()}, 5 * kMiB, &storage);
    LIMIT("size of " + outer.path(), too_large);
    CHECK_EQ(std::strtoull(too_large.detail("limit_value").c_str(), nullptr, 10), 4 * kMiB);
    CHECK_SAYING(too_large.detail("path") == outer.path(), too_large.text());
    CHECK(outer.becomes_empty());
    std::vector<tenon_storage*> storages;
    while (true) {
      const Outcome made = try_create({.directory = outer.path()}, kMiB, &storage);
      if (!made.ok()) {
        LIMIT(outer.path(), made);
        break;
      }
      put_pattern(storage, 1);  // a SIGBUS here would end the test
      storages.push_back(storage);
    }
    CHECK_EQ(storages.size(), 3);
    CHECK_EQ(outer.leaves().size(), 3);
    // Private memory that should have moved stays where it is.
    tenon_storage* own = fault::new_storage(2 * kMiB, 3, TENON_MODE_SHARED, TENON_STORAGE_PRIVATE);
    tenon_filename_handle handle = blank_handle();
    LIMIT(outer.path(), try_share(own, {.directory = outer.path()}, &handle));
    CHECK(!tenon_storage_is_shared(own) && shows_pattern(own, 3));
    tenon_storage_release(own);
    tenon_storage_release(storages.back());
    storages.pop_back();
    // The service thread may be looking at the removed file now. The memory is freed with that last
    // fd.
    CHECK(wait_until([&] { return try_create({.directory = outer.path()}, kMiB, &storage).ok(); }));
    storages.push_back(storage);
    for (tenon_storage* each : storages) {
      CHECK(tenon_storage_nbytes(each) == kMiB);
      tenon_storage_release(each);
    }
    CHECK(outer.becomes_empty());
    REQUIRE(umount2(outer.path().c_str(), MNT_DETACH) == 0);
  });
}

TEST(Limit, ADirectoryWithoutInodes) {
  IN_CHILD([] {
    const Folder outer;
    fault::mount_small_tmpfs(outer.path(), "size=4m,nr_inodes=3");
    std::vector<tenon_storage*> storages;
    tenon_storage* storage = nullptr;
    Outcome made;
    while ((made = try_create({.directory = outer.path()}, 10, &storage)).ok())
      storages.push_back(storage);
    CHECK_SAYING(made.status == TENON_RESOURCE_EXHAUSTED && !made.detail("limit").empty() &&
                     made.detail("path") == outer.path(),
                 made.text());
    CHECK_EQ(storages.size(), 2);
    storage = fault::new_storage(10);
    tenon_filename_handle handle = blank_handle();
    const Outcome lent = try_share(storage, {.directory = outer.path()}, &handle);
    CHECK_SAYING(lent.status == TENON_RESOURCE_EXHAUSTED && !lent.detail("limit").empty(),
                 lent.text());
    let_go(storage);
    for (tenon_storage* each : storages) tenon_storage_release(each);
    CHECK(outer.becomes_empty());
    REQUIRE(umount2(outer.path().c_str(), MNT_DETACH) == 0);
  });
}

TEST(Limit, AFileSystemThatIsReadOnly) {
  IN_CHILD([] {
    const Folder outer;
    fault::mount_small_tmpfs(outer.path(), "size=4m,ro");
    tenon_storage* storage = nullptr;
    const Outcome made = try_create({.directory = outer.path()}, 10, &storage);
    CHECK_SAYING(!made.ok() && made.detail("path") == outer.path(), made.text());
    REQUIRE(umount2(outer.path().c_str(), MNT_DETACH) == 0);
  });
}

// After the end of a name, nothing of its directory stays open for ever. A living name keeps open
// what its removal needs.
TEST(Limit, ManyDirectories) {
  IN_CHILD([] {
    constexpr int kHeld = 3;
    constexpr int kMet = 100;
    // The service thread has two fds and one watch, and each directory that may stay open has one
    // fd.
    constexpr long kMost = 3 + 16 + kHeld;
    const Folder outer;
    const auto folder = [&](int i) { return outer.at(std::to_string(i)); };
    for (int i = 0; i < kHeld + kMet; ++i) REQUIRE(mkdir(folder(i).c_str(), 0700) == 0);
    const auto inside = [&](int i) {
      int count = 0;
      DIR* stream = opendir(folder(i).c_str());
      REQUIRE(stream != nullptr);
      while (readdir(stream) != nullptr) ++count;
      closedir(stream);
      return count - 2;
    };
    const long before = fault::count_open_fds();
    std::vector<tenon_storage*> held;
    for (int i = 0; i < kHeld; ++i) held.push_back(create({.directory = folder(i)}, 10));
    // Before the second round most of the directories were closed.
    for (int round = 0; round < 2; ++round) {
      for (int i = kHeld; i < kHeld + kMet; ++i) {
        tenon_storage* storage = create({.directory = folder(i)}, 10);
        put_pattern(storage, 1);
        tenon_storage* again = open_name(share(storage));
        CHECK(again == storage);
        tenon_storage_release(again);
        tenon_storage_release(storage);
      }
      CHECK_SAYING(wait_until([&] { return fault::count_open_fds() <= before + kMost; }),
                   std::to_string(fault::count_open_fds() - before) + " fds");
    }
    for (int i = 0; i < kHeld; ++i) {
      CHECK_EQ(inside(i), 1);
      tenon_storage_release(held[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < kHeld + kMet; ++i) {
      CHECK(wait_until([&] { return inside(i) == 0; }));
      REQUIRE(rmdir(folder(i).c_str()) == 0);
    }
  });
}

// The same holds for sockets: a directory is closed when its last name is removed.
TEST(Limit, ManyDirectoriesOfSockets) {
  IN_CHILD([] {
    constexpr int kMet = 60;
    const Folder outer;
    const auto folder = [&](int i) { return outer.at(std::to_string(i)); };
    for (int i = 0; i < kMet; ++i) REQUIRE(mkdir(folder(i).c_str(), 0700) == 0);
    const long before = fault::count_open_fds();
    std::vector<tenon_storage*> storages;
    for (int i = 0; i < kMet; ++i) {
      storages.push_back(fault::new_storage(10, 1, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED));
      (void)share(storages.back(), {.directory = folder(i)});
    }
    for (tenon_storage* each : storages) let_go(each);
    CHECK_SAYING(wait_until([&] { return fault::count_open_fds() <= before + 3 + 16; }),
                 std::to_string(fault::count_open_fds() - before) + " fds");
    for (int i = 0; i < kMet; ++i) CHECK(wait_until([&] { return rmdir(folder(i).c_str()) == 0; }));
  });
}

TEST(Limit, NoPermission) {
  IN_CHILD([] {
    fault::leave_root();
    const Folder folder;
    REQUIRE(mkdir(folder.at("closed").c_str(), 0500) == 0);
    REQUIRE(mkdir(folder.at("dark").c_str(), 0000) == 0);
    tenon_storage* storage = nullptr;
    CHECK_NAMES(TENON_PERMISSION, folder.at("closed"),
                try_create({.directory = folder.at("closed")}, 10, &storage));
    CHECK_NAMES(TENON_PERMISSION, folder.at("dark"),
                try_create({.directory = folder.at("dark")}, 10, &storage));
    CHECK_NAMES(TENON_PERMISSION, folder.at("dark"),
                try_open(handle_to(folder.at("dark/a"), 10), &storage));
    storage = fault::new_storage(10);
    tenon_filename_handle handle = blank_handle();
    const Outcome lent = try_share(storage, {.directory = folder.at("closed")}, &handle);
    CHECK_SAYING(lent.status == TENON_PERMISSION && lent.details.contains("path"), lent.text());
    let_go(storage);
    auto how = tenon::test::sized<tenon_sweep_options>();
    const std::string dark = folder.at("dark");
    how.directory = dark.c_str();
    CHECK_STATUS(TENON_PERMISSION, tenon_filename_sweep(&how, nullptr, err));
    // The user may not write its own file any more, and can only open it read-only.
    tenon_storage* named = create({.directory = folder.path(), .name = "a"}, 10);
    put_pattern(named, 1);
    Agent other;
    REQUIRE(chmod(folder.at("a").c_str(), 0400) == 0);
    CHECK_NAMES(TENON_PERMISSION, folder.at("a"), other.open(share(named)).outcome);
    const Done held = other.open(share(named), TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
    CHECK_SAYING(held.ok() && other.shows(held.slot, 1), held.outcome.text());
    REQUIRE(chmod(folder.at("a").c_str(), 0600) == 0);
    other.release(held.slot);
    tenon_storage_release(named);
    rmdir(folder.at("closed").c_str());
    rmdir(folder.at("dark").c_str());
  });
}

// With too few fds each call says so, and leaves nothing behind.
TEST(Limit, NoFds) {
  IN_CHILD([] {
    SKIP_UNDER_SANITIZERS("they need fds of their own");
    const Folder folder;
    Agent other;
    const Done file = other.create_shared({.directory = folder.path()}, 100, 1);
    const Done made = other.make(TENON_MODE_SHARED, 0, 100, 2);
    const Done socket = other.share(made.slot, {.directory = folder.path()});
    // Now the service thread and its watch exist.
    tenon_storage* warm = create({.directory = folder.path(), .name = "warm"}, 10);
    tenon_storage* arena = fault::new_storage(100);
    const long fds = fault::count_open_fds();
    const rlim_t least = fault::least_fd_limit();
    const auto attempts = [&](const char* what,
                              const std::function<Outcome(tenon_storage**)>& attempt) {
      int refused = 0;
      for (rlim_t room = 0;; ++room) {
        REQUIRE(room < 20);
        tenon_storage* storage = nullptr;
        Outcome outcome;
        {
          const fault::Limit limit(RLIMIT_NOFILE, least + room);
          outcome = attempt(&storage);
        }
        if (outcome.ok()) {
          tenon_storage_release(storage);
          break;
        }
        ++refused;
        CHECK_SAYING(
            outcome.status == TENON_RESOURCE_EXHAUSTED &&
                outcome.detail("limit") == "RLIMIT_NOFILE",
            std::string(what) + " with room for " + std::to_string(room) + ": " + outcome.text());
        // The service thread may be looking at a name now.
        CHECK(wait_until([&] { return fault::count_open_fds() == fds; }));
        CHECK_EQ(folder.leaves().size(), 3);
        CHECK_EQ(head_of(path_of(file.handle)).count, 1);
      }
      CHECK(refused > 0);
    };
    attempts("create", [&](tenon_storage** out) {
      return try_create({.directory = folder.path()}, 100, out);
    });
    attempts("open a file", [&](tenon_storage** out) { return try_open(file.handle, out); });
    attempts("open privately", [&](tenon_storage** out) {
      return try_open(file.handle, out, TENON_OPEN_PRIVATE_COPY);
    });
    attempts("open a socket", [&](tenon_storage** out) { return try_open(socket.handle, out, 0); });
    attempts("lend", [&](tenon_storage**) {
      tenon_filename_handle handle = blank_handle();
      return try_share(arena, {.directory = folder.path()}, &handle);
    });
    let_go(arena);
    tenon_storage_release(warm);
    // A name is released while no fd is free. The name may stay for the next sweep, but the process
    // must not end.
    tenon_storage* last = create({.directory = folder.path(), .name = "last"}, 10);
    {
      const fault::Limit limit(RLIMIT_NOFILE, least);
      tenon_storage_release(last);
    }
    (void)sweep(folder.path());
    CHECK(is_gone(folder.at("last")));
  });
}

// A sweep examines all names or says that it could not.
TEST(Limit, NoFdsForASweep) {
  IN_CHILD([] {
    SKIP_UNDER_SANITIZERS("they need fds of their own");
    const Folder folder;
    Head head;
    head.magic = kMagic;
    plant(folder.at("tenon-dead"), head, 100);
    tenon_sweep_options options{};
    options.struct_size = sizeof options;
    options.flags = TENON_SWEEP_DRY_RUN;
    options.directory = folder.path().c_str();
    int refused = 0;
    for (int room = 0;; ++room) {
      REQUIRE(room < 20);
      tenon_sweep_result result{};
      result.struct_size = sizeof result;
      Outcome outcome;
      {
        const fault::Limit limit(RLIMIT_NOFILE, fault::fd_limit_with_room(room));
        outcome = CALL(tenon_filename_sweep(&options, &result, err));
      }
      if (outcome.ok()) {
        CHECK_EQ(result.dead, 1);
        break;
      }
      ++refused;
      LIMIT("RLIMIT_NOFILE", outcome);
    }
    // The directory takes one fd, and the file another.
    CHECK(refused >= 2);
    CHECK_EQ(sweep(folder.path()).dead, 1);
  });
}

TEST(Limit, FileSize) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = nullptr;
    {
      // A file that is too large would end the process with SIGXFSZ.
      const fault::Limit limit(RLIMIT_FSIZE, 100000);
      LIMIT("RLIMIT_FSIZE", try_create({.directory = folder.path()}, 100000 - 63, &storage));
      LIMIT("RLIMIT_FSIZE", try_create({.directory = folder.path()}, kMiB, &storage));
      CHECK(folder.becomes_empty());
      REQUIRE(try_create({.directory = folder.path()}, 100000 - 64, &storage).ok());
      put_pattern(storage, 1);
      CHECK(shows_pattern(storage, 1));
      tenon_storage_release(storage);
    }
    CHECK(folder.becomes_empty());
  });
}

}  // namespace
}  // namespace names
