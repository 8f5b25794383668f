#include "boards.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "os/fd.h"
#include "os/host.h"
#include "os/memfd.h"
#include "os/small_file.h"

namespace tenon::cli {
namespace {

using memory::BoardImage;

// The most candidates that are read of one process. A process has one board and may have inherited
// those of its parents. A process with more candidates tries to keep this one busy.
constexpr size_t kMostCandidates = 32;

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { closedir(folder); }
};

bool is_gone(int error) noexcept { return error == ENOENT || error == ESRCH; }

bool is_board_link(std::string_view target) {
  const std::string prefix = std::string("/memfd:") + memory::board::kNamePrefix;
  return target.starts_with(prefix);
}

// Returns the process's own pid in its innermost pid namespace, which is the last of its numbers in
// /proc. 0: the pid is not known.
uint64_t own_pid_of(pid_t pid) {
  const std::string text = os::read_small_file(format("/proc/%d/status", pid));
  constexpr std::string_view kKey = "\nNSpid:";
  const size_t begin = text.find(kKey);
  if (begin == std::string::npos) return 0;
  const std::string_view line = std::string_view(text).substr(
      begin + kKey.size(), text.find('\n', begin + 1) - begin - kKey.size());
  const size_t last = line.find_last_of("\t ");
  return os::parse_number(last == std::string_view::npos ? line : line.substr(last + 1), 0);
}

// Returns nothing if the board is gone, or if the fd is a copy of another process's board.
Result<std::optional<BoardImage>> read_board(int fds, const char* number, uint64_t own_pid) {
  TENON_ASSIGN(const os::Fd fd, open_memfd_of(fds, number, 0));
  if (!fd.is_open()) return std::optional<BoardImage>();
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd.get()));
  constexpr unsigned kFixed = os::kSealShrink | os::kSealGrow;
  if ((file.seals & kFixed) != kFixed)
    return Status(Code::kCorrupt, "no board: its size is not sealed");

  std::vector<std::byte> head(memory::board::kRowNbytes);
  if (file.nbytes < head.size())
    return Status(Code::kCorrupt, "no board: it is shorter than its header");
  TENON_TRY(os::read_file(fd.get(), 0, head.data(), head.size()));
  Result<uint64_t> nbytes = memory::board_image_nbytes(head, file.nbytes);
  if (!nbytes.is_ok()) {
    if (nbytes.status().code() == Code::kWouldBlock) return std::optional<BoardImage>();
    return std::move(nbytes).status();
  }
  // A copy of another process's board is skipped before any of its rows is read.
  if (own_pid != 0 && memory::board_image_pid(head) != own_pid) return std::optional<BoardImage>();
  std::vector<std::byte> readings[3];
  for (std::vector<std::byte>& each : readings) {
    each.resize(nbytes.value());
    TENON_TRY(os::read_file(fd.get(), 0, each.data(), each.size()));
  }
  TENON_ASSIGN(BoardImage image, memory::decode_board(readings[0], readings[1], readings[2]));
  if (own_pid != 0 && image.pid != own_pid) return std::optional<BoardImage>();
  return std::optional<BoardImage>(std::move(image));
}

class Search {
 public:
  void look_at(pid_t pid) {
    const os::Fd opened(
        open(format("/proc/%d/fd", pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.is_open()) {
      count_unreadable(pid, errno);
      return;
    }
    os::Fd listed(fcntl(opened.get(), F_DUPFD_CLOEXEC, 0));
    const std::unique_ptr<DIR, CloseFolder> folder(listed.is_open() ? fdopendir(listed.get())
                                                                    : nullptr);
    if (folder == nullptr) return;
    (void)listed.detach();
    size_t candidates = 0;
    while (const dirent* entry = readdir(folder.get())) {
      if (entry->d_name[0] == '.') continue;
      char target[PATH_MAX];
      const ssize_t length = readlinkat(opened.get(), entry->d_name, target, sizeof target);
      if (length < 0 && errno == EACCES) {
        count_unreadable(pid, errno);
        return;
      }
      if (length <= 0 || !is_board_link({target, static_cast<size_t>(length)})) continue;
      if (++candidates > kMostCandidates) {
        boards_.refused.push_back(format(
            "process %d has more than %zu fds with the name of a board: the others are passed over",
            pid, kMostCandidates));
        return;
      }
      if (add(pid, opened.get(), entry->d_name)) return;
    }
  }

  Boards take() { return std::move(boards_); }

 private:
  // A kernel thread has no command line and no board, so it is not counted.
  void count_unreadable(pid_t pid, int error) {
    if (!is_gone(error) && !os::read_small_file(format("/proc/%d/cmdline", pid)).empty())
      ++boards_.unreadable;
  }

  // Adds the board if the fd is the board of this very process. True ends the search, because a
  // process has only one board.
  bool add(pid_t pid, int fds, const char* number) {
    Result<std::optional<BoardImage>> image = read_board(fds, number, own_pid_of(pid));
    if (!image.is_ok()) {
      boards_.refused.push_back(
          format("fd %s of process %d: %s", number, pid, image.status().message().c_str()));
      return false;
    }
    if (!image.value().has_value()) return false;
    std::optional<os::ProcessFacts> facts = os::process_facts(pid);
    if (!facts) return false;
    const uint64_t ours = os::host_identity().pid_namespace;
    Board board{std::move(*facts), false, std::move(*image.value())};
    board.same_pids = ours != 0 && board.image.pid_namespace == ours;
    boards_.all.push_back(std::move(board));
    return true;
  }

  Boards boards_;
};

}  // namespace

// Reads the device number of memfds from a memfd. If none can be made, the number is 0, which no
// file system has.
uint64_t memfd_device() {
  static const uint64_t device = []() -> uint64_t {
    Result<os::Fd> fd = os::create_memfd("tenon-reader", 0);
    struct statx info{};
    if (!fd.is_ok() || statx(fd.value().get(), "", AT_EMPTY_PATH, STATX_INO, &info) != 0) return 0;
    return makedev(info.stx_dev_major, info.stx_dev_minor);
  }();
  return device;
}

Result<os::Fd> open_memfd_of(int fds, const char* number, uint64_t wanted_inode) {
  // The file is first opened with O_PATH, because the other process chose it. Opening a pipe or a
  // device can have effects. Asking a file system for a file's size can block, if a process serves
  // it and does not answer.
  const os::Fd handle(openat(fds, number, O_PATH | O_CLOEXEC));
  if (!handle.is_open()) {
    if (is_gone(errno)) return os::Fd();
    return errno_status(errno, "reaching it");
  }
  struct statx info{};
  if (statx(handle.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &info) != 0)
    return errno_status(errno, "looking at it");
  if (wanted_inode != 0 && info.stx_ino != wanted_inode) return os::Fd();
  if (makedev(info.stx_dev_major, info.stx_dev_minor) != memfd_device())
    return Status(Code::kCorrupt, "no board: not a memfd");
  // The file's owner can hold a lease (fcntl) on it. O_NONBLOCK keeps the open from waiting for
  // that lease.
  os::Fd fd(open(format("/proc/self/fd/%d", handle.get()).c_str(),
                 O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!fd.is_open()) return errno_status(errno, "opening it");
  return fd;
}

Boards read_boards() {
  Search search;
  for (const pid_t pid : os::list_processes()) search.look_at(pid);
  Boards boards = search.take();
  boards.read_ns = os::monotonic_ns();
  return boards;
}

}  // namespace tenon::cli
