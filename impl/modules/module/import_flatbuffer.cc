#include "modules/module/import_flatbuffer.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "modules/archive/zip_reader.h"
#include "modules/bytecode/program.h"
#include "modules/flatbuffer/module_reader.h"
#include "modules/module/assembly.h"
#include "modules/module/code.h"
#include "modules/module/deferred.h"
#include "modules/module/import_storages.h"
#include "modules/module/kept_bytecode.h"

namespace tenon::module {

using archive::ZipReader;
using flatbuffer::ModuleReader;
using value::StorageValueRef;

namespace {

// The folder in which an archive has the storages of constants and of bytecode.
constexpr const char* kConstantsFolder = "constants/";

// PyTorch writes 9 as the version of any code. As the version of the bytecode's operators, it
// writes the lowest version that has them all. In both cases the operators have the meaning of the
// newest version.
constexpr uint32_t kOfPyTorch = 9;

bool is_of_pytorch(const ModuleReader& reader) {
  return reader.bytecode_version() == kOfPyTorch && reader.operator_version() != kOfPyTorch;
}

Result<int> version_of(const ModuleReader& reader) {
  if (is_of_pytorch(reader)) return kNewestVersion;
  const uint32_t version = reader.bytecode_version();
  if (version >= kOldestVersion && version <= kNewestVersion) return static_cast<int>(version);
  return Status(Code::kUnsupported, format("bytecode_version is %u, and it is known from %d to %d",
                                           version, kOldestVersion, kNewestVersion))
      .with("record", "bytecode_version");
}

// The values of the file, not yet checked against the code.
struct FileValues {
  ModuleReader reader;
  std::vector<std::string> classes;  // those of the objects and enums
};

// A file of which the values have been read, and the code has not.
class OpenedFile final : public DeferredImport {
 public:
  static Result<std::unique_ptr<const OpenedFile>> open(Ref<archive::ZipSource> source,
                                                        const std::string& label,
                                                        const ImportOptions& options);
  ~OpenedFile() override { delete values_.load(std::memory_order_acquire); }
  Result<Ref<Module>> finish() const override;

 private:
  friend class Finish;
  using Bytes = std::shared_ptr<const ModuleReader::Bytes>;

  OpenedFile(Bytes bytes, Ref<ZipReader> ranges, const std::string& label,
             const ImportOptions& options)
      : bytes_(std::move(bytes)),
        ranges_(std::move(ranges)),
        label_(label),
        options_(options),
        storages_(*ranges_, options_, false, &report_) {}

  Status read();
  Result<std::unique_ptr<FileValues>> values_again() const;

  Bytes bytes_;
  Ref<ZipReader> ranges_;
  std::string label_;
  ImportOptions options_;
  ImportReport report_;
  ArchiveStorages storages_;
  int version_ = 0;
  std::map<std::pair<uint32_t, tensor::ScalarType>, StorageValueRef> known_;
  // Each storage's place in the file, as the name of a record.
  std::map<value::StorageKey, std::string> names_;
  // The first finish() takes the values, because it changes them. Any other reads values of its
  // own.
  mutable std::atomic<FileValues*> values_{nullptr};
};

Status read_values(FileValues* values, const flatbuffer::FindStorage& find_storage) {
  return values->reader.read_values(find_storage, [values](const std::string& name) {
    if (values->classes.empty() || values->classes.back() != name) values->classes.push_back(name);
    return Status::ok();
  });
}

Result<std::unique_ptr<const OpenedFile>> OpenedFile::open(Ref<archive::ZipSource> source,
                                                           const std::string& label,
                                                           const ImportOptions& options) {
  TENON_ASSIGN(Bytes bytes, ModuleReader::copy(*source, options.pickle_limits));
  // DeviceFiller recognises the storages of a file by this prefix.
  Ref<ZipReader> ranges =
      ZipReader::of_ranges(std::move(source), ModuleReader::of(bytes).storages(), "data/");
  std::unique_ptr<OpenedFile> file(
      new OpenedFile(std::move(bytes), std::move(ranges), label, options));
  TENON_TRY(file->read());
  file->options_.storage.arena = nullptr;  // the arena is borrowed for the call
  return std::unique_ptr<const OpenedFile>(std::move(file));
}

Status OpenedFile::read() {
  std::unique_ptr<FileValues> values(new FileValues{ModuleReader::of(bytes_), {}});
  TENON_ASSIGN(version_, version_of(values->reader));
  report_.records = ranges_->records().size();
  if (!values->reader.has_sources()) {
    return Status(Code::kUnsupported, format("%s is a module for the lite interpreter alone: it "
                                             "has bytecode and no code. Save the "
                                             "module by torch.jit.save",
                                             label_.c_str()));
  }
  const auto find = [this](uint32_t index,
                           tensor::ScalarType type) -> Result<value::StorageValueRef> {
    StorageValueRef& known = known_[{index, type}];
    if (!known) {
      TENON_ASSIGN(known, storages_.whole(index, type));
      names_.emplace(known->key(), std::to_string(index));
    }
    return known;
  };
  TENON_TRY(read_values(values.get(), find));
  TENON_TRY(storages_.finish());
  values_.store(values.release(), std::memory_order_release);
  return Status::ok();
}

Result<std::unique_ptr<FileValues>> OpenedFile::values_again() const {
  std::unique_ptr<FileValues> values(new FileValues{ModuleReader::of(bytes_), {}});
  // read() has found all storages, because the bytes are the same.
  TENON_TRY(read_values(values.get(), [this](uint32_t index, tensor::ScalarType type) {
    return Result<StorageValueRef>(known_.at({index, type}));
  }));
  return values;
}

// One run of OpenedFile::finish().
class Finish {
 public:
  Finish(const OpenedFile& file, FileValues* values)
      : file_(file),
        reader_(values->reader),
        classes_(values->classes),
        assembly_(file.label_, file.options_) {}

