#include "os/memory_lock.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace tenon::os {
namespace {

constexpr unsigned kOnFault = 1;  // MLOCK_ONFAULT

}  // namespace

uint64_t memory_lock_limit() noexcept {
  struct rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

Status lock_on_fault(std::byte* base, uint64_t nbytes) {
  // This is the raw call, because not every libc has a wrapper for it.
  if (syscall(SYS_mlock2, base, nbytes, kOnFault) == 0) return Status::ok();
  const int error = errno;
  const uint64_t limit = memory_lock_limit();
  if (error == ENOSYS)
    return Status(Code::kUnsupported, "this kernel cannot lock pages as they come (mlock2)")
        .with("errno", error);
  // The kernel returns EPERM for a limit of 0, and ENOMEM above any other limit. EPERM with another
  // limit comes from a container's filter.
  const bool over = (error == EPERM && limit == 0) || (error == ENOMEM && limit != UINT64_MAX);
  if (!over)
    return errno_status(error, format("locking %llu bytes of memory (mlock2)",
                                      static_cast<unsigned long long>(nbytes)));
  return Status(Code::kResourceExhausted,
                format("locking %llu bytes more is over RLIMIT_MEMLOCK (%llu bytes)",
                       static_cast<unsigned long long>(nbytes),
                       static_cast<unsigned long long>(limit)))
      .with("errno", error)
      .with("limit", std::string("RLIMIT_MEMLOCK"))
      .with("limit_value", limit)
      .with("wanted", nbytes);
}

}  // namespace tenon::os
