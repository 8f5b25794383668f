/// @file
/// Leases: these functions tell which processes borrow memory of this process, and let a process
/// run without the library's service thread. tenon/lease.h has the details.
#ifndef TENON_CPP_LEASE_HPP
#define TENON_CPP_LEASE_HPP

#include <tenon/lease.h>
#include <tenon/cpp/error.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

TENON_CPP_BEGIN

/// A borrower that holds leases of this process's blocks. tenon/lease.h explains each figure.
using LeaseHolder = tenon_lease_holder;

/// Lists the holders of leases. There is one entry for each connection whose peer holds leases, and
/// there can be more entries (see tenon/lease.h).
inline Result<std::vector<LeaseHolder>> try_lease_holders() {
  return detail::list<LeaseHolder>(tenon_lease_holders);
}

/// Makes the library start no service thread in this process. The process must poll lease_fd() and
/// call lease_poll(). Call this function before the first call that starts the thread (rule 10 in
/// tenon/tenon.h).
inline Result<void> try_lease_use_no_thread() { return detail::call(tenon_lease_use_no_thread); }

/// Gives the fd to poll in a process without a service thread, borrowed. It is readable when
/// lease_poll() has something to do. A child of fork gets another fd.
inline Result<int> try_lease_fd() {
  std::int32_t fd = -1;
  const Result<void> called =
      detail::call([&](tenon_error** err) { return tenon_lease_fd(&fd, err); });
  if (!called) return called.error();
  return fd;
}

/// Does the work that is due in a process without a service thread. The call does not block and
/// takes about a millisecond at most. If more work is left, the fd stays readable. There is one
/// exception: releasing memory that a device has pinned may wait for the device.
inline Result<void> try_lease_poll() { return detail::call(tenon_lease_poll); }

#ifndef TENON_NO_EXCEPTIONS
inline std::vector<LeaseHolder> lease_holders() { return try_lease_holders().value(); }
inline void lease_use_no_thread() { try_lease_use_no_thread().value(); }
inline int lease_fd() { return try_lease_fd().value(); }
inline void lease_poll() { try_lease_poll().value(); }
#endif

TENON_CPP_END

#endif
