#include "archive_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "os/file_kind.h"
#include "os/limits.h"
#include "os/memfd.h"

namespace tenon::cli {
namespace {

// Copies the bytes of a pipe into a memfd.
Result<os::Fd> copy_of_stream(int from) {
  TENON_ASSIGN(os::Fd copy, os::create_memfd(std::string("tenon-archive"), 0));
  std::vector<std::byte> piece(os::kReserveChunk);
  for (uint64_t at = 0;;) {
    const ssize_t n = ::read(from, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status(errno, "reading");
    if (n == 0) return copy;
    const auto nbytes = static_cast<size_t>(n);
    TENON_TRY(os::ask_headroom(nbytes));
    TENON_TRY(os::check_file_size(at + nbytes));
    for (size_t done = 0; done < nbytes;) {
      const ssize_t written =
          ::pwrite(copy.get(), piece.data() + done, nbytes - done, static_cast<off_t>(at + done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return errno_status(errno, "keeping what was read");
      done += static_cast<size_t>(written);
    }
    at += nbytes;
  }
}

}  // namespace

Status with_shown_name(const ArchiveInput& input, const Status& status) {
  const std::string fd = format("fd %d", input.fd.get());
  const std::string path = input.fd_path();
  const std::string package = format("package %d", input.fd.get());
  for (const std::string& own : {"archive of " + fd, fd, "archive of " + path, path, package}) {
    if (!status.message().starts_with(own)) continue;
    Status named(status.code(), input.shown + status.message().substr(own.size()));
    named = std::move(named).with_details_of(status);
    return named;
  }
  return status;
}

Status of_file(const ArchiveInput& input, const Status& status) {
  if (status.is_ok()) return status;
  Status named = with_shown_name(input, status);
  if (named.message().starts_with(input.shown)) return named;
  Status prefixed(named.code(), input.shown + ": " + named.message());
  prefixed = std::move(prefixed).with_details_of(status);
  return prefixed;
}

std::string ArchiveInput::fd_path() const { return format("/proc/self/fd/%d", fd.get()); }

bool ArchiveInput::is_flatbuffer() const noexcept {
  return os::is_flatbuffer_module(std::as_bytes(std::span(head)));
}

bool ArchiveInput::is_flat_tensors() const noexcept {
  return os::is_flat_tensor(std::as_bytes(std::span(head)));
}

bool ArchiveInput::is_safetensors() const noexcept {
  return os::is_safetensors(std::as_bytes(std::span(head)));
}

bool ArchiveInput::is_numpy_array() const noexcept {
  return os::is_numpy_array(std::as_bytes(std::span(head)));
}

bool ArchiveInput::is_legacy_save() const noexcept {
  return os::is_pickle(std::as_bytes(std::span(head)));
}

bool ArchiveInput::is_index() const noexcept {
  return os::is_json_object(std::as_bytes(std::span(head)));
}

Result<ArchiveInput> ArchiveInput::open(const std::string& path) {
  ArchiveInput input;
  input.is_stdin = path == "-";
  input.shown = input.is_stdin ? "standard input" : path;
  input.fd = input.is_stdin ? os::Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3))
                            : os::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.fd.is_open()) return errno_status(errno, input.shown);
  struct stat info{};
  if (::fstat(input.fd.get(), &info) != 0) return errno_status(errno, input.shown);
  if (S_ISDIR(info.st_mode)) return errno_status(EISDIR, input.shown);
  if (!S_ISREG(info.st_mode)) {
    Result<os::Fd> copied = copy_of_stream(input.fd.get());
    if (!copied.is_ok()) return of_file(input, copied.status());
    input.fd = std::move(copied).value();
  }
  if (::fstat(input.fd.get(), &info) != 0) return errno_status(errno, input.shown);
  input.nbytes = static_cast<uint64_t>(info.st_size);
  input.head.resize(os::kFileKindNbytes);
  const ssize_t n = ::pread(input.fd.get(), input.head.data(), input.head.size(), 0);
  if (n < 0) return errno_status(errno, input.shown);
  input.head.resize(static_cast<size_t>(n));
  return input;
}

}  // namespace tenon::cli
