// Writes a dict of tensors as torch.save does (docs/format/archive.md), for torch.load, also with
// weights_only=True. save_weights() calls it.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "modules/archive/sink.h"
#include "modules/weights/save_weights.h"

namespace tenon::weights {

// UNSUPPORTED, with the detail "name": PyTorch reads no tensor of such an element type.
Status check_torch_save(const SavedTensor& tensor);

// `path` gives the archive its name. The tensors were checked by check_savable() and
// check_torch_save(), and no name comes twice. Tensors whose memory overlaps share a storage in the
// file, and no other bytes of their storages are written. The errors are those of save_weights().
Status write_torch_save(const std::string& path, std::span<const SavedTensor> tensors,
                        SaveProgress* progress, archive::Sink* sink);

}  // namespace tenon::weights
