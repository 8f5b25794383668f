#include "device/arena.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/checked.h"
#include "cuda/device.h"
#include "device/memory.h"
#include "memory/ledger.h"
#include "memory/spare.h"

namespace tenon::device {

using storage::Storage;

namespace {

// How long allocate() pauses between its checks. Each pause is twice the one before.
constexpr int64_t kFirstPauseNs = 20'000;
constexpr int64_t kLongestPauseNs = 1'000'000;

// The driver makes small allocations out of blocks of this size, and an IPC handle leads to the
// whole block. An arena that takes less than a block would lend its neighbours too.
constexpr uint64_t kIpcBlockNbytes = uint64_t{2} << 20;

Status no_capacity() {
  return Status(Code::kInvalidArgument,
                "an arena on a device needs a capacity that is more than 0 and can be rounded up")
      .with("field", std::string("capacity_nbytes"));
}

}  // namespace

namespace {

// The sums over all arenas of this process.
std::atomic<uint64_t> g_held_nbytes{0};
std::atomic<uint64_t> g_used_nbytes{0};

// If `status` is a shortage of device memory: adds how much the device has, and how much of it the
// arenas of this process hold.
Status describe_device(const Status& status, int32_t device) {
  if (!memory::is_shortage(status)) return status;
  std::string of_device;
  Result<cuda::DeviceRoom> room = cuda::device_room(device);
  if (room.is_ok()) {
    of_device = format("%llu bytes of its %llu are free, ", as_llu(room.value().free_nbytes),
                       as_llu(room.value().total_nbytes));
  }
  const uint64_t held = g_held_nbytes.load(std::memory_order_relaxed);
  const uint64_t used = g_used_nbytes.load(std::memory_order_relaxed);
  Status told(status.code(),
              format("%s: %sand arenas of this process hold %llu on devices, %llu of them in use",
                     status.message().c_str(), of_device.c_str(), as_llu(held), as_llu(used)));
  told = std::move(told).with_details_of(status);
  if (room.is_ok())
    told = std::move(told)
               .with("limit_value", room.value().total_nbytes)
               .with("left", room.value().free_nbytes);
  return std::move(told).with("live", used).with("kept", held - std::min(held, used));
}

}  // namespace

// The memory of a storage in an arena.
class CudaBlock final : public CudaMemory {
 public:
  CudaBlock(Ref<CudaArena> arena, const CudaArena::Range& place)
      : CudaMemory(arena->options_.device), arena_(std::move(arena)), place_(place) {}
  ~CudaBlock() override { arena_->give_back(place_); }
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                    cuda::DevicePointer /*pointer*/,
                                                    uint64_t /*nbytes*/) override {
    return arena_->exported(wanted);
  }

 private:
  Ref<CudaArena> arena_;
  CudaArena::Range place_;
};

CudaArena::CudaArena(const CudaArenaOptions& options) noexcept : options_(options), space_(0) {}

Status CudaArena::take_memory(CudaTransport transport) {
  uint64_t capacity = 0;
  if (transport == CudaTransport::kIpc) {
    if (!checked_round_up(options_.capacity_nbytes, kIpcBlockNbytes, &capacity))
      return no_capacity();
    Result<cuda::DevicePointer> allocated = cuda::allocate(options_.device, capacity);
    if (!allocated.is_ok()) return describe_device(allocated.status(), options_.device);
    allocated_ = allocated.value();
  } else {
    const auto handles = transport == CudaTransport::kFd ? cuda::PieceMapping::Handles::kFd
                                                         : cuda::PieceMapping::Handles::kFabric;
    Result<cuda::PieceMapping> mapped =
        cuda::PieceMapping::create(options_.capacity_nbytes, options_.device, handles);
    if (!mapped.is_ok()) return describe_device(mapped.status(), options_.device);
    mapped_ = std::move(mapped).value();
    capacity = mapped_.nbytes();
  }
  options_.capacity_nbytes = capacity;
  g_held_nbytes.fetch_add(capacity, std::memory_order_relaxed);
  space_ = memory::FreeSpace(capacity);
  TENON_ASSIGN(memory_, cuda::find_allocation(allocated_ != 0 ? allocated_ : mapped_.base()));
  options_.transport = transport;
  return Status::ok();
}

Result<Ref<CudaArena>> CudaArena::create(const CudaArenaOptions& options) {
  return memory::with_spare([&] { return try_create(options); });
}

Result<Ref<CudaArena>> CudaArena::try_create(const CudaArenaOptions& options) {
  if (options.transport == CudaTransport::kPool)
    return Status(
        Code::kInvalidArgument,
        "an arena's memory is lent by an IPC handle, by fds or by the fabric, and not with a pool");
  TENON_TRY(cuda::find_device(options.device).status());
  if (options.capacity_nbytes == 0) return no_capacity();
  const bool any = options.transport == CudaTransport::kNone;
  auto arena = Ref<CudaArena>::adopt(new CudaArena(options));
  TENON_TRY(arena->take_memory(any ? CudaTransport::kIpc : options.transport));
  // The export is tried now, so that an arena whose memory cannot be lent fails here, and not at
  // the first lend.
  Status lent = arena->exported(arena->options_.transport).status();
  // With MIG, for example, the driver says that the memory has no IPC handle. On other devices,
  // such as those with confidential computing, the memory counts as IPC-capable until an export is
  // tried.
  if (any && lent.code() == Code::kUnsupported) {
    arena = nullptr;  // frees the memory before the next allocation
    arena = Ref<CudaArena>::adopt(new CudaArena(options));
    TENON_TRY(arena->take_memory(CudaTransport::kFd));
    lent = arena->exported(CudaTransport::kFd).status();
  }
  TENON_TRY(std::move(lent));
  return arena;
}

