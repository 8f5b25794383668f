// These tests check what a borrower can reach. It cannot make the fd of a LENDER_WRITES arena
// writable, it cannot read an isolated neighbour, and it does not find what an earlier borrower was
// lent.
#include "process/lease/agent.h"

namespace leases {
namespace {

constexpr uint64_t kNbytes = 100'000;

// The fd and the mapping that a borrower has of an arena. The borrower is this test's process, and
// the lender is another process.
struct Borrowed {
  Agent lender;
  int arena;
  int storage;
  int connection = -1;
  tenon_connection* here = nullptr;
  tenon_message* message = nullptr;
  explicit Borrowed(tenon_mode mode)
      : arena(lender.arena(kMiB, mode)), storage(lender.make(arena, kNbytes, 5).object) {
    const auto ends = fault::socket_ends();
    connection = lender.connect(ends[1]);
    here = fault::new_connection(ends[0]);
    lender.send(connection, storage);
    message = receive(here);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    tenon_message_release(message);
    tenon_connection_release(here);
  }
  tenon_storage* opened() const { return tenon_tensor_storage(tenon_message_tensor(message, 0)); }
};

// Returns this process's fd of the file that is mapped at `address`.
int fd_of_mapping(const void* address) {
  std::ifstream file("/proc/self/maps");
  unsigned long inode = 0;
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) != 3) continue;
    const auto at = reinterpret_cast<unsigned long>(address);
    if (at >= begin && at < end) break;
    inode = 0;
  }
  for (int fd = 3; fd < 200 && inode != 0; ++fd) {
    struct stat info{};
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_ino == inode) return fd;
  }
  return -1;
}

TEST(Access, ABorrowerOfAReadOnlyArenaCannotWrite) {
  IN_CHILD([] {
    Borrowed borrowed(TENON_MODE_LENDER_WRITES);
    tenon_storage* storage = borrowed.opened();
    CHECK_EQ(tenon_storage_is_read_only(storage), 1);
    CHECK_EQ(tenon_storage_mode(storage), TENON_MODE_LENDER_WRITES);
    void* data = nullptr;
    CHECK_STATUS(TENON_PERMISSION, tenon_storage_data_mut(storage, &data, err));
    CHECK_STATUS(TENON_PERMISSION, tenon_storage_write(storage, 0, "x", 1, err));
    // The borrower tries every way that the kernel offers besides the library.
    auto* const bytes = const_cast<void*>(tenon_storage_data(storage));
    auto* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(bytes) / 4096 * 4096);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
    const int fd = fd_of_mapping(bytes);
    REQUIRE(fd >= 0);
    CHECK(pwrite(fd, "x", 1, 0) < 0);
    CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
    CHECK(ftruncate(fd, 0) != 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
    CHECK(madvise(page, 4096, MADV_REMOVE) != 0);
    // The fd can be opened again for writing, but the seal still refuses each mapping and each
    // write.
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const int again = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (again >= 0) {
      CHECK(pwrite(again, "x", 1, 0) < 0 && errno == EPERM);
      CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED &&
            errno == EPERM);
      CHECK(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
      CHECK(ftruncate(again, 0) != 0 && ftruncate(again, 1 << 24) != 0);
      close(again);
    }
    // A debugger writes memory through this file.
    const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (memory >= 0) {
      CHECK(pwrite(memory, "x", 1, static_cast<off_t>(reinterpret_cast<uintptr_t>(bytes))) < 0);
      close(memory);
    }
    CHECK(names::shows_pattern(storage, 5));
    CHECK(borrowed.lender.shows(borrowed.storage, 5));
  });
}

