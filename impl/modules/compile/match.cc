#include "modules/compile/match.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tenon::compile {
namespace {

using script::Schema;
using script::SchemaArgument;
using script::SchemaType;
using Kind = script::SchemaType::Kind;

constexpr size_t kMostReasons = 4;

const SchemaType& inner_of(const SchemaType& type) noexcept {
  return type.kind == Kind::kOptional ? type.parts[0] : type;
}

bool has_variable(const SchemaType& type) {
  return type.kind == Kind::kVariable ||
         std::any_of(type.parts.begin(), type.parts.end(), has_variable);
}

// Whether an argument is a list that may take all positional arguments that are left. `size` of
// torch.zeros(2, 3) is one.
bool takes_rest(const Schema& schema, size_t index) {
  const SchemaArgument& argument = schema.arguments[index];
  const bool is_last =
      index + 1 == schema.arguments.size() || schema.arguments[index + 1].keyword_only;
  return is_last && argument.type.kind == Kind::kList && argument.type.fixed_size == 0 &&
         argument.type.parts[0].kind != Kind::kVariable;
}

// Whether the type is a tuple whose items all have the list's element type.
bool can_become_list(const Classes& classes, const Type& type, const Type& wanted) {
  if (wanted.kind() != TypeKind::kList) return false;
  if (type.kind() != TypeKind::kTuple && !classes.is_named_tuple(type)) return false;
  const std::vector<TypeRef> items = classes.items_of(type);
  return std::all_of(items.begin(), items.end(), [&](const TypeRef& item) {
    return is_subtype(classes, *item, *wanted.element());
  });
}

std::string printed(const SchemaType& type) {
  switch (type.kind) {
    case Kind::kSimple: return Type::simple(type.simple)->print();
    case Kind::kVariable:
    case Kind::kClass:
    case Kind::kOther: return type.name;
    case Kind::kOptional: return "Optional[" + printed(type.parts[0]) + "]";
    case Kind::kAnyEnum: return "an enum";
    case Kind::kAnyClass: return "an object";
    case Kind::kList: return "List[" + printed(type.parts[0]) + "]";
    case Kind::kDict: return "Dict[" + printed(type.parts[0]) + ", " + printed(type.parts[1]) + "]";
    default: break;
  }
  std::string text = type.kind == Kind::kTuple   ? "Tuple["
                     : type.kind == Kind::kUnion ? "Union["
                                                 : "Future[";
  for (size_t i = 0; i < type.parts.size(); ++i)
    text += (i > 0 ? ", " : "") + printed(type.parts[i]);
  return text + "]";
}

// Tries to match one candidate. It appends the nodes of conversions in the process. If it fails,
// the caller removes these nodes.
class Attempt {
 public:
  Attempt(Builder* builder, const Schema& schema, const GivenArguments& given,
          bool allow_conversions)
      : builder_(*builder),
        schema_(schema),
        given_(given),
        allow_conversions_(allow_conversions),
        self_(given.self) {}

