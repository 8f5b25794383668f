#include "storage/storage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/checked.h"
#include "memory/arena_wait.h"
#include "memory/spare.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/named_file.h"
#include "storage/host_access.h"

namespace tenon::storage {
namespace {

std::atomic<uint64_t> g_next_id{1};

// From this size on, one page, fresh memory is filled through the fd. A page fault for each page
// costs more than a system call and the kernel's copy.
constexpr uint64_t kWriteThroughFdMin = 4096;

Status outside(uint64_t offset, uint64_t nbytes, uint64_t total) {
  return Status(Code::kInvalidArgument,
                format("%llu bytes at offset %llu do not fit into the storage, which has %llu "
                       "bytes: give a smaller range, or make the "
                       "storage larger",
                       as_llu(nbytes), as_llu(offset), as_llu(total)));
}

void count_copy(uint64_t nbytes) noexcept {
  storage_totals().copied_nbytes.fetch_add(nbytes, std::memory_order_relaxed);
}

}  // namespace

StorageTotals& storage_totals() noexcept {
  static constinit StorageTotals totals;
  return totals;
}

constinit std::array<std::atomic<Storage::EndHook>, Storage::kEndSlots> Storage::g_end_hooks{};

Storage::Storage(Kind kind, uint8_t marks) noexcept : kind_(kind), marks_(marks) {
  switch (kind) {
    case Kind::kPrivate: new (&private_) std::unique_ptr<Private>(); break;
    case Kind::kDevice: new (&device_) std::unique_ptr<DeviceMemory>(); break;
    case Kind::kOpened: new (&lease_) memory::Lease(); break;
    case Kind::kOwn:
    case Kind::kEmpty: new (&own_) Own(); break;
  }
  if (kind != Kind::kOwn && marks == 0)
    storage_totals().storages.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Storage::id() const noexcept {
  uint64_t id = id_.load(std::memory_order_relaxed);
  if (id != 0) return id;
  const uint64_t mine = g_next_id.fetch_add(1, std::memory_order_relaxed);
  return id_.compare_exchange_strong(id, mine, std::memory_order_relaxed) ? mine : id;
}

// dispose() was called before.
Storage::~Storage() {
  if (kind_ == Kind::kPrivate) private_.~unique_ptr();
  if (kind_ == Kind::kDevice) device_.~unique_ptr();
  if (kind_ == Kind::kOpened) lease_.~Lease();
}

void Storage::dispose() noexcept {
  const uint8_t marks = marks_.load(std::memory_order_acquire);
  const auto call_hook = [&](EndSlot slot) {
    g_end_hooks[static_cast<size_t>(slot)].load(std::memory_order_relaxed)(this);
  };
  if ((marks & mark_of(EndSlot::kFirst)) != 0) call_hook(EndSlot::kFirst);
  if ((marks & mark_of(EndSlot::kSecond)) != 0) call_hook(EndSlot::kSecond);
  if ((marks & mark_of(EndSlot::kThird)) != 0) {
    const memory::GivingBack::Pause pause;
    call_hook(EndSlot::kThird);
  }
  if ((marks & kUncounted) == 0) {
    StorageTotals& totals = storage_totals();
    if (kind_ != Kind::kOwn) totals.storages.fetch_sub(1, std::memory_order_relaxed);
    if (segment_ && !segment_->own())
      totals.opened_nbytes.fetch_sub(nbytes_, std::memory_order_relaxed);
  }
  if (kind_ == Kind::kOwn) end_own(marks);
  segment_ = nullptr;
  if (kind_ == Kind::kPrivate && private_) {
    private_->pages = os::Mapping();
    if (private_->release != nullptr) {
      const memory::GivingBack::Pause pause;
      private_->release(private_->context);
    }
    private_ = nullptr;
  }
  if (kind_ == Kind::kDevice) {
    // end() calls the driver, and may notify the memory's owner.
    const memory::GivingBack::Pause pause;
    DeviceMemory* const memory = device_.get();
    memory->end(std::move(device_));
  }
  // The lease ends last: once the lender knows, these bytes may belong to another storage.
  if (kind_ == Kind::kOpened) lease_ = memory::Lease();
}

void Storage::end_own(uint8_t marks) noexcept {
  if (!segment_) return;  // no block could be allocated
  const bool lent = (marks & kLent) != 0;
  if (memory::LentBlock* const block = own_.lent.load(std::memory_order_acquire);
      block != nullptr) {
    if (!memory::counts_segment(own_.home)) (void)segment_.detach();
    block->storage_gone(lent);
    return;
  }
  memory::Block block;
  block.home = own_.home;
  block.offset = offset();
  block.taken_nbytes = own_.home != nullptr ? taken_.nbytes() : segment_->nbytes();
  block.segment = std::move(segment_);
  const memory::Lent unlent =
      (marks & kUncleared) != 0 ? memory::Lent::kLeased : memory::Lent::kNever;
  memory::free_block(std::move(block), lent ? memory::Lent::kUnleased : unlent);
}

const memory::Lease* Storage::lease() const noexcept {
  if (kind_ == Kind::kOpened && lease_.stands()) return &lease_;
  return kind_ == Kind::kDevice ? device_->lease() : nullptr;
}

memory::Leased* Storage::leased() {
  if (const memory::Lease* const own = lease(); own != nullptr) {
    memory::LentBlock* const block = own->own_block();
    if (block == nullptr) return this;
    return block->made_by_this_process() ? block : nullptr;
  }
  if (kind_ != Kind::kOwn || own_.home == nullptr || !segment_->made_by_this_process())
    return nullptr;
  memory::LentBlock* block = own_.lent.load(std::memory_order_acquire);
  if (block == nullptr) block = memory::lend_block(&own_.lent, own_.home, offset(), taken_);
  return block;
}

// The storage is made before its block, so that each block has a storage that frees it.
void Storage::take_block(memory::Block& block) noexcept {
  segment_ = std::move(block.segment);
  nbytes_ = block.nbytes;
  data_ = segment_->base() + block.offset;
  mode_ = segment_->mode();
  read_only_ = mode_ == Mode::kFrozen;
  own_.home = block.home;
  if (block.home != nullptr) taken_ = memory::BlockSize(block.taken_nbytes);
}

Result<Ref<Storage>> Storage::create_private(const StorageOptions& options, uint64_t nbytes) {
  return memory::with_spare([&] { return try_create_private(options, nbytes); });
}

Result<Ref<Storage>> Storage::try_create_private(const StorageOptions& options, uint64_t nbytes) {
  TENON_TRY(os::ask_headroom(nbytes));
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kPrivate));
  storage->private_ = std::make_unique<Private>();
  Private& own = *storage->private_;
  own.movable = true;
  storage->nbytes_ = nbytes;
  if (nbytes == 0) return storage;
  if (nbytes >= os::page_nbytes()) {
    TENON_ASSIGN(own.pages, os::Mapping::create(os::Mapping::Kind::kAnonymous, -1, 0, nbytes));
    TENON_TRY(own.pages.populate());
    storage->data_ = own.pages.base();
    return storage;
  }
  const uint64_t alignment = std::max(options.alignment, memory::kBlockAlignment);
  void* bytes = std::aligned_alloc(alignment, round_up(nbytes, alignment));
  if (bytes == nullptr)
    return Status(Code::kResourceExhausted, "no memory for a private storage")
        .with("limit", std::string("memory"));
  std::memset(bytes, 0, nbytes);
  storage->data_ = static_cast<std::byte*>(bytes);
  own.release = [](void* context) { std::free(context); };
  own.context = bytes;
  return storage;
}

