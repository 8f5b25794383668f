// Writes an archive of arrays as numpy.savez does (docs/format/numpy.md), for numpy.load.
// save_weights() calls it.
#pragma once

#include <span>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/weights/save_weights.h"

namespace tenon::weights {

// UNSUPPORTED: NumPy has no such element type. INVALID_ARGUMENT: no record can have the name. Both
// have the detail "name".
Status check_npz(const SavedTensor& tensor);

// The tensors were checked by check_saved(). The errors are those of save_weights().
Status write_npz(std::span<const SavedTensor> tensors, SaveProgress* progress, archive::Sink* sink);

}  // namespace tenon::weights
