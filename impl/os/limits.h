// What this process may still take, asked before it is taken: the kernel answers too late (a kill,
// a signal) or not at all.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace tenon::os {

// Whether `nbytes` more bytes of memory can be had: the least of MemAvailable and, for each memory
// cgroup (v1, v2) up to the root, its limit less its usage, page cache counted as free.
// RESOURCE_EXHAUSTED names the limit that is met. Two processes that race for the last bytes can
// both be told yes. Ask for at most kReserveChunk at a time and take it before asking again.
Status ask_headroom(uint64_t nbytes);

inline constexpr uint64_t kReserveChunk = uint64_t{16} << 20;

// The memory of the machine; 0 if it cannot be told.
uint64_t machine_nbytes() noexcept;

// RLIMIT_FSIZE, which holds for memfds too and kills who passes it; UINT64_MAX if there is none.
uint64_t file_size_limit() noexcept;
Status check_file_size(uint64_t nbytes);

// RLIMIT_NOFILE; 0 if it cannot be asked.
uint64_t fd_limit() noexcept;
// Whether this process may open more fds for its peers: an eighth of RLIMIT_NOFILE, at least 16, is
// kept for the process itself. True if nothing tells how many are open.
bool has_spare_fds() noexcept;
// Adds its value to a status that names it.
Status with_fd_limit(Status status);
// Adds the path that a status is about.
Status with_path(Status status, const std::string& path);

// vm.max_map_count: the most mappings of one process. As of the first call; its usual value where
// /proc is not there.
uint64_t max_map_count() noexcept;
// Why mmap said ENOMEM.
Status mapping_limit_status(uint64_t nbytes);

}  // namespace tenon::os