Result<Ref<Storage>> Storage::create(const StorageOptions& options, uint64_t nbytes) {
  if (options.is_private) return create_private(options, nbytes);
  if (nbytes == 0) return open_empty(options.mode, options.mode == Mode::kFrozen);
  bool zero = false;
  return create_shared(options, nbytes, false, &zero);
}

Result<Ref<Storage>> Storage::create_shared(const StorageOptions& options, uint64_t nbytes,
                                            bool copies, bool* zero) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kOwn));
  memory::Block block;
  Status allocated =
      options.arena != nullptr
          ? memory::allocate_waiting(options.arena, nbytes, options.alignment, options.wait, &block)
          : memory::allocate_block(options.mode, nbytes, options.alignment, options.isolated,
                                   &block);
  if (!allocated.is_ok()) return allocated;
  storage->take_block(block);
  *zero = block.zero;
  // A FROZEN storage is never cleared, because its segment is always new. The next borrower must
  // not find bytes of the last one, not even behind the storage's end, where no caller writes.
  if (block.was_lent && options.will_fill && !copies) {
    storage->marks_.fetch_or(kUncleared, std::memory_order_relaxed);
  } else if (((options.zeroed && !block.zero) || block.was_lent) && !copies) {
    std::memset(storage->data_, 0, nbytes);
  }
  if (block.was_lent) std::memset(storage->data_ + nbytes, 0, block.taken_nbytes - nbytes);
  return storage;
}

