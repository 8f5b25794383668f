// tenon/error.h: the object behind a tenon_error, and the functions by which boundary() makes one.
#include <tenon/error.h>

#include <memory>
#include <string_view>

#include "base/immortal.h"
#include "boundary.h"

struct tenon_error {
  tenon::ErrorInfoRef info;
  std::unique_ptr<tenon_error> cause;
};

namespace tenon::capi {
namespace {

static_assert(static_cast<int32_t>(Code::kOk) == TENON_OK &&
              static_cast<int32_t>(Code::kInvalidArgument) == TENON_INVALID_ARGUMENT &&
              static_cast<int32_t>(Code::kPermission) == TENON_PERMISSION &&
              static_cast<int32_t>(Code::kNotFound) == TENON_NOT_FOUND &&
              static_cast<int32_t>(Code::kCorrupt) == TENON_CORRUPT &&
              static_cast<int32_t>(Code::kIncompatible) == TENON_INCOMPATIBLE &&
              static_cast<int32_t>(Code::kResourceExhausted) == TENON_RESOURCE_EXHAUSTED &&
              static_cast<int32_t>(Code::kUnsupported) == TENON_UNSUPPORTED &&
              static_cast<int32_t>(Code::kPeerGone) == TENON_PEER_GONE &&
              static_cast<int32_t>(Code::kWouldBlock) == TENON_WOULD_BLOCK &&
              static_cast<int32_t>(Code::kTimeout) == TENON_TIMEOUT &&
              static_cast<int32_t>(Code::kInterrupted) == TENON_INTERRUPTED &&
              static_cast<int32_t>(Code::kCancelled) == TENON_CANCELLED &&
              static_cast<int32_t>(Code::kIo) == TENON_IO &&
              static_cast<int32_t>(Code::kInternal) == TENON_INTERNAL);

// The error for the case that no memory is left for one. It is never destroyed, and is recognised
// by its address.
tenon_error* out_of_memory() noexcept { return &immortal<tenon_error>(); }

std::unique_ptr<tenon_error> make_error(ErrorInfoRef info) {
  auto error = std::make_unique<tenon_error>();
  if (info->cause) error->cause = make_error(info->cause);
  error->info = std::move(info);
  return error;
}

}  // namespace

tenon_status fail(const Status& status, tenon_error** err) noexcept {
  const auto code = static_cast<tenon_status>(status.code());
  if (err == nullptr) return code;
  try {
    *err = make_error(status.info()).release();
    return code;
  } catch (...) {
    return fail_out_of_memory(err);
  }
}

tenon_status fail_out_of_memory(tenon_error** err) noexcept {
  if (err != nullptr) *err = out_of_memory();
  return TENON_RESOURCE_EXHAUSTED;
}

tenon_status fail_internal(const char* what, tenon_error** err) noexcept {
  try {
    return fail(Status(Code::kInternal, format("a defect in Tenon, please report it: %s", what)),
                err);
  } catch (...) {
    return fail_out_of_memory(err);
  }
}

}  // namespace tenon::capi

using tenon::capi::out_of_memory;

extern "C" {

const char* tenon_status_name(tenon_status status) noexcept {
  return tenon::code_name(static_cast<tenon::Code>(status));
}

tenon_status tenon_error_code(const tenon_error* error) noexcept {
  if (error == nullptr) return TENON_OK;
  return error->info ? static_cast<tenon_status>(error->info->code)
                     : tenon_status{TENON_RESOURCE_EXHAUSTED};
}

const char* tenon_error_message(const tenon_error* error) noexcept {
  if (error == nullptr) return "";
  return error->info ? error->info->message.c_str() : "out of memory";
}

const char* tenon_error_detail(const tenon_error* error, const char* key) noexcept {
  if (error == nullptr || key == nullptr) return nullptr;
  if (!error->info) return std::string_view(key) == "limit" ? "memory" : nullptr;
  for (const tenon::Detail& detail : error->info->details) {
    if (detail.key == key) return detail.value.c_str();
  }
  return nullptr;
}

const char* tenon_error_detail_key(const tenon_error* error, size_t index) noexcept {
  if (error == nullptr) return nullptr;
  if (!error->info) return index == 0 ? "limit" : nullptr;
  return index < error->info->details.size() ? error->info->details[index].key.c_str() : nullptr;
}

const tenon_error* tenon_error_cause(const tenon_error* error) noexcept {
  return error == nullptr ? nullptr : error->cause.get();
}

void tenon_error_release(tenon_error* error) noexcept {
  if (error != nullptr && error != out_of_memory()) delete error;
}
}
