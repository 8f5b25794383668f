// Lending and opening by name. tenon/by_filename.h says what a name is, and when it goes.
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

/// How a name is made. Without anything: in /dev/shm, "tenon-" and 128 unguessable bits, for this user alone.
struct Filename {
  std::optional<std::string> name = std::nullopt;       ///< the whole name, without a slash
  std::optional<std::string> prefix = std::nullopt;     ///< what the random bits follow
  std::optional<std::string> directory = std::nullopt;  ///< absolute; PyTorch looks in /dev/shm only
  std::uint32_t mode = 0;                               ///< permission bits; 0: 0600
  std::optional<std::uint32_t> group = std::nullopt;    ///< a gid whose members may open it too
};

/// How a storage is lent by name.
struct ShareFilenameOptions {
  Access access = Access::kAuto;  ///< what borrowers get
  bool torch = false;             ///< PyTorch must be able to open it, so a manager guards the name
  bool in_flight = false;         ///< also do what filename_incref does
  std::optional<std::string> manager =
      std::nullopt;        ///< with torch, the socket of a running manager; unset: this user's, started if need be
  Filename filename = {};  ///< if anything in it is set: a socket of its own, made so
};

/// How to reach a storage by name. A value: it holds nothing, and can be sent by any means.
struct FilenameHandle {
  std::string name = {};          ///< "/leaf" in /dev/shm, or an absolute path; "" for an empty storage that has none
  std::uint64_t nbytes = 0;       ///< bytes of the storage
  std::uint64_t offset = 0;       ///< bytes: where it begins behind that name
  std::string manager = {};       ///< the socket of the manager that guards the name; "" if none does
  Access access = Access::kAuto;  ///< what the handle allows
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
  if (const Result<void> done = put(handle.manager, c.manager, "the manager's path"); !done) return done.error();
  return c;
}

// Borrows the texts of `filename`.
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

/// Make a storage in a named file of its own, in PyTorch's layout, Mode::kShared, all bytes 0. The file appears whole, under its name, or
/// not at all, and its memory is reserved first. It goes with its last holder.
inline Result<Storage> try_make_filename(std::uint64_t nbytes, const Filename& filename = {}) {
  const Result<tenon_filename_options> c = detail::c_options(filename);
  if (!c) return c.error();
  return detail::make<Storage>([&](tenon_storage** out, tenon_error** err) { return tenon_storage_new_filename(&*c, nbytes, out, err); });
}

/// Lend a storage by name. No byte is copied, but for private memory whose bytes were never handed out, which moves. A storage in a named
/// file gives that name; any other shared one gets a socket. `wait` is for a manager.
inline Result<FilenameHandle> try_share_filename(const Storage& storage, const ShareFilenameOptions& options = {}, const Wait& wait = {}) {
  if (!detail::is_c_text(options.manager)) return detail::has_nul("the manager's path");
  Result<tenon_filename_options> c = detail::c_options(options.filename);
  if (!c) return c.error();
  c->access = static_cast<tenon_access>(options.access);
  c->manager = detail::c_text(options.manager);
  if (options.torch) c->flags |= std::uint32_t{TENON_FILENAME_TORCH};
  if (options.in_flight) c->flags |= std::uint32_t{TENON_FILENAME_IN_FLIGHT};
  tenon_filename_handle out{};
  out.struct_size = sizeof out;
  const Result<void> called = detail::waiting(
      wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_share_filename(storage.get(), &*c, waiting, &out, err); });
  if (!called) return called.error();
  return FilenameHandle{out.name, out.nbytes, out.offset, out.manager, static_cast<Access>(out.access)};
}

/// Open what was lent by name, by Tenon or by PyTorch. What this process already holds, by name or by fd, comes back as the same storage. A
/// file takes allow_unsealed: others can cut it short. `wait` is for the lender behind a socket, or a manager.
inline Result<Storage> try_open_filename(const FilenameHandle& handle, const OpenOptions& options = {}, const Wait& wait = {}) {
  const Result<tenon_filename_handle> from = detail::c_handle(handle);
  if (!from) return from.error();
  const tenon_open_options c = detail::c_options(options);
  tenon_storage* out = nullptr;
  const Result<void> called = detail::waiting(
      wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_open_filename(&*from, &c, waiting, &out, err); });
  if (!called) return called.error();
  return Storage::adopt(out);
}

