// Writes tensors as a safetensors file into one segment, so that a trainer publishes weights that
// no file has (publish.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "modules/shared_weights/buffers.h"
#include "modules/shared_weights/load.h"
#include "modules/shared_weights/packets.h"
#include "modules/weights/safetensors_output.h"
#include "modules/weights/save_weights.h"

namespace tenon::shared_weights {

// The label of such a file.
inline constexpr char kValuesLabel[] = "values";

// The form of the file.
struct ValuesFile {
  weights::SafetensorsLayout layout;
  uint64_t nbytes = 0;
};

// `values` must live as long as the result. INVALID_ARGUMENT: no tensor. The other errors are those
// of weights::check_saved() and weights::lay_out_safetensors().
Result<ValuesFile> layout_values(std::span<const weights::SavedTensor> values);
// Copies the elements into the buffer, or into a new FROZEN segment if there is none, and sets the
// identity. RESOURCE_EXHAUSTED: no memory.
Result<Loaded> load_values(const ValuesFile& file, const Buffer* buffer, FileIdentity* identity);

}  // namespace tenon::shared_weights
