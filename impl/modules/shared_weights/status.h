// Lists the names under which processes share weights, for `tenon weights ls`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/shared_weights/packets.h"

namespace tenon::shared_weights {

enum class NameState {
  kLive,      // a server hands the weights on
  kLoading,   // the server is still loading
  kSilent,    // the server does not answer, and may be stopped
  kChanging,  // processes have the weights, and no server listens at this moment
  kDead,      // no process has the weights: the last one was killed
  kRefused,   // the server does not answer this user
};

// The processes that have one version, as /proc/locks shows them, in ascending order.
struct VersionStatus {
  uint64_t version = kFirstVersion;
  std::vector<pid_t> holders;
};

struct NameStatus {
  std::string name;
  NameState state = NameState::kDead;
  Facts facts;                          // kLive, kLoading
  int32_t server_pid = 0;               // if there is a listener
  std::vector<pid_t> holders;           // those that /proc/locks shows, in ascending order
  std::vector<VersionStatus> versions;  // those that a process holds, the newest first
};

// Looks at the names of a directory, in the order of their names, and changes nothing. An empty
// path means this user's own directory, which need not exist. Waits at most 200 ms for each server.
// The errors are those of os::open_directory().
Result<std::vector<NameStatus>> list_names(const std::string& directory);

}  // namespace tenon::shared_weights
