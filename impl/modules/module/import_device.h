// DeviceFiller copies storages of an archive into memory of one CUDA device. ArchiveStorages uses
// it. The storages lie in a few large allocations, each of which is freed with the last storage in
// it. If the whole archive is read, there is only one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/host_copy.h"
#include "modules/archive/zip_reader.h"
#include "storage/storage.h"

namespace tenon::module {

// Reverses the bytes of each number. `each` is the size of a number in bytes. 1: nothing is
// changed.
void swap_numbers(std::byte* bytes, uint64_t nbytes, uint64_t each);

// One thread at a time may use a filler.
class DeviceFiller {
 public:
  // `reader` is borrowed. `takes_all`: the caller will ask for every record of the archive, so the
  // first allocation gets room for all.
  DeviceFiller(const archive::ZipReader& reader, int32_t device, bool takes_all) noexcept
      : reader_(&reader), device_(device), takes_all_(takes_all) {}

  // Gives the storage of a record. Its bytes are complete after finish(). CORRUPT for wrong bytes,
  // and RESOURCE_EXHAUSTED if the device has no memory left. The storage keeps its allocation alive
  // and may outlive the filler.
  Result<Ref<storage::Storage>> fill(const archive::ZipRecord& record, uint64_t swap_nbytes);
  Result<Ref<storage::Storage>> empty() const;
  Status finish() { return copy_ ? copy_.finish() : Status::ok(); }

 private:
  class Block;
  Status take(uint64_t nbytes, cuda::DevicePointer* out);
  Status copy(const archive::ZipRecord& record, uint64_t swap_nbytes, cuda::DevicePointer to);

  const archive::ZipReader* reader_;
  int32_t device_;
  bool takes_all_;
  Ref<const Counted> block_;
  cuda::DevicePointer next_ = 0;
  uint64_t left_nbytes_ = 0;
  // destroyed before `block_`, because copies into the block may be under way
  cuda::HostCopy copy_;
};

}  // namespace tenon::module
