// Writes tensors as a safetensors file into one FROZEN segment, so that a trainer publishes weights
// that no file has (publish.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/packets.h"
#include "modules/value/tensor_value.h"

namespace tenon::shared_weights {

// The label of such a file.
inline constexpr char kValuesLabel[] = "values";

struct PublishedTensor {
  std::string name;
  value::TensorValueRef tensor;
};

// The form of the file: the bytes before the tensors, and the order of the tensors.
struct ValuesFile {
  std::string head;
  std::vector<PublishedTensor> values;
  uint64_t nbytes = 0;
};

// INVALID_ARGUMENT: no tensor, a name twice, a name that is not UTF-8, or "__metadata__".
// UNSUPPORTED: safetensors has no such element type, or the tensor is sparse, quantised,
// conjugated, on meta or on a device.
Result<ValuesFile> layout_values(const std::vector<PublishedTensor>& values);
// Copies the elements into a new segment, and sets the identity. RESOURCE_EXHAUSTED: no memory.
Result<Loaded> load_values(const ValuesFile& file, FileIdentity* identity);

}  // namespace tenon::shared_weights
