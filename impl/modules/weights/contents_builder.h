// Builds the Contents (weights.h) of a file of weights: its parts, slots and weights, which
// weights.h defines. read_contents() calls the reader of the file's form, and the reader adds them.
// One thread builds a Contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "modules/archive/pickle_state_dict.h"
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
  // `contents` and `options` are borrowed, and outlive this object. The part is the last one in
  // contents->parts, which the caller has just added. `foreign_endian`: the elements have the other
  // byte order, and storages get copies in the order of this machine. The errors of the functions
  // are those of ArchiveStorages (import_storages.h).
  PartStorages(Contents* contents, const module::ImportOptions& options, bool foreign_endian);

  const archive::ZipRecord& record(size_t index) const noexcept {
    return reader().records()[index];
  }
  const archive::ZipReader& reader() const noexcept { return *contents_->parts[part_].reader; }
  // The storage over a whole record. Null if the record has no bytes. `device` is where the
  // elements were saved ("cpu", "cuda:0").
  Result<Ref<storage::Storage>> bytes_of(size_t record, tensor::ScalarType type,
                                         std::string_view device);
  // Does the same, and slot_of() knows the storage from then on.
  Result<Ref<storage::Storage>> known_bytes_of(size_t record, tensor::ScalarType type,
                                               std::string_view device);
  // Whether bytes_of() gives module::view_of() for elements that were saved on the CPU.
  bool can_view(size_t record, tensor::ScalarType type) const noexcept {
    return storages_.can_view(record, type);
  }
  // The index in contents->slots of the slot for a record. The first call for a record adds the
  // slot.
  size_t slot_of(size_t record);
  // The same for the record over which known_bytes_of() gave this storage. Weight::kNoSlot for any
  // other storage.
  size_t slot_of(const storage::Storage* bytes) const noexcept;
  // Call once all storages were asked for. Until then, do not read storages on a device.
  Status finish() { return storages_.finish(); }

 private:
  Contents* contents_;
  const size_t part_;
  module::ImportReport report_;
  module::ArchiveStorages storages_;
  std::vector<size_t> slots_;  // by record; Weight::kNoSlot for a record without a slot
  std::unordered_map<const storage::Storage*, size_t> slot_by_bytes_;
};

// The index of a record among the records of the reader that gave it.
size_t index_of(const archive::ZipReader& reader, const archive::ZipRecord& record) noexcept;

// The bytes for a message. If they are no UTF-8, those that are not ASCII become question marks.
std::string text_of(std::string bytes);
// The error CORRUPT of a weight's elements or layout, with the name of the weight.
Status corrupt_weight(const std::string& name, const Status& why);
// Adds a weight whose tensor its reader has made or failed to make. If `tensor` is the error
// UNSUPPORTED, the weight is added with this error as its refusal. INVALID_ARGUMENT, which speaks
// of the layout, becomes CORRUPT for the whole file. Other errors are returned as they are.
Status add_weight(Weight weight, Result<value::TensorValueRef> tensor, Contents* contents);

// Adds a value that is no tensor. A value whose name is no text in UTF-8 is skipped.
void add_value(std::string name, value::ValueRef value, Contents* contents);
// Lists something that was skipped.
void add_skipped(const std::string& name, const std::string& what, Contents* contents);

// Adds the tensors and values of a state dict. `part` gave their storages.
void add_state_dict(archive::StateDict found, const std::string& prefix, const PartStorages& part,
                    Contents* contents);

// Each of these reads one form of file. `contents` already has `source`, and `archive` if the form
// is a zip archive. `options` is borrowed. The errors are those of Weights::open(). A weight of a
// kind that is not supported is no error (Weight::refusal). After an error `contents` is of no use.
//
// A .pt2 archive of a PyTorch after 2.6, in which each weight has a record of its own (a payload).
Status read_payloads(const module::ImportOptions& options, Contents* contents);
// A .ptd file of ExecuTorch.
Status read_flat_tensors(const module::ImportOptions& options, Contents* contents);
// A safetensors file.
Status read_safetensors(const module::ImportOptions& options, Contents* contents);
// An index of shards (*.index.json), and all its shards.
Status read_shards(const module::ImportOptions& options, Contents* contents);
// A file of NumPy with one array (.npy), whose name is empty.
Status read_npy(const module::ImportOptions& options, Contents* contents);
// An archive of arrays of NumPy (.npz). contents->archive was opened with Prefix::kNone and
// Check::kStructure.
Status read_npz(const module::ImportOptions& options, Contents* contents);
// A file that is itself an archive: of torch.save, with a state dict, or of torch.jit.save, whose
// code is not read. contents->archive is that archive.
Status read_state_dict(bool is_module, const module::ImportOptions& options, Contents* contents);
// A module in PyTorch's flatbuffer form. Its code is not read.
Status read_flatbuffer_module(const module::ImportOptions& options, Contents* contents);
// A file that torch.save of PyTorch before 1.6 wrote: pickles, and the bytes of storages.
Status read_legacy_save(const module::ImportOptions& options, Contents* contents);
// A record of contents->archive that is such an archive, as in exported programs of PyTorch 2.6.
// `prefix` is put before the names of its weights.
Status read_saved_tensors(const archive::ZipRecord& record, const std::string& prefix,
                          const module::ImportOptions& options, Contents* contents);

}  // namespace tenon::weights
