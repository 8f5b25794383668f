#include "modules/script/operand_types.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "modules/script/schema_table.h"

namespace tenon::script {
namespace {

using value::Type;
using value::TypeKind;
using SchemaKind = SchemaType::Kind;

bool is_numeric(TypeKind kind) noexcept {
  return kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kComplex;
}

// Whether a type fits where a type without parts is wanted. `converts` is false for the elements of
// a list, which PyTorch does not convert.
bool simple_fits(TypeKind wanted, TypeKind given, bool converts) noexcept {
  if (wanted == given || wanted == TypeKind::kAny) return true;
  if (!converts) return wanted == TypeKind::kNumber && is_numeric(given);
  const bool becomes_number =
      given == TypeKind::kTensor || given == TypeKind::kNumber || given == TypeKind::kBool;
  if (is_numeric(wanted)) return becomes_number;
  if (wanted == TypeKind::kNumber) return becomes_number || is_numeric(given);
  if (wanted == TypeKind::kDevice) return given == TypeKind::kStr;
  // The class may be a NamedTuple.
  if (wanted == TypeKind::kAnyTuple) return given == TypeKind::kTuple || given == TypeKind::kClass;
  if (wanted == TypeKind::kAnyList) return given == TypeKind::kList;
  return false;
}

bool admits_none(TypeKind kind) noexcept {
  return kind == TypeKind::kAny || kind == TypeKind::kOptional || kind == TypeKind::kUnion ||
         kind == TypeKind::kNone;
}

// Whether there may be a type that both types can become.
bool may_unify(const Type& a, const Type& b) noexcept {
  if (a.equals(b)) return true;
  if (a.kind() == TypeKind::kOptional) return may_unify(*a.element(), b);
  if (b.kind() == TypeKind::kOptional) return may_unify(a, *b.element());
  if (admits_none(a.kind()) || admits_none(b.kind())) return true;
  if (a.kind() == TypeKind::kNumber) return is_numeric(b.kind());
  if (b.kind() == TypeKind::kNumber) return is_numeric(a.kind());
  // A class may be a NamedTuple. The parts of lists and the like are not compared.
  const auto has_parts = [](TypeKind kind) { return kind >= TypeKind::kAnyList; };
  return has_parts(a.kind()) && has_parts(b.kind());
}

class OperandMatcher {
 public:
  bool fits(const SchemaType& wanted, const Type* given, bool converts = true) {
    if (given == nullptr) return true;
    switch (given->kind()) {
      case TypeKind::kUnion:
        if (wanted.kind == SchemaKind::kOptional) return true;
        if (wanted.kind == SchemaKind::kVariable) break;
        // PyTorch takes a Union if it takes each member without a conversion.
        return std::all_of(
            given->parts().begin(), given->parts().end(),
            [&](const value::TypeRef& part) { return fits(wanted, part.get(), false); });
      case TypeKind::kOptional:
        if (wanted.kind == SchemaKind::kOptional)
          return fits(wanted.parts[0], given->element().get(), false);
        if (wanted.kind == SchemaKind::kVariable) break;
        return wanted.kind == SchemaKind::kOther || is_any(wanted);
      case TypeKind::kNone:
        if (wanted.kind == SchemaKind::kOptional) return true;
        break;
      default: break;
    }
    switch (wanted.kind) {
      case SchemaKind::kVariable: return binds(wanted.name, *given);
      case SchemaKind::kOptional: return fits(wanted.parts[0], given, converts);
      case SchemaKind::kSimple: return simple_fits(wanted.simple, given->kind(), converts);
      case SchemaKind::kList: return fits_list(wanted, *given);
      case SchemaKind::kTuple: return fits_tuple(wanted, *given, converts);
      case SchemaKind::kDict:
        return given->kind() == TypeKind::kDict && all_fit(wanted, given->parts(), false);
      case SchemaKind::kFuture:
        return given->kind() == TypeKind::kFuture && all_fit(wanted, given->parts(), false);
      case SchemaKind::kRRef:
        return given->kind() == TypeKind::kRRef && all_fit(wanted, given->parts(), false);
      case SchemaKind::kAwait:
        return given->kind() == TypeKind::kAwait && all_fit(wanted, given->parts(), false);
      case SchemaKind::kClass:
        // Custom classes have no base classes.
        return given->kind() == TypeKind::kClass &&
               (given->class_name() == wanted.name ||
                !given->class_name().starts_with(kCustomClasses));
      case SchemaKind::kAnyEnum:
      case SchemaKind::kAnyClass: return given->kind() == TypeKind::kClass;
      case SchemaKind::kUnion:
      case SchemaKind::kOther: break;
    }
    return true;
  }