TEST(Access, ABorrowerOfASharedArenaWrites) {
  IN_CHILD([] {
    Borrowed borrowed(TENON_MODE_SHARED);
    tenon_storage* storage = borrowed.opened();
    CHECK_EQ(tenon_storage_is_read_only(storage), 0);
    names::put_pattern(storage, 9);
    CHECK(borrowed.lender.shows(borrowed.storage, 9));
    // Only the lender may change the size.
    const int fd = fd_of_mapping(tenon_storage_data(storage));
    REQUIRE(fd >= 0);
    CHECK(ftruncate(fd, 0) != 0 && ftruncate(fd, 1 << 24) != 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  });
}

// A borrower can read the whole arena. An isolated storage is not in the arena.
TEST(Access, AnIsolatedNeighbourCannotBeRead) {
  IN_CHILD([] {
    const std::string secret = "the quick brown secret " + std::to_string(getpid());
    const std::string open_word = "the quick brown neighbour " + std::to_string(getpid());
    const auto holding = [](const std::string& text, tenon_arena* arena, uint32_t flags) {
      tenon_storage_options options = born_in(arena);
      options.flags = flags;
      tenon_storage* storage = nullptr;
      REQUIRE_OK(tenon_storage_new_from(&options, text.data(), text.size(), &storage, err));
      return storage;
    };
    const Arena arena(kMiB);
    for (tenon_arena* home : {arena.get(), static_cast<tenon_arena*>(nullptr)}) {
      tenon_storage* lent = holding("lent", home, 0);
      tenon_storage* neighbour = holding(open_word, home, 0);
      tenon_storage* isolated = holding(secret, nullptr, TENON_STORAGE_ISOLATED);
      const auto ends = fault::socket_ends();
      const pid_t borrower = fault::spawn([&] {
        // The exec drops what this child inherited, so that the child knows only what came over the
        // socket.
        execl("/proc/self/exe", "scan", "--scan", std::to_string(dup(ends[1])).c_str(),
              secret.c_str(), open_word.c_str(), nullptr);
      });
      close(ends[1]);
      tenon_connection* here = fault::new_connection(ends[0]);
      lend(here, {lent});
      CHECK_EQ(fault::wait_for_child(borrower), 0);
      tenon_connection_release(here);
      tenon_storage_release(lent);
      tenon_storage_release(neighbour);
      tenon_storage_release(isolated);
    }
  });
}

// The borrower searches everything that it can read for the two texts.
int scan(int socket, const std::string& secret, const std::string& open_word) {
  tenon_connection* connection = fault::new_connection(socket);
  tenon_message* message = receive(connection);
  const int fd =
      fd_of_mapping(tenon_storage_data(tenon_tensor_storage(tenon_message_tensor(message, 0))));
  REQUIRE(fd >= 0);
  struct stat info{};
  REQUIRE(fstat(fd, &info) == 0);
  std::string all(static_cast<size_t>(std::min<off_t>(info.st_blocks * 512, 64 << 20)), '\0');
  REQUIRE(pread(fd, all.data(), all.size(), 0) > 0);
  // The second text shows that the search finds a text that is there.
  CHECK(all.find(secret) == std::string::npos);
  CHECK(all.find(open_word) != std::string::npos);
  tenon_message_release(message);
  tenon_connection_release(connection);
  return fault::g_failures == 0 ? 0 : 1;
}

bool all_zero(const unsigned char* bytes, uint64_t begin, uint64_t end) {
  return std::all_of(bytes + begin, bytes + end, [](unsigned char each) { return each == 0; });
}

// A lease ends by its bit on the lease page or by the death of its borrower.
TEST(Access, AReusedBlockIsCleared) {
  for (const bool killed : {false, true}) {
    IN_CHILD([killed] {
      const Arena arena(kMiB);
      // The test runs for the arena and for the library's own arena.
      for (tenon_arena* home : {arena.get(), static_cast<tenon_arena*>(nullptr)}) {
        const tenon_storage_options options = born_in(home);
        // The library's own arena starts an empty segment anew, and a block there has no tail of
        // the last storage. So one storage stays.
        tenon_storage* stays = nullptr;
        REQUIRE_OK(tenon_storage_new(&options, 64, &stays, err));
        for (const bool from : {false, true}) {
          Agent borrower;
          const Link link(&borrower);
          // The whole block is given out again, so the smaller storage leaves a tail in it.
          tenon_storage* storage = nullptr;
          REQUIRE_OK(tenon_storage_new(&options, 10'240, &storage, err));
          names::put_pattern(storage, 6);
          const auto* const first = static_cast<const unsigned char*>(tenon_storage_data(storage));
          lend(link.here, {storage});
          const int message = borrower.receive(link.there).object;
          tenon_storage_release(storage);
          if (killed) {
            borrower.kill();
          } else {
            borrower.release(message);
          }
          CHECK(wait_until([] { return leases_standing() == 0; }));
          const std::vector<unsigned char> mine = fault::pattern(9'500, 8);
          if (from) {
            REQUIRE_OK(tenon_storage_new_from(&options, mine.data(), mine.size(), &storage, err));
          } else {
            REQUIRE_OK(tenon_storage_new(&options, mine.size(), &storage, err));
          }
          const auto* const bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
          CHECK(bytes == first);
          CHECK(from ? std::memcmp(bytes, mine.data(), mine.size()) == 0
                     : all_zero(bytes, 0, 9'500));
          CHECK(all_zero(bytes, 9'500, 10'240));
          tenon_storage_release(storage);
        }
        tenon_storage_release(stays);
      }
    });
  }
}

// Memory that was never lent is not cleared when it is used again. A caller that needs zeros sets
// TENON_STORAGE_ZEROED.
TEST(Access, WhatWasNeverLentIsWarm) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage_release(new_in(arena, 10'000, 6));
    tenon_storage* storage = nullptr;
    REQUIRE(try_new(arena, 10'000, &storage).ok());
    CHECK(names::shows_pattern(storage, 6));
    tenon_storage_release(storage);
  });
}

// Makes a storage with the pattern of seed 6, lends it and releases it. Returns where its block,
// which is free again, lies in the arena.
const unsigned char* lent_and_back(tenon_arena* arena, uint64_t nbytes) {
  fault::Pair pair(SOCK_STREAM);
  tenon_storage* storage = new_in(arena, nbytes, 6);
  const auto* const bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
  lend(pair.left, {storage});
  tenon_storage_release(storage);
  tenon_message_release(receive(pair.right));
  CHECK(wait_until([] { return leases_standing() == 0; }));
  return bytes;
}

tenon_storage* new_with(tenon_arena* arena, uint32_t flags, uint64_t nbytes) {
  tenon_storage_options options = born_in(arena);
  options.flags = flags;
  tenon_storage* storage = nullptr;
  REQUIRE_OK(tenon_storage_new(&options, nbytes, &storage, err));
  return storage;
}

// The caller fills the storage, so clearing it first would be wasted. Nobody fills the tail of its
// block.
TEST(Access, AReusedBlockIsNotClearedIfTheCallerFillsIt) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    const unsigned char* const first = lent_and_back(arena, 10'240);
    tenon_storage* storage = new_with(arena, TENON_STORAGE_WILL_FILL, 9'500);
    const auto* const bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
    CHECK(bytes == first);
    const std::vector<unsigned char> old = fault::pattern(9'500, 6);
    CHECK(std::memcmp(bytes, old.data(), old.size()) == 0);
    CHECK(all_zero(bytes, 9'500, 10'240));
    tenon_storage_release(storage);
  });
}

// A caller that promised to fill a storage may fail before it does so, and release the storage
// unlent. The next storage in the block is cleared all the same.
TEST(Access, ABlockThatNobodyFilledIsClearedForTheNextStorage) {
  for (const bool lent : {false, true}) {
    IN_CHILD([lent] {
      const Arena arena(kMiB);
      const unsigned char* const first = lent_and_back(arena, 10'240);
      tenon_storage* storage = new_with(arena, TENON_STORAGE_WILL_FILL, 10'240);
      if (lent) {
        fault::Pair pair(SOCK_STREAM);
        lend(pair.left, {storage});
        tenon_message_release(receive(pair.right));
        CHECK(wait_until([] { return leases_standing() == 0; }));
      }
      tenon_storage_release(storage);
      storage = new_with(arena, 0, 10'240);
      const auto* const bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
      CHECK(bytes == first);
      CHECK(all_zero(bytes, 0, 10'240));
      tenon_storage_release(storage);
    });
  }
}

// A freed block can consist of memory that was lent and memory that was not. It is cleared.
TEST(Access, PartsOfALentBlockAreCleared) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    fault::Pair pair(SOCK_STREAM);
    std::vector<tenon_storage*> all;
    for (uint64_t i = 0; i < 16; ++i) all.push_back(new_in(arena, kMiB / 16, i));
    lend(pair.left, {all[7]});
    for (tenon_storage* each : all) tenon_storage_release(each);
    tenon_message_release(receive(pair.right));
    CHECK(wait_until([] { return leases_standing() == 0; }));
    tenon_storage* whole = nullptr;
    REQUIRE(try_new(arena, kMiB, &whole, kPatienceNs).ok());
    const auto* const bytes = static_cast<const unsigned char*>(tenon_storage_data(whole));
    CHECK(all_zero(bytes, kMiB / 16 * 7, kMiB / 16 * 8));
    tenon_storage_release(whole);
  });
}

}  // namespace

// The main function in main.cc calls this.
int scan_as_told(char** argv);
int scan_as_told(char** argv) {
  alarm(fault::kWatchdogSeconds);
  return scan(std::atoi(argv[2]), argv[3], argv[4]);
}

}  // namespace leases
