// Storage is a reference-counted range of contiguous bytes on one device. A tenon_storage of the C
// API is a Storage. The bytes lie in a segment (memory/segment.h), which can be lent, in private
// memory of this process, or on a device (device_memory.h).
#pragma once

#include <array>
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
  bool zeroed = false;  // false: bytes of an earlier storage that was never lent may show
  // create() only: the caller writes all bytes before it lends, so bytes of an earlier lend are not
  // cleared.
  bool will_fill = false;
  bool read_only = false;  // wrap() only
  bool sealed = true;      // wrap() only: false for a mapped file, which may be cut short
  uint64_t alignment = memory::kBlockAlignment;
  memory::Arena* arena = nullptr;  // null: the default home of the mode
  os::Wait wait{.timeout_ns = 0};  // for room in the arena
};

struct StorageTotals {
  // Storages without a block. The arenas count storages with a block under their own lock
  // (memory::ArenaTotals), and the identity cache counts most opened ones (share/cache.h).
  std::atomic<uint64_t> storages{0};
  std::atomic<uint64_t> opened_nbytes{0};
  std::atomic<uint64_t> copied_nbytes{0};
};
StorageTotals& storage_totals() noexcept;

// Any thread may call its functions, unless they say otherwise. Access to the bytes is for the
// callers to order. The functions that allocate may give back kept memory (memory::with_spare()),
// and the last release may end leases and segments and call an owner's function. So a caller of
// these holds no ranked lock (base/lock_rank.h).
//
// A forked child has its own copy of every storage. It may read and write the bytes, which parent
// and child share if the storage is shared. The end of the copy frees no block and gives back no
// lease of the parent's. But it calls the release function of wrap() and the end hooks in the child
// too, so they must be ready for that.
class Storage final : public memory::Leased {
 public:
  using ReleaseFunction = void (*)(void* context);

  // Makes a storage. A FROZEN storage is not frozen yet: write() fills it, and freeze() freezes it.
  // RESOURCE_EXHAUSTED names the limit. UNSUPPORTED for an arena that a forked child has from its
  // parent. With an arena also the errors of memory::allocate_waiting(). Without one also those of
  // memory::allocate_block().
  static Result<Ref<Storage>> create(const StorageOptions& options, uint64_t nbytes);
  // Makes a storage and copies `data` into it. A FROZEN storage is frozen when this returns. The
  // errors are those of create(), of copying through the fd and of freeze().
  static Result<Ref<Storage>> create_from(const StorageOptions& options, const void* data,
                                          uint64_t nbytes);
  // Makes a private storage over memory of the caller. `release` may be null. It is called once,
  // when the storage ends, by the thread that releases the last reference. Fails only by
  // std::bad_alloc, and does not call `release` then.
  static Result<Ref<Storage>> wrap(void* data, uint64_t nbytes, ReleaseFunction release,
                                   void* context, const StorageOptions& options);
  // `data` is an address on the device, null if there are no bytes.
  static Ref<Storage> on_device(std::unique_ptr<DeviceMemory> memory, std::byte* data,
                                uint64_t nbytes, bool read_only);

  // Opens a range of a segment that came from another process. The caller has checked that the
  // range lies inside.
  static Ref<Storage> open(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                           memory::Lease lease = {});
  // Does the same for the identity cache (share/cache.h), which counts the storage itself.
  static Ref<Storage> open_uncounted(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                                     memory::Lease lease);
  bool is_uncounted() const noexcept {
    return (marks_.load(std::memory_order_relaxed) & kUncounted) != 0;
  }
  // Makes an empty storage of that mode and access.
  static Ref<Storage> open_empty(Mode mode, bool read_only);
  // Exchanges the lease of a storage that open() made. Call it before any other code knows the
  // storage.
  void swap_lease(memory::Lease* lease) noexcept { lease_.swap(*lease); }
  // Private openings: a copy-on-write mapping, or a copy that is made now. The address space of the
  // mapping counts against `budget`, as in Segment::open(). `sealed` says whether the file is
  // sealed against shrinking. RESOURCE_EXHAUSTED names the limit. CORRUPT, from the copy: the file
  // ends before the range does.
  static Result<Ref<Storage>> open_private_cow(int fd, uint64_t offset, uint64_t nbytes,
                                               bool sealed,
                                               const std::shared_ptr<os::MapBudget>& budget);
  static Result<Ref<Storage>> open_private_copy(int fd, uint64_t offset, uint64_t nbytes);

  // Releases a reference as Counted does. If this is the only reference, it skips the atomic
  // subtractions, unless the storage has an end hook. The owner of a hook, such as the identity
  // cache (share/cache.h), has the storage in a table without a reference, and may take one now. It
  // sets the hook before the storage can be found in the table.
  void release() const noexcept {
    if (is_alone() && (marks_.load(std::memory_order_relaxed) & kHooks) == 0) {
      const_cast<Storage*>(this)->dispose();
      delete this;
      return;
    }
    Leased::release();
  }

