/// @file
/// Archives: these functions write modules to the files that torch.jit.load runs, and read the
/// files that torch.jit.save writes, without PyTorch. tenon/archive.h has the details.
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

/// Whether the file is certainly on the disk when an export to a path returns.
enum class Durability : std::int32_t {
  /// The system writes the file at some later time.
  kNone = TENON_DURABILITY_NONE,
  /// The export calls fsync on the file.
  kFile = TENON_DURABILITY_FILE,
  /// The export calls fsync on the file and on the directory that holds its name.
  kFileAndDirectory = TENON_DURABILITY_FILE_AND_DIRECTORY
};

/// How an export treats bytecode, which the lite interpreter of PyTorch runs.
enum class Bytecode : std::int32_t {
  /// The export writes the bytecode of the archive from which the module came, if it still fits the
  /// module.
  kKeep = TENON_BYTECODE_KEEP,
  /// The export writes no bytecode.
  kDrop = TENON_BYTECODE_DROP,
  /// The export compiles bytecode from the code, whether or not the archive had any.
  kCompile = TENON_BYTECODE_COMPILE
};

/// A callable that gives more extra files. An export calls it once, before anything is written. It
/// may return a std::vector<File>, or an Error, which ends the export. It can look at the module
/// and cannot change it.
using ExtraFilesHook = std::function<Result<std::vector<File>>(const Module& module)>;

/// How to write a module.
struct ExportOptions {
  /// Extra files of this export only. They replace the module's own files of the same names.
  std::vector<File> extra_files = {};
  /// Gives more extra files. Files whose names the export has already are skipped.
  ExtraFilesHook hook = {};
  /// The folder inside the archive. Unset means the name of the file without its extension, or
  /// "archive" if there is no path. It must be unset for the flatbuffer form.
  std::optional<std::string> archive_name = std::nullopt;
  /// The version of the archive, from 1 to 10. The export is refused if some code means something
  /// else in that version. 0 means the version by the rule of docs/format/archive.md.
  std::int32_t file_version = 0;
  /// For an export to a path. Otherwise it must be Durability::kNone.
  Durability durability = Durability::kNone;
  /// Write the code as it is, without Module::check.
  bool unchecked = false;
  /// Write tensors on a CUDA device as tensors of that device. Otherwise they are written as
  /// tensors of the CPU.
  bool keep_device = false;
  /// The stream in which tensors on a CUDA device were written. Null means the default stream.
  void* stream = nullptr;
  /// How to treat bytecode.
  Bytecode bytecode = Bytecode::kKeep;
  /// For Bytecode::kCompile: the methods of the module that get bytecode. Their bytecode includes
  /// the methods and functions that they call. An empty list means all methods.
  std::vector<std::string> methods = {};
  /// For Bytecode::kCompile: the version of the bytecode, from 4 to 8. The versions below 8 are for
  /// the runtimes of old PyTorch versions. 0 means 8.
  std::int32_t bytecode_version = 0;
  /// For Bytecode::kCompile: TENON_EMIT_*, which tenon/archive.h explains.
  std::uint32_t emit_flags = 0;
  /// Write debug tables, from which PyTorch's errors name modules and source lines. With
  /// Bytecode::kCompile the export makes tables for the new bytecode. Otherwise it writes the
  /// tables of the archive from which the module came, if the code was not changed and the bytecode
  /// of that archive is written too. Such tables contain absolute paths of the person who saved the
  /// module. TENON_EXPORT_DEBUG_TABLES in tenon/archive.h has the details.
  bool debug_tables = false;
  /// Write PyTorch's flatbuffer form instead of a zip archive. It always has bytecode.
  /// TENON_EXPORT_FLATBUFFER in tenon/archive.h says what the form cannot hold.
  bool flatbuffer = false;
};

/// The report of an export. tenon/archive.h explains each figure. oldest_pytorch is a text such as
/// "1.13", and "" if the version is not known.
using ExportReport = tenon_export_report;

/// Where an import puts tensors.
enum class ImportTensors : std::int32_t {
  /// Read-only views of the file, or copies where a view is not possible.
  kMap = TENON_IMPORT_MAP,
  /// Writable views. Writes stay in this process.
  kMapPrivate = TENON_IMPORT_MAP_PRIVATE,
  /// Copies in storages of their own, in an arena if one is given.
  kFill = TENON_IMPORT_FILL,
  /// Copies in memory of a CUDA device.
  kDevice = TENON_IMPORT_DEVICE
};

/// The level of an import: how much of the file it verifies.
enum class ImportCheck : std::int32_t {
  /// The directory, headers, bounds, overlaps and references, and the checksums of pickles and
  /// code.
  kStructure = TENON_IMPORT_CHECK_STRUCTURE,
  /// As kStructure, and the checksum of each tensor that is copied.
  kFill = TENON_IMPORT_CHECK_FILL,
  /// As kStructure, and the checksum of every record.
  kAll = TENON_IMPORT_CHECK_ALL
};

