// A helper for reading the control data of a socket message, which is sent beside its bytes: fds
// and credentials.
#pragma once

#include <sys/socket.h>

namespace tenon::os {

// Returns the control header after `control`, null after the last one. CMSG_NXTHDR of musl compares
// a signed with an unsigned number. Compilers report a warning in a macro at the place where the
// macro is used, so this is the only place that uses it.
inline cmsghdr* next_control(msghdr* message, cmsghdr* control) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
  return CMSG_NXTHDR(message, control);
#pragma GCC diagnostic pop
}

}  // namespace tenon::os
