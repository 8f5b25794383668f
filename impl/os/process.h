// Other processes: starts one, notices its end, and reads about it in /proc.
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

// Opens the folder of a process in /proc. Paths below this fd lead to that process or to nothing,
// even if its pid is used again. If the result is not open, errno says why: ENOENT if there is no
// such process or no /proc.
Fd open_process(pid_t pid) noexcept;
// The effective user of the process to which the /proc folder belongs. PEER_GONE if the process has
// ended. RESOURCE_EXHAUSTED: no free fd. IO: /proc does not tell.
Result<uid_t> process_user(const Fd& folder);

// Opens an fd that is readable when the process has ended. Not open if there is no process of that
// pid, or the kernel has no pidfds.
Fd open_pidfd(pid_t pid) noexcept;

// Call this before opening a file of another process with the rights of this one. PERMISSION unless
// that process belongs to our own effective user: its pid came from a peer that may not have those
// rights. This process itself passes, whatever its user. `option` is the option that the message
// names, for callers who trust the sender. `pidfd` shows that the process still runs after its user
// was read, so the pid was not used again meanwhile. If it is not open (no pidfds in this kernel),
// this is not checked. PEER_GONE: the process has ended, or /proc does not show it. Also the errors
// of process_user().
Status check_user(const Fd& pidfd, pid_t pid, const char* option);
// Does the same with the process's folder in /proc, which can belong to no other process.
Status check_folder_user(const Fd& folder, pid_t pid, const char* option);

struct ProcessFacts {
  pid_t pid = 0;
  uid_t uid = 0;
  // The command line, or the name in brackets if there is none. It never has control characters,
  // and at most 200 bytes of it are kept.
  std::string command;
};
// No value if the process has ended, or if /proc does not tell.
std::optional<ProcessFacts> process_facts(pid_t pid);
// The pids of all processes that /proc shows, in ascending order. Empty without /proc.
std::vector<pid_t> list_processes();

// The processes that have a file open or mapped, among those whose /proc entries this process can
// read. This process counts too. `unreadable` is the number of processes whose entries it cannot
// read.
struct Holders {
  std::vector<pid_t> pids;
  uint64_t unreadable = 0;
};
// st_dev and st_ino.
struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
};
// Searches for many files in one pass over the fds and mappings of all processes in /proc.
// result[i] belongs to files[i].
std::vector<Holders> find_holders(const std::vector<FileId>& files);

// Starts a program whose stdin and stderr are /dev/null and whose stdout is a pipe. Returns the
// first line that it prints, without the newline. `program` is a path, which is not looked for in
// PATH, and `arguments` do not contain it. The program gets this process's environment, a session
// of its own, and the default handling of signals. PEER_GONE if it ends before it printed a line.
// Its exit status does not matter after that. NOT_FOUND and PERMISSION as from exec. CORRUPT if the
// line, with its newline, is longer than 4096 bytes. RESOURCE_EXHAUSTED: no free fd or process.
// TIMEOUT, WOULD_BLOCK, CANCELLED and INTERRUPTED as from the waiter. If such an error comes before
// the program's first process has ended, the program's process group is killed.
//
// The program must put itself into the background: its first process ends after the line was
// printed, and this call waits for that. On a kernel without pidfds the waiter does not bound this
// last wait.
//
// The program gets `fds`, which are all over 2, under their own numbers, also if they are
// close-on-exec. It can also inherit fds that other code of this process left without
// close-on-exec. So the program must close all fds but its own when it starts
// (close_inherited_fds()). Only if `fds` is empty, and from glibc 2.34 on, this call has closed
// them for it.
Result<std::string> run_for_line(const std::string& program,
                                 const std::vector<std::string>& arguments, Waiter* waiter,
                                 std::span<const int> fds = {});

// The folder of the shared object (or program) that contains this code. "" if it is unknown.
std::string own_folder();

}  // namespace tenon::os
