// One lend of device memory, on its sender's side: until its counter falls, and with it the event
// that its receiver waits for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "share/cuda_counter.h"
#include "share/cuda_events.h"
#include "storage/storage.h"

namespace tenon::share {

class CudaMessage {
 public:
  // No event: the bytes are good already.
  static Result<std::shared_ptr<CudaMessage>> create(CudaEvent event,
                                                     const Ref<storage::Storage>& storage);
  // The one of that counter, if this process sent it and it still stands: the driver opens no
  // handle of the very process that made it.
  static std::shared_ptr<CudaMessage> find(std::string_view counter, uint64_t slot);
  CudaMessage(const CudaMessage&) = delete;
  CudaMessage& operator=(const CudaMessage&) = delete;
  ~CudaMessage();

  const CudaCounter& counter() const noexcept { return counter_; }
  const CudaEvent& event() const noexcept { return event_; }
  // Where it is, also when the storage has gone: as long as the counter stands the memory does.
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

}  // namespace tenon::share