/// How to read an archive.
struct ImportOptions {
  ImportTensors tensors = ImportTensors::kMap;
  ImportCheck check = ImportCheck::kStructure;
  /// For ImportTensors::kFill: the arena to allocate from, borrowed for the call. Null means one of
  /// the library's own arenas.
  const Arena* arena = nullptr;
  /// For ImportTensors::kFill without an arena: the mode of the storages.
  Mode mode = Mode::kShared;
  /// For ImportTensors::kDevice: the device's ordinal in this process's numbering.
  std::int32_t device = 0;
  /// The most bytes that all compressed records together may have. 0 means 1 GiB.
  std::uint64_t max_inflated_nbytes = 0;
  /// The most records. 0 means 1,000,000.
  std::uint64_t max_records = 0;
  /// How deep values may be nested in values, up to 1,000. 0 means 512.
  std::uint64_t max_depth = 0;
  /// Where to put tensors that were saved on certain devices: "cuda:1=cuda:0,mps=cpu".
  std::string device_map = {};
  /// Read the debug tables too, so that an export can write them (ExportOptions::debug_tables).
  bool debug_tables = false;
};

namespace detail {

// The type that a writer returns for a piece.
template <class Writer>
using Taken = std::invoke_result_t<Writer&, std::span<const std::byte>>;

}  // namespace detail

/// A callable that an export calls with the pieces of the archive, one after another, without
/// copying the tensors first. The callable may return void, which means that it took the piece. It
/// may return a Result<void>, whose error ends the export. Or it may return a number, as in the C
/// header: the number of bytes that it took, which must be all of them, or a negative errno.
template <class Writer>
concept IsWriter =
    std::is_void_v<detail::Taken<Writer>> || std::same_as<detail::Taken<Writer>, Result<void>> ||
    std::signed_integral<detail::Taken<Writer>>;

namespace detail {

// The result borrows the files.
inline Result<std::vector<tenon_file>> c_files(const std::vector<File>& files) {
  std::vector<tenon_file> c;
  c.reserve(files.size());
  for (const File& file : files) {
    if (!is_c_text(file.name)) return has_nul("the name of an extra file");
    c.push_back({file.name.c_str(), file.data.data(), file.data.size()});
  }
  return c;
}

// Calls the callables of one export. If one of them fails, the export ends, and its error or
// exception is kept until the C library has returned, because no exception may pass through the C
// library.
class Callables {
 public:
  explicit Callables(const ExtraFilesHook& hook) noexcept : hook_(&hook) {}

  // Calls function(), which calls a callable of the program. The result is empty if that callable
  // threw.
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

  // Gives the error or throws the exception of a callable that failed. Otherwise gives the result
  // of the call.
  template <class T>
  Result<T> result_of(Result<T> called) {
#ifndef TENON_NO_EXCEPTIONS
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
#endif
    if (error_) return *error_;
    return called;
  }

