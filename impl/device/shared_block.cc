#include "device/shared_block.h"

#include <span>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "device/export.h"
#include "memory/spare.h"

namespace tenon::device {

using storage::Storage;

namespace {

// The memory of a storage in a block.
class CudaBlockView final : public CudaMemory {
 public:
  explicit CudaBlockView(Ref<CudaSharedBlock> block)
      : CudaMemory(block->device()), block_(std::move(block)) {}
  Result<std::shared_ptr<const CudaExport>> lend_by(CudaTransport wanted,
                                                    cuda::DevicePointer pointer,
                                                    uint64_t nbytes) override {
    TENON_ASSIGN(const cuda::Allocation allocation, cuda::find_allocation(block_->base()));
    return export_cuda(allocation, pointer, nbytes, wanted);
  }

 private:
  const Ref<CudaSharedBlock> block_;
};

// Adds to the error of a block that could not be made what the user can do.
Status not_made_on(int32_t device, uint64_t nbytes, const Status& status) {
  if (status.code() == Code::kUnsupported)
    return Status(status.code(),
                  format("%s: cuda:%d has no memory that processes can share by an fd: share it in "
                         "the CPU's memory, and copy it to the device",
                         status.message().c_str(), device))
        .with_details_of(status);
  if (!memory::is_shortage(status)) return status;
  std::string room_text;
  Result<cuda::DeviceRoom> room = cuda::device_room(device);
  if (room.is_ok())
    room_text = format(" and %llu of its %llu are free", as_llu(room.value().free_nbytes),
                       as_llu(room.value().total_nbytes));
  Status told(status.code(),
              format("%s: %llu bytes are wanted on cuda:%d%s: end the processes that use the "
                     "device, or choose another device",
                     status.message().c_str(), as_llu(nbytes), device, room_text.c_str()));
  told = std::move(told).with_details_of(status).with("wanted", nbytes);
  if (!room.is_ok()) return told;
  return std::move(told)
      .with("limit_value", room.value().total_nbytes)
      .with("left", room.value().free_nbytes);
}

}  // namespace

Result<Ref<CudaSharedBlock>> CudaSharedBlock::create(int32_t device, uint64_t nbytes) {
  TENON_TRY(cuda::find_device(device).status());
  Result<cuda::PieceMapping> made = memory::with_spare(
      [&] { return cuda::PieceMapping::create(nbytes, device, cuda::PieceMapping::Handles::kFd); });
  if (!made.is_ok()) return not_made_on(device, nbytes, made.status());
  return Ref<CudaSharedBlock>::adopt(new CudaSharedBlock(std::move(made).value(), device));
}

Result<Ref<CudaSharedBlock>> CudaSharedBlock::open(int fd, int32_t device, uint64_t nbytes) {
  TENON_TRY(cuda::find_device(device).status());
  const cuda::PieceHandle piece{.nbytes = nbytes, .fd = fd};
  const auto map = [&](bool read_only) {
    return cuda::PieceMapping::map(std::span(&piece, 1), device, read_only);
  };
  Result<cuda::PieceMapping> mapped = map(true);
  // Many devices know no read-only access.
  if (mapped.status().code() == Code::kUnsupported) mapped = map(false);
  if (!mapped.is_ok()) return mapped.status();
  TENON_ASSIGN(const cuda::Allocation found, cuda::find_allocation(mapped.value().base()));
  if (found.device != device)
    return Status(Code::kInvalidArgument,
                  format("the memory is on cuda:%d and not on cuda:%d", found.device, device))
        .with("field", std::string("device"));
  return Ref<CudaSharedBlock>::adopt(new CudaSharedBlock(std::move(mapped).value(), device));
}

Result<os::Fd> CudaSharedBlock::export_fd() const {
  TENON_ASSIGN(std::vector<os::Fd> fds,
               cuda::export_pieces({.base = mapped_.base(), .sizes = {mapped_.nbytes()}}));
  return std::move(fds.front());
}

Status CudaSharedBlock::make_read_only() {
  Status status = mapped_.make_read_only(device_);
  return status.code() == Code::kUnsupported ? Status::ok() : status;
}

Ref<Storage> CudaSharedBlock::view(uint64_t offset, uint64_t nbytes) {
  if (nbytes == 0) return empty_cuda(device_);
  auto memory = std::make_unique<CudaBlockView>(Ref<CudaSharedBlock>::share(this));
  return Storage::on_device(std::move(memory), as_data(mapped_.base() + offset), nbytes, true);
}

void CudaSharedBlock::end() noexcept {
  mapped_ = cuda::PieceMapping();
  kept_ = nullptr;
}

}  // namespace tenon::device
