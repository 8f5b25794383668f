#include "share/cuda_arena.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "cuda/device.h"
#include "memory/ledger.h"
#include "share/cuda_memory.h"

namespace tenon::share {

using storage::Storage;

namespace {

constexpr int64_t kFirstPauseNs = 20'000;
constexpr int64_t kLongestPauseNs = 1'000'000;

unsigned long long number(uint64_t value) noexcept { return value; }

}  // namespace

// Of a storage in an arena.
class CudaBlock final : public CudaMemory {
 public:
  CudaBlock(Ref<CudaArena> arena, const CudaArena::Place& place)
      : CudaMemory(arena->options_.device), arena_(std::move(arena)), place_(place) {}
  ~CudaBlock() override { arena_->give_back(place_); }
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted, cuda::DevicePointer /*pointer*/, uint64_t /*nbytes*/) override {
    return arena_->exported(wanted);
  }

 private:
  Ref<CudaArena> arena_;
  CudaArena::Place place_;
};

CudaArena::CudaArena(const CudaArenaOptions& options, uint64_t capacity_nbytes) noexcept : options_(options), space_(capacity_nbytes) {
  options_.capacity_nbytes = capacity_nbytes;
}

Status CudaArena::take_memory(CudaTransport transport) {
  if (transport == CudaTransport::kIpc) {
    TENON_ASSIGN(allocated_, cuda::allocate(options_.device, options_.capacity_nbytes));
  } else {
    const auto handles = transport == CudaTransport::kFd ? cuda::PieceMapping::Handles::kFd : cuda::PieceMapping::Handles::kFabric;
    TENON_ASSIGN(mapped_, cuda::PieceMapping::create(options_.capacity_nbytes, options_.device, handles));
  }
  TENON_ASSIGN(memory_, cuda::find_allocation(allocated_ != 0 ? allocated_ : mapped_.base()));
  options_.transport = transport;
  return Status::ok();
}

Result<Ref<CudaArena>> CudaArena::create(const CudaArenaOptions& options) {
  if (options.transport == CudaTransport::kPool)
    return Status(Code::kInvalidArgument, "an arena's memory is lent by an IPC handle, by fds or by the fabric, and not with a pool");
  TENON_TRY(cuda::find_device(options.device).status());
  uint64_t capacity = 0;
  if (options.capacity_nbytes == 0 || !checked_round_up(options.capacity_nbytes, kCudaBlockAlignment, &capacity)) {
    return Status(Code::kInvalidArgument, "an arena on a device needs a capacity").with("field", std::string("capacity_nbytes"));
  }
  auto arena = Ref<CudaArena>::adopt(new CudaArena(options, capacity));
  if (options.transport != CudaTransport::kNone) {
    TENON_TRY(arena->take_memory(options.transport));
  } else {
    TENON_TRY(arena->take_memory(CudaTransport::kIpc));
    if (!arena->memory_.has_ipc_handle) {  // where there is MIG, for one
      arena = Ref<CudaArena>::adopt(new CudaArena(options, capacity));
      TENON_TRY(arena->take_memory(CudaTransport::kFd));
    }
  }
  // That it can be lent is known now, and not when the first tensor is to go.
  TENON_TRY(arena->exported(arena->options_.transport).status());
  return arena;
}

void CudaArena::dispose() noexcept {
  exported_ = nullptr;
  mapped_ = cuda::PieceMapping();
  if (allocated_ != 0) cuda::free_memory(allocated_, options_.device);
}

Result<std::shared_ptr<const CudaExport>> CudaArena::exported(CudaTransport wanted) {
  if (wanted == CudaTransport::kNone) wanted = options_.transport;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!exported_ || exported_->route.transport != wanted) {
    TENON_ASSIGN(exported_, export_cuda(memory_, memory_.base, memory_.nbytes, wanted));
  }
  return exported_;
}

