// Leases: who holds blocks of this process, and looking after them without a thread.
#ifndef TENON_CPP_LEASE_HPP
#define TENON_CPP_LEASE_HPP

#include <tenon/lease.h>
#include <tenon/cpp/error.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

TENON_CPP_BEGIN

/// Who holds leases of this process's blocks, over one connection; tenon/lease.h says what each figure is.
using LeaseHolder = tenon_lease_holder;

/// Who holds leases, one entry for each connection that does.
inline Result<std::vector<LeaseHolder>> try_lease_holders() {
  std::vector<LeaseHolder> holders;
  std::size_t total = 0;
  do {
    // Some more may come meanwhile.
    holders.resize(total + 1);
    holders[0].struct_size = sizeof(LeaseHolder);
    const Result<void> called =
        detail::call([&](tenon_error** err) { return tenon_lease_holders(holders.data(), holders.size(), &total, err); });
    if (!called) return called.error();
  } while (total > holders.size());
  holders.resize(total);
  return holders;
}

/// Have no thread: the process itself polls lease_fd() and calls lease_poll(). Before the first lend and the first use of a name.
inline Result<void> try_lease_use_no_thread() { return detail::call(tenon_lease_use_no_thread); }

/// The fd to poll, borrowed, readable when lease_poll() has something to do; another one in a child of fork. Without a thread only.
inline Result<int> try_lease_fd() {
  std::int32_t fd = -1;
  const Result<void> called = detail::call([&](tenon_error** err) { return tenon_lease_fd(&fd, err); });
  if (!called) return called.error();
  return fd;
}

/// Do what is due, and never block: about a millisecond at most, and the fd stays readable if there is more. Without a thread only.
/// But the end of memory that a device has pinned may wait for the device.
inline Result<void> try_lease_poll() { return detail::call(tenon_lease_poll); }

#ifndef TENON_NO_EXCEPTIONS
inline std::vector<LeaseHolder> lease_holders() { return try_lease_holders().value(); }
inline void lease_use_no_thread() { try_lease_use_no_thread().value(); }
inline int lease_fd() { return try_lease_fd().value(); }
inline void lease_poll() { try_lease_poll().value(); }
#endif

TENON_CPP_END

#endif
