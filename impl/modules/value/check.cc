#include "modules/value/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "modules/value/check_place.h"
#include "modules/value/dict_key.h"

namespace tenon::value {
namespace {

// A short archive can name few values and types that make very many pairs to try: each member of a
// Union is tried for a value, all the way down. So the result for each pair is remembered, whether
// it fits or not, and the steps are counted.
class Checker {
 public:
  explicit Checker(const CheckOptions& options)
      : options_(options),
        classes_(options.classes),
        max_known_(options.steps_left != nullptr ? *options.steps_left / 16 : SIZE_MAX) {}

  Status check(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    if (depth > options_.max_depth) return too_deep(place);
    TENON_TRY(spend(1));
    // A value with one owner meets this type only once, unless a member of a Union is being tried.
    // Other values can be met on any number of paths.
    const bool remembers = value.child_count() > 0 && (is_trying() || value.strong_count() > 1);
    if (!remembers) return check_fresh(value, type, place, depth);
    const auto found = known_.find({&value, &type});
    if (found != known_.end() && found->second) return Status::ok();
    if (found != known_.end() && is_trying()) return misfit_;
    Status status = check_fresh(value, type, place, depth);
    if (stopped_.is_ok() && known_.size() < max_known_) known_[{&value, &type}] = status.is_ok();
    return status;
  }

  Status check_attributes(Value& object, const CheckPlace& place, size_t depth) {
    if (depth > options_.max_depth) return too_deep(place);
    TENON_TRY(spend(1));
    const bool remembers = is_trying() || object.strong_count() > 1;
    if (options_.classes == nullptr || (remembers && objects_.contains(&object)))
      return Status::ok();
    TENON_TRY(check_fresh_attributes(object, place, depth));
    if (remembers && objects_.size() < max_known_) objects_.insert(&object);
    return Status::ok();
  }

 private:
  Status check_fresh(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    const auto must_be = [&](bool good) { return good ? Status::ok() : unfit(place, type, value); };
    switch (type.kind()) {
      case TypeKind::kAny: return check_inside(value, place, depth);
      case TypeKind::kTensor: return must_be(value.is(ValueKind::kTensor));
      case TypeKind::kInt: return must_be(value.is(ValueKind::kInt));
      case TypeKind::kFloat: return must_be(value.is(ValueKind::kFloat));
      case TypeKind::kBool: return must_be(value.is(ValueKind::kBool));
      case TypeKind::kComplex: return must_be(value.is(ValueKind::kComplex));
      case TypeKind::kStr: return must_be(value.is(ValueKind::kStr));
      case TypeKind::kDevice: return must_be(value.is(ValueKind::kDevice));
      case TypeKind::kNone: return must_be(value.is(ValueKind::kNone));
      case TypeKind::kNumber:
        return must_be(value.is(ValueKind::kInt) || value.is(ValueKind::kFloat) ||
                       value.is(ValueKind::kComplex));
      case TypeKind::kAnyList:
        if (!value.is(ValueKind::kList)) return unfit(place, type, value);
        return check_inside(value, place, depth);
      case TypeKind::kAnyTuple:
        if (!value.is(ValueKind::kTuple)) return unfit(place, type, value);
        return check_inside(value, place, depth);
      case TypeKind::kList: return check_list(value, type, place, depth);
      case TypeKind::kDict: return check_dict(value, type, place, depth);
      case TypeKind::kTuple: return check_tuple(value, type, place, depth);
      case TypeKind::kOptional:
        if (value.is(ValueKind::kNone)) return Status::ok();
        return check(value, *type.element(), place, depth);
      case TypeKind::kUnion: return check_union(value, type, place, depth);
      case TypeKind::kClass: return check_class(value, type, place, depth);
      // No value has one of these types.
      case TypeKind::kGenerator:
      case TypeKind::kStream:
      case TypeKind::kCapsule:
      case TypeKind::kFuture:
      case TypeKind::kRRef:
      case TypeKind::kAwait: break;
    }
    return unfit(place, type, value);
  }

