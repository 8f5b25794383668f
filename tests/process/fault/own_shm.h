// Gives this process and its children a /dev/shm that no other process sees.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "process/fault/kit.h"
#include "support/own_mounts.h"

namespace fault {

// Returns false if this user may not do that. Nothing that matters has changed then. Call it before
// the process has other threads.
inline bool has_own_shm(const char* options = "mode=1777") {
  return tenon::test::enter_namespaces(CLONE_NEWNS) &&
         tenon::test::mount_own_tmpfs("/dev/shm", options);
}

// Mounts a small tmpfs over a folder, in a mount namespace of this process. The test is skipped if
// this user may not do that.
inline void mount_small_tmpfs(const std::string& where, const char* options) {
  if (!tenon::test::enter_namespaces(CLONE_NEWNS, tenon::test::NamespaceUser::kRoot))
    skip(std::string("no mount namespace can be made: ") + std::strerror(errno));
  if (!tenon::test::mount_own_tmpfs(where, options))
    skip("no tmpfs can be mounted on " + where + ": " + std::strerror(errno));
}

}  // namespace fault
