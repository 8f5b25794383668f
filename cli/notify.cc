#include "notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "os/fd.h"

namespace tenon::cli {

Status notify_manager(const std::string& lines) {
  const char* const variable = std::getenv("NOTIFY_SOCKET");
  if (variable == nullptr || *variable == '\0') return Status::ok();
  const std::string path = variable;
  sockaddr_un address{};
  if ((path[0] != '/' && path[0] != '@') || path.size() >= sizeof address.sun_path)
    return invalid("NOTIFY_SOCKET is '" + path + "', which is no address of a socket");
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // a socket that has no file
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const os::Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool is_sent =
      socket.is_open() && ::sendto(socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                                   reinterpret_cast<const sockaddr*>(&address), length) >= 0;
  return is_sent ? Status::ok() : errno_status(errno, "telling NOTIFY_SOCKET " + path);
}

}  // namespace tenon::cli
