// These tests check named files: the handle, the bytes on disk that PyTorch reads, and opening in a
// process that has only the handle.
#include "process/filename/agent.h"

namespace names {
namespace {

TEST(Handle, Fields) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = create({.directory = folder.path()}, 1000);
    CHECK(tenon_storage_is_shared(storage) && !tenon_storage_is_sealed(storage) &&
          !tenon_storage_is_read_only(storage));
    CHECK_EQ(tenon_storage_mode(storage), TENON_MODE_SHARED);
    const tenon_filename_handle handle = share(storage);
    CHECK_EQ(handle.struct_size, sizeof handle);
    CHECK_EQ(handle.access, TENON_ACCESS_WRITABLE);
    CHECK_EQ(handle.offset, 0);
    CHECK_EQ(handle.nbytes, 1000);
    CHECK_EQ(handle.reserved, 0);
    CHECK(handle.manager[0] == '\0');
    const std::string name = handle.name;
    CHECK_SAYING(
        name.starts_with(folder.at("tenon-")) && name.size() == folder.at("tenon-").size() + 32,
        name);
    // The name is the same each time, because lending makes nothing new.
    CHECK(name == share(storage).name);
    CHECK_EQ(folder.leaves().size(), 1);
    tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

TEST(Handle, NamesAreUnguessableAndPrefixAndNameAreOptions) {
  IN_FOLDER([](const Folder& folder) {
    std::set<std::string> seen;
    std::vector<tenon_storage*> storages;
    for (int i = 0; i < 50; ++i) {
      storages.push_back(create({.directory = folder.path(), .prefix = "run 7,"}, 8));
      const std::string leaf = share(storages.back()).name + folder.path().size() + 1;
      CHECK_SAYING(leaf.starts_with("run 7,") &&
                       leaf.find_first_not_of("0123456789abcdef", 6) == std::string::npos &&
                       leaf.size() == 38,
                   leaf);
      CHECK(seen.insert(leaf).second);
      // Names are neither counters nor dates: no two share their first 64 bits.
      CHECK(seen.insert(leaf.substr(6, 16)).second);
    }
    storages.push_back(create({.directory = folder.path() + "//", .name = "weights"}, 8));
    CHECK(share(storages.back()).name == folder.at("weights"));
    for (tenon_storage* storage : storages) tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

TEST(Handle, DefaultDirectory) {
  IN_CHILD([] {
    tenon_storage* storage = create({}, 8);
    const tenon_filename_handle handle = share(storage);
    const std::string name = handle.name;
    CHECK_SAYING(name.starts_with("/tenon-") && name.size() == 7 + 32, name);
    CHECK(exists("/dev/shm" + name));
    tenon_storage_release(storage);
    CHECK(is_gone("/dev/shm" + name));
    const std::string chosen = "names-test-" + std::to_string(getpid());
    storage = create({.directory = "/dev/shm/", .name = chosen}, 8);
    CHECK(share(storage).name == "/" + chosen);
    tenon_storage_release(storage);
    CHECK(is_gone("/dev/shm/" + chosen));
  });
}

// PyTorch reads the count at 0 and the payload at 64, in a file of exactly 64 + n bytes.
TEST(File, BytesArePyTorchs) {
  IN_FOLDER([](const Folder& folder) {
    const int64_t before = real_time_ns();
    tenon_storage* storage = create({.directory = folder.path(), .name = "a"}, 1000);
    put_pattern(storage, 3);
    const struct stat info = look(folder.at("a"));
    CHECK(S_ISREG(info.st_mode));
    CHECK_EQ(info.st_mode & 07777, 0600);
    CHECK_EQ(info.st_size, 1064);
    CHECK_EQ(info.st_uid, geteuid());
    CHECK_EQ(info.st_nlink, 1);
    const Head head = head_of(folder.at("a"));
    CHECK_EQ(head.count, 1);
    CHECK_EQ(head.magic, kMagic);
    CHECK_EQ(head.in_flight, 0);
    CHECK_EQ(head.maker_pid, getpid());
    CHECK_EQ(head.nbytes, 1000);
    CHECK(head.made_ns >= before && head.made_ns <= real_time_ns());
    CHECK_EQ(head.keep_until_ns, 0);
    CHECK_EQ(head.maker_pid_namespace, [] {
      struct stat space{};
      REQUIRE(stat("/proc/self/ns/pid", &space) == 0);
      return space.st_ino;
    }());
    for (const uint8_t byte : head.zero) CHECK_EQ(byte, 0);
    std::ifstream file(folder.at("a"), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    REQUIRE(all.size() == 1064);
    CHECK(fault::has_pattern(all.data() + 64, 1000, 3));
    file.close();
    tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

// Every page exists before it is first written, so a full directory cannot be a SIGBUS later. New
// memory is zero.
TEST(File, IsReservedAndZero) {
  IN_FOLDER([](const Folder& folder) {
    const uint64_t nbytes = (uint64_t{20} << 20) + 17;
    tenon_storage* storage = create({.directory = folder.path(), .name = "a"}, nbytes);
    CHECK(static_cast<uint64_t>(look(folder.at("a")).st_blocks) * 512 >= nbytes + 64);
    const auto* bytes = static_cast<const unsigned char*>(tenon_storage_data(storage));
    CHECK(bytes[0] == 0 && std::memcmp(bytes, bytes + 1, nbytes - 1) == 0);
    CHECK_EQ(reinterpret_cast<uintptr_t>(bytes) % 64, 0);
    tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

TEST(File, ModesAreThoseAskedForWhateverTheUmask) {
  IN_FOLDER([](const Folder& folder) {
    umask(077);
    for (const uint32_t mode : {0600U, 0640U, 0644U, 0660U, 0666U}) {
      tenon_storage* storage = create({.directory = folder.path(), .name = "a", .mode = mode}, 1);
      CHECK_EQ(look(folder.at("a")).st_mode & 07777, mode);
      tenon_storage_release(storage);
    }
    tenon_storage* storage = create({.directory = folder.path(),
                                     .name = "a",
                                     .flags = TENON_FILENAME_GROUP,
                                     .group = getegid()},
                                    1);
    CHECK_EQ(look(folder.at("a")).st_mode & 07777, 0660);
    CHECK_EQ(look(folder.at("a")).st_gid, getegid());
    tenon_storage_release(storage);
    for (const uint32_t mode : {0200U, 0400U, 0060U, 0700U, 04600U, 0601U, 010600U}) {
      CHECK_EQ(try_create({.directory = folder.path(), .mode = mode}, 1, &storage).status,
               TENON_INVALID_ARGUMENT);
    }
  });
}

TEST(Open, ValuesBothWays) {
  IN_FOLDER([](const Folder& folder) {
    Agent other;
    tenon_storage* storage = create({.directory = folder.path()}, 100000);
    put_pattern(storage, 1);
    const tenon_filename_handle handle = share(storage);
    const Done there = other.open(handle);
    REQUIRE(there.ok());
    CHECK(other.shows(there.slot, 1));
    CHECK(other.fill(there.slot, 2).ok());
    CHECK(shows_pattern(storage, 2));
    put_pattern(storage, 3);
    CHECK(other.shows(there.slot, 3));
    CHECK(other.write(there.slot, 500, 1000, 4).ok());
    CHECK(fault::has_pattern(static_cast<const char*>(tenon_storage_data(storage)) + 500, 1000, 4));
    CHECK_EQ(other.read(there.slot, 500, 1000, 4).value, 1);
    CHECK_EQ(head_of(path_of(handle)).count, 2);
    other.release(there.slot);
    CHECK_EQ(head_of(path_of(handle)).count, 1);
    other.quit();
    tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

// A file is unsealed, so its opener must allow that.
TEST(Open, TakesAllowUnsealed) {
  IN_FOLDER([](const Folder& folder) {
    Agent other;
    const Done lent = other.create_shared({.directory = folder.path()}, 100);
    tenon_storage* storage = nullptr;
    const Outcome refused =
        CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle), try_open(lent.handle, &storage, 0));
    CHECK_SAYING(refused.detail("option") == "ALLOW_UNSEALED", refused.text());
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);  // a failed call counts nothing
    // The same holds for a copy-on-write mapping, whose unwritten pages are the file's. A copy made
    // now cannot meet a shorter file later.
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                try_open(lent.handle, &storage, TENON_OPEN_PRIVATE_COW));
    CHECK(try_open(lent.handle, &storage, TENON_OPEN_PRIVATE_COPY).ok());
    tenon_storage_release(storage);
  });
}

TEST(Open, RangesOfOneFile) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker, other;
    const Done lent = maker.create_shared({.directory = folder.path()}, 1000, 5);
    tenon_storage* whole = open_name(lent.handle);
    CHECK(shows_pattern(whole, 5));
    for (const uint64_t offset :
         {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{999}, uint64_t{1000}}) {
      for (const uint64_t nbytes : {uint64_t{0}, uint64_t{1}, 1000 - offset}) {
        if (offset + nbytes > 1000) continue;
        const tenon_filename_handle part = handle_to(lent.handle.name, nbytes, offset);
        tenon_storage* storage = open_name(part);
        CHECK_EQ(tenon_storage_nbytes(storage), nbytes);
        if (nbytes > 0) {
          CHECK(tenon_storage_data(storage) ==
                static_cast<const char*>(tenon_storage_data(whole)) + offset);
          // A storage that was opened in part is lent on as that part.
          const tenon_filename_handle again = share(storage);
          CHECK(again.offset == offset && again.nbytes == nbytes &&
                std::strcmp(again.name, lent.handle.name) == 0);
          const Done there = other.open(again);
          CHECK(there.ok());
          other.release(there.slot);
        }
        tenon_storage_release(storage);
      }
    }
    tenon_storage_release(whole);
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);
  });
}

TEST(Open, Empty) {
  IN_FOLDER([](const Folder& folder) {
    Agent other;
    // A file that is only a head, as PyTorch makes it.
    tenon_storage* storage = create({.directory = folder.path()}, 0);
    CHECK_EQ(tenon_storage_nbytes(storage), 0);
    CHECK(tenon_storage_data(storage) == nullptr);
    const tenon_filename_handle handle = share(storage);
    CHECK_EQ(look(path_of(handle)).st_size, 64);
    const Done there = other.open(handle);
    CHECK_SAYING(there.ok(), there.outcome.text());
    tenon_storage_release(storage);
    CHECK(exists(path_of(handle)));
    other.release(there.slot);
    CHECK(folder.becomes_empty());
    // An empty storage of any other kind needs no name at either end.
    for (const tenon_mode mode : fault::kModes) {
      storage = fault::new_storage(0, 1, mode);
      const tenon_filename_handle nameless = share(storage, {.directory = folder.path()});
      CHECK(nameless.name[0] == '\0' && nameless.nbytes == 0 && nameless.offset == 0);
      const Done opened = other.open(nameless, 0);
      CHECK_SAYING(opened.ok(), opened.outcome.text());
      tenon_storage_release(storage);
    }
    CHECK(folder.becomes_empty());
  });
}

TEST(Open, PrivateCowAndCopy) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 10000, 1);
    tenon_storage* cow = open_name(lent.handle, TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED);
    tenon_storage* copy = open_name(lent.handle, TENON_OPEN_PRIVATE_COPY);
    tenon_storage* part =
        open_name(handle_to(lent.handle.name, 9000, 1000), TENON_OPEN_PRIVATE_COPY);
    CHECK(!tenon_storage_is_shared(cow) && !tenon_storage_is_shared(copy));
    CHECK(shows_pattern(cow, 1) && shows_pattern(copy, 1));
    CHECK(std::memcmp(tenon_storage_data(part),
                      static_cast<const char*>(tenon_storage_data(copy)) + 1000, 9000) == 0);
    // Private openings are not counted.
    CHECK_EQ(head_of(path_of(lent.handle)).count, 1);
    CHECK(maker.fill(lent.slot, 2).ok());
    // Unwritten pages show later writes of the maker.
    CHECK(shows_pattern(cow, 2) && shows_pattern(copy, 1));
    put_pattern(cow, 3);
    put_pattern(copy, 4);
    CHECK(maker.shows(lent.slot, 2));
    maker.release(lent.slot);
    tenon_storage_release(copy);
    tenon_storage_release(part);
    tenon_storage_release(cow);
    CHECK(folder.becomes_empty());
  });
}

TEST(Open, ReadOnly) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 5000, 1);
    tenon_storage* storage =
        open_name(lent.handle, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
    CHECK(tenon_storage_is_read_only(storage));
    CHECK(shows_pattern(storage, 1));
    void* data = nullptr;
    CHECK_STATUS(TENON_PERMISSION, tenon_storage_data_mut(storage, &data, err));
    CHECK_STATUS(TENON_PERMISSION, tenon_storage_write(storage, 0, "x", 1, err));
    // The MMU enforces it: a store through the pointer ends the process.
    const pid_t child = fault::spawn([&] {
      std::signal(SIGSEGV, SIG_DFL);
      *const_cast<volatile char*>(static_cast<const char*>(tenon_storage_data(storage))) = 1;
    });
    const int how = fault::wait_for_child(child);
    CHECK_SAYING(kSanitized || (WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV),
                 fault::describe_status(how));
    CHECK(how != 0);
    // A reader is a holder: it counts, and the name stays for it.
    CHECK_EQ(head_of(path_of(lent.handle)).count, 2);
    maker.release(lent.slot);
    maker.quit();
    CHECK(exists(path_of(lent.handle)));
    CHECK(shows_pattern(storage, 1));
    // A storage that is held read-only is lent on read-only.
    CHECK_EQ(share(storage).access, TENON_ACCESS_READ_ONLY);
    tenon_storage_release(storage);
    CHECK(folder.becomes_empty());
  });
}

