// Processes make, open and let go of objects as PyTorch does, and are killed at random
// instructions. A held object keeps its name, and at the end nothing is left.
#include <map>
#include <random>

#include "process/manager/kit.h"
#include "support/seed.h"

namespace manager_test {
namespace {

using Storm = ManagerTest;

constexpr int kKills = TENON_TEST_SANITIZED ? 150 : 600;
constexpr size_t kProcesses = 6;
constexpr size_t kSlots = 8;

// Memory that all processes share. `names` has some names that were made a moment ago.
struct Board {
  std::array<std::array<char, 60>, kSlots> names;
  std::atomic<uint64_t> held{0};    // holds that ended in order
  std::atomic<uint64_t> opened{0};  // the part of `held` that other processes had made
  std::atomic<uint64_t> lost{0};    // names that were gone while held
  std::atomic<uint64_t> refused{0};
};

class Worker {
 public:
  Worker(Board* board, std::string socket, std::string folder, unsigned seed)
      : board_(board), client_(socket), folder_(std::move(folder)), random_(seed) {}

  int run() {
    if (client_.error() != 0) return 3;
    for (uint64_t number = 0;; ++number) {
      if (number % 2 == 0) {
        const std::string name =
            "/torch_" + std::to_string(getpid()) + "_1_" + std::to_string(number);
        if (!hold(name, true)) return 4;
      } else {
        // Another process may write this name at the same time. A torn name is one that does not
        // exist.
        std::array<char, 60> name = board_->names[random_() % kSlots];
        name.back() = '\0';
        if (std::strlen(name.data()) > 8 && !hold(name.data(), false)) return 4;
      }
    }
  }

 private:
  bool hold(const std::string& name, bool make) {
    const std::string path = folder_ + name;
    if (!client_.add(name)) return false;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0) return true;
    if (make && ftruncate(fd, 4096) != 0) return false;
    struct stat info{};
    fstat(fd, &info);
    if (info.st_size < 4096) {  // its maker was killed before it had set the size
      close(fd);
      client_.subtract(name);
      return true;
    }
    auto* count = static_cast<std::atomic<int32_t>*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    // A count of 0 means that the maker has not counted itself yet, or that the last holder is
    // about to remove the name. Then this process must not count itself. The maker would overwrite
    // this process's count, and the next opener would take it for a holder's.
    int32_t holders = make ? 1 : count->load();
    if (make) count->store(1);
    while (!make && holders > 0 && !count->compare_exchange_weak(holders, holders + 1)) {
    }
    if (holders == 0) {
      munmap(count, 4096);
      return client_.subtract(name);
    }
    if (make) std::memcpy(board_->names[random_() % kSlots].data(), name.c_str(), name.size() + 1);
    // A maker waits longer, so that others find its object.
    for (uint64_t i = random_() % (make ? 1000000 : 100000); i > 0; --i) {
      volatile uint64_t spin = i;
      static_cast<void>(spin);
    }
    struct stat named{};
    if (lstat(path.c_str(), &named) != 0 || named.st_ino != info.st_ino) board_->lost.fetch_add(1);
    board_->held.fetch_add(1);
    if (!make) board_->opened.fetch_add(1);
    if (count->fetch_sub(1) == 1) unlink(path.c_str());
    munmap(count, 4096);
    return client_.subtract(name);
  }

  Board* board_;
  Client client_;
  std::string folder_;
  std::mt19937 random_;
};

TEST_F(Storm, RandomKillsLeaveNothingAndTakeNothing) {
  start();
  auto* board = static_cast<Board*>(
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(board, MAP_FAILED);
  std::mt19937_64 random(test_seed());
  const auto begin = [&] {
    const unsigned seed = static_cast<unsigned>(random());
    return Child([&, seed] { return Worker(board, socket(), objects_.path(), seed).run(); });
  };
  std::vector<Child> children;
  for (size_t i = 0; i < kProcesses; ++i) children.push_back(begin());
  std::map<int, int> ends;
  for (int kills = 0; kills < kKills; ++kills) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    Child& victim = children[random() % kProcesses];
    ++ends[victim.end(SIGKILL)];
    victim = begin();
  }
  for (Child& child : children) ++ends[child.end(SIGKILL)];
  const auto start = Clock::now();
  EXPECT_EQ(ends.size(), 1U);
  for (const auto& [how, times] : ends)
    EXPECT_EQ(how, 1000 + SIGKILL) << times << " ended by themselves";
  EXPECT_TRUE(manager_->child().ended_in_time());
  std::printf(
      "%d kills, %lu objects held (%lu of others); all was gone %lld ms after the last kill\n",
      kKills, static_cast<unsigned long>(board->held.load()),
      static_cast<unsigned long>(board->opened.load()), static_cast<long long>(ms_since(start)));
  EXPECT_EQ(board->lost.load(), 0U);
  EXPECT_GT(board->opened.load(), 0U);
  EXPECT_TRUE(names_in(objects_.path()).empty());
  munmap(board, sizeof(Board));
}

// The manager is killed too. Another manager takes its place, and the names of the living stay.
TEST_F(Storm, TheManagerIsKilledToo) {
  for (int round = 0; round < 10; ++round) {
    start();
    Child child = holder();
    const std::string name = name_of(child);
    manager_->child().end(SIGKILL);
    start();
    const Client client(socket());
    EXPECT_TRUE(client.add("/" + name));
    EXPECT_TRUE(is_there(file(name)));
    child.end(SIGKILL);
    const File held(file(name), 0, 0);
    EXPECT_TRUE(held.is_held());
    unlink(file(name).c_str());
    manager_->child().end(SIGKILL);
  }
  unlink(socket().c_str());
  unlink((socket() + ".lock").c_str());
}

}  // namespace
}  // namespace manager_test