/// Count one message in flight about a storage that this process holds: the name outlives this process's own references until somebody
/// opens it with OpenOptions::decref or calls filename_decref.
inline Result<void> try_filename_incref(const FilenameHandle& handle) {
  const Result<tenon_filename_handle> c = detail::c_handle(handle);
  if (!c) return c.error();
  return detail::call([&](tenon_error** err) { return tenon_filename_incref(&*c, err); });
}

/// Take one filename_incref back: the message was received, or will never be. Of a name that is gone: nothing.
inline Result<void> try_filename_decref(const FilenameHandle& handle) {
  const Result<tenon_filename_handle> c = detail::c_handle(handle);
  if (!c) return c.error();
  return detail::call([&](tenon_error** err) { return tenon_filename_decref(&*c, err); });
}

/// Do now what exit() does for names; for a process that ends in order but with _exit().
inline void filename_leave() noexcept { tenon_filename_leave(); }

/// Take a name away. Who has it open keeps the memory; nobody opens it any more. Of a name that is gone: nothing.
inline Result<void> try_filename_unlink(const std::string& name) {
  if (!detail::is_c_text(name)) return detail::has_nul("the name");
  return detail::call([&](tenon_error** err) { return tenon_filename_unlink(name.c_str(), err); });
}

/// What to sweep.
struct SweepOptions {
  std::optional<std::string> directory = std::nullopt;             ///< absolute; unset: /dev/shm
  bool dry_run = false;                                            ///< count, remove nothing
  bool torch = false;                                              ///< also remove PyTorch's own dead files
  std::optional<std::chrono::nanoseconds> min_age = std::nullopt;  ///< PyTorch's younger files stay; unset: 60 seconds
};

/// What a sweep found; tenon/by_filename.h says what each count means.
using Sweep = tenon_sweep_result;

/// Remove the names in a directory that nobody holds. Whoever makes and releases names sweeps a little too: this is for the rest.
inline Result<Sweep> try_sweep(const SweepOptions& options = {}) {
  if (!detail::is_c_text(options.directory)) return detail::has_nul("the directory");
  if (options.min_age && options.min_age->count() < 0) return detail::wrong("min_age is negative");
  tenon_sweep_options c{};
  c.struct_size = sizeof c;
  c.flags = (options.dry_run ? std::uint32_t{TENON_SWEEP_DRY_RUN} : 0U) | (options.torch ? std::uint32_t{TENON_SWEEP_TORCH} : 0U);
  c.directory = detail::c_text(options.directory);
  // 0 stands for the default.
  if (options.min_age) c.min_age_ns = options.min_age->count() == 0 ? 1 : options.min_age->count();
  return detail::fill<Sweep>([&](Sweep* out, tenon_error** err) { return tenon_filename_sweep(&c, out, err); });
}

/// The socket of this user's manager, which is started if there is none. `program`: the path of tenon-manager; unset: TENON_MANAGER of the
/// environment, else the one beside the library.
inline Result<std::string> try_manager_start(const std::optional<std::string>& program = std::nullopt, const Wait& wait = {}) {
  if (!detail::is_c_text(program)) return detail::has_nul("the program");
  char out[sizeof(tenon_filename_handle::manager)] = "";
  const Result<void> called = detail::waiting(
      wait, [&](const tenon_wait* waiting, tenon_error** err) { return tenon_manager_start(detail::c_text(program), waiting, out, err); });
  if (!called) return called.error();
  return std::string(out);
}

#ifndef TENON_NO_EXCEPTIONS
// Each throws what its try_ form returns.
inline Storage make_filename(std::uint64_t nbytes, const Filename& filename = {}) { return try_make_filename(nbytes, filename).value(); }
inline FilenameHandle share_filename(const Storage& storage, const ShareFilenameOptions& options = {}, const Wait& wait = {}) {
  return try_share_filename(storage, options, wait).value();
}
inline Storage open_filename(const FilenameHandle& handle, const OpenOptions& options = {}, const Wait& wait = {}) {
  return try_open_filename(handle, options, wait).value();
}
inline void filename_incref(const FilenameHandle& handle) { try_filename_incref(handle).value(); }
inline void filename_decref(const FilenameHandle& handle) { try_filename_decref(handle).value(); }
inline void filename_unlink(const std::string& name) { try_filename_unlink(name).value(); }
inline Sweep sweep(const SweepOptions& options = {}) { return try_sweep(options).value(); }
inline std::string manager_start(const std::optional<std::string>& program = std::nullopt, const Wait& wait = {}) {
  return try_manager_start(program, wait).value();
}
#endif

TENON_CPP_END

#endif
