// A name lives exactly as long as some process holds its file, whichever process that is and
// however it ends.
#include "process/filename/agent.h"

namespace names {
namespace {

int32_t count_of(const tenon_filename_handle& handle) { return head_of(path_of(handle)).count; }

TEST(Life, TheCountIsThatOfTheOpenings) {
  IN_FOLDER([](const Folder& folder) {
    std::vector<Agent> others(4);
    const Done lent = others[0].create_shared({.directory = folder.path()}, 100);
    CHECK_EQ(count_of(lent.handle), 1);
    std::vector<int> slots;
    for (size_t i = 1; i < others.size(); ++i) {
      slots.push_back(others[i].open(lent.handle).slot);
      CHECK_EQ(count_of(lent.handle), static_cast<int>(i) + 1);
      // A second opening in one process gives the same storage and does not raise the count.
      const Done again = others[i].open(lent.handle);
      CHECK_EQ(count_of(lent.handle), static_cast<int>(i) + 1);
      others[i].release(again.slot);
      CHECK_EQ(count_of(lent.handle), static_cast<int>(i) + 1);
    }
    // A private opening does not raise the count either.
    CHECK(others[1].open(lent.handle, TENON_OPEN_PRIVATE_COPY).ok());
    CHECK_EQ(count_of(lent.handle), 4);
    others[0].release(lent.slot);
    others[2].release(slots[1]);
    CHECK_EQ(count_of(lent.handle), 2);
    others[3].quit();  // an orderly exit lowers the count
    CHECK_EQ(count_of(lent.handle), 1);
    others[1].release(slots[0]);
    CHECK(folder.becomes_empty());
  });
}

TEST(Life, TheLastHolderRemovesTheNameWhoeverMadeIt) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker, a, b;
    const Done lent = maker.create_shared({.directory = folder.path()}, 100, 1);
    const int in_a = a.open(lent.handle).slot;
    const int in_b = b.open(lent.handle).slot;
    maker.release(lent.slot);
    maker.quit();
    CHECK(exists(path_of(lent.handle)));
    a.release(in_a);
    CHECK(exists(path_of(lent.handle)));
    CHECK(b.shows(in_b, 1));
    b.release(in_b);
    CHECK(folder.becomes_empty());
  });
}

TEST(Life, AloneTheNameIsGoneWhenReleaseReturns) {
  IN_FOLDER([](const Folder& folder) {
    for (int i = 0; i < 100; ++i) {
      tenon_storage* storage = create({.directory = folder.path()}, 100);
      CHECK_EQ(folder.leaves().size(), 1);
      tenon_storage_release(storage);
      CHECK(folder.becomes_empty());
    }
  });
}

// Each holder in turn is killed, and the others continue. After the last holder's death the name is
// removed soon, because a peer watches the directory.
TEST(Life, KilledHoldersInTurn) {
  IN_FOLDER([](const Folder& folder) {
    Agent watcher;
    // Makes the watcher's service thread watch this folder.
    const Done own = watcher.create({.directory = folder.path()}, 10);
    REQUIRE(own.ok());
    for (size_t first = 0; first < 3; ++first) {
      std::vector<Agent> holders(3);
      const Done lent = holders[0].create_shared({.directory = folder.path()}, 100000, 5);
      std::vector<int> slots{lent.slot};
      for (size_t i = 1; i < 3; ++i) slots.push_back(holders[i].open(lent.handle).slot);
      for (size_t k = 0; k < 3; ++k) {
        CHECK(exists(path_of(lent.handle)));
        holders[(first + k) % 3].kill();
        for (size_t rest = k + 1; rest < 3; ++rest)
          CHECK(holders[(first + rest) % 3].shows(slots[(first + rest) % 3], 5));
        // A new process can open the name as long as one holder lives.
        if (k < 2) {
          const Done guest = watcher.open(lent.handle);
          CHECK_SAYING(guest.ok(), guest.outcome.text());
          watcher.release(guest.slot);
        }
      }
      const int64_t begin = now_ns();
      CHECK(is_gone(path_of(lent.handle)));
      std::printf("gone %.1f ms after the last holder was killed\n",
                  static_cast<double>(now_ns() - begin) / 1e6);
    }
    watcher.release(own.slot);
    CHECK(folder.becomes_empty());
  });
}

