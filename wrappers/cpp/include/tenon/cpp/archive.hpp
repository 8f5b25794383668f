// Archives: modules as the files that torch.jit.save writes and torch.jit.load runs, without PyTorch. tenon/archive.h says what is promised
// of them.
#ifndef TENON_CPP_ARCHIVE_HPP
#define TENON_CPP_ARCHIVE_HPP

#include <tenon/archive.h>
#include <tenon/cpp/arena.hpp>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/module.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/text.hpp>

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// How sure an export to a path is that the file is on the disk when it returns.
enum class Durability : std::int32_t {
  kNone = TENON_DURABILITY_NONE,                           ///< the system writes it when it likes
  kFile = TENON_DURABILITY_FILE,                           ///< fsync of the file
  kFileAndDirectory = TENON_DURABILITY_FILE_AND_DIRECTORY  ///< and of the directory that names it
};

/// Asked once for each export, before anything is written, for more extra files. It may return a std::vector<File> or an Error, which ends
/// the export. It can look at the module, and not change it.
using ExtraFilesHook = std::function<Result<std::vector<File>>(const Module& module)>;

/// How a module is written.
struct ExportOptions {
  std::vector<File> extra_files = {};                      ///< of this export only; they win over the module's own
  ExtraFilesHook hook = {};                                ///< for more of them; those whose names the export has already are left out
  std::optional<std::string> archive_name = std::nullopt;  ///< the folder inside; unset: the path's stem, else "archive"
  std::int32_t file_version = 0;              ///< 0: by the library's rule; else 1 to 10, refused if some code means something else there
  Durability durability = Durability::kNone;  ///< of an export to a path
  bool unchecked = false;                     ///< code is written as it is, without Module::check
  bool keep_device = false;                   ///< tensors on a CUDA device are written as that device's; else as the CPU's
  void* stream = nullptr;                     ///< in which tensors on a CUDA device were written; null: the default stream
};

/// What was written; tenon/archive.h says what each is. oldest_pytorch is a text: "1.13"; "": nobody knows.
using ExportReport = tenon_export_report;

/// Where an import's tensors are.
enum class ImportTensors : std::int32_t {
  kMap = TENON_IMPORT_MAP,                 ///< read-only views of the file; where that cannot be, copies
  kMapPrivate = TENON_IMPORT_MAP_PRIVATE,  ///< writable views; what is written stays in this process
  kFill = TENON_IMPORT_FILL,               ///< copies in storages of their own, in an arena if one is given
  kDevice = TENON_IMPORT_DEVICE            ///< copies in memory of a CUDA device
};

/// What an import checks.
enum class ImportCheck : std::int32_t {
  kStructure = TENON_IMPORT_CHECK_STRUCTURE,  ///< directory, headers, bounds, overlaps, references; checksums of pickles and code
  kFill = TENON_IMPORT_CHECK_FILL,            ///< and the checksum of each tensor that is copied
  kAll = TENON_IMPORT_CHECK_ALL               ///< and that of every record
};

/// How an archive is read.
struct ImportOptions {
  ImportTensors tensors = ImportTensors::kMap;
  ImportCheck check = ImportCheck::kStructure;
  const Arena* arena = nullptr;           ///< borrowed for the call, of ImportTensors::kFill; null: the library's own memory
  Mode mode = Mode::kShared;              ///< likewise, without an arena
  std::int32_t device = 0;                ///< of ImportTensors::kDevice: ordinal in this process's numbering
  std::uint64_t max_inflated_nbytes = 0;  ///< of all compressed records together; 0: 1 GiB
  std::uint64_t max_records = 0;          ///< 0: 1,000,000
  std::uint64_t max_depth = 0;            ///< of values in values, up to 1,000; 0: 512
  std::string device_map = {};            ///< where tensors go that were saved on certain devices: "cuda:1=cuda:0,mps=cpu"
};

namespace detail {

// What a writer says of a piece.
template <class Writer>
using Taken = std::invoke_result_t<Writer&, std::span<const std::byte>>;

}  // namespace detail

/// What an export writes to: called with one piece after the other, straight from where the tensors are. It returns nothing if it took the
/// piece; a Result<void>, whose error ends the export; or a number as the C header has it: how many bytes it took, which must be all, or a
/// negative errno.
template <class Writer>
concept IsWriter = std::is_void_v<detail::Taken<Writer>> || std::same_as<detail::Taken<Writer>, Result<void>> ||
                   std::signed_integral<detail::Taken<Writer>>;

