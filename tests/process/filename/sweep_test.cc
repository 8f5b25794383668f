// These tests check which names a sweep counts, which it removes, and above all which it leaves
// alone.
#include "process/filename/agent.h"
#include "support/sized.h"
#include "support/unix_socket.h"

#include <sys/file.h>

namespace names {
namespace {

void put_file(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(fd);
}

int bound_socket(const std::string& path, int type, bool listening) {
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  REQUIRE(tenon::test::bind_path(fd, path));
  if (listening) REQUIRE(listen(fd, 4) == 0);
  return fd;
}

// A pid that no process has: that of a child that has ended.
pid_t dead_pid() {
  const pid_t child = fault::spawn([] {});
  fault::wait_for_child(child);
  return child;
}

std::string text_of(const tenon_sweep_result& result) {
  return "live " + std::to_string(result.live) + ", in flight " + std::to_string(result.in_flight) +
         ", dead " + std::to_string(result.dead) + ", unsure " + std::to_string(result.unsure) +
         ", bytes " + std::to_string(result.removed_nbytes);
}

// Whether a process has a file of the folder open, except its bell.
bool looks_at_something(pid_t pid, const Folder& folder) {
  const std::string fds = "/proc/" + std::to_string(pid) + "/fd/";
  bool found = false;
  DIR* directory = opendir(fds.c_str());
  REQUIRE(directory != nullptr);
  while (const dirent* entry = readdir(directory)) {
    char target[PATH_MAX];
    const ssize_t length = readlink((fds + entry->d_name).c_str(), target, sizeof target);
    const std::string_view path(target, length < 0 ? 0 : static_cast<size_t>(length));
    found = found || (path.starts_with(folder.path() + "/") &&
                      path.find("/.tenon-bell-") == std::string_view::npos);
  }
  closedir(directory);
  return found;
}

// Stops the agent while it checks no name. An agent that is stopped during a check would hold that
// name.
void stop_between_looks(Agent* agent, const Folder& folder) {
  CHECK(wait_until([&] {
    agent->stop();
    if (!looks_at_something(agent->pid(), folder)) return true;
    agent->signal(SIGCONT);
    return false;
  }));
}

TEST(Sweep, CountsThenRemoves) {
  IN_FOLDER([](const Folder& folder) {
    const Naming naming{.directory = folder.path()};
    Agent living, killed, sender;
    REQUIRE(living.create(naming, 100).ok());
    REQUIRE(living.share(living.make(TENON_MODE_SHARED, 0, 100).slot, naming).ok());
    REQUIRE(killed.create(naming, 100).ok());
    REQUIRE(killed.create(naming, 1 << 20).ok());
    REQUIRE(killed.share(killed.make(TENON_MODE_SHARED, 0, 100).slot, naming).ok());
    const Done sent =
        sender.share(sender.create(naming, 100).slot, {.flags = TENON_FILENAME_IN_FLIGHT});
    sender.quit();
    stop_between_looks(&living, folder);  // otherwise its thread is faster than the sweep
    killed.kill();
    CHECK_EQ(folder.leaves().size(), 6);
    const tenon_sweep_result dry = sweep(folder.path(), TENON_SWEEP_DRY_RUN);
    CHECK_SAYING(dry.live == 2 && dry.in_flight == 1 && dry.dead == 3 && dry.unsure == 0,
                 text_of(dry));
    CHECK_SAYING(dry.removed_nbytes >= (1 << 20) + 100 && dry.removed_nbytes < (1 << 20) + 65536,
                 text_of(dry));
    CHECK_EQ(folder.leaves().size(), 6);
    const tenon_sweep_result wet = sweep(folder.path());
    CHECK_SAYING(wet.live == 2 && wet.in_flight == 1 && wet.dead == 3 &&
                     wet.removed_nbytes == dry.removed_nbytes,
                 text_of(wet));
    CHECK_EQ(folder.leaves().size(), 3);
    const tenon_sweep_result again = sweep(folder.path());
    CHECK_SAYING(
        again.live == 2 && again.in_flight == 1 && again.dead == 0 && again.removed_nbytes == 0,
        text_of(again));
    living.signal(SIGCONT);
    living.quit();
    CHECK_OK(tenon_filename_decref(&sent.handle, err));
    CHECK(folder.becomes_empty());
  });
}

TEST(Sweep, LeavesEverybodyElsesAlone) {
  IN_FOLDER([](const Folder& folder) {
    const std::string zeros(5000, '\0');
    put_file(folder.at("notes.txt"), "these are not yours");
    put_file(
        folder.at("tenon-notes"),
        "nor are these, whatever their name says, and though they are more than 64 bytes long");
    put_file(folder.at("empty"), "");
    put_file(folder.at("tenon-empty"), "");
    put_file(folder.at("tenon-zeros"), zeros);
    put_file(folder.at("sem.lock"), zeros);
    put_file(folder.at("torch_"), zeros);
    put_file(folder.at("torch_1"), zeros);
    Head tenons;
    tenons.magic = kMagic;
    Folder elsewhere;
    plant(elsewhere.at("dead"), tenons, 100);
    REQUIRE(symlink(elsewhere.at("dead").c_str(), folder.at("tenon-link").c_str()) == 0);
    REQUIRE(symlink("nowhere", folder.at("tenon-dangling").c_str()) == 0);
    REQUIRE(mkdir(folder.at("tenon-dir").c_str(), 0700) == 0);
    REQUIRE(mkfifo(folder.at("tenon-fifo").c_str(), 0600) == 0);
    const int alive = bound_socket(folder.at("alive"), SOCK_STREAM, true);
    close(bound_socket(folder.at("dead"), SOCK_STREAM, true));
    // This socket lacks the mark of Tenon's sockets.
    close(bound_socket(folder.at("tenon-dead"), SOCK_SEQPACKET, true));
    const std::set<std::string> before = folder.leaves();
    const auto try_sweep = [&](uint32_t flags) {
      const tenon_sweep_result found = sweep(folder.path(), flags, 1);
      CHECK_SAYING(found.dead == 0 && found.removed_nbytes == 0, text_of(found));
      CHECK(folder.leaves() == before);
    };
    try_sweep(0);
    CHECK(exists(elsewhere.at("dead")));
    // Making and releasing names there sweeps too, and the service thread checks every closed file.
    for (int i = 0; i < 50; ++i) tenon_storage_release(create({.directory = folder.path()}, 10));
    for (const char* leaf : {"notes.txt", "tenon-notes", "tenon-zeros", "torch_1"}) {
      const int fd = open(folder.at(leaf).c_str(), O_RDWR | O_CLOEXEC);
      CHECK_SAYING(fd >= 0, leaf);
      close(fd);
    }
    {
      Agent marker;  // its thread takes events in order, so it has handled the earlier ones
      REQUIRE(marker.create({.directory = folder.path()}, 10).ok());
      marker.kill();
      CHECK(wait_until([&] { return folder.leaves() == before; }));
    }
    try_sweep(TENON_SWEEP_TORCH);
    close(alive);
    for (const std::string& leaf : before) remove(folder.at(leaf).c_str());
    unlink(elsewhere.at("dead").c_str());
  });
}

// A socket whose maker was killed between bind and link is left alone for a second. Then it is
// dead.
TEST(Sweep, HalfMadeSockets) {
  IN_FOLDER([](const Folder& folder) {
    close(bound_socket(folder.at(".tenon-0123456789abcdef"), SOCK_SEQPACKET, false));
    const tenon_sweep_result young = sweep(folder.path());
    CHECK_SAYING(young.live == 1 && young.dead == 0, text_of(young));
    CHECK(wait_until([&] { return sweep(folder.path()).dead == 1; }));
    CHECK(folder.becomes_empty());
  });
}

// A peer checks a dead name during this process's first sweep, and is killed during its check. No
// event reports its end.
TEST(Sweep, FirstLooksAgainAtWhatAnotherLookedAt) {
  IN_FOLDER([](const Folder& folder) {
    Head head;
    head.magic = kMagic;
    plant(folder.at("tenon-dead"), head, 100);
    const int looks = open(folder.at("tenon-dead").c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(looks >= 0 && flock(looks, LOCK_EX | LOCK_NB) == 0);
    Agent living;
    REQUIRE(living.create({.directory = folder.path()}, 100).ok());
    CHECK(exists(folder.at("tenon-dead")));
    close(looks);
    CHECK(is_gone(folder.at("tenon-dead")));
    living.quit();
  });
}

// There are more dead names than one call has time for. The service thread goes on without another
// call.
TEST(Sweep, FirstRemovesAnyNumberOfDead) {
  IN_FOLDER([](const Folder& folder) {
    Head head;
    head.magic = kMagic;
    for (int i = 0; i < 10'000; ++i) plant(folder.at("tenon-dead-" + std::to_string(i)), head, 100);
    Agent living;
    REQUIRE(living.create({.directory = folder.path()}, 100).ok());
    CHECK(wait_until([&] { return folder.leaves().size() == 1; }));
    living.quit();
  });
}

struct Torch {
  Folder folder;
  std::string plant_one(pid_t maker, Head head = {.count = 1}) const {
    const std::string leaf = "torch_" + std::to_string(maker) + "_3735928559_0";
    plant(folder.at(leaf), head, 1000);
    return folder.at(leaf);
  }
};

TEST(SweepTorch, RemovesTheDeadOnRequestOnly) {
  IN_CHILD([] {
    const Torch torch;
    const std::string path = torch.plant_one(dead_pid());
    tenon_sweep_result found = sweep(torch.folder.path(), 0, 1);
    CHECK_SAYING(found.dead == 0 && exists(path), text_of(found));
    found = sweep(torch.folder.path(), TENON_SWEEP_TORCH);  // it is young
    CHECK_SAYING(found.dead == 0 && found.in_flight == 1 && exists(path), text_of(found));
    found = sweep(torch.folder.path(), TENON_SWEEP_TORCH | TENON_SWEEP_DRY_RUN, 1);
    CHECK_SAYING(found.dead == 1 && exists(path), text_of(found));
    found = sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1);
    CHECK_SAYING(found.dead == 1 && found.removed_nbytes >= 1064 && !exists(path), text_of(found));
  });
}

// A file with an old date is not old. A process that may write a file can give it any date, but
// cannot set the time at which the inode changed.
TEST(SweepTorch, AnOldDateAloneIsNotAge) {
  IN_CHILD([] {
    const Torch torch;
    const std::string path = torch.plant_one(dead_pid());
    const timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    REQUIRE(utimensat(AT_FDCWD, path.c_str(), old, 0) == 0);
    const tenon_sweep_result found = sweep(torch.folder.path(), TENON_SWEEP_TORCH);
    CHECK_SAYING(found.in_flight == 1 && exists(path), text_of(found));
    unlink(path.c_str());
  });
}

TEST(SweepTorch, LeavesWhatALivingMakerMayHaveInAMessage) {
  IN_CHILD([] {
    const Torch torch;
    const std::string path = torch.plant_one(getpid());
    const tenon_sweep_result found = sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1);
    CHECK_SAYING(found.in_flight == 1 && found.dead == 0 && exists(path), text_of(found));
    unlink(path.c_str());
  });
}

TEST(SweepTorch, LeavesWhatSomebodyHolds) {
  IN_CHILD([] {
    const Torch torch;
    const std::string path = torch.plant_one(dead_pid());
    // PyTorch's holder maps the file, closes the fd and takes no lock. Another holder has only an
    // fd, to read.
    for (const bool mapped : {true, false}) {
      const int fd = open(path.c_str(), (mapped ? O_RDWR : O_RDONLY) | O_CLOEXEC);
      void* bytes =
          mapped ? mmap(nullptr, 1064, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
      if (mapped) close(fd);
      const tenon_sweep_result found = sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1);
      CHECK_SAYING(found.live == 1 && found.dead == 0 && exists(path), text_of(found));
      if (mapped) {
        munmap(bytes, 1064);
      } else {
        close(fd);
      }
    }
    CHECK_EQ(sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1).dead, 1);
  });
}

// A file of PyTorch that a Tenon process holds is held too.
TEST(SweepTorch, LeavesWhatTenonHolds) {
  IN_CHILD([] {
    const Torch torch;
    const std::string path = torch.plant_one(dead_pid());
    Agent holder;
    const Done held = holder.open(handle_to(path, 1000));
    CHECK_SAYING(held.ok(), held.outcome.text());
    CHECK_EQ(head_of(path).count, 2);
    CHECK_EQ(sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1).live, 1);
    holder.release(held.slot);
    // A PyTorch process has the file in a message, so Tenon must not remove it.
    CHECK_EQ(head_of(path).count, 1);
    CHECK(exists(path));
    CHECK_EQ(sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1).dead, 1);
    // With count 0 no process has it.
    const std::string alone = torch.plant_one(dead_pid());
    const Done last = holder.open(handle_to(alone, 1000));
    REQUIRE(holder.decref(handle_to(alone, 1000)).ok());
    holder.release(last.slot);
    CHECK(is_gone(alone));
  });
}

