// Tells the service manager the state of this process, as sd_notify(3) does. systemd and the
// runtimes of containers understand it.
#pragma once

#include <string>

#include "base/status.h"

namespace tenon::cli {

// Sends lines such as "READY=1" to the socket that NOTIFY_SOCKET names. Does nothing if the
// variable is not set. IO, NOT_FOUND, PERMISSION: nobody can hear it there.
Status notify_manager(const std::string& lines);

}  // namespace tenon::cli
