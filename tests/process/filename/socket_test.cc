// These tests use names that are sockets: the lender hands out sealed memory of an arena under a
// name for as long as it holds the memory.
#include <map>

#include "process/filename/agent.h"
#include "support/unix_socket.h"

namespace names {
namespace {

TEST(Socket, EveryModeAsItsSealsAllow) {
  IN_FOLDER([](const Folder& folder) {
    for (const tenon_mode mode : fault::kModes) {
      for (const uint32_t flags : {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}}) {
        Agent lender;
        const Done made = lender.make(mode, flags, 10000, 7);
        const Done lent = lender.share(made.slot, {.directory = folder.path()});
        CHECK_SAYING(lent.ok(), lent.outcome.text());
        const std::string path = path_of(lent.handle);
        CHECK(S_ISSOCK(look(path).st_mode));
        CHECK_EQ(look(path).st_mode & 0777, 0600);
        const bool writable = mode == TENON_MODE_SHARED;
        CHECK_EQ(lent.handle.access, writable ? TENON_ACCESS_WRITABLE : TENON_ACCESS_READ_ONLY);
        tenon_storage* storage = open_name(lent.handle, 0);  // sealed, so nothing to allow
        CHECK(tenon_storage_is_sealed(storage));
        CHECK_EQ(tenon_storage_mode(storage), mode);
        CHECK_EQ(tenon_storage_is_read_only(storage), !writable);
        CHECK(shows_pattern(storage, 7));
        if (writable) {
          put_pattern(storage, 8);
          CHECK(lender.shows(made.slot, 8));
        } else {
          void* data = nullptr;
          CHECK_STATUS(TENON_PERMISSION, tenon_storage_data_mut(storage, &data, err));
          tenon_storage* other = nullptr;
          CHECK_NAMES(TENON_PERMISSION, path,
                      try_open(lent.handle, &other, 0, TENON_ACCESS_WRITABLE));
        }
        if (mode == TENON_MODE_LENDER_WRITES) {
          CHECK(lender.fill(made.slot, 9).ok());
          CHECK(shows_pattern(storage, 9));
        }
        tenon_storage_release(storage);
        storage = open_name(lent.handle, 0, TENON_ACCESS_READ_ONLY);
        CHECK(tenon_storage_is_read_only(storage));
        tenon_storage_release(storage);
        lender.release(made.slot);
        lender.quit();
        CHECK(folder.becomes_empty());
      }
    }
  });
}

// Asks a socket for its fd with raw bytes, as a program without Tenon would.
int ask_by_hand(const std::string& path, uint32_t* access, uint64_t* nbytes) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  REQUIRE(tenon::test::connect_path(socket, path));
  const uint32_t request[2] = {0x31536e54, 1};
  REQUIRE(send(socket, request, sizeof request, 0) == sizeof request);
  struct {
    uint32_t magic;
    int32_t code;
    uint32_t access;
    uint32_t zero;
    uint64_t nbytes;
  } answer{};
  int fd = -1;
  REQUIRE(take_packet(socket, &answer, sizeof answer, &fd));
  CHECK_EQ(answer.magic, 0x31536e54);
  CHECK_EQ(answer.code, 0);
  CHECK_EQ(answer.zero, 0);
  *access = answer.access;
  *nbytes = answer.nbytes;
  close(socket);
  return fd;
}

TEST(Socket, ReadOnlyIsKeptByTheKernel) {
  IN_FOLDER([](const Folder& folder) {
    for (const tenon_mode mode : fault::kModes) {
      Agent lender;
      const Done made = lender.make(mode, 0, 5000, 1);
      const Done lent = lender.share(made.slot, {.directory = folder.path()});
      REQUIRE(lent.ok());
      uint32_t access = 0;
      uint64_t nbytes = 0;
      const int fd = ask_by_hand(path_of(lent.handle), &access, &nbytes);
      REQUIRE(fd >= 0);
      struct stat info{};
      REQUIRE(fstat(fd, &info) == 0);
      CHECK_EQ(info.st_size, nbytes);
      CHECK_EQ(access, lent.handle.access);
      const int seals = fcntl(fd, F_GET_SEALS);
      CHECK((seals & F_SEAL_SHRINK) != 0);
      void* const writable = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      CHECK_EQ(writable != MAP_FAILED, mode == TENON_MODE_SHARED);
      if (writable != MAP_FAILED) munmap(writable, 4096);
      if (mode != TENON_MODE_SHARED) {
        void* const readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(readable != MAP_FAILED);
        CHECK(mprotect(readable, 4096, PROT_READ | PROT_WRITE) != 0);
        munmap(readable, 4096);
        CHECK(pwrite(fd, "x", 1, 0) < 0);
        const int again =
            ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC);
        if (again >= 0) {
          CHECK(pwrite(again, "x", 1, 0) < 0);
          CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
          close(again);
        }
      }
      close(fd);
      CHECK(lender.shows(made.slot, 1));
      lender.release(made.slot);
    }
  });
}