// Many watchers see the same death at once and compete. One of them must remove the name all the
// same.
TEST(Life, ManyWatchers) {
  IN_FOLDER([](const Folder& folder) {
    std::vector<Agent> watchers(6);
    std::vector<int> own;
    for (Agent& watcher : watchers)
      own.push_back(watcher.create({.directory = folder.path()}, 10).slot);
    for (int round = 0; round < 10; ++round) {
      Agent maker;
      const Done lent = maker.create_shared({.directory = folder.path()}, 100);
      maker.kill();
      CHECK(is_gone(path_of(lent.handle)));
    }
    CHECK_EQ(folder.leaves().size(), watchers.size());
    for (size_t i = 0; i < watchers.size(); ++i) watchers[i].release(own[i]);
    CHECK(folder.becomes_empty());
  });
}

TEST(Life, WithNobodyAliveItGoesWithTheNextName) {
  IN_FOLDER([](const Folder& folder) {
    {
      Agent maker, holder;
      const Done lent = maker.create_shared({.directory = folder.path()}, 100);
      REQUIRE(holder.open(lent.handle).ok());
      maker.kill();
      CHECK_EQ(folder.leaves().size(), 1);
      holder.kill();
      CHECK_EQ(folder.leaves().size(), 1);
    }
    Agent fresh;
    const Done next = fresh.create({.directory = folder.path()}, 10);
    CHECK_EQ(folder.leaves().size(), 1);
    fresh.release(next.slot);
    CHECK(folder.becomes_empty());
  });
}

// The same holds for many dead names: the first name of a process makes it check the whole
// directory.
TEST(Life, AFreshProcessFindsAllTheDead) {
  IN_FOLDER([](const Folder& folder) {
    {
      Agent maker;
      for (int i = 0; i < 100; ++i) REQUIRE(maker.create({.directory = folder.path()}, 100).ok());
      maker.kill();
    }
    CHECK_EQ(folder.leaves().size(), 100);
    // A new process checks names for 50 ms at most. A hundred small files take much less, but a
    // busy machine may need a few more processes.
    size_t left = 100;
    for (int i = 0; i < 5 && left > 0; ++i) {
      Agent fresh;
      const Done next = fresh.create({.directory = folder.path()}, 10);
      left = folder.leaves().size() - 1;
      fresh.release(next.slot);
    }
    CHECK_EQ(left, 0);
    (void)sweep(folder.path());
  });
}

TEST(Life, AForkChildHoldsWhatItInherited) {
  for (const int how : {0, 1, 2}) {  // the parent releases, exits, is killed
    IN_FOLDER([how](const Folder& folder) {
      Agent watcher;
      const int own = watcher.create({.directory = folder.path()}, 10).slot;
      Agent parent;
      const Done lent = parent.create_shared({.directory = folder.path()}, 5000, 6);
      Agent child = parent.fork_child();
      if (how == 0) parent.release(lent.slot);
      if (how == 1) parent.quit();
      if (how == 2) parent.kill();
      CHECK(child.shows(lent.slot, 6));
      CHECK_SAYING(exists(path_of(lent.handle)), "way " + std::to_string(how));
      // Other processes can open the name, and see the same bytes as the child.
      const Done guest = watcher.open(lent.handle);
      CHECK_SAYING(guest.ok(), guest.outcome.text());
      if (guest.ok()) {
        CHECK(child.fill(lent.slot, 7).ok());
        CHECK(watcher.shows(guest.slot, 7));
        watcher.release(guest.slot);
        CHECK(exists(path_of(lent.handle)));
      }
      child.release(lent.slot);
      CHECK(is_gone(path_of(lent.handle)));
      child.quit();
      watcher.release(own);
    });
  }
}

// A child that never calls the library holds the name by its mapping alone.
TEST(Life, AForkChildThatIsKilled) {
  IN_FOLDER([](const Folder& folder) {
    Agent watcher;
    const int own = watcher.create({.directory = folder.path()}, 10).slot;
    Agent parent;
    const Done lent = parent.create_shared({.directory = folder.path()}, 5000, 6);
    Agent child = parent.fork_child();
    parent.kill();
    // Nothing must happen now. The kernel reports no event for this death.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(exists(path_of(lent.handle)));
    child.kill();
    CHECK(is_gone(path_of(lent.handle)));
    watcher.release(own);
  });
}

