// Storage: counted, contiguous bytes. A tenon_storage is one of these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/counted.h"
#include "base/status.h"
#include "memory/arena.h"
#include "memory/lease.h"
#include "memory/mode.h"
#include "memory/segment.h"
#include "os/mapping.h"
#include "os/wait.h"
#include "storage/device_memory.h"

namespace tenon::storage {

using memory::Access;
using memory::Mode;
using memory::Segment;

struct StorageOptions {
  Mode mode = Mode::kShared;
  bool isolated = false;
  bool is_private = false;
  bool zeroed = false;
  bool will_fill = false;  // create() only: the caller writes all bytes before it lends the storage
  bool read_only = false;  // wrap() only
  bool sealed = true;      // wrap() only: false for a file's bytes, which somebody may cut short
  uint64_t alignment = memory::kBlockAlignment;
  memory::Arena* arena = nullptr;  // null: the default home of the mode
  os::Wait wait{.timeout_ns = 0};  // for room in the arena
};

struct StorageTotals {
  // Without a block, whose arenas count them under their lock (memory::ArenaTotals).
  std::atomic<uint64_t> storages{0};
  std::atomic<uint64_t> opened_nbytes{0};
  std::atomic<uint64_t> copied_nbytes{0};
};
StorageTotals& storage_totals() noexcept;

class Storage final : public memory::Leased {
 public:
  using ReleaseFunction = void (*)(void* context);

  static Result<Ref<Storage>> create(const StorageOptions& options, uint64_t nbytes);
  // `data` is copied in. FROZEN comes back frozen.
  static Result<Ref<Storage>> create_from(const StorageOptions& options, const void* data,
                                          uint64_t nbytes);
  static Result<Ref<Storage>> wrap(void* data, uint64_t nbytes, ReleaseFunction release,
                                   void* context, const StorageOptions& options);
  // `data` is an address of the device's, null if there are no bytes.
  static Ref<Storage> on_device(std::unique_ptr<DeviceMemory> memory, std::byte* data,
                                uint64_t nbytes, bool read_only);

  // A range of a segment that came from elsewhere, already checked to lie inside.
  static Ref<Storage> open(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                           memory::Lease lease = {});
  // The empty storage of that mode and access.
  static Ref<Storage> open_empty(Mode mode, bool read_only);
  // Of what open() made, before anybody else knows it.
  void swap_lease(memory::Lease* lease) noexcept { lease_.swap(*lease); }
  // Ranges that stay in this process: a copy-on-write mapping, or a copy now.
  // What it maps counts against `budget`, as in Segment::open().
  static Result<Ref<Storage>> open_private_cow(int fd, uint64_t offset, uint64_t nbytes,
                                               const std::shared_ptr<os::MapBudget>& budget);
  static Result<Ref<Storage>> open_private_copy(int fd, uint64_t offset, uint64_t nbytes);

  // As of everything that is counted, without the count where nobody else can come by a reference:
  // who has one marks a storage before it can be found without.
  void release() const noexcept {
    if (is_alone() &&
        (marks_.load(std::memory_order_relaxed) & (kInCache | kHasNames | kByAddress)) == 0) {
      const_cast<Storage*>(this)->dispose();
      delete this;
      return;
    }
    Leased::release();
  }

  const std::byte* data() const noexcept {
    if (kind_ == Kind::kPrivate) private_->handed_out.store(true, std::memory_order_relaxed);
    return data_;
  }
  Result<std::byte*> data_mut();
  uint64_t nbytes() const noexcept { return nbytes_; }
  Device device() const noexcept { return kind_ == Kind::kDevice ? device_->device() : kCpu; }
  // Null: the bytes are the CPU's.
  DeviceMemory* device_memory() const noexcept {
    return kind_ == Kind::kDevice ? device_.get() : nullptr;
  }
  uint64_t id() const noexcept;
  Mode mode() const noexcept { return mode_; }
  bool is_private() const noexcept { return kind_ == Kind::kPrivate; }
  bool is_read_only() const noexcept { return read_only_; }
  bool is_shared() const noexcept { return kind_ != Kind::kPrivate; }
  bool is_sealed() const noexcept {
    return segment_ ? segment_->sealed() : kind_ != Kind::kPrivate || private_->sealed;
  }
  bool is_own() const noexcept { return !segment_ || segment_->own(); }
  // Some other process may still write these bytes, or could by a right that it has.
  bool is_writable_elsewhere() const noexcept;
  const Ref<Segment>& segment() const noexcept { return segment_; }
  uint64_t offset() const noexcept {
    return segment_ && data_ != nullptr ? static_cast<uint64_t>(data_ - segment_->base()) : 0;
  }
  bool same_memory(const Storage& other) const noexcept;

  // Of the CPU's bytes: UNSUPPORTED for a device's.
  Status write(uint64_t offset, const void* data, uint64_t nbytes);
  Status read(uint64_t offset, void* data, uint64_t nbytes) const;
  Status freeze();

  // From now on some other process may hold these bytes, for a time that nobody tells: the block is
  // never used again.
  void mark_lent() noexcept { marks_.fetch_or(kLent, std::memory_order_relaxed); }
  // What a lease of these bytes keeps: the block, which this storage keeps too, or this storage if
  // it came under a lease itself. Null if nothing has to be kept: a segment of its own, which its
  // holders keep, or what came without a lease.
  memory::Leased* leased();
  uint64_t leased_nbytes() const noexcept override { return nbytes_; }
  // The lease that it came under, if any. For private openings that go on looking at the lender's
  // pages, set after the opening.
  const memory::Lease* lease() const noexcept;
  void keep(memory::Lease lease) noexcept { private_->lease = std::move(lease); }

