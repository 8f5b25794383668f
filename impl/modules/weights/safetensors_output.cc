#include "modules/weights/safetensors_output.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "modules/weights/safetensors_header.h"
#include "modules/weights/saved_elements.h"
#include "os/file_kind.h"
#include "tensor/scalar_type.h"

#ifdef TENON_HAS_JSON
#include <nlohmann/json.hpp>
#endif

namespace tenon::weights {

#ifdef TENON_HAS_JSON

using value::TensorValue;

namespace {

constexpr uint64_t kFileAlignment = 8;  // as the package safetensors has it

// A tensor with its dtype in the file.
struct Entry {
  const SavedTensor* named;
  const SafetensorsDtype* dtype;
  uint64_t nbytes;
};

// The file counts single numbers.
bool is_two_numbers(const TensorValue& tensor) {
  return tensor.type() == tensor::ScalarType::kFloat4E2m1fnX2;
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(-1, ' ', false); }

// A reader of the file could not share memory again.
Status check_not_shared(std::span<const SavedTensor> tensors) {
  std::vector<std::pair<ElementRange, const SavedTensor*>> ranges;
  for (const SavedTensor& each : tensors) {
    if (each.tensor->numel() != 0) ranges.emplace_back(range_of(*each.tensor), &each);
  }
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i) {
    const auto& [before, first] = ranges[i - 1];
    const auto& [range, second] = ranges[i];
    if (range.begin >= before.end) continue;
    return saved_tensor_error(
               Code::kInvalidArgument, first->name,
               format("shares memory with \"%.200s\", which a safetensors file cannot say: "
                      "save only one of them, write each of them whole (the flag "
                      "DUPLICATE_SHARED), or save a file of torch.save",
                      std::string(second->name).c_str()))
        .with("other", std::string(second->name));
  }
  return Status::ok();
}

std::vector<Entry> entries_of(std::span<const SavedTensor> tensors) {
  std::vector<Entry> entries;
  entries.reserve(tensors.size());
  for (const SavedTensor& each : tensors) {
    const SafetensorsDtype* const dtype = safetensors_dtype_of(each.tensor->type());
    const uint64_t size = tensor::scalar_type_info(each.tensor->type()).nbytes;
    entries.push_back({&each, dtype, each.tensor->numel() * size});
  }
  // The order of the package safetensors: wide element types first, and so each tensor is aligned.
  std::ranges::stable_sort(entries, [](const Entry& one, const Entry& other) {
    return one.dtype != other.dtype ? one.dtype > other.dtype : one.named->name < other.named->name;
  });
  return entries;
}

std::string header_of(std::span<const Entry> entries,
                      const std::map<std::string, std::string>& metadata, uint64_t alignment) {
  std::string text = "{";
  const auto next = [&] { return text.size() == 1 ? "" : ","; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":" + nlohmann::json(metadata).dump(-1, ' ', false);
  }
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    const TensorValue& tensor = *entry.named->tensor;
    std::string sizes;
    for (size_t i = 0; i < tensor.sizes().size(); ++i) {
      const bool is_packed = is_two_numbers(tensor) && i + 1 == tensor.sizes().size();
      sizes += (i == 0 ? "" : ",") + std::to_string(tensor.sizes()[i] * (is_packed ? 2 : 1));
    }
    text += next();
    text += json_text(entry.named->name) + ":{\"dtype\":\"" + std::string(entry.dtype->name) +
            "\",\"shape\":[" + sizes + "],\"data_offsets\":[" + std::to_string(at) + "," +
            std::to_string(at + entry.nbytes) + "]}";
    at += entry.nbytes;
  }
  text += "}";
  const uint64_t with_length = text.size() + sizeof(uint64_t);
  text.append((alignment - with_length % alignment) % alignment, ' ');
  return text;
}

}  // namespace

Status check_safetensors(const SavedTensor& tensor) {
  if (tensor.name == "__metadata__")
    return saved_tensor_error(
        Code::kInvalidArgument, tensor.name,
        "has the name of the metadata in a safetensors file: give it another name");
  const value::TensorValue& elements = *tensor.tensor;
  if (safetensors_dtype_of(elements.type()) == nullptr ||
      (is_two_numbers(elements) && elements.sizes().empty())) {
    return saved_tensor_error(Code::kUnsupported, tensor.name,
                              format("is of the type %s, which a safetensors file does not have",
                                     tensor::scalar_type_info(elements.type()).dtype_name));
  }
  return Status::ok();
}

Result<SafetensorsLayout> lay_out_safetensors(std::span<const SavedTensor> tensors,
                                              const std::map<std::string, std::string>& metadata,
                                              uint64_t alignment) {
  const std::vector<Entry> entries = entries_of(tensors);
  const std::string header = header_of(entries, metadata, alignment);
  if (header.size() > os::kMostSafetensorsHeader) {
    return Status(
        Code::kUnsupported,
        "the names and the metadata need more than 100 MB, the limit of a safetensors file");
  }
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = header.size();
  SafetensorsLayout layout;
  layout.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  layout.head += header;
  for (const Entry& entry : entries) {
    layout.tensors.push_back(entry.named);
    layout.nbytes += entry.nbytes;
  }
  return layout;
}

Status write_safetensors(std::span<const SavedTensor> tensors, const SaveOptions& options,
                         SaveProgress* progress, archive::Sink* sink) {
  if (!options.duplicates_shared) TENON_TRY(check_not_shared(tensors));
  TENON_ASSIGN(const SafetensorsLayout layout,
               lay_out_safetensors(tensors, options.metadata, kFileAlignment));
  progress->begin(layout.nbytes);
  TENON_TRY(sink->write(std::as_bytes(std::span(layout.head))));
  const auto write = [&](std::span<const std::byte> piece) {
    TENON_TRY(sink->write(piece));
    progress->add(piece.size());
    return Status::ok();
  };
  for (const SavedTensor* const each : layout.tensors)
    TENON_TRY(for_each_piece(*each->tensor, write));
  return Status::ok();
}

#else

Status check_safetensors(const SavedTensor&) {
  return {Code::kUnsupported,
          "this build of Tenon writes no JSON, and so no safetensors file: build it where "
          "nlohmann/json.hpp is installed (nlohmann-json3-dev of Debian)"};
}

Result<SafetensorsLayout> lay_out_safetensors(std::span<const SavedTensor>,
                                              const std::map<std::string, std::string>&, uint64_t) {
  return check_safetensors({});
}

// An empty list of tensors was not checked.
Status write_safetensors(std::span<const SavedTensor>, const SaveOptions&, SaveProgress*,
                         archive::Sink*) {
  return check_safetensors({});
}

#endif

}  // namespace tenon::weights
