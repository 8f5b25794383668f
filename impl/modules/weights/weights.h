// A file of weights has tensors by name. A caller can replace tensors, and write the file again
// with them. The file is an archive of torch.export (.pt2), a state dict that torch.save wrote, a
// file of ExecuTorch (.ptd), a safetensors file or a file of NumPy. The pages exported_program.md,
// safetensors.md and numpy.md in docs/format describe them. Nothing in a file is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "modules/archive/file_output.h"
#include "modules/archive/zip_reader.h"
#include "modules/module/import.h"
#include "modules/value/tensor_value.h"
#include "modules/value/value.h"
#include "modules/weights/lazy_tensors.h"
#include "modules/weights/name_index.h"
#include "storage/storage.h"

namespace tenon::weights {

// A group of records that have elements. They lie in the file itself, or in an archive that is a
// record of the file (the inner archive).
struct Part {
  // The records, with offsets in the file. If the inner archive is compressed, the offsets are
  // those in an inflated copy, and fixed_because is set.
  Ref<archive::ZipReader> reader;
  // The reader of the inner archive. Null for the file's own records.
  Ref<archive::ZipReader> inner;
  uint64_t base = 0;                    // the offset of the inner archive in the file
  archive::ZipRecord outer;             // the record that contains the inner archive
  const char* fixed_because = nullptr;  // why elements cannot be replaced; null if they can
  // For the arrays of an .npz file, whose records here are parts of the archive's records: the
  // index of the archive's record, by the record here. A rewrite mends the checksum of that record.
  std::vector<size_t> members;
};

// The record behind a weight. Weights that share a storage have one slot.
struct Slot {
  size_t part = 0;
  size_t record = 0;  // index in the records of Part::reader
  // The bytes that replace the record's bytes. Null if nothing was replaced.
  Ref<storage::Storage> bytes;
  uint64_t from = 0;  // offset of the record's first byte in `bytes`
};

struct Weight {
  static constexpr size_t kNoSlot = SIZE_MAX;
  std::string name;
  // The tensor as in the file is one of these two. None: it cannot be read, and `refusal` says why.
  value::TensorValueRef made;   // by the reader of the file
  Ref<const LazyTensors> lazy;  // makes the tensor of `lazy_record` when read() asks for it
  size_t lazy_record = 0;
  Status refusal;
  size_t slot = kNoSlot;  // kNoSlot for a tensor without bytes, or of several storages

  bool is_readable() const noexcept { return made || lazy; }
  // The tensor of a weight that is readable, as in the file. Any thread may call this. The errors
  // are those of LazyTensors::get().
  Result<value::TensorValueRef> read() const { return lazy ? lazy->get(lazy_record) : made; }
};

// A number, a text or another value of the file that is no tensor.
struct NamedValue {
  std::string name;
  value::ValueRef value;
};

// The content of an opened file. The reader of the file's form fills it in.
struct Contents {
  Ref<archive::ZipSource> source;   // the file
  Ref<archive::ZipReader> archive;  // if the file is a zip archive
  std::vector<Part> parts;
  std::vector<Slot> slots;
  std::vector<Weight> weights;
  std::vector<NamedValue> values;
  // Where `weights` and `values` have each name. No name is there twice.
  NameIndex weights_by_name;
  NameIndex values_by_name;
  // What was skipped, with its name: "sampler: an object of 'mine.Sampler'". Texts in UTF-8.
  std::vector<std::string> skipped;
  // Why the file cannot be written again, as the end of a sentence that begins with its name. Null:
  // it can.
  const char* read_only_because = nullptr;
};

// Any thread may call any function. The lock of modules/value/tree_lock.h guards the bytes that
// replace weights. Tensors that tensor() gave stay valid when the object ends.
class Weights final : public Counted {
 public:
  // UNSUPPORTED for another kind of file, which the message names. Everything but the elements is
  // checked. The other errors are those of tenon_open_weights (tenon/weights.h).
  static Result<Ref<Weights>> open(const std::string& path, const module::ImportOptions& options);

  // Does the same with bytes that are not read from a path. `label` is their name in messages.
  static Result<Ref<Weights>> read(Ref<archive::ZipSource> source, std::string label,
                                   const module::ImportOptions& options);

  const std::vector<Weight>& list() const noexcept { return contents_.weights; }

  // The tensor, with its replacement if there is one. Names that share a storage give tensors over
  // one storage. NOT_FOUND if there is no such weight. The code of Weight::refusal if it cannot be
  // read.
  Result<value::TensorValueRef> tensor(std::string_view name) const;

  const std::vector<NamedValue>& values() const noexcept { return contents_.values; }
  // NOT_FOUND if there is no such value.
  Result<value::ValueRef> value(std::string_view name) const;
  // Contents::skipped, and the weights that cannot be read with their reasons.
  std::vector<std::string> skipped() const;

  // Replaces the elements of a weight by those of `tensor`, which must have the same element type
  // and shape. The memory of `tensor` is used in place if it has the layout of the file, is aligned
  // to 8 bytes, and the weight fills its record. Otherwise the elements are copied now. So the
  // caller does not change them before the last rewrite(). Weights of the same slot change too.
  // After an error nothing has changed. For the errors see tenon_weights_replace (tenon/weights.h).
  Status replace(std::string_view name, const value::TensorValue& tensor);

  // Writes the file with the weights that were replaced before. UNSUPPORTED for a .ptd file.
  // CORRUPT if the opened file was changed or cut short. `path` may be the opened file: an old file
  // stays until the new one is complete, and this object keeps the old one.
  Status rewrite(const std::string& path, archive::Durability durability) const;

 private:
  Weights(std::string label, Contents contents);
  ~Weights() override = default;
  template <typename Named>
  Status not_found(const char* what, std::string_view name, const std::vector<Named>& list) const;
  Result<const Weight*> find(std::string_view name) const;
  Slot slot_now(size_t index) const;
  // Replaces the bytes of a slot, unless another thread has replaced those that `before` has.
  // `after` gets the old bytes, and the caller drops them.
  Result<bool> set_bytes(size_t index, const Slot& before, Slot* after);
  const Part& part_of(const Slot& slot) const noexcept { return contents_.parts[slot.part]; }
  const archive::ZipRecord& record_of(const Slot& slot) const noexcept {
    return part_of(slot).reader->records()[slot.record];
  }
  // Returns the tensor that is to be replaced.
  Result<value::TensorValueRef> check_replacement(const Weight& weight,
                                                  const value::TensorValue& tensor) const;
  Result<Ref<storage::Storage>> copy_of_record(const Slot& slot) const;

  const std::string label_;
  Contents contents_;
};

}  // namespace tenon::weights
