// One object of memory is one storage in a process, in whichever way the process reached it.
#include "process/filename/agent.h"

namespace names {
namespace {

bool is_one(const tenon_storage* a, const tenon_storage* b) {
  return a == b && tenon_storage_id(a) == tenon_storage_id(b) &&
         tenon_storage_same_memory(a, b) == 1;
}

bool are_two_of_one_memory(const tenon_storage* a, const tenon_storage* b) {
  return a != b && tenon_storage_id(a) != tenon_storage_id(b) &&
         tenon_storage_same_memory(a, b) == 1;
}

tenon_storage* open_fd(const tenon_fd_handle& given, int fd, uint32_t flags,
                       tenon_access access = TENON_ACCESS_AUTO) {
  tenon_fd_handle handle = given;
  handle.fd = fd;
  const tenon_open_options options = fault::open_options(flags, access);
  tenon_storage* storage = nullptr;
  REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
  return storage;
}

TEST(Identity, ByNameTwice) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000);
    tenon_storage* first = open_name(lent.handle);
    tenon_storage* second = open_name(lent.handle);
    CHECK(is_one(first, second));
    CHECK_EQ(tenon_storage_use_count(first), 2);
    tenon_storage_release(first);
    CHECK(shows_pattern(second, 1));
    tenon_storage_release(second);
    // The process has released the storage, so the next opening makes a new object over the same
    // file.
    tenon_storage* third = open_name(lent.handle);
    CHECK(shows_pattern(third, 1));
    tenon_storage_release(third);
  });
}

TEST(Identity, TheMakersOwn) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* file = create({.directory = folder.path()}, 1000);
    tenon_storage* again = open_name(share(file));
    CHECK(is_one(file, again));
    CHECK_EQ(head_of(path_of(share(file))).count, 1);
    tenon_storage* arena = fault::new_storage(1000);
    tenon_storage* by_socket = open_name(share(arena, {.directory = folder.path()}), 0);
    CHECK(is_one(arena, by_socket));
    for (tenon_storage* each : {file, again, by_socket, arena}) let_go(each);
    CHECK(folder.becomes_empty());
  });
}

// A named file is opened by its name and by fd, in either order.
TEST(Identity, AFileByNameAndByFd) {
  for (const bool name_first : {true, false}) {
    IN_FOLDER([name_first](const Folder& folder) {
      Agent maker;
      const Done lent = maker.create_shared({.directory = folder.path()}, 1000);
      int fd = -1;
      const Done by_fd = maker.share_fd(lent.slot, &fd);
      CHECK_SAYING(by_fd.ok() && fd >= 0, by_fd.outcome.text());
      REQUIRE(fd >= 0);
      tenon_storage* a = name_first ? open_name(lent.handle)
                                    : open_fd(by_fd.fd_handle, fd, TENON_OPEN_ALLOW_UNSEALED);
      tenon_storage* b = name_first ? open_fd(by_fd.fd_handle, fd, TENON_OPEN_ALLOW_UNSEALED)
                                    : open_name(lent.handle);
      close(fd);
      CHECK(is_one(a, b));
      CHECK(shows_pattern(a, 1));
      put_pattern(a, 2);
      CHECK(maker.shows(lent.slot, 2));
      CHECK_EQ(head_of(path_of(lent.handle)).count, 2);
      tenon_storage_release(a);
      // In either case this process is now a holder, so the name stays.
      maker.release(lent.slot);
      maker.quit();
      CHECK(exists(path_of(lent.handle)) && shows_pattern(b, 2));
      tenon_storage_release(b);
      CHECK(folder.becomes_empty());
    });
  }
}

TEST(Identity, ASocketsMemoryByNameAndByFd) {
  for (const bool name_first : {true, false}) {
    IN_FOLDER([name_first](const Folder& folder) {
      for (const tenon_mode mode : fault::kModes) {
        Agent lender;
        const Done made = lender.make(mode, 0, 1000, 1);
        const Done lent = lender.share(made.slot, {.directory = folder.path()});
        const Done chosen = lender.share(made.slot, {.directory = folder.path(), .name = "chosen"});
        int fd = -1;
        const Done by_fd = lender.share_fd(made.slot, &fd);
        REQUIRE(fd >= 0);
        tenon_storage* a = name_first ? open_name(lent.handle, 0) : open_fd(by_fd.fd_handle, fd, 0);
        tenon_storage* b = name_first ? open_fd(by_fd.fd_handle, fd, 0) : open_name(lent.handle, 0);
        tenon_storage* c = open_name(chosen.handle, 0);  // another name of the same memory
        close(fd);
        CHECK(is_one(a, b) && is_one(a, c));
        CHECK_EQ(count_memfd_mappings(), 1);
        for (tenon_storage* each : {a, b, c}) tenon_storage_release(each);
        lender.release(made.slot);
      }
    });
  }
}

