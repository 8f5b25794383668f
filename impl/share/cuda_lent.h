// Device memory that is lent over a connection: under leases, as the host's is, and so without a
// counter and its file. A receiver that is killed, and a message that nobody reads, give it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/stream.h"
#include "memory/lease.h"
#include "memory/mode.h"
#include "share/cuda_events.h"
#include "share/cuda_export.h"
#include "share/cuda_mapping.h"
#include "storage/storage.h"

namespace tenon::share {

// What a lease of device memory keeps: the storage, and the event that its receiver waits for. Of
// one message, and so of one lease.
class CudaLent final : public memory::Leased {
 public:
  // `wanted`: kReadOnly where the receiver's device is to refuse writes, as it does for a read-only
  // storage wherever the transport knows such access. PERMISSION: a read-only storage, for its
  // receiver could write it all the same, unless `let_write`. UNSUPPORTED: no way to lend it, or
  // not read-only. The storage has bytes.
  static Result<Ref<CudaLent>> create(const Ref<storage::Storage>& storage, memory::Access wanted,
                                      bool let_write);

  const std::shared_ptr<const CudaExport>& exported() const noexcept { return exported_; }
  uint64_t offset() const noexcept { return as_pointer() - exported_->base; }
  bool is_read_only() const noexcept { return read_only_; }
  const Ref<storage::Storage>& storage() const noexcept { return storage_; }
  int32_t device() const noexcept { return storage_->device().id; }
  void set_event(std::shared_ptr<const CudaEvent> event) noexcept { event_ = std::move(event); }

  uint64_t leased_nbytes() const noexcept override { return storage_->nbytes(); }
  // On whatever thread looks at the ledgers, the library's own among them, where no owner's
  // function is to run: so it is kept for whoever comes by next (collect_some_cuda).
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

// The event by which receivers know when the bytes are good; null: they are, by now, for the stream
// was waited for.
Result<std::shared_ptr<const CudaEvent>> mark_lent_cuda(cuda::Stream stream, int32_t device);
// The other side. It may be this process's own.
Status wait_for_lender(const cuda::IpcHandle& event, cuda::Stream stream, int32_t device);

// A range of device memory of which a message has storages, reached from here. Null mapping: it is
// this process's own, come home; or nothing leads there, and only empty storages are in it.
struct CudaReach {
  Ref<CudaMapping> mapping;
  std::shared_ptr<const CudaExport> own;
  cuda::DevicePointer base = 0;
  int32_t device = 0;
  cuda::Stream stream = nullptr;
};
Result<CudaReach> reach_cuda(std::span<const std::byte> handle, std::span<const int> fds,
                             int32_t device, bool read_only);
// The storage keeps the lease, if it is a new one. One that is open already has its own, and what
// has come home needs none: then it stays with the caller, to be given back when the message is
// made, for until then another try must find it lent. Used in the reach's stream.
Result<Ref<storage::Storage>> open_leased_cuda(const CudaReach& reach, uint64_t offset,
                                               uint64_t nbytes, memory::Lease* lease);

// Of what the leases have ended, the caller's thread lets go. `ask_kernel`: also whose borrowers
// are gone by now, a system call for each.
void end_lent_cuda(bool ask_kernel) noexcept;
// In a child of fork: it is the parent's.
void abandon_lent_cuda() noexcept;

}  // namespace tenon::share
