#include "modules/module/import_flatbuffer.h"

#include <map>
#include <utility>
#include <vector>

#include "modules/archive/zip_reader.h"
#include "modules/bytecode/program.h"
#include "modules/flatbuffer/module_reader.h"
#include "modules/module/assembly.h"
#include "modules/module/code.h"
#include "modules/module/import_storages.h"
#include "modules/module/kept_bytecode.h"

namespace tenon::module {

using archive::ZipReader;
using flatbuffer::ModuleReader;
using value::StorageValueRef;

namespace {

// The folder in which an archive has the storages of constants and of bytecode.
constexpr const char* kConstantsFolder = "constants/";

class FlatbufferImporter {
 public:
  FlatbufferImporter(ModuleReader reader, Ref<ZipReader> ranges, const std::string& label,
                     const ImportOptions& options)
      : reader_(std::move(reader)),
        ranges_(std::move(ranges)),
        assembly_(label, options),
        storages_(*ranges_, options, false, &assembly_.report()) {}

  Result<Ref<Module>> run() {
    TENON_ASSIGN(const int version, read_version());
    assembly_.start_code(version);
    assembly_.report().records = ranges_->records().size();
    TENON_TRY(read_code());
    TENON_TRY(read_extra_files());
    assembly_.allow_steps(reader_.nbytes());
    TENON_TRY(reader_.read_values(
        [this](uint32_t index, tensor::ScalarType type) { return find_storage(index, type); },
        [this](const std::string& name) { return assembly_.check_class(name); }));
    TENON_ASSIGN(std::vector<ValueRef> constants, reader_.constants());
    CodeSet::ConstantsOrigin origin;
    origin.keys = names_;
    TENON_TRY(assembly_.set_constants(std::move(constants), std::move(origin), "jit_constants"));
    TENON_ASSIGN(ValueRef root, reader_.root());
    TENON_TRY(assembly_.set_root(std::move(root), "state_obj"));
    if (const Status status = read_bytecode(version); !status.is_ok())
      assembly_.leave_bytecode(status);
    TENON_TRY(storages_.finish());
    return assembly_.finish(storages_, *ranges_->source());
  }

 private:
  // PyTorch writes 9 as the version of any code. As the version of the bytecode's operators, it
  // writes the lowest version that has them all. In both cases the operators have the meaning of
  // the newest version.
  static constexpr uint32_t kOfPyTorch = 9;

  bool is_of_pytorch() const {
    return reader_.bytecode_version() == kOfPyTorch && reader_.operator_version() != kOfPyTorch;
  }

  Result<int> read_version() const {
    if (is_of_pytorch()) return kNewestVersion;
    const uint32_t version = reader_.bytecode_version();
    if (version >= kOldestVersion && version <= kNewestVersion) return static_cast<int>(version);
    return Status(Code::kUnsupported,
                  format("bytecode_version is %u, and it is known from %d to %d", version,
                         kOldestVersion, kNewestVersion))
        .with("record", "bytecode_version");
  }

  Status read_code() {
    TENON_ASSIGN(std::vector<flatbuffer::NamedFile> sources, reader_.sources());
    if (sources.empty()) {
      return Status(Code::kUnsupported, format("%s is a module for the lite interpreter alone: it "
                                               "has bytecode and no code. Save the "
                                               "module by torch.jit.save",
                                               assembly_.label().c_str()));
    }
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

  Result<StorageValueRef> find_storage(uint32_t index, tensor::ScalarType type) {
    StorageValueRef& known = known_[{index, type}];
    if (!known) {
      TENON_ASSIGN(known, storages_.whole(index, type));
      names_.emplace(known->key(), std::to_string(index));
    }
    return known;
  }

  Status read_bytecode(int version) {
    if (!is_of_pytorch() && reader_.operator_version() != static_cast<uint32_t>(version)) {
      return {Code::kUnsupported,
              format("its operators are of version %u, and the code is of version %d",
                     reader_.operator_version(), version)};
    }
    TENON_ASSIGN(bytecode::Program program, reader_.program());
    TENON_TRY(assembly_.keep("the bytecode", bytecode::memory_nbytes(program)));
    return assembly_.keep_program(std::move(program), kConstantsFolder, std::move(names_));
  }

  ModuleReader reader_;
  Ref<ZipReader> ranges_;
  Assembly assembly_;
  ArchiveStorages storages_;
  std::map<std::pair<uint32_t, tensor::ScalarType>, StorageValueRef> known_;
  // Each storage's place in the file, as the name of a record.
  std::map<value::StorageKey, std::string> names_;
};

Result<Ref<Module>> read_flatbuffer_module(Ref<archive::ZipSource> source, const std::string& label,
                                           const ImportOptions& options) {
  TENON_ASSIGN(ModuleReader reader, ModuleReader::open(*source, options.pickle_limits));
  // DeviceFiller recognises the storages of a file by this prefix.
  Ref<ZipReader> storages = ZipReader::of_ranges(std::move(source), reader.storages(), "data/");
  return FlatbufferImporter(std::move(reader), std::move(storages), label, options).run();
}

}  // namespace

Result<Ref<Module>> import_flatbuffer(Ref<archive::ZipSource> source, const std::string& label,
                                      const ImportOptions& options) {
  const std::string name = source->name();
  Result<Ref<Module>> module = read_flatbuffer_module(std::move(source), label, options);
  if (module.is_ok() || !module.status().message().starts_with("the flatbuffer")) return module;
  // ModuleReader does not say which file it reads.
  return Status(module.status().code(), name + ": " + module.status().message())
      .with_details_of(module.status());
}

}  // namespace tenon::module
