// Processes in containers of their own: with their own PID, IPC, mount and network namespaces, a
// private /dev/shm and /tmp, and one directory that they share, at kMeeting.
#pragma once

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/un.h>

#include "process/namespaces/names.h"
#include "support/own_mounts.h"

namespace sides {

using fault::wait_for_child;
using namespace names;

inline constexpr const char* kMeeting = "/tmp/meeting";

// The user and container of a side. uid 0: the test's own user.
struct Who {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  bool contained = true;
  std::string place = kMeeting;  // the path of the directory for a contained side
};

// No machine has these users. The first two are in the group.
inline constexpr gid_t kGroup = 300'000;
inline const Who kMember{210'002, 210'002, {310'000, kGroup}, true, kMeeting};
inline const Who kMemberByItsFirst{210'003, kGroup, {}, true, kMeeting};
inline const Who kStranger{210'004, 210'004, {310'000}, true, kMeeting};

inline Who placed(Who who, bool contained) {
  who.contained = contained;
  return who;
}

// Makes new namespaces. Exits with 77 if the kernel refuses. The caller must fork next, because its
// first child becomes pid 1 of the PID namespace.
inline void leave_the_others() {
  constexpr int kFlags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
  if (tenon::test::enter_namespaces(kFlags | CLONE_NEWNET)) return;
  std::printf("  without a network namespace: %s\n", std::strerror(errno));
  if (!tenon::test::enter_namespaces(kFlags))
    fault::skip(std::string("no namespaces can be made: ") + std::strerror(errno));
}

inline void mount_or_skip(const char* from, const std::string& on, const char* type,
                          unsigned long flags, const char* data) {
  if (mount(from, on.c_str(), type, flags, data) == 0) return;
  fault::skip("nothing can be mounted on " + on + ": " + std::strerror(errno));
}

// Gives the new mount namespace a /tmp and a /dev/shm of its own, and binds the directory `shared`
// to `place`. The process goes on in "/".
inline void settle_in(const std::string& shared, const std::string& place) {
  mount_or_skip(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  const int meeting = open(shared.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(meeting >= 0);
  mount_or_skip("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
  mount_or_skip("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777");
  REQUIRE(mkdir(place.c_str(), 0755) == 0);
  mount_or_skip(("/proc/self/fd/" + std::to_string(meeting)).c_str(), place, nullptr, MS_BIND,
                nullptr);
  close(meeting);
  // A machine that hides parts of its /proc does not let users mount a new one. Then the old one
  // serves, as it does in some containers.
  if (mount("proc", "/proc", "proc", 0, nullptr) != 0)
    std::printf("  with the old /proc: %s\n", std::strerror(errno));
  REQUIRE(chdir("/") == 0);
}

inline void become(const Who& who) {
  if (who.uid == 0) return;
  REQUIRE(setgroups(who.groups.size(), who.groups.data()) == 0);
  REQUIRE(setresgid(who.gid, who.gid, who.gid) == 0);
  REQUIRE(setresuid(who.uid, who.uid, who.uid) == 0);
}

// A process on one side, and its maker, which makes the namespaces and waits for it. In a PID
// namespace the process is pid 1, which an alarm does not kill. So the maker has the alarm, and the
// process dies with the maker.
class Side {
 public:
  // `body` gets the path of the directory on this side.
  Side(const Meeting& meeting, const Who& who,
       const std::function<void(const std::string&)>& body) {
    int news[2];
    int settled[2];
    REQUIRE(pipe2(news, O_CLOEXEC) == 0 && pipe2(settled, O_CLOEXEC) == 0);
    maker_ = fault::spawn([&] {
      close(news[0]);
      close(settled[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string place = who.contained ? who.place : meeting.path();
      if (who.contained) leave_the_others();
      std::fflush(nullptr);
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        close(news[1]);
        if (who.contained) settle_in(meeting.path(), place);
        become(who);
        prctl(PR_SET_PDEATHSIG, SIGKILL);  // these calls clear it, so it comes after them
        REQUIRE(write(settled[1], "x", 1) == 1);
        close(settled[1]);
        body(place);
        std::fflush(nullptr);
        _exit(fault::g_failures == 0 ? 0 : 1);
      }
      REQUIRE(write(news[1], &pid, sizeof pid) == sizeof pid);
      close(news[1]);
      close(settled[1]);
      const int status = wait_for_child(pid);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    });
    REQUIRE(maker_ > 0);
    close(news[1]);
    close(settled[1]);
    if (read(news[0], &pid_, sizeof pid_) != sizeof pid_) pid_ = -1;
    // Without this byte, a process that waits for this side would not learn that the side could not
    // start.
    char told = 0;
    const bool is_there = read(settled[0], &told, 1) == 1;
    close(news[0]);
    close(settled[0]);
    if (!is_there) {
      CHECK_EQ(finish(), 0);
      _exit(1);
    }
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    if (maker_ > 0) CHECK_EQ(finish(), 0);
  }
  pid_t pid() const { return pid_; }  // the pid that the test sees
  // Returns the exit status, or 128 + signal if the process was killed.
  int finish() {
    const int status = wait_for_child(std::exchange(maker_, -1));
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == fault::kSkip) _exit(fault::g_failures == 0 ? fault::kSkip : 1);
    return code;
  }
  void kill() {
    REQUIRE(pid_ > 0 && ::kill(pid_, SIGKILL) == 0);
    CHECK_EQ(finish(), 128 + SIGKILL);
  }

 private:
  pid_t maker_ = -1;
  pid_t pid_ = -1;
};

}  // namespace sides
