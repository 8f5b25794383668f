// The device memory behind a storage, and the list of memory that waits for its end. When a storage
// goes, its memory is kept until the streams that used it have passed and the receivers of its
// messages have let go. No event reports that, so calls that share, open or collect device memory
// check the waiting memory (collect_some_cuda(), collect_cuda()).
//
// end(), and so the release of a device storage, may run the owner's release function. end()
// collects too: it may run other owners' release functions and wait for the device. So release no
// device storage under a lock without a CudaCollectLater, which holds the collection back. A
// collection takes LockRank::kCudaMemory, one of the first ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counted.h"
#include "cuda/stream_mark.h"
#include "device/export.h"
#include "device/torch_message.h"
#include "storage/device_memory.h"
#include "storage/storage.h"

namespace tenon::device {

// Base of all device memory: this process's own (by_cuda.cc), blocks of an arena (arena.cc), and
// memory that was received (import.h). Any thread may call the functions. Their lock has no rank.
// use_in(), add() and keep() throw std::bad_alloc.
//
// In a forked child end() frees nothing and tells no owner, and use_in() does nothing. Before any
// other call, ask the driver (cuda::available()), which refuses the child.
class CudaMemory : public storage::DeviceMemory {
 public:
  explicit CudaMemory(int32_t device);
  void end(std::unique_ptr<storage::DeviceMemory> self) noexcept final;

  // Says that `stream` uses the memory until the storage goes. For a default stream, the thread
  // that uses it must call this.
  void use_in(cuda::Stream stream);
  // Makes work that is queued in `stream` after this call wait for the work that is queued now in
  // the streams that use the memory. The errors are the driver's.
  Status order(cuda::Stream stream);
  // Keeps a message that lends the memory until its receiver has let go.
  void add(std::shared_ptr<CudaMessage> message);
  // Forgets messages whose receivers have let go, so that their events are used again and their
  // counter files can go. Looks at a few messages that still stand.
  void forget_released();
  // Gives the route by which another process reaches the memory. `wanted` is as in export_cuda().
  virtual Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                            cuda::DevicePointer pointer,
                                                            uint64_t nbytes) = 0;
  // Keeps `exported` alive as long as the memory is lent. So its fds stay open, and a later lend,
  // or a message that comes home, finds it.
  void keep(const std::shared_ptr<const CudaExport>& exported);

 protected:
  // The streams that use the memory, for another object that closes it when they have passed.
  std::vector<cuda::StreamMark> take_streams() noexcept;
  void put_streams(std::vector<cuda::StreamMark> streams) noexcept;

 private:
  friend class CudaLimbo;
  virtual void storage_gone() noexcept {}
  void drop_released() noexcept;
  // Whether nothing uses the memory any more. The cost grows with what has ended since the last
  // call. Apart from that the call checks only a few messages and one stream.
  bool is_unused() noexcept;

  uint64_t generation_;
  std::mutex mutex_;
  std::vector<cuda::StreamMark> streams_;  // the marks are set when the storage ends
  std::vector<std::shared_ptr<CudaMessage>> sent_;
  size_t next_sent_ = 0;  // the index in `sent_` to check next
  std::vector<std::shared_ptr<const CudaExport>> exported_;
  CudaMemory* next_ = nullptr;  // the next entry of the list of waiting memory
};

// Null: the storage is not on a CUDA device.
CudaMemory* cuda_memory(const storage::Storage& storage) noexcept;
inline std::byte* as_data(cuda::DevicePointer pointer) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(
      pointer));  // NOLINT(performance-no-int-to-ptr): a device address is a number here
}
inline cuda::DevicePointer as_pointer(const std::byte* data) noexcept {
  return reinterpret_cast<uintptr_t>(data);
}

// Makes an empty storage on the device.
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

// While an object of this class lives, collect_some_cuda() does nothing on its thread. Otherwise an
// owner's release function could run while the thread holds locks. collect_spare_cuda() and the end
// of a storage do not collect then either, but the other collections run. Objects nest.
class CudaCollectLater {
 public:
  CudaCollectLater() noexcept;
  CudaCollectLater(const CudaCollectLater&) = delete;
  CudaCollectLater& operator=(const CudaCollectLater&) = delete;
  ~CudaCollectLater();
};

// These functions check the memory that waits: a few storages, as every share and open does, or
// all. An owner's release function may run in them. Inside it collect_some_cuda() does nothing, and
// collections of everything nest at most 8 deep. So the caller holds no lock. Neither function
// frees an arena.
void collect_some_cuda() noexcept;
void collect_cuda_without_waiting() noexcept;
// Checks all waiting memory, ends the put-off objects, and returns how many storages still wait.
// The call may wait for the device. In a release function that a collection without waiting calls,
// it does not wait and leaves the put-off objects.
uint64_t collect_cuda() noexcept;
// Calls collect_cuda(), unless this thread has a CudaCollectLater or is in a collection.
void collect_spare_cuda() noexcept;

}  // namespace tenon::device