 private:
  static bool is_any(const SchemaType& type) noexcept {
    return type.kind == SchemaKind::kSimple && type.simple == TypeKind::kAny;
  }

  bool all_fit(const SchemaType& wanted, std::span<const value::TypeRef> given, bool converts) {
    if (wanted.parts.size() != given.size()) return false;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!fits(wanted.parts[i], given[i].get(), converts)) return false;
    }
    return true;
  }

  bool fits_list(const SchemaType& wanted, const Type& given) {
    const SchemaType& element = wanted.parts[0];
    switch (given.kind()) {
      case TypeKind::kList: return fits(element, given.element().get(), false);
      case TypeKind::kTuple: return fits_elements(element, given.parts());
      case TypeKind::kAnyList:
      case TypeKind::kAnyTuple:
      case TypeKind::kClass: return true;  // it may be a NamedTuple
      default: break;
    }
    // One number stands for all of int[2]. PyTorch does not do that with bools.
    const bool is_repeated = given.kind() == TypeKind::kInt || given.kind() == TypeKind::kFloat;
    return wanted.fixed_size > 0 && is_repeated && element.kind == SchemaKind::kSimple &&
           element.simple == given.kind();
  }

  // Whether the elements of a tuple fit if the tuple becomes a list.
  bool fits_elements(const SchemaType& wanted, std::span<const value::TypeRef> given) {
    if (wanted.kind != SchemaKind::kVariable)
      return std::all_of(given.begin(), given.end(), [&](const value::TypeRef& part) {
        return fits(wanted, part.get(), false);
      });
    if (given.empty()) return true;
    const auto is_first = [&](const value::TypeRef& part) { return part->equals(*given[0]); };
    if (std::all_of(given.begin(), given.end(), is_first)) return binds(wanted.name, *given[0]);
    // PyTorch makes one type of the elements' types first. The checker does not compute which.
    return std::all_of(given.begin(), given.end(),
                       [&](const value::TypeRef& part) { return may_unify(*given[0], *part); });
  }

  bool fits_tuple(const SchemaType& wanted, const Type& given, bool converts) {
    if (given.kind() == TypeKind::kTuple) return all_fit(wanted, given.parts(), converts);
    return given.kind() == TypeKind::kAnyTuple || given.kind() == TypeKind::kClass;
  }

  bool binds(const std::string& name, const Type& given) {
    const auto found = std::find_if(bound_.begin(), bound_.end(),
                                    [&](const auto& one) { return *one.first == name; });
    if (found != bound_.end()) {
      const bool loses_none = admits_none(given.kind()) && !admits_none(found->second->kind());
      return !loses_none && may_unify(*found->second, given);
    }
    bound_.emplace_back(&name, &given);
    return true;
  }

  std::vector<std::pair<const std::string*, const Type*>> bound_;
};

bool takes_what_is_left(const SchemaType& type) noexcept {
  return type.kind == SchemaKind::kList && type.fixed_size == 0 &&
         type.parts[0].kind != SchemaKind::kVariable;
}

// Assigns the operands of a call to the arguments of one schema, in the order of the arguments.
class OperandsOfCall {
 public:
  OperandsOfCall(const OperandType* self, std::span<const OperandType> given)
      : self_(self), given_(given) {
    while (positional_ < given.size() && given[positional_].keyword.empty()) ++positional_;
  }

