// Publishes the next version of the weights of a name. A publisher loads the weights into memory
// first, and only then takes NAME.sock from the server, in one step. Newcomers get the newest
// version. Processes that have an older one keep it (member.h).
// docs/format/shared_weights.md specifies the protocol.
#pragma once

#include <span>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "modules/shared_weights/shared_weights.h"
#include "modules/shared_weights/values.h"
#include "os/wait.h"

namespace tenon::shared_weights {

// Publishes a file as the next version, or as version 1 if no process has the weights of the name.
// If another process publishes under the name, this call waits for its turn. Nothing has changed
// after an error. TIMEOUT and WOULD_BLOCK name the publisher that has the turn by the detail pid.
// The other errors are those of SharedWeights::open().
Result<Ref<SharedWeights>> publish_file(const std::string& path, const std::string& name,
                                        const OpenOptions& options, const os::Wait& wait);

// Does the same with a copy of tensors, as if they were a safetensors file (values.h). `reuses`:
// the memory is LENDER_WRITES, and a later call writes it again when no process has this version
// any more (buffers.h).
Result<Ref<SharedWeights>> publish_values(std::span<const weights::SavedTensor> values,
                                          const std::string& name, const OpenOptions& options,
                                          bool reuses, const os::Wait& wait);

}  // namespace tenon::shared_weights
