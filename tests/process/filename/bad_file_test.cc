// These tests open files that are not what they claim: files with impossible heads, with false
// sizes, and files that are cut short while they are held.
#include "process/filename/agent.h"

namespace names {
namespace {

// A file that this process keeps open by an fd, so that no sweep takes it for dead.
class Planted {
 public:
  Planted(const Folder& folder, const Head& head, uint64_t payload)
      : path_(folder.at("tenon-planted")), fd_(plant_open(path_, head, payload)) {}
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
  ~Planted() {
    close(fd_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_;
};

TEST(BadHead, Counts) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = nullptr;
    for (const uint32_t magic : {kMagic, 0U}) {  // Tenon's and PyTorch's
      for (const int32_t count : {-1, INT32_MIN, INT32_MAX}) {
        const Planted file(folder, {.count = count, .magic = magic}, 100);
        for (const tenon_access access : {TENON_ACCESS_AUTO, TENON_ACCESS_READ_ONLY}) {
          CHECK_NAMES(
              TENON_CORRUPT, file.path(),
              try_open(handle_to(file.path(), 100), &storage, TENON_OPEN_ALLOW_UNSEALED, access));
        }
        CHECK_EQ(head_of(file.path()).count, count);
        // Opening a private copy does not touch the count.
        CHECK(try_open(handle_to(file.path(), 100), &storage, TENON_OPEN_PRIVATE_COPY).ok());
        tenon_storage_release(storage);
      }
      for (const int32_t count : {1, 2, 1000000, INT32_MAX - 1}) {
        const Planted file(folder, {.count = count, .magic = magic}, 100);
        storage = open_name(handle_to(file.path(), 100));
        CHECK_EQ(head_of(file.path()).count, count + 1);
        tenon_storage_release(storage);
        CHECK_EQ(head_of(file.path()).count, count);
      }
    }
  });
}

// Count 0. In PyTorch's file the last holder has just released it and removes the name. In Tenon's
// file the kernel knows the holders.
TEST(BadHead, CountZero) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = nullptr;
    {
      const Planted file(folder, {.count = 0}, 100);
      CHECK_NAMES(TENON_NOT_FOUND, file.path(), try_open(handle_to(file.path(), 100), &storage));
      CHECK_EQ(head_of(file.path()).count, 0);
    }
  });
}

TEST(BadHead, CountZeroOfTenons) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("tenon-dead");
    plant(path, {.count = 0, .magic = kMagic}, 100);
    Agent opener;  // started afterwards, because its watch would report the planting
    CHECK_NAMES(TENON_NOT_FOUND, path, opener.open(handle_to(path, 100)).outcome);
    unlink(path.c_str());
  });
}

TEST(BadFile, TooSmall) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("a");
    tenon_storage* storage = nullptr;
    const std::vector<char> bytes(200, 1);
    for (const size_t size :
         {size_t{0}, size_t{1}, size_t{4}, size_t{63}, size_t{64}, size_t{163}}) {
      const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      REQUIRE(fd >= 0 && write(fd, bytes.data(), size) == static_cast<ssize_t>(size));
      for (const uint32_t flags :
           {uint32_t{TENON_OPEN_ALLOW_UNSEALED}, uint32_t{TENON_OPEN_PRIVATE_COPY},
            uint32_t{TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED}}) {
        const Outcome small =
            CHECK_NAMES(TENON_CORRUPT, path, try_open(handle_to(path, 100), &storage, flags));
        CHECK_SAYING(small.detail("field") == "nbytes", small.text());
        if (size < 64)
          CHECK_NAMES(TENON_CORRUPT, path, try_open(handle_to(path, 0), &storage, flags));
      }
      if (size < 64) {
        const tenon_filename_handle handle = handle_to(path, 100);
        const Outcome counted = CALL(tenon_filename_decref(&handle, err));
        CHECK_SAYING(counted.status == TENON_CORRUPT, counted.text());
      }
      // Opening never makes the file larger, as PyTorch's opening would.
      CHECK_EQ(look(path).st_size, static_cast<int64_t>(size));
      close(fd);
      unlink(path.c_str());
    }
  });
}

TEST(BadFile, RangesThatCannotBe) {
  IN_FOLDER([](const Folder& folder) {
    tenon_storage* storage = create({.directory = folder.path()}, 1000);
    const std::string name = share(storage).name;
    const auto refused = [&](tenon_status status, uint64_t nbytes, uint64_t offset) {
      for (const uint32_t flags :
           {uint32_t{TENON_OPEN_ALLOW_UNSEALED}, uint32_t{TENON_OPEN_PRIVATE_COPY}}) {
        tenon_storage* opened = nullptr;
        const Outcome outcome =
            CHECK_NAMES(status, name, try_open(handle_to(name, nbytes, offset), &opened, flags));
        CHECK_SAYING(!outcome.detail("field").empty(), outcome.text());
      }
    };
    refused(TENON_CORRUPT, 1001, 0);
    refused(TENON_CORRUPT, 1000, 1);
    refused(TENON_CORRUPT, 1, 1000);
    refused(TENON_CORRUPT, 0, 1001);
    refused(TENON_CORRUPT, uint64_t{1} << 62, 0);
    refused(TENON_INVALID_ARGUMENT, UINT64_MAX, 0);
    refused(TENON_INVALID_ARGUMENT, UINT64_MAX, 1);
    refused(TENON_INVALID_ARGUMENT, UINT64_MAX - 63, 0);
    refused(TENON_INVALID_ARGUMENT, 1, UINT64_MAX);
    refused(TENON_INVALID_ARGUMENT, uint64_t{1} << 63, uint64_t{1} << 63);
    refused(TENON_INVALID_ARGUMENT, INT64_MAX, 0);
    CHECK_EQ(head_of(name).count, 1);
    tenon_storage_release(storage);
    // Such a storage cannot be made either.
    for (const uint64_t nbytes :
         {UINT64_MAX, UINT64_MAX - 63, uint64_t{INT64_MAX}, uint64_t{1} << 60}) {
      const Outcome outcome = try_create({.directory = folder.path()}, nbytes, &storage);
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED && !outcome.detail("limit").empty(),
                   outcome.text());
    }
    CHECK(folder.becomes_empty());
  });
}