TEST(Share, AFileCannotBeLentReadOnlyToItsOwnUser) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = create({.directory = folder.path()}, 100);
    const std::string path = path_of(share(storage));
    tenon_filename_handle handle = blank_handle();
    const Outcome refused = CHECK_NAMES(
        TENON_PERMISSION, path, try_share(storage, {.access = TENON_ACCESS_READ_ONLY}, &handle));
    CHECK_SAYING(!refused.detail("option").empty(), refused.text());
    // A second name is refused too.
    CHECK_NAMES(TENON_UNSUPPORTED, path, try_share(storage, {.name = "other"}, &handle));
    CHECK(handle.name[0] == '\0' && handle.nbytes == 0);
    tenon_storage_release(storage);
  });
}

// A read-only handle is the lender's promise. The opener keeps it, unless it opens privately.
TEST(Open, AHandleMayAllowLess) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    Done lent = maker.create_shared({.directory = folder.path()}, 100, 1);
    lent.handle.access = TENON_ACCESS_READ_ONLY;
    tenon_storage* storage = nullptr;
    CHECK_NAMES(TENON_PERMISSION, path_of(lent.handle),
                try_open(lent.handle, &storage, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_WRITABLE));
    storage = open_name(lent.handle);
    CHECK(tenon_storage_is_read_only(storage));
    tenon_storage_release(storage);
    storage = open_name(lent.handle, TENON_OPEN_PRIVATE_COPY);
    put_pattern(storage, 2);
    tenon_storage_release(storage);
    lent.handle.access = TENON_ACCESS_AUTO;
    storage = open_name(lent.handle);
    CHECK(!tenon_storage_is_read_only(storage));
    tenon_storage_release(storage);
  });
}

