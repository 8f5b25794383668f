// From a message to a descriptor's content and back: where tensors meet segments and fds.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "memory/arena.h"
#include "memory/lease.h"
#include "memory/segment.h"
#include "share/by_fd.h"
#include "share/cuda_lent.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::tensor {

// A range of a device's memory, of which a message has storages.
struct DeviceSegment {
  int32_t device = 0;                                 // the ordinal
  std::shared_ptr<const share::CudaExport> exported;  // null: of empty storages
  bool read_only = false;
};

// A content whose segments all have Reach::kFd or kDevice, and, index for index, what stands behind
// the first kind.
struct Packed {
  DescriptorContent content;
  std::vector<Ref<memory::Segment>> segments;  // keeps the fds open
  std::vector<int> fds;                        // borrowed from them
  // By fd_index, what stands behind the others, and what leases of them keep.
  std::vector<DeviceSegment> device_segments;
  std::vector<Ref<share::CudaLent>> lent;
  // For each storage, what a lease of it keeps: null, none is needed. Empty if it was packed
  // without leases. The message's storages keep it, and what follows, until it has leases.
  std::vector<memory::Leased*> leased;
  std::vector<memory::Holding*> upstream;  // under which the storages came that are lent on

  // Empty again, with the room that it has.
  void clear() noexcept;
};

// Lends every storage of the message. `packed` is empty before. With leases: blocks come back when
// their leases end, and the caller grants one for each of `leased`; without, they are retired.
enum class Leases { kNo, kYes };
// `let_write`: a device's read-only storages, too, though whoever gets them can write them. Without
// leases a device's are refused.
Status pack(const Message& message, Leases leases, Packed* packed, bool let_write = false);

// Likewise one storage, with a lease and without a tensor.
Status pack_storage(const Ref<storage::Storage>& storage, memory::Access access, Packed* packed);

// What the opener has for one segment record: a mapping to share, an fd to read from for private
// opens, or a device's memory (borrowed).
struct Resolved {
  Ref<memory::Segment> segment;
  int fd = -1;
  const share::CudaReach* device = nullptr;
};

// The highest byte that the content uses of each segment.
std::vector<uint64_t> needed_nbytes(const DescriptorContent& content);

// `content` was validated by decode_descriptor; `resolved` is as long as its segments, `leases` as
// its storages, or empty. What is opened goes into `storages`, so that a call that threw for want
// of memory can be made again and goes on there.
Result<std::unique_ptr<Message>> unpack(DescriptorContent content,
                                        std::span<const Resolved> resolved,
                                        std::span<memory::Lease> leases,
                                        const share::OpenOptions& options,
                                        std::vector<Ref<storage::Storage>>* storages);

}  // namespace tenon::tensor
