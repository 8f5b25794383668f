// The sender's side of one message that lends device memory by PyTorch's protocol. CudaMemory
// (memory.h) keeps it until its receiver has let go, which the counter tells. The message keeps the
// event for which the receiver waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "device/events.h"
#include "device/torch_counter.h"
#include "storage/storage.h"

namespace tenon::device {

// A forked child uses none of this and destroys no message: the driver refuses it before, and
// CudaMemory::end() leaks. The register of messages has a lock without a rank.
class CudaMessage {
 public:
  // An empty `event` means that the bytes are valid already. The message takes a new counter, so
  // create() has the errors and the lock rule of CudaCounter::create().
  static Result<std::shared_ptr<CudaMessage>> create(CudaEvent event,
                                                     const Ref<storage::Storage>& storage);
  // Finds the message with this counter, if this process sent it and it still stands; else null.
  // open_cuda() asks this first, because the driver opens no handle in the process that made it.
  static std::shared_ptr<CudaMessage> find(std::string_view counter, uint64_t slot);
  CudaMessage(const CudaMessage&) = delete;
  CudaMessage& operator=(const CudaMessage&) = delete;
  ~CudaMessage();

  const CudaCounter& counter() const noexcept { return counter_; }
  const CudaEvent& event() const noexcept { return event_; }
  // The address of the memory. It stays valid after the storage has gone, because the memory stays
  // as long as the counter stands.
  std::byte* data() const noexcept { return data_; }
  uint64_t nbytes() const noexcept { return nbytes_; }
  bool is_read_only() const noexcept { return is_read_only_; }
  Ref<storage::Storage> storage() const noexcept { return storage_.lock(); }

 private:
  CudaMessage(CudaCounter counter, CudaEvent event, const Ref<storage::Storage>& storage);
  CudaCounter counter_;
  CudaEvent event_;
  std::string key_;
  Weak<storage::Storage> storage_;
  std::byte* data_;
  uint64_t nbytes_;
  bool is_read_only_;
};

}  // namespace tenon::device
