// Takes the value of a result that a test depends on.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <source_location>
#include <utility>

#include "base/status.h"

namespace tenon {

// Returns the value. If there is an error instead, prints its message and aborts.
template <typename T>
T must(Result<T> result, std::source_location at = std::source_location::current()) {
  if (!result.is_ok()) {
    ADD_FAILURE_AT(at.file_name(), static_cast<int>(at.line())) << result.status().message();
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace tenon
