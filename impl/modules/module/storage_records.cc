#include "modules/module/storage_records.h"

#include <span>

namespace tenon::module {

using archive::Compression;
using archive::SourceKind;
using archive::ZipWriter;
using value::StorageValue;

Status StorageRecords::write(const std::string& name, const StorageValue& storage) {
  const bool is_none = storage.is_meta() || storage.nbytes() == 0;
  if (!is_none) TENON_TRY(storage.bytes()->check_lender());
  if (!is_none && storage.is_on_device() && storage.nbytes() <= ZipWriter::kCrcAheadUpTo)
    return hold_back(name, storage);
  TENON_TRY(finish());
  if (is_none) return writer_->add(name, {});
  if (storage.is_on_device()) return write_from_device(name, storage);
  const std::byte* const data = storage.data();
  const SourceKind reach =
      resolved_->is_mapped(data) ? SourceKind::kMappedFile : SourceKind::kMemory;
  return writer_->add(name, {data, storage.nbytes()}, Compression::kStored, reach);
}

// Writes the pieces from the pinned buffer to the file. The record has the same bytes as that of a
// storage in host memory.
Status StorageRecords::write_from_device(const std::string& name, const StorageValue& storage) {
  TENON_ASSIGN(cuda::HostCopy* const copy, copies_.copy_from(storage.bytes()->device().id));
  TENON_TRY(writer_->begin(name, storage.nbytes()));
  TENON_TRY(
      copy->to_host(pointer_of(storage), storage.nbytes(),
                    [&](std::span<const std::byte> piece) { return writer_->append(piece); }));
  return writer_->end();
}

// Small storages that follow each other on one device are read together, because the host waits
// longer for one copy than the copy takes.
Status StorageRecords::hold_back(const std::string& name, const StorageValue& storage) {
  static_assert(ZipWriter::kCrcAheadUpTo <= cuda::HostCopy::kPieceNbytes);
  const int32_t device = storage.bytes()->device().id;
  if (device != held_device_ || storage.nbytes() > cuda::HostCopy::kPieceNbytes - held_nbytes_)
    TENON_TRY(finish());
  held_device_ = device;
  held_names_.push_back(name);
  held_.push_back({pointer_of(storage), storage.nbytes()});
  held_nbytes_ += storage.nbytes();
  return Status::ok();
}

Status StorageRecords::finish() {
  if (held_.empty()) return Status::ok();
  TENON_ASSIGN(cuda::HostCopy* const copy, copies_.copy_from(held_device_));
  TENON_TRY(copy->gather(held_, [&](size_t i, std::span<const std::byte> bytes) {
    return writer_->add(held_names_[i], bytes);
  }));
  held_names_.clear();
  held_.clear();
  held_nbytes_ = 0;
  return Status::ok();
}

}  // namespace tenon::module
