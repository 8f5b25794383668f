// Reading and writing of files, pipes and sockets that the user names or passes as fds. A file may
// be cut short while it is read: that is an error and no signal. A write works on any kind of fd.
// Module archives are read and written through these functions. `name` is the name of the file in
// error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Opens a regular file. Never waits for the other end of a pipe. INVALID_ARGUMENT if the path leads
// to a directory, a pipe or a device, and IO if it leads to a socket. NOT_FOUND, PERMISSION and
// RESOURCE_EXHAUSTED as from open(). The errors have the detail `path`.
Result<Fd> open_to_read(const std::string& path);
// Reads exactly `nbytes` bytes. CORRUPT if the file ends before that.
Status read_at(int fd, uint64_t offset, void* to, uint64_t nbytes, const std::string& name);
// Writes `head` and then `body` at the fd's position. Waits while a non-blocking fd has no room,
// for ever if need be. Neither SIGPIPE nor SIGXFSZ is raised. PEER_GONE if nobody reads.
// RESOURCE_EXHAUSTED, with the name of the limit, if there is no room. A call that fails may have
// written a part of the bytes.
Status write_whole(int fd, std::span<const std::byte> head, std::span<const std::byte> body,
                   const std::string& name);

}  // namespace tenon::os
