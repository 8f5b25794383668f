// boundary() for functions that read or change trees of objects. They hold the lock of
// modules/value/tree_lock.h until they return. A thread that holds it already may read, and gets
// PERMISSION if it changes. The forms that take a module complete it before they take the lock,
// because that can take milliseconds and can call functions of the user.
#pragma once

#include <string>
#include <utility>

#include "boundary.h"
#include "handles.h"
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

// Gives the module behind a handle, complete (Module::complete()). INVALID_ARGUMENT for NULL.
// `argument` is the handle's name. Call this without the lock.
inline Result<module::Module*> complete_module(const tenon_module* given, const char* argument) {
  if (given == nullptr) return Status(Code::kInvalidArgument, std::string(argument) + " is NULL");
  return counted(given)->complete();
}

// `body` gets the module.
template <typename Body>
tenon_status reading_boundary(const tenon_module* given, tenon_error** err, Body&& body) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const module::Module* const own, complete_module(given, "module"));
    const value::ReadTrees reading;
    return body(*own);
  });
}
template <typename Body>
tenon_status changing_boundary(tenon_module* given, tenon_error** err, Body&& body) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(module::Module* const own, complete_module(given, "module"));
    TENON_ASSIGN(const value::ChangeTrees changing, value::ChangeTrees::begin());
    return body(*own);
  });
}
// For a change that puts `child` below the module. `body` gets both.
template <typename Body>
tenon_status changing_boundary(tenon_module* given, tenon_module* child, tenon_error** err,
                               Body&& body) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(module::Module* const own, complete_module(given, "module"));
    TENON_ASSIGN(module::Module* const below, complete_module(child, "child"));
    TENON_ASSIGN(const value::ChangeTrees changing, value::ChangeTrees::begin());
    return body(*own, Ref<module::Module>::share(below));
  });
}

}  // namespace tenon::capi
