// Reads a tenon_connection_options. Connections and subscribers have them.
#pragma once

#include <tenon/connection.h>

#include <cstdint>

#include "base/status.h"
#include "channel/connection.h"

namespace tenon::capi {

// UNSUPPORTED for a flag that is neither one of those that both have nor in `more_flags`. `adopts`
// is set if the library is to own the socket.
Result<channel::ConnectionOptions> read_connection_options(const tenon_connection_options* options,
                                                           uint32_t more_flags, bool* adopts);

}  // namespace tenon::capi
