// The steps by which a program becomes a process in the background that keeps nothing of the
// process that started it. The caller is the program tenon-manager, also where it is the keeper of
// deposits (channel/deposit_keeper.h). The code that starts tenon-manager (names/manager_start.cc)
// uses the functions for folders too.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Closes every fd but stdin, stdout and stderr. Opens /dev/null in place of each of these three
// that is closed. Call it at the start of a program, before the library or another thread has an
// fd: such an fd would be closed too.
void close_inherited_fds() noexcept;
// Does the same, but keeps `fds` open too. Sorts `fds`.
void close_inherited_fds_but(std::span<int> fds) noexcept;
Result<Fd> open_null();
// Makes stdin, stdout and stderr lead to `null`, which is /dev/null from open_null(). A process
// that waits for the end of one of these streams then does not wait for this process. Call
// open_null() early, while /dev/null can still be opened.
void silence_standard_fds(const Fd& null) noexcept;
// Writes the whole line to stdout, with a newline. May wait until stdout has room for it.
Status print_line(std::string_view line);
// Forks (base/fork.h). Returns false in the calling process, which is to end. Returns true in its
// child, which is in a session of its own.
Result<bool> fork_to_background();
// Returns an fd that becomes readable when SIGTERM, SIGINT or SIGHUP comes. From then on these
// signals do nothing else. SIGPIPE is ignored, and no other signal is blocked. Call it before other
// threads start, because each thread has a signal mask of its own.
Result<Fd> ending_signals();
// Makes a new directory for this user alone. Its name is `prefix` and six random characters.
Result<std::string> make_private_folder(const std::string& prefix);
// Removes the directory if it is empty.
void remove_folder(const std::string& path) noexcept;

}  // namespace tenon::os