// The bytes are gone and the library reports that. It never reads missing memory when it releases,
// counts or exits.
TEST(CutShort, WhileHeld) {
  for (const off_t left : {off_t{0}, off_t{10}, off_t{64}, off_t{4096}}) {
    IN_FOLDER([left](const Folder& folder) {
      Agent other;
      const Done lent = other.create_shared({.directory = folder.path()}, 100000, 1);
      const Done bystander = other.create({.directory = folder.path()}, 1000, 2);
      tenon_storage* storage = open_name(lent.handle);
      tenon_storage* reader =
          open_name(lent.handle, TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_READ_ONLY);
      tenon_storage* cow =
          open_name(lent.handle, TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED);
      REQUIRE(truncate(path_of(lent.handle).c_str(), left) == 0);
      std::vector<unsigned char> bytes(50000);
      for (tenon_storage* each : {storage, reader}) {
        CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(each, 50000, bytes.data(), 50000, err));
        CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(each, 99999, bytes.data(), 1, err));
      }
      CHECK_STATUS(TENON_CORRUPT, tenon_storage_write(storage, 50000, bytes.data(), 50000, err));
      CHECK_EQ(look(path_of(lent.handle)).st_size, left);  // a write does not extend the file
      CHECK_EQ(other.read(lent.slot, 50000, 100, 1).outcome.status, TENON_CORRUPT);
      CHECK_EQ(other.write(lent.slot, 50000, 100, 1).outcome.status, TENON_CORRUPT);
      if (left >= 4096) CHECK_OK(tenon_storage_read(storage, 0, bytes.data(), 4096 - 64, err));
      // A page that is partly left can be read as the kernel fills it, or not at all. The bytes
      // that were cut away do not come back.
      tenon_storage* again = nullptr;
      const Outcome reopened = try_open(lent.handle, &again);
      CHECK_SAYING(
          reopened.status == TENON_CORRUPT && reopened.detail("path") == path_of(lent.handle),
          reopened.text());
      // Counting and releasing work.
      (void)CALL(tenon_filename_incref(&lent.handle, err));
      (void)CALL(tenon_filename_decref(&lent.handle, err));
      tenon_storage_release(cow);
      tenon_storage_release(reader);
      tenon_storage_release(storage);
      other.release(lent.slot);
      CHECK(other.shows(bystander.slot, 2));
      const Done next = other.create_shared({.directory = folder.path()}, 100, 3);
      CHECK(next.ok());
      storage = open_name(next.handle);
      CHECK(shows_pattern(storage, 3));
      tenon_storage_release(storage);
      other.quit();                          // in order, while it holds the storage
      unlink(path_of(lent.handle).c_str());  // without a head no process knows whose it is
    });
  }
}

TEST(CutShort, AtExit) {
  IN_FOLDER([](const Folder& folder) {
    Agent holder;
    const Done lent = holder.create_shared({.directory = folder.path()}, 100000, 1);
    CHECK(holder.incref(lent.handle).ok());
    REQUIRE(truncate(path_of(lent.handle).c_str(), 0) == 0);
    holder.quit();
    unlink(path_of(lent.handle).c_str());
  });
}

// Every holder may write the head. Random bytes there end no process and remove no living name.
TEST(BadHead, ScribbledOverWhileHeld) {
  IN_FOLDER([](const Folder& folder) {
    Agent a, b;
    const int64_t seed = 99;
    for (int round = 0; round < 20; ++round) {
      const Done lent = a.create_shared({.directory = folder.path()}, 100, 1);
      const Done held = b.open(lent.handle);
      REQUIRE(held.ok());
      const int fd = open(path_of(lent.handle).c_str(), O_RDWR | O_CLOEXEC);
      const std::vector<unsigned char> nonsense =
          fault::pattern(64, static_cast<uint64_t>(seed + round));
      REQUIRE(pwrite(fd, nonsense.data(), 64, 0) == 64);
      close(fd);
      (void)sweep(folder.path());
      (void)a.incref(lent.handle);
      (void)b.decref(lent.handle);
      CHECK(exists(path_of(lent.handle)));
      CHECK(a.shows(lent.slot, 1) && b.shows(held.slot, 1));
      a.release(lent.slot);
      CHECK(exists(path_of(lent.handle)) && b.shows(held.slot, 1));
      b.release(held.slot);
      unlink(path_of(lent.handle).c_str());
    }
  });
}

// A file of another process has holes. They are filled when the file is opened, not at the first
// access.
TEST(BadFile, Holes) {
  IN_FOLDER([](const Folder& folder) {
    const std::string path = folder.at("sparse");
    const Head head{.count = 1};
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, &head, sizeof head) == static_cast<ssize_t>(sizeof head) &&
            ftruncate(fd, (1 << 20) + 64) == 0);
    tenon_storage* storage = open_name(handle_to(path, 1 << 20));
    CHECK(look(path).st_blocks * 512 >= (1 << 20) + 64);
    tenon_storage_release(storage);
    close(fd);
    unlink(path.c_str());
  });
}

}  // namespace
}  // namespace names
