/// @file
/// These functions lend and open storages by file descriptor. tenon/by_fd.h has the details.
#ifndef TENON_CPP_BY_FD_HPP
#define TENON_CPP_BY_FD_HPP

#include <tenon/by_fd.h>
#include <tenon/cpp/storage.hpp>

#include <cstdint>
#include <utility>

TENON_CPP_BEGIN

/// The access that a lend gives, or that the caller of an open function asks for.
enum class Access : tenon_access {
  /// To share: the access that the storage's mode gives. To open: the access that the handle gives.
  kAuto = TENON_ACCESS_AUTO,
  /// To share: the borrower can only read, and the kernel must be able to enforce this. To open:
  /// map the memory read-only.
  kReadOnly = TENON_ACCESS_READ_ONLY,
  /// Both sides write. Only Mode::kShared allows it.
  kWritable = TENON_ACCESS_WRITABLE
};

/// How to open a lent storage.
struct OpenOptions {
  Access access = Access::kAuto;
  /// Copy the bytes now into private memory. The result is a snapshot.
  bool private_copy = false;
  /// Map the memory copy-on-write: this process's writes stay in this process. Pages that it has
  /// not written yet still show later writes of the lender.
  bool private_cow = false;
  /// Accept memory that its owner can cut short. A later load from such memory can cause a SIGBUS.
  bool allow_unsealed = false;
  /// By name, or by a bytes-only descriptor: accept memory of another user.
  bool other_user = false;
  /// By name: do not register with the manager that the handle names.
  bool no_manager = false;
  /// By name: a message was received, so also do what filename_decref does.
  bool decref = false;
};

namespace detail {

inline std::uint32_t open_flags(const OpenOptions& options) noexcept {
  std::uint32_t flags = 0;
  if (options.private_copy) flags |= std::uint32_t{TENON_OPEN_PRIVATE_COPY};
  if (options.private_cow) flags |= std::uint32_t{TENON_OPEN_PRIVATE_COW};
  if (options.allow_unsealed) flags |= std::uint32_t{TENON_OPEN_ALLOW_UNSEALED};
  if (options.other_user) flags |= std::uint32_t{TENON_OPEN_OTHER_USER};
  if (options.no_manager) flags |= std::uint32_t{TENON_OPEN_NO_MANAGER};
  if (options.decref) flags |= std::uint32_t{TENON_OPEN_DECREF};
  return flags;
}

inline tenon_open_options c_options(const OpenOptions& options,
                                    std::uint32_t more_flags = 0) noexcept {
  tenon_open_options c{};
  c.struct_size = sizeof c;
  c.access = static_cast<tenon_access>(options.access);
  c.flags = open_flags(options) | more_flags;
  return c;
}

inline tenon_share_options c_options(Access access) noexcept {
  tenon_share_options c{};
  c.struct_size = sizeof c;
  c.access = static_cast<tenon_access>(access);
  return c;
}

}  // namespace detail

/// A handle with which another process can open a storage. The handle owns its fd until close or
/// detach, and can only be moved. All sizes and offsets are in bytes.
class FdHandle {
 public:
  FdHandle() noexcept : c_{} {
    c_.struct_size = sizeof c_;
    c_.fd = -1;
  }
  /// Makes a handle from an fd and the numbers that another process sent. The handle owns the fd
  /// from now on.
  FdHandle(int fd, std::uint64_t nbytes, std::uint64_t offset = 0,
           Access access = Access::kAuto) noexcept
      : FdHandle() {
    c_.fd = fd;
    c_.nbytes = nbytes;
    c_.offset = offset;
    c_.access = static_cast<tenon_access>(access);
  }
  FdHandle(FdHandle&& other) noexcept : c_(other.c_) { other.c_.fd = -1; }
  FdHandle& operator=(FdHandle&& other) noexcept {
    if (this != &other) {
      tenon_fd_handle_close(&c_);
      c_ = other.c_;
      other.c_.fd = -1;
    }
    return *this;
  }
  FdHandle(const FdHandle&) = delete;
  FdHandle& operator=(const FdHandle&) = delete;
  ~FdHandle() { tenon_fd_handle_close(&c_); }

  /// The fd, borrowed and close-on-exec. It is -1 for an empty storage, and after close or detach.
  int fd() const noexcept { return c_.fd; }
  Access access() const noexcept { return static_cast<Access>(c_.access); }
  /// Where the storage begins in its segment.
  std::uint64_t offset() const noexcept { return c_.offset; }
  /// The size of the storage.
  std::uint64_t nbytes() const noexcept { return c_.nbytes; }
  /// The size of the whole segment. 0 if it is not known.
  std::uint64_t segment_nbytes() const noexcept { return c_.segment_nbytes; }
  /// Closes the fd. A second call does nothing. The lent storage is not affected.
  void close() noexcept { tenon_fd_handle_close(&c_); }
  /// Returns the fd, which the caller owns from now on.
  [[nodiscard]] int detach() noexcept { return std::exchange(c_.fd, -1); }
  /// The C struct, borrowed.
  const tenon_fd_handle& c() const noexcept { return c_; }

 private:
  friend Result<FdHandle> try_share_fd(const Storage& storage, Access access);
  tenon_fd_handle c_;
};

/// Lends a storage: gives an fd, an offset and a size with which another process can open it. No
/// byte is copied or moved. A borrower of one storage can read the whole segment in which the
/// storage lies. In Mode::kShared it can also write to the whole segment. StorageOptions::isolated
/// gives a storage a segment of its own.
inline Result<FdHandle> try_share_fd(const Storage& storage, Access access = Access::kAuto) {
  const tenon_share_options options = detail::c_options(access);
  FdHandle handle;
  const Result<void> called = detail::call(
      [&](tenon_error** err) { return tenon_share_fd(storage.get(), &options, &handle.c_, err); });
  if (!called) return called.error();
  return handle;
}

/// Opens a storage that another process lent. If this process already holds the storage, the result
/// is the same storage. The handle keeps its fd.
inline Result<Storage> try_open_fd(const FdHandle& handle, const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options);
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
    return tenon_open_fd(&handle.c(), &c, out, err);
  });
}

/// Opens a storage that another process lent. If the call succeeds, the library owns the fd. After
/// a failure the handle keeps the fd.
inline Result<Storage> try_open_fd(FdHandle&& handle, const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options, std::uint32_t{TENON_OPEN_ADOPT_FD});
  Result<Storage> opened = detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
    return tenon_open_fd(&handle.c(), &c, out, err);
  });
  if (opened) (void)handle.detach();
  return opened;
}

/// Opens a storage that another process lent, from the fd, the size and the offset that it sent.
/// The fd stays the caller's.
inline Result<Storage> try_open_fd(int fd, std::uint64_t nbytes, std::uint64_t offset = 0,
                                   const OpenOptions& options = {}) {
  FdHandle handle(fd, nbytes, offset);
  Result<Storage> opened = try_open_fd(std::as_const(handle), options);
  (void)handle.detach();
  return opened;
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline FdHandle share_fd(const Storage& storage, Access access = Access::kAuto) {
  return try_share_fd(storage, access).value();
}
inline Storage open_fd(const FdHandle& handle, const OpenOptions& options = {}) {
  return try_open_fd(handle, options).value();
}
inline Storage open_fd(FdHandle&& handle, const OpenOptions& options = {}) {
  return try_open_fd(std::move(handle), options).value();
}
inline Storage open_fd(int fd, std::uint64_t nbytes, std::uint64_t offset = 0,
                       const OpenOptions& options = {}) {
  return try_open_fd(fd, nbytes, offset, options).value();
}
#endif

TENON_CPP_END

#endif