// One name holds one segment. Storages in the same segment share the name and differ by offset.
TEST(Socket, ManyStoragesUnderOneName) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    std::map<int, tenon_filename_handle> handles;
    std::set<std::string> leaves;
    for (uint64_t i = 0; i < 200; ++i) {
      const Done made = lender.make(TENON_MODE_SHARED, 0, 1000 + i, i);
      const Done lent = lender.share(made.slot, {.directory = folder.path()});
      REQUIRE(lent.ok());
      handles[made.slot] = lent.handle;
      leaves.insert(lent.handle.name);
    }
    CHECK_EQ(leaves.size(), 1);
    CHECK_EQ(folder.leaves().size(), 1);
    std::vector<tenon_storage*> storages;
    std::set<uint64_t> offsets;
    for (const auto& [slot, handle] : handles) {
      CHECK(offsets.insert(handle.offset).second);
      storages.push_back(open_name(handle, 0));
      CHECK(shows_pattern(storages.back(), tenon_storage_nbytes(storages.back()) - 1000));
    }
    // All of them share one mapping.
    CHECK_EQ(count_memfd_mappings(), 1);
    // The name belongs to the segment. It stays for the storages that are left, and is removed with
    // the last one.
    const auto first = handles.begin();
    for (const auto& [slot, handle] : handles) {
      if (slot != first->first) lender.release(slot);
    }
    CHECK_EQ(folder.leaves().size(), 1);
    tenon_storage* again = open_name(first->second, 0);
    CHECK(again == storages.front());
    tenon_storage_release(again);
    lender.release(first->first);
    CHECK(folder.becomes_empty());
    tenon_storage* gone = nullptr;
    CHECK_NAMES(TENON_NOT_FOUND, path_of(first->second), try_open(first->second, &gone, 0));
    for (tenon_storage* storage : storages) tenon_storage_release(storage);
    CHECK_EQ(count_memfd_mappings(), 0);
  });
}

TEST(Socket, AChosenNameGoesWithItsStorage) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done a = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    const Done b = lender.make(TENON_MODE_SHARED, 0, 100, 2);
    const Done lent_a = lender.share(a.slot, {.directory = folder.path(), .name = "a"});
    const Done lent_b = lender.share(b.slot, {.directory = folder.path(), .name = "b"});
    const Done plain = lender.share(b.slot, {.directory = folder.path()});
    CHECK(std::string(lent_a.handle.name) == folder.at("a"));
    CHECK_EQ(folder.leaves().size(), 3);
    tenon_storage* storage = open_name(lent_a.handle, 0);
    CHECK(shows_pattern(storage, 1));
    lender.release(a.slot);
    CHECK(is_gone(folder.at("a")));
    CHECK(exists(folder.at("b")) && exists(path_of(plain.handle)));
    CHECK(shows_pattern(storage, 1));
    // The name is free and means another storage by now.
    const Done c = lender.make(TENON_MODE_FROZEN, 0, 100, 3);
    REQUIRE(lender.share(c.slot, {.directory = folder.path(), .name = "a"}).ok());
    tenon_storage* other = open_name(handle_to(folder.at("a"), 100), 0);
    CHECK(shows_pattern(other, 3) && other != storage &&
          !tenon_storage_same_memory(other, storage));
    tenon_storage_release(other);
    tenon_storage_release(storage);
    lender.release(b.slot);
    lender.release(c.slot);
    CHECK(folder.becomes_empty());
  });
}

TEST(Socket, TheSameNameForTheSameStorageTwice) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100);
    const Naming naming{.directory = folder.path(), .name = "a"};
    const tenon_filename_handle first = share(storage, naming);
    const tenon_filename_handle second = share(storage, naming);
    CHECK(std::strcmp(first.name, second.name) == 0 && first.offset == second.offset);
    // Another storage cannot have the name.
    tenon_storage* other = fault::new_storage(100);
    tenon_filename_handle handle = blank_handle();
    CHECK_NAMES(TENON_PERMISSION, folder.at("a"), try_share(other, naming, &handle));
    tenon_storage_release(other);
    let_go(storage);
  });
}

TEST(Socket, OtherOptionsDoNotMakeASocketEachTime) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = fault::new_storage(100);
    share(storage, {.directory = folder.path()});
    for (int i = 0; i < 20; ++i) share(storage, {.directory = folder.path(), .mode = 0644});
    CHECK_SAYING(folder.leaves().size() <= 2, std::to_string(folder.leaves().size()) + " sockets");
    let_go(storage);
    CHECK(folder.becomes_empty());
  });
}

