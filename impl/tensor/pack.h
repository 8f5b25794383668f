// From a message to a descriptor's content and back: where tensors meet segments and fds.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
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

  // Empty again, with the room that it has.
  void clear() noexcept;
};

// Lends every storage of the message. `packed` is empty before.
Status pack(const Message& message, Packed* packed);

// What the opener has for one segment record: a mapping to share, or, for private opens, an fd to read from.
struct Resolved {
  Ref<memory::Segment> segment;
  int fd = -1;
};

// The highest byte that the content uses of each segment.
std::vector<uint64_t> needed_nbytes(const DescriptorContent& content);

// `content` was validated by decode_descriptor; `resolved` is as long as its segments.
Result<std::unique_ptr<Message>> unpack(DescriptorContent content, std::span<const Resolved> resolved, const share::OpenOptions& options);

}  // namespace tenon::tensor
