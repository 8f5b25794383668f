// Tests the counter file of a lend when a process may not open the file, or when its name is taken.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/tenon.h>

#include <atomic>
#include <fstream>
#include <iterator>

#include "details.h"
#include "device/torch_counter.h"
#include "os/memfd.h"
#include "share_kit.h"
#include "support/become_user.h"

namespace {

std::atomic<int> g_draws_told{0};  // how many of the next random nonces are `g_told`
tenon::os::Nonce g_told;

}  // namespace

// Replaces glibc's getrandom. It lets a test choose the random name of the next file.
extern "C" ssize_t getrandom(void* buffer, size_t nbytes, unsigned flags) {
  if (nbytes == sizeof g_told && g_draws_told > 0 && g_draws_told-- > 0) {
    std::memcpy(buffer, &g_told, sizeof g_told);
    return sizeof g_told;
  }
  return syscall(SYS_getrandom, buffer, nbytes, flags);
}

namespace cuda_test {
namespace {

// ---- a counter's file that may not be opened

// Gives up the capabilities of root, so that file modes apply: root could open the file regardless.
void obey_modes() {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  ASSERT_EQ(syscall(SYS_capget, &head, data), 0);
  for (const int each : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH})
    data[CAP_TO_INDEX(each)].effective &= ~CAP_TO_MASK(each);
  ASSERT_EQ(syscall(SYS_capset, &head, data), 0);
}

void expect_not_released(const CudaHandle& handle) {
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_release_cuda_counter(handle.counter.c_str(), handle.slot, &error),
            TENON_PERMISSION)
      << tenon_error_message(error);
  EXPECT_STREQ(tenon_error_detail(error, "errno"), std::to_string(EACCES).c_str());
  EXPECT_STREQ(tenon_error_detail(error, "path"), ("/dev/shm" + handle.counter).c_str());
  tenon_error_release(error);
}

// The memory is opened although its counter cannot be. The receiver tries the counter again at
// release. If that fails too, the sender has to wait.
TEST(CudaFaultsCounter, ACounterThatMayNotBeOpened) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes, 7);
        Ref<Storage> storage = wrap(&memory);
        const CudaHandle first = share(storage);
        const CudaHandle second = share(storage);
        const std::string path = "/dev/shm" + first.counter;
        ASSERT_EQ(chmod(path.c_str(), 0), 0);
        line.send(first);
        line.send(second);
        line.expect('o');
        storage = nullptr;
        ASSERT_EQ(chmod(path.c_str(), 0600), 0);
        line.ask('m', 's');
        EXPECT_EQ(collect_cuda(), 1U);  // for the first handle
        EXPECT_EQ(memory.freed, 0);
        line.ask('l', 'd');
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        EXPECT_EQ(memory.freed, 1);
      },
      [](Line& line) {
        obey_modes();
        use_device();
        const CudaHandle first = line.receive();
        const CudaHandle second = line.receive();
        expect_not_released(first);
        Ref<Storage> storage = open(first);
        EXPECT_EQ(byte_at(pointer_of(storage)), 7);
        release_all(&storage);
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
        storage = open(second);
        line.ask('o', 'm');
        release_all(&storage);
        // The counter was already released, at the second try.
        EXPECT_EQ(release_cuda_counter(second.counter, second.slot).code(), Code::kCorrupt);
        line.ask('s', 'l');
        EXPECT_TRUE(release_cuda_counter(first.counter, first.slot).is_ok());
        line.say('d');
      });
}

TEST(CudaFaultsCounter, ACounterOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  in_child({}, [] {
    // The fork must come before the first thread starts: a sanitizer's allocator does not work in a
    // child that was forked while another thread was in the allocator.
    Line line;
    const pid_t other = start([&] {
      line.become(1);
      const CudaHandle handle = line.receive();
      ASSERT_TRUE(become_user(65534, 65534));
      expect_not_released(handle);
    });
    line.become(0);
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    const CudaHandle handle = share(storage);
    storage = nullptr;
    line.send(handle);
    EXPECT_EQ(wait_for(other), 0);
    EXPECT_EQ(collect_cuda(), 1U);
    EXPECT_EQ(memory.freed, 0);
    EXPECT_TRUE(release_cuda_counter(handle.counter, handle.slot).is_ok());
    EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
    EXPECT_EQ(memory.freed, 1);
    expect_nothing_left();
  });
}

// ---- a counter's name that is taken

std::string tell_name() {
  EXPECT_EQ(syscall(SYS_getrandom, &g_told, sizeof g_told, 0), static_cast<long>(sizeof g_told));
  return os::hex(g_told);
}
bool is_there(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}
std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kVictims(80064, 7);  // as long as a counter file

