// Writes a safetensors file (docs/format/safetensors.md), with the tensors in the order in which
// the package safetensors writes them. save_weights() calls it.
#pragma once

#include <span>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/weights/save_weights.h"

namespace tenon::weights {

// UNSUPPORTED: the format has no such element type. INVALID_ARGUMENT: the name. Both have the
// detail "name".
Status check_safetensors(const SavedTensor& tensor);

// The tensors were checked by check_savable() and check_safetensors(), and no name comes twice. The
// errors are those of save_weights().
Status write_safetensors(std::span<const SavedTensor> tensors, const SaveOptions& options,
                         SaveProgress* progress, archive::Sink* sink);

}  // namespace tenon::weights