void CudaArena::end() noexcept {
  g_held_nbytes.fetch_sub(space_.nbytes(), std::memory_order_relaxed);
  exported_ = nullptr;
  mapped_ = cuda::PieceMapping();
  if (allocated_ != 0) cuda::free_memory(allocated_, options_.device);
}

// Call before taking the lock, because in a forked child another thread of the parent may have held
// the lock at the fork.
Status CudaArena::check_process() const {
  if (generation_ == fork_generation()) return Status::ok();
  return Status(Code::kUnsupported,
                "the arena belongs to the process that made it, and this one is a child of fork: "
                "make an arena here");
}

Result<std::shared_ptr<const CudaExport>> CudaArena::exported(CudaTransport wanted) {
  if (wanted == CudaTransport::kNone) wanted = options_.transport;
  TENON_TRY(check_process());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!exported_ || exported_->route.transport != wanted) {
    TENON_ASSIGN(exported_, export_cuda(memory_, memory_.base, memory_.nbytes, wanted));
  }
  return exported_;
}

bool CudaArena::take(uint64_t nbytes, Range* out) {
  const uint64_t wanted = memory::block_nbytes(nbytes, kCudaBlockAlignment);
  const std::lock_guard<std::mutex> lock(mutex_);
  memory::FreeSpace::Piece piece;
  const auto find = [&] {
    if (space_.take_free(wanted, kCudaBlockAlignment, &piece)) return true;
    uint64_t offset = 0;
    if (!space_.peek_front(wanted, kCudaBlockAlignment, &offset)) return false;
    piece = space_.take_front(offset, wanted);
    return true;
  };
  if (!find() && (!space_.consolidate() || !find())) return false;
  *out = {piece.offset, piece.nbytes};
  used_nbytes_ += piece.nbytes;
  g_used_nbytes.fetch_add(piece.nbytes, std::memory_order_relaxed);
  peak_nbytes_ = std::max(peak_nbytes_, used_nbytes_);
  ++used_blocks_;
  return true;
}

void CudaArena::give_back(const Range& place) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  used_nbytes_ -= place.nbytes;
  g_used_nbytes.fetch_sub(place.nbytes, std::memory_order_relaxed);
  if (--used_blocks_ == 0) {
    space_.reset();
    return;
  }
  try {
    space_.give_back(place.offset, place.nbytes, false);
  } catch (...) {
    // No memory to record the free block. It stays unused until all other blocks are free.
  }
}

Result<Ref<Storage>> CudaArena::make(uint64_t nbytes, const Range& place) {
  std::unique_ptr<CudaBlock> block;
  try {
    block = std::make_unique<CudaBlock>(Ref<CudaArena>::share(this), place);
  } catch (...) {
    give_back(place);
    throw;
  }
  return Storage::on_device(std::move(block), as_data(memory_.base + place.offset), nbytes, false);
}

Status CudaArena::full(uint64_t nbytes) const {
  const CudaArenaStats now = stats();
  return Status(Code::kResourceExhausted,
                format("the arena of %llu bytes on CUDA device %d has no room for %llu: %llu are "
                       "in use, and the longest free piece has %llu: "
                       "%s",
                       as_llu(now.capacity_nbytes), now.device, as_llu(nbytes),
                       as_llu(now.used_nbytes), as_llu(now.largest_free_nbytes),
                       nbytes > now.capacity_nbytes ? "give the arena a larger capacity"
                                                    : "release storages, or wait until streams "
                                                      "have passed and receivers have let go"))
      .with("limit", std::string("arena"))
      .with("limit_value", now.capacity_nbytes)
      .with("wanted", nbytes)
      .with("in_use", now.used_nbytes)
      .with("holders", memory::describe_holders());
}

Result<Ref<Storage>> CudaArena::allocate(uint64_t nbytes, const os::Wait& wait) {
  TENON_TRY(check_process());
  Range place;
  if (nbytes == 0) return empty_cuda(options_.device);
  // No wait helps here. The check comes before rounding up, which might not fit in 64 bits.
  if (nbytes > options_.capacity_nbytes) return full(nbytes);
  if (take(nbytes, &place)) return make(nbytes, place);
  os::Waiter waiter(wait);
  for (int64_t pause = kFirstPauseNs;; pause = std::min(2 * pause, kLongestPauseNs)) {
    collect_cuda_without_waiting();
    if (take(nbytes, &place)) return make(nbytes, place);
    if (wait.timeout_ns == 0) return full(nbytes);
    if (const Status ended = waiter.pause(pause, "room in an arena on a device"); !ended.is_ok()) {
      const Status why = full(nbytes);
      Status status(ended.code(), ended.message() + ": " + why.message());
      status = std::move(status).with_details_of(why);
      return status;
    }
  }
}

CudaArenaStats CudaArena::stats() const {
  CudaArenaStats out;
  out.device = options_.device;
  out.transport = options_.transport;
  out.capacity_nbytes = options_.capacity_nbytes;
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  if (check_process().is_ok()) {
    lock.lock();
  } else if (!lock.try_lock()) {
    out.used_nbytes = out.peak_nbytes = out.capacity_nbytes;
    return out;
  }
  out.used_nbytes = used_nbytes_;
  out.free_nbytes = space_.nbytes() - used_nbytes_;
  out.largest_free_nbytes = std::max(space_.largest_free(), space_.nbytes() - space_.front());
  out.peak_nbytes = peak_nbytes_;
  out.used_blocks = used_blocks_;
  return out;
}

}  // namespace tenon::device
