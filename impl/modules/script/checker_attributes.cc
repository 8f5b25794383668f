// The part of Checker (checker.h) that finds what an attribute stands for, by the kind of the value
// that has it.
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "modules/script/checker.h"
#include "modules/script/nearest.h"

namespace tenon::script {
namespace {

using value::TypeKind;
using Kind = CheckedValue::Kind;

// The type of a Tensor's attribute. Null: the attribute is a method, or its type is not known.
const value::Type* property_type(std::string_view name) noexcept {
  using value::Type;
  if (name.starts_with("is_")) return Type::boolean().get();
  if (name == "T" || name == "H" || name == "mT" || name == "mH" || name == "data" ||
      name == "real" || name == "imag")
    return Type::tensor().get();
  if (name == "dtype" || name == "ndim" || name == "itemsize" || name == "nbytes" ||
      name == "layout")
    return Type::integer().get();
  if (name == "requires_grad") return Type::boolean().get();
  if (name == "device") return Type::device().get();
  return nullptr;
}

// Whether an attribute of a Tensor is certainly no Tensor.
bool is_no_tensor(std::string_view name) noexcept {
  return name == "shape" || name == "device" || name == "layout" || name == "name" ||
         name == "requires_grad" || name == "retains_grad";
}

bool has_self(Overloads overloads) {
  for (Overload overload; overloads.next(&overload);) {
    const Formals formals = Formals::parse(overload.arguments);
    if (std::any_of(formals.list.begin(), formals.list.end(),
                    [](const Formal& formal) { return formal.name == "self"; }))
      return true;
  }
  return false;
}

// Whether a value of unknown class may turn out to be an object with any attribute. A value of
// known class must have an attribute that is looked up in it.
bool may_be_anything(const CheckedValue& base) noexcept {
  if (base.type == nullptr) return base.tuple_size < 0;
  const TypeKind kind = base.type->kind();
  return kind == TypeKind::kAny || kind == TypeKind::kUnion || kind == TypeKind::kOptional ||
         kind == TypeKind::kClass;
}

bool is_tuple(const CheckedValue& base) noexcept {
  return base.type != nullptr && base.type->kind() == TypeKind::kTuple;
}

// Whether the value is a number. A number has no attributes: `x.real` exists for a Tensor only.
bool is_plain_number(const CheckedValue& base) noexcept {
  const value::Type* const type = sure_type(base);
  if (type == nullptr) return false;
  const TypeKind kind = type->kind();
  return kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kBool ||
         kind == TypeKind::kComplex;
}

}  // namespace

Status Checker::attribute(const Expr& expr, CheckedValue* out) {
  CheckedValue base;
  TENON_TRY(checked_value(expr.child(0), &base));
  return attribute_of(expr.child(0), base, expr.text, expr.text_range, out);
}

// Looks up the attribute `name` in `base`, which is the checked value of the expression `whole`.
Status Checker::attribute_of(const Expr& whole, const CheckedValue& base, std::string_view name,
                             Range where, CheckedValue* out) {
  *out = {};
  switch (base.kind) {
    case Kind::kNamespace:
      if (name == "autograd")
        *out = CheckedValue::of(Kind::kNamespace, "aten");
      else
        *out = CheckedValue::of(Kind::kOperator, base.name + "::" + std::string(name));
      return {};
    case Kind::kQualified: *out = of_qualified_name(base.name + "." + std::string(name)); return {};
    case Kind::kClass: return class_attribute(base, name, where, out);
    case Kind::kValue: return attribute_of_value(base, name, where, out);
    case Kind::kGlobal:
      if (base.global == Global::kOps) {
        *out = CheckedValue::of(Kind::kNamespace, std::string(name));
        return {};
      }
      if (base.global == Global::kConstants) {
        out->may_be_constant = true;
        return constant_entry(name, where);
      }
      break;
    case Kind::kOperator:
      if (base.may_be_result) return {};
      break;
    case Kind::kNew:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kClosure: break;
  }
  return refuse(where, std::string(source_.text(whole.range)) + " has no attributes");
}

CheckedValue Checker::of_qualified_name(std::string name) {
  const ClassDeclaration* const found = environment_.find_class(name);
  // An interface is only a type. It has no objects of its own, so code cannot use it as a value.
  if (found != nullptr && !found->is_interface()) {
    if (uses_ != nullptr && !is_quiet()) uses_->classes.insert(name);
    CheckedValue meaning = CheckedValue::of(Kind::kClass);
    meaning.owner = found;
    return meaning;
  }
  if (const FunctionDeclaration* const function = environment_.find_function(name);
      function != nullptr) {
    if (uses_ != nullptr && !is_quiet()) uses_->functions.insert(name);
    CheckedValue meaning = CheckedValue::of(Kind::kFunction);
    meaning.function = function;
    return meaning;
  }
  const bool is_custom_class = name.starts_with(kCustomClasses) &&
                               name.find('.', kCustomClasses.size()) != std::string::npos;
  return CheckedValue::of(is_custom_class ? Kind::kClass : Kind::kQualified, std::move(name));
}

Status Checker::class_attribute(const CheckedValue& base, std::string_view name, Range where,
                                CheckedValue* out) {
  if (name == "__new__") {
    *out = base;
    out->kind = Kind::kNew;
    return {};
  }
  if (base.owner == nullptr) {
    out->is_foreign = true;
    return {};
  }
  const ClassDeclaration& owner = *base.owner;
  if (owner.kind == ClassKind::kEnum) {
    if (!owner.attributes.contains(name)) return no_member(owner, name, where);
    out->owner = base.owner;
    return {};
  }
  const auto method = owner.methods.find(name);
  if (owner.is_module() && method != owner.methods.end()) {
    // The method is a hook, which is called with the module as its first argument.
    out->kind = Kind::kFunction;
    out->function = &method->second;
    return {};
  }
  return no_member(owner, name, where);
}

Status Checker::attribute_of_value(const CheckedValue& base, std::string_view name, Range where,
                                   CheckedValue* out) {
  if (base.is_foreign) {
    out->is_foreign = true;
    return {};
  }
  if (const std::optional<size_t> at = find_result(base.result_names, name)) {
    if (is_tuple(base) && *at < base.type->parts().size())
      *out = typed(base.type->parts()[*at].get());
    return {};
  }
  // A tuple that comes out of a list, or was chosen by an `if`, may have result names that are not
  // known here. A tuple whose display stands in the code has none.
  const bool is_of_operator = base.owner == nullptr && base.name.empty() && base.tuple_size < 0;
  const bool may_be_result = base.result_names.empty() && is_of_operator && is_result_name(name);
  if (may_be_result && is_tuple(base)) return {};
  const SchemaTable& table = SchemaTable::get();
  if (base.owner != nullptr) {
    const ClassDeclaration& owner = *base.owner;
    // Operators with a `self` of any type, such as __is__, are taken from an enum too.
    const bool is_of_enum = owner.kind == ClassKind::kEnum && !name.starts_with("__");
    if (owner.attributes.contains(name) || owner.methods.contains(name) || is_of_enum)
      return member(owner, name, where, out);
  }
  if (!base.name.empty()) {
    Overloads methods = table.find_class(base.name);
    for (Overload method; methods.next(&method);) {
      if (method.name == name) return {};
    }
  }
  std::string qualified_name = "aten::" + std::string(name);
  const bool is_builtin = is_builtin_attribute(name) && !is_plain_number(base);
  if (!is_builtin &&
      (has_self(table.find(qualified_name)) || has_self(find_source_operator(qualified_name)))) {
    // The class of the value is not known. If it is a class with such a member, PyTorch takes the
    // member and not the operator.
    if (base.owner == nullptr && may_be_anything(base) &&
        (environment_.any_class_has(name) || table.any_class_has(name)))
      return {};
    *out = CheckedValue::of(Kind::kOperator, std::move(qualified_name));
    out->has_self = true;
    out->may_be_result = may_be_result && may_be_anything(base);
    out->type = sure_type(base);
    out->holds_no_tensor = !base.may_hold_tensor();
    out->owner = base.owner;
    return {};
  }
  if (base.owner != nullptr) return no_member(*base.owner, name, where);
  if (base.name.empty()) {
    if (is_builtin) {
      // The type makes the checker refuse a call such as `x.is_cuda()`.
      if (base.type != nullptr && base.type->kind() == TypeKind::kTensor) {
        out->type =
            name == "shape" ? keep(value::Type::list(value::Type::integer())) : property_type(name);
        out->holds_no_tensor = is_no_tensor(name);
      }
      return {};
    }
    const bool any_has = environment_.any_class_has(name) || table.any_class_has(name) ||
                         name == "value" || is_result_name(name);
    if (may_be_anything(base) && any_has) return {};
  }
  if (is_quiet()) return {};
  const std::string_view nearest =
      base.name.empty() ? table.nearest(qualified_name) : std::string_view();
  return refuse(where, describe(base) + " has no attribute or method " + std::string(name) +
                           did_you_mean(nearest));
}

Status Checker::member(const ClassDeclaration& owner, std::string_view name, Range where,
                       CheckedValue* out) {
  if (owner.kind == ClassKind::kEnum) {
    out->holds_no_tensor = true;
    return name == "name" || name == "value" ? Status() : no_member(owner, name, where);
  }
  const auto attribute = owner.attributes.find(name);
  if (attribute != owner.attributes.end()) {
    *out = typed(attribute->second.type.get());
    out->may_be_constant = attribute->second.is_constant;
    return {};
  }
  out->kind = Kind::kMethod;
  out->owner = &owner;
  out->function = &owner.methods.find(name)->second;
  return {};
}

Status Checker::no_member(const ClassDeclaration& owner, std::string_view name, Range where) {
  if (is_quiet()) return {};
  Nearest nearest(name);
  for (const auto& [candidate, attribute] : owner.attributes) nearest.consider(candidate);
  for (const auto& [candidate, method] : owner.methods) nearest.consider(candidate);
  return refuse(where, owner.name + " has no " + std::string(name) + did_you_mean(nearest.best()));
}

Status Checker::constant_entry(std::string_view name, Range where) {
  uint64_t index = 0;
  const char* const end = name.data() + name.size();
  const bool is_entry =
      name.size() > 1 && name[0] == 'c' && std::from_chars(name.data() + 1, end, index).ptr == end;
  if (!is_entry) return refuse(where, "constants are named c0, c1, ...");
  if (index < environment_.constants()) return {};
  return refuse(where, format("there is no constant %s: the archive has %zu",
                              std::string(name).c_str(), environment_.constants()));
}

}  // namespace tenon::script
