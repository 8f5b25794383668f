// Names of named files and sockets (docs/format/filename.md): checks them and turns them into
// paths. impl/names, deposits (impl/channel), the manager and the program `tenon` use these
// functions. They only work on text and touch no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon::names {

inline constexpr std::string_view kSharedMemory = "/dev/shm";
inline constexpr std::string_view kDefaultPrefix = "tenon-";
// The prefix of a lender's bell, an empty file. Watchers of its directory are told when the lender
// ends.
inline constexpr std::string_view kBellPrefix = ".tenon-bell-";
// The prefix of a file that is still being made.
inline constexpr std::string_view kMakingPrefix = ".tenon-new-";
// The size of tenon_filename_handle.name, with its NUL.
inline constexpr size_t kNameNbytes = 256;

struct Filename {
  // Absolute. check_directory() and choose_filename() leave no slash at its end. parse_filename()
  // leaves one for a text with two slashes before the leaf.
  std::string directory;
  std::string leaf;
  // The text in a handle: "/leaf" for a name in /dev/shm, and otherwise the path.
  std::string text() const;
  std::string path() const { return directory + "/" + leaf; }
};

// Parses the text in a handle. INVALID_ARGUMENT (detail path) for a text that is empty, relative or
// longer than 255 bytes, or whose leaf is "", "." or ".." or has a NUL.
Result<Filename> parse_filename(std::string_view text);
// Checks the path of a directory: INVALID_ARGUMENT if it is relative or the root, or has a NUL. The
// result has no slash at its end.
Result<std::string> check_directory(std::string_view directory);
// Makes an error about `path` from `cause`, with the same code and details. Its detail path is
// `path`. It leaves out the detail fd, because the caller never saw that fd.
Status name_error(const std::string& path, const Status& cause);
// Makes an error whose message is `path` followed by `why`, and whose detail path is `path`.
Status refuse_name(const std::string& path, Code code, const std::string& why);
// Chooses the name of a new file or socket: `leaf`, or, if `leaf` is empty, `prefix` and 128 random
// bits. INVALID_ARGUMENT: the three give no name that parse_filename() takes.
Result<Filename> choose_filename(std::string_view directory, std::string_view prefix,
                                 std::string_view leaf);

// How long a file is kept for a message in flight after the orderly exit of the message's sender.
inline constexpr int64_t kKeepNs = 60'000'000'000;

// Gives the pid in a name that PyTorch chose: torch_PID_RANDOM_COUNTER, or torch_PID_RANDOM of an
// older version. 0 for any other name.
int32_t maker_of_torch_name(std::string_view leaf) noexcept;

}  // namespace tenon::names