  bool run(Match* out) {
    std::vector<bool> used(given_.keywords.size());
    for (size_t i = 0; i < schema_.arguments.size(); ++i) {
      if (!argument(i, &used, out)) return false;
    }
    if (self_ != nullptr) return fail("it has no parameter for what stands before the dot");
    if (schema_.takes_more) {
      for (; position_ < given_.positional.size(); ++position_)
        out->inputs.push_back(given_.positional[position_].value);
    }
    if (position_ < given_.positional.size())
      return fail(format("it takes %zu positional arguments and gets %zu", position_,
                         given_.positional.size()));
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) return fail("it has no parameter " + std::string(given_.keywords[i].keyword));
    }
    for (const SchemaType& type : schema_.returns) {
      out->returns.push_back(evaluate(type, bindings_));
      if (!out->returns.back()) return fail("no value of TorchScript has the type that it returns");
    }
    return true;
  }

  std::string reason;

 private:
  bool fail(std::string why) {
    reason = std::move(why);
    return false;
  }

  bool argument(size_t index, std::vector<bool>* used, Match* out) {
    const SchemaArgument& formal = schema_.arguments[index];
    if (self_ != nullptr && formal.name == "self") {
      const Given* const self = std::exchange(self_, nullptr);
      return take(formal, self->value, out);
    }
    if (!formal.keyword_only && position_ < given_.positional.size()) {
      if (allow_conversions_ && takes_rest(schema_, index)) {
        const TypeRef& actual = given_.positional[position_].value->type;
        const TypeRef wanted = evaluate(formal.type, bindings_);
        if (wanted && actual->kind() != TypeKind::kList &&
            !can_become_list(builder_.classes(), *actual, *wanted)) {
          return take_rest(formal, wanted, out);
        }
      }
      return take(formal, given_.positional[position_++].value, out);
    }
    for (size_t k = 0; k < given_.keywords.size(); ++k) {
      const std::string_view keyword = given_.keywords[k].keyword;
      const bool is_input =
          keyword == "input" && formal.name == "self" && schema_.name.starts_with("aten::");
      if (keyword != formal.name && !is_input) continue;
      if ((*used)[k]) return fail(formal.name + " is given twice");
      (*used)[k] = true;
      return take(formal, given_.keywords[k].value, out);
    }
    if (!formal.default_value) return fail(formal.name + " is missing");
    out->inputs.push_back(default_of(formal));
    return true;
  }

  GraphValue* default_of(const SchemaArgument& formal) {
    TypeRef type = type_of_literal(*formal.default_value);
    if (!type) type = evaluate(inner_of(formal.type), bindings_);
    if (!type) type = Type::any();
    return builder_.constant(formal.default_value, std::move(type));
  }

  bool take_rest(const SchemaArgument& formal, const TypeRef& wanted, Match* out) {
    std::vector<GraphValue*> items;
    for (; position_ < given_.positional.size(); ++position_) {
      GraphValue* const item = convert(&builder_, given_.positional[position_].value,
                                       wanted->element(), allow_conversions_);
      if (item == nullptr || !is_subtype(builder_.classes(), *item->type, *wanted->element()))
        return fail(wants(formal, *given_.positional[position_].value->type));
      items.push_back(item);
    }
    out->inputs.push_back(builder_.list(wanted->element(), std::move(items)));
    return true;
  }

  bool take(const SchemaArgument& formal, GraphValue* value, Match* out) {
    const SchemaType& inner = inner_of(formal.type);
    if (inner.kind == Kind::kAnyEnum || inner.kind == Kind::kAnyClass) {
      const bool fits = inner.kind == Kind::kAnyEnum ? builder_.classes().is_enum(*value->type)
                                                     : value->type->kind() == TypeKind::kClass;
      if (!fits) return fail(wants(formal, *value->type));
      out->inputs.push_back(value);
      return true;
    }
    const Type& given_type = *value->type;
    // One int or float stands for a list of a fixed size.
    if (inner.kind == Kind::kList && inner.fixed_size > 0 && inner.parts[0].kind == Kind::kSimple &&
        inner.parts[0].simple == value->type->kind()) {
      value = builder_.list(value->type, std::vector<GraphValue*>(inner.fixed_size, value));
    }
    if (!has_variable(formal.type)) {
      const TypeRef wanted = evaluate(formal.type, bindings_);
      if (!wanted) return fail(wants(formal, given_type));
      value = convert(&builder_, value, wanted, allow_conversions_);
      if (value == nullptr || !is_subtype(builder_.classes(), *value->type, *wanted))
        return fail(wants(formal, given_type));
      out->inputs.push_back(value);
      return true;
    }
    if (!bind_variables(builder_.classes(), formal.type, value->type, &bindings_))
      return fail(wants(formal, given_type));
    const TypeRef wanted = evaluate(formal.type, bindings_);
    if (!wanted) return fail("the type of " + formal.name + " does not follow from what is given");
    value = convert(&builder_, value, wanted, allow_conversions_);
    if (value == nullptr || !is_subtype(builder_.classes(), *value->type, *wanted))
      return fail(wants(formal, given_type));
    out->inputs.push_back(value);
    return true;
  }

  static std::string wants(const SchemaArgument& formal, const Type& given) {
    return formal.name + " is " + printed(formal.type) + " and gets " + with_article(given);
  }

  Builder& builder_;
  const Schema& schema_;
  const GivenArguments& given_;
  bool allow_conversions_;
  const Given* self_;
  size_t position_ = 0;
  Bindings bindings_;
};

