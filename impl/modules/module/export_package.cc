#include "modules/module/export_package.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/zip_names.h"
#include "modules/archive/zip_writer.h"
#include "modules/module/code_check.h"
#include "modules/module/pausing_sink.h"
#include "modules/module/resolve.h"
#include "modules/module/storage_records.h"
#include "modules/value/tree_lock.h"
#include "pickle/writer.h"

namespace tenon::module {

using archive::Compression;
using archive::SourceKind;
using archive::ZipRecord;
using archive::ZipWriter;
using pickle::Opcode;
using pickle::PickleWriter;
using value::StorageValue;
using value::StorageValueRef;
using value::Value;

namespace {

constexpr std::string_view kByteOrder = "byteorder";
// The records of a base that are made anew or are not needed.
constexpr std::string_view kRemade[] = {kPackageExterns, ".data/version", ".data/serialization_id",
                                        "version", kByteOrder};

struct PlannedModule {
  std::string id;
  Ref<Module> module;
};

// The plan of all that is written, made before anything is written.
struct Plan {
  std::vector<PlannedModule> modules;
  std::map<const Value*, size_t> index_of;  // the module's index, by its object
  std::vector<const ZipRecord*> carried;    // records of the base
  // Records of the base; written only if no module has them.
  std::set<std::string> carried_storages;
  bool all_storages = false;  // all storages of the base are written
  std::vector<std::string> externs;

