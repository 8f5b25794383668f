// Status and Result, the return types of the functions inside Tenon whose failure has a reason to
// report. capi/src/boundary.h converts them to tenon_status and tenon_error. A function that is not
// noexcept may also throw std::bad_alloc. The C boundary reports that as RESOURCE_EXHAUSTED.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

// The numbers of tenon/error.h; capi/src/error.cc asserts that they are equal.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kPermission = 2,
  kNotFound = 3,
  kCorrupt = 4,
  kIncompatible = 5,
  kResourceExhausted = 6,
  kUnsupported = 7,
  kPeerGone = 8,
  kWouldBlock = 9,
  kTimeout = 10,
  kInterrupted = 11,
  kCancelled = 12,
  kIo = 13,
  kInternal = 14,
};

const char* code_name(Code code) noexcept;

struct Detail {
  std::string key;
  std::string value;
};

struct ErrorInfo;

// A shared reference to an ErrorInfo. Every Status has one, and it is nearly always null, which
// means success. So it is one pointer, and the destruction of a null reference is one comparison.
class ErrorInfoRef {
 public:
  ErrorInfoRef() noexcept = default;
  ErrorInfoRef(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  static ErrorInfoRef create();
  ErrorInfoRef(const ErrorInfoRef& other) noexcept : info_(other.info_) {
    if (info_ != nullptr) retain();
  }
  ErrorInfoRef(ErrorInfoRef&& other) noexcept : info_(std::exchange(other.info_, nullptr)) {}
  ErrorInfoRef& operator=(ErrorInfoRef other) noexcept {
    std::swap(info_, other.info_);
    return *this;
  }
  ~ErrorInfoRef() {
    if (info_ != nullptr) release();
  }

  const ErrorInfo* get() const noexcept { return info_; }
  const ErrorInfo* operator->() const noexcept { return info_; }
  const ErrorInfo& operator*() const noexcept { return *info_; }
  explicit operator bool() const noexcept { return info_ != nullptr; }
  bool operator==(std::nullptr_t) const noexcept { return info_ == nullptr; }

 private:
  friend class Status;
  void retain() const noexcept;
  void release() const noexcept;
  ErrorInfo* info_ = nullptr;
};

// The contents of a tenon_error. They are shared and immutable once they are in a Status.
struct ErrorInfo {
  Code code = Code::kInternal;
  std::string message;
  std::vector<Detail> details;
  ErrorInfoRef cause;
  mutable std::atomic<uint32_t> references{1};
};

// The functions that make a failure are cold: the compiler optimises the code that leads to them
// for size and moves it out of the way. Overloads that take a literal make its std::string
// themselves, or each caller would have the code for that.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  // The message becomes one line, even if it contains names from outside: control characters become
  // '?'.
  [[gnu::cold]] Status(Code code, std::string message);
  [[gnu::cold]] Status(Code code, const char* message);
  static Status ok() noexcept { return {}; }

  bool is_ok() const noexcept { return info_ == nullptr; }
  Code code() const noexcept { return info_ ? info_->code : Code::kOk; }
  const std::string& message() const noexcept;
  const ErrorInfoRef& info() const noexcept { return info_; }
  // The value of a detail, or "" if the status has no such detail. The text stays as long as this
  // status or a copy of it.
  std::string_view detail(std::string_view key) const noexcept;

  // Builders, which add to a failure. They change nothing in an OK status. Call them only while the
  // status has one owner, because copies share the ErrorInfo.
  [[gnu::cold]] Status&& with(const char* key, std::string value) &&;
  [[gnu::cold]] Status&& with(const char* key, const char* value) &&;
  [[gnu::cold]] Status&& with(const char* key, int64_t value) &&;
  [[gnu::cold]] Status&& with(const char* key, uint64_t value) &&;
  [[gnu::cold]] Status&& with(const char* key, int value) &&;
  // Appends the details of `other`, whose message this status expresses in other words.
  [[gnu::cold]] Status&& with_details_of(const Status& other) &&;
  // Records the failure that led to this one. The C API shows it as the cause of the error.
  [[gnu::cold]] Status&& caused_by(const Status& cause) &&;

 private:
  ErrorInfoRef info_;
};

// Formats text as printf does, so that messages are built in one expression.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Converts a uint64_t for %llu. The two are not the same type on every platform.
inline unsigned long long as_llu(uint64_t value) noexcept { return value; }

[[gnu::cold]] inline Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

// The status of a failed system call: "<what>: <strerror>" with detail errno. ENOMEM, EMFILE,
// ENFILE, ENOSPC, … become RESOURCE_EXHAUSTED with the name of the limit. EAGAIN is among them, as
// mlock returns it (RLIMIT_MEMLOCK). So a caller whose call would only have to wait, or to which
// EAGAIN means another limit, handles EAGAIN itself. EACCES and EPERM become PERMISSION, ENOENT
// NOT_FOUND, EPIPE and ECONNRESET PEER_GONE, EBADF INVALID_ARGUMENT, and all others IO.
[[gnu::cold]] Status errno_status(int error, const std::string& what);
[[gnu::cold]] Status errno_status(int error, const char* what);

// Either a value, or the Status of a failure. A Result that has no value never has an OK status.
// value() may be called only if is_ok() is true.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): returns read better
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool is_ok() const noexcept { return value_.has_value(); }
  const Status& status() const& noexcept { return status_; }
  Status&& status() && noexcept { return std::move(status_); }
  T& value() & noexcept { return *value_; }
  T&& value() && noexcept { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tenon

#define TENON_JOIN_(a, b) a##b
#define TENON_JOIN(a, b) TENON_JOIN_(a, b)

// Returns from the calling function if `expression` (a Status) failed.
#define TENON_TRY(expression)                                                       \
  do {                                                                              \
    if (::tenon::Status tenon_try_status = (expression); !tenon_try_status.is_ok()) \
      return tenon_try_status;                                                      \
  } while (false)

// Assigns the value of a Result to `target`, which may be a declaration, or returns its status from
// the calling function. This is several statements, so it needs braces after `if`.
#define TENON_ASSIGN(target, expression) \
  TENON_ASSIGN_(target, expression, TENON_JOIN(tenon_result_, __LINE__))
#define TENON_ASSIGN_(target, expression, name)       \
  auto name = (expression);                           \
  if (!name.is_ok()) return std::move(name).status(); \
  target = std::move(name).value()