// The operator that converts a Tensor to a wanted number, such as "aten::FloatImplicit". Empty:
// there is none.
std::string_view from_tensor(TypeKind wanted) noexcept {
  switch (wanted) {
    case TypeKind::kInt: return "aten::IntImplicit";
    case TypeKind::kFloat: return "aten::FloatImplicit";
    case TypeKind::kComplex: return "aten::ComplexImplicit";
    case TypeKind::kNumber: return "aten::ScalarImplicit";
    default: return {};
  }
}

std::string_view from_number(TypeKind wanted) noexcept {
  switch (wanted) {
    case TypeKind::kInt: return "aten::Int";
    case TypeKind::kFloat: return "aten::Float";
    case TypeKind::kComplex: return "aten::Complex";
    default: return {};
  }
}

std::string_view from_bool(TypeKind wanted) noexcept {
  switch (wanted) {
    case TypeKind::kFloat: return "aten::Float";
    case TypeKind::kInt:
    case TypeKind::kNumber: return "aten::Int";
    default: return {};
  }
}

std::string_view conversion(const Builder& builder, const Type& given,
                            const Type& wanted) noexcept {
  switch (given.kind()) {
    case TypeKind::kTensor: return from_tensor(wanted.kind());
    case TypeKind::kNumber: return from_number(wanted.kind());
    case TypeKind::kBool:
      return builder.torch() == script::Torch::kNewest ? from_bool(wanted.kind())
                                                       : std::string_view();
    case TypeKind::kStr:
      return wanted.kind() == TypeKind::kDevice ? "aten::device" : std::string_view();
    default: return {};
  }
}

}  // namespace

GraphValue* convert(Builder* builder, GraphValue* value, const TypeRef& wanted,
                    bool allow_conversions) {
  const Classes& classes = builder->classes();
  if (wanted->kind() == TypeKind::kOptional && value->type->kind() != TypeKind::kOptional &&
      value->type->kind() != TypeKind::kNone)
    return convert(builder, value, wanted->element(), allow_conversions);
  const TypeRef& inner = without_optional(wanted);
  if (value->is_empty_list && wanted->kind() == TypeKind::kList)
    value = builder->list(wanted->element(), {});
  const bool is_tuple =
      value->type->kind() == TypeKind::kTuple || classes.is_named_tuple(*value->type);
  if (is_tuple && can_become_list(classes, *value->type, *inner)) {
    value = builder->list(inner->element(), builder->unpack(value));
  } else if (is_tuple && wanted->kind() == TypeKind::kTuple &&
             !is_subtype(classes, *value->type, *wanted)) {
    const std::vector<GraphValue*> items = builder->unpack(value);
    if (items.size() != wanted->parts().size()) return value;
    std::vector<GraphValue*> converted;
    for (size_t i = 0; i < items.size(); ++i) {
      converted.push_back(convert(builder, items[i], wanted->parts()[i], allow_conversions));
      if (converted.back() == nullptr) return nullptr;
    }
    value = builder->tuple(std::move(converted));
  }
  if (!allow_conversions) return value;
  const std::string_view by = conversion(*builder, *value->type, *wanted);
  if (by.empty()) return value;
  Result<GraphValue*> converted = call_unary(builder, by, value);
  return converted.is_ok() ? converted.value() : nullptr;
}

