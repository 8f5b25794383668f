#include "modules/script/check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "modules/script/checker.h"

namespace tenon::script {
namespace {

Status check_item(const Environment& environment, const Source& source, const std::string& name,
                  const Item& item, const CheckOptions& options, Uses* uses) {
  switch (item.kind) {
    case ItemKind::kClass:
      return check_class(environment, source, name, *item.class_def, options, uses);
    case ItemKind::kFunction:
      return check_function(environment, source, name, *item.function, options, uses);
    case ItemKind::kVersion:
    case ItemKind::kImport: break;
  }
  return {};
}

Status check_one_method(const Environment& environment, const Source& source,
                        const ClassDeclaration& owner, const Function& method,
                        const CheckOptions& options, Uses* uses) {
  Checker checker(environment, source, options, uses);
  return checker.function(&owner, find_in(owner.methods, method.name), method);
}

}  // namespace

Status check_function(const Environment& environment, const Source& source, std::string_view name,
                      const Function& function, const CheckOptions& options, Uses* uses) {
  Checker checker(environment, source, options, uses);
  return checker.function(nullptr, environment.find_function(name), function);
}

Status check_method(const Environment& environment, const Source& source,
                    std::string_view class_name, const Function& method,
                    const CheckOptions& options, Uses* uses) {
  const ClassDeclaration* const owner = environment.find_class(class_name);
  if (owner == nullptr)
    return Status(Code::kNotFound, "there is no class " + std::string(class_name));
  return check_one_method(environment, source, *owner, method, options, uses);
}

Status check_class(const Environment& environment, const Source& source,
                   std::string_view class_name, const Class& class_def, const CheckOptions& options,
                   Uses* uses) {
  const ClassDeclaration* const owner = environment.find_class(class_name);
  if (owner == nullptr)
    return Status(Code::kNotFound, "there is no class " + std::string(class_name));
  TENON_ASSIGN(const ClassParts parts, class_parts(source, class_def));
  Checker fields(environment, source, options, uses);
  for (const Field& field : parts.fields) {
    if (field.annotation != nullptr) TENON_TRY(fields.annotation(*field.annotation, nullptr));
  }
  for (const Constant& constant : parts.constants) {
    if (constant.annotation != nullptr) TENON_TRY(fields.annotation(*constant.annotation, nullptr));
    if (constant.value != nullptr) TENON_TRY(fields.constant(*constant.value));
  }
  for (const EnumMember& member : parts.members) {
    if (member.value != nullptr) TENON_TRY(fields.constant(*member.value));
  }
  for (const Method& method : parts.methods) {
    if (owner->is_interface()) {
      // Only the header of an interface's method counts, because nothing runs its body.
      TENON_TRY(fields.header(*method.function));
    } else {
      TENON_TRY(check_one_method(environment, source, *owner, *method.function, options, uses));
    }
  }
  return {};
}

Status check_file(const Environment& environment, std::string_view qualifier, const File& file,
                  const CheckOptions& options, Uses* uses) {
  for (const Item& item : file.items())
    TENON_TRY(check_item(environment, file.source(), qualified(qualifier, item.name()), item,
                         options, uses));
  return {};
}

Status check_reachable(const Declarations& declarations, std::span<const std::string> roots,
                       const CheckOptions& options, Uses* uses) {
  std::set<std::string, std::less<>> seen(roots.begin(), roots.end());
  std::vector<std::string> todo(roots.begin(), roots.end());
  while (!todo.empty()) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    const Declarations::ItemInFile* const place = declarations.find_place(name);
    if (place == nullptr) return Status(Code::kNotFound, "there is no class or function " + name);
    Uses here;
    TENON_TRY(check_item(declarations, place->file->source(), name, *place->item, options, &here));
    for (const auto* names : {&here.classes, &here.functions}) {
      for (const std::string& used : *names) {
        if (seen.insert(used).second) todo.push_back(used);
      }
    }
    if (uses != nullptr) add_uses(here, uses);
  }
  return {};
}

std::vector<std::string> partly_refused_lines(const Uses& uses) {
  std::vector<std::string> lines;
  for (const auto& [sentence, places] : uses.partly_refused) {
    std::string line = sentence + ", in " + places.first;
    if (places.count > 1) line += format(" and %zu more", places.count - 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

void add_uses(const Uses& more, Uses* uses) {
  for (const auto& [name, span] : more.operators) {
    const auto [found, is_new] = uses->operators.try_emplace(name, span);
    if (is_new) continue;
    found->second.first = std::max(found->second.first, span.first);
    found->second.last = std::min(found->second.last, span.last);
  }
  for (const auto& [sentence, places] : more.partly_refused) {
    CallPlaces& all =
        uses->partly_refused.try_emplace(sentence, CallPlaces{places.first, 0}).first->second;
    all.count += places.count;
  }
  uses->versioned_operators.insert(more.versioned_operators.begin(),
                                   more.versioned_operators.end());
  uses->foreign_namespaces.insert(more.foreign_namespaces.begin(), more.foreign_namespaces.end());
  uses->classes.insert(more.classes.begin(), more.classes.end());
  uses->functions.insert(more.functions.begin(), more.functions.end());
}

}  // namespace tenon::script
