// Lends storages by file descriptor and opens them. The C API, descriptors and connections call
// these functions. Lending by name (by_filename.h) uses them for sockets.
//
// The functions that lend or open go through memory::with_spare(), so their caller holds no ranked
// lock (base/lock_rank.h).
#pragma once

#include <cstdint>
#include <memory>

#include "base/counted.h"
#include "base/status.h"
#include "memory/holding.h"
#include "memory/mode.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "os/map_budget.h"
#include "storage/storage.h"

namespace tenon::share {

using memory::Access;
using memory::Segment;
using storage::Storage;

// The handle that lend() makes.
struct Lend {
  int fd = -1;  // borrowed from the segment; -1 for an empty storage
  Access access = Access::kWritable;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
};

// Gives the access that a lend of this storage has, if the caller asks for `wanted`. If that lend
// is not allowed: PERMISSION with the detail `option`, UNSUPPORTED for private memory and device
// memory, PEER_GONE for a dropped storage.
Result<Access> check_lend(const Storage& storage, Access wanted);
// Does the same for a storage on a device, as far as the answer is known without the driver.
Result<Access> check_lend_device(const Storage& storage, Access wanted);
// Makes the handle of a lend. `under_lease`: the caller sends a lease of the block along. A lend
// without a lease retires the block: nobody tells this process when the borrower is done, so the
// block is never used for another storage. The errors are those of check_lend() and of
// Segment::lending_fd(). After an error or std::bad_alloc the block is not retired.
Result<Lend> lend(const Ref<Storage>& storage, Access wanted, bool under_lease);

struct OpenOptions {
  Access access = Access::kAuto;
  bool private_cow = false;
  bool private_copy = false;
  bool allow_unsealed = false;
  bool allow_named_files = false;  // accept named files that Tenon made, which have no seals
  bool other_user = false;         // may fetch fds from a process of another user
  // The mappings count against this budget of one peer, and in any case against this process's own
  // limit. Null: only against the latter.
  std::shared_ptr<os::MapBudget> budget;
  bool is_private() const noexcept { return private_cow || private_copy; }
};

// A handle as it came from another process. No field of it is trusted.
struct Claim {
  Access access = Access::kAuto;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
};

// Opens a storage. An `fd` of -1 opens an empty storage. The fd is borrowed if `adopt` is null.
// Otherwise `*adopt` owns the fd, and is emptied if the call succeeds. After an error it still owns
// the fd. INVALID_ARGUMENT: the claim's numbers contradict each other. PERMISSION: the handle or
// the fd does not allow the access. Other errors are those of Segment::inspect(), Segment::open()
// and Segment::check_pages().
Result<Ref<Storage>> open_by_fd(int fd, const Claim& claim, const OpenOptions& options,
                                os::Fd* adopt);

// The three functions from here on are the parts of open_by_fd(), for descriptors that hold many
// storages of one segment. The errors, and `adopt`, are as for open_by_fd().
//
// open_segment() opens the segment, or finds the one that this process has already. It has at least
// `needed_nbytes` bytes. `options` must not ask for a private opening.
Result<Ref<Segment>> open_segment(int fd, Access claimed, uint64_t segment_nbytes,
                                  uint64_t needed_nbytes, const OpenOptions& options,
                                  os::Fd* adopt);
// Opens a storage in a range of a segment. A new storage takes `*lease`, which may be null or
// empty. A storage that is already open has its own lease, and `*lease` stays with the caller. If
// another thread opened the range at the same moment, the lease is given back here. After an error
// or std::bad_alloc `*lease` is still the caller's. In a forked child, a range of its parent's
// memory that comes with a lease is a new storage, because the inherited one does not keep the
// block in the parent.
Result<Ref<Storage>> open_range(const Ref<Segment>& segment, uint64_t offset, uint64_t nbytes,
                                memory::Lease* lease);
// Makes a private storage of the claimed range, a copy-on-write mapping or a copy. The fd is
// borrowed.
Result<Ref<Storage>> open_private(int fd, const Claim& claim, const OpenOptions& options);

}  // namespace tenon::share
