// Storages of an archive that are memory of a CUDA device: all of them lie in one allocation, which
// goes with the last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "archive/zip_reader.h"
#include "base/counted.h"
#include "base/status.h"
#include "cuda/host_copy.h"
#include "storage/storage.h"

namespace tenon::module {

// Turns each number's bytes round; 1: none.
void swap_numbers(std::byte* bytes, uint64_t nbytes, uint64_t each);

class DeviceFiller {
 public:
  // Borrowed. `takes_all`: every record of the archive will be asked for, so one allocation has
  // room for all.
  DeviceFiller(const archive::ZipReader& reader, int32_t device, bool takes_all) noexcept
      : reader_(&reader), device_(device), takes_all_(takes_all) {}

  // The record's bytes are there after finish().
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
  cuda::HostCopy copy_;  // goes before the block, into which copies may be under way
};

}  // namespace tenon::module
