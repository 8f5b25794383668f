// A helper that looks for a text in the message of a Status, for tests of the driver's errors.
#pragma once

#include <string>

#include "base/status.h"

namespace cuda_test {

inline bool says(const tenon::Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

}  // namespace cuda_test
