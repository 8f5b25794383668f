#include "modules/module/package_archive.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "modules/archive/file_mapping.h"
#include "modules/module/archive_kind.h"
#include "modules/module/assembly.h"
#include "modules/module/module_parts.h"
#include "os/file_kind.h"
#include "pickle/reader.h"

namespace tenon::module {

using archive::ZipReader;
using archive::ZipRecord;
using pickle::NodeId;
using pickle::NodeKind;
using pickle::PickleTree;

namespace {

constexpr std::string_view kRootEnd = "/data.pkl";
// A pickle of one module has about 100 bytes. A longer one holds something else too.
constexpr uint64_t kMostOfOneModule = 4096;
constexpr size_t kMostExternsNbytes = size_t{1} << 20;
constexpr size_t kMostListed = 10;

// Gives the id of the module for which a persistent id stands, or nothing if it stands for
// something else. "reduce_package" is followed by a number, a function and its arguments.
std::optional<std::string_view> module_of(const PickleTree& tree, std::span<const NodeId> id) {
  if (id.size() != 4 || tree.kind(id[0]) != NodeKind::kStr || tree.text(id[0]) != "reduce_package")
    return std::nullopt;
  if (tree.kind(id[2]) != NodeKind::kGlobal || tree.module(id[2]) != kUnpackModule ||
      tree.name(id[2]) != kUnpackFunction)
    return std::nullopt;
  if (tree.kind(id[3]) != NodeKind::kTuple) return std::nullopt;
  const std::span<const NodeId> arguments = tree.children(id[3]);
  if (arguments.size() != 1 || tree.kind(arguments[0]) != NodeKind::kStr) return std::nullopt;
  return tree.text(arguments[0]);
}

// Gives the record of the storage for which a persistent id stands. Python writes the number of a
// storage as an int or as text.
std::optional<std::string> storage_of(const PickleTree& tree, std::span<const NodeId> id) {
  if (id.size() < 3 || tree.kind(id[0]) != NodeKind::kStr || tree.text(id[0]) != "storage")
    return std::nullopt;
  std::string key(kPackageData);
  if (tree.kind(id[2]) == NodeKind::kInt)
    key += std::to_string(tree.integer(id[2]));
  else if (tree.kind(id[2]) == NodeKind::kStr)
    key += tree.text(id[2]);
  else
    return std::nullopt;
  return key += kPackageStorageEnd;
}

std::span<const NodeId> persistent_tuple(const PickleTree& tree, NodeId node) {
  if (tree.kind(node) != NodeKind::kPersistent) return {};
  const NodeId id = tree.persistent_id(node);
  if (tree.kind(id) != NodeKind::kTuple) return {};
  return tree.children(id);
}

// Whether the bytes begin as every pickle does, whatever its name is. Code and text never begin
// like this.
bool is_pickle(const std::vector<std::byte>& bytes) noexcept {
  return !bytes.empty() && bytes[0] == std::byte{0x80};
}

Result<PickleTree> read_tree(const std::vector<std::byte>& bytes, std::string_view record,
                             const pickle::PickleLimits& limits) {
  pickle::PickleReadOptions options;
  options.dialect = pickle::PickleDialect::kGeneral;
  options.limits = limits;
  options.record = std::string(record);
  return pickle::read_pickle(bytes, options);
}

}  // namespace

PackageArchive::PackageArchive(std::string label, Ref<ZipReader> reader,
                               const ImportOptions& options)
    : label_(std::move(label)),
      reader_(std::move(reader)),
      options_(options),
      arena_(Ref<memory::Arena>::share(options.storage.arena)),
      foreign_endian_(module::is_foreign_endian(*reader_)),
      storages_(*reader_, options_, foreign_endian_, nullptr) {}

Result<Ref<PackageArchive>> PackageArchive::open(const std::string& path,
                                                 const ImportOptions& options) {
  TENON_TRY(check_devices(options));
  TENON_ASSIGN(Ref<archive::ZipSource> file, archive::FileMapping::open(path));
  std::string label = "package " + path.substr(path.rfind('/') + 1);
  TENON_ASSIGN(Ref<ZipReader> reader, open_archive(std::move(file), options));
  if (!reader->has(kPackageExterns)) {
    const bool is_module = reader->has("data.pkl") && reader->has("constants.pkl");
    return Status(
        Code::kUnsupported,
        format("%s is no torch.package archive: it has no record .data/extern_modules.%s",
               label.c_str(),
               is_module ? " It is a module archive. Open it with tenon_import_module" : ""));
  }
  auto package =
      Ref<PackageArchive>::adopt(new PackageArchive(std::move(label), std::move(reader), options));
  TENON_ASSIGN(package->version_, read_version(*package->reader_));
  TENON_TRY(package->read_externs());
  package->find_entries();
  return package;
}

Status PackageArchive::read_externs() {
  const ZipRecord& record = *reader_->find(std::string(kPackageExterns));
  const auto wrong = [&](const std::string& what) {
    return Status(Code::kCorrupt, std::string(record.name) + ": " + what)
        .with("record", std::string(record.name));
  };
  if (record.nbytes > kMostExternsNbytes)
    return wrong(format("it has more than %zu bytes", kMostExternsNbytes));
  TENON_ASSIGN(const std::string text, reader_->read_text(record));
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string name = text.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    if (!value::is_qualified_name(name))
      return wrong(format("\"%.300s\" is no name of a Python module", name.c_str()));
    externs_.push_back(std::move(name));
  }
  return Status::ok();
}

