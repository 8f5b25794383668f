#include "device/pinned.h"

#include <memory>
#include <mutex>

#include "base/fork.h"
#include "base/immortal.h"
#include "cuda/available.h"
#include "cuda/device.h"
#include "cuda/host_register.h"

namespace tenon::device {
namespace {

using memory::Segment;
using storage::Storage;

// Unregisters the segment just before the segment is unmapped. The end of the last storage is too
// early, because the device may still be copying then.
class PinnedTail final : public memory::SegmentTail {
 public:
  explicit PinnedTail(int32_t device) noexcept : device_(device), generation_(fork_generation()) {}
  // False in a forked child, which inherits the parent's tail and must leave the driver alone.
  bool is_of_this_process() const noexcept { return generation_ == fork_generation(); }
  void before_unmap(Segment* segment) noexcept override {
    if (is_of_this_process()) cuda::unregister_host(segment->base(), device_);
  }
  // Unregistering waits for the device's work in the segment.
  bool may_wait() const noexcept override { return is_of_this_process(); }
  void after_unmap() noexcept override {}

 private:
  // The device for which the segment was registered. A later pin_cuda() for another device finds
  // this tail, and only asks for the address there.
  int32_t device_;
  uint64_t generation_;
};

// A thread holds this mutex while it registers a segment, so that each segment is registered once.
// pin_cuda() locks the mutex only after cuda::available() has succeeded. That never succeeds in a
// forked child, so no child waits for a mutex that a thread of the parent held at the fork.
struct Registering {
  std::mutex mutex;
};
std::mutex& registering() noexcept { return immortal<Registering>().mutex; }

// Returns OK if the storage can be pinned. The error says what the caller can do instead.
Status check(const Storage& storage) {
  if (storage.is_private()) {
    return Status(Code::kUnsupported,
                  "the storage is private memory, which is not pinned: copy it into a new one")
        .with("option", std::string("tenon_storage_new_from"));
  }
  if (storage.device_memory() != nullptr) {
    return Status(Code::kInvalidArgument,
                  format("the storage is on CUDA device %d: only host memory is pinned",
                         storage.device().id));
  }
  // A FROZEN storage that is still writable would have to be frozen later. The kernel refuses to
  // freeze pages that a device may hold.
  const Segment* const segment = storage.segment().get();
  if (segment != nullptr && storage.mode() == memory::Mode::kFrozen && !segment->frozen()) {
    return Status(
               Code::kPermission,
               "the storage is not frozen yet, and could not be when it is pinned: freeze it first")
        .with("option", std::string("tenon_storage_freeze"));
  }
  return Status::ok();
}

Status register_segment(Segment* segment, int32_t device) {
  const std::lock_guard<std::mutex> lock(registering());
  if (segment->find_tail<PinnedTail>() != nullptr) return Status::ok();
  // Registering allocates the segment's missing pages, and the kernel does not ask first whether
  // the machine has memory for them. So the pages are reserved here, which fails in an orderly way.
  TENON_TRY(memory::reserve_whole(segment));
  auto tail = std::make_unique<PinnedTail>(device);
  TENON_TRY(cuda::register_host(segment->base(), segment->nbytes(), device, !segment->writable()));
  segment->attach_tail(std::move(tail));
  return Status::ok();
}

}  // namespace

Result<std::byte*> pin_cuda(const Storage& storage, int32_t device) {
  TENON_TRY(check(storage));
  TENON_TRY(cuda::available());
  TENON_TRY(cuda::find_device(device).status());
  if (storage.nbytes() == 0) return static_cast<std::byte*>(nullptr);
  Segment* const segment = storage.segment().get();
  if (segment->find_tail<PinnedTail>() == nullptr) TENON_TRY(register_segment(segment, device));
  TENON_ASSIGN(const cuda::DevicePointer base,
               cuda::device_pointer(segment->base(), device, !segment->writable()));
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(base + storage.offset()));
}

bool is_pinned_cuda(const Storage& storage) noexcept {
  if (!storage.segment()) return false;
  const auto* const tail = storage.segment()->find_tail<PinnedTail>();
  return tail != nullptr && tail->is_of_this_process();
}

}  // namespace tenon::device