  // Private memory that was made here can move into a segment as long as nobody was told where it
  // is. Not beside other calls.
  bool can_move() const noexcept {
    return kind_ == Kind::kPrivate && private_->movable &&
           !private_->handed_out.load(std::memory_order_relaxed);
  }
  void move_into(Ref<Segment> segment, uint64_t offset) noexcept;

  // The lender is gone, and the borrower asked to drop what it lent (channel/lender_watch.h).
  // Memory of the CPU stays mapped until the storage ends; memory of a device is closed now.
  void drop() noexcept;
  bool is_dropped() const noexcept {
    return (marks_.load(std::memory_order_acquire) & kDropped) != 0;
  }
  // PEER_GONE for a dropped storage.
  Status check_lender() const;
  // Makes a dropped storage valid again, because somebody lent the same bytes once more.
  void lent_again() noexcept {
    if (is_dropped()) marks_.fetch_and(static_cast<uint8_t>(~kDropped), std::memory_order_relaxed);
  }

  // What others have to do when this storage goes, before its segment is let go. One function for
  // all storages: the identity cache's, that of names that last as long as a storage, and that of
  // the table of addresses.
  using EndHook = void (*)(Storage*) noexcept;
  void tell_cache(EndHook forget) noexcept { tell(&g_cache_hook, kInCache, forget); }
  // The identity cache has this very storage, and will as long as it lives.
  bool is_in_cache() const noexcept {
    return (marks_.load(std::memory_order_relaxed) & kInCache) != 0;
  }
  void tell_names(EndHook end) noexcept { tell(&g_names_hook, kHasNames, end); }
  void tell_addresses(EndHook forget) noexcept { tell(&g_addresses_hook, kByAddress, forget); }
  // It can be found by the address of any of its bytes (share/storage_at.h), as long as it lives.
  bool is_by_address() const noexcept {
    return (marks_.load(std::memory_order_relaxed) & kByAddress) != 0;
  }

 private:
  // Which of the four a storage is says what it has to give back: a block of this process, a lease
  // or nothing but the segment (opened), pages and a release function (private), or a device's
  // memory. There can be millions of the first two, so what only the others need is elsewhere.
  struct Own {
    memory::ArenaSegment* home = nullptr;           // null: the segment is its own
    std::atomic<memory::LentBlock*> lent{nullptr};  // the block, once it was lent under a lease
  };
  struct Private {
    os::MapCharge charge;  // of a copy-on-write opening
    os::Mapping pages;
    ReleaseFunction release = nullptr;
    void* context = nullptr;
    // Of a copy-on-write opening, whose untouched pages are still the lender's.
    memory::Lease lease;
    bool movable = false;
    bool sealed = true;
    bool copies_on_write = false;
    std::atomic<bool> handed_out{false};
  };
  enum class Kind : uint8_t { kEmpty, kOwn, kOpened, kPrivate, kDevice };
  static constexpr uint8_t kInCache = 1;
  static constexpr uint8_t kHasNames = 2;
  static constexpr uint8_t kLent = 4;
  static constexpr uint8_t kDropped = 8;
  static constexpr uint8_t kByAddress = 16;
  // The block was not cleared, because the caller promised to fill the storage. Nobody tells
  // whether the caller did so, and the bytes may still be those of an earlier lend. So the block
  // counts as lent when it is freed.
  static constexpr uint8_t kUncleared = 32;

  explicit Storage(Kind kind) noexcept;
  ~Storage() override;
  void dispose() noexcept override;
  void tell(std::atomic<EndHook>* where, uint8_t mark, EndHook hook) noexcept {
    where->store(hook, std::memory_order_relaxed);
    marks_.fetch_or(mark, std::memory_order_release);
  }
  void end_own(uint8_t marks) noexcept;
  void take_block(memory::Block& block) noexcept;
  // `copies`: create_from() overwrites all bytes before anybody else sees the storage.
  static Result<Ref<Storage>> create_shared(const StorageOptions& options, uint64_t nbytes,
                                            bool copies, bool* zero);
  static Result<Ref<Storage>> create_private(const StorageOptions& options, uint64_t nbytes);
  static Result<Ref<Storage>> try_create_private(const StorageOptions& options, uint64_t nbytes);
  static Result<Ref<Storage>> try_create_filled(const StorageOptions& options, const void* data,
                                                uint64_t nbytes);
  static std::atomic<EndHook> g_cache_hook;
  static std::atomic<EndHook> g_names_hook;
  static std::atomic<EndHook> g_addresses_hook;

  std::byte* data_ = nullptr;
  uint64_t nbytes_ = 0;
  mutable std::atomic<uint64_t> id_{0};  // from the first time that somebody asks
  Ref<Segment> segment_;
  union {
    Own own_;
    memory::Lease lease_;  // the last thing to go
    std::unique_ptr<Private> private_;
    std::unique_ptr<DeviceMemory> device_;
  };
  Kind kind_;
  Mode mode_ = Mode::kShared;
  bool read_only_ = false;
  std::atomic<uint8_t> marks_{0};
  memory::BlockSize taken_;  // kOwn: what the block takes of its home
};

}  // namespace tenon::storage
