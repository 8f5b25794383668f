// Unix sockets that connect two sides (sides.h), which are processes in namespaces of their own.
// The sockets lie in the one directory that both sides see. `place` is the path of that directory
// for the calling side, and `leaf` is the name of the socket in it.
#pragma once

#include "process/namespaces/sides.h"
#include "support/sized.h"

namespace sides {

inline sockaddr_un address_in(const std::string& place, const char* leaf = "talk") {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", place.c_str(), leaf);
  return address;
}

// A listening socket in the directory. Every user who may enter the directory can connect.
class Door {
 public:
  Door(const std::string& place, int type, const char* leaf = "talk")
      : address_(address_in(place, leaf)) {
    listener_ = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0);
    REQUIRE(chmod(address_.sun_path, 0666) == 0 && listen(listener_, 1) == 0);
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() {
    close(listener_);
    CHECK(unlink(address_.sun_path) == 0);
  }
  // Waits for a side that connects. Returns the connected fd, which the caller closes.
  int let_in() const {
    const int accepted = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(accepted >= 0);
    return accepted;
  }

 private:
  sockaddr_un address_;
  int listener_ = -1;
};

// Connects to a Door, which must exist already. Returns the fd, which the caller closes.
inline int enter(const std::string& place, int type, const char* leaf = "talk") {
  const int made = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_in(place, leaf);
  REQUIRE(connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return made;
}

// Options for a connection that accepts other users only as `flags` (TENON_CONNECTION_SAME_USER,
// TENON_CONNECTION_GROUP) and `group` say.
inline tenon_connection_options admitting(uint32_t flags, uint32_t group = 0) {
  auto options = tenon::test::sized<tenon_connection_options>();
  options.flags = flags;
  options.group = group;
  return options;
}

inline tenon_peer peer_of(const tenon_connection* connection) {
  auto peer = tenon::test::sized<tenon_peer>();
  REQUIRE_OK(tenon_connection_peer(connection, &peer, err));
  return peer;
}

}  // namespace sides