  static tenon_status ask(void* context, const tenon_module* module, const tenon_file** files,
                          std::size_t* n) noexcept {
    auto& self = *static_cast<Callables*>(context);
    const std::optional<bool> found = self.run([&] {
      // Retaining the module counts a reference, so the handle must not be const. Changes are
      // refused during the export.
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
  // The files that the hook gave. The C library borrows them until it returns.
  std::vector<File> files_;
  std::vector<tenon_file> c_files_;
  std::optional<Error> error_;
#ifndef TENON_NO_EXCEPTIONS
  std::exception_ptr thrown_;
#endif
};

// The writer of one export, and its callables.
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

// Calls function(callables, options, report, err), which makes one export.
template <class Function>
Result<ExportReport> write_module(const ExportOptions& options, Function&& function) {
  if (!is_c_text(options.archive_name)) return has_nul("the archive's name");
  const std::optional<std::string> methods = joined(options.methods);
  if (!is_c_text(methods)) return has_nul("a method");
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
            (options.keep_device ? std::uint32_t{TENON_EXPORT_KEEP_DEVICE} : 0U) |
            (options.debug_tables ? std::uint32_t{TENON_EXPORT_DEBUG_TABLES} : 0U) |
            (options.flatbuffer ? std::uint32_t{TENON_EXPORT_FLATBUFFER} : 0U);
  c.stream = options.stream;
  c.bytecode = static_cast<std::int32_t>(options.bytecode);
  c.methods = c_text(methods);
  c.bytecode_version = options.bytecode_version;
  c.emit_flags = options.emit_flags;
  return callables.result_of(fill<ExportReport>([&](ExportReport* report, tenon_error** err) {
    return function(callables, &c, report, err);
  }));
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
  c.flags = options.debug_tables ? std::uint32_t{TENON_IMPORT_DEBUG_TABLES} : 0U;
  return c;
}

}  // namespace detail

/// Writes a module to a file. Afterwards the path names either the complete new file or the same
/// file as before, and the call leaves no other file behind. Tensors are written from the memory in
/// which they lie. The error of bad code has the details "file", "line", "column" and "excerpt". If
/// a callable of the options throws an exception or returns an Error, this call throws or returns
/// the same.
inline Result<ExportReport> try_export_module(const Module& module, const std::string& path,
                                              const ExportOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  return detail::write_module(options, [&](detail::Callables&, const tenon_export_options* c,
                                           ExportReport* report, tenon_error** err) {
    return tenon_export_module(module.get(), path.c_str(), c, report, err);
  });
}

/// Does the same as try_export_module, but writes to an open file, pipe or socket, from its current
/// position on. The fd stays open. After a failure the fd may have got some of the bytes.
inline Result<ExportReport> try_export_module_fd(const Module& module, int fd,
                                                 const ExportOptions& options = {}) {
  return detail::write_module(options, [&](detail::Callables&, const tenon_export_options* c,
                                           ExportReport* report, tenon_error** err) {
    return tenon_export_module_fd(module.get(), fd, c, report, err);
  });
}

/// Does the same as try_export_module, but passes the bytes to a callable, on this thread: see
/// IsWriter. After a failure the callable may have got some of the bytes. The callable cannot
/// change the module. If it throws an exception or returns an Error, this call throws or returns
/// the same.
template <IsWriter Writer>
Result<ExportReport> try_export_module_to(const Module& module, Writer&& writer,
                                          const ExportOptions& options = {}) {
  using Writing = detail::Writing<std::remove_reference_t<Writer>>;
  return detail::write_module(
      options, [&](detail::Callables& callables, const tenon_export_options* c,
                   ExportReport* report, tenon_error** err) {
        Writing writing{writer, callables};
        return tenon_export_module_to(module.get(), &Writing::write, &writing, c, report, err);
      });
}

/// Reads an archive of PyTorch 1.4 or later, or PyTorch's flatbuffer form. No code in the file is
/// executed. The file must not be changed while views of it are in use, but it may be replaced by a
/// rename. The error of a bad archive has the details "record" and "offset".
///
/// The code and the bytecode of a flatbuffer are checked when the module is first used. If they are
/// bad, that call and each later one fails. With ImportCheck::kAll they are checked here.
inline Result<Module> try_import_module(const std::string& path,
                                        const ImportOptions& options = {}) {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  const tenon_import_options c = detail::c_options(options);
  return detail::make<Module>([&](tenon_module** out, tenon_error** err) {
    return tenon_import_module(path.c_str(), &c, out, err);
  });
}

/// Does the same as try_import_module, but reads an open file, whatever its position. The fd may be
/// closed afterwards.
inline Result<Module> try_import_module_fd(int fd, const ImportOptions& options = {}) {
  const tenon_import_options c = detail::c_options(options);
  return detail::make<Module>([&](tenon_module** out, tenon_error** err) {
    return tenon_import_module_fd(fd, &c, out, err);
  });
}

/// Does the same as try_import_module, but reads memory. The memory must exist and must not change
/// as long as `keeper` exists. `keeper` is called and destroyed as in Storage::try_wrap when the
/// bytes are not needed any more, at the latest with the last tensor over them. With
/// ImportTensors::kMapPrivate the bytes are copied.
template <class Keeper>
Result<Module> try_import_module_memory(std::span<const std::byte> bytes, Keeper keeper,
                                        const ImportOptions& options = {}) {
  using Kept = detail::Kept<Keeper>;
  const tenon_import_options c = detail::c_options(options);
  std::unique_ptr<Kept> kept(new Kept{std::move(keeper)});
  Result<Module> module = detail::make<Module>([&](tenon_module** out, tenon_error** err) {
    return tenon_import_module_memory(bytes.data(), bytes.size(), &Kept::end, kept.get(), &c, out,
                                      err);
  });
  if (module) (void)kept.release();
  return module;
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline ExportReport export_module(const Module& module, const std::string& path,
                                  const ExportOptions& options = {}) {
  return try_export_module(module, path, options).value();
}
inline ExportReport export_module_fd(const Module& module, int fd,
                                     const ExportOptions& options = {}) {
  return try_export_module_fd(module, fd, options).value();
}
template <IsWriter Writer>
ExportReport export_module_to(const Module& module, Writer&& writer,
                              const ExportOptions& options = {}) {
  return try_export_module_to(module, writer, options).value();
}
inline Module import_module(const std::string& path, const ImportOptions& options = {}) {
  return try_import_module(path, options).value();
}
inline Module import_module_fd(int fd, const ImportOptions& options = {}) {
  return try_import_module_fd(fd, options).value();
}
template <class Keeper>
Module import_module_memory(std::span<const std::byte> bytes, Keeper keeper,
                            const ImportOptions& options = {}) {
  return try_import_module_memory(bytes, std::move(keeper), options).value();
}
#endif

TENON_CPP_END

#endif
