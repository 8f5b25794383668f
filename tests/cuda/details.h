// What a Status says beside its message.
#pragma once

#include <string>

#include "base/status.h"

namespace cuda_test {

// "" if there is none of that key.
inline std::string detail(const tenon::Status& status, const std::string& key) {
  if (status.is_ok()) return "";
  for (const tenon::Detail& each : status.info()->details) {
    if (each.key == key) return each.value;
  }
  return "";
}

inline bool says(const tenon::Status& status, const std::string& part) { return status.message().find(part) != std::string::npos; }

}  // namespace cuda_test
