#include "modules/module/export.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/zip_writer.h"
#include "modules/bytecode/program_writer.h"
#include "modules/compile/target.h"
#include "modules/module/code_check.h"
#include "modules/module/export_bytecode.h"
#include "modules/module/export_flatbuffer.h"
#include "modules/module/kept_bytecode.h"
#include "modules/module/pausing_sink.h"
#include "modules/module/resolve.h"
#include "modules/module/source_table.h"
#include "modules/module/storage_records.h"
#include "modules/value/tree_lock.h"

namespace tenon::module {

using archive::Compression;
using archive::SequentialKeys;
using archive::ZipWriter;
using value::StorageValueRef;

namespace {

// The same limit as in PyTorch: compressing a smaller record saves nothing worth the time.
constexpr size_t kMinToCompress = 200;
// From this version on, PyTorch writes the version where torch.package looks for it.
constexpr int kVersionInData = 6;

class Exporter {
 public:
  Exporter(ZipWriter* writer, const Resolved& resolved, const ExportOptions& options,
           const compile::Target& target)
      : writer_(writer),
        resolved_(&resolved),
        target_(&target),
        keep_device_(options.keep_device),
        storages_(writer, resolved, options.stream) {}

  Status write_extra_files(const std::vector<ExtraFile>& files) {
    for (const ExtraFile& file : files)
      TENON_TRY(writer_->add_text("extra/" + file.name, file.content));
    return Status::ok();
  }

  Status write_data() { return write_values("data", resolved_->root); }

  // Writes each file, followed by its debug table.
  Status write_code(std::span<const ExtraFile> debug_tables) {
    std::map<std::string_view, const ExtraFile*> tables;
    for (const ExtraFile& table : debug_tables) tables.emplace(table.name, &table);
    for (const ResolvedFile& file : resolved_->files) {
      const std::string name = code_record_of(file.qualifier);
      TENON_TRY(write_compressed(name, file.text));
      const auto table = tables.find(name + std::string(SourceTable::kEnd));
      if (table != tables.end())
        TENON_TRY(write_compressed(table->second->name, table->second->content));
    }
    return Status::ok();
  }

  // Writes the tables that write_code() did not write: those of bytecode, and of anything else than
  // a file of code.
  Status write_other_debug_tables(std::span<const ExtraFile> debug_tables) {
    for (const ExtraFile& table : debug_tables) {
      if (writer_->has(table.name)) continue;
      TENON_TRY(write_compressed(table.name, table.content));
    }
    return Status::ok();
  }

  Status write_constants() {
    const CodeSet::ConstantsOrigin* const origin = resolved_->constants_origin;
    std::vector<std::pair<std::string, StorageValueRef>> storages;
    std::set<std::string> used;
    archive::FromValuesOptions options;
    options.record = "constants.pkl";
    options.keep_device = keep_device_;
    if (origin != nullptr) options.memoised = &origin->memoised;
    options.name_storage = [&](const StorageValueRef& storage) -> Result<std::string> {
      std::string key = std::to_string(storages.size());
      // If the archive has bytecode, the keys of constants are not always 0, 1, 2. A storage that
      // was read keeps its key.
      if (origin != nullptr) {
        const auto known = origin->keys.find(storage->key());
        if (known != origin->keys.end()) key = known->second;
      }
      for (size_t next = storages.size(); !used.insert(key).second; ++next)
        key = std::to_string(next + 1);
      storages.emplace_back(key, storage);
      constant_keys_.emplace(storage->key(), key);
      return key;
    };
    const ValueRef root = value::Value::tuple(resolved_->constants);
    TENON_ASSIGN(const std::vector<std::byte> pickle, archive::values_to_pickle(root, options));
    for (const auto& [key, storage] : storages)
      TENON_TRY(storages_.write("constants/" + key, *storage));
    TENON_TRY(storages_.finish());
    return writer_->add("constants.pkl", pickle);
  }