  bool has(const Module& module) const { return index_of.contains(module.object().get()); }
  void add(std::string id, Ref<Module> module) {
    index_of.emplace(module->object().get(), modules.size());
    modules.push_back({std::move(id), std::move(module)});
  }
};

bool is_storage_record(std::string_view name) {
  return name.starts_with(kPackageData) && name.ends_with(kPackageStorageEnd);
}

// Gives "a.b" for "a/b/c.pkl". The result is not a valid package name if a folder's name has a dot.
std::string python_package_of(std::string_view name) {
  std::string package(name.substr(0, std::min(name.rfind('/'), name.size())));
  if (package.size() == name.size() || package.find('.') != std::string::npos) return {};
  std::replace(package.begin(), package.end(), '/', '.');
  return package;
}

// PyTorch refuses a package with a record that lies inside one of its extern modules.
Status check_externs(std::span<const std::string> externs, std::string_view record) {
  const std::string package = python_package_of(record);
  for (const std::string& name : externs) {
    if (package != name && !package.starts_with(name + ".")) continue;
    return Status(Code::kInvalidArgument,
                  format("\"%.300s\" lies in the Python module %.300s, which is extern: PyTorch "
                         "opens no such package. Give the record "
                         "another folder, or take the module from the externs",
                         std::string(record).c_str(), name.c_str()))
        .with("name", std::string(record));
  }
  return Status::ok();
}

Status check_entries(std::span<const PackageEntry> entries) {
  std::set<std::string_view> names;
  for (const PackageEntry& entry : entries) {
    const std::string_view name = entry.name;
    const auto wrong = [&](const std::string& what) {
      return Status(Code::kInvalidArgument,
                    format("the name \"%.300s\" of an entry %s", entry.name.c_str(), what.c_str()))
          .with("name", entry.name);
    };
    if (const char* const fault = archive::find_name_fault(name)) return wrong(fault);
    if (name.starts_with(kPackageData) || name == ".data" || name == kByteOrder ||
        name == "version")
      return wrong("is one of the package's own: choose another, such as \"models/net.pkl\"");
    if (entry.module && !value::is_qualified_name(python_package_of(name)))
      return wrong(
          "has no Python package before its last \"/\": give a name such as \"models/net.pkl\"");
    if (!names.insert(name).second) return wrong("is given twice");
  }
  return Status::ok();
}

// Plans which modules of the base are needed, and which of its records are carried.
Status plan_base(std::span<const PackageEntry> entries, PackageArchive& base, Plan* plan) {
  if (base.is_foreign_endian()) {
    return {Code::kUnsupported, base.label() +
                                    " is big-endian, and its pickles and files are written as they "
                                    "are: load and save it with "
                                    "torch.package once, on a machine of its kind"};
  }
  std::set<std::string, std::less<>> needed;
  bool needs_all = false;
  for (const ZipRecord& record : base.reader().records()) {
    const std::string_view name = record.name;
    if (name.starts_with(kPackageModules) || is_storage_record(name)) continue;
    if (std::find(std::begin(kRemade), std::end(kRemade), name) != std::end(kRemade)) continue;
    if (std::any_of(entries.begin(), entries.end(),
                    [&](const PackageEntry& entry) { return entry.name == name; }))
      continue;
    plan->carried.push_back(&record);
    PackageArchive::Mentions found = base.mentions_of(record);
    needs_all = needs_all || !found.is_known;
    needed.insert(found.modules.begin(), found.modules.end());
    plan->carried_storages.insert(found.storages.begin(), found.storages.end());
  }
  plan->all_storages = needs_all;
  for (const PackageArchive::Entry& entry : base.entries()) {
    // A module that is given as an entry was read before. A damaged module of the base is no error
    // if nothing needs it.
    Ref<Module> module = base.find_read(entry.id);
    const auto is_it = [&](const PackageEntry& given) {
      return given.module && given.module->object().get() == module->object().get();
    };
    const bool is_given = module && std::any_of(entries.begin(), entries.end(), is_it);
    if (!needs_all && !needed.contains(entry.id) && !is_given) continue;
    TENON_ASSIGN(module, base.module(entry.id));
    plan->add(entry.id, std::move(module));
  }
  return Status::ok();
}

// Lists the extern modules: the one that every pickle of a module needs, those of the base and
// those of the options. PyTorch refuses an empty list.
std::vector<std::string> all_externs(const PackageOptions& options) {
  std::vector<std::string> names{std::string(kUnpackModule)};
  const auto add = [&names](const std::vector<std::string>& more) {
    for (const std::string& name : more) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  };
  if (options.base) add(options.base->externs());
  add(options.externs);
  return names;
}

Result<Plan> make_plan(std::span<const PackageEntry> entries, const PackageOptions& options) {
  Plan plan;
  plan.externs = all_externs(options);
  for (const PackageEntry& entry : entries) TENON_TRY(check_externs(plan.externs, entry.name));
  std::set<std::string> ids{"code"};
  if (options.base) {
    TENON_TRY(plan_base(entries, *options.base, &plan));
    for (const PackageArchive::Entry& entry : options.base->entries()) ids.insert(entry.id);
  }
  uint64_t next = 0;
  for (const PackageEntry& entry : entries) {
    if (!entry.module || plan.has(*entry.module)) continue;
    std::string id = std::to_string(next);
    while (!ids.insert(id).second) id = std::to_string(++next);
    plan.add(std::move(id), entry.module);
  }
  for (const ZipRecord* record : plan.carried) TENON_TRY(check_externs(plan.externs, record->name));
  return plan;
}

// PyTorch writes version 6 for any code, and then refuses code that needs a later one. So the code
// is written as version 10 if it means the same there.
Result<Resolved> resolve_newest(std::span<const Ref<Module>> modules) {
  Result<Resolved> newest = resolve(modules, kNewCodeVersion);
  if (newest.is_ok() || newest.status().code() != Code::kInvalidArgument) return newest;
  Result<Resolved> by_rule = resolve(modules, 0);
  return by_rule.is_ok() ? std::move(by_rule) : std::move(newest);
}

class PackageWriter {
 public:
  PackageWriter(ZipWriter* writer, const Plan& plan, const Resolved& resolved,
                const PackageOptions& options)
      : writer_(writer),
        plan_(plan),
        resolved_(resolved),
        options_(options),
        storages_(writer, resolved, options.stream) {
    if (!options.base) return;
    of_base_ = options.base->storage_keys();
    for (const ZipRecord& record : options.base->reader().records()) {
      if (is_storage_record(record.name)) taken_.emplace(record.name.substr(kPackageData.size()));
    }
  }