  // Checks a value without a declared type: its own type must hold, and objects below it are
  // checked.
  Status check_inside(Value& value, const CheckPlace& place, size_t depth) {
    switch (value.kind()) {
      case ValueKind::kList:
        if (value.declared_type())
          return check_items(value, *value.declared_type()->element(), place, depth);
        return check_items(value, *Type::any(), place, depth);
      case ValueKind::kDict:
        if (value.declared_type())
          return check_entries(value, *value.declared_type(), place, depth);
        for (const DictEntry& entry : value.entries())
          TENON_TRY(check(*entry.value, *Type::any(), value_of(place, *entry.key), depth + 1));
        return Status::ok();
      case ValueKind::kTuple:
        if (value.class_name().empty() || options_.classes == nullptr)
          return check_items(value, *Type::any(), place, depth);
        return check_of_class(value, value.class_name(), nullptr, place, depth);
      case ValueKind::kEnum:
        if (options_.classes == nullptr) return Status::ok();
        return check_of_class(value, value.class_name(), nullptr, place, depth);
      case ValueKind::kObject: return check_attributes(value, place, depth);
      default: return Status::ok();
    }
  }

  Status check_inside_state(Value& object, const CheckPlace& place, size_t depth) {
    if (!object.is_opaque()) return Status::ok();
    return check(*object.state(), *Type::any(), member_of(place, "state"), depth + 1);
  }

  Status check_items(Value& value, const Type& element, const CheckPlace& place, size_t depth) {
    for (size_t i = 0; i < value.items().size(); ++i)
      TENON_TRY(check(*value.items()[i], element, item_of(place, i), depth + 1));
    return Status::ok();
  }

  Status check_entries(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    for (const DictEntry& entry : value.entries()) {
      const CheckPlace at = value_of(place, *entry.key);
      if (Status status = check(*entry.key, *type.key(), at, depth + 1); !status.is_ok()) {
        if (is_trying() || !stopped_.is_ok()) return status;
        return misfit(place, "keys of " + type.key()->print(), "the key " + key_text(*entry.key));
      }
      TENON_TRY(check(*entry.value, *type.mapped(), at, depth + 1));
    }
    return Status::ok();
  }

  Status check_list(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    if (!value.is(ValueKind::kList)) return unfit(place, type, value);
    if (value.declared_type() && !is_same(*value.declared_type(), type))
      return unfit(place, type, value);
    return check_items(value, *type.element(), place, depth);
  }

  Status check_dict(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    if (!value.is(ValueKind::kDict)) return unfit(place, type, value);
    if (value.declared_type() && !is_same(*value.declared_type(), type))
      return unfit(place, type, value);
    return check_entries(value, type, place, depth);
  }

  Status check_tuple(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    if (!value.is(ValueKind::kTuple) || value.items().size() != type.parts().size())
      return unfit(place, type, value);
    for (size_t i = 0; i < value.items().size(); ++i)
      TENON_TRY(check(*value.items()[i], *type.parts()[i], item_of(place, i), depth + 1));
    return Status::ok();
  }

  // If no member fits, and exactly one member is a likely match for the value, the error is that
  // member's.
  Status check_union(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    const Type* meant = nullptr;
    size_t containers = 0;
    for (const TypeRef& member : type.parts()) {
      ++trying_;
      Status status = check(value, *member, place, depth);
      --trying_;
      if (status.is_ok() || !stopped_.is_ok()) return status;
      if (!is_for(*member, value)) continue;
      ++containers;
      meant = member.get();
    }
    if (containers != 1 || is_trying()) return unfit(place, type, value);
    return check(value, *meant, place, depth);
  }