  // Null if there are no bytes. The address of a dropped device storage (drop()) must not be used.
  const std::byte* data() const noexcept {
    if (kind_ == Kind::kPrivate) private_->handed_out.store(true, std::memory_order_relaxed);
    return data_;
  }
  // PERMISSION if the storage is read-only, with the detail `option`. PEER_GONE if it is dropped.
  Result<std::byte*> data_mut();
  uint64_t nbytes() const noexcept { return nbytes_; }
  Device device() const noexcept { return kind_ == Kind::kDevice ? device_->device() : kCpu; }
  // Null if the bytes are in the CPU's memory.
  DeviceMemory* device_memory() const noexcept {
    return kind_ == Kind::kDevice ? device_.get() : nullptr;
  }
  uint64_t id() const noexcept;  // unique in this process
  Mode mode() const noexcept { return mode_; }
  bool is_private() const noexcept { return kind_ == Kind::kPrivate; }
  bool is_read_only() const noexcept { return read_only_; }
  bool is_shared() const noexcept { return kind_ != Kind::kPrivate; }
  // False if the bytes are mapped from a file that may be cut short. The pages that a copy-on-write
  // mapping of the file has copied are lost then, too.
  bool is_sealed() const noexcept {
    return segment_ ? segment_->sealed() : kind_ != Kind::kPrivate || private_->sealed;
  }
  // False for a segment of another process. Always true without a segment: for private memory and
  // for a device's, wherever that came from.
  bool is_own() const noexcept { return !segment_ || segment_->own(); }
  // Whether another process may write these bytes, now or later. False without bytes, for sealed
  // FROZEN memory after its freeze, and for private memory, unless that is a copy-on-write opening
  // or a file's. True for own LENDER_WRITES memory, because a forked child can write it.
  bool is_writable_elsewhere() const noexcept;
  const Ref<Segment>& segment() const noexcept { return segment_; }
  uint64_t offset() const noexcept {
    return segment_ && data_ != nullptr ? static_cast<uint64_t>(data_ - segment_->base()) : 0;
  }
  // Whether both are the same range of memory, also if two mappings of one file lead to it.
  bool same_memory(const Storage& other) const noexcept;

  // write() and read() are for bytes of the CPU. UNSUPPORTED for a device's bytes.
  // INVALID_ARGUMENT: the range leaves the storage. PEER_GONE: the storage is dropped. PERMISSION:
  // it is read-only or frozen; or a filter forbids the system calls of os::copy_from_mapping(),
  // which copy where is_sealed() is false and there is no fd, and into unsealed huge pages.
  // CORRUPT: the unsealed file was cut short. (A write through the fd of an unsealed segment makes
  // the file grow again.) After an error a part may be copied.
  Status write(uint64_t offset, const void* data, uint64_t nbytes);
  Status read(uint64_t offset, void* data, uint64_t nbytes) const;
  // INVALID_ARGUMENT if the mode is not FROZEN. UNSUPPORTED in a forked child of the process that
  // made the storage. Other errors are those of Segment::freeze().
  Status freeze();

  // Notes that some other process may hold these bytes, and that nobody will tell when it is done.
  // The block is never used again.
  void mark_lent() noexcept { marks_.fetch_or(kLent, std::memory_order_relaxed); }
  // The object that a lease of these bytes keeps: the block, which this storage keeps too, or this
  // storage if it came under a lease itself. Null if nothing has to be kept, because the storage
  // has a segment of its own, which its holders keep, or came without a lease, or is private. Null,
  // too, for a block of the parent in a forked child. Takes the arenas' lock, and throws
  // std::bad_alloc.
  memory::Leased* leased();
  // Whether leased() is null because this process made the segment for this storage alone.
  bool has_own_segment() const noexcept {
    return kind_ == Kind::kOwn && own_.home == nullptr && segment_->made_by_this_process();
  }
  uint64_t leased_nbytes() const noexcept override { return nbytes_; }
  // The lease under which an opened storage or a device's memory came, if any.
  const memory::Lease* lease() const noexcept;
  // Stores the lease of a copy-on-write opening, after open_private_cow(): its untouched pages are
  // still the lender's, so the storage keeps the lease. lease() does not return this one, because
  // private memory is never lent on.
  void keep(memory::Lease lease) noexcept { private_->lease = std::move(lease); }

  // Whether this private storage can move into a segment: its memory was made here, and no caller
  // has got its address. Must not run at the same time as other calls.
  bool can_move() const noexcept {
    return kind_ == Kind::kPrivate && private_->movable &&
           !private_->handed_out.load(std::memory_order_relaxed);
  }
  // Copies the bytes to `offset` of the segment, which is the storage's memory from then on, and
  // frees the old memory. Call it only if can_move() is true.
  void move_into(Ref<Segment> segment, uint64_t offset) noexcept;

