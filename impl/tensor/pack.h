// Turns a message into the content of a descriptor and back. Here tensors meet segments and fds.
// Connections, deposits and portable descriptors are the callers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "device/lease.h"
#include "memory/arena.h"
#include "memory/lease.h"
#include "memory/segment.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::tensor {

// A range of a device's memory in which a message has storages.
struct DeviceSegment {
  int32_t device = 0;                                  // the device's ordinal
  std::shared_ptr<const device::CudaExport> exported;  // null: the segment of empty storages
  bool read_only = false;
};

// A packed message. All segments of its content have Reach::kFd or kDevice. `segments` and `fds`
// have an entry for each of them: for kDevice it is null and -1.
struct Packed {
  DescriptorContent content;
  std::vector<Ref<memory::Segment>> segments;  // these keep the fds open
  std::vector<int> fds;                        // borrowed from `segments`
  // For kDevice, SegmentRecord::fd_index is an index of this vector.
  std::vector<DeviceSegment> device_segments;
  // Keeps the objects of `leased` that belong to device storages, in the order of these storages.
  std::vector<Ref<device::CudaLent>> lent;
  // For each storage, the object that a lease of it keeps. Null: the storage needs no lease. Empty
  // if the message was packed without leases. The message's storages keep these objects, and the
  // holdings below, until the leases are granted.
  std::vector<memory::Leased*> leased;
  std::vector<memory::Holding*> upstream;  // the holdings of storages that are lent on

  // Empties the object, but keeps the allocated room of tables that are not huge.
  void clear() noexcept;
};

// Lends every storage of the message. `packed` must be empty. With leases, blocks come back when
// their leases end, and the caller grants a lease for each entry of `leased`. Without leases, the
// blocks are retired.
enum class Leases { kNo, kYes };
// `let_write`: also lend a device's read-only storages when the receiver would be able to write
// them (device/lease.h). Without leases, storages of a device are UNSUPPORTED. After an error or
// std::bad_alloc `packed` is half filled, and the caller clears it. Blocks that were retired by
// then stay so. The errors are those of share::lend() and, for a device, of
// device::CudaLent::create(). RESOURCE_EXHAUSTED, too, if there is no memory for the tables of a
// message of 10,000 tensors or more: for smaller ones it is std::bad_alloc. The call lends, so its
// caller holds no ranked lock (base/lock_rank.h).
Status pack(const Message& message, Leases leases, Packed* packed, bool let_write = false);

// Lends one storage, with a lease and without a tensor. `packed`, errors and locks are as for
// pack().
Status pack_storage(const Ref<storage::Storage>& storage, memory::Access access, Packed* packed);

// The opener's access to one segment: a mapping to share, an fd to read from for private openings
// (borrowed), or a device's memory (borrowed).
struct Resolved {
  Ref<memory::Segment> segment;
  int fd = -1;
  const device::ReachableCuda* device = nullptr;
};

// For each segment, the end of the part that the content uses, in bytes.
std::vector<uint64_t> needed_nbytes(const DescriptorContent& content);

// Opens the storages and makes the message. `content` must have passed decode_descriptor().
// `resolved` has an entry for each segment, and `leases` has one for each storage or is empty.
// Opened storages are put into `storages`, after an error too. A storage takes its lease out of
// `leases`. If a storage of the CPU's memory needs no lease (this process has it already, or it is
// a private copy), the lease ends in this call. All other leases stay in `leases`, after an error
// too. A call that threw for want of memory can be repeated with the same `storages` and `leases`
// and continues there. It needs `content` anew. The errors are those of share::open_range(),
// share::open_private() and device::open_leased_cuda(), and CORRUPT for composites whose parts are
// on wrong devices. The caller holds no ranked lock.
Result<std::unique_ptr<Message>> unpack(DescriptorContent content,
                                        std::span<const Resolved> resolved,
                                        std::span<memory::Lease> leases,
                                        const share::OpenOptions& options,
                                        std::vector<Ref<storage::Storage>>* storages);

}  // namespace tenon::tensor