namespace detail {

// Borrows the files.
inline Result<std::vector<tenon_file>> c_files(const std::vector<File>& files) {
  std::vector<tenon_file> c;
  c.reserve(files.size());
  for (const File& file : files) {
    if (!is_c_text(file.name)) return has_nul("the name of an extra file");
    c.push_back({file.name.c_str(), file.data.data(), file.data.size()});
  }
  return c;
}

// The callables of one export. What one of them fails with ends the export and is kept until the C library has returned: no exception may
// cross it.
class Callables {
 public:
  explicit Callables(const ExtraFilesHook& hook) noexcept : hook_(&hook) {}

  // function() is a callable of the user's; of one that failed the result is empty.
  template <class Function>
  auto run(Function&& function) noexcept -> std::optional<decltype(function())> {
#ifdef TENON_NO_EXCEPTIONS
    return function();
#else
    try {
      return function();
    } catch (...) {
      thrown_ = std::current_exception();
      return std::nullopt;
    }
#endif
  }

  bool fail(const Error& error) {
    error_ = error;
    return false;
  }

  // What a callable failed with, if one did, else what the call came to.
  template <class T>
  Result<T> result_of(Result<T> called) {
#ifndef TENON_NO_EXCEPTIONS
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
#endif
    if (error_) return *error_;
    return called;
  }

  static tenon_status ask(void* context, const tenon_module* module, const tenon_file** files, std::size_t* n) noexcept {
    auto& self = *static_cast<Callables*>(context);
    const std::optional<bool> found = self.run([&] {
      // Of a handle that is not const, because it counts; changes are refused while the export goes on.
      const Module looked_at = Module::retain(const_cast<tenon_module*>(module));
      Result<std::vector<File>> given = (*self.hook_)(looked_at);
      if (!given) return self.fail(given.error());
      self.files_ = *std::move(given);
      Result<std::vector<tenon_file>> c = c_files(self.files_);
      if (!c) return self.fail(c.error());
      self.c_files_ = *std::move(c);
      *files = self.c_files_.data();
      *n = self.c_files_.size();
      return true;
    });
    return found.value_or(false) ? TENON_OK : TENON_IO;
  }

 private:
  const ExtraFilesHook* hook_;
  // What the hook gave, which the C library borrows until it returns.
  std::vector<File> files_;
  std::vector<tenon_file> c_files_;
  std::optional<Error> error_;
#ifndef TENON_NO_EXCEPTIONS
  std::exception_ptr thrown_;
#endif
};

// The writer of one export, beside the callables.
template <class Writer>
struct Writing {
  Writer& writer;
  Callables& callables;

  static std::int64_t write(void* context, const void* data, std::size_t nbytes) noexcept {
    auto& self = *static_cast<Writing*>(context);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(data), nbytes);
    const auto all = static_cast<std::int64_t>(nbytes);
    const std::optional<std::int64_t> taken = self.callables.run([&]() -> std::int64_t {
      if constexpr (std::is_void_v<Taken<Writer>>) {
        std::invoke(self.writer, bytes);
        return all;
      } else if constexpr (std::signed_integral<Taken<Writer>>) {
        return std::invoke(self.writer, bytes);
      } else {
        const Result<void> took = std::invoke(self.writer, bytes);
        if (took) return all;
        self.callables.fail(took.error());
        return -EIO;
      }
    });
    return taken.value_or(-EIO);
  }
};

// function(callables, options, report, err) is one export.
template <class Function>
Result<ExportReport> write_module(const ExportOptions& options, Function&& function) {
  if (!is_c_text(options.archive_name)) return has_nul("the archive's name");
  const Result<std::vector<tenon_file>> files = c_files(options.extra_files);
  if (!files) return files.error();
  Callables callables(options.hook);
  tenon_export_options c{};
  c.struct_size = sizeof c;
  c.extra_files = files->data();
  c.n_extra_files = files->size();
  if (options.hook) {
    c.hook = &Callables::ask;
    c.hook_context = &callables;
  }
  c.archive_name = c_text(options.archive_name);
  c.file_version = options.file_version;
  c.durability = static_cast<std::int32_t>(options.durability);
  c.flags = (options.unchecked ? std::uint32_t{TENON_EXPORT_UNCHECKED} : 0U) |
            (options.keep_device ? std::uint32_t{TENON_EXPORT_KEEP_DEVICE} : 0U);
  c.stream = options.stream;
  return callables.result_of(
      fill<ExportReport>([&](ExportReport* report, tenon_error** err) { return function(callables, &c, report, err); }));
}

inline tenon_import_options c_options(const ImportOptions& options) noexcept {
  tenon_import_options c{};
  c.struct_size = sizeof c;
  c.tensors = static_cast<std::int32_t>(options.tensors);
  c.check = static_cast<std::int32_t>(options.check);
  c.arena = options.arena == nullptr ? nullptr : options.arena->get();
  c.mode = static_cast<tenon_mode>(options.mode);
  c.device = options.device;
  c.max_inflated_nbytes = options.max_inflated_nbytes;
  c.max_records = options.max_records;
  c.max_depth = options.max_depth;
  c.device_map = options.device_map.c_str();
  return c;
}

}  // namespace detail

