// Gathers the facts that `tenon inspect` and `tenon verify` print about a file of torch.save: the
// tensors of a state dict or of a checkpoint, by name. No Python object is made, and no byte of a
// tensor is read.
#pragma once

#include "archive_facts.h"
#include "base/status.h"
#include "modules/archive/zip_reader.h"

namespace tenon::cli {

// Whether an archive has the pickle of torch.save, and no module.
bool is_checkpoint(const archive::ZipReader& container) noexcept;

// Fills in tensors, storages, others and n_others. `facts->container` is set, and is_checkpoint().
// UNSUPPORTED if the file holds no dict, list or tuple. CORRUPT if a tensor is wrong, or if a
// storage has no record or too small a one. Also the errors of reading the record and of
// pickle::read_pickle().
Status gather_checkpoint(ArchiveFacts* facts);

}  // namespace tenon::cli
