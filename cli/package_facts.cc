#include "package_facts.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "module_input.h"
#include "modules/archive/file_mapping.h"
#include "modules/module/code_check.h"
#include "package_externs.h"

namespace tenon::cli {
namespace {

using archive::ZipReader;
using archive::ZipRecord;
using module::PackageArchive;

// The damaged records by name. The bytes of such a record are not those that were written.
using Damage = std::map<std::string, Status, std::less<>>;

Damage find_damage(const ZipReader& container) {
  Damage damage;
  for (const ZipRecord& record : container.records()) {
    Status status = container.verify(record);
    if (!status.is_ok()) damage.emplace(record.name, std::move(status));
  }
  return damage;
}

class PackageGatherer {
 public:
  PackageGatherer(const ArchiveInput& input, PackageFacts* facts, Damage damage) noexcept
      : input_(input), facts_(facts), damage_(std::move(damage)) {}

  void gather() {
    const std::span<const PackageArchive::Entry> entries = facts_->package->entries();
    for (const PackageArchive::Entry& entry : entries) gather_entry(entry);
    add_totals();
    for (auto& [name, status] : damage_) {
      if (!told_.contains(name)) facts_->wrong_records.push_back(of_file(input_, status));
    }
  }

 private:
  struct Met {
    uint64_t nbytes = 0;
    uint64_t modules = 0;
  };

  void gather_entry(const PackageArchive::Entry& entry) {
    PackagedModule fact;
    fact.id = entry.id;
    fact.resource = entry.resource;
    ArchiveFacts found;
    Status status = read(entry, &found);
    if (status.is_ok()) status = found.why_not_taken;
    if (status.is_ok()) status = damage_of(entry);
    if (!status.is_ok()) told_.emplace(status.detail("record"));
    fact.wrong = of_module(input_, entry, status);
    if (found.root) describe(found, &fact);
    add_new(found.warnings, &facts_->warnings);
    add_new(found.partly_refused, &facts_->partly_refused);
    facts_->modules.push_back(std::move(fact));
  }

  static void add_new(const std::vector<std::string>& lines, std::vector<std::string>* all) {
    for (const std::string& line : lines) {
      if (std::find(all->begin(), all->end(), line) == all->end()) all->push_back(line);
    }
  }

  Status read(const PackageArchive::Entry& entry, ArchiveFacts* found) {
    TENON_ASSIGN(const Ref<module::Module> root, facts_->package->module(entry.id));
    return gather_module(root, found);
  }

  // The first damaged record among those that an import maps and does not read.
  Status damage_of(const PackageArchive::Entry& entry) {
    if (damage_.empty()) return Status::ok();
    for (const std::string& name : storage_records(*facts_->package, entry.id)) {
      const auto found = damage_.find(name);
      if (found != damage_.end()) return found->second;
    }
    return Status::ok();
  }

  void describe(const ArchiveFacts& found, PackagedModule* fact) {
    fact->class_name = found.root->class_name();
    fact->modules = found.modules.size();
    fact->tensors = found.tensors.size();
    fact->oldest_pytorch = found.oldest_pytorch;
    // Tensors of two element types may share one storage, which counts once.
    std::map<const void*, uint64_t> own;
    for (const StorageFact& storage : found.storages)
      own[storage.key.object] = std::max(own[storage.key.object], storage.nbytes);
    for (const auto& [object, nbytes] : own) {
      fact->nbytes += nbytes;
      Met& met = met_[object];
      met.nbytes = std::max(met.nbytes, nbytes);
      ++met.modules;
    }
  }

  void add_totals() {
    facts_->storages = met_.size();
    for (const auto& [object, met] : met_) {
      facts_->storage_nbytes += met.nbytes;
      facts_->shared_storages += met.modules > 1 ? 1 : 0;
    }
    const auto is_known = [](const PackagedModule& each) { return !each.oldest_pytorch.empty(); };
    if (!std::all_of(facts_->modules.begin(), facts_->modules.end(), is_known)) return;
    for (const PackagedModule& each : facts_->modules)
      module::at_least(each.oldest_pytorch, &facts_->oldest_pytorch);
  }

  const ArchiveInput& input_;
  PackageFacts* facts_;
  Damage damage_;
  std::set<std::string, std::less<>> told_;  // damaged records that the error of a module names
  std::map<const void*, Met> met_;           // by the storage's bytes
};

Result<PackageFacts> open_facts(const ArchiveInput& input) {
  PackageFacts facts;
  TENON_ASSIGN(Ref<archive::ZipSource> source, archive::FileMapping::open(input.fd.get()));
  TENON_ASSIGN(facts.container, ZipReader::open(std::move(source)));
  TENON_ASSIGN(facts.package, open_package(input, {}));
  return facts;
}

void gather_code(PackageFacts* facts) {
  const std::string folder = std::string(module::kPackageModules) + "code/";
  for (const ZipRecord& record : facts->container->records()) {
    if (!record.name.starts_with(folder) || !record.name.ends_with(".py")) continue;
    Result<std::string> text = facts->container->read_text(record);
    // If code cannot be read, the error of a module tells it.
    if (text.is_ok()) facts->code.push_back({std::string(record.name), std::move(text).value()});
  }
}

}  // namespace

const Status& PackageFacts::wrong() const noexcept {
  static const Status kNothing;
  for (const PackagedModule& each : modules) {
    if (!each.wrong.is_ok()) return each.wrong;
  }
  return wrong_records.empty() ? kNothing : wrong_records.front();
}

Result<PackageFacts> gather_package(const ArchiveInput& input, archive::Check check) {
  Result<PackageFacts> opened = open_facts(input);
  if (!opened.is_ok()) return of_file(input, opened.status());
  PackageFacts facts = std::move(opened).value();
  gather_code(&facts);
  const bool checks_all = check == archive::Check::kAll;
  PackageGatherer(input, &facts, checks_all ? find_damage(*facts.container) : Damage()).gather();
  if (!checks_all) return facts;
  for (const Status& each : check_extern_modules(*facts.package))
    facts.wrong_records.push_back(of_file(input, each));
  return facts;
}

Result<ArchiveFacts> gather_packaged_module(const ArchiveInput& input, const std::string& name) {
  Result<PackageFacts> opened = open_facts(input);
  if (!opened.is_ok()) return of_file(input, opened.status());
  ArchiveFacts facts;
  facts.container = opened.value().container;
  facts.module_name = name;
  Result<Ref<module::Module>> read = opened.value().package->module(name);
  if (!read.is_ok()) return of_file(input, read.status());
  facts.why_no_module = of_file(input, gather_module(read.value(), &facts));
  facts.why_not_taken = of_file(input, facts.why_not_taken);
  return facts;
}

}  // namespace tenon::cli
