// Reads the weights of a safetensors file (contents_builder.h).
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "modules/weights/contents_builder.h"
#include "modules/weights/safetensors_header.h"
#include "tensor/layout.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using value::StorageValue;
using value::TensorValue;
using value::TensorValueRef;

namespace {

// Takes the sizes of the entry.
Result<TensorValueRef> safetensor_of(SafetensorsEntry* entry, size_t record, PartStorages* part) {
  std::optional<tensor::ScalarType> type = entry->type;
  value::StridedSpec spec;
  spec.sizes = std::move(entry->sizes);
  if (entry->dtype == "F4" && !spec.sizes.empty() && spec.sizes.back() % 2 == 0) {
    // The file counts single numbers. For PyTorch two numbers that share a byte are one element.
    type = tensor::ScalarType::kFloat4E2m1fnX2;
    spec.sizes.back() /= 2;
  }
  if (!type) {
    return Status(Code::kUnsupported, format("its dtype is %s, and a tensor has no such elements",
                                             entry->dtype.c_str()));
  }
  TENON_ASSIGN(spec.strides, tensor::contiguous_strides(spec.sizes));
  TENON_ASSIGN(Ref<storage::Storage> bytes, part->bytes_of(record, *type, "cpu"));
  const uint64_t numel = entry->nbytes / tensor::scalar_type_info(*type).nbytes;
  TENON_ASSIGN(spec.storage, StorageValue::create(*type, numel, std::move(bytes)));
  return TensorValue::create(spec);
}

}  // namespace

Status read_safetensors(const module::ImportOptions& options, Contents* contents) {
  TENON_ASSIGN(SafetensorsHeader header,
               read_safetensors_header(*contents->source, options.pickle_limits.max_nbytes));
  std::vector<archive::ZipReader::Range> ranges;
  ranges.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries)
    ranges.push_back({entry.offset, entry.nbytes});
  Part added;
  added.reader = archive::ZipReader::of_ranges(contents->source, ranges, "tensor ");
  contents->parts.push_back(std::move(added));
  PartStorages part(contents, options, false);
  contents->weights.reserve(header.entries.size());
  contents->slots.reserve(header.entries.size());
  for (size_t i = 0; i < header.entries.size(); ++i) {
    SafetensorsEntry& entry = header.entries[i];
    Result<TensorValueRef> tensor = safetensor_of(&entry, i, &part);
    Weight weight;
    weight.name = std::move(entry.name);
    if (entry.nbytes != 0) weight.slot = part.slot_of(i);
    TENON_TRY(add_weight(std::move(weight), std::move(tensor), contents));
  }
  for (auto& [key, text] : header.metadata)
    add_value("__metadata__." + key, value::Value::of_str(std::move(text)), contents);
  return part.finish();
}

}  // namespace tenon::weights
