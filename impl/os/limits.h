// Checks what this process may still take before it takes it. The kernel answers too late: when
// memory is short it kills the process, and at a limit of file sizes it sends a signal.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace tenon::os {

// Checks whether `nbytes` more bytes of memory can be had. The headroom is the least of
// MemAvailable and, for each memory cgroup (v1, v2) up to the root, the limit less the usage, where
// the page cache of files (not shared memory) counts as free. A cgroup without a limit, or whose
// files cannot be read, is left out. 2 MiB of it are kept for page tables and the like.
// RESOURCE_EXHAUSTED names the limit that was reached, which is RLIMIT_NOFILE if no fd is left to
// read the limits. Takes LockRank::kMemoryLimits. Two processes that race for the last bytes can
// both get an OK. So ask for at most kReserveChunk at a time, and take that memory before asking
// again. For 50 ms after an OK, requests are granted without reading the limits again, up to a
// quarter of the headroom that was left, and up to kReserveChunk, in all. A forked child asks anew.
Status ask_headroom(uint64_t nbytes);

inline constexpr uint64_t kReserveChunk = uint64_t{16} << 20;

// The memory of the machine in bytes. 0 if it is unknown.
uint64_t machine_nbytes() noexcept;

// RLIMIT_FSIZE, which applies to memfds too. The kernel kills a process that exceeds it. UINT64_MAX
// if there is no limit.
uint64_t file_size_limit() noexcept;
// RESOURCE_EXHAUSTED if a file of `nbytes` bytes would exceed that limit.
Status check_file_size(uint64_t nbytes);

// RLIMIT_NOFILE. 0 if it cannot be read.
uint64_t fd_limit() noexcept;
// Whether this process may open more fds for its peers. An eighth of RLIMIT_NOFILE, but at least 16
// fds, is kept for the process itself. True if the number of open fds is unknown.
bool has_spare_fds() noexcept;
// Adds the value of RLIMIT_NOFILE to a status that names this limit. Returns any other status as it
// is, also one that names another limit, such as memory.
Status with_fd_limit(Status status);
// Adds the path that the status is about.
Status with_path(Status status, const std::string& path);

// vm.max_map_count, the most mappings of one process, as the first call read it. The kernel's
// default if /proc cannot be read.
uint64_t max_map_count() noexcept;
// The status RESOURCE_EXHAUSTED for an mmap of `nbytes` that failed with ENOMEM. Finds out which
// limit was reached: vm.max_map_count, RLIMIT_AS or the address space.
Status mapping_limit_status(uint64_t nbytes);

}  // namespace tenon::os