bool CudaArena::take(uint64_t nbytes, Place* out) {
  uint64_t class_nbytes = memory::size_class(nbytes, kCudaBlockAlignment);
  const std::lock_guard<std::mutex> lock(mutex_);
  // What fills the arena is of no class, and alone in it.
  const bool whole = class_nbytes > space_.nbytes();
  if (whole && used_blocks_ > 0) return false;
  if (whole) class_nbytes = space_.nbytes();
  const auto find = [&] {
    memory::Space::Piece piece;
    if (whole) return true;
    if (space_.take_free(class_nbytes, kCudaBlockAlignment, &piece)) {
      out->offset = piece.offset;
      return true;
    }
    uint64_t offset = 0;
    if (!space_.peek_front(class_nbytes, kCudaBlockAlignment, &offset)) return false;
    out->offset = space_.take_front(offset, class_nbytes).offset;
    return true;
  };
  if (!find() && (!space_.consolidate() || !find())) return false;
  out->class_nbytes = class_nbytes;
  used_nbytes_ += class_nbytes;
  peak_nbytes_ = std::max(peak_nbytes_, used_nbytes_);
  ++used_blocks_;
  return true;
}

void CudaArena::give_back(const Place& place) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  used_nbytes_ -= place.class_nbytes;
  if (--used_blocks_ == 0) {
    space_.reset();
    return;
  }
  try {
    space_.give_back(place.offset, place.class_nbytes, false);
  } catch (...) {
    // No memory to remember the block by: it stays unused until all others have gone.
  }
}

Result<Ref<Storage>> CudaArena::make(uint64_t nbytes, const Place& place) {
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
  return Status(
             Code::kResourceExhausted,
             format("the arena of %llu bytes on CUDA device %d has no room for %llu: %llu are in use, and the longest free piece has %llu",
                    number(now.capacity_nbytes), now.device, number(nbytes), number(now.used_nbytes), number(now.largest_free_nbytes)))
      .with("limit", std::string("arena"))
      .with("limit_value", now.capacity_nbytes)
      .with("wanted", nbytes)
      .with("in_use", now.used_nbytes)
      .with("holders", memory::describe_holders());
}

Result<Ref<Storage>> CudaArena::allocate(uint64_t nbytes, const os::Wait& wait) {
  if (generation_ != fork_generation())
    return Status(Code::kUnsupported, "the arena belongs to the process that made it, and this one is a child of fork");
  Place place;
  if (nbytes == 0) return empty_cuda(options_.device);
  // Larger than all of it: no wait helps. This before the class is made of it, which would not fit in 64 bits.
  if (nbytes > options_.capacity_nbytes) return full(nbytes);
  if (take(nbytes, &place)) return make(nbytes, place);
  os::Waiter waiter(wait);
  for (int64_t pause = kFirstPauseNs;; pause = std::min(2 * pause, kLongestPauseNs)) {
    (void)collect_cuda();
    if (take(nbytes, &place)) return make(nbytes, place);
    if (wait.timeout_ns == 0) return full(nbytes);
    if (const Status ended = waiter.pause(pause, "room in an arena on a device"); !ended.is_ok()) {
      const Status why = full(nbytes);
      Status status(ended.code(), ended.message() + ": " + why.message());
      for (const Detail& each : why.info()->details) status = std::move(status).with(each.key, each.value);
      return status;
    }
  }
}

CudaArenaStats CudaArena::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  CudaArenaStats out;
  out.device = options_.device;
  out.transport = options_.transport;
  out.capacity_nbytes = space_.nbytes();
  out.used_nbytes = used_nbytes_;
  out.free_nbytes = space_.nbytes() - used_nbytes_;
  out.largest_free_nbytes = std::max(space_.largest_free(), space_.nbytes() - space_.front());
  out.peak_nbytes = peak_nbytes_;
  out.used_blocks = used_blocks_;
  return out;
}

}  // namespace tenon::share
