#include "modules/module/module_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "modules/module/code.h"
#include "os/limits.h"

namespace tenon::module {

using archive::ZipRecord;
using pickle::PickleTree;
using value::ValueKind;

namespace {

constexpr std::string_view kCode = "code/";
constexpr std::string_view kCodeEnd = ".py";

// The most bytes that a node of a pickle takes as a value, on average.
constexpr uint64_t kNodeNbytes = 160;

}  // namespace

bool ModuleParts::is_code(std::string_view folder, std::string_view name) noexcept {
  return name.starts_with(folder) && name.substr(folder.size()).starts_with(kCode) &&
         name.ends_with(kCodeEnd);
}

Status ModuleParts::read_code(std::string_view folder, const ZipRecord& record) {
  const std::string_view name = std::string_view(record.name).substr(folder.size());
  std::string qualifier(name.substr(kCode.size(), name.size() - kCode.size() - kCodeEnd.size()));
  std::replace(qualifier.begin(), qualifier.end(), '/', '.');
  if (code_record_of(qualifier) != name || !value::is_qualified_name(qualifier)) {
    // PyTorch never looks for such a file.
    assembly_->report().dropped.emplace_back(record.name);
    return Status::ok();
  }
  TENON_TRY(assembly_->keep(record.name, record.nbytes));
  TENON_ASSIGN(std::string text, reader_->read_text(record));
  return assembly_->add_code(std::move(qualifier), std::move(text));
}

Result<archive::UnpickledValue> ModuleParts::read_values(const std::string& record_name,
                                                         const std::string& directory, Keep keep) {
  const ZipRecord* const record = reader_->find(record_name);
  if (record == nullptr)
    return Status(Code::kCorrupt, "there is no record " + record_name).with("record", record_name);
  TENON_ASSIGN(const std::vector<std::byte> bytes, reader_->read(*record));
  assembly_->allow_steps(bytes.size());
  pickle::PickleReadOptions read;
  read.limits = options_->pickle_limits;
  read.record = record_name;
  TENON_ASSIGN(const PickleTree tree, pickle::read_pickle(bytes, read));
  TENON_TRY(os::ask_headroom(kNodeNbytes * tree.count()));
  archive::ToValuesOptions to_values;
  to_values.find_storage = storages_->finder(directory, tree, keep != Keep::kNothing);
  to_values.check_class = [this](std::string_view name) { return assembly_->check_class(name); };
  to_values.memoised = keep == Keep::kKeysAndMemo;
  to_values.limits = options_->pickle_limits;
  return archive::pickle_to_values(tree, to_values);
}

Status ModuleParts::read_constants(const std::string& record, const std::string& directory,
                                   Keep keep) {
  TENON_ASSIGN(archive::UnpickledValue constants, read_values(record, directory, keep));
  if (!constants.root->is(ValueKind::kTuple)) {
    return Status(Code::kCorrupt, format("%s: a %s, and no tuple", record.c_str(),
                                         value::value_kind_name(constants.root->kind())))
        .with("record", record);
  }
  std::vector<ValueRef> values(constants.root->items().begin(), constants.root->items().end());
  CodeSet::ConstantsOrigin origin;
  if (keep == Keep::kKeysAndMemo) {
    origin.memoised = std::move(constants.memoised);
    origin.keys = storages_->keys();
  }
  return assembly_->set_constants(std::move(values), std::move(origin), record.c_str());
}

}  // namespace tenon::module
