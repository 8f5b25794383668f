// A descriptor as an object: the bytes of a message and the fds it counts on, and opening one that
// came from elsewhere.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/holding.h"
#include "memory/ledger.h"
#include "os/fd.h"
#include "share/by_fd.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::tensor {

class Descriptor {
 public:
  Descriptor() noexcept = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  static Result<std::unique_ptr<Descriptor>> create(const Message& message, bool bytes_only);
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  // Empty for a bytes-only one, whose fds stay here to be fetched.
  std::span<const int32_t> fds() const noexcept { return numbers_; }

 private:
  Status take_leases(const struct Packed& packed);
  std::vector<std::byte> bytes_;
  std::vector<int32_t> numbers_;
  std::vector<os::Fd> fds_;
  std::vector<Ref<memory::Segment>> segments_;
  // Of what is lent by it, and of lenders further up: each is told when the last copy is gone,
  // opened or not.
  std::shared_ptr<memory::TokenFds> token_;
  Ref<memory::Ledger> ledger_;
  std::vector<std::shared_ptr<memory::Token>> upstream_;
  std::vector<Ref<Tensor>> tensors_;  // what is lent lives while the descriptor does
};

// `bytes` is copied before it is looked at; `fds` are borrowed.
Result<std::unique_ptr<Message>> open_descriptor(std::span<const std::byte> bytes,
                                                 std::span<const int32_t> fds,
                                                 const share::OpenOptions& options);

// A segment that is reached through /proc.
Result<os::Fd> fetch_segment_fd(const SegmentRecord& record, const DescriptorContent& content,
                                bool other_user);

}  // namespace tenon::tensor
