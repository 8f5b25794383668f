#include "base/status.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/immortal.h"

namespace tenon {
namespace {

struct NoMessage {
  const std::string text;
};

}  // namespace

const char* code_name(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "OK";
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kPermission: return "PERMISSION";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kCorrupt: return "CORRUPT";
    case Code::kIncompatible: return "INCOMPATIBLE";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kUnsupported: return "UNSUPPORTED";
    case Code::kPeerGone: return "PEER_GONE";
    case Code::kWouldBlock: return "WOULD_BLOCK";
    case Code::kTimeout: return "TIMEOUT";
    case Code::kInterrupted: return "INTERRUPTED";
    case Code::kCancelled: return "CANCELLED";
    case Code::kIo: return "IO";
    case Code::kInternal: return "INTERNAL";
  }
  return "UNKNOWN";
}

ErrorInfoRef ErrorInfoRef::create() {
  ErrorInfoRef ref;
  ref.info_ = new ErrorInfo;
  return ref;
}

void ErrorInfoRef::retain() const noexcept {
  info_->references.fetch_add(1, std::memory_order_relaxed);
}

void ErrorInfoRef::release() const noexcept {
  if (info_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete info_;
}

Status::Status(Code code, std::string message) : info_(ErrorInfoRef::create()) {
  ErrorInfo& info = *info_.info_;
  info.code = code;
  info.message = std::move(message);
  std::replace_if(
      info.message.begin(), info.message.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
}

Status::Status(Code code, const char* message) : Status(code, std::string(message)) {}

const std::string& Status::message() const noexcept {
  return info_ ? info_->message : immortal<NoMessage>().text;
}

Status&& Status::with(const char* key, std::string value) && {
  if (info_) info_.info_->details.push_back({key, std::move(value)});
  return std::move(*this);
}

Status&& Status::with(const char* key, const char* value) && {
  return std::move(*this).with(key, std::string(value));
}

Status&& Status::with(const char* key, int64_t value) && {
  return std::move(*this).with(key, std::to_string(value));
}

Status&& Status::with(const char* key, uint64_t value) && {
  return std::move(*this).with(key, std::to_string(value));
}

Status&& Status::with(const char* key, int value) && {
  return std::move(*this).with(key, std::to_string(value));
}

std::string_view Status::detail(std::string_view key) const noexcept {
  if (is_ok()) return {};
  const auto& details = info_->details;
  const auto found = std::find_if(details.begin(), details.end(),
                                  [&](const Detail& one) { return one.key == key; });
  return found == details.end() ? std::string_view() : std::string_view(found->value);
}

Status&& Status::with_details_of(const Status& other) && {
  if (info_ && other.info_) {
    std::vector<Detail>& details = info_.info_->details;
    details.insert(details.end(), other.info_->details.begin(), other.info_->details.end());
  }
  return std::move(*this);
}

Status&& Status::caused_by(const Status& cause) && {
  if (info_) info_.info_->cause = cause.info_;
  return std::move(*this);
}

std::string format(const char* pattern, ...) {
  std::va_list arguments;
  va_start(arguments, pattern);
  std::va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

namespace {

struct ErrnoMeaning {
  Code code;
  const char* limit;  // the limit that RESOURCE_EXHAUSTED names
};

ErrnoMeaning meaning_of(int error) {
  switch (error) {
    case EMFILE: return {Code::kResourceExhausted, "RLIMIT_NOFILE"};
    case ENFILE: return {Code::kResourceExhausted, "fs.file-max"};
    case ETOOMANYREFS: return {Code::kResourceExhausted, "RLIMIT_NOFILE"};
    case ENOMEM: return {Code::kResourceExhausted, "memory"};
    case ENOBUFS: return {Code::kResourceExhausted, "socket buffers"};
    case ENOSPC: return {Code::kResourceExhausted, "file system space"};
    case EDQUOT: return {Code::kResourceExhausted, "disk quota"};
    case EFBIG: return {Code::kResourceExhausted, "RLIMIT_FSIZE"};
    case EAGAIN: return {Code::kResourceExhausted, "RLIMIT_MEMLOCK"};
    case EACCES:
    case EPERM: return {Code::kPermission, nullptr};
    case ENOENT: return {Code::kNotFound, nullptr};
    case EPIPE:
    case ECONNRESET: return {Code::kPeerGone, nullptr};
    case EBADF: return {Code::kInvalidArgument, nullptr};
    default: return {Code::kIo, nullptr};
  }
}

// The results of strerror_r's two forms, which are both thread-safe. glibc's returns the text,
// which need not be in the buffer. musl's returns a number.
[[maybe_unused]] const char* text_of(const char* returned, const char*) noexcept {
  return returned;
}
[[maybe_unused]] const char* text_of(int error, const char* buffer) noexcept {
  return error == 0 ? buffer : "unknown error";
}

}  // namespace

Status errno_status(int error, const std::string& what) {
  const ErrnoMeaning meaning = meaning_of(error);
  char text[128];
  const char* reason = text_of(strerror_r(error, text, sizeof text), text);
  Status status(meaning.code, what + ": " + reason);
  status = std::move(status).with("errno", error);
  if (meaning.limit != nullptr)
    status = std::move(status).with("limit", std::string(meaning.limit));
  return status;
}

Status errno_status(int error, const char* what) { return errno_status(error, std::string(what)); }

}  // namespace tenon