  static bool is_for(const Type& type, const Value& value) noexcept {
    switch (type.kind()) {
      case TypeKind::kList: return value.is(ValueKind::kList);
      case TypeKind::kDict: return value.is(ValueKind::kDict);
      case TypeKind::kTuple: return value.is(ValueKind::kTuple);
      case TypeKind::kClass:
        return (value.is(ValueKind::kObject) || value.is(ValueKind::kEnum)) &&
               value.class_name() == type.class_name();
      default: return false;
    }
  }

  Status check_class(Value& value, const Type& type, const CheckPlace& place, size_t depth) {
    if (options_.classes != nullptr)
      return check_of_class(value, type.class_name(), &type, place, depth);
    switch (value.kind()) {
      case ValueKind::kObject:
      case ValueKind::kEnum:
        return value.class_name() == type.class_name() ? Status::ok() : unfit(place, type, value);
      // A NamedTuple in an archive has lost its name.
      case ValueKind::kTuple:
        if (!value.class_name().empty() && value.class_name() != type.class_name())
          return unfit(place, type, value);
        return check_items(value, *Type::any(), place, depth);
      default: return unfit(place, type, value);
    }
  }

  // `type` is the declared class type. It is null if the value is checked against its own class.
  Status check_of_class(Value& value, const std::string& name, const Type* type,
                        const CheckPlace& place, size_t depth) {
    const ClassDecl* const decl = classes_.find(name);
    if (decl == nullptr) return bad(place, format("there is no class '%s'", shown(name).c_str()));
    const auto unfit_here = [&] {
      if (type != nullptr || is_trying())
        return type != nullptr ? unfit(place, *type, value) : misfit_;
      return misfit(place, shown(name), found_text(value));
    };
    switch (decl->kind) {
      case ClassDecl::Kind::kObject:
      case ClassDecl::Kind::kInterface:
      case ClassDecl::Kind::kOpaque:
        if (!value.is(ValueKind::kObject)) return unfit_here();
        if (value.class_name() != name && !implements(value.class_name(), name, *decl))
          return unfit_here();
        return check_attributes(value, place, depth);
      case ClassDecl::Kind::kNamedTuple: {
        if (!value.is(ValueKind::kTuple) || value.items().size() != decl->fields.size())
          return unfit_here();
        if (!value.class_name().empty() && value.class_name() != name) return unfit_here();
        for (size_t i = 0; i < decl->fields.size(); ++i) {
          const Field& field = decl->fields[i];
          TENON_TRY(check(*value.items()[i], *field.type, member_of(place, field.name), depth + 1));
        }
        return Status::ok();
      }
      case ClassDecl::Kind::kEnum: return check_enum(value, *decl, name, place);
    }
    return unfit_here();
  }

  Status check_fresh_attributes(Value& object, const CheckPlace& place, size_t depth) {
    const auto name = [&object] { return shown(object.class_name()); };
    const ClassDecl* const decl = classes_.find(object.class_name());
    if (decl == nullptr) return bad(place, format("there is no class '%s'", name().c_str()));
    if (decl->kind == ClassDecl::Kind::kOpaque) return check_inside_state(object, place, depth);
    if (decl->kind != ClassDecl::Kind::kObject)
      return bad(place, format("'%s' is no class of objects", name().c_str()));
    if (decl->has_state != object.is_opaque()) {
      return bad(
          place,
          format(decl->has_state ? "an object of '%s' has attributes, and its class reads a state"
                                 : "an object of '%s' has a state, and its class reads attributes",
                 name().c_str()));
    }
    if (!object.is_opaque()) return check_fields(object, *decl, place, depth);
    if (!decl->state_type) return check_inside_state(object, place, depth);
    return check(*object.state(), *decl->state_type, member_of(place, "state"), depth + 1);
  }

  bool implements(const std::string& class_name, const std::string& declared,
                  const ClassDecl& decl) {
    if (const auto found = implements_.find({class_name, declared}); found != implements_.end())
      return found->second;
    const bool does =
        spend(1 + decl.methods).is_ok() && options_.classes->implements(class_name, declared);
    if (implements_.size() < max_known_) implements_[{class_name, declared}] = does;
    return does;
  }

