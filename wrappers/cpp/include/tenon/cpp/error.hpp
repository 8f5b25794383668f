/// @file
/// Errors: why a call failed, as an exception or in a Result. All other headers of this folder use
/// them.
#ifndef TENON_CPP_ERROR_HPP
#define TENON_CPP_ERROR_HPP

#include <tenon/error.h>
#include <tenon/cpp/config.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// The outcome of a call. tenon/error.h explains each code. A newer library may give a number that
/// this enum does not name.
enum class Code : tenon_status {
  kOk = TENON_OK,
  kInvalidArgument = TENON_INVALID_ARGUMENT,
  kPermission = TENON_PERMISSION,
  kNotFound = TENON_NOT_FOUND,
  kCorrupt = TENON_CORRUPT,
  kIncompatible = TENON_INCOMPATIBLE,
  kResourceExhausted = TENON_RESOURCE_EXHAUSTED,
  kUnsupported = TENON_UNSUPPORTED,
  kPeerGone = TENON_PEER_GONE,
  kWouldBlock = TENON_WOULD_BLOCK,
  kTimeout = TENON_TIMEOUT,
  kInterrupted = TENON_INTERRUPTED,
  kCancelled = TENON_CANCELLED,
  kIo = TENON_IO,
  kInternal = TENON_INTERNAL
};

/// Returns the name of a code, such as "RESOURCE_EXHAUSTED", in static storage.
inline const char* name_of(Code code) noexcept {
  return tenon_status_name(static_cast<tenon_status>(code));
}

/// Why a call failed: a code, one line of text (what()), details, and possibly a cause. An Error
/// never changes. Copies share their contents, and any thread may read them.
class Error : public std::runtime_error {
 public:
  /// A key and a value, such as {"limit", "RLIMIT_NOFILE"}. The comment of tenon_error_detail lists
  /// the keys.
  using Detail = std::pair<std::string, std::string>;

  Error(Code code, const std::string& message, std::vector<Detail> details = {},
        std::shared_ptr<const Error> cause = nullptr)
      : std::runtime_error(message),
        body_(std::make_shared<const Body>(Body{code, std::move(details), std::move(cause)})) {}
  // There is no move constructor: the moved-from error would have no body.
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override = default;

  Code code() const noexcept { return body_->code; }
  /// All details, in the order of the C library.
  const std::vector<Detail>& details() const noexcept { return body_->details; }
  /// One detail, or nothing if the error has no such detail. It is valid as long as a copy of this
  /// error lives.
  std::optional<std::string_view> detail(std::string_view key) const noexcept {
    for (const Detail& each : body_->details) {
      if (each.first == key) return each.second;
    }
    return std::nullopt;
  }
  /// The error that led to this error, or null. It is valid as long as a copy of this error lives.
  const Error* cause() const noexcept { return body_->cause.get(); }

  /// Makes an Error from a status and a C error that a call gave, and releases the C error. `error`
  /// may be null.
  static Error take(tenon_status status, tenon_error* error) {
    if (error == nullptr)
      return {static_cast<Code>(status),
              status == TENON_RESOURCE_EXHAUSTED ? std::strerror(ENOMEM) : "no reason was given"};
    const std::unique_ptr<tenon_error, Release> guard(error);
    return read(static_cast<Code>(status), error);
  }

 private:
  struct Body {
    Code code;
    std::vector<Detail> details;
    std::shared_ptr<const Error> cause;
  };
  struct Release {
    void operator()(tenon_error* error) const noexcept { tenon_error_release(error); }
  };

  static Error read(Code code, const tenon_error* error) {
    std::vector<Detail> details;
    for (std::size_t i = 0; const char* key = tenon_error_detail_key(error, i); ++i) {
      const char* value = tenon_error_detail(error, key);
      details.emplace_back(key, value == nullptr ? "" : value);
    }
    std::shared_ptr<const Error> cause;
    if (const tenon_error* below = tenon_error_cause(error)) {
      cause =
          std::make_shared<const Error>(read(static_cast<Code>(tenon_error_code(below)), below));
    }
    return {code, tenon_error_message(error), std::move(details), std::move(cause)};
  }

  std::shared_ptr<const Body> body_;
};

/// The class that is thrown for one code, so that a program can catch each code by itself.
template <Code kTheCode>
class ErrorOf : public Error {
 public:
  static constexpr Code kCode = kTheCode;
  explicit ErrorOf(const Error& error) : Error(error) {}
};