// Makes a storage without reserved pages. Writing the data makes them.
Result<Ref<Storage>> Storage::try_create_filled(const StorageOptions& options, const void* data,
                                                uint64_t nbytes) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kOwn));
  memory::Block block;
  TENON_TRY(memory::allocate_unreserved_block(options.mode, nbytes, &block));
  storage->take_block(block);
  TENON_TRY(storage->segment_->write_through_fd(0, data, nbytes, true));
  count_copy(nbytes);
  if (options.mode == Mode::kFrozen) TENON_TRY(storage->freeze());
  return storage;
}

Result<Ref<Storage>> Storage::create_from(const StorageOptions& options, const void* data,
                                          uint64_t nbytes) {
  const bool own_segment =
      options.arena == nullptr &&
      (options.isolated || options.mode == Mode::kFrozen || nbytes > memory::kArenaBlockMax);
  if (!options.is_private && nbytes > 0 && own_segment && options.mode != Mode::kLenderWrites) {
    return memory::with_spare([&] { return try_create_filled(options, data, nbytes); });
  }
  if (options.is_private || nbytes == 0) {
    TENON_ASSIGN(Ref<Storage> storage, create(options, nbytes));
    if (nbytes == 0) return storage;
    std::memcpy(storage->data_, data, nbytes);
    count_copy(nbytes);
    return storage;
  }
  bool zero = false;
  TENON_ASSIGN(Ref<Storage> storage, create_shared(options, nbytes, true, &zero));
  if (zero && storage->mode_ == Mode::kShared && nbytes >= kWriteThroughFdMin &&
      storage->offset() + nbytes <= os::file_size_limit()) {
    TENON_TRY(storage->segment_->write_through_fd(storage->offset(), data, nbytes, false));
  } else {
    std::memcpy(storage->data_, data, nbytes);
  }
  count_copy(nbytes);
  return storage;
}

Result<Ref<Storage>> Storage::wrap(void* data, uint64_t nbytes, ReleaseFunction release,
                                   void* context, const StorageOptions& options) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kPrivate));
  storage->private_ = std::make_unique<Private>();
  storage->data_ = nbytes == 0 ? nullptr : static_cast<std::byte*>(data);
  storage->nbytes_ = nbytes;
  storage->read_only_ = options.read_only;
  storage->private_->release = release;
  storage->private_->context = context;
  storage->private_->sealed = options.sealed;
  return storage;
}