enum class Squatter { kFile, kSmallFile, kLink, kDanglingLink, kFolder, kPipe };
// The file stays open from its creation. A sweep would remove a file that no process holds and that
// has the name of a half-made one.
os::Fd make_file(const std::string& path, const std::string& bytes) {
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}
os::Fd squat(Squatter kind, const std::string& path, const std::string& target) {
  if (kind == Squatter::kFile) return make_file(path, kVictims);
  if (kind == Squatter::kSmallFile) return make_file(path, "mine");
  if (kind == Squatter::kFolder) EXPECT_EQ(mkdir(path.c_str(), 0700), 0);
  if (kind == Squatter::kPipe) EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  if (kind != Squatter::kLink && kind != Squatter::kDanglingLink) return {};
  EXPECT_EQ(symlink(target.c_str(), path.c_str()), 0);
  return kind == Squatter::kLink ? make_file(target, kVictims) : os::Fd();
}
void expect_untouched(Squatter kind, const std::string& path, const std::string& target) {
  EXPECT_TRUE(is_there(path));
  if (kind == Squatter::kFile || kind == Squatter::kLink) EXPECT_TRUE(content_of(path) == kVictims);
  if (kind == Squatter::kSmallFile) EXPECT_EQ(content_of(path), "mine");
  EXPECT_EQ(is_there(target), kind == Squatter::kLink);
}

// The taken name is the counter file's own name, or the temporary name that the file has until it
// is complete.
TEST(CudaFaultsCounter, ACountersNameIsTaken) {
  const World place;
  const std::string target = place.path() + "/target";
  in_child({}, [&] {
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    const CudaHandle warm = share(storage);  // makes the draws that happen once
    for (const char* const prefix : {"tenon-cuda-", ".tenon-new-"}) {
      for (const Squatter kind : {Squatter::kFile, Squatter::kSmallFile, Squatter::kLink,
                                  Squatter::kDanglingLink, Squatter::kFolder, Squatter::kPipe}) {
        SCOPED_TRACE(prefix + std::to_string(static_cast<int>(kind)));
        const std::string told = tell_name();
        const std::string taken = "/dev/shm/" + (prefix + told);
        const os::Fd held = squat(kind, taken, target);
        end_cuda_counter_file();
        g_draws_told = 2;
        const Status refused = share_cuda(storage, nullptr, {}).status();
        EXPECT_EQ(g_draws_told.exchange(0), 0);
        EXPECT_EQ(refused.code(), Code::kPermission) << refused.message();
        EXPECT_TRUE(says(refused, "is taken") && says(refused, told)) << refused.message();
        EXPECT_EQ(refused.detail("errno"), std::to_string(EEXIST));
        expect_untouched(kind, taken, target);
        for (const std::string each : {"tenon-cuda-", ".tenon-new-"})
          EXPECT_EQ(is_there("/dev/shm/" + (each + told)), each == prefix);
        const CudaHandle handle = share(storage);
        EXPECT_EQ(handle.counter.find(told), std::string::npos);
        EXPECT_TRUE(release_cuda_counter(handle.counter, handle.slot).is_ok());
        EXPECT_EQ(std::remove(taken.c_str()), 0);
        (void)std::remove(target.c_str());
      }
    }
    EXPECT_TRUE(release_cuda_counter(warm.counter, warm.slot).is_ok());
    storage = nullptr;  // a refused lend keeps nothing alive
    EXPECT_EQ(left(), 0U);
    EXPECT_EQ(memory.freed, 1);
    expect_nothing_left();
  });
}

// Another counter file has the name. A live file is left alone. The file of a killed maker is
// removed.
TEST(CudaFaultsCounter, ACountersNameIsAnotherCounters) {
  in_child({}, [] {
    const auto create = [] {
      end_cuda_counter_file();
      g_draws_told = 1;
      Result<CudaCounter> made = CudaCounter::create();
      g_draws_told = 0;
      return made;
    };
    const std::string name = "/tenon-cuda-" + tell_name();
    const pid_t dead = start([&] {
      const Result<CudaCounter> made = create();
      if (made.is_ok()) raise(SIGKILL);
    });
    EXPECT_EQ(wait_for(dead), -SIGKILL);
    Result<CudaCounter> ours = create();
    // Another process may be examining the name at this moment.
    EXPECT_TRUE(wait_until([&] { return ours.is_ok() || (ours = create()).is_ok(); }))
        << ours.status().message();
    ASSERT_TRUE(ours.is_ok());
    EXPECT_EQ(ours.value().name(), name);
    EXPECT_EQ(create().status().code(), Code::kPermission);
    EXPECT_FALSE(ours.value().is_released());
    EXPECT_TRUE(release_cuda_counter(name, ours.value().slot()).is_ok());
    EXPECT_TRUE(ours.value().is_released());
  });
}

}  // namespace
}  // namespace cuda_test
