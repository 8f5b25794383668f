#include "modules/module/assembly.h"

#include <algorithm>
#include <utility>

#include "modules/archive/zip_names.h"
#include "modules/module/declared_types.h"
#include "modules/value/walk.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

namespace {

// The limit of the steps that the check of an archive's values may take (value::CheckOptions): this
// many for each byte of its pickles and its code, and a minimum for small archives. The values of
// PyTorch's own archives take about one step for two bytes.
constexpr uint64_t kStepsPerByte = 64;
constexpr uint64_t kLeastSteps = uint64_t{1} << 18;

// impl/modules/value reports a value of the wrong type as INVALID_ARGUMENT. Here the file is at
// fault, so the code becomes CORRUPT.
Status in_place(const Status& status, const char* place) {
  if (status.is_ok() || status.code() != Code::kInvalidArgument) return status;
  return Status(Code::kCorrupt, std::string(place) + ": " + status.message())
      .with("record", place)
      .caused_by(status);
}

}  // namespace

Assembly::Assembly(std::string label, const ImportOptions& options)
    : label_(std::move(label)),
      options_(options),
      package_(std::make_shared<Package>()),
      steps_left_(kLeastSteps) {
  package_->is_whole_archive = true;
}

void Assembly::start_code(int version) {
  package_->report.version = version;
  code_ = CodeSet::create(label_, version);
}

Status Assembly::keep(std::string_view name, uint64_t nbytes) {
  kept_nbytes_ += nbytes;
  const uint64_t limit = options_.zip_limits.max_kept_nbytes;
  if (kept_nbytes_ <= limit) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("%s: code and extra files up to %.300s have over %llu bytes, the limit "
                       "max_kept_nbytes",
                       label_.c_str(), std::string(name).c_str(), as_llu(limit)))
      .with("limit", "max_kept_nbytes")
      .with("limit_value", limit);
}

void Assembly::allow_steps(uint64_t nbytes) noexcept { steps_left_ += kStepsPerByte * nbytes; }

Status Assembly::add_code(std::string qualifier, std::string text) {
  allow_steps(text.size());
  return code_->add_file(std::move(qualifier), std::move(text));
}

void Assembly::add_extra_file(std::string name, std::string content) {
  if (archive::find_name_fault(name) == nullptr)
    package_->extra_files.push_back({std::move(name), std::move(content)});
  else
    misnamed_.push_back({std::move(name), std::move(content)});
}

void Assembly::add_misnamed_files() {
  for (ExtraFile& file : misnamed_) {
    std::string safe = archive::safe_name(file.name);
    std::vector<ExtraFile>& files = package_->extra_files;
    const bool is_taken = std::any_of(files.begin(), files.end(),
                                      [&](const ExtraFile& other) { return other.name == safe; });
    package_->report.warnings.push_back(
        format("the name of the extra file \"%.200s\" %s: it is %s%.200s%s", file.name.c_str(),
               archive::find_name_fault(file.name),
               is_taken ? "not kept, for there is a \"" : "kept as \"", safe.c_str(),
               is_taken ? "\" already" : "\""));
    if (is_taken)
      package_->report.dropped.push_back("extra/" + file.name);
    else
      files.push_back({std::move(safe), std::move(file.content)});
  }
}

Status Assembly::check_class(std::string_view name) const {
  if (is_custom_class(name)) return Status::ok();
  TENON_ASSIGN(const Definition* found, code_->find_definition(name));
  if (found != nullptr && found->is_class()) return Status::ok();
  return Status(Code::kCorrupt,
                format("there is no code of the class %.300s", std::string(name).c_str()));
}

value::CheckOptions Assembly::check_options() {
  value::CheckOptions check;
  check.classes = code_.get();
  check.max_depth = options_.pickle_limits.max_depth;
  check.steps_left = &steps_left_;
  return check;
}

Status Assembly::set_constants(std::vector<ValueRef> values, CodeSet::ConstantsOrigin origin,
                               const char* place) {
  DeclaredTypes conformer(*code_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]->is(ValueKind::kObject) || values[i]->is_opaque()) continue;
    TENON_TRY(conformer.conform_object(values[i]));
    TENON_TRY(
        in_place(value::check_object(*values[i], "c" + std::to_string(i), check_options()), place));
  }
  code_->set_constants(std::move(values), std::move(origin));
  return Status::ok();
}

Status Assembly::set_root(ValueRef root, const char* place) {
  root_ = std::move(root);
  if (!root_->is(ValueKind::kObject) || !code_->is_module_class(root_->class_name())) {
    return Status(Code::kCorrupt,
                  format("%s: a %s, and no module", place, value::value_kind_name(root_->kind())))
        .with("record", place);
  }
  DeclaredTypes conformer(*code_);
  TENON_TRY(conformer.conform_object(root_));
  if (!root_->is_opaque())
    TENON_TRY(in_place(value::check_object(*root_, {}, check_options()), place));
  // Keeps the class of the last object, so that a row of objects of one class needs one search.
  Definition* definition = nullptr;
  return value::for_each(*root_, [&](Value& below, size_t) -> Status {
    if (!below.is(ValueKind::kObject) || is_custom_class(below.class_name())) return Status::ok();
    if (definition == nullptr || definition->name() != below.class_name()) {
      TENON_ASSIGN(const CodeSet::FoundClass found, code_->find_class(below.class_name()));
      definition = found.body->kind == ClassKind::kModule ? found.definition : nullptr;
    }
    if (definition != nullptr) CodeSet::count_object(*definition);
    return Status::ok();
  });
}

KeptBytecode::Options Assembly::keeping_options() const {
  KeptBytecode::Options keeping;
  keeping.check_class = [this](std::string_view name) { return check_class(name); };
  keeping.classes = code_.get();
  keeping.limits = options_.pickle_limits;
  return keeping;
}

Status Assembly::keep_program(bytecode::Program program, const std::string& directory,
                              std::map<value::StorageKey, std::string> names) {
  TENON_ASSIGN(package_->found_bytecode,
               KeptBytecode::of_program(std::move(program), directory, std::move(names), root_,
                                        keeping_options()));
  return Status::ok();
}

Status Assembly::keep_bytecode(std::string pickle, const std::string& directory,
                               const Finder& finder) {
  KeptBytecode::Options keeping = keeping_options();
  keeping.finder = finder;
  TENON_ASSIGN(package_->found_bytecode,
               KeptBytecode::create(std::move(pickle), directory, root_, keeping));
  return Status::ok();
}

void Assembly::leave_bytecode(const Status& why) { package_->unread_bytecode = why; }

Ref<Module> Assembly::finish(const ArchiveStorages& storages, const archive::ZipSource& source) {
  if (storages.saved_on_device() != 0) {
    package_->report.warnings.push_back(
        format("%llu storages of tensors were saved on another device (%.64s); their tensors are "
               "on the CPU here",
               as_llu(storages.saved_on_device()), storages.first_device().c_str()));
  }
  code_->set_mapped(storages.mapped_base(), source.nbytes());
  return Module::wrap(root_, code_, package_);
}

}  // namespace tenon::module