  // Call this after write_constants(). The bytecode's tensors share the records of the constants.
  Status write_bytecode(const KeptBytecode& bytecode) {
    TENON_ASSIGN(const KeptBytecode::Record record, bytecode.record(keep_device_));
    for (const auto& [key, storage] : record.storages) {
      const std::string name = bytecode.directory() + key;
      if (!writer_->has(name)) TENON_TRY(storages_.write(name, *storage));
    }
    TENON_TRY(storages_.finish());
    return writer_->add_text("bytecode.pkl", record.pickle);
  }

  // Call this after write_constants(). A tensor that is also a constant of the code shares its
  // record, unless the target expects the bytecode's tensors elsewhere.
  Status write_program(const bytecode::Program& program) {
    TENON_ASSIGN(const ValueRef root, bytecode::program_value(program));
    if (target_->constants_apart) return write_values("bytecode", root);
    std::vector<std::pair<std::string, StorageValueRef>> storages;
    archive::FromValuesOptions options;
    options.record = "bytecode.pkl";
    options.keep_device = keep_device_;
    options.name_storage = [&](const StorageValueRef& storage) -> Result<std::string> {
      const auto known = constant_keys_.find(storage->key());
      if (known != constant_keys_.end()) return known->second;
      std::string key = std::to_string(constant_keys_.size());
      for (uint64_t next = constant_keys_.size(); writer_->has("constants/" + key); ++next)
        key = std::to_string(next + 1);
      storages.emplace_back(key, storage);
      constant_keys_.emplace(storage->key(), key);
      return key;
    };
    TENON_ASSIGN(const std::vector<std::byte> pickle, archive::values_to_pickle(root, options));
    for (const auto& [key, storage] : storages)
      TENON_TRY(storages_.write("constants/" + key, *storage));
    TENON_TRY(storages_.finish());
    return writer_->add("bytecode.pkl", pickle);
  }

  // Writes a pickle, <name>.pkl, and its tensors as <name>/0 and so on.
  Status write_values(const std::string& name, const ValueRef& root) {
    SequentialKeys keys;
    archive::FromValuesOptions options;
    options.record = name + ".pkl";
    options.name_storage = keys.namer();
    options.keep_device = keep_device_;
    options.none_name = target_->none_name;
    TENON_ASSIGN(const std::vector<std::byte> pickle, archive::values_to_pickle(root, options));
    for (size_t i = 0; i < keys.storages().size(); ++i) {
      TENON_TRY(storages_.write(name + "/" + std::to_string(i), *keys.storages()[i]));
    }
    TENON_TRY(storages_.finish());
    return writer_->add(options.record, pickle);
  }

  // Writes the shapes and types of the inputs, and no bytes.
  Status write_traced_inputs(const Package& package) {
    if (!package.traced_inputs) return Status::ok();
    if (!package.traced_inputs_pickle.empty()) {
      for (const std::string& record : package.traced_inputs_records)
        TENON_TRY(writer_->add(record, {}));
      return writer_->add_text("traced_inputs.pkl", package.traced_inputs_pickle);
    }
    SequentialKeys keys;
    archive::FromValuesOptions options;
    options.record = "traced_inputs.pkl";
    options.name_storage = keys.namer();
    TENON_ASSIGN(const std::vector<std::byte> pickle,
                 archive::values_to_pickle(package.traced_inputs, options));
    for (size_t i = 0; i < keys.storages().size(); ++i)
      TENON_TRY(writer_->add("traced_inputs/" + std::to_string(i), {}));
    return writer_->add("traced_inputs.pkl", pickle);
  }

  Status write_version() {
    const char* const name = resolved_->version >= kVersionInData ? ".data/version" : "version";
    TENON_TRY(writer_->add_text(name, std::to_string(resolved_->version) + "\n"));
    return writer_->add_text("byteorder", "little");
  }

 private:
  Status write_compressed(const std::string& name, const std::string& text) {
    return writer_->add_text(
        name, text, text.size() > kMinToCompress ? Compression::kDeflated : Compression::kStored);
  }

  ZipWriter* writer_;
  const Resolved* resolved_;
  const compile::Target* target_;
  bool keep_device_;
  StorageRecords storages_;
  // The keys of the storages in constants/.
  std::map<value::StorageKey, std::string> constant_keys_;
};

bool has(const std::vector<ExtraFile>& files, const std::string& name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ExtraFile& file) { return file.name == name; });
}