TEST(Stats, NothingIsLeft) {
  IN_FOLDER([](const Folder& folder) {
    Agent maker;
    const Done lent = maker.create_shared({.directory = folder.path()}, 4096, 1);
    const auto round = [&] {
      tenon_storage* own = create({.directory = folder.path()}, 100);
      tenon_storage* opened = open_name(lent.handle);
      tenon_storage* reader =
          open_name(lent.handle, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
      tenon_storage_release(opened);
      tenon_storage_release(reader);
      tenon_storage_release(own);
    };
    round();  // the fds of the folder and of the service thread stay open
    const fault::Held before = fault::hold();
    const long mapped = count_mappings_of(folder.path().c_str());
    for (int i = 0; i < 20; ++i) round();
    CHECK_HELD(before);
    CHECK_EQ(count_mappings_of(folder.path().c_str()), mapped);
    CHECK_EQ(mapped, 0);
    // A name takes no fd.
    std::vector<tenon_storage*> storages;
    for (int i = 0; i < 100; ++i) storages.push_back(create({.directory = folder.path()}, 100));
    CHECK(wait_until([&] { return fault::count_open_fds() == before.fds; }));
    for (tenon_storage* storage : storages) tenon_storage_release(storage);
    CHECK_HELD(before);
  });
}

}  // namespace
}  // namespace names
