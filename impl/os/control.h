// What comes beside the bytes of a message on a socket: fds, credentials.
#pragma once

#include <sys/socket.h>

namespace tenon::os {

// CMSG_NXTHDR. In musl it compares numbers of different signs, and a warning in a macro is one
// where the macro is used.
inline cmsghdr* next_control(msghdr* message, cmsghdr* control) noexcept {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
  return CMSG_NXTHDR(message, control);
#pragma GCC diagnostic pop
}

}  // namespace tenon::os
