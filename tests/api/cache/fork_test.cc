// These tests fork while other threads use names. The child finds every lock free, and can use
// names at once.
#include <atomic>
#include <functional>

#include "process/filename/agent.h"

namespace names {
namespace {

constexpr int kForks = 60;

// The locks of a sanitizer's allocator are not free in a child that was forked beside busy threads.
void skip_when_sanitized() {
  if (kSanitized) fault::skip("the sanitizers' allocators do not survive fork beside busy threads");
}

// Runs each `work` in a thread, over and over, while this thread forks children that run
// `in_child`.
void fork_beside(const std::vector<std::function<void()>>& work,
                 const std::function<void()>& in_child, int forks = kForks) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (const auto& each : work) {
    threads.emplace_back([&over, &each] {
      while (!over) each();
    });
  }
  for (int i = 0; i < forks; ++i) {
    // A sanitizer's allocator may be locked by the service thread, too.
    if (kSanitized) library_thread_settle();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(20);  // ends a child that waits for a lock for ever
      in_child();
      std::fflush(nullptr);
      _exit(fault::g_failures == 0 ? 0 : 1);
    }
    const int how = fault::wait_for_child(child);
    CHECK_SAYING(how == 0, fault::describe_status(how));
    if (how != 0) break;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, BesideOpenersAndMakersOfFiles) {
  IN_CHILD([] {
    skip_when_sanitized();
    const Folder folder;
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000, 1);
    const std::string directory = folder.path();
    const auto open_one = [&] { tenon_storage_release(open_name(lent.handle)); };
    const auto make_one = [&] { tenon_storage_release(create({.directory = directory}, 100)); };
    fork_beside({open_one, open_one, make_one}, [&] {
      tenon_storage* storage = open_name(lent.handle);
      CHECK(shows_pattern(storage, 1));
      tenon_storage* own = create({.directory = directory}, 100);
      tenon_storage* again = open_name(share(own));
      CHECK(own == again);
      for (tenon_storage* each : {storage, own, again}) tenon_storage_release(each);
      (void)sweep(directory);
    });
    CHECK(wait_until([&] { return folder.leaves().size() == 1; }));
    CHECK(maker.shows(lent.slot, 1));
    // A child that ended leaves nothing in the file's count. The storages that it inherited from
    // the parent's threads count for the parent alone.
    CHECK(exists(path_of(lent.handle)));
    maker.release(lent.slot);
    CHECK(folder.becomes_empty());
  });
}

TEST(Fork, BesideLendersAndBorrowersOfSockets) {
  IN_CHILD([] {
    skip_when_sanitized();
    const Folder folder;
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 1000, 1);
    const Done lent = lender.share(made.slot, {.directory = folder.path()});
    const std::string directory = folder.path();
    const auto borrow = [&] { tenon_storage_release(open_name(lent.handle, 0)); };
    const auto lend = [&] {
      tenon_storage* storage =
          fault::new_storage(100, 1, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
      const tenon_filename_handle handle = share(storage, {.directory = directory});
      tenon_storage* again = open_name(handle, 0);
      CHECK(again == storage);
      tenon_storage_release(again);
      tenon_storage_release(storage);
      CHECK(is_gone(path_of(handle)));  // the thread that served the name may hold it last
    };
    fork_beside({borrow, lend, lend}, [&] {
      borrow();
      lend();
    });
    lender.release(made.slot);
    CHECK(folder.becomes_empty());
  });
}

// The arena frees a segment whose name is being served. That takes two locks, in the order in which
// fork takes them.
TEST(Fork, BesideATrim) {
  IN_CHILD([] {
    skip_when_sanitized();
    const Folder folder;
    const std::string directory = folder.path();
    const auto lend_and_trim = [&] {
      tenon_storage* storage = fault::new_storage(100);
      (void)share(storage, {.directory = directory});
      tenon_storage_release(storage);
      (void)tenon_storage_trim();
    };
    fork_beside({lend_and_trim, lend_and_trim}, [] {}, kForks * 10);
    (void)tenon_storage_trim();
    CHECK(folder.becomes_empty());
  });
}

// The arena keeps the segment, but the segment's name ended with its storage. The child releases
// the segment while fork still holds every lock.
TEST(Fork, WhatTheArenaKeepsHadAName) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100);
    (void)share(storage, {.directory = folder.path()});
    tenon_storage_release(storage);
    fork_beside(
        {},
        [&] {
          tenon_storage* own = fault::new_storage(100);
          tenon_storage_release(open_name(share(own, {.directory = folder.path()}), 0));
          tenon_storage_release(own);
        },
        3);
    (void)tenon_storage_trim();
    CHECK(folder.becomes_empty());
  });
}

// What the child inherited and what it opens are the same objects.
TEST(Fork, TheChildKnowsWhatItHolds) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000, 1);
    tenon_storage* storage = open_name(lent.handle);
    tenon_storage* own = create({.directory = folder.path()}, 100);
    const tenon_filename_handle own_handle = share(own);
    const pid_t child = fault::spawn([&] {
      tenon_storage* again = open_name(lent.handle);
      CHECK(again == storage && shows_pattern(again, 1));
      tenon_storage_release(again);
      again = open_name(own_handle);
      CHECK(again == own);
      CHECK(std::strcmp(share(own).name, own_handle.name) == 0);
      tenon_storage_release(again);
      tenon_storage_release(own);
      tenon_storage_release(storage);
      // The parent still has both.
      CHECK(exists(path_of(own_handle)) && exists(path_of(lent.handle)));
    });
    const int how = fault::wait_for_child(child);
    CHECK_SAYING(how == 0, fault::describe_status(how));
    CHECK(exists(path_of(own_handle)));
    CHECK_EQ(head_of(path_of(lent.handle)).count, 2);
    CHECK_EQ(head_of(path_of(own_handle)).count, 1);
    tenon_storage_release(own);
    tenon_storage_release(storage);
    CHECK(is_gone(path_of(own_handle)));
  });
}

}  // namespace
}  // namespace names
