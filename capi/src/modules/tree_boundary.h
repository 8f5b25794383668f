// boundary() for functions that read or change trees of objects. They hold the lock of
// modules/value/tree_lock.h until they return. A thread that holds it already may read, and gets
// PERMISSION if it changes.
#pragma once

#include <utility>

#include "boundary.h"
#include "modules/value/tree_lock.h"

namespace tenon::capi {

template <typename Body>
tenon_status reading_boundary(tenon_error** err, Body&& body) noexcept {
  return boundary(err, [&]() -> Status {
    const value::ReadTrees reading;
    return body();
  });
}

// The body may drop values of the user's, which end when the lock is free again.
template <typename Body>
tenon_status changing_boundary(tenon_error** err, Body&& body) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const value::ChangeTrees changing, value::ChangeTrees::begin());
    return body();
  });
}

}  // namespace tenon::capi
