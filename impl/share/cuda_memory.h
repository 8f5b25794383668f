// Device memory behind a storage, and what has to happen before it goes: the streams that use it
// have passed, and whoever was sent it has let go. Nobody tells when, so what waits is looked at
// now and then.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counted.h"
#include "cuda/stream_mark.h"
#include "share/cuda_export.h"
#include "share/cuda_message.h"
#include "storage/device_memory.h"
#include "storage/storage.h"

namespace tenon::share {

class CudaMemory : public storage::DeviceMemory {
 public:
  explicit CudaMemory(int32_t device);
  void end(std::unique_ptr<storage::DeviceMemory> self) noexcept final;

  // What is given to that stream until the storage goes uses it. Said by the thread that uses it,
  // where it is a default stream.
  void use_in(cuda::Stream stream);
  // What is given to that stream from now on comes after what was given until now to those in which
  // it is used.
  Status order(cuda::Stream stream);
  void add(std::shared_ptr<CudaMessage> message);
  // Their events and counters are used again.
  void forget_released();
  // What leads another process to it. `wanted` as in export_cuda().
  virtual Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                            cuda::DevicePointer pointer,
                                                            uint64_t nbytes) = 0;
  // The fds in it are open, and what it names can be found, as long as the memory is lent.
  void keep(const std::shared_ptr<const CudaExport>& exported);

 protected:
  // The streams that use the memory, for another object that closes it when they have passed.
  std::vector<cuda::StreamMark> take_streams() noexcept;
  void put_streams(std::vector<cuda::StreamMark> streams) noexcept;

 private:
  friend class CudaLimbo;
  virtual void storage_gone() noexcept {}
  void drop_released() noexcept;
  // Nothing is waited for any more. Costs no more than what has come to an end since the last time,
  // and a few questions.
  bool is_unused() noexcept;

  uint64_t generation_;
  std::mutex mutex_;
  std::vector<cuda::StreamMark> streams_;  // marked when the storage ends
  std::vector<std::shared_ptr<CudaMessage>> sent_;
  size_t next_sent_ = 0;  // to be looked at
  std::vector<std::shared_ptr<const CudaExport>> exported_;
  CudaMemory* next_ = nullptr;  // of those that wait
};

// Null: the storage is not on a CUDA device.
CudaMemory* cuda_memory(const storage::Storage& storage) noexcept;
inline std::byte* as_data(cuda::DevicePointer pointer) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(
      pointer));  // NOLINT(performance-no-int-to-ptr): what a device's is here
}
inline cuda::DevicePointer as_pointer(const std::byte* data) noexcept {
  return reinterpret_cast<uintptr_t>(data);
}

// An empty storage, which is on a device all the same.
Ref<storage::Storage> empty_cuda(int32_t device);

// Base of objects whose end calls a driver function that waits for the device, as cuMemFree does. A
// send must not wait there, because the device's work may depend on the message that is being sent.
// So collect_some_cuda() and collect_cuda_without_waiting() put the end off.
class CudaEnding : public Counted {
 public:
  // Ends all objects whose end was put off. The call may wait for the device.
  static void end_put_off() noexcept;

 protected:
  void dispose() noexcept final;
  // Does the work of dispose(), now or later. It is called once.
  virtual void end() noexcept = 0;

 private:
  CudaEnding* next_ =
      nullptr;  // in the list of put-off objects, which holds a weak reference of each
};

// As long as it lives this thread's collect_some_cuda() does nothing, for owners' functions would
// run where locks are held.
class CudaCollectLater {
 public:
  CudaCollectLater() noexcept;
  CudaCollectLater(const CudaCollectLater&) = delete;
  CudaCollectLater& operator=(const CudaCollectLater&) = delete;
  ~CudaCollectLater();
};

// These functions check the memory that waits: a few storages, as every share and open does, or
// all. An owner's release function may run in them. If it releases other device memory, or collects
// itself, the collection does not start again inside it. Neither function frees an arena.
void collect_some_cuda() noexcept;
void collect_cuda_without_waiting() noexcept;
// Checks all waiting memory, ends the put-off objects, and returns how many storages still wait.
// The call may wait for the device.
uint64_t collect_cuda() noexcept;
// Calls collect_cuda(), unless this thread is in a call in which no release function may run.
void collect_spare_cuda() noexcept;

}  // namespace tenon::share
