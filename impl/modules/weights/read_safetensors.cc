// Reads the weights of a safetensors file (contents_builder.h).
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

// Turns the numbers of an entry into elements. Two numbers of F4 share a byte. For PyTorch they are
// one element.
void count_elements(SafetensorsEntry* entry) {
  if (entry->dtype != "F4" || entry->sizes.empty() || entry->sizes.back() % 2 != 0) return;
  entry->type = tensor::ScalarType::kFloat4E2m1fnX2;
  entry->sizes.back() /= 2;
}

// Takes the sizes of the entry.
Result<TensorValueRef> safetensor_of(SafetensorsEntry* entry, size_t record, PartStorages* part) {
  if (!entry->type) {
    return Status(Code::kUnsupported, format("its dtype is %s, and a tensor has no such elements",
                                             entry->dtype.c_str()));
  }
  value::StridedSpec spec;
  spec.sizes = std::move(entry->sizes);
  TENON_ASSIGN(spec.strides, tensor::contiguous_strides(spec.sizes));
  TENON_ASSIGN(Ref<storage::Storage> bytes, part->bytes_of(record, *entry->type, "cpu"));
  const uint64_t numel = entry->nbytes / tensor::scalar_type_info(*entry->type).nbytes;
  TENON_ASSIGN(spec.storage, StorageValue::create(*entry->type, numel, std::move(bytes)));
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
  const Ref<LazyTensors> lazy = LazyTensors::create(contents->parts.back().reader);
  contents->weights.reserve(header.entries.size());
  contents->slots.reserve(header.entries.size());
  for (size_t i = 0; i < header.entries.size(); ++i) {
    SafetensorsEntry& entry = header.entries[i];
    count_elements(&entry);
    Weight weight;
    weight.name = std::move(entry.name);
    if (entry.nbytes != 0) weight.slot = part.slot_of(i);
    if (entry.nbytes != 0 && entry.type && part.can_view(i, *entry.type)) {
      lazy->set(i, *entry.type, entry.sizes);
      weight.lazy = Ref<const LazyTensors>::share(lazy.get());
      weight.lazy_record = i;
      contents->weights.push_back(std::move(weight));
    } else {
      TENON_TRY(add_weight(std::move(weight), safetensor_of(&entry, i, &part), contents));
    }
  }
  for (auto& [key, text] : header.metadata)
    add_value("__metadata__." + key, value::Value::of_str(std::move(text)), contents);
  return part.finish();
}

}  // namespace tenon::weights
