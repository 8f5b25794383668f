#include "modules/module/import_device.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "cuda/memory.h"
#include "device/by_cuda.h"
#include "memory/spare.h"

namespace tenon::module {

using archive::ZipRecord;
using storage::Storage;

namespace {

// The alignment of the driver's allocations and of PyTorch's, in bytes.
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kSomeNbytes = uint64_t{16} << 20;

bool is_storage(std::string_view name) noexcept {
  const bool is_in_package = name.starts_with(".data/") && name.ends_with(".storage");
  return is_in_package || name.starts_with("data/") || name.starts_with("constants/");
}

uint64_t room_for(const archive::ZipReader& reader) noexcept {
  uint64_t nbytes = 0;
  for (const ZipRecord& record : reader.records()) {
    if (is_storage(record.name)) nbytes += round_up(record.nbytes, kAlignment);
  }
  return nbytes;
}

void release_block(void* context) { static_cast<const Counted*>(context)->release(); }

}  // namespace

void swap_numbers(std::byte* bytes, uint64_t nbytes, uint64_t each) {
  if (each < 2) return;
  for (uint64_t at = 0; at + each <= nbytes; at += each)
    std::reverse(bytes + at, bytes + at + each);
}

class DeviceFiller::Block final : public Counted {
 public:
  Block(int32_t device, cuda::DevicePointer base) noexcept : device_(device), base_(base) {}

 private:
  ~Block() override = default;
  void dispose() noexcept override { cuda::free_memory(base_, device_); }
  int32_t device_;
  cuda::DevicePointer base_;
};

// With takes_all_ the first block has room for every record once. A record that is needed in two
// byte orders gets a block of its own for the second. Without takes_all_, the number of records
// that come to this device is unknown, so each block has a size that wastes little.
Status DeviceFiller::take(uint64_t nbytes, cuda::DevicePointer* out) {
  const uint64_t needed = round_up(nbytes, kAlignment);
  if (needed > left_nbytes_) {
    const uint64_t all = room_for(*reader_);
    const uint64_t wanted = takes_all_ ? (block_ ? needed : all) : std::min(all, kSomeNbytes);
    const uint64_t room = std::max(needed, wanted);
    TENON_ASSIGN(const cuda::DevicePointer base,
                 memory::with_spare([&] { return cuda::allocate(device_, room); }));
    block_ = Ref<const Counted>::adopt(new Block(device_, base));
    next_ = base;
    left_nbytes_ = room;
  }
  *out = next_;
  next_ += needed;
  left_nbytes_ -= needed;
  return Status::ok();
}

Status DeviceFiller::copy(const ZipRecord& record, uint64_t swap_nbytes, cuda::DevicePointer to) {
  if (!copy_) {
    TENON_ASSIGN(copy_, cuda::HostCopy::create(device_));
  }
  static_assert(cuda::HostCopy::kPieceNbytes % 16 == 0, "no number lies in two pieces");
  std::vector<std::byte> inflated(record.deflated ? record.nbytes : 0);
  if (record.deflated) TENON_TRY(reader_->read_into(record, inflated.data()));
  uint64_t done = 0;
  uint32_t crc = 0;
  const cuda::HostCopy::Give give = [&](std::span<std::byte> piece) -> Status {
    if (record.deflated) {
      std::memcpy(piece.data(), inflated.data() + done, piece.size());
    } else {
      TENON_TRY(reader_->read_piece(record, done, piece, &crc));
    }
    done += piece.size();
    swap_numbers(piece.data(), piece.size(), swap_nbytes);
    return Status::ok();
  };
  TENON_TRY(copy_.to_device(to, record.nbytes, give));
  return record.deflated ? Status::ok() : reader_->check_crc(record, crc);
}

Result<Ref<Storage>> DeviceFiller::fill(const ZipRecord& record, uint64_t swap_nbytes) {
  cuda::DevicePointer pointer = 0;
  TENON_TRY(take(record.nbytes, &pointer));
  TENON_TRY(copy(record, swap_nbytes, pointer));
  auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer));
  Ref<const Counted> keeper = block_;
  TENON_ASSIGN(Ref<Storage> storage, device::wrap_cuda(data, record.nbytes, device_, release_block,
                                                       const_cast<Counted*>(keeper.get()), false));
  (void)keeper.detach();
  return storage;
}

Result<Ref<Storage>> DeviceFiller::empty() const {
  return device::wrap_cuda(nullptr, 0, device_, nullptr, nullptr, false);
}

}  // namespace tenon::module
