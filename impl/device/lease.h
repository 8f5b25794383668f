// Device memory that is lent over a connection. Leases govern it, as they govern host memory, so it
// needs none of PyTorch's counter files. The memory comes back even if the receiver is killed, or
// if nobody reads the message.
//
// The locks here have no rank and are not fork-safe. So the caller refuses a forked child before,
// as Connection does, or asks the driver, which refuses the child (cuda::available()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/stream.h"
#include "device/events.h"
#include "device/export.h"
#include "device/import.h"
#include "memory/lease.h"
#include "memory/mode.h"
#include "storage/storage.h"

namespace tenon::device {

// What one lease of device memory keeps: the storage, and the event that the receiver waits for.
// Each message that lends the storage has its own.
class CudaLent final : public memory::Leased {
 public:
  // The storage has at least one byte. `wanted` is kReadOnly if the receiver's device must refuse
  // writes. PERMISSION: the storage is read-only, and `let_write` is false. UNSUPPORTED: no
  // transport can lend the memory, or `let_write` is false and the transport cannot lend it
  // read-only. With `let_write`, memory that the receiver should not write is lent read-only if the
  // transport can do that, and otherwise writable (see is_read_only()). The transport is the first
  // by which the memory can travel. PEER_GONE: the storage's lender is gone.
  static Result<Ref<CudaLent>> create(const Ref<storage::Storage>& storage, memory::Access wanted,
                                      bool let_write);

  const std::shared_ptr<const CudaExport>& exported() const noexcept { return exported_; }
  uint64_t offset() const noexcept { return as_pointer() - exported_->base; }
  bool is_read_only() const noexcept { return read_only_; }
  const Ref<storage::Storage>& storage() const noexcept { return storage_; }
  int32_t device() const noexcept { return storage_->device().id; }
  void set_event(std::shared_ptr<const CudaEvent> event) noexcept { event_ = std::move(event); }

  uint64_t leased_nbytes() const noexcept override { return storage_->nbytes(); }
  // Any thread that drains the ledgers may call this, the library's own thread included, and no
  // owner's function may run there. So the object only joins a list, and a thread that calls
  // collect_some_cuda() later lets it go.
  void lease_ended() noexcept override;

 private:
  friend void end_lent_cuda(bool ask_kernel) noexcept;
  CudaLent(Ref<storage::Storage> storage, std::shared_ptr<const CudaExport> exported,
           bool read_only) noexcept;
  ~CudaLent() override = default;
  void dispose() noexcept override;
  cuda::DevicePointer as_pointer() const noexcept {
    return reinterpret_cast<uintptr_t>(storage_->data());
  }

  Ref<storage::Storage> storage_;
  std::shared_ptr<const CudaExport> exported_;
  std::shared_ptr<const CudaEvent> event_;
  CudaLent* next_ended_ = nullptr;
  bool read_only_;
};

// The event that tells receivers when the bytes are valid. Null: this call waited for the stream,
// so the bytes are valid already.
Result<std::shared_ptr<const CudaEvent>> mark_lent_cuda(cuda::Stream stream, int32_t device);
// The receiver's side: makes `stream` wait for the lender's event, which may be this process's own.
Status wait_for_lender(const cuda::IpcHandle& event, cuda::Stream stream, int32_t device);

// A range of device memory that a message has storages in, as this process reaches it. `mapping` is
// null for memory that this process owns, and when every storage in the range is empty.
struct ReachableCuda {
  Ref<CudaMapping> mapping;
  std::shared_ptr<const CudaExport> own;
  cuda::DevicePointer base = 0;
  int32_t device = 0;
  cuda::Stream stream = nullptr;
};
// Reaches the memory behind a handle. `fds` are borrowed. `stream` of the result is null: the
// caller sets it before open_leased_cuda(). CORRUPT: the handle is malformed, or names an
// expandable segment of PyTorch's, which a connection does not carry. The other errors are those of
// complete_route() and map_cuda().
Result<ReachableCuda> reach_cuda(std::span<const std::byte> handle, std::span<const int> fds,
                                 int32_t device, bool read_only);
// Opens a storage in the range, for use in the stream of `reach`. A new storage takes `*lease`. A
// storage that is already open has a lease of its own, and memory that this process owns needs
// none. In these two cases `*lease` stays with the caller, who gives it back once the whole message
// is made: until then another attempt to receive the message must find the memory lent.
// INVALID_ARGUMENT: the range leaves the memory, or this process does not lend it any more. No
// owner's release function runs.
Result<Ref<storage::Storage>> open_leased_cuda(const ReachableCuda& reach, uint64_t offset,
                                               uint64_t nbytes, memory::Lease* lease);

// Lets go, on the caller's thread, of the memory whose leases have ended. `ask_kernel`: first asks
// the kernel which borrowers are gone, with one system call for each. Owners' release functions may
// run, so only the collections of memory.h call this.
void end_lent_cuda(bool ask_kernel) noexcept;
// For a forked child: forgets, and does not end, what was lent. The memory belongs to the parent.
void abandon_lent_cuda() noexcept;

}  // namespace tenon::device