Ref<Storage> Storage::on_device(std::unique_ptr<DeviceMemory> memory, std::byte* data,
                                uint64_t nbytes, bool read_only) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kDevice));
  storage->device_ = std::move(memory);
  storage->data_ = nbytes == 0 ? nullptr : data;
  storage->nbytes_ = nbytes;
  storage->read_only_ = read_only;
  return storage;
}

Ref<Storage> Storage::open(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                           memory::Lease lease) {
  const bool is_own = segment->own();
  Ref<Storage> storage = open_marked(std::move(segment), offset, nbytes, std::move(lease), 0);
  if (!is_own) storage_totals().opened_nbytes.fetch_add(nbytes, std::memory_order_relaxed);
  return storage;
}

Ref<Storage> Storage::open_uncounted(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                                     memory::Lease lease) {
  return open_marked(std::move(segment), offset, nbytes, std::move(lease), kUncounted);
}

Ref<Storage> Storage::open_marked(Ref<Segment> segment, uint64_t offset, uint64_t nbytes,
                                  memory::Lease lease, uint8_t marks) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kOpened, marks));
  storage->data_ = nbytes == 0 ? nullptr : segment->base() + offset;
  storage->nbytes_ = nbytes;
  storage->mode_ = segment->mode();
  storage->read_only_ = !segment->writable();
  storage->segment_ = std::move(segment);
  storage->lease_ = std::move(lease);
  return storage;
}

Ref<Storage> Storage::open_empty(Mode mode, bool read_only) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kEmpty));
  storage->mode_ = mode;
  storage->read_only_ = read_only;
  return storage;
}

Result<Ref<Storage>> Storage::open_private_cow(int fd, uint64_t offset, uint64_t nbytes,
                                               bool sealed,
                                               const std::shared_ptr<os::MapBudget>& budget) {
  auto storage = Ref<Storage>::adopt(new Storage(Kind::kPrivate));
  storage->private_ = std::make_unique<Private>();
  storage->private_->copies_on_write = true;
  storage->private_->sealed = sealed || nbytes == 0;
  storage->nbytes_ = nbytes;
  if (nbytes == 0) return storage;
  const uint64_t begin = offset / os::page_nbytes() * os::page_nbytes();
  TENON_ASSIGN(storage->private_->charge, os::MapCharge::take(offset + nbytes - begin, budget));
  os::Mapping& pages = storage->private_->pages;
  TENON_ASSIGN(pages, os::Mapping::create(os::Mapping::Kind::kPrivateCow, fd, begin,
                                          offset + nbytes - begin));
  storage->data_ = pages.base() + (offset - begin);
  return storage;
}

Result<Ref<Storage>> Storage::open_private_copy(int fd, uint64_t offset, uint64_t nbytes) {
  TENON_ASSIGN(Ref<Storage> storage, create_private({}, nbytes));
  TENON_TRY(os::read_file(fd, offset, storage->data_, nbytes));
  count_copy(nbytes);
  return storage;
}

bool Storage::is_writable_elsewhere() const noexcept {
  if (nbytes_ == 0) return false;
  // The unwritten pages of a copy-on-write opening are still the lender's, and a file belongs to
  // its owner.
  if (kind_ == Kind::kPrivate) return private_->copies_on_write || !private_->sealed;
  return !segment_ || !segment_->frozen() || !segment_->sealed();
}

void Storage::move_into(Ref<Segment> segment, uint64_t offset) noexcept {
  std::byte* const target = segment->base() + offset;
  if (nbytes_ != 0) std::memcpy(target, data_, nbytes_);
  count_copy(nbytes_);
  if (private_->release != nullptr) private_->release(private_->context);
  private_.~unique_ptr();
  kind_ = Kind::kOpened;
  new (&lease_) memory::Lease();
  data_ = nbytes_ == 0 ? nullptr : target;
  mode_ = segment->mode();
  segment_ = std::move(segment);
}

void Storage::drop() noexcept {
  if (kind_ == Kind::kDevice && !device_->close_lent()) return;
  marks_.fetch_or(kDropped, std::memory_order_release);
}