// The memory comes in a message after it was opened by name, or the other way round.
TEST(Identity, ByMessage) {
  for (const bool name_first : {true, false}) {
    IN_FOLDER([name_first](const Folder& folder) {
      const auto ends = fault::socket_ends();
      const auto names = fault::socket_ends();
      const pid_t maker = fault::spawn([&] {
        close(ends[0]);
        close(names[0]);
        tenon_connection* connection = fault::new_connection(ends[1]);
        tenon_storage* file = create({.directory = folder.path()}, 1000);
        tenon_storage* arena = fault::new_storage(1000, 2);
        put_pattern(file, 1);
        for (tenon_storage* each : {file, arena}) {
          const tenon_filename_handle handle =
              share(each, {.directory = each == arena ? folder.path() : std::string()});
          CHECK(put_packet(names[1], &handle, sizeof handle, -1));
        }
        tenon_message* message = fault::new_message({file, arena});
        REQUIRE_OK(tenon_send(connection, message, nullptr, err));
        char over = 0;
        CHECK_EQ(recv(names[1], &over, 1, 0), 0);
        tenon_message_release(message);
        tenon_connection_release(connection);
        // The child ends with exit() and not with _exit(), because the arena's segment is still
        // lent and so still has its name.
        exit(fault::g_failures == 0 ? 0 : 1);
      });
      close(ends[1]);
      close(names[1]);
      tenon_connection_options options{};
      options.open_flags = TENON_OPEN_ALLOW_UNSEALED;
      tenon_connection* connection = fault::new_connection(ends[0], &options);
      tenon_filename_handle handles[2];
      tenon_storage* by_name[2] = {};
      int none = -1;
      for (tenon_filename_handle& handle : handles)
        REQUIRE(take_packet(names[0], &handle, sizeof handle, &none));
      const auto open_both = [&] {
        for (int i = 0; i < 2; ++i) by_name[i] = open_name(handles[i]);
      };
      if (name_first) open_both();
      tenon_message* message = nullptr;
      REQUIRE_OK(tenon_recv(connection, nullptr, &message, err));
      if (!name_first) open_both();
      for (size_t i = 0; i < 2; ++i) {
        CHECK(is_one(tenon_tensor_storage(tenon_message_tensor(message, i)), by_name[i]));
        CHECK(shows_pattern(by_name[i], i + 1));
      }
      tenon_message_release(message);
      for (tenon_storage* each : by_name) tenon_storage_release(each);
      close(names[0]);
      const int how = fault::wait_for_child(maker);
      CHECK_SAYING(how == 0, fault::describe_status(how));
      tenon_connection_release(connection);
      CHECK(folder.becomes_empty());
    });
  }
}

TEST(Identity, ReadOnlyAndWritableAreTwo) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done file = maker.create_shared({.directory = folder.path()}, 1000);
    const Done made = maker.make(TENON_MODE_SHARED, 0, 1000, 1);
    const Done socket = maker.share(made.slot, {.directory = folder.path()});
    for (const tenon_filename_handle& handle : {file.handle, socket.handle}) {
      tenon_storage* writable = open_name(handle);
      tenon_storage* reader = open_name(handle, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
      tenon_storage* reader_too =
          open_name(handle, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
      CHECK(are_two_of_one_memory(writable, reader));
      CHECK(is_one(reader, reader_too));
      CHECK(!tenon_storage_is_read_only(writable) && tenon_storage_is_read_only(reader));
      put_pattern(writable, 5);
      CHECK(shows_pattern(reader, 5));
      tenon_storage_release(writable);
      CHECK(shows_pattern(reader, 5));
      // The writable storage is opened again while the read-only one stays.
      writable = open_name(handle);
      CHECK(!tenon_storage_is_read_only(writable) && are_two_of_one_memory(writable, reader));
      for (tenon_storage* each : {reader, reader_too, writable}) tenon_storage_release(each);
    }
    CHECK_EQ(head_of(path_of(file.handle)).count, 1);
  });
}

