#include "os/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "os/limits.h"

namespace tenon::os {
namespace {

constexpr size_t kCommandNbytes = 200;

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

template <typename Number>
bool parse(std::string_view text, Number* out, int base = 10) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Reads a file into `out`, at most `most` bytes. Returns 0 or errno.
int slurp(int folder, const char* name, size_t most, std::string* out) {
  constexpr size_t kStep = 65536;
  out->clear();
  const Fd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return errno;
  while (out->size() < most) {
    const size_t old = out->size();
    const size_t step = std::min(kStep, most - old);
    out->resize(old + step);
    const ssize_t got = ::read(fd.get(), out->data() + old, step);
    const int error = errno;
    out->resize(old + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return error;
    if (got == 0) break;
  }
  return 0;
}

}  // namespace

Fd open_process(pid_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d", pid);
  return Fd(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Reads the user from `status`, because the owner of /proc/<pid> is root for a process that may not
// be dumped.
Result<uid_t> process_user(const Fd& folder) {
  std::string text;
  const int error = slurp(folder.get(), "status", 65536, &text);
  if (error == ENOENT || error == ESRCH) return Status(Code::kPeerGone, "the process has ended");
  if (error != 0) return with_fd_limit(errno_status(error, "asking whose a process is"));
  constexpr std::string_view kUid = "\nUid:\t";
  const size_t at = text.find(kUid);
  if (at == std::string::npos) return Status(Code::kIo, "/proc does not tell whose a process is");
  const char* const number = text.data() + at + kUid.size();
  const char* const end = text.data() + text.size();
  uid_t user = 0;
  // The second of the four numbers is the effective user.
  const auto [rest, fault] =
      std::from_chars(std::min(std::find(number, end, '\t') + 1, end), end, user);
  if (fault != std::errc()) return Status(Code::kIo, "/proc does not tell whose a process is");
  return user;
}

Fd open_pidfd(pid_t pid) noexcept {
#ifdef SYS_pidfd_open
  if (pid > 0) return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  static_cast<void>(pid);
#endif
  return {};
}

std::vector<pid_t> list_processes() {
  std::vector<pid_t> pids;
  const Folder folder(::opendir("/proc"));
  if (folder == nullptr) return pids;
  while (const dirent* entry = ::readdir(folder.get())) {
    pid_t pid = 0;
    if (parse(entry->d_name, &pid)) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

Status check_folder_user(const Fd& folder, pid_t pid, const char* option) {
  // /proc tells the user of the first thread, and another thread of this process may have changed
  // its own user.
  if (pid == getpid()) return Status::ok();
  TENON_ASSIGN(const uid_t user, process_user(folder));
  if (user == geteuid()) return Status::ok();
  return Status(
             Code::kPermission,
             format(
                 "process %d is of user %u and this one of user %u: its memory is opened only with "
                 "%s, which is for callers who trust whoever named it",
                 pid, user, geteuid(), option))
      .with("option", std::string(option))
      .with("pid", pid)
      .with("uid", uint64_t{user});
}

Status check_user(const Fd& pidfd, pid_t pid, const char* option) {
  const Fd folder = open_process(pid);
  if (!folder.is_open() && errno != ENOENT)
    return with_fd_limit(errno_status(errno, format("process %d in /proc", pid)));
  if (folder.is_open()) TENON_TRY(check_folder_user(folder, pid, option));
  // If the process still runs, its number was not used again, so the folder was its own.
  pollfd polled{pidfd.get(), POLLIN, 0};
  if (folder.is_open() && ::poll(&polled, 1, 0) == 0) return Status::ok();
  return Status(Code::kPeerGone, format("process %d has ended", pid)).with("pid", pid);
}

namespace {

// The number of bytes of the well-formed UTF-8 character at the start of `text`. 0 if there is
// none, or if it is a control character.
size_t character_nbytes(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t nbytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < nbytes) return 0;
  for (size_t i = 1; i < nbytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  // The characters from U+0080 to U+009F are control characters.
  if (first == 0xc2 && second < 0xa0) return 0;
  // Here a lead byte E0 or F0 begins an overlong form, ED a surrogate, F4 a number beyond U+10FFFF.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90)) return 0;
  if ((first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90)) return 0;
  return nbytes;
}

// Makes a command line printable. A process chooses its own command line, and only plain text of it
// may reach a terminal.
std::string printable(std::string_view raw) {
  std::string text;
  while (!raw.empty() && text.size() < kCommandNbytes) {
    const size_t nbytes = character_nbytes(raw);
    if (text.size() + nbytes > kCommandNbytes) break;
    if (nbytes == 0) {
      text.push_back(raw.front() == '\0' ? ' ' : '?');
    } else {
      text.append(raw.substr(0, nbytes));
    }
    raw.remove_prefix(std::max<size_t>(nbytes, 1));
  }
  return text;
}

}  // namespace

std::optional<ProcessFacts> process_facts(pid_t pid) {
  const Fd folder = open_process(pid);
  if (!folder.is_open()) return std::nullopt;
  ProcessFacts facts;
  facts.pid = pid;
  Result<uid_t> user = process_user(folder);
  if (!user.is_ok()) return std::nullopt;
  facts.uid = user.value();
  std::string text;
  if (slurp(folder.get(), "cmdline", 4 * kCommandNbytes, &text) != 0) text.clear();
  while (!text.empty() && text.back() == '\0') text.pop_back();
  if (!text.empty()) {
    facts.command = printable(text);
    return facts;
  }
  if (slurp(folder.get(), "comm", kCommandNbytes, &text) != 0) return std::nullopt;
  if (!text.empty() && text.back() == '\n') text.pop_back();
  facts.command = format("[%s]", printable(text).c_str());
  return facts;
}

namespace {

// One line of /proc/<pid>/maps: "start-end perms offset major:minor inode   path".
struct MapsLine {
  uint64_t start = 0;
  uint64_t end = 0;
  FileId file;
  std::string_view path;
};

std::string_view next_word(std::string_view* line) noexcept {
  line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
  const std::string_view word = line->substr(0, line->find(' '));
  line->remove_prefix(word.size());
  return word;
}

bool parse_maps_line(std::string_view line, MapsLine* out) noexcept {
  const std::string_view range = next_word(&line);
  next_word(&line);
  next_word(&line);
  const std::string_view device = next_word(&line);
  const std::string_view inode = next_word(&line);
  const size_t dash = range.find('-');
  const size_t colon = device.find(':');
  if (dash == std::string_view::npos || colon == std::string_view::npos) return false;
  unsigned major_number = 0;
  unsigned minor_number = 0;
  if (!parse(range.substr(0, dash), &out->start, 16) ||
      !parse(range.substr(dash + 1), &out->end, 16))
    return false;
  if (!parse(device.substr(0, colon), &major_number, 16) ||
      !parse(device.substr(colon + 1), &minor_number, 16))
    return false;
  if (!parse(inode, &out->file.inode)) return false;
  out->file.device = makedev(major_number, minor_number);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  out->path = line;
  return true;
}

template <typename Each>
void each_maps_line(std::string_view maps, const Each& each) {
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    if (MapsLine parsed; parse_maps_line(line, &parsed)) each(parsed);
  }
}

class HolderSearch {
 public:
  explicit HolderSearch(const std::vector<FileId>& files) : result_(files.size()) {
    for (size_t i = 0; i < files.size(); ++i)
      wanted_[{files[i].device, files[i].inode}].push_back(i);
  }

  void look_at(pid_t pid) {
    const Fd folder = open_process(pid);
    const bool seen = folder.is_open() ? look_at_maps(folder.get(), pid) &&
                                             (maps_.empty() || look_at_fds(folder.get(), pid))
                                       : gone(errno);
    if (!seen) ++unreadable_;
  }

  std::vector<Holders> take() {
    for (Holders& holders : result_) holders.unreadable = unreadable_;
    return std::move(result_);
  }

 private:
  struct Key {
    uint64_t device;
    uint64_t inode;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const noexcept { return keyed_hash({key.device, key.inode}); }
  };

  static bool gone(int error) noexcept { return error == ENOENT || error == ESRCH; }

  void found(uint64_t device, uint64_t inode, pid_t pid) {
    const auto place = wanted_.find({device, inode});
    if (place == wanted_.end()) return;
    for (const size_t i : place->second) {
      std::vector<pid_t>& pids = result_[i].pids;
      if (pids.empty() || pids.back() != pid) pids.push_back(pid);
    }
  }

  // Returns false if the process's mappings may not be read. Kernel threads and zombies have none.
  bool look_at_maps(int folder, pid_t pid) {
    const int error = slurp(folder, "maps", SIZE_MAX, &maps_);
    each_maps_line(maps_, [&](const MapsLine& line) {
      if (line.file.inode != 0) found(line.file.device, line.file.inode, pid);
    });
    return error == 0 || gone(error);
  }

  bool look_at_fds(int folder, pid_t pid) {
    Fd fds(::openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fds.is_open()) return gone(errno);
    const Folder entries(::fdopendir(fds.get()));
    if (entries == nullptr) return false;
    const int number = fds.detach();
    while (const dirent* entry = ::readdir(entries.get())) {
      if (entry->d_name[0] == '.') continue;
      // AT_STATX_DONT_SYNC asks no server: a network file system that does not answer would block
      // this call.
      struct statx info{};
      if (::statx(number, entry->d_name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO, &info) !=
          0)
        continue;
      found(makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino, pid);
    }
    return true;
  }

  std::unordered_map<Key, std::vector<size_t>, Hash> wanted_;
  std::vector<Holders> result_;
  uint64_t unreadable_ = 0;
  std::string maps_;
};

}  // namespace

std::vector<Holders> find_holders(const std::vector<FileId>& files) {
  HolderSearch search(files);
  if (!files.empty()) {
    for (const pid_t pid : list_processes()) search.look_at(pid);
  }
  return search.take();
}

// Reads the path from /proc. dladdr gives the name under which the library was loaded, which may be
// relative to a former working directory.
std::string own_folder() {
  std::string maps;
  if (slurp(AT_FDCWD, "/proc/self/maps", SIZE_MAX, &maps) != 0) return "";
  const auto here = reinterpret_cast<uintptr_t>(&own_folder);
  std::string folder;
  each_maps_line(maps, [&](const MapsLine& line) {
    if (here < line.start || here >= line.end || !line.path.starts_with('/')) return;
    folder = line.path.substr(0, std::max<size_t>(line.path.rfind('/'), 1));
  });
  return folder;
}

}  // namespace tenon::os
