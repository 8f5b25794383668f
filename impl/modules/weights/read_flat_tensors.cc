// Reads the weights of a .ptd file (contents_builder.h).
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/flatbuffer/flat_tensor_reader.h"
#include "modules/weights/contents_builder.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using flatbuffer::FlatTensorEntry;
using flatbuffer::FlatTensorFile;
using tensor::ScalarType;
using value::StorageValue;
using value::TensorValue;
using value::TensorValueRef;

namespace {

// An entry that is no tensor becomes a tensor of bytes.
Result<TensorValueRef> tensor_of(const FlatTensorEntry& entry, uint64_t nbytes,
                                 PartStorages* part) {
  value::StridedSpec spec;
  std::optional<ScalarType> type = ScalarType::kByte;
  if (entry.layout) {
    type = tensor::scalar_type_from_number(entry.layout->scalar_type);
    if (!type)
      return Status(Code::kUnsupported,
                    format("its element type has the number %d", entry.layout->scalar_type));
    spec.sizes = entry.layout->sizes;
    spec.strides = entry.layout->strides;
  } else {
    spec.sizes = {static_cast<int64_t>(nbytes)};
    spec.strides = {1};
  }
  TENON_ASSIGN(Ref<storage::Storage> bytes, part->bytes_of(entry.segment, *type, "cpu"));
  const uint64_t numel = bytes ? nbytes / tensor::scalar_type_info(*type).nbytes : 0;
  TENON_ASSIGN(spec.storage, StorageValue::create(*type, numel, std::move(bytes)));
  return TensorValue::create(spec);
}

}  // namespace

Status read_flat_tensors(const module::ImportOptions& options, Contents* contents) {
  TENON_ASSIGN(FlatTensorFile file,
               flatbuffer::read_flat_tensor(*contents->source, options.pickle_limits.max_nbytes));
  Part added;
  added.reader = archive::ZipReader::of_ranges(contents->source, file.segments, "segment ");
  added.fixed_because = "it is in a .ptd file, which Tenon reads and does not write";
  contents->read_only_because =
      "a .ptd file, which Tenon reads and does not write. ExecuTorch writes it";
  contents->parts.push_back(std::move(added));
  PartStorages part(contents, options, false);
  for (FlatTensorEntry& entry : file.entries) {
    Result<TensorValueRef> tensor = tensor_of(entry, file.segments[entry.segment].nbytes, &part);
    Weight weight;
    weight.slot = part.slot_of(size_t{entry.segment});
    weight.name = std::move(entry.key);
    TENON_TRY(add_weight(std::move(weight), std::move(tensor), contents));
  }
  return part.finish();
}

}  // namespace tenon::weights
