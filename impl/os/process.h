// Other processes: starting one, noticing its end, and what /proc says of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::os {

// The folder of a process in /proc. Its paths lead to that process or to nothing, even if its
// number is used again. Not open if there is none, or if /proc is not there.
Fd open_process(pid_t pid) noexcept;
// The effective user of the process of that folder. PEER_GONE if the process has ended.
Result<uid_t> process_user(const Fd& folder);

// Readable when the process has ended. Not open if there is none of that pid, or the kernel has no
// pidfds.
Fd open_pidfd(pid_t pid) noexcept;

// Call before a file of another process is opened with the rights of this one. PERMISSION unless
// that process is of our own effective user: its number came from a peer that may not have those
// rights. `option`: what the message names for callers who trust the sender. PEER_GONE: it has
// ended.
Status check_user(const Fd& pidfd, pid_t pid, const char* option);
// Likewise, by its folder in /proc.
Status check_folder_user(const Fd& folder, pid_t pid, const char* option);

struct ProcessFacts {
  pid_t pid = 0;
  uid_t uid = 0;
  // The command line, else the name in brackets; never with control characters.
  std::string command;
};
std::optional<ProcessFacts> process_facts(pid_t pid);
std::vector<pid_t> list_processes();

// Who has the file open or mapped, of the processes whose /proc entries this one can read.
// `unreadable`: how many it cannot.
struct Holders {
  std::vector<pid_t> pids;
  uint64_t unreadable = 0;
};
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
};
// For many files in one pass over /proc: result[i] belongs to files[i].
std::vector<Holders> find_holders(const std::vector<FileId>& files);

// Start a program with no fds but stdin and stdout: /dev/null and a pipe; stderr is /dev/null too.
// Returns the first line that it prints (without its newline). PEER_GONE if it ends before;
// NOT_FOUND and PERMISSION as exec. The program is to put itself into the background: its first
// process ends after the line was printed, and is waited for here. `fds`, all over 2, it gets under
// their own numbers; with them it must close whatever else it was born with
// (close_inherited_fds()).
Result<std::string> run_for_line(const std::string& program,
                                 const std::vector<std::string>& arguments, Waiter* waiter,
                                 std::span<const int> fds = {});

// The folder of the shared object (or program) that this code is in; "" if it cannot be told.
std::string own_folder();

}  // namespace tenon::os
