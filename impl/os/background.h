// What a program does to become a process in the background that holds nothing of who started it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Stdin, stdout and stderr are open afterwards, on /dev/null where they were not, and no other fd
// is.
void close_inherited_fds() noexcept;
// Likewise, but these stay. Sorts them.
void close_inherited_fds_but(std::span<int> fds) noexcept;
Result<Fd> open_null();
// Stdin, stdout and stderr lead to `null` (/dev/null, opened while that could be) from here on: who
// waits for their end does not wait for this process.
void silence_standard_fds(const Fd& null) noexcept;
// To stdout, whole, with a newline.
Status print_line(std::string_view line);
// False in the process that was started, which is to end; true in its child, which is in a session
// of its own.
Result<bool> fork_to_background();
// Readable when SIGTERM, SIGINT or SIGHUP came, which from here on do nothing else. SIGPIPE is
// ignored; no other signal is blocked.
Result<Fd> ending_signals();
// A new directory for this user alone: `prefix` and six random characters.
Result<std::string> make_private_folder(const std::string& prefix);
// Only an empty one goes.
void remove_folder(const std::string& path) noexcept;

}  // namespace tenon::os
