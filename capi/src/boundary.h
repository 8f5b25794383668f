// The boundary between C++ and C. boundary() turns every exception into an error for the C caller.
// Nothing else in capi/ catches exceptions, except error.cc: making an error may itself fail for
// lack of memory. The rest of this file reads and writes structs that begin with a size_t
// struct_size.
//
// Every function of impl/ and capi/ that is not noexcept may throw std::bad_alloc, and so may the
// body of boundary(). So the body writes the caller's outputs last, and owns what it has made until
// then.
#pragma once

#include <tenon/error.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "base/status.h"

namespace tenon::capi {

// Publishes a failure: returns its code and, if `err` is not null, sets *err to an error that the
// caller releases. An old *err is overwritten and not released. This works even if no memory is
// left.
tenon_status fail(const Status& status, tenon_error** err) noexcept;
tenon_status fail_out_of_memory(tenon_error** err) noexcept;
tenon_status fail_internal(const char* what, tenon_error** err) noexcept;

// Every fallible function is `return boundary(err, [&]() -> Status { check, convert, call, publish
// });`. No exception leaves it: std::bad_alloc becomes TENON_RESOURCE_EXHAUSTED with the limit
// "memory", and any other exception TENON_INTERNAL. On success *err is not touched.
template <typename Body>
tenon_status boundary(tenon_error** err, Body&& body) noexcept {
  try {
    const Status status = body();
    return status.is_ok() ? tenon_status{TENON_OK} : fail(status, err);
  } catch (const std::bad_alloc&) {
    return fail_out_of_memory(err);
  } catch (const std::exception& error) {
    return fail_internal(error.what(), err);
  } catch (...) {
    return fail_internal("something that is no std::exception was thrown", err);
  }
}

inline Status check_argument(bool good, const char* what) {
  return good ? Status::ok() : Status(Code::kInvalidArgument, what);
}

// Reads a struct of the caller's. NULL stands for a struct of zeros, which are the defaults. The
// struct may be larger than this version's (from a newer header) if the rest is zero. It must not
// be smaller, because no member was added yet. INVALID_ARGUMENT for a struct_size that is too
// small, or over 65536, which shows that it was never set. UNSUPPORTED if the rest is not zero.
// After an error `out` is as it was. Pointers in the struct stay the caller's. The result is not
// returned by value. That would be one more copy, whose wide loads wait for the narrow stores
// before them, and this runs for every block that is allocated.
template <typename Struct>
Status read_struct(const Struct* from, const char* name, Struct* out) {
  if (from == nullptr) {
    *out = Struct{};
    out->struct_size = sizeof(Struct);
    return Status::ok();
  }
  size_t given = 0;
  std::memcpy(&given, from, sizeof given);
  if (given < sizeof(Struct))
    return Status(
        Code::kInvalidArgument,
        format("struct_size of %s is %zu, and it has at least %zu", name, given, sizeof(Struct)));
  if (given > 65536)
    return Status(Code::kInvalidArgument, format("struct_size of %s is %zu", name, given));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (!std::all_of(bytes + sizeof(Struct), bytes + given,
                   [](unsigned char byte) { return byte == 0; })) {
    return Status(Code::kUnsupported,
                  format("%s has members that this version does not know, and they are set", name));
  }
  std::memcpy(out, from, sizeof(Struct));
  return Status::ok();
}

// Checks a struct that the caller wants to be filled in: INVALID_ARGUMENT for NULL and for a
// struct_size that is too small.
template <typename Struct>
Status check_output(const Struct* out, const char* name) {
  if (out == nullptr) return Status(Code::kInvalidArgument, format("%s is NULL", name));
  if (out->struct_size < sizeof(Struct)) {
    return Status(Code::kInvalidArgument,
                  format("struct_size of %s is %zu, and it has at least %zu", name,
                         out->struct_size, sizeof(Struct)));
  }
  return Status::ok();
}

// Call this after check_output(). The caller's struct_size stays. If it is larger, a newer header
// made the struct, and its tail is left alone.
template <typename Struct>
void write_struct(Struct* out, Struct value) noexcept {
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, sizeof value);
}

// UNSUPPORTED if `flags` has bits that are not in `known`. With `known` 0 it checks that a reserved
// field is 0.
inline Status check_flags(uint32_t flags, uint32_t known, const char* name) {
  if ((flags & ~known) == 0) return Status::ok();
  return Status(Code::kUnsupported, format("flags 0x%x of %s are not known", flags & ~known, name));
}

}  // namespace tenon::capi
