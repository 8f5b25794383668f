// Files, pipes and sockets that a user names or hands over: reading a file that somebody may cut
// short, and writing to whatever an fd is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// A regular file. Never waits for the other end of a pipe. INVALID_ARGUMENT if it is something
// else.
Result<Fd> open_to_read(const std::string& path);
// CORRUPT if the file ends before.
Status read_at(int fd, uint64_t offset, void* to, uint64_t nbytes, const std::string& name);
// The one and then the other, from the fd's position on. Waits where a non-blocking fd has no room.
// Neither SIGPIPE nor SIGXFSZ comes of it: PEER_GONE if nobody reads, RESOURCE_EXHAUSTED, naming
// the limit, if there is no room. Failing, it may have written some of it.
Status write_whole(int fd, std::span<const std::byte> head, std::span<const std::byte> body,
                   const std::string& name);

}  // namespace tenon::os