  // Writes the modules. Each gets the constants of all modules, in the same bytes.
  Status write_modules() {
    std::vector<std::byte> constants;
    for (size_t i = 0; i < plan_.modules.size(); ++i) {
      const std::string folder = std::string(kPackageModules) + plan_.modules[i].id;
      const ValueRef& root = i == 0 ? resolved_.root : resolved_.more_roots[i - 1];
      TENON_ASSIGN(const std::vector<std::byte> data, pickle_of(folder + "/data.pkl", root));
      TENON_TRY(writer_->add(folder + "/data.pkl", data));
      const std::string record = folder + "/constants.pkl";
      if (i == 0) {
        TENON_ASSIGN(constants, pickle_of(record, Value::tuple(resolved_.constants)));
      }
      TENON_TRY(writer_->add(record, constants));
    }
    return Status::ok();
  }

  Status write_entries(std::span<const PackageEntry> entries) {
    for (const PackageEntry& entry : entries) {
      TENON_TRY(entry.module
                    ? write_resource(entry.name, plan_.index_of.at(entry.module->object().get()))
                    : writer_->add(entry.name, entry.bytes));
    }
    return Status::ok();
  }

  Status write_carried() {
    if (!options_.base) return Status::ok();
    for (const ZipRecord* record : plan_.carried) TENON_TRY(carry(*record));
    for (const ZipRecord& record : options_.base->reader().records()) {
      if (!is_storage_record(record.name) || writer_->has(record.name)) continue;
      if (plan_.all_storages || plan_.carried_storages.contains(std::string(record.name)))
        TENON_TRY(carry(record));
    }
    return Status::ok();
  }

  Status write_code() {
    for (const ResolvedFile& file : resolved_.files) {
      const std::string name = std::string(kPackageModules) + code_record_of(file.qualifier);
      TENON_TRY(writer_->add_text(name, file.text, Compression::kDeflated));
    }
    return Status::ok();
  }

  Status write_externs() {
    std::string text;
    for (const std::string& name : plan_.externs) text += name + "\n";
    return writer_->add_text(kPackageExterns, text);
  }

  Status write_version() {
    TENON_TRY(writer_->add_text(".data/version", std::to_string(resolved_.version) + "\n"));
    return writer_->add_text(kByteOrder, "little");
  }

 private:
  // Gives the name of a storage's record. A storage has one record for all modules and pickles.
  Result<std::string> name_of(const StorageValueRef& storage) {
    const auto [place, is_new] = names_.try_emplace(storage->key());
    if (!is_new) return place->second;
    const auto of_base = of_base_.find(storage->key());
    if (of_base != of_base_.end()) {
      place->second = of_base->second;
    } else {
      do place->second = std::to_string(next_++) + std::string(kPackageStorageEnd);
      while (!taken_.insert(place->second).second);
    }
    new_.emplace_back(place->second, storage);
    return place->second;
  }

  // Pickles the values, and writes the storages that the pickle names for the first time.
  Result<std::vector<std::byte>> pickle_of(const std::string& record, const ValueRef& root) {
    archive::FromValuesOptions options;
    options.record = record;
    options.keep_device = options_.keep_device;
    options.name_storage = [this](const StorageValueRef& storage) { return name_of(storage); };
    TENON_ASSIGN(std::vector<std::byte> pickle, archive::values_to_pickle(root, options));
    for (const auto& [name, storage] : new_)
      TENON_TRY(write_storage(std::string(kPackageData) + name, storage));
    new_.clear();
    TENON_TRY(storages_.finish());
    return pickle;
  }

  Status write_storage(const std::string& name, const StorageValueRef& storage) {
    // Two storages of different element types share this record, and it is written already.
    if (writer_->has(name)) return Status::ok();
    if (of_base_.find(storage->key()) == of_base_.end() || !storage->bytes())
      return storages_.write(name, *storage);
    // A carried pickle may use more of the record than this module does, so the whole record is
    // written.
    TENON_ASSIGN(const StorageValueRef whole,
                 StorageValue::create(tensor::ScalarType::kByte, storage->bytes()->nbytes(),
                                      storage->bytes()));
    return storages_.write(name, *whole);
  }