void PackageArchive::find_entries() {
  std::map<std::string, std::string, std::less<>> resources;  // by module id
  for (const ZipRecord& record : reader_->records()) {
    const std::string_view name = record.name;
    if (name.starts_with(kPackageModules) && name.ends_with(kRootEnd)) {
      const size_t length = name.size() - kPackageModules.size();
      const std::string_view id =
          length <= kRootEnd.size() ? ""
                                    : name.substr(kPackageModules.size(), length - kRootEnd.size());
      if (!id.empty() && id.find('/') == std::string_view::npos)
        entries_.push_back({std::string(id), {}});
    } else if (!name.starts_with(kPackageData) && record.nbytes <= kMostOfOneModule) {
      auto bytes = reader_->read(record);
      if (!bytes.is_ok() || !is_pickle(bytes.value())) continue;
      auto tree = read_tree(bytes.value(), record.name, options_.pickle_limits);
      if (!tree.is_ok()) continue;
      const auto id = module_of(tree.value(), persistent_tuple(tree.value(), tree.value().root()));
      if (id) resources.try_emplace(std::string(*id), record.name);
    }
  }
  for (Entry& entry : entries_) {
    const auto resource = resources.find(entry.id);
    if (resource != resources.end()) entry.resource = resource->second;
  }
}

Result<Ref<Module>> PackageArchive::module(std::string_view name) {
  const auto is_it = [&](const Entry& entry) { return entry.resource == name || entry.id == name; };
  const auto entry = std::find_if(entries_.begin(), entries_.end(), is_it);
  if (entry == entries_.end()) {
    std::string names;
    for (size_t i = 0; i < entries_.size() && i < kMostListed; ++i)
      names += (i == 0 ? "" : ", ") + entries_[i].name();
    if (entries_.size() > kMostListed)
      names += format(", and %zu more", entries_.size() - kMostListed);
    return Status(Code::kNotFound,
                  format("%s has no script module \"%.300s\". %s%s", label_.c_str(),
                         std::string(name).c_str(),
                         names.empty() ? "It has none at all" : "It has ", names.c_str()))
        .with("name", std::string(name));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = modules_.find(entry->id);
  if (known != modules_.end()) return known->second;
  TENON_ASSIGN(Ref<Module> module, import(entry->id));
  return modules_.emplace(entry->id, std::move(module)).first->second;
}

Ref<Module> PackageArchive::find_read(std::string_view id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = modules_.find(id);
  return known == modules_.end() ? nullptr : known->second;
}

Result<Ref<Module>> PackageArchive::import(const std::string& id) {
  Assembly assembly(label_ + ", module " + id, options_);
  // The code of this package is the code of all its modules.
  assembly.package().is_whole_archive = false;
  storages_.count_in(&assembly.report());
  ModuleParts parts(*reader_, options_, &assembly, &storages_);
  assembly.start_code(version_);
  assembly.report().archive_name = reader_->prefix();
  assembly.report().records = reader_->records().size();
  for (const ZipRecord& record : reader_->records()) {
    if (ModuleParts::is_code(kPackageModules, record.name))
      TENON_TRY(parts.read_code(kPackageModules, record));
  }
  const std::string folder = std::string(kPackageModules) + id;
  const std::string storages(kPackageData);
  TENON_TRY(parts.read_constants(folder + "/constants.pkl", storages, ModuleParts::Keep::kKeys));
  const std::string root = folder + std::string(kRootEnd);
  TENON_ASSIGN(archive::UnpickledValue data,
               parts.read_values(root, storages, ModuleParts::Keep::kKeys));
  TENON_TRY(assembly.set_root(std::move(data.root), root.c_str()));
  TENON_TRY(storages_.finish());
  return assembly.finish(storages_, *reader_->source());
}

Result<std::string> PackageArchive::read_text(std::string_view name) const {
  const ZipRecord* const record = reader_->find(std::string(name));
  if (record != nullptr) return reader_->read_text(*record);
  return Status(Code::kNotFound,
                format("%s has no record \"%.300s\"", label_.c_str(), std::string(name).c_str()))
      .with("name", std::string(name));
}

ArchiveStorages::Keys PackageArchive::storage_keys() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return storages_.keys();
}

PackageArchive::Mentions PackageArchive::mentions_of(const ZipRecord& record) const {
  Mentions found;
  std::byte first{};
  uint32_t crc = 0;
  const bool may_be_pickle =
      record.nbytes != 0 &&
      (record.deflated ||
       (reader_->read_piece(record, 0, {&first, 1}, &crc).is_ok() && first == std::byte{0x80}));
  if (!may_be_pickle) return found;
  found.is_known = false;
  if (record.nbytes > options_.pickle_limits.max_nbytes) return found;
  auto bytes = reader_->read(record);
  if (!bytes.is_ok()) return found;
  if (!is_pickle(bytes.value())) return {};
  auto read = read_tree(bytes.value(), record.name, options_.pickle_limits);
  if (!read.is_ok()) return found;
  const PickleTree& tree = read.value();
  for (NodeId node = 0; node < tree.count(); ++node) {
    const std::span<const NodeId> id = persistent_tuple(tree, node);
    if (id.empty()) continue;
    if (const auto module = module_of(tree, id)) found.modules.emplace_back(*module);
    if (auto storage = storage_of(tree, id)) found.storages.push_back(std::move(*storage));
  }
  found.is_known = true;
  return found;
}

}  // namespace tenon::module
