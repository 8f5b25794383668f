// These tests check counters in shared files, which tell whether the receiver of a CUDA handle
// still uses the memory.
#include "device/torch_counter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "names/by_filename.h"
#include "support/mappings.h"
#include "support/must.h"

namespace tenon::device {
namespace {

constexpr off_t kNbytes = 80064;

bool exists(const std::string& name) {
  struct stat info{};
  return stat(("/dev/shm" + name).c_str(), &info) == 0;
}

// A file that PyTorch or another program made, with the count 1 and one counter.
class File {
 public:
  File(std::string name, off_t nbytes, int64_t counter, size_t slot) : name_(std::move(name)) {
    fd_ = shm_open(name_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(ftruncate(fd_, nbytes), 0);
    const int32_t count = 1;
    EXPECT_EQ(pwrite(fd_, &count, sizeof count, 0), static_cast<ssize_t>(sizeof count));
    if (nbytes == kNbytes)
      EXPECT_EQ(pwrite(fd_, &counter, sizeof counter, place(slot)),
                static_cast<ssize_t>(sizeof counter));
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    shm_unlink(name_.c_str());
    close(fd_);
  }
  int64_t counter(size_t slot) const {
    int64_t value = -1;
    EXPECT_EQ(pread(fd_, &value, sizeof value, place(slot)), static_cast<ssize_t>(sizeof value));
    return value;
  }
  const std::string& name() const { return name_; }

 private:
  static off_t place(size_t slot) { return static_cast<off_t>(64 + 8 * slot); }
  std::string name_;
  int fd_;
};

std::string torch_name() {
  static int next = 0;
  return "/torch_" + std::to_string(getpid()) + "_" + std::to_string(123456 + getpid()) + "_" +
         std::to_string(next++);
}

CudaCounter create() { return must(CudaCounter::create()); }

TEST(CudaCounter, IsReleasedOnceByWhoeverGotItsName) {
  const CudaCounter first = create();
  const CudaCounter second = create();
  EXPECT_EQ(first.name(), second.name());
  EXPECT_NE(first.slot(), second.slot());
  struct stat info{};
  ASSERT_EQ(stat(("/dev/shm" + first.name()).c_str(), &info), 0);
  EXPECT_EQ(info.st_size, kNbytes);
  EXPECT_FALSE(first.is_released());
  const Status released = release_cuda_counter(first.name(), first.slot());
  EXPECT_TRUE(released.is_ok()) << released.message();
  EXPECT_TRUE(first.is_released());
  EXPECT_FALSE(second.is_released());
  EXPECT_EQ(release_cuda_counter(first.name(), first.slot()).code(), Code::kCorrupt);
}

// The test releases as PyTorch does: by a plain load, subtraction and store at 64 + 8 * slot.
TEST(CudaCounter, LiesWherePyTorchLooks) {
  const CudaCounter counter = create();
  const int fd = shm_open(counter.name().c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  const auto place = static_cast<off_t>(64 + 8 * uint64_t{counter.slot()});
  int64_t value = 0;
  int32_t count = 0;
  ASSERT_EQ(pread(fd, &value, sizeof value, place), static_cast<ssize_t>(sizeof value));
  ASSERT_EQ(pread(fd, &count, sizeof count, 0), static_cast<ssize_t>(sizeof count));
  EXPECT_EQ(value, 1);
  EXPECT_EQ(count, 1);
  --value;
  ASSERT_EQ(pwrite(fd, &value, sizeof value, place), static_cast<ssize_t>(sizeof value));
  close(fd);
  EXPECT_TRUE(counter.is_released());
}

TEST(CudaCounter, AFileGoesWithTheLastOfItsCounters) {
  end_cuda_counter_file();
  std::string name;
  {
    const CudaCounter counter = create();
    name = counter.name();
    end_cuda_counter_file();
    EXPECT_TRUE(exists(name));
    const CudaCounter next = create();
    EXPECT_NE(next.name(), name);
    end_cuda_counter_file();
  }
  EXPECT_FALSE(exists(name));
}

TEST(CudaCounter, SlotsAreNotUsedAgain) {
  end_cuda_counter_file();
  std::string name;
  for (uint32_t i = 0; i < kCudaCounters; ++i) {
    const CudaCounter counter = create();
    if (i == 0) name = counter.name();
    ASSERT_EQ(counter.name(), name);
    ASSERT_EQ(counter.slot(), i);
  }
  EXPECT_FALSE(exists(name));
  const CudaCounter after = create();
  EXPECT_NE(after.name(), name);
  EXPECT_EQ(after.slot(), 0U);
  end_cuda_counter_file();
}

TEST(CudaCounter, PyTorchsFilesAreReleased) {
  const File file(torch_name(), kNbytes, 2, 9999);
  EXPECT_TRUE(release_cuda_counter(file.name(), 9999).is_ok());
  EXPECT_EQ(file.counter(9999), 1);
  EXPECT_TRUE(release_cuda_counter(file.name(), 9999).is_ok());
  EXPECT_EQ(file.counter(9999), 0);
  EXPECT_EQ(release_cuda_counter(file.name(), 9999).code(), Code::kCorrupt);
  EXPECT_EQ(file.counter(9999), 0);
}

TEST(CudaCounter, WhatIsNoCounterFileIsNotWritten) {
  EXPECT_TRUE(release_cuda_counter(torch_name(), 0).is_ok());  // its maker is gone
  const File small(torch_name(), 4096, 0, 0);
  EXPECT_EQ(release_cuda_counter(small.name(), 0).code(), Code::kCorrupt);
  const File large(torch_name(), kNbytes + 8, 0, 0);
  EXPECT_EQ(release_cuda_counter(large.name(), 0).code(), Code::kCorrupt);
  const File strange("/someones_file_" + std::to_string(getpid()), kNbytes, 5, 3);
  EXPECT_EQ(release_cuda_counter(strange.name(), 3).code(), Code::kCorrupt);
  EXPECT_EQ(strange.counter(3), 5);
  // A storage in a named file can have the same size as a counter file.
  Ref<storage::Storage> storage = must(names::create_named({}, kNbytes - 64));
  names::NameClaim claim = must(names::lend_by_filename(storage, {}, nullptr));
  std::byte* bytes = must(storage->data_mut());
  std::memset(bytes, 7, kNbytes - 64);
  EXPECT_EQ(release_cuda_counter(claim.name, 0).code(), Code::kCorrupt);
  EXPECT_EQ(storage->data()[0], std::byte{7});
}

TEST(CudaCounter, NamesAndSlotsAreChecked) {
  const CudaCounter counter = create();
  EXPECT_EQ(release_cuda_counter(counter.name(), kCudaCounters).code(), Code::kInvalidArgument);
  EXPECT_EQ(release_cuda_counter(counter.name(), UINT64_MAX).code(), Code::kInvalidArgument);
  for (const char* const name : {"", "leaf", "/", "/..", "/tmp/torch_1_2_3", "/dev/shm/../shm/x"}) {
    EXPECT_EQ(release_cuda_counter(name, 0).code(), Code::kInvalidArgument) << name;
  }
  EXPECT_FALSE(counter.is_released());
}

// The hold of a message that was opened.
class Kept : public CudaCounterHold {
 public:
  Kept(const std::string& name, uint64_t slot) : CudaCounterHold(name, slot) { keep(); }
};

TEST(CudaCounterHold, AMessageThatWasNotOpenedIsAsItWas) {
  const File file(torch_name(), kNbytes, 1, 2);
  {
    const CudaCounterHold hold(file.name(), 2);
    EXPECT_EQ(count_mappings_of(file.name().c_str()), 1);
  }
  EXPECT_EQ(file.counter(2), 1);
}

TEST(CudaCounterHold, LetsGoOnceAndOfOneMappingForAll) {
  const File file(torch_name(), kNbytes, 3, 7);
  {
    const Kept first(file.name(), 7);
    {
      const Kept second(file.name(), 7);
      EXPECT_EQ(count_mappings_of(file.name().c_str()), 1);
      EXPECT_EQ(file.counter(7), 3);
    }
    EXPECT_EQ(file.counter(7), 2);
    EXPECT_EQ(count_mappings_of(file.name().c_str()), 1);
  }
  EXPECT_EQ(file.counter(7), 1);
  EXPECT_EQ(count_mappings_of(file.name().c_str()), 0);
}

// A watcher of the directory gets events for the first opening and for the last close, and none
// between them.
TEST(CudaCounterHold, MakesNoSoundAsLongAsOneIsHeld) {
  const File file(torch_name(), kNbytes, 3, 0);
  const int watch = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(watch, 0);
  ASSERT_GE(inotify_add_watch(watch, ("/dev/shm" + file.name()).c_str(), IN_OPEN | IN_CLOSE), 0);
  char events[4096];
  {
    const Kept kept(file.name(), 0);
    EXPECT_GT(read(watch, events, sizeof events), 0);
    {
      const Kept passing(file.name(), 0);
    }
    EXPECT_EQ(read(watch, events, sizeof events), -1);
  }
  EXPECT_GT(read(watch, events, sizeof events), 0);
  EXPECT_EQ(file.counter(0), 1);
  close(watch);
}

// Some older versions of PyTorch put nothing random into the names, so a name can come twice.
TEST(CudaCounterHold, ANewFileOfTheNameIsNotTakenForTheOldOne) {
  const std::string name = "/torch_" + std::to_string(getpid()) + "_0";
  auto old = std::make_unique<File>(name, kNbytes, 2, 4);
  auto hold = std::make_unique<Kept>(name, 4);
  const int old_file = shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(old_file, 0);
  old = nullptr;
  const Kept none(name, 4);  // there is no file
  const File made_since(name, kNbytes, 2, 4);
  {
    const Kept of_the_new_one(name, 4);
  }
  EXPECT_EQ(made_since.counter(4), 1);
  hold = nullptr;
  EXPECT_EQ(made_since.counter(4), 1);
  int64_t value = -1;
  EXPECT_EQ(pread(old_file, &value, sizeof value, 64 + 8 * 4), static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 1);
  close(old_file);
}

TEST(CudaCounterHold, WhatWasNoCounterFileAtFirstIsNeverWritten) {
  const std::string missing = torch_name();
  auto none = std::make_unique<Kept>(missing, 0);
  const File made_since(missing, kNbytes, 1, 0);
  none = nullptr;
  EXPECT_EQ(made_since.counter(0), 1);
  const File small(torch_name(), 4096, 0, 0);
  auto too_small = std::make_unique<Kept>(small.name(), 0);
  EXPECT_EQ(count_mappings_of(small.name().c_str()), 0);
  too_small = nullptr;
  const File strange("/someones_file_" + std::to_string(getpid()), kNbytes, 5, 3);
  {
    const Kept of_somebody(strange.name(), 3);
  }
  EXPECT_EQ(strange.counter(3), 5);
  {
    const Kept beyond(made_since.name(), kCudaCounters);
  }
  const std::string link = torch_name();
  ASSERT_EQ(symlink(("/dev/shm" + made_since.name()).c_str(), ("/dev/shm" + link).c_str()), 0);
  {
    const Kept by_a_link(link, 0);
  }
  EXPECT_EQ(made_since.counter(0), 1);
  EXPECT_EQ(shm_unlink(link.c_str()), 0);
}

TEST(CudaCounterHold, AFileThatIsCutShortIsLetBe) {
  const File file(torch_name(), kNbytes, 1, 9999);
  {
    const Kept hold(file.name(), 9999);
    ASSERT_EQ(truncate(("/dev/shm" + file.name()).c_str(), 64), 0);
  }
  EXPECT_EQ(release_cuda_counter(file.name(), 9999).code(), Code::kCorrupt);
}

// At first there is no fd for the file. The hold opens the file again at its end, so the sender
// does not keep its memory for ever.
TEST(CudaCounterHold, WhatCouldNotBeOpenedIsTriedAgainAtTheEnd) {
  const File file(torch_name(), kNbytes, 1, 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto hold = std::make_unique<Kept>(file.name(), 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(count_mappings_of(file.name().c_str()), 0);
  hold = nullptr;
  EXPECT_EQ(file.counter(1), 0);
}

// The maker is killed, and the next sweep removes its file.
TEST(CudaCounter, AKilledMakersFileIsSwept) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    Result<CudaCounter> counter = CudaCounter::create();
    char name[names::kNameNbytes] = {};
    if (counter.is_ok()) counter.value().name().copy(name, sizeof name - 1);
    if (write(ends[1], name, sizeof name) != static_cast<ssize_t>(sizeof name)) _exit(1);
    pause();
  }
  char name[names::kNameNbytes] = {};
  ASSERT_EQ(read(ends[0], name, sizeof name), static_cast<ssize_t>(sizeof name));
  ASSERT_TRUE(exists(name));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  names::LookOptions options;
  options.remove = true;
  // One sweep may not be enough: another process that checks the file at the same time disturbs it.
  for (int looks = 0; exists(name) && looks < 1000; ++looks, usleep(10'000))
    ASSERT_TRUE(names::sweep_names("/dev/shm", options).is_ok());
  EXPECT_FALSE(exists(name));
  close(ends[0]);
  close(ends[1]);
}

// A forked child has its parent's counters. Its own new counters are in a file of its own.
TEST(CudaCounter, AChildHasAFileOfItsOwn) {
  const CudaCounter parents = create();
  const pid_t child = fork();
  if (child == 0) {
    Result<CudaCounter> own = CudaCounter::create();
    const bool apart = own.is_ok() && own.value().name() != parents.name();
    _exit(apart && release_cuda_counter(parents.name(), parents.slot()).is_ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(parents.is_released());
}

}  // namespace
}  // namespace tenon::device
