// Builds the Contents (weights.h) of a file of weights. read_contents() calls the reader of the
// file's form, and the reader adds the records and the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/import.h"
#include "modules/module/import_storages.h"
#include "modules/value/tensor_value.h"
#include "modules/weights/weights.h"

namespace tenon::weights {

// The records of one part, and the storages over these records.
class PartStorages {
 public:
  // `contents` and `options` are borrowed. The part is the last one in contents->parts. The errors
  // of the functions are those of ArchiveStorages (import_storages.h).
  PartStorages(Contents* contents, const module::ImportOptions& options, bool foreign_endian);

  const archive::ZipRecord& record(size_t index) const noexcept {
    return reader().records()[index];
  }
  const archive::ZipReader& reader() const noexcept { return *contents_->parts[part_].reader; }
  // The storage over a whole record. Null if the record has no bytes.
  Result<Ref<storage::Storage>> bytes_of(size_t record, tensor::ScalarType type,
                                         std::string_view device);
  // The slot of a record.
  size_t slot_of(size_t record);
  // The slot of a storage that bytes_of() gave. Weight::kNoSlot for any other storage.
  size_t slot_of(const storage::Storage* bytes) const noexcept;
  // Call once all storages were asked for. Until then, do not read storages on a device.
  Status finish() { return storages_.finish(); }

 private:
  Contents* contents_;
  const size_t part_;
  module::ImportReport report_;
  module::ArchiveStorages storages_;
  std::map<size_t, size_t> slots_;  // by record
  std::map<const storage::Storage*, size_t> slot_by_bytes_;
};

// The index of a record among the records of a reader.
size_t index_of(const archive::ZipReader& reader, const archive::ZipRecord& record) noexcept;

// The error CORRUPT of a weight's elements or layout, with the name of the weight.
Status corrupt_weight(const std::string& name, const Status& why);
// Adds a weight with what its reader found. A tensor that is UNSUPPORTED is the weight's refusal. A
// layout that is INVALID_ARGUMENT makes the file CORRUPT. Other errors are returned as they are.
Status add_weight(Weight weight, Result<value::TensorValueRef> tensor, Contents* contents);

// Each of these reads one form into `contents`, which already has the file. `options` is borrowed.
// A weight of a kind that is not supported is no error (Weight::refusal). After an error `contents`
// is of no use.
Status read_payloads(const module::ImportOptions& options, Contents* contents);
Status read_flat_tensors(const module::ImportOptions& options, Contents* contents);
Status read_safetensors(const module::ImportOptions& options, Contents* contents);
// Reads a file that is an archive of torch.save with tensors, which contents->archive has.
Status read_state_dict(const module::ImportOptions& options, Contents* contents);
// Reads a record that is such an archive. `prefix` is put before the names of its weights.
Status read_saved_tensors(const archive::ZipRecord& record, const std::string& prefix,
                          const module::ImportOptions& options, Contents* contents);

}  // namespace tenon::weights
