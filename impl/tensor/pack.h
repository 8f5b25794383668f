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
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::tensor {

// A content whose segments all have Reach::kFd, and, index for index, what stands behind them.
struct Packed {
  DescriptorContent content;
  std::vector<Ref<memory::Segment>> segments;  // keeps the fds open
  std::vector<int> fds;                        // borrowed from them
  // For each storage, what a lease of it keeps: null, none is needed. Empty if it was packed without leases. The message's storages keep
  // it, and what follows, until it has leases.
  std::vector<memory::Leased*> leased;
  std::vector<memory::Holding*> upstream;  // under which the storages came that are lent on

  // Empty again, with the room that it has.
  void clear() noexcept;
};

// Lends every storage of the message. `packed` is empty before. With leases: blocks come back when their leases end, and the caller grants
// one for each of `leased`; without, they are retired.
enum class Leases { kNo, kYes };
Status pack(const Message& message, Leases leases, Packed* packed);

// What the opener has for one segment record: a mapping to share, or, for private opens, an fd to read from.
struct Resolved {
  Ref<memory::Segment> segment;
  int fd = -1;
};

// The highest byte that the content uses of each segment.
std::vector<uint64_t> needed_nbytes(const DescriptorContent& content);

// `content` was validated by decode_descriptor; `resolved` is as long as its segments, `leases` as its storages, or empty.
// What is opened goes into `storages`, so that a call that threw for want of memory can be made again and goes on there.
Result<std::unique_ptr<Message>> unpack(DescriptorContent content, std::span<const Resolved> resolved, std::span<memory::Lease> leases,
                                        const share::OpenOptions& options, std::vector<Ref<storage::Storage>>* storages);

}  // namespace tenon::tensor