/// Write a module as a file. Either all of it is there, under its name, or what was there before still is; nothing else is left behind.
/// Tensors go to the file from where they are. The error of bad code has the details "file", "line", "column" and "excerpt". What a
/// callable of the options throws comes out of this as it is, and so does the Error that it returns.
inline Result<ExportReport> try_export_module(const Module& module, const std::string& path, const ExportOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  return detail::write_module(options, [&](detail::Callables&, const tenon_export_options* c, ExportReport* report, tenon_error** err) {
    return tenon_export_module(module.get(), path.c_str(), c, report, err);
  });
}

/// As try_export_module, to an open file, pipe or socket, from its current position on. It stays open; after a failure it may have got some
/// of the bytes.
inline Result<ExportReport> try_export_module_fd(const Module& module, int fd, const ExportOptions& options = {}) {
  return detail::write_module(options, [&](detail::Callables&, const tenon_export_options* c, ExportReport* report, tenon_error** err) {
    return tenon_export_module_fd(module.get(), fd, c, report, err);
  });
}

/// As try_export_module, to a callable, on this thread: see IsWriter. After a failure it may have got some of the bytes. It cannot change
/// the module. What it throws comes out of this as it is, and so does the Error that it returns.
template <IsWriter Writer>
Result<ExportReport> try_export_module_to(const Module& module, Writer&& writer, const ExportOptions& options = {}) {
  using Writing = detail::Writing<std::remove_reference_t<Writer>>;
  return detail::write_module(options,
                              [&](detail::Callables& callables, const tenon_export_options* c, ExportReport* report, tenon_error** err) {
                                Writing writing{writer, callables};
                                return tenon_export_module_to(module.get(), &Writing::write, &writing, c, report, err);
                              });
}

/// Read an archive of PyTorch 1.4 or later. Nothing in it is executed. The file must not be changed as long as views of it are used; to
/// replace it by rename is harmless. The error of a bad archive has the details "record" and "offset".
inline Result<Module> try_import_module(const std::string& path, const ImportOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  const tenon_import_options c = detail::c_options(options);
  return detail::make<Module>([&](tenon_module** out, tenon_error** err) { return tenon_import_module(path.c_str(), &c, out, err); });
}

/// As try_import_module, from an open file, whatever its position. It may be closed afterwards.
inline Result<Module> try_import_module_fd(int fd, const ImportOptions& options = {}) {
  const tenon_import_options c = detail::c_options(options);
  return detail::make<Module>([&](tenon_module** out, tenon_error** err) { return tenon_import_module_fd(fd, &c, out, err); });
}

/// As try_import_module, from memory, which must stay and not change as long as `keeper` does: until nothing needs the bytes any more, at
/// the latest the last tensor over them. It is called and destroyed then as that of Storage::try_wrap is. With ImportTensors::kMapPrivate
/// the bytes are copied.
template <class Keeper>
Result<Module> try_import_module_memory(std::span<const std::byte> bytes, Keeper keeper, const ImportOptions& options = {}) {
  using Kept = detail::Kept<Keeper>;
  const tenon_import_options c = detail::c_options(options);
  std::unique_ptr<Kept> kept(new Kept{std::move(keeper)});
  Result<Module> module = detail::make<Module>([&](tenon_module** out, tenon_error** err) {
    return tenon_import_module_memory(bytes.data(), bytes.size(), &Kept::end, kept.get(), &c, out, err);
  });
  if (module) (void)kept.release();
  return module;
}

#ifndef TENON_NO_EXCEPTIONS
// Each throws what its try_ form returns.
inline ExportReport export_module(const Module& module, const std::string& path, const ExportOptions& options = {}) {
  return try_export_module(module, path, options).value();
}
inline ExportReport export_module_fd(const Module& module, int fd, const ExportOptions& options = {}) {
  return try_export_module_fd(module, fd, options).value();
}
template <IsWriter Writer>
ExportReport export_module_to(const Module& module, Writer&& writer, const ExportOptions& options = {}) {
  return try_export_module_to(module, writer, options).value();
}
inline Module import_module(const std::string& path, const ImportOptions& options = {}) { return try_import_module(path, options).value(); }
inline Module import_module_fd(int fd, const ImportOptions& options = {}) { return try_import_module_fd(fd, options).value(); }
template <class Keeper>
Module import_module_memory(std::span<const std::byte> bytes, Keeper keeper, const ImportOptions& options = {}) {
  return try_import_module_memory(bytes, std::move(keeper), options).value();
}
#endif

TENON_CPP_END

#endif
