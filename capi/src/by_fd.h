// Reads the options of lends and opens, for several files of the boundary.
#pragma once

#include <tenon/by_fd.h>

#include "base/status.h"
#include "share/by_fd.h"

namespace tenon::capi {

// INVALID_ARGUMENT for an access that is none, and UNSUPPORTED for an unknown flag.
Result<memory::Access> read_access(tenon_access access);
Result<memory::Access> read_share_options(const tenon_share_options* options);
// `flags` may have any flag of an opening except ADOPT_FD. The caller adopts the fd itself, after
// everything that can fail.
Result<share::OpenOptions> read_open_flags(tenon_access access, uint32_t flags);

}  // namespace tenon::capi
