#include "modules/module/code_check.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/module/state_check.h"
#include "modules/script/check.h"
#include "modules/script/declarations.h"
#include "modules/value/walk.h"
#include "tensor/scalar_type.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

namespace {

struct Release {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Release&) const = default;
};

// Parses "2.1" or "1.13.1".
Release release_of(std::string_view text) {
  Release release;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), release.major);
  if (error == std::errc() && end != text.data() + text.size())
    std::from_chars(end + 1, text.data() + text.size(), release.minor);
  return release;
}

// The first release that reads archives of this version. Older ones refuse them.
std::string_view reader_of(int version) noexcept {
  struct FirstReader {
    int version;
    std::string_view release;
  };
  constexpr FirstReader kReaders[] = {
      {10, "1.12"}, {7, "1.11"}, {6, "1.9"}, {5, "1.7"}, {3, "1.6"}};
  for (const FirstReader& reader : kReaders) {
    if (version >= reader.version) return reader.release;
  }
  return {};
}

struct ClassesFound {
  std::vector<std::string> all;
  std::set<std::string> without_state;  // classes of objects with attributes
  std::set<std::string> with_state;
};

// Finds the classes of all objects: those of modules, and others whose methods PyTorch compiles
// when it loads the tree.
ClassesFound classes_of(const Resolved& resolved, std::string* oldest) {
  std::set<std::string> classes;
  ClassesFound found;
  const auto look = [&](Value& value, size_t) -> Status {
    if (value.is(ValueKind::kObject) && !is_custom_class(value.class_name())) {
      classes.insert(value.class_name());
      (value.is_opaque() ? found.with_state : found.without_state).insert(value.class_name());
    }
    if (value.is(ValueKind::kTensor)) {
      const value::TensorValue& tensor = *value.as_tensor();
      at_least(tensor::scalar_type_info(tensor.type()).since, oldest);
      // PyTorch 1.x drops these bits and computes with other numbers.
      if (tensor.is_conj() || tensor.is_neg()) at_least("2.0", oldest);
    }
    return Status::ok();
  };
  // An error means that values are nested too deep. The code that pickles them refuses them.
  static_cast<void>(value::for_each(*resolved.root, look).is_ok());
  for (const ValueRef& root : resolved.more_roots)
    static_cast<void>(value::for_each(*root, look).is_ok());
  for (const ValueRef& constant : resolved.constants)
    static_cast<void>(value::for_each(*constant, look).is_ok());
  found.all.assign(classes.begin(), classes.end());
  return found;
}

// Whether PyTorch reads a state for objects of this class and gives it to __setstate__.
bool reads_state(const script::ClassDeclaration& declared) {
  return declared.methods.contains(std::string_view("__getstate__")) &&
         declared.methods.contains(std::string_view("__setstate__"));
}

Status check_states(const script::Declarations& declarations, const ClassesFound& classes) {
  for (const std::string& name : classes.without_state) {
    const script::ClassDeclaration* const declared = declarations.find_class(name);
    if (declared == nullptr || !reads_state(*declared)) continue;
    return Status(Code::kUnsupported,
                  format("%s has __getstate__ and __setstate__, so PyTorch reads a state in the "
                         "archive, and the attributes that an object "
                         "has here would be read by nobody. Give it a state "
                         "(tenon_module_set_state, or tenon_value_new_opaque for an "
                         "object that is no module), or remove the two methods",
                         name.c_str()))
        .with("class", name);
  }
  for (const std::string& name : classes.with_state) {
    const script::ClassDeclaration* const declared = declarations.find_class(name);
    if (declared == nullptr || reads_state(*declared)) continue;
    return Status(Code::kUnsupported, format("an object of %s has a state, which PyTorch reads "
                                             "only if the class has both __getstate__ and "
                                             "__setstate__: define what is missing",
                                             name.c_str()))
        .with("class", name);
  }
  return Status::ok();
}

}  // namespace

void at_least(std::string_view wanted, std::string* oldest) {
  if (oldest->empty() || release_of(*oldest) < release_of(wanted)) *oldest = wanted;
}

Result<script::Declarations> declarations_of(const Resolved& resolved) {
  script::Declarations declarations;
  declarations.set_constants(resolved.constants.size());
  for (const ResolvedFile& file : resolved.files) {
    std::shared_ptr<const script::File> parsed = file.parsed;
    if (!parsed) {
      TENON_ASSIGN(parsed, script::parse_file(code_record_of(file.qualifier), file.text));
    }
    TENON_TRY(declarations.add(file.qualifier, parsed));
  }
  return declarations;
}

Result<CodeNeeds> check_resolved(const Resolved& resolved, CodeCheck check) {
  Result<script::Declarations> code = declarations_of(resolved);
  return check_resolved(resolved, &code, check);
}

Result<CodeNeeds> check_resolved(const Resolved& resolved, Result<script::Declarations>* code,
                                 CodeCheck check) {
  const bool checks = check != CodeCheck::kNone;
  std::string oldest(reader_of(resolved.version));
  const ClassesFound classes = classes_of(resolved, &oldest);
  if (!code->is_ok() && !checks) return CodeNeeds{};
  TENON_TRY(code->status());
  const script::Declarations& declarations = code->value();
  TENON_TRY(check_states(declarations, classes));
  if (checks) {
    for (const std::string& name : classes.with_state)
      TENON_TRY(check_state_methods(declarations, name));
  }
  script::Uses uses;
  script::CheckOptions options;
  options.archive_version = resolved.version;
  options.newest_decides = check == CodeCheck::kRefusedByNewest;
  const Status status = script::check_reachable(declarations, classes.all, options, &uses);
  if (!status.is_ok()) {
    // An unchanged module is not refused here. PyTorch itself reports the error when it loads the
    // module, and the operators of other libraries are unknown here.
    if (checks) return status;
    return CodeNeeds{};
  }
  const std::vector<std::string_view>& versions = script::SchemaTable::get().versions();
  for (const auto& [name, span] : uses.operators) at_least(versions[span.first], &oldest);
  return CodeNeeds{std::move(oldest), script::partly_refused_lines(uses)};
}

}  // namespace tenon::module
