// Storage: counted, contiguous bytes. A tenon_storage is one of these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/arena.h"
#include "memory/holding.h"
#include "memory/mode.h"
#include "memory/segment.h"
#include "os/mapping.h"
#include "os/wait.h"

namespace tenon::storage {

using memory::Access;
using memory::Mode;
using memory::Segment;

struct StorageOptions {
  Mode mode = Mode::kShared;
  bool isolated = false;
  bool is_private = false;
  bool zeroed = false;
  bool read_only = false;  // wrap() only
  uint64_t alignment = memory::kBlockAlignment;
  memory::Arena* arena = nullptr;  // null: the default home of the mode
  os::Wait wait{.timeout_ns = 0};  // for room in the arena
};

struct StorageTotals {
  std::atomic<uint64_t> storages{0};
  std::atomic<uint64_t> opened_nbytes{0};
  std::atomic<uint64_t> copied_nbytes{0};
};
StorageTotals& storage_totals() noexcept;

class Storage : public memory::Leased {
 public:
  using ReleaseFunction = void (*)(void* context);

  static Result<Ref<Storage>> create(const StorageOptions& options, uint64_t nbytes);
  // `data` is copied in. FROZEN comes back frozen.
  static Result<Ref<Storage>> create_from(const StorageOptions& options, const void* data, uint64_t nbytes);
  static Result<Ref<Storage>> wrap(void* data, uint64_t nbytes, ReleaseFunction release, void* context, const StorageOptions& options);

  // A range of a segment that came from elsewhere, already checked to lie inside.
  static Ref<Storage> open(Ref<Segment> segment, uint64_t offset, uint64_t nbytes, memory::Lease lease = {});
  // The empty storage of that mode and access.
  static Ref<Storage> open_empty(Mode mode, bool read_only);
  // Ranges that stay in this process: a copy-on-write mapping, or a copy now.
  static Result<Ref<Storage>> open_private_cow(int fd, uint64_t offset, uint64_t nbytes);
  static Result<Ref<Storage>> open_private_copy(int fd, uint64_t offset, uint64_t nbytes);

  const std::byte* data() const noexcept {
    if (movable_) handed_out_.store(true, std::memory_order_relaxed);
    return data_;
  }
  Result<std::byte*> data_mut();
  uint64_t nbytes() const noexcept { return nbytes_; }
  uint64_t id() const noexcept { return id_; }
  Mode mode() const noexcept { return mode_; }
  bool is_private() const noexcept { return is_private_; }
  bool is_read_only() const noexcept { return read_only_; }
  bool is_shared() const noexcept { return !is_private_; }
  bool is_sealed() const noexcept { return !segment_ || segment_->sealed(); }
  bool is_own() const noexcept { return !segment_ || segment_->own(); }
  const Ref<Segment>& segment() const noexcept { return segment_; }
  uint64_t offset() const noexcept { return offset_; }
  bool same_memory(const Storage& other) const noexcept;

  Status write(uint64_t offset, const void* data, uint64_t nbytes);
  Status read(uint64_t offset, void* data, uint64_t nbytes) const;
  Status freeze();

  // From now on some other process may hold these bytes, for a time that nobody tells: the block is never used again.
  void mark_lent() noexcept { lent_.store(true, std::memory_order_relaxed); }
  // What a lease of these bytes keeps: the block, or this storage if it came under a lease itself. Null if nothing has to be kept: a segment
  // of its own, which its holders keep, or what came without a lease.
  Result<Ref<memory::Leased>> leased();
  uint64_t leased_nbytes() const noexcept override { return nbytes_; }
  // The lease that it came under, if any. For private openings that go on looking at the lender's pages, set after the opening.
  const memory::Lease& lease() const noexcept { return lease_; }
  void keep(memory::Lease lease) noexcept { lease_ = std::move(lease); }

  // Private memory that was made here can move into a segment as long as nobody was told where it is. Not beside other calls.
  bool can_move() const noexcept { return movable_ && !handed_out_.load(std::memory_order_relaxed); }
  void move_into(Ref<Segment> segment, uint64_t offset) noexcept;

  // For the identity cache: called once, before the segment is let go.
  std::atomic<void (*)(Storage*) noexcept> on_dispose{nullptr};
  // Likewise, for names that last as long as the storage.
  std::atomic<void (*)(Storage*) noexcept> on_dispose_names{nullptr};

 private:
  Storage() noexcept;
  void dispose() noexcept override;
  void take_block(memory::Block block) noexcept;
  static Result<Ref<Storage>> create_shared(const StorageOptions& options, uint64_t nbytes, bool will_fill);
  static Result<Ref<Storage>> create_private(const StorageOptions& options, uint64_t nbytes);

  std::byte* data_ = nullptr;
  uint64_t nbytes_ = 0;
  uint64_t id_;
  Ref<Segment> segment_;
  uint64_t offset_ = 0;
  memory::Block block_;        // own shared storages
  std::atomic<memory::LentBlock*> lent_block_{nullptr};  // block_, once it was lent under a lease
  memory::Lease lease_;                                  // of opened ones; the last thing to go
  os::Mapping private_pages_;  // private storages made here
  ReleaseFunction release_ = nullptr;
  void* context_ = nullptr;
  Mode mode_ = Mode::kShared;
  bool is_private_ = false;
  bool read_only_ = false;
  bool movable_ = false;
  mutable std::atomic<bool> handed_out_{false};
  std::atomic<bool> lent_{false};
};

}  // namespace tenon::storage