// Other names begin with torch_ too.
TEST(SweepTorch, LeavesFilesThatAreNotPyTorchs) {
  IN_CHILD([] {
    const Torch torch;
    const pid_t dead = dead_pid();
    const std::string text =
        "This is a file of more than sixty-four bytes. It begins like a name of PyTorch's, and "
        "nobody has it open.";
    std::vector<std::string> leaves{
        "torch_notes.txt", "torch_cache",           "torch_" + std::to_string(dead),
        "torch__1_2",      "torch_99999999999_1_2", "torch_0_1_2",
        "torch_-5_1_2"};
    for (const std::string& leaf : leaves) put_file(torch.folder.at(leaf), text);
    leaves.push_back("torch_" + std::to_string(dead) + "_notes.txt");
    put_file(torch.folder.at(leaves.back()), text);
    // A good name over bytes that PyTorch never writes: its head is a count and 60 zeros.
    leaves.push_back("torch_" + std::to_string(dead) + "_1_2");
    put_file(torch.folder.at(leaves.back()), text);
    const tenon_sweep_result found = sweep(torch.folder.path(), TENON_SWEEP_TORCH, 1);
    CHECK_SAYING(found.dead == 0, text_of(found));
    for (const std::string& leaf : leaves) {
      CHECK_SAYING(exists(torch.folder.at(leaf)), leaf);
      unlink(torch.folder.at(leaf).c_str());
    }
  });
}

