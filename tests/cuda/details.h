// What a Status says beside its message.
#pragma once

#include <string>

#include "base/status.h"

namespace cuda_test {

inline bool says(const tenon::Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

}  // namespace cuda_test