TEST(Socket, ABorrowerLendsOn) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender, borrower;
    for (const tenon_mode mode : fault::kModes) {
      const Done made = lender.make(mode, 0, 3000, 4);
      const Done lent = lender.share(made.slot, {.directory = folder.path()});
      const Done held = borrower.open(lent.handle, 0);
      REQUIRE(held.ok());
      const Done forwarded =
          borrower.share(held.slot, {.directory = folder.path(), .name = "forwarded"});
      CHECK_SAYING(forwarded.ok(), forwarded.outcome.text());
      CHECK_EQ(forwarded.handle.access, lent.handle.access);
      lender.release(made.slot);  // the first lender has released it
      tenon_storage* storage = open_name(forwarded.handle, 0);
      CHECK(shows_pattern(storage, 4));
      CHECK_EQ(tenon_storage_mode(storage), mode);
      tenon_storage_release(storage);
      borrower.release(held.slot);
      CHECK(is_gone(folder.at("forwarded")));
    }
  });
}

TEST(Socket, TheLendersExitTakesTheNames) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    const Done lent = lender.share(made.slot, {.directory = folder.path()});
    REQUIRE(lender.share(made.slot, {.directory = folder.path(), .name = "chosen"}).ok());
    tenon_storage* storage = open_name(lent.handle, 0);
    lender.quit();  // while both names are still lent
    CHECK(folder.becomes_empty());
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(storage);
  });
}

// A storage in a static object is released after the library has ended its names.
TEST(Socket, AStorageOutlivesTheExitOfItsNames) {
  IN_FOLDER([](const Folder& folder) {
    const pid_t child = fault::spawn([&folder] {
      static tenon_storage* storage = nullptr;
      // This handler is registered before the library's own, so it runs after it.
      std::atexit([] { tenon_storage_release(storage); });
      storage = fault::new_storage(100, 1);
      (void)share(storage, {.directory = folder.path()});
      (void)share(storage, {.directory = folder.path(), .name = "chosen"});
      CHECK_EQ(folder.leaves().size(), 2);
      std::fflush(nullptr);
      std::exit(fault::g_failures == 0 ? 0 : 1);
    });
    const int how = fault::wait_for_child(child);
    CHECK_SAYING(how == 0, fault::describe_status(how));
    CHECK(folder.becomes_empty());
  });
}

TEST(Socket, LeavingTakesTheNames) {
  IN_FOLDER([](const Folder& folder) {
    const pid_t child = fault::spawn([&folder] {
      const Naming naming{.directory = folder.path()};
      tenon_storage* storage = fault::new_storage(100, 1);
      (void)share(storage, naming);
      const tenon_filename_handle in_flight =
          share(fault::new_storage(100, 2),
                {.directory = folder.path(), .flags = TENON_FILENAME_IN_FLIGHT});
      CHECK(exists(path_of(in_flight)));
      tenon_filename_leave();
      CHECK(folder.leaves().empty());
      // A process that goes on can lend again.
      const tenon_filename_handle again = share(storage, naming);
      CHECK(S_ISSOCK(look(path_of(again)).st_mode));
      Agent borrower;
      const Done opened = borrower.open(again);
      CHECK_SAYING(opened.ok(), opened.outcome.text());
      CHECK(borrower.shows(opened.slot, 1));
      borrower.quit();
      tenon_filename_leave();
      std::fflush(nullptr);
      _exit(fault::g_failures == 0 ? 0 : 1);
    });
    const int how = fault::wait_for_child(child);
    CHECK_SAYING(how == 0, fault::describe_status(how));
    CHECK(folder.leaves().empty());
  });
}

// The forked child of a lender serves nothing and keeps no name, and can lend by itself.
TEST(Socket, AForkChildServesNothing) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    const Done lent = lender.share(made.slot, {.directory = folder.path()});
    Agent child = lender.fork_child();
    tenon_storage* storage = open_name(lent.handle, 0);
    tenon_storage_release(storage);
    child.release(made.slot);
    CHECK(exists(path_of(lent.handle)));
    storage = open_name(lent.handle, 0);
    const Done own = child.make(TENON_MODE_SHARED, 0, 100, 2);
    const Done from_child = child.share(own.slot, {.directory = folder.path()});
    REQUIRE(from_child.ok());
    CHECK(std::strcmp(from_child.handle.name, lent.handle.name) != 0);
    tenon_storage* other = open_name(from_child.handle, 0);
    CHECK(shows_pattern(other, 2));
    lender.kill();
    // The child still lives, but the borrower sees that no process serves the name any more.
    CHECK(is_gone(path_of(lent.handle)));
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(other);
    tenon_storage_release(storage);
    child.quit();
  });
}

// The names are too long for a sockaddr.
TEST(Socket, LongPaths) {
  IN_FOLDER([](const Folder& folder) {
    Agent lender;
    const Done made = lender.make(TENON_MODE_SHARED, 0, 100, 1);
    const std::string name(200, 'n');
    const Done lent = lender.share(made.slot, {.directory = folder.path(), .name = name});
    CHECK_SAYING(lent.ok(), lent.outcome.text());
    tenon_storage* storage = open_name(lent.handle, 0);
    CHECK(shows_pattern(storage, 1));
    tenon_storage_release(storage);
    lender.kill();
    CHECK(folder.becomes_empty());  // this process has watched the folder since it opened the name
  });
}

}  // namespace
}  // namespace names