// Gives the extra files of the options, then the module's own, then the hook's.
Result<std::vector<ExtraFile>> all_extra_files(const Module& module, const ExportOptions& options,
                                               ExportReport* report) {
  std::vector<ExtraFile> files;
  for (const ExtraFile& file : options.extra_files) {
    if (has(files, file.name))
      return Status(Code::kInvalidArgument,
                    format("the extra file \"%.200s\" is given twice", file.name.c_str()));
    files.push_back(file);
  }
  for (const ExtraFile& file : module.package().extra_files) {
    if (!has(options.extra_files, file.name)) files.push_back(file);
  }
  if (!options.hook) return files;
  std::vector<ExtraFile> of_hook;
  {
    const value::PauseReading pause;
    TENON_TRY(options.hook(module, &of_hook));
  }
  for (ExtraFile& file : of_hook) {
    if (has(files, file.name))
      report->skipped_files.push_back(file.name);
    else
      files.push_back(std::move(file));
  }
  return files;
}

// The parts of the imported archive, besides the module, that an export writes again.
struct Carried {
  const KeptBytecode* bytecode = nullptr;  // null: none
  std::span<const ExtraFile> debug_tables;
};

Carried carried(const Package& package, const Resolved& resolved, const ExportOptions& options,
                ExportReport* report) {
  Carried found;
  const bool wants_bytecode = options.bytecode == Bytecode::kKeep;
  if (wants_bytecode && package.bytecode() != nullptr) {
    const Status fits = package.bytecode()->check_fits(resolved, package.report.version);
    if (fits.is_ok()) {
      found.bytecode = package.bytecode();
    } else {
      report->why_no_bytecode = fits.message();
    }
  } else if (wants_bytecode && !package.why_no_bytecode().is_ok()) {
    report->why_no_bytecode = package.why_no_bytecode().message();
  }
  if (found.bytecode != nullptr)
    report->bytecode_functions = found.bytecode->facts().functions.size();
  report->has_bytecode = found.bytecode != nullptr || options.bytecode == Bytecode::kCompile;
  // An export that compiles bytecode makes its own tables.
  if (!options.debug_tables || options.bytecode == Bytecode::kCompile ||
      package.debug_tables.empty())
    return found;
  const bool had_bytecode = package.found_bytecode || !package.unread_bytecode.is_ok();
  if (!resolved.is_as_read) {
    report->why_no_debug_tables =
        "the code of the module was changed, or is not the whole archive's";
  } else if (had_bytecode && found.bytecode == nullptr) {
    report->why_no_debug_tables = "the bytecode that some of them are about is not written";
  } else {
    found.debug_tables = package.debug_tables;
  }
  return found;
}

// Lowers the archive's version if the PyTorch for which the bytecode is made would refuse it.
// UNSUPPORTED if some code means something else in the lower version.
Status lower_version(const Module& module, const compile::Target& target, int file_version,
                     Resolved* resolved) {
  if (resolved->version <= target.newest_archive) return Status::ok();
  const std::string reader = format(
      "bytecode of version %lld is for PyTorch %s and later, and that PyTorch reads archives up to "
      "version %d",
      static_cast<long long>(target.version), std::string(target.torch).c_str(),
      target.newest_archive);
  if (file_version != 0)
    return Status(Code::kInvalidArgument,
                  format("%s: give no version of the archive, or one up to %d", reader.c_str(),
                         target.newest_archive));
  Result<Resolved> lowered = resolve(module, target.newest_archive);
  if (!lowered.is_ok())
    return Status(Code::kUnsupported, lowered.status().message() + "; " + reader +
                                          ". Give a newer version of bytecode");
  *resolved = std::move(lowered).value();
  return Status::ok();
}

// Bytecode of a lower version is for an old PyTorch. The newest may refuse calls that this one
// accepts.
CodeCheck check_of(const Resolved& resolved, const ExportOptions& options) {
  if (!options.check || resolved.is_as_read) return CodeCheck::kNone;
  const bool is_lowered =
      options.bytecode_version != 0 && options.bytecode_version < bytecode::Program::kVersion;
  return is_lowered ? CodeCheck::kRefusedByAll : CodeCheck::kRefusedByNewest;
}

}  // namespace

