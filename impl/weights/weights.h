// A file of weights: tensors by name, which can be replaced, and the file written again with them.
// It is an archive of torch.export (.pt2) or a file of ExecuTorch (.ptd).
// docs/format/exported_program.md describes both. Nothing in a file is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "archive/file_output.h"
#include "archive/zip_reader.h"
#include "base/counted.h"
#include "base/status.h"
#include "module/import.h"
#include "storage/storage.h"
#include "value/tensor_value.h"

namespace tenon::weights {

// Records of the file that have elements. They lie in the file itself, or in an archive that is a
// record of it.
struct Part {
  Ref<archive::ZipReader> reader;  // records as they lie in the file
  // Of an archive in the file; null for the file's own records.
  Ref<archive::ZipReader> inner;
  uint64_t base = 0;                    // where that archive begins in the file
  archive::ZipRecord outer;             // its record in the file
  const char* fixed_because = nullptr;  // why elements cannot be replaced; null if they can
};

// The record behind a weight. Weights that share a storage have one slot.
struct Slot {
  size_t part = 0;
  size_t record = 0;  // of Part::reader
  // The bytes that replace all of the record's, if some were replaced.
  Ref<storage::Storage> bytes;
  uint64_t from = 0;  // where they begin in `bytes`
};

struct Weight {
  static constexpr size_t kNoSlot = SIZE_MAX;
  std::string name;
  value::TensorValueRef tensor;  // as the file has it; null if it cannot be read
  Status refusal;                // why it cannot be read
  size_t slot = kNoSlot;         // none for a tensor without bytes, and for one of several storages
};

// What an opened file has. A reader of one of the forms fills it in.
struct Contents {
  std::string form;                 // of the file, for messages
  Ref<archive::ZipSource> source;   // the file
  Ref<archive::ZipReader> archive;  // if the file is a zip archive
  std::vector<Part> parts;
  std::vector<Slot> slots;
  std::vector<Weight> weights;
};

class Weights final : public Counted {
 public:
  // UNSUPPORTED, by name, for another kind of file. Everything but the elements is checked.
  static Result<Ref<Weights>> open(const std::string& path, const module::ImportOptions& options);

  const std::vector<Weight>& list() const noexcept { return contents_.weights; }

  // With what was replaced. Names that share a storage give tensors over one storage.
  Result<value::TensorValueRef> tensor(std::string_view name) const;

  // Takes the elements of a tensor of the same element type and shape. The tensor's elements are
  // used where they lie if their layout is that of the file. Otherwise they are copied now.
  Status replace(std::string_view name, const value::TensorValue& tensor);

  // Writes the file with the replaced weights. UNSUPPORTED for a .ptd file.
  Status rewrite(const std::string& path, archive::Durability durability) const;

 private:
  Weights(std::string label, Contents contents);
  ~Weights() override = default;
  Result<const Weight*> find(std::string_view name) const;
  const Part& part_of(const Slot& slot) const noexcept { return contents_.parts[slot.part]; }
  const archive::ZipRecord& record_of(const Slot& slot) const noexcept {
    return part_of(slot).reader->records()[slot.record];
  }
  Status check_replacement(const Weight& weight, const value::TensorValue& tensor) const;
  Result<Ref<storage::Storage>> copy_of_record(const Slot& slot) const;

  const std::string label_;
  Contents contents_;
  std::map<std::string_view, size_t> by_name_;
};

}  // namespace tenon::weights
