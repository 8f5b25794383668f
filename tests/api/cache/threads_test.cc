// Threads open and release the same name and different names at the same time. There is one object
// while any thread holds it, and none afterwards.
#include <atomic>

#include "process/filename/agent.h"

namespace names {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = kSanitized ? 100 : 500;

template <typename Body>
void in_threads(Body&& body) {
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      while (!go) std::this_thread::yield();
      body(id);
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, OneName) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done file = maker.create_shared({.directory = folder.path()}, 5000, 1);
    const Done made = maker.make(TENON_MODE_SHARED, 0, 5000, 1);
    const Done socket = maker.share(made.slot, {.directory = folder.path()});
    for (const tenon_filename_handle& handle : {file.handle, socket.handle}) {
      in_threads([&](int id) {
        for (int round = 0; round < kRounds; ++round) {
          const tenon_access access =
              (round + id) % 5 == 0 ? TENON_ACCESS_READ_ONLY : TENON_ACCESS_AUTO;
          tenon_storage* storage = open_name(handle, TENON_OPEN_ALLOW_UNSEALED, access);
          // While this thread holds the storage, the name gives no other object.
          tenon_storage* again = open_name(handle, TENON_OPEN_ALLOW_UNSEALED, access);
          CHECK(storage == again && tenon_storage_id(storage) == tenon_storage_id(again));
          CHECK(static_cast<const unsigned char*>(tenon_storage_data(storage))[4999] ==
                fault::byte_at(1, 4999));
          tenon_storage_release(storage);
          tenon_storage_release(again);
        }
      });
    }
    CHECK_EQ(head_of(path_of(file.handle)).count, 1);
    CHECK_EQ(count_mappings_of(folder.path().c_str()), 0);
    CHECK_EQ(count_memfd_mappings(), 0);
  });
}

TEST(Threads, ManyNames) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    std::vector<tenon_filename_handle> handles;
    for (uint64_t i = 0; i < 4; ++i)
      handles.push_back(maker.create_shared({.directory = folder.path()}, 1000, i).handle);
    for (uint64_t i = 4; i < 8; ++i) {
      handles.push_back(maker
                            .share(maker.make(TENON_MODE_LENDER_WRITES, 0, 1000, i).slot,
                                   {.directory = folder.path()})
                            .handle);
    }
    in_threads([&](int id) {
      for (int round = 0; round < kRounds; ++round) {
        const size_t which = static_cast<size_t>(id + round) % handles.size();
        tenon_storage* storage = open_name(handles[which]);
        CHECK(shows_pattern(storage, which));
        tenon_storage_release(storage);
      }
    });
    for (size_t i = 0; i < 4; ++i) CHECK_EQ(head_of(path_of(handles[i])).count, 1);
  });
}

// Each thread makes files, lends and releases them, and sweeps the directory.
TEST(Threads, CreateLendAndRelease) {
  IN_FOLDER([](const Folder& folder) {
    in_threads([&](int id) {
      for (int round = 0; round < kRounds / 4; ++round) {
        tenon_storage* storage = create({.directory = folder.path()}, 100);
        put_pattern(storage, static_cast<uint64_t>(id));
        const tenon_filename_handle handle = share(storage);
        CHECK_OK(tenon_filename_incref(&handle, err));
        tenon_storage* opened = open_name(handle, TENON_OPEN_ALLOW_UNSEALED | TENON_OPEN_DECREF);
        CHECK(opened == storage);
        if (round % 8 == 0) (void)sweep(folder.path());
        tenon_storage_release(storage);
        CHECK(exists(path_of(handle)) && shows_pattern(opened, static_cast<uint64_t>(id)));
        tenon_storage_release(opened);
      }
    });
    CHECK(folder.becomes_empty());
  });
}

// Several threads lend storages of one segment for the first time, at the same moment. The segment
// gets one name.
TEST(Threads, OneSegmentsName) {
  IN_FOLDER([](const Folder& folder) {
    for (int round = 0; round < kRounds / 25; ++round) {
      std::vector<tenon_storage*> storages;
      for (int i = 0; i < kThreads; ++i) storages.push_back(fault::new_storage(100));
      std::vector<tenon_filename_handle> handles(kThreads);
      in_threads([&](int id) {
        const auto at = static_cast<size_t>(id);
        handles[at] = share(storages[at], {.directory = folder.path()});
      });
      CHECK_EQ(folder.leaves().size(), 1);
      for (const tenon_filename_handle& handle : handles)
        CHECK(std::strcmp(handle.name, handles[0].name) == 0);
      for (tenon_storage* each : storages) tenon_storage_release(each);
      (void)tenon_storage_trim();
      CHECK(folder.becomes_empty());
    }
  });
}

// Threads lend, release segments, and borrow from their own process, all at the same time.
TEST(Threads, SegmentsThatEndWhileTheyAreLent) {
  IN_FOLDER([](const Folder& folder) {
    in_threads([&](int id) {
      for (int round = 0; round < kRounds / 5; ++round) {
        tenon_storage* storage =
            fault::new_storage(100, 1, TENON_MODE_SHARED, id % 2 == 0 ? TENON_STORAGE_ISOLATED : 0);
        const bool chosen = (id + round) % 3 == 0;
        const tenon_filename_handle handle =
            share(storage, {.directory = folder.path(),
                            .name = chosen ? "chosen-" + std::to_string(id) : std::string()});
        tenon_storage* opened = open_name(handle, 0);
        CHECK(opened == storage);
        tenon_storage_release(opened);
        tenon_storage_release(storage);
        if (id == 0) (void)tenon_storage_trim();
        // The name may still be there or not. Either answer is right.
        tenon_storage* late = nullptr;
        (void)try_open(handle, &late, 0);
        tenon_storage_release(late);
      }
    });
    // The thread that serves names may release a segment last, and a trim frees only segments that
    // nobody holds.
    CHECK(wait_until([&] {
      (void)tenon_storage_trim();
      return folder.empty() && count_memfd_mappings() == 0;
    }));
  });
}

// A weak reference is locked while another thread makes the last release of a storage that was
// opened by name.
TEST(Threads, WeakReferences) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 100, 1);
    for (int round = 0; round < kRounds / 10; ++round) {
      tenon_storage* storage = open_name(lent.handle);
      tenon_weak* weak = nullptr;
      REQUIRE_OK(tenon_weak_ref(storage, &weak, err));
      in_threads([&](int id) {
        if (id == 0) {
          tenon_storage_release(storage);
        } else if (tenon_storage* locked =
                       id % 2 == 0 ? tenon_weak_lock(weak) : open_name(lent.handle)) {
          CHECK(shows_pattern(locked, 1));
          tenon_storage_release(locked);
        }
      });
      CHECK(tenon_weak_expired(weak));
      tenon_weak_release(weak);
    }
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);
  });
}

}  // namespace
}  // namespace names