  // Writes the pickle that torch.package makes of a script module. `index` tells the objects of a
  // package apart.
  Status write_resource(const std::string& name, size_t index) {
    PickleWriter pickle;
    pickle.opcode(Opcode::kMark);
    pickle.text("reduce_package");
    pickle.integer(static_cast<int64_t>(index));
    pickle.global(kUnpackModule, kUnpackFunction);
    pickle.text(plan_.modules[index].id);
    pickle.short_tuple(1);
    pickle.opcode(Opcode::kTuple);
    pickle.opcode(Opcode::kBinPersId);
    return writer_->add(name, pickle.finish());
  }

  Status carry(const ZipRecord& record) {
    const archive::ZipReader& reader = options_.base->reader();
    if (record.deflated) {
      TENON_ASSIGN(const std::vector<std::byte> bytes, reader.read(record));
      return writer_->add(record.name, bytes, Compression::kDeflated);
    }
    TENON_TRY(reader.verify(record));
    return writer_->add(record.name, reader.view(record), Compression::kStored,
                        SourceKind::kMappedFile);
  }

  ZipWriter* writer_;
  const Plan& plan_;
  const Resolved& resolved_;
  const PackageOptions& options_;
  StorageRecords storages_;
  ArchiveStorages::Keys of_base_;
  std::set<std::string> taken_;                     // the names of storages
  std::map<value::StorageKey, std::string> names_;  // the storages that a pickle names
  // The storages that the last pickle named for the first time.
  std::vector<std::pair<std::string, StorageValueRef>> new_;
  uint64_t next_ = 0;
};

}  // namespace

Status export_package(std::span<const PackageEntry> entries, archive::Sink* sink,
                      const PackageOptions& options, ExportReport* report) {
  TENON_TRY(check_entries(entries));
  for (const std::string& name : options.externs) {
    if (!value::is_qualified_name(name))
      return Status(
          Code::kInvalidArgument,
          format("the extern module \"%.300s\" is no name of a Python module", name.c_str()));
  }
  TENON_ASSIGN(const Plan plan, make_plan(entries, options));
  const value::ReadTrees reading;
  PausingSink pausing(sink);
  ExportReport found;
  std::vector<CodeSet::Export> locks;
  std::vector<Ref<Module>> modules;
  for (const PlannedModule& planned : plan.modules) {
    for (const Ref<CodeSet>& code : codes_below(*planned.module)) locks.emplace_back(code);
    modules.push_back(planned.module);
  }
  Resolved resolved;
  resolved.version = kNewCodeVersion;
  if (!modules.empty()) {
    TENON_ASSIGN(resolved, resolve_newest(modules));
    const auto is_changed = [](const Ref<CodeSet>& code) { return code->is_changed(); };
    const bool checks =
        options.check && std::any_of(resolved.codes.begin(), resolved.codes.end(), is_changed);
    TENON_ASSIGN(CodeNeeds needs,
                 check_resolved(resolved, checks ? CodeCheck::kRefusedByNewest : CodeCheck::kNone));
    found.oldest_pytorch = std::move(needs.oldest_pytorch);
  }
  archive::ZipWriterOptions writer_options;
  if (!options.archive_name.empty()) writer_options.prefix = options.archive_name;
  TENON_ASSIGN(ZipWriter zip, ZipWriter::create(&pausing, writer_options));
  PackageWriter writer(&zip, plan, resolved, options);
  TENON_TRY(writer.write_modules());
  TENON_TRY(writer.write_entries(entries));
  TENON_TRY(writer.write_carried());
  TENON_TRY(writer.write_externs());
  TENON_TRY(writer.write_code());
  TENON_TRY(writer.write_version());
  TENON_TRY(zip.finish());
  found.nbytes = zip.nbytes();
  found.records = zip.record_count();
  found.version = resolved.version;
  if (report != nullptr) *report = std::move(found);
  return Status::ok();
}

Status export_package(std::span<const PackageEntry> entries, const std::string& path,
                      archive::Durability durability, const PackageOptions& options,
                      ExportReport* report) {
  PackageOptions named = options;
  TENON_ASSIGN(named.archive_name, archive_name_for(options.archive_name, path));
  TENON_ASSIGN(archive::FileOutput file, archive::FileOutput::create(path));
  TENON_TRY(export_package(entries, &file, named, report));
  return file.commit(durability);
}

}  // namespace tenon::module
