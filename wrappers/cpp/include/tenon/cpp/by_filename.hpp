/// @file
/// These functions lend and open storages by name. tenon/by_filename.h says what a name is, and
/// when it is removed.
#ifndef TENON_CPP_BY_FILENAME_HPP
#define TENON_CPP_BY_FILENAME_HPP

#include <tenon/by_filename.h>
#include <tenon/cpp/by_fd.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/wait.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

TENON_CPP_BEGIN

/// How to make a name. With nothing set it is in /dev/shm, begins with "tenon-", has 128
/// unguessable bits, and only this user can open it.
struct Filename {
  /// The whole name, without a slash.
  std::optional<std::string> name = std::nullopt;
  /// The beginning of the name; the random bits follow it.
  std::optional<std::string> prefix = std::nullopt;
  /// An absolute path. PyTorch looks only in /dev/shm.
  std::optional<std::string> directory = std::nullopt;
  /// The permission bits. 0 means 0600.
  std::uint32_t mode = 0;
  /// The id of a group whose members may open the name too.
  std::optional<std::uint32_t> group = std::nullopt;
};

/// How to lend a storage by name.
struct ShareFilenameOptions {
  /// The access that borrowers get.
  Access access = Access::kAuto;
  /// PyTorch must be able to open the name, so a manager guards it.
  bool torch = false;
  /// Also do what filename_incref does.
  bool in_flight = false;
  /// With `torch`: the socket of a running manager. Unset means this user's manager, which is
  /// started if none runs.
  std::optional<std::string> manager = std::nullopt;
  /// If any field is set, the storage is lent through a new socket with this name.
  Filename filename = {};
};

/// A handle with which another process can open a storage by name. It is a plain value that owns
/// nothing and can be sent by any means.
struct FilenameHandle {
  /// "/leaf" for a name in /dev/shm, otherwise an absolute path. "" for an empty storage that has
  /// no name.
  std::string name = {};
  /// The size of the storage in bytes.
  std::uint64_t nbytes = 0;
  /// Where the storage begins, in bytes from the start of the file's payload or of the segment.
  std::uint64_t offset = 0;
  /// The socket of the manager that guards the name. "" if there is none.
  std::string manager = {};
  /// The access that the handle allows.
  Access access = Access::kAuto;
  friend bool operator==(const FilenameHandle&, const FilenameHandle&) = default;
};

namespace detail {

inline Result<tenon_filename_handle> c_handle(const FilenameHandle& handle) {
  tenon_filename_handle c{};
  c.struct_size = sizeof c;
  c.access = static_cast<tenon_access>(handle.access);
  c.offset = handle.offset;
  c.nbytes = handle.nbytes;
  if (const Result<void> done = put(handle.name, c.name, "the name"); !done) return done.error();
  if (const Result<void> done = put(handle.manager, c.manager, "the manager's path"); !done)
    return done.error();
  return c;
}

// The result borrows the texts of `filename`.
inline Result<tenon_filename_options> c_options(const Filename& filename) {
  if (!is_c_text(filename.name)) return has_nul("the name");
  if (!is_c_text(filename.prefix)) return has_nul("the prefix");
  if (!is_c_text(filename.directory)) return has_nul("the directory");
  tenon_filename_options c{};
  c.struct_size = sizeof c;
  c.mode = filename.mode;
  c.name = c_text(filename.name);
  c.prefix = c_text(filename.prefix);
  c.directory = c_text(filename.directory);
  if (filename.group) {
    c.flags = std::uint32_t{TENON_FILENAME_GROUP};
    c.group = *filename.group;
  }
  return c;
}

}  // namespace detail

/// Makes a storage of Mode::kShared in a named file of its own, in PyTorch's layout. All bytes are
/// 0. The file appears under its name as a whole or not at all, and its memory is reserved first.
/// The file is removed when its last holder releases it.
inline Result<Storage> try_make_filename(std::uint64_t nbytes, const Filename& filename = {}) {
  const Result<tenon_filename_options> c = detail::c_options(filename);
  if (!c) return c.error();
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) {
    return tenon_storage_new_filename(&*c, nbytes, out, err);
  });
}

/// Lends a storage by name. No byte is copied, with one exception: private memory moves, if no
/// pointer to its bytes was ever given out. A storage in a named file is lent under that name. Any
/// other shared storage is lent through a socket. `wait` says how long to wait for a manager.
inline Result<FilenameHandle> try_share_filename(const Storage& storage,
                                                 const ShareFilenameOptions& options = {},
                                                 const Wait& wait = {}) {
  if (!detail::is_c_text(options.manager)) return detail::has_nul("the manager's path");
  Result<tenon_filename_options> c = detail::c_options(options.filename);
  if (!c) return c.error();
  c->access = static_cast<tenon_access>(options.access);
  c->manager = detail::c_text(options.manager);
  if (options.torch) c->flags |= std::uint32_t{TENON_FILENAME_TORCH};
  if (options.in_flight) c->flags |= std::uint32_t{TENON_FILENAME_IN_FLIGHT};
  tenon_filename_handle out{};
  out.struct_size = sizeof out;
  const Result<void> called =
      detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
        return tenon_share_filename(storage.get(), &*c, waiting, &out, err);
      });
  if (!called) return called.error();
  return FilenameHandle{out.name, out.nbytes, out.offset, out.manager,
                        static_cast<Access>(out.access)};
}

