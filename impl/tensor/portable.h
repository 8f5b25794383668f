// Descriptor is a message in portable form: the bytes and the fds to which they refer.
// open_descriptor() opens a descriptor that came from another process. capi/src/descriptor.cc is
// the caller.
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

// The destructor closes this process's copies of the fds. The leases end with the last copy of the
// token: they stand as long as another process has the descriptor or has opened it. A child that is
// forked while the descriptor exists inherits the fds, token included, and keeps the leases until
// it destroys its copy or ends. The destructor can end leases, so its caller holds no ranked lock
// (base/lock_rank.h).
class Descriptor {
 public:
  Descriptor() noexcept = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  // The errors are those of pack(), of Ledger::create() and of duplicating fds. UNSUPPORTED for
  // storages on a device. After an error the leases have ended, but blocks that were lent for a
  // bytes-only descriptor stay retired.
  static Result<std::unique_ptr<Descriptor>> create(const Message& message, bool bytes_only);
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  // Empty for a bytes-only descriptor, whose fds stay in this process for the opener to fetch.
  std::span<const int32_t> fds() const noexcept { return numbers_; }

 private:
  Status take_leases(const struct Packed& packed);
  std::vector<std::byte> bytes_;
  std::vector<int32_t> numbers_;
  std::vector<os::Fd> fds_;
  std::vector<Ref<memory::Segment>> segments_;
  // The token of the ledger of this descriptor, and the tokens of lenders further up. Each lender
  // learns from its token when the last copy is gone, whether the descriptor was opened or not.
  std::shared_ptr<memory::TokenFds> token_;
  Ref<memory::Ledger> ledger_;
  std::vector<std::shared_ptr<memory::LeaseToken>> upstream_;
  std::vector<Ref<Tensor>> tensors_;  // keep the lent storages alive as long as the descriptor
};

// Opens a descriptor. `bytes` is copied before it is read. `fds` are borrowed. The errors are those
// of decode_descriptor(), share::open_segment(), unpack() and, for a bytes-only descriptor,
// fetch_segment_fd(). INVALID_ARGUMENT, with field "n_fds": too few or too many fds. CORRUPT, with
// field "tokens": an fd is no token. After an error nothing that the call opened stays open.
Result<std::unique_ptr<Message>> open_descriptor(std::span<const std::byte> bytes,
                                                 std::span<const int32_t> fds,
                                                 const share::OpenOptions& options);

// Opens the fd of a segment that is reached through /proc. PEER_GONE: the descriptor is of another
// machine or of an earlier start of this one. UNSUPPORTED: it is of another pid namespace. Other
// errors are those of os::open_remote_fd().
Result<os::Fd> fetch_segment_fd(const SegmentRecord& record, const DescriptorContent& content,
                                bool other_user);

}  // namespace tenon::tensor
