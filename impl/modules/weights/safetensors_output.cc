#include "modules/weights/safetensors_output.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

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

// What the header says of a tensor.
SafetensorsEntry described(const Entry& entry) {
  const TensorValue& tensor = *entry.named->tensor;
  SafetensorsEntry described;
  described.name = entry.named->name;
  described.dtype = entry.dtype->name;
  described.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (is_two_numbers(tensor)) described.sizes.back() *= 2;
  described.nbytes = entry.nbytes;
  return described;
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

Result<std::string> safetensors_head(std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata,
                                     uint64_t alignment) {
  uint64_t length = 0;  // is written at the end
  std::string head(sizeof length, '\0');
  head += '{';
  if (!metadata.empty())
    head += "\"__metadata__\":" + nlohmann::json(metadata).dump(-1, ' ', false);
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (head.back() != '{') head += ',';
    head += json_text(entry.name) + ":{\"dtype\":\"" + entry.dtype + "\",\"shape\":[";
    for (size_t i = 0; i < entry.sizes.size(); ++i)
      head += (i == 0 ? "" : ",") + std::to_string(entry.sizes[i]);
    head += "],\"data_offsets\":[" + std::to_string(at) + ",";
    at += entry.nbytes;
    head += std::to_string(at) + "]}";
  }
  head += '}';
  head.append((alignment - head.size() % alignment) % alignment, ' ');
  length = head.size() - sizeof length;
  if (length > os::kMostSafetensorsHeader) {
    return Status(
        Code::kUnsupported,
        "the names and the metadata need more than 100 MB, the limit of a safetensors file");
  }
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(head.data(), &length, sizeof length);
  return head;
}

Result<SafetensorsLayout> lay_out_safetensors(std::span<const SavedTensor> tensors,
                                              const std::map<std::string, std::string>& metadata,
                                              uint64_t alignment) {
  const std::vector<Entry> entries = entries_of(tensors);
  std::vector<SafetensorsEntry> all;
  all.reserve(entries.size());
  for (const Entry& entry : entries) all.push_back(described(entry));
  SafetensorsLayout layout;
  TENON_ASSIGN(layout.head, safetensors_head(all, metadata, alignment));
  for (const Entry& entry : entries) {
    layout.tensors.push_back(entry.named);
    layout.nbytes += entry.nbytes;
  }
  return layout;
}

Status write_safetensors(std::span<const SavedTensor> tensors, const SaveOptions& options,
                         SaveProgress* progress, archive::Sink* sink) {
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

Result<std::string> safetensors_head(std::span<const SafetensorsEntry>,
                                     const std::map<std::string, std::string>&, uint64_t) {
  return check_safetensors({});
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