  void match(const Schema& schema, bool is_aten) {
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      const SchemaArgument& argument = schema.arguments[i];
      if (self_ != nullptr && argument.name == "self") {
        add(argument, argument.type, SIZE_MAX, self_->type);
        self_ = nullptr;
      } else if (!argument.keyword_only && at_ < positional_) {
        const bool is_last =
            i + 1 == schema.arguments.size() || schema.arguments[i + 1].keyword_only;
        if (is_last && takes_what_is_left(argument.type))
          rest(argument);
        else
          add(argument, argument.type, at_, given_[at_].type), ++at_;
      } else {
        keyword(argument, is_aten);
      }
    }
  }

  TypeMatch result() const noexcept { return result_; }

 private:
  void add(const SchemaArgument& argument, const SchemaType& wanted, size_t operand,
           const Type* type) {
    if (matcher_.fits(wanted, type)) return;
    if (result_.mismatches++ > 0) return;
    result_.operand = operand;
    result_.argument = &argument;
    result_.wanted = &wanted;
  }

  // Assigns all positional operands that are left to `argument`. They are its elements, or the only
  // one is the list itself.
  void rest(const SchemaArgument& argument) {
    const SchemaType& element = argument.type.parts[0];
    if (at_ + 1 == positional_) {
      const Type* const type = given_[at_].type;
      // A single operand that is no element must be the list itself.
      const bool is_element = type == nullptr || OperandMatcher().fits(element, type);
      if (!is_element) add(argument, argument.type, at_, type);
    } else {
      for (size_t i = at_; i < positional_; ++i) add(argument, element, i, given_[i].type);
    }
    at_ = positional_;
  }

  void keyword(const SchemaArgument& argument, bool is_aten) {
    for (size_t i = positional_; i < given_.size(); ++i) {
      const std::string_view name = given_[i].keyword;
      if (name == argument.name || (is_aten && name == "input" && argument.name == "self"))
        return add(argument, argument.type, i, given_[i].type);
    }
  }

  const OperandType* self_;
  std::span<const OperandType> given_;
  size_t positional_ = 0;  // how many operands are given by position; they come first
  size_t at_ = 0;          // the index of the next positional operand
  OperandMatcher matcher_;
  TypeMatch result_;
};

value::TypeRef closed_type(const SchemaType& type) {
  const auto part = [&](size_t i) { return closed_type(type.parts[i]); };
  const auto made = [](Result<value::TypeRef> result) {
    return result.is_ok() ? std::move(result).value() : value::TypeRef();
  };
  switch (type.kind) {
    case SchemaKind::kSimple: return Type::simple(type.simple);
    case SchemaKind::kClass: return made(Type::class_type(type.name));
    case SchemaKind::kList:
      if (value::TypeRef element = part(0)) return made(Type::list(std::move(element)));
      return {};
    case SchemaKind::kOptional:
      if (value::TypeRef element = part(0)) return made(Type::optional(std::move(element)));
      return {};
    default: return {};
  }
}

}  // namespace

Formals formals_of(const Schema& schema, bool is_aten) {
  Formals formals;
  formals.any_more = schema.takes_more;
  formals.is_aten = is_aten;
  formals.list.reserve(schema.arguments.size());
  for (const SchemaArgument& argument : schema.arguments) {
    const bool has_default = static_cast<bool>(argument.default_value);
    formals.list.push_back(
        {argument.name, has_default, argument.keyword_only, takes_what_is_left(argument.type)});
  }
  return formals;
}

TypeMatch match_types(const Schema& schema, const OperandType* self,
                      std::span<const OperandType> given, bool is_aten) {
  OperandsOfCall operands(self, given);
  operands.match(schema, is_aten);
  return operands.result();
}

value::TypeRef result_type(const Schema& schema) {
  if (schema.returns_more || schema.returns.empty()) return {};
  if (schema.returns.size() == 1) return closed_type(schema.returns[0]);
  std::vector<value::TypeRef> parts;
  for (const SchemaType& type : schema.returns) {
    parts.push_back(closed_type(type));
    if (!parts.back()) return {};
  }
  Result<value::TypeRef> tuple = Type::tuple(std::move(parts));
  return tuple.is_ok() ? std::move(tuple).value() : value::TypeRef();
}

}  // namespace tenon::script