Status export_module(const Module& module, archive::Sink* sink, const ExportOptions& options,
                     ExportReport* report) {
  const value::ReadTrees reading;
  PausingSink pausing(sink);
  ExportReport found;
  std::vector<CodeSet::Export> locks;
  for (const Ref<CodeSet>& code : codes_below(module)) locks.emplace_back(code);
  TENON_ASSIGN(const std::vector<ExtraFile> extra_files, all_extra_files(module, options, &found));
  TENON_ASSIGN(Resolved resolved, resolve(module, options.file_version));
  Result<script::Declarations> code = declarations_of(resolved);
  TENON_ASSIGN(CodeNeeds needs, check_resolved(resolved, &code, check_of(resolved, options)));
  found.oldest_pytorch = std::move(needs.oldest_pytorch);

  if (options.form == Form::kFlatbuffer) {
    found.version = resolved.version;
    TENON_TRY(write_flatbuffer(module, &pausing, resolved, code, extra_files, options, &found));
    if (report != nullptr) *report = std::move(found);
    return Status::ok();
  }
  const bool compiles = options.bytecode == Bytecode::kCompile;
  // Kept bytecode keeps its version, so the option is ignored.
  const int bytecode_version = compiles && options.bytecode_version != 0
                                   ? options.bytecode_version
                                   : bytecode::Program::kVersion;
  TENON_ASSIGN(const compile::Target* const target, compile::target_of(bytecode_version));
  std::optional<MadeBytecode> made;
  if (compiles) {
    TENON_ASSIGN(made, make_bytecode(module.package(), resolved, code, options, &found));
    TENON_TRY(lower_version(module, *target, options.file_version, &resolved));
  }
  Carried extras = carried(module.package(), resolved, options, &found);
  if (made) extras.debug_tables = made->debug_tables;
  found.debug_tables = extras.debug_tables.size();
  archive::ZipWriterOptions writer_options;
  if (!options.archive_name.empty()) writer_options.prefix = options.archive_name;
  TENON_ASSIGN(ZipWriter writer, ZipWriter::create(&pausing, writer_options));
  Exporter exporter(&writer, resolved, options, *target);
  TENON_TRY(exporter.write_extra_files(extra_files));
  TENON_TRY(exporter.write_data());
  TENON_TRY(exporter.write_code(extras.debug_tables));
  TENON_TRY(exporter.write_constants());
  if (extras.bytecode != nullptr) TENON_TRY(exporter.write_bytecode(*extras.bytecode));
  if (made) TENON_TRY(exporter.write_program(made->program));
  TENON_TRY(exporter.write_other_debug_tables(extras.debug_tables));
  TENON_TRY(exporter.write_traced_inputs(module.package()));
  TENON_TRY(exporter.write_version());
  TENON_TRY(writer.finish());
  found.nbytes = writer.nbytes();
  found.records = writer.record_count();
  found.version = resolved.version;
  if (report != nullptr) *report = std::move(found);
  return Status::ok();
}

Result<std::string> archive_name_for(const std::string& given, const std::string& path) {
  std::string name = given.empty() ? archive::archive_name_of(path) : given;
  if (!name.empty()) return name;
  return Status(Code::kInvalidArgument,
                format("\"%.500s\" gives no name to the archive", path.c_str()))
      .with("path", path);
}

Status export_module(const Module& module, const std::string& path, archive::Durability durability,
                     const ExportOptions& options, ExportReport* report) {
  ExportOptions named = options;
  TENON_ASSIGN(named.archive_name, archive_name_for(options.archive_name, path));
  TENON_ASSIGN(archive::FileOutput file, archive::FileOutput::create(path));
  TENON_TRY(export_module(module, &file, named, report));
  return file.commit(durability);
}

Status Module::check() const {
  TENON_ASSIGN(const Resolved resolved, resolve(*this, 0));
  // PyTorch wrote an unchanged module, and the version that wrote it accepts it.
  return check_resolved(
             resolved, resolved.is_as_read ? CodeCheck::kRefusedByAll : CodeCheck::kRefusedByNewest)
      .status();
}

}  // namespace tenon::module
