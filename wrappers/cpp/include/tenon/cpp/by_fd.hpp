// Lending and opening by file descriptor.
#ifndef TENON_CPP_BY_FD_HPP
#define TENON_CPP_BY_FD_HPP

#include <tenon/by_fd.h>
#include <tenon/cpp/storage.hpp>

#include <cstdint>
#include <utility>

TENON_CPP_BEGIN

/// What a lend gives, or an opener asks for.
enum class Access : tenon_access {
  kAuto = TENON_ACCESS_AUTO,           ///< share: what the mode gives; open: what the handle gives
  kReadOnly = TENON_ACCESS_READ_ONLY,  ///< share: the kernel must enforce it; open: map to read
  kWritable = TENON_ACCESS_WRITABLE    ///< both sides write; Mode::kShared only
};

/// How to open what was lent.
struct OpenOptions {
  Access access = Access::kAuto;
  bool private_copy = false;    ///< copy the bytes now: a snapshot, in private memory
  bool private_cow = false;     ///< writes stay in this process; pages not written yet still show the lender's later writes
  bool allow_unsealed = false;  ///< take memory that its owner can cut short: a later load may meet SIGBUS
  bool other_user = false;      ///< by name, or by a descriptor's bytes: take memory that belongs to another user
  bool no_manager = false;      ///< by name: do not tell the manager that the handle names
  bool decref = false;          ///< by name: a message was received, so take its count back (filename_decref)
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

inline tenon_open_options c_options(const OpenOptions& options, std::uint32_t more_flags = 0) noexcept {
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

/// How to reach a storage by fd. Owns its fd until close or detach. Moves only. Everything in bytes.
class FdHandle {
 public:
  FdHandle() noexcept : c_{} {
    c_.struct_size = sizeof c_;
    c_.fd = -1;
  }
  /// From what another process said: an fd, which is the handle's from now on, and where the storage lies behind it.
  FdHandle(int fd, std::uint64_t nbytes, std::uint64_t offset = 0, Access access = Access::kAuto) noexcept : FdHandle() {
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

  /// The fd, borrowed, close-on-exec; -1 for an empty storage, or once it was closed or detached.
  int fd() const noexcept { return c_.fd; }
  Access access() const noexcept { return static_cast<Access>(c_.access); }
  /// Where the storage begins in its segment.
  std::uint64_t offset() const noexcept { return c_.offset; }
  /// The size of the storage.
  std::uint64_t nbytes() const noexcept { return c_.nbytes; }
  /// The size of the whole segment; 0 if it is not known.
  std::uint64_t segment_nbytes() const noexcept { return c_.segment_nbytes; }
  /// Close the fd; twice is fine. The storage that was lent is not affected.
  void close() noexcept { tenon_fd_handle_close(&c_); }
  /// The fd, which is the caller's from now on.
  [[nodiscard]] int detach() noexcept { return std::exchange(c_.fd, -1); }
  /// The C struct, borrowed.
  const tenon_fd_handle& c() const noexcept { return c_; }

 private:
  friend Result<FdHandle> try_share_fd(const Storage& storage, Access access);
  tenon_fd_handle c_;
};

/// Lend a storage: an fd, an offset and a size that another process can open. No byte is copied or moved. Who is lent one storage of a
/// segment can read all of that segment (and write it, in Mode::kShared): StorageOptions::isolated gives a storage a segment of its own.
inline Result<FdHandle> try_share_fd(const Storage& storage, Access access = Access::kAuto) {
  const tenon_share_options options = detail::c_options(access);
  FdHandle handle;
  const Result<void> called = detail::call([&](tenon_error** err) { return tenon_share_fd(storage.get(), &options, &handle.c_, err); });
  if (!called) return called.error();
  return handle;
}

/// Open what was lent. What this process already holds comes back as the same storage. The handle keeps its fd.
inline Result<Storage> try_open_fd(const FdHandle& handle, const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options);
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) { return tenon_open_fd(&handle.c(), &c, out, err); });
}

/// As above, and the fd is the library's if it succeeds. On failure the handle keeps it.
inline Result<Storage> try_open_fd(FdHandle&& handle, const OpenOptions& options = {}) {
  const tenon_open_options c = detail::c_options(options, std::uint32_t{TENON_OPEN_ADOPT_FD});
  Result<Storage> opened =
      detail::make<Storage>([&](tenon_storage** out, tenon_error** err) { return tenon_open_fd(&handle.c(), &c, out, err); });
  if (opened) (void)handle.detach();
  return opened;
}

/// Open from an fd that stays the caller's, with the size and offset that came with it.
inline Result<Storage> try_open_fd(int fd, std::uint64_t nbytes, std::uint64_t offset = 0, const OpenOptions& options = {}) {
  FdHandle handle(fd, nbytes, offset);
  Result<Storage> opened = try_open_fd(std::as_const(handle), options);
  (void)handle.detach();
  return opened;
}

#ifndef TENON_NO_EXCEPTIONS
// Each throws what its try_ form returns.
inline FdHandle share_fd(const Storage& storage, Access access = Access::kAuto) { return try_share_fd(storage, access).value(); }
inline Storage open_fd(const FdHandle& handle, const OpenOptions& options = {}) { return try_open_fd(handle, options).value(); }
inline Storage open_fd(FdHandle&& handle, const OpenOptions& options = {}) { return try_open_fd(std::move(handle), options).value(); }
inline Storage open_fd(int fd, std::uint64_t nbytes, std::uint64_t offset = 0, const OpenOptions& options = {}) {
  return try_open_fd(fd, nbytes, offset, options).value();
}
#endif

TENON_CPP_END

#endif