  // Compares enum values by their texts, which differ if the values do.
  Status check_enum(const Value& value, const ClassDecl& decl, const std::string& name,
                    const CheckPlace& place) {
    if (!value.is(ValueKind::kEnum) || value.class_name() != name) {
      return is_trying() ? misfit_ : misfit(place, shown(name), found_text(value));
    }
    const auto [known, is_new] = enums_.try_emplace(&decl);
    if (is_new) {
      for (const ValueRef& candidate : decl.enum_values)
        known->second.insert(enum_text(*candidate));
    }
    const Value& held = *value.enum_value();
    if (known->second.contains(enum_text(held))) return Status::ok();
    return bad(place, format("the enum '%s' has no value %s", shown(name).c_str(),
                             key_text(held).c_str()));
  }

  static std::string enum_text(const Value& value) {
    switch (value.kind()) {
      case ValueKind::kInt: return format("i%lld", static_cast<long long>(value.as_int()));
      // The same text for 0 and -0, because these are equal.
      case ValueKind::kFloat: return format("f%a", value.as_float() == 0 ? 0.0 : value.as_float());
      case ValueKind::kStr: return "s" + value.as_str();
      default: return {};
    }
  }

  Status check_fields(Value& object, const ClassDecl& decl, const CheckPlace& place, size_t depth) {
    TENON_TRY(spend(decl.fields.size()));
    const Attributes& attributes = object.attributes();
    const auto is_of = [](const Field& field, const Attribute& attribute) {
      return field.name == attribute.name;
    };
    if (std::ranges::equal(decl.fields, attributes.all(), is_of)) {
      for (size_t i = 0; i < decl.fields.size(); ++i)
        TENON_TRY(check_field(*attributes.all()[i].value, decl.fields[i], place, depth));
      return Status::ok();
    }
    const auto index_of = [&](size_t field) {
      // PyTorch writes attributes in the order of the class.
      const std::string& name = decl.fields[field].name;
      return field < attributes.size() && attributes.all()[field].name == name
                 ? field
                 : attributes.index_of(name);
    };
    std::vector<std::string_view> missing;
    for (size_t i = 0; i < decl.fields.size(); ++i) {
      if (index_of(i) == attributes.size()) missing.push_back(decl.fields[i].name);
    }
    if (!missing.empty()) return bad(place, names_text(object.class_name(), "misses", missing));
    if (!options_.extra_attributes && attributes.size() > decl.fields.size()) {
      std::set<std::string_view> declared;
      for (const Field& field : decl.fields) declared.insert(field.name);
      std::vector<std::string_view> extra;
      for (const Attribute& attribute : attributes.all()) {
        if (!declared.contains(attribute.name)) extra.push_back(attribute.name);
      }
      return bad(place, names_text(object.class_name(), "does not declare", extra));
    }
    for (size_t i = 0; i < decl.fields.size(); ++i) {
      const Field& field = decl.fields[i];
      TENON_TRY(check_field(*attributes.all()[index_of(i)].value, field, place, depth));
    }
    return Status::ok();
  }

  Status check_field(Value& value, const Field& field, const CheckPlace& place, size_t depth) {
    return check(value, *field.type, member_of(place, field.name), depth + 1);
  }

  bool is_same(const Type& a, const Type& b) {
    if (&a == &b) return true;
    if (const auto found = same_.find({&a, &b}); found != same_.end()) return found->second;
    const bool same = spend(std::min(a.nodes(), b.nodes())).is_ok() && a.equals(b);
    if (same_.size() < max_known_) same_[{&a, &b}] = same;
    return same;
  }

  // Whether a member of a Union is being tried. A failure then only means that another member must
  // be tried, so it needs no message.
  bool is_trying() const noexcept { return trying_ > 0; }