/// Opens a storage that Tenon or PyTorch lent by name. If this process already holds it, by name or
/// by fd, the result is the same storage. Opening a file needs allow_unsealed, because other
/// processes can cut the file short. `wait` says how long to wait for the lender behind a socket,
/// or for a manager.
inline Result<Storage> try_open_filename(const FilenameHandle& handle,
                                         const OpenOptions& options = {}, const Wait& wait = {}) {
  const Result<tenon_filename_handle> from = detail::c_handle(handle);
  if (!from) return from.error();
  const tenon_open_options c = detail::c_options(options);
  tenon_storage* out = nullptr;
  const Result<void> called =
      detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
        return tenon_open_filename(&*from, &c, waiting, &out, err);
      });
  if (!called) return called.error();
  return Storage::adopt(out);
}

/// Counts one message in flight that refers to a storage of this process. The name then outlives
/// this process's own references until a receiver opens it with OpenOptions::decref or calls
/// filename_decref.
inline Result<void> try_filename_incref(const FilenameHandle& handle) {
  const Result<tenon_filename_handle> c = detail::c_handle(handle);
  if (!c) return c.error();
  return detail::call([&](tenon_error** err) { return tenon_filename_incref(&*c, err); });
}

/// Undoes one filename_incref: the message was received, or will never be received. If the name
/// does not exist any more, nothing happens.
inline Result<void> try_filename_decref(const FilenameHandle& handle) {
  const Result<tenon_filename_handle> c = detail::c_handle(handle);
  if (!c) return c.error();
  return detail::call([&](tenon_error** err) { return tenon_filename_decref(&*c, err); });
}

/// Gives up the names of this process now, as exit() does later. A process that ends in order but
/// with _exit() calls this function.
inline void filename_leave() noexcept { tenon_filename_leave(); }

/// Removes a name. Processes that have it open keep the memory, and no process can open it any
/// more. If the name does not exist any more, nothing happens.
inline Result<void> try_filename_unlink(const std::string& name) {
  if (!detail::is_c_text(name)) return detail::has_nul("the name");
  return detail::call([&](tenon_error** err) { return tenon_filename_unlink(name.c_str(), err); });
}

/// How to sweep.
struct SweepOptions {
  /// An absolute path. Unset means /dev/shm.
  std::optional<std::string> directory = std::nullopt;
  /// Count the names, and remove none.
  bool dry_run = false;
  /// Also remove PyTorch's own dead files.
  bool torch = false;
  /// PyTorch's files that are younger than this stay. Unset means 60 seconds.
  std::optional<std::chrono::nanoseconds> min_age = std::nullopt;
};

/// The names that a sweep found. tenon/by_filename.h explains each count.
using Sweep = tenon_sweep_result;

/// Removes the names in a directory that no process holds. Making and releasing names also sweeps a
/// little. This call removes all others.
inline Result<Sweep> try_sweep(const SweepOptions& options = {}) {
  if (!detail::is_c_text(options.directory)) return detail::has_nul("the directory");
  if (options.min_age && options.min_age->count() < 0) return detail::wrong("min_age is negative");
  tenon_sweep_options c{};
  c.struct_size = sizeof c;
  c.flags = (options.dry_run ? std::uint32_t{TENON_SWEEP_DRY_RUN} : 0U) |
            (options.torch ? std::uint32_t{TENON_SWEEP_TORCH} : 0U);
  c.directory = detail::c_text(options.directory);
  // In the C struct 0 means the default.
  if (options.min_age) c.min_age_ns = options.min_age->count() == 0 ? 1 : options.min_age->count();
  return detail::fill<Sweep>(
      [&](Sweep* out, tenon_error** err) { return tenon_filename_sweep(&c, out, err); });
}

/// Returns the socket of this user's manager, and starts the manager if none runs. `program` is the
/// path of tenon-manager. Unset means the environment variable TENON_MANAGER, or else the program
/// beside the library.
inline Result<std::string> try_manager_start(
    const std::optional<std::string>& program = std::nullopt, const Wait& wait = {}) {
  if (!detail::is_c_text(program)) return detail::has_nul("the program");
  char out[sizeof(tenon_filename_handle::manager)] = "";
  const Result<void> called =
      detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
        return tenon_manager_start(detail::c_text(program), waiting, out, err);
      });
  if (!called) return called.error();
  return std::string(out);
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline Storage make_filename(std::uint64_t nbytes, const Filename& filename = {}) {
  return try_make_filename(nbytes, filename).value();
}
inline FilenameHandle share_filename(const Storage& storage,
                                     const ShareFilenameOptions& options = {},
                                     const Wait& wait = {}) {
  return try_share_filename(storage, options, wait).value();
}
inline Storage open_filename(const FilenameHandle& handle, const OpenOptions& options = {},
                             const Wait& wait = {}) {
  return try_open_filename(handle, options, wait).value();
}
inline void filename_incref(const FilenameHandle& handle) { try_filename_incref(handle).value(); }
inline void filename_decref(const FilenameHandle& handle) { try_filename_decref(handle).value(); }
inline void filename_unlink(const std::string& name) { try_filename_unlink(name).value(); }
inline Sweep sweep(const SweepOptions& options = {}) { return try_sweep(options).value(); }
inline std::string manager_start(const std::optional<std::string>& program = std::nullopt,
                                 const Wait& wait = {}) {
  return try_manager_start(program, wait).value();
}
#endif

TENON_CPP_END

#endif
