// Unix sockets whose address is a path. A path that is too long for an address ends the process.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace tenon::test {

inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) std::abort();
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

inline bool bind_path(int socket, const std::string& path) {
  const sockaddr_un address = unix_address(path);
  return bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

inline bool connect_path(int socket, const std::string& path) {
  const sockaddr_un address = unix_address(path);
  return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace tenon::test
