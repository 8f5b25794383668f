// Another process may cut a file short under a storage, if the file is not sealed against
// shrinking. These tests cut such files. The library's own accesses to the bytes then return
// CORRUPT and never raise SIGBUS: tenon_storage_read(), tenon_storage_write(), tenon_open_fd().
#include <atomic>
#include <thread>

#include "process/fault/kit.h"

namespace fault {
namespace {

constexpr uint64_t kShrunkNbytes = 1 << 20;

// Makes an unlinked file in TMPDIR, or in /tmp if TMPDIR is not set. The test is of use only if
// that directory lies on a disk.
int disk_file(uint64_t nbytes) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/tenon-fault-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  REQUIRE(fd >= 0);
  unlink(path.c_str());
  REQUIRE(ftruncate(fd, static_cast<off_t>(nbytes)) == 0);
  const std::vector<unsigned char> bytes = pattern(nbytes, 1);
  REQUIRE(pwrite(fd, bytes.data(), nbytes, 0) == static_cast<ssize_t>(nbytes));
  return fd;
}

int unsealed_memfd(uint64_t nbytes) {
  const int fd = foreign_memfd(nbytes, 0);
  const std::vector<unsigned char> bytes = pattern(nbytes, 1);
  REQUIRE(pwrite(fd, bytes.data(), nbytes, 0) == static_cast<ssize_t>(nbytes));
  return fd;
}

// Cuts the file of an open storage to 10,000 bytes, and then to none.
void cut_while_open(int fd) {
  const Held before = hold();
  const tenon_fd_handle handle = handle_over(fd, kShrunkNbytes);
  tenon_storage* storage = nullptr;
  CHECK_STATUS(TENON_PERMISSION, tenon_open_fd(&handle, nullptr, &storage, err));
  const tenon_open_options options = open_options(TENON_OPEN_ALLOW_UNSEALED);
  REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
  CHECK_EQ(tenon_storage_is_sealed(storage), 0);
  std::vector<unsigned char> bytes(kShrunkNbytes);
  CHECK_OK(tenon_storage_read(storage, 0, bytes.data(), kShrunkNbytes, err));
  CHECK(has_pattern(bytes.data(), kShrunkNbytes, 1));
  REQUIRE(ftruncate(fd, 10000) == 0);
  CHECK_OK(tenon_storage_read(storage, 0, bytes.data(), 10000, err));
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 0, bytes.data(), 10001, err));
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 500000, bytes.data(), 1, err));
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 0, bytes.data(), kShrunkNbytes, err));
  // A new opening of the handle fails too, whether it copies the bytes or not.
  tenon_storage* again = nullptr;
  for (const uint32_t flags : {uint32_t{TENON_OPEN_PRIVATE_COPY},
                               uint32_t{TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED}}) {
    const tenon_open_options how = open_options(flags);
    CHECK_STATUS(TENON_CORRUPT, tenon_open_fd(&handle, &how, &again, err));
  }
  CHECK_STATUS(TENON_CORRUPT, tenon_open_fd(&handle, &options, &again, err));
  CHECK(again == nullptr);
  REQUIRE(ftruncate(fd, 0) == 0);
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 0, bytes.data(), 1, err));
  // A store there would raise SIGBUS. The write may make the file grow again, or return CORRUPT.
  const Outcome outcome = CALL(tenon_storage_write(storage, 4096, "abc", 3, err));
  CHECK_SAYING(outcome.ok() || outcome.status == TENON_CORRUPT, outcome.text());
  // The storage can still be sent, because sending touches no byte. The receiver refuses the file.
  {
    const Pair pair(SOCK_STREAM);
    tenon_message* message = new_message({tenon_storage_retain(storage)});
    const tenon_wait now = wait_ns(0);
    CHECK_OK(tenon_send(pair.left, message, &now, err));
    tenon_message_release(message);
    message = nullptr;
    const Outcome received = CALL(tenon_recv(pair.right, &now, &message, err));
    CHECK_SAYING(!received.ok(), "an unsealed file that was cut short came through");
    tenon_message_release(message);
  }
  tenon_storage_release(storage);
  CHECK_HELD(before);
}

TEST(Shrink, AMemfdWhileOpen) {
  IN_CHILD([] { cut_while_open(unsealed_memfd(kShrunkNbytes)); });
}
TEST(Shrink, AFileOnADiskWhileOpen) {
  IN_CHILD([] { cut_while_open(disk_file(kShrunkNbytes)); });
}