// Parent and child can both go on making, opening and releasing names, and the parent still
// watches.
TEST(Life, BothGoOnAfterFork) {
  IN_FOLDER([](const Folder& folder) {
    Agent parent;
    const Done before = parent.create_shared({.directory = folder.path()}, 100, 1);
    Agent child = parent.fork_child();
    const Done in_child = child.create_shared({.directory = folder.path()}, 100, 2);
    const Done in_parent = parent.open(in_child.handle);
    REQUIRE(in_child.ok() && in_parent.ok());
    CHECK(parent.shows(in_parent.slot, 2));
    Agent victim;
    const Done dead = victim.create_shared({.directory = folder.path()}, 100);
    victim.kill();
    CHECK(is_gone(path_of(dead.handle)));
    child.quit();
    CHECK(exists(path_of(in_child.handle)));
    Agent second;
    const Done dead_too = second.create_shared({.directory = folder.path()}, 100);
    second.kill();
    CHECK(is_gone(path_of(dead_too.handle)));  // the parent alone watches
    parent.release(in_parent.slot);
    parent.release(before.slot);
    CHECK(folder.becomes_empty());
  });
}

// A folder that is removed and made again under the same path is another folder.
TEST(Life, AFolderThatWasMadeAgain) {
  IN_CHILD([] {
    const Folder outer;
    const std::string inner = outer.at("inner");
    for (int i = 0; i < 3; ++i) {
      REQUIRE(mkdir(inner.c_str(), 0700) == 0);
      const Naming naming{.directory = inner};
      const tenon_filename_options options = naming.options();
      tenon_storage* storage = nullptr;
      const Outcome made = CALL(tenon_storage_new_filename(&options, 100, &storage, err));
      CHECK_SAYING(made.ok(), made.text());
      tenon_storage_release(storage);
      REQUIRE(rmdir(inner.c_str()) == 0);
    }
  });
}

TEST(Life, Unlink) {
  IN_FOLDER([](const Folder& folder) {
    Agent other;
    tenon_storage* storage = create({.directory = folder.path()}, 100);
    put_pattern(storage, 1);
    const tenon_filename_handle handle = share(storage);
    const int slot = other.open(handle).slot;
    CHECK(other.unlink(handle.name).ok());
    CHECK(folder.becomes_empty());
    CHECK_OK(tenon_filename_unlink(handle.name, err));  // gone already
    // A holder keeps the memory.
    CHECK(shows_pattern(storage, 1) && other.shows(slot, 1));
    tenon_storage* again = nullptr;
    CHECK_NAMES(TENON_NOT_FOUND, path_of(handle), try_open(handle, &again));
    // The name may mean another storage by now. A release must not remove the other storage's name.
    tenon_storage* next =
        create({.directory = folder.path(), .name = handle.name + folder.path().size() + 1}, 50);
    other.release(slot);
    tenon_storage_release(storage);
    CHECK(exists(path_of(handle)));
    tenon_storage_release(next);
    // Sockets may be unlinked too, and nothing else.
    storage = fault::new_storage(100);
    const tenon_filename_handle lent = share(storage, {.directory = folder.path()});
    CHECK_OK(tenon_filename_unlink(lent.name, err));
    CHECK(folder.leaves().empty());
    let_go(storage);
    REQUIRE(mkfifo(folder.at("pipe").c_str(), 0600) == 0 &&
            mkdir(folder.at("dir").c_str(), 0700) == 0 &&
            symlink("pipe", folder.at("link").c_str()) == 0);
    for (const char* leaf : {"pipe", "dir", "link"}) {
      CHECK_NAMES(TENON_PERMISSION, folder.at(leaf),
                  CALL(tenon_filename_unlink(folder.at(leaf).c_str(), err)));
      CHECK(exists(folder.at(leaf)));
    }
    unlink(folder.at("pipe").c_str());
    unlink(folder.at("link").c_str());
    rmdir(folder.at("dir").c_str());
    for (const char* name : {"", "relative", "/", "/..", "/.", "/dev/shm/", "/dev/shm/.."})
      CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_unlink(name, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_unlink(nullptr, err));
    CHECK_OK(tenon_filename_unlink((folder.at("no such folder") + "/a").c_str(), err));
  });
}

}  // namespace
}  // namespace names