TEST(Sweep, BadInput) {
  IN_FOLDER([](const Folder& folder) {
    put_file(folder.at("file"), "x");
    REQUIRE(symlink(".", folder.at("link").c_str()) == 0);
    auto options = tenon::test::sized<tenon_sweep_options>();
    auto result = tenon::test::sized<tenon_sweep_result>();
    result.live = 77;
    const auto refuse = [&](tenon_status status, const std::string& directory) {
      options.directory = directory.c_str();
      const Outcome outcome = CALL(tenon_filename_sweep(&options, &result, err));
      CHECK_SAYING(outcome.status == status, directory + ": " + outcome.text());
    };
    refuse(TENON_NOT_FOUND, folder.at("none"));
    refuse(TENON_INVALID_ARGUMENT, folder.at("file"));
    refuse(TENON_INVALID_ARGUMENT, folder.at("link"));
    refuse(TENON_INVALID_ARGUMENT, "shm");
    refuse(TENON_INVALID_ARGUMENT, "");
    const std::string good = folder.path();
    options.flags = 4;
    refuse(TENON_UNSUPPORTED, good);
    options.flags = TENON_SWEEP_DRY_RUN;
    options.min_age_ns = -1;
    refuse(TENON_INVALID_ARGUMENT, good);
    options.min_age_ns = 0;
    options.reserved = 1;
    refuse(TENON_UNSUPPORTED, good);
    options.reserved = 0;
    CHECK_EQ(result.live, 77);
    options.directory = good.c_str();
    CHECK_OK(tenon_filename_sweep(&options, nullptr, err));
    result.struct_size = 3;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_filename_sweep(&options, &result, err));
    unlink(folder.at("file").c_str());
    unlink(folder.at("link").c_str());
    // Other programs use the default directory, so this is a dry run.
    options.directory = nullptr;
    CHECK_OK(tenon_filename_sweep(&options, nullptr, err));
  });
}

}  // namespace
}  // namespace names
