// Lending and opening by file descriptor.
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

// What a lend hands out.
struct Lend {
  int fd = -1;  // borrowed from the segment; -1 for an empty storage
  Access access = Access::kWritable;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
};

// Whether this storage may be lent with this access, and which access that comes to.
Result<Access> check_lend(const Storage& storage, Access wanted);
// Likewise, of a storage on a device, as far as it can be told without the driver.
Result<Access> check_lend_device(const Storage& storage, Access wanted);
// Lend. Without a lease nobody tells when the borrower is done: from here on the block is never
// used for another storage.
Result<Lend> lend(const Ref<Storage>& storage, Access wanted, bool under_lease);

struct OpenOptions {
  Access access = Access::kAuto;
  bool private_cow = false;
  bool private_copy = false;
  bool allow_unsealed = false;
  bool allow_named_files = false;         // let in named files that Tenon made, which have no seals
  bool other_user = false;                // fetch fds from a process of another user, too
  std::shared_ptr<os::MapBudget> budget;  // against which mappings count; null: only this process's
  bool is_private() const noexcept { return private_cow || private_copy; }
};

// A handle as it came: nothing of it is trusted.
struct Claim {
  Access access = Access::kAuto;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  uint64_t segment_nbytes = 0;
};

// The fd is borrowed, unless `adopt` is given: then it is taken out of it on success.
Result<Ref<Storage>> open_by_fd(int fd, const Claim& claim, const OpenOptions& options,
                                os::Fd* adopt);

// The parts, for descriptors that hold many storages of one segment. `options` is not private.
Result<Ref<Segment>> open_segment(int fd, Access claimed, uint64_t segment_nbytes,
                                  uint64_t needed_nbytes, const OpenOptions& options,
                                  os::Fd* adopt);
// The storage keeps the lease; one that is open already has its own, and gives this one back.
Result<Ref<Storage>> open_range(const Ref<Segment>& segment, uint64_t offset, uint64_t nbytes,
                                memory::Lease* lease);
Result<Ref<Storage>> open_private(int fd, const Claim& claim, const OpenOptions& options);

}  // namespace tenon::share