using InvalidArgument = ErrorOf<Code::kInvalidArgument>;
using PermissionDenied = ErrorOf<Code::kPermission>;
using NotFound = ErrorOf<Code::kNotFound>;
using Corrupt = ErrorOf<Code::kCorrupt>;
using Incompatible = ErrorOf<Code::kIncompatible>;
using ResourceExhausted = ErrorOf<Code::kResourceExhausted>;
using Unsupported = ErrorOf<Code::kUnsupported>;
using PeerGone = ErrorOf<Code::kPeerGone>;
using WouldBlock = ErrorOf<Code::kWouldBlock>;
using Timeout = ErrorOf<Code::kTimeout>;
using Interrupted = ErrorOf<Code::kInterrupted>;
using Cancelled = ErrorOf<Code::kCancelled>;
using Io = ErrorOf<Code::kIo>;
using Internal = ErrorOf<Code::kInternal>;

/// Throws an error as the class of its code. Without exceptions, it prints the error and aborts.
[[noreturn]] inline void raise(const Error& error) {
#ifdef TENON_NO_EXCEPTIONS
  std::fprintf(stderr, "tenon: a Result without a value was used: %s: %s\n", name_of(error.code()),
               error.what());
  std::abort();
#else
  switch (error.code()) {
    case Code::kInvalidArgument: throw InvalidArgument(error);
    case Code::kPermission: throw PermissionDenied(error);
    case Code::kNotFound: throw NotFound(error);
    case Code::kCorrupt: throw Corrupt(error);
    case Code::kIncompatible: throw Incompatible(error);
    case Code::kResourceExhausted: throw ResourceExhausted(error);
    case Code::kUnsupported: throw Unsupported(error);
    case Code::kPeerGone: throw PeerGone(error);
    case Code::kWouldBlock: throw WouldBlock(error);
    case Code::kTimeout: throw Timeout(error);
    case Code::kInterrupted: throw Interrupted(error);
    case Code::kCancelled: throw Cancelled(error);
    case Code::kIo: throw Io(error);
    case Code::kInternal: throw Internal(error);
    case Code::kOk: break;
  }
  throw Error(error);
#endif
}

/// A value, or the error that says why there is none. Using the value of a Result that has none
/// raises its error.
template <class T>
class Result;

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const Error& error) : error_(error) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  Code code() const noexcept { return has_value() ? Code::kOk : error_->code(); }
  /// The error. If the call succeeded, this function raises an Error that says so.
  const Error& error() const& {
    if (has_value()) raise(Error(Code::kInternal, "there is no error: the call succeeded"));
    return *error_;
  }
  Error error() && { return std::as_const(*this).error(); }
  void value() const {
    if (error_) raise(*error_);
  }

 private:
  std::optional<Error> error_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(const Error& error) : outcome_(error) {}

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  Code code() const noexcept { return outcome_.code(); }
  /// The error. If the call succeeded, this function raises an Error that says so.
  const Error& error() const& { return outcome_.error(); }
  Error error() && { return outcome_.error(); }

  T& value() & {
    outcome_.value();
    return *value_;
  }
  const T& value() const& {
    outcome_.value();
    return *value_;
  }
  T value() && {
    outcome_.value();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  // Either the value or the error is there. With a std::variant of both, a compiler would need a
  // second more for each source file that includes these headers.
  std::optional<T> value_;
  Result<void> outcome_;
};

namespace detail {

// Calls function(err), which makes one call of the C library that can fail.
template <class Function>
Result<void> call(Function&& function) {
  tenon_error* error = nullptr;
  const tenon_status status = function(&error);
  if (status != TENON_OK) return Error::take(status, error);
  return {};
}

// Calls function(out, err), which gives a new reference, and makes an Object of it.
template <class Object, class Function>
Result<Object> make(Function&& function) {
  typename Object::Raw* raw = nullptr;
  tenon_error* error = nullptr;
  const tenon_status status = function(&raw, &error);
  if (status != TENON_OK) return Error::take(status, error);
  return Object::adopt(raw);
}

// Calls function(out, err), which fills in a C struct.
template <class Struct, class Function>
Result<Struct> fill(Function&& function) {
  Struct out{};
  out.struct_size = sizeof out;
  tenon_error* error = nullptr;
  const tenon_status status = function(&out, &error);
  if (status != TENON_OK) return Error::take(status, error);
  return out;
}

// Calls function(out, n, total, err), which fills in as many C structs as fit into the n that it is
// given, until all fit.
template <class Struct, class Function>
Result<std::vector<Struct>> list(Function&& function) {
  std::vector<Struct> all;
  std::size_t total = 0;
  do {
    // There may be more of them at the next call.
    all.resize(total + 1);
    all[0].struct_size = sizeof(Struct);
    tenon_error* error = nullptr;
    const tenon_status status = function(all.data(), all.size(), &total, &error);
    if (status != TENON_OK) return Error::take(status, error);
  } while (total > all.size());
  all.resize(total);
  return all;
}

inline Error wrong(const std::string& message) { return {Code::kInvalidArgument, message}; }

}  // namespace detail

TENON_CPP_END

#endif