Result<Match> match(Builder* builder, std::string_view what,
                    std::span<const Schema* const> candidates, const GivenArguments& given) {
  const size_t mark = builder->mark();
  std::string reasons;
  size_t count = 0;
  for (const bool allow_conversions : {false, true}) {
    if (candidates.size() == 1 && !allow_conversions) continue;
    for (size_t i = 0; i < candidates.size(); ++i) {
      Match out;
      out.candidate = i;
      Attempt attempt(builder, *candidates[i], given, allow_conversions);
      if (attempt.run(&out)) return out;
      builder->roll_back(mark);
      if (!allow_conversions || count++ >= kMostReasons) continue;
      reasons += (reasons.empty() ? "" : "; ");
      if (candidates.size() > 1)
        reasons += (candidates[i]->overload.empty() ? "default" : candidates[i]->overload) + ": ";
      reasons += attempt.reason;
    }
  }
  if (count > kMostReasons) reasons += format("; and %zu more", count - kMostReasons);
  return builder->refuse(std::string(what) + " does not take this call: " + reasons);
}

Result<GraphValue*> call_unary(Builder* builder, std::string_view name, GraphValue* operand) {
  GivenArguments given;
  given.positional.push_back({{}, operand, builder->range()});
  const std::span<const Schema* const> candidates =
      script::SchemaTable::get().schemas(name, builder->torch());
  if (candidates.empty()) return builder->refuse("PyTorch has no operator " + std::string(name));
  TENON_ASSIGN(Match matched, match(builder, name, candidates, given));
  return builder->append_operator(*candidates[matched.candidate], std::move(matched.inputs),
                                  std::move(matched.returns))[0];
}

bool takes_as_it_is(const Classes& classes, const SchemaType& formal, const TypeRef& type,
                    Bindings* bindings) {
  const SchemaType& inner = inner_of(formal);
  if (inner.kind == Kind::kAnyEnum) return classes.is_enum(*type);
  if (inner.kind == Kind::kAnyClass) return type->kind() == TypeKind::kClass;
  if (!bind_variables(classes, formal, type, bindings)) return false;
  const TypeRef wanted = evaluate(formal, *bindings);
  return wanted && is_subtype(classes, *type, *wanted);
}

const Schema* overload_of(const Classes& classes, script::Torch torch, const Node& node) {
  const auto takes = [&](const Schema& schema) {
    const size_t count = schema.arguments.size();
    if (schema.takes_more ? node.inputs.size() < count : node.inputs.size() != count) return false;
    Bindings bindings;
    for (size_t i = 0; i < count; ++i) {
      if (!takes_as_it_is(classes, schema.arguments[i].type, node.inputs[i]->type, &bindings))
        return false;
    }
    return true;
  };
  if (takes(*node.schema)) {
    // Most often no type has changed, and this is the first overload that takes the operands. An
    // overload with an argument of type number may have taken an operand whose type was not known,
    // and another overload may fit better now.
    const auto is_open = [](const SchemaArgument& argument) {
      return argument.type.kind == Kind::kSimple && argument.type.simple == TypeKind::kNumber;
    };
    if (std::none_of(node.schema->arguments.begin(), node.schema->arguments.end(), is_open))
      return node.schema;
  }
  for (const Schema* candidate : script::SchemaTable::get().schemas(node.schema->name, torch)) {
    if (takes(*candidate)) return candidate;
  }
  return node.schema;
}

SchemaType schema_type(const value::Type& type) {
  SchemaType made;
  for (const TypeRef& part : type.parts()) made.parts.push_back(schema_type(*part));
  switch (type.kind()) {
    case TypeKind::kList: made.kind = Kind::kList; break;
    case TypeKind::kDict: made.kind = Kind::kDict; break;
    case TypeKind::kTuple: made.kind = Kind::kTuple; break;
    case TypeKind::kOptional: made.kind = Kind::kOptional; break;
    case TypeKind::kUnion: made.kind = Kind::kUnion; break;
    case TypeKind::kFuture: made.kind = Kind::kFuture; break;
    case TypeKind::kRRef: made.kind = Kind::kRRef; break;
    case TypeKind::kAwait: made.kind = Kind::kAwait; break;
    case TypeKind::kClass:
      made.kind = Kind::kClass;
      made.name = type.class_name();
      break;
    default:
      made.kind = Kind::kSimple;
      made.simple = type.kind();
      break;
  }
  return made;
}

}  // namespace tenon::compile