TEST(Identity, PrivateOpensAreNeverShared) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000);
    tenon_storage* shared = open_name(lent.handle);
    std::set<const tenon_storage*> seen{shared};
    std::vector<tenon_storage*> storages;
    for (const uint32_t flags : {uint32_t{TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED},
                                 uint32_t{TENON_OPEN_PRIVATE_COPY}}) {
      for (int i = 0; i < 2; ++i) {
        storages.push_back(open_name(lent.handle, flags));
        CHECK(seen.insert(storages.back()).second);
        CHECK(!tenon_storage_same_memory(storages.back(), shared));
      }
    }
    // Private openings do not get in the way of a later shared one.
    tenon_storage* again = open_name(lent.handle);
    CHECK(is_one(shared, again));
    tenon_storage_release(again);
    for (tenon_storage* each : storages) tenon_storage_release(each);
    tenon_storage_release(shared);
  });
}

TEST(Identity, RangesOfOneFileShareAMapping) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000);
    std::vector<tenon_storage*> storages;
    std::set<tenon_storage*> distinct;
    for (const uint64_t offset : {0, 100, 200}) {
      for (const uint64_t nbytes : {100, 200}) {
        for (int twice = 0; twice < 2; ++twice) {
          storages.push_back(open_name(handle_to(lent.handle.name, nbytes, offset)));
          distinct.insert(storages.back());
        }
      }
    }
    CHECK_EQ(distinct.size(), 6);
    CHECK_EQ(count_mappings_of(folder.path().c_str()), 1);
    CHECK_EQ(head_of(path_of(lent.handle)).count, 2);
    for (tenon_storage* each : storages) tenon_storage_release(each);
    CHECK_EQ(count_mappings_of(folder.path().c_str()), 0);
  });
}

// A file that has grown is opened with its new size.
TEST(Identity, AFileThatGrew) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("a");
    const int fd = plant_open(path, {.count = 1}, 100);
    tenon_storage* small = open_name(handle_to(path, 100));
    REQUIRE(posix_fallocate(fd, 0, 64 + 10000) == 0);
    tenon_storage* large = open_name(handle_to(path, 10000));
    CHECK_EQ(tenon_storage_nbytes(large), 10000);
    put_pattern(large, 3);
    CHECK(std::memcmp(tenon_storage_data(small), tenon_storage_data(large), 100) == 0);
    tenon_storage_release(small);
    CHECK(shows_pattern(large, 3));
    tenon_storage_release(large);
    CHECK_EQ(head_of(path).count, 1);
    close(fd);
    unlink(path.c_str());
  });
}

TEST(Identity, ANameThatMeansAnotherFileByNow) {
  IN_FOLDER([](const Folder& folder) {
    Agent first, second;
    const Naming naming{.directory = folder.path(), .name = "weights"};
    const Done old = first.create_shared(naming, 1000, 1);
    tenon_storage* before = open_name(old.handle);
    REQUIRE(first.unlink(old.handle.name).ok());
    const Done made = second.create_shared(naming, 1000, 2);
    tenon_storage* after = open_name(made.handle);
    CHECK(std::strcmp(old.handle.name, made.handle.name) == 0);
    CHECK(before != after && tenon_storage_id(before) != tenon_storage_id(after) &&
          !tenon_storage_same_memory(before, after));
    CHECK(shows_pattern(before, 1) && shows_pattern(after, 2));
    tenon_storage_release(before);
    CHECK(exists(path_of(made.handle)));
    tenon_storage* again = open_name(made.handle);
    CHECK(is_one(after, again));
    tenon_storage_release(again);
    tenon_storage_release(after);
  });
}

TEST(Identity, WeakReferences) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000);
    tenon_storage* storage = open_name(lent.handle);
    const uint64_t id = tenon_storage_id(storage);
    tenon_weak* weak = nullptr;
    REQUIRE_OK(tenon_weak_ref(storage, &weak, err));
    tenon_storage* locked = tenon_weak_lock(weak);
    CHECK(locked == storage);
    tenon_storage_release(locked);
    tenon_storage_release(storage);
    CHECK(tenon_weak_expired(weak) && tenon_weak_lock(weak) == nullptr);
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);  // a weak reference holds no name
    storage = open_name(lent.handle);
    CHECK(tenon_storage_id(storage) != id && tenon_weak_id(weak) == id && tenon_weak_expired(weak));
    tenon_storage_release(storage);
    tenon_weak_release(weak);
  });
}

}  // namespace
}  // namespace names
