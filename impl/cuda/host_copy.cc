#include "cuda/host_copy.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {
namespace {

// The alignment of ordinary memory that replaces pinned memory, the same as that of pages.
constexpr std::align_val_t kAlignment{4096};

}  // namespace

void HostCopy::swap(HostCopy* other) noexcept {
  std::swap(device_, other->device_);
  std::swap(context_, other->context_);
  std::swap(stream_, other->stream_);
  std::swap(next_, other->next_);
  std::swap(pieces_, other->pieces_);
}

Result<HostCopy> HostCopy::create(int32_t device) {
  HostCopy made;
  made.device_ = device;
  TENON_TRY(made.make());
  return made;
}

Status HostCopy::make() {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_ASSIGN(CUcontext context, primary_context(*cu, device_));
  InContext scope(*cu);
  TENON_TRY(scope.enter(context));
  context_ = context;
  // A non-blocking stream neither waits for the default stream nor is waited for by it.
  CUstream stream = nullptr;
  TENON_CUDA(*cu, cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a new CUDA stream");
  stream_ = stream;
  for (Piece& piece : pieces_) {
    TENON_ASSIGN(piece.copied, Event::create(context_, Event::Origin::kThisProcess, nullptr));
    void* pinned = nullptr;
    piece.is_pinned = cu->has(Part::kHost).is_ok() &&
                      cu->cuMemHostAlloc(&pinned, kPieceNbytes, 0) == CUDA_SUCCESS;
    if (!piece.is_pinned) pinned = ::operator new(kPieceNbytes, kAlignment);
    piece.bytes = static_cast<std::byte*>(pinned);
  }
  return Status::ok();
}

HostCopy::~HostCopy() {
  if (stream_ == nullptr) return;
  // In a child of fork the pieces belong to the parent, and there is no driver.
  Result<const Driver*> found = driver();
  if (!found.is_ok()) return;
  const Driver& cu = *found.value();
  InContext scope(cu);
  if (!scope.enter(static_cast<CUcontext>(context_)).is_ok()) return;
  // After a failure, copies may still be under way.
  (void)cu.cuStreamSynchronize(static_cast<CUstream>(stream_));
  for (Piece& piece : pieces_) {
    if (piece.is_pinned) {
      (void)cu.cuMemFreeHost(piece.bytes);
    } else if (piece.bytes != nullptr) {
      ::operator delete(piece.bytes, kAlignment);
    }
  }
  (void)cu.cuStreamDestroy(static_cast<CUstream>(stream_));
}

Status HostCopy::wait_for(Stream stream) {
  TENON_ASSIGN(void* const context, find_context(stream, device_));
  TENON_ASSIGN(Event event, Event::create(context, Event::Origin::kThisProcess, nullptr));
  TENON_TRY(event.record(stream));
  return event.wait_in(stream_, device_);
}

Status HostCopy::begin(uint64_t to, uint64_t from, uint64_t nbytes) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(context_)));
  TENON_CUDA(*cu, cu->cuMemcpyAsync(to, from, nbytes, static_cast<CUstream>(stream_)),
             format("copying %llu bytes between the host and CUDA device %d",
                    static_cast<unsigned long long>(nbytes), device_));
  return Status::ok();
}

Status HostCopy::copy(uint64_t to, uint64_t from, uint64_t nbytes, Piece* piece) {
  TENON_TRY(begin(to, from, nbytes));
  return piece->copied.record(stream_);
}

Status HostCopy::to_host_inside(DevicePointer from, uint64_t nbytes, const Take& take) {
  const auto nbytes_at = [&](uint64_t at) { return std::min(nbytes - at, kPieceNbytes); };
  const auto begin = [&](uint64_t at, Piece* piece) {
    return copy(reinterpret_cast<uintptr_t>(piece->bytes), from + at, nbytes_at(at), piece);
  };
  size_t current = 0;
  if (nbytes > 0) TENON_TRY(begin(0, &pieces_[current]));
  for (uint64_t at = 0; at < nbytes; at += kPieceNbytes) {
    const size_t other = (current + 1) % kPieces;
    if (at + kPieceNbytes < nbytes) TENON_TRY(begin(at + kPieceNbytes, &pieces_[other]));
    TENON_TRY(pieces_[current].copied.synchronize({}));
    TENON_TRY(take({pieces_[current].bytes, nbytes_at(at)}));
    current = other;
  }
  return Status::ok();
}

Status HostCopy::to_host(DevicePointer from, uint64_t nbytes, const Take& take) {
  Status status = to_host_inside(from, nbytes, take);
  // Copies that are under way would write into a piece that is used again.
  if (!status.is_ok()) (void)finish();
  return status;
}

Status HostCopy::gather_inside(std::span<const Range> ranges, const TakeRange& take) {
  Piece& piece = pieces_.front();
  uint64_t at = 0;
  for (const Range& range : ranges) {
    TENON_TRY(begin(reinterpret_cast<uintptr_t>(piece.bytes) + at, range.from, range.nbytes));
    at += range.nbytes;
  }
  TENON_TRY(piece.copied.record(stream_));
  TENON_TRY(piece.copied.synchronize({}));
  at = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    TENON_TRY(take(i, {piece.bytes + at, ranges[i].nbytes}));
    at += ranges[i].nbytes;
  }
  return Status::ok();
}

Status HostCopy::gather(std::span<const Range> ranges, const TakeRange& take) {
  Status status = gather_inside(ranges, take);
  if (!status.is_ok()) (void)finish();
  return status;
}

Status HostCopy::to_device(DevicePointer to, uint64_t nbytes, const Give& give) {
  for (uint64_t at = 0; at < nbytes; at += kPieceNbytes) {
    Piece& piece = pieces_[next_];
    next_ = (next_ + 1) % kPieces;
    TENON_TRY(piece.copied.synchronize({}));
    const uint64_t piece_nbytes = std::min(nbytes - at, kPieceNbytes);
    TENON_TRY(give({piece.bytes, piece_nbytes}));
    TENON_TRY(copy(to + at, reinterpret_cast<uintptr_t>(piece.bytes), piece_nbytes, &piece));
  }
  return Status::ok();
}

Status HostCopy::finish() {
  return stream_ == nullptr ? Status::ok() : synchronize(stream_, device_);
}

}  // namespace tenon::cuda