// A second thread cuts the file and grows it again, while the test's thread opens it and copies.
// Each call succeeds or returns CORRUPT.
void cut_all_the_time(int fd) {
  std::atomic<bool> stop{false};
  const tenon_fd_handle handle = handle_over(fd, kShrunkNbytes);
  const tenon_open_options shared = open_options(TENON_OPEN_ALLOW_UNSEALED);
  const tenon_open_options cow = open_options(TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED);
  tenon_storage* held = nullptr;
  REQUIRE_OK(tenon_open_fd(&handle, &shared, &held, err));
  tenon_storage* held_private = nullptr;
  REQUIRE_OK(tenon_open_fd(&handle, &cow, &held_private, err));
  std::thread cutter([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      (void)!ftruncate(fd, 4096);
      (void)!ftruncate(fd, static_cast<off_t>(kShrunkNbytes));
    }
  });
  std::vector<unsigned char> bytes(kShrunkNbytes);
  const auto right_or_an_error = [](const Outcome& outcome) {
    CHECK_SAYING(outcome.ok() || outcome.status == TENON_CORRUPT, outcome.text());
    return outcome.ok();
  };
  for (int i = 0; i < 300; ++i) {
    tenon_storage* storage = nullptr;
    const tenon_open_options copy = open_options(TENON_OPEN_PRIVATE_COPY);
    right_or_an_error(CALL(tenon_open_fd(&handle, &copy, &storage, err)));
    tenon_storage_release(storage);
    storage = nullptr;
    if (right_or_an_error(CALL(tenon_open_fd(&handle, &shared, &storage, err)))) {
      right_or_an_error(CALL(tenon_storage_read(storage, 0, bytes.data(), kShrunkNbytes, err)));
      right_or_an_error(CALL(tenon_storage_write(storage, 8192, "abc", 3, err)));
    }
    tenon_storage_release(storage);
    right_or_an_error(CALL(tenon_storage_read(held, 100000, bytes.data(), 200000, err)));
    right_or_an_error(CALL(tenon_storage_read(held_private, 100000, bytes.data(), 200000, err)));
    right_or_an_error(CALL(tenon_storage_write(held_private, 100000, bytes.data(), 200000, err)));
  }
  stop = true;
  cutter.join();
  tenon_storage_release(held_private);
  tenon_storage_release(held);
}

TEST(Shrink, AMemfdAllTheTime) {
  IN_CHILD([] { cut_all_the_time(unsealed_memfd(kShrunkNbytes)); });
}
TEST(Shrink, AFileOnADiskAllTheTime) {
  IN_CHILD([] { cut_all_the_time(disk_file(kShrunkNbytes)); });
}

// Cuts the file under a copy-on-write opening. When the kernel cuts a file, it also drops the
// private pages beyond the new end, with the bytes that this process wrote to them.
void cut_under_private_pages(int fd) {
  const Held before = hold();
  const tenon_fd_handle handle = handle_over(fd, kShrunkNbytes);
  const tenon_open_options options =
      open_options(TENON_OPEN_PRIVATE_COW | TENON_OPEN_ALLOW_UNSEALED);
  tenon_storage* storage = nullptr;
  REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
  CHECK_EQ(tenon_storage_is_sealed(storage), 0);
  std::vector<unsigned char> bytes(kShrunkNbytes);
  for (const uint64_t offset : {uint64_t{100}, uint64_t{500000}})
    CHECK_OK(tenon_storage_write(storage, offset, "mine", 4, err));
  CHECK_OK(tenon_storage_read(storage, 0, bytes.data(), kShrunkNbytes, err));
  for (const uint64_t offset : {uint64_t{100}, uint64_t{500000}}) {
    CHECK(std::memcmp(bytes.data() + offset, "mine", 4) == 0);
    std::memcpy(bytes.data() + offset, pattern(offset + 4, 1).data() + offset, 4);
  }
  CHECK(has_pattern(bytes.data(), kShrunkNbytes, 1));
  char kept[4];
  REQUIRE(pread(fd, kept, sizeof kept, 100) == 4 && std::memcmp(kept, "mine", 4) != 0);
  REQUIRE(ftruncate(fd, 8192) == 0);
  CHECK_OK(tenon_storage_read(storage, 100, bytes.data(), 8192 - 100, err));
  CHECK(std::memcmp(bytes.data(), "mine", 4) == 0);
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 0, bytes.data(), kShrunkNbytes, err));
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_read(storage, 500000, bytes.data(), 4, err));
  CHECK_STATUS(TENON_CORRUPT, tenon_storage_write(storage, 500000, "more", 4, err));
  CHECK_OK(tenon_storage_write(storage, 4096, "more", 4, err));
  tenon_storage_release(storage);
  CHECK_HELD(before);
}

TEST(Shrink, AMemfdUnderPrivatePages) {
  IN_CHILD([] { cut_under_private_pages(unsealed_memfd(kShrunkNbytes)); });
}
TEST(Shrink, AFileOnADiskUnderPrivatePages) {
  IN_CHILD([] { cut_under_private_pages(disk_file(kShrunkNbytes)); });
}
// A memfd that is sealed against shrinking needs no TENON_OPEN_ALLOW_UNSEALED, and the storage
// knows that its file is sealed.
TEST(Shrink, ASealedMemfdUnderPrivatePages) {
  IN_CHILD([] {
    const tenon_fd_handle handle = handle_over(foreign_memfd(kShrunkNbytes), kShrunkNbytes);
    const tenon_open_options options = open_options(TENON_OPEN_PRIVATE_COW);
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
    CHECK_EQ(tenon_storage_is_sealed(storage), 1);
    tenon_storage_release(storage);
  });
}

}  // namespace
}  // namespace fault
