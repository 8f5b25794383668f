// These tests use a tmpfs without free space. Memory on it is refused with an error that names the
// limit, and never gives SIGBUS. Tenon's own memory does not lie on it.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>

#include "process/fault/kit.h"
#include "process/fault/own_shm.h"

namespace fault {
namespace {

constexpr const char* kTmpfsLimit = "file system space";

// Returns the fd of a file of 2 MiB on a full tmpfs. Only [from, to) has pages.
int sparse_file_on_full(const std::string& folder, uint64_t from, uint64_t to) {
  const int fd = open((folder + "/sparse").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  REQUIRE(ftruncate(fd, static_cast<off_t>(2 * kMiB)) == 0);
  if (to > from)
    REQUIRE(fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                      static_cast<off_t>(to - from)) == 0);
  const int filler = open((folder + "/filler").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(filler >= 0);
  const std::vector<char> zeros(kMiB / 16);
  while (write(filler, zeros.data(), zeros.size()) > 0) {
  }
  while (write(filler, zeros.data(), 1) > 0) {
  }
  REQUIRE(errno == ENOSPC);
  close(filler);
  return fd;
}

void open_holes(uint64_t from, uint64_t to) {
  mount_small_tmpfs("/dev/shm", "size=4m");
  const Held before = hold();
  const int fd = sparse_file_on_full("/dev/shm", from, to);
  tenon_storage* storage = nullptr;
  const tenon_open_options options = open_options(TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_WRITABLE);
  for (const uint64_t nbytes : {2 * kMiB, kMiB}) {
    const tenon_fd_handle handle = handle_over(fd, nbytes);
    const Outcome outcome = CALL(tenon_open_fd(&handle, &options, &storage, err));
    CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                     outcome.detail("limit") == kTmpfsLimit &&
                     outcome.detail("errno") == std::to_string(ENOSPC),
                 outcome.text());
    if (!outcome.ok()) continue;
    // Opened memory can be written. A SIGBUS here ends this process, and fails the test.
    void* data = nullptr;
    CHECK_OK(tenon_storage_data_mut(storage, &data, err));
    std::memset(data, 1, nbytes);
    tenon_storage_release(storage);
  }
  // With free space again, the file opens.
  REQUIRE(unlink("/dev/shm/filler") == 0);
  const tenon_fd_handle handle = handle_over(fd, 2 * kMiB);
  REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
  void* data = nullptr;
  CHECK_OK(tenon_storage_data_mut(storage, &data, err));
  std::memset(data, 1, 2 * kMiB);
  tenon_storage_release(storage);
  close(fd);
  CHECK_HELD(before);
}

TEST(FullTmpfs, AFileOfHolesIsRefused) {
  IN_CHILD([] { open_holes(0, 0); });
}

TEST(FullTmpfs, AFileWhosePagesLieElsewhereIsRefused) {
  IN_CHILD([] { open_holes(kMiB, 2 * kMiB); });
}

// The first opening checks one range. The library must check another range of the same segment
// again.
TEST(FullTmpfs, AHoleBelowARangeThatIsOpenIsRefused) {
  IN_CHILD([] {
    mount_small_tmpfs("/dev/shm", "size=4m");
    const int fd = sparse_file_on_full("/dev/shm", kMiB, 2 * kMiB);
    const tenon_open_options options =
        open_options(TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_WRITABLE);
    tenon_fd_handle handle = handle_over(fd, kMiB, kMiB);
    handle.segment_nbytes = 2 * kMiB;
    tenon_storage* above = nullptr;
    REQUIRE_OK(tenon_open_fd(&handle, &options, &above, err));
    handle.offset = 0;
    tenon_storage* below = nullptr;
    const Outcome outcome = CALL(tenon_open_fd(&handle, &options, &below, err));
    CHECK_SAYING(
        outcome.status == TENON_RESOURCE_EXHAUSTED && outcome.detail("limit") == kTmpfsLimit,
        outcome.text());
    tenon_storage_release(below);
    tenon_storage_release(above);
    close(fd);
  });
}

TEST(FullTmpfs, WriteAndReadOfWhatIsOpen) {
  IN_CHILD([] {
    mount_small_tmpfs("/dev/shm", "size=4m");
    const int fd = sparse_file_on_full("/dev/shm", 0, kMiB);
    const tenon_fd_handle handle = handle_over(fd, kMiB);
    const tenon_open_options options =
        open_options(TENON_OPEN_ALLOW_UNSEALED, TENON_ACCESS_WRITABLE);
    tenon_storage* storage = nullptr;
    REQUIRE_OK(tenon_open_fd(&handle, &options, &storage, err));
    // The pages are removed while the storage is open, and their space is taken.
    REQUIRE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(kMiB)) == 0);
    const int filler = open("/dev/shm/more", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(filler >= 0);
    REQUIRE(fallocate(filler, 0, 0, static_cast<off_t>(kMiB)) == 0);
    const std::vector<unsigned char> bytes = pattern(5000, 1);
    std::vector<unsigned char> back(5000);
    CHECK_STATUS(TENON_RESOURCE_EXHAUSTED,
                 tenon_storage_write(storage, 10, bytes.data(), bytes.size(), err));
    CHECK_OK(tenon_storage_read(storage, 10, back.data(), back.size(), err));
    CHECK_EQ(back[17], 0);
    tenon_storage_release(storage);
    close(filler);
    close(fd);
  });
}

TEST(FullTmpfs, OwnStoragesDoNotLieThere) {
  IN_CHILD([] {
    mount_small_tmpfs("/dev/shm", "size=4m");
    const int fd = sparse_file_on_full("/dev/shm", 0, 0);
    close(fd);
    for (const tenon_mode mode : kModes) {
      for (const uint32_t flags : {uint32_t{0}, uint32_t{TENON_STORAGE_ISOLATED}}) {
        tenon_storage* storage = new_storage(6 * kMiB, 3, mode, flags);
        CHECK(has_pattern(tenon_storage_data(storage), 6 * kMiB, 3));
        tenon_storage_release(storage);
      }
    }
  });
}

// The new file does not fit beside the old one, which stays.
TEST(FullTmpfs, SavedWeightsLeaveTheOldFile) {
  IN_CHILD([] {
    constexpr const char* kPath = "/dev/shm/weights";
    const int64_t numel = 3 * kMiB;
    tenon_storage* const storage = new_storage(3 * kMiB, 3, TENON_MODE_SHARED, 0);
    tenon_tensor_spec spec{};
    spec.struct_size = sizeof spec;
    spec.dtype = {TENON_DTYPE_UINT, 8, 1};
    spec.ndim = 1;
    spec.sizes = &numel;
    tenon_tensor* tensor = nullptr;
    tenon_value* value = nullptr;
    REQUIRE_OK(tenon_tensor_new(storage, &spec, &tensor, err));
    if (tenon_value_new_tensor(tensor, &value, nullptr) == TENON_UNSUPPORTED) return;
    REQUIRE(value != nullptr);
    mount_small_tmpfs("/dev/shm", "size=4m");
    const char* const name = "weight";
    const tenon_value* const tensors[] = {value};
    tenon_save_weights_options options{};
    options.struct_size = sizeof options;
    for (const int32_t form :
         {TENON_WEIGHTS_TORCH_SAVE, TENON_WEIGHTS_SAFETENSORS, TENON_WEIGHTS_NPZ}) {
      options.form = form;
      const tenon_status first = tenon_save_weights(kPath, &name, tensors, 1, &options, nullptr);
      if (first == TENON_UNSUPPORTED) continue;  // a build without JSON
      CHECK_EQ(first, TENON_OK);
      struct stat before{};
      struct stat after{};
      REQUIRE(stat(kPath, &before) == 0);
      const Outcome outcome = CALL(tenon_save_weights(kPath, &name, tensors, 1, &options, err));
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED &&
                       outcome.detail("errno") == std::to_string(ENOSPC),
                   outcome.text());
      REQUIRE(stat(kPath, &after) == 0);
      CHECK(after.st_ino == before.st_ino && after.st_size == before.st_size);
      const std::filesystem::directory_iterator files("/dev/shm");
      CHECK_EQ(std::distance(files, std::filesystem::directory_iterator{}), 1);
      REQUIRE(unlink(kPath) == 0);
    }
    tenon_value_release(value);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  });
}

}  // namespace
}  // namespace fault