  // Called when the lender is gone and the borrower asked to drop the memory that it lent
  // (channel/lender_watch.h). Memory of the CPU stays mapped until the storage ends. Memory of a
  // device is closed as soon as the streams that use it have passed. If close_lent() has nothing to
  // close, a device's storage is not dropped.
  void drop() noexcept;
  bool is_dropped() const noexcept {
    return (marks_.load(std::memory_order_acquire) & kDropped) != 0;
  }
  // PEER_GONE for a dropped storage.
  Status check_lender() const;
  // Makes a dropped storage of the CPU's memory valid again, because a lender has lent the same
  // bytes once more.
  void lent_again() noexcept {
    if (is_dropped()) marks_.fetch_and(static_cast<uint8_t>(~kDropped), std::memory_order_relaxed);
  }

  // End hooks: functions that are called when a storage ends, before it releases its segment. A
  // slot belongs to one user in an upper folder, which gives the same function for all storages:
  // the identity cache (share/cache.cc), the table of addresses (share/storage_at.cc), and the
  // server of names (names/name_server.cc). The hooks are called in the order of the slots, without
  // a ranked lock. Only a hook of kThird may wait for another process.
  enum class EndSlot : uint8_t { kFirst, kSecond, kThird };
  using EndHook = void (*)(Storage*) noexcept;
  void call_at_end(EndSlot slot, EndHook hook) noexcept {
    g_end_hooks[static_cast<size_t>(slot)].store(hook, std::memory_order_relaxed);
    marks_.fetch_or(mark_of(slot), std::memory_order_release);
  }
  // Whether call_at_end() was called for this slot. This stays true as long as the storage lives.
  bool has_end_hook(EndSlot slot) const noexcept {
    return (marks_.load(std::memory_order_relaxed) & mark_of(slot)) != 0;
  }

 private:
  // The kind of a storage says what it has to give back: a block of this process (own), a lease or
  // nothing but the segment (opened), pages and a release function (private), or a device's memory.
  // An empty storage has nothing. There can be millions of the first two, so data that only the
  // others need is allocated apart.
  struct Own {
    memory::ArenaSegment* home = nullptr;           // null: the storage has a segment of its own
    std::atomic<memory::LentBlock*> lent{nullptr};  // the block, once it was lent under a lease
  };
  struct Private {
    os::MapCharge charge;  // of a copy-on-write opening
    os::Mapping pages;
    ReleaseFunction release = nullptr;
    void* context = nullptr;
    // The lease of a copy-on-write opening, whose untouched pages are still the lender's.
    memory::Lease lease;
    bool movable = false;
    bool sealed = true;
    bool copies_on_write = false;
    std::atomic<bool> handed_out{false};
  };
  enum class Kind : uint8_t { kEmpty, kOwn, kOpened, kPrivate, kDevice };
  static constexpr size_t kEndSlots = 3;
  static constexpr uint8_t mark_of(EndSlot slot) noexcept {
    return static_cast<uint8_t>(1U << static_cast<uint8_t>(slot));
  }
  static constexpr uint8_t kHooks = (1U << kEndSlots) - 1;
  static constexpr uint8_t kLent = 8;
  static constexpr uint8_t kDropped = 16;
  // The block was not cleared, because the caller promised to fill the storage. Nobody tells
  // whether the caller did so, and the bytes may still be those of an earlier lend. So the block is
  // freed as memory::Lent::kLeased: it is used again, but cleared before.
  static constexpr uint8_t kUncleared = 32;
  static constexpr uint8_t kUncounted = 64;

  explicit Storage(Kind kind, uint8_t marks = 0) noexcept;
  ~Storage() override;
  void dispose() noexcept override;
  static Ref<Storage> open_marked(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                                  memory::Lease lease, uint8_t marks);
  void end_own(uint8_t marks) noexcept;
  void take_block(memory::Block& block) noexcept;
  // `copies`: create_from() overwrites all bytes before anybody else sees the storage.
  static Result<Ref<Storage>> create_shared(const StorageOptions& options, uint64_t nbytes,
                                            bool copies, bool* zero);
  static Result<Ref<Storage>> create_private(const StorageOptions& options, uint64_t nbytes);
  static Result<Ref<Storage>> try_create_private(const StorageOptions& options, uint64_t nbytes);
  static Result<Ref<Storage>> try_create_filled(const StorageOptions& options, const void* data,
                                                uint64_t nbytes);
  static std::array<std::atomic<EndHook>, kEndSlots> g_end_hooks;

  std::byte* data_ = nullptr;
  uint64_t nbytes_ = 0;
  mutable std::atomic<uint64_t> id_{0};  // 0 until the first call of id()
  Ref<Segment> segment_;
  union {
    Own own_;
    memory::Lease lease_;  // ends after `segment_`: then the lender may use the bytes again
    std::unique_ptr<Private> private_;
    std::unique_ptr<DeviceMemory> device_;
  };
  Kind kind_;
  Mode mode_ = Mode::kShared;
  bool read_only_ = false;
  std::atomic<uint8_t> marks_{0};
  memory::BlockSize taken_;  // kOwn: the bytes that the block takes from its arena
};

}  // namespace tenon::storage