  Status unfit(const CheckPlace& place, const Type& type, const Value& value) const {
    return is_trying() ? misfit_ : misfit(place, shown(type.print()), found_text(value));
  }
  Status bad(const CheckPlace& place, const std::string& what) const {
    return is_trying() ? misfit_ : misfit(place, what);
  }

  // too_deep() and spend() end the whole check, even if a Union has more members to try.
  Status too_deep(const CheckPlace& place) {
    stopped_ = misfit(place, format("values are nested deeper than %zu", options_.max_depth));
    return stopped_;
  }
  Status spend(uint64_t steps) {
    if (!stopped_.is_ok()) return stopped_;
    if (options_.steps_left == nullptr) return Status::ok();
    if (steps <= *options_.steps_left) {
      *options_.steps_left -= steps;
      return Status::ok();
    }
    *options_.steps_left = 0;
    stopped_ = Status(Code::kResourceExhausted,
                      "checking the values against their types takes more steps than any module of "
                      "this size needs: the types are made "
                      "so that it takes for ever, and the values are refused")
                   .with("limit", "steps_left");
    return stopped_;
  }

  const CheckOptions& options_;
  LastClass classes_;
  // The results for pairs of a value and a type, and the objects that fit. Their number is limited
  // to a fraction of the steps, so that the steps limit the memory too.
  std::map<std::pair<const Value*, const Type*>, bool> known_;
  std::unordered_set<const Value*> objects_;
  size_t max_known_;
  std::map<std::pair<const Type*, const Type*>, bool> same_;
  std::map<std::pair<std::string, std::string>, bool> implements_;
  std::unordered_map<const ClassDecl*, std::set<std::string>> enums_;
  int trying_ = 0;
  Status stopped_;
  const Status misfit_{Code::kInvalidArgument, "another member of a Union may fit"};
};

// `depth` limits the recursion. The constructors of Type cannot, because they first see the type of
// the innermost tuple.
Result<TypeRef> type_of(const Value& value, uint32_t depth) {
  switch (value.kind()) {
    case ValueKind::kNone: return Type::none();
    case ValueKind::kBool: return Type::boolean();
    case ValueKind::kInt: return Type::integer();
    case ValueKind::kFloat: return Type::floating();
    case ValueKind::kComplex: return Type::complex();
    case ValueKind::kStr: return Type::str();
    case ValueKind::kDevice: return Type::device();
    case ValueKind::kTensor: return Type::tensor();
    case ValueKind::kList:
      if (value.declared_type()) return value.declared_type();
      return Type::list(Type::any());
    case ValueKind::kDict:
      if (value.declared_type()) return value.declared_type();
      return Type::dict(Type::any(), Type::any());
    case ValueKind::kEnum:
    case ValueKind::kObject: return Type::class_type(value.class_name());
    case ValueKind::kTuple: break;
  }
  if (!value.class_name().empty()) return Type::class_type(value.class_name());
  if (depth > Type::kMaxDepth || value.items().size() >= Type::kMaxNodes) {
    return Status(Code::kInvalidArgument,
                  "the tuples are nested too deep, or have too many items, for their type");
  }
  std::vector<TypeRef> elements;
  for (const ValueRef& item : value.items()) {
    TENON_ASSIGN(TypeRef element, type_of(*item, depth + 1));
    elements.push_back(std::move(element));
  }
  return Type::tuple(std::move(elements));
}

}  // namespace

Status check_value(Value& value, const Type& type, std::string_view path,
                   const CheckOptions& options) {
  return Checker(options).check(value, type, {nullptr, nullptr, path, nullptr, 0}, 0);
}

Status check_object(Value& object, std::string_view path, const CheckOptions& options) {
  return Checker(options).check_attributes(object, {nullptr, nullptr, path, nullptr, 0}, 0);
}

Result<TypeRef> type_of(const Value& value) { return type_of(value, 1); }

}  // namespace tenon::value