Status Storage::check_lender() const {
  if (!is_dropped()) return Status::ok();
  return Status(Code::kPeerGone,
                "the lender of this storage is gone, and its connection drops what it lent; "
                "receive the storage again, or make the "
                "connection with on_lender_gone KEEP")
      .with("option", std::string("TENON_LENDER_GONE_KEEP"));
}

Result<std::byte*> Storage::data_mut() {
  TENON_TRY(check_lender());
  if (!read_only_) return const_cast<std::byte*>(data());
  Status status(Code::kPermission,
                mode_ == Mode::kFrozen
                    ? "the storage is of mode FROZEN, and its memory is never writable: open it "
                      "with private_copy or "
                      "private_cow for a copy that can be written, or fill it with storage_write "
                      "before the freeze"
                    : "the storage is read-only here: open it with private_copy or private_cow for "
                      "a copy that can be written, or have it lent in mode SHARED");
  return std::move(status).with("option",
                                std::string("PRIVATE_COW or PRIVATE_COPY when it is opened"));
}

bool Storage::same_memory(const Storage& other) const noexcept {
  if (nbytes_ == 0 || other.nbytes_ == 0 || nbytes_ != other.nbytes_) return false;
  if (device() != other.device()) return false;
  if (data_ == other.data_) return true;
  if (!segment_ || !other.segment_) return false;
  const memory::SegmentKey a = segment_->key();
  const memory::SegmentKey b = other.segment_->key();
  return a.device == b.device && a.inode == b.inode && offset() == other.offset();
}

Status Storage::write(uint64_t offset, const void* data, uint64_t nbytes) {
  TENON_TRY(check_lender());
  if (!range_inside(offset, nbytes, nbytes_)) return outside(offset, nbytes, nbytes_);
  TENON_TRY(check_host(device()));
  // Writing no bytes succeeds for every access, so that code need not treat an empty storage in
  // another way.
  if (nbytes == 0) return Status::ok();
  const bool filling = mode_ == Mode::kFrozen && segment_ && segment_->own();
  if (read_only_ && !filling) return data_mut().status();
  // An unsealed file can be cut short at any time. A store then raises SIGBUS, and pwrite makes the
  // file grow again. FROZEN memory has no writable mapping.
  if (filling || (segment_ && !segment_->sealed())) {
    TENON_TRY(segment_->write_through_fd(this->offset() + offset, data, nbytes, false));
  } else if (is_sealed()) {
    std::memcpy(data_ + offset, data, nbytes);
  } else {
    // This is a private mapping of a file. The pages that were written are not in the file, so the
    // kernel copies to the mapping.
    TENON_TRY(os::copy_to_mapping(data, data_ + offset, nbytes));
  }
  count_copy(nbytes);
  return Status::ok();
}

Status Storage::read(uint64_t offset, void* data, uint64_t nbytes) const {
  TENON_TRY(check_lender());
  if (!range_inside(offset, nbytes, nbytes_)) return outside(offset, nbytes, nbytes_);
  TENON_TRY(check_host(device()));
  if (nbytes == 0) return Status::ok();
  if (is_sealed()) {
    std::memcpy(data, data_ + offset, nbytes);
  } else if (segment_) {
    TENON_TRY(segment_->read_through_fd(this->offset() + offset, data, nbytes));
  } else {
    TENON_TRY(os::copy_from_mapping(data_ + offset, data, nbytes));
  }
  count_copy(nbytes);
  return Status::ok();
}

Status Storage::freeze() {
  if (mode_ != Mode::kFrozen || is_private()) {
    return Status(Code::kInvalidArgument, "only a storage born with mode FROZEN can be frozen")
        .with("option", std::string("TENON_MODE_FROZEN"));
  }
  return segment_ ? segment_->freeze() : Status::ok();
}

}  // namespace tenon::storage
