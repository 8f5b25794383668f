// Puts together what a file of weights has. Each reader of a form adds its records and its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "archive/pickle_to_values.h"
#include "archive/zip_reader.h"
#include "base/status.h"
#include "module/import.h"
#include "module/import_storages.h"
#include "value/tensor_value.h"
#include "weights/weights.h"

namespace tenon::weights {

// The records of one part, and the storages over them.
class PartStorages {
 public:
  // `contents` and `options` are borrowed. `part` was added to contents->parts last.
  PartStorages(Contents* contents, const module::ImportOptions& options, bool foreign_endian);

  const archive::ZipRecord& record(size_t index) const noexcept {
    return reader().records()[index];
  }
  const archive::ZipReader& reader() const noexcept { return *contents_->parts[part_].reader; }
  // The storage over a whole record. Null if the record has no bytes.
  Result<Ref<storage::Storage>> bytes_of(size_t record, value::ScalarType type,
                                         std::string_view device);
  // The slot of that record.
  size_t slot_of(size_t record);
  // The slot of a storage that bytes_of() gave; Weight::kNoSlot for another.
  size_t slot_of(const storage::Storage* bytes) const noexcept;
  // After the last.
  Status finish() { return storages_.finish(); }

 private:
  Contents* contents_;
  const size_t part_;
  module::ImportReport report_;
  module::ArchiveStorages storages_;
  std::map<size_t, size_t> slots_;  // by record
  std::map<const storage::Storage*, size_t> slot_by_bytes_;
};

// The number of a record among those of a reader.
size_t index_of(const archive::ZipReader& reader, const archive::ZipRecord& record) noexcept;

// Each reads one form into `contents`, which has the file. `options` is borrowed.
Status read_payloads(const module::ImportOptions& options, Contents* contents);
Status read_flat_tensors(const module::ImportOptions& options, Contents* contents);
// A record that is an archive of torch.save with tensors. `prefix` comes before their names.
Status read_saved_tensors(const archive::ZipRecord& record, const std::string& prefix,
                          const module::ImportOptions& options, Contents* contents);

}  // namespace tenon::weights