  Result<Ref<Module>> run() {
    assembly_.report() = file_.report_;
    assembly_.start_code(file_.version_);
    TENON_TRY(read_code());
    TENON_TRY(read_extra_files());
    assembly_.allow_steps(reader_.nbytes());
    for (const std::string& name : classes_) TENON_TRY(assembly_.check_class(name));
    TENON_ASSIGN(std::vector<ValueRef> constants, reader_.constants());
    CodeSet::ConstantsOrigin origin;
    origin.keys = file_.names_;
    TENON_TRY(assembly_.set_constants(std::move(constants), std::move(origin), "jit_constants"));
    TENON_ASSIGN(ValueRef root, reader_.root());
    TENON_TRY(assembly_.set_root(std::move(root), "state_obj"));
    if (const Status status = read_bytecode(); !status.is_ok()) assembly_.leave_bytecode(status);
    return assembly_.finish(file_.storages_, *file_.ranges_->source());
  }

 private:
  Status read_code() {
    TENON_ASSIGN(std::vector<flatbuffer::NamedFile> sources, reader_.sources());
    for (flatbuffer::NamedFile& source : sources) {
      if (!value::is_qualified_name(source.name)) {
        return Status(Code::kCorrupt,
                      format("jit_sources: \"%.300s\" is no name of code", source.name.c_str()))
            .with("record", "jit_sources");
      }
      TENON_TRY(assembly_.keep(source.name, source.content.size()));
      TENON_TRY(assembly_.add_code(std::move(source.name), std::move(source.content)));
    }
    return Status::ok();
  }

  Status read_extra_files() {
    TENON_ASSIGN(std::vector<flatbuffer::NamedFile> files, reader_.extra_files());
    for (flatbuffer::NamedFile& file : files) {
      TENON_TRY(assembly_.keep(file.name, file.content.size()));
      assembly_.add_extra_file(std::move(file.name), std::move(file.content));
    }
    assembly_.add_misnamed_files();
    return Status::ok();
  }

  Status read_bytecode() {
    if (!is_of_pytorch(reader_) &&
        reader_.operator_version() != static_cast<uint32_t>(file_.version_)) {
      return {Code::kUnsupported,
              format("its operators are of version %u, and the code is of version %d",
                     reader_.operator_version(), file_.version_)};
    }
    TENON_ASSIGN(bytecode::Program program, reader_.program());
    TENON_TRY(assembly_.keep("the bytecode", bytecode::memory_nbytes(program)));
    return assembly_.keep_program(std::move(program), kConstantsFolder, file_.names_);
  }

  const OpenedFile& file_;
  ModuleReader& reader_;
  const std::vector<std::string>& classes_;
  Assembly assembly_;
};

// ModuleReader does not say which file it reads.
template <typename T>
Result<T> naming_file(Result<T> result, const std::string& name) {
  if (result.is_ok() || !result.status().message().starts_with("the flatbuffer")) return result;
  return Status(result.status().code(), name + ": " + result.status().message())
      .with_details_of(result.status());
}

Result<Ref<Module>> OpenedFile::finish() const {
  std::unique_ptr<FileValues> values(values_.exchange(nullptr, std::memory_order_acq_rel));
  if (!values) {
    TENON_ASSIGN(values, values_again());
  }
  return naming_file(Finish(*this, values.get()).run(), ranges_->source()->name());
}

}  // namespace

Result<std::unique_ptr<const DeferredImport>> open_flatbuffer(Ref<archive::ZipSource> source,
                                                              const std::string& label,
                                                              const ImportOptions& options) {
  const std::string name = source->name();
  TENON_ASSIGN(std::unique_ptr<const OpenedFile> file,
               naming_file(OpenedFile::open(std::move(source), label, options), name));
  return std::unique_ptr<const DeferredImport>(std::move(file));
}

Result<Ref<Module>> import_flatbuffer(Ref<archive::ZipSource> source, const std::string& label,
                                      const ImportOptions& options) {
  TENON_ASSIGN(std::unique_ptr<const DeferredImport> file,
               open_flatbuffer(std::move(source), label, options));
  if (options.defers && options.check != archive::Check::kAll)
    return Module::defer(std::move(file));
  return file->finish();
}

}  // namespace tenon::module
