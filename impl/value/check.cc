#include "value/check.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "value/dict_key.h"

namespace tenon::value {
namespace {

constexpr size_t kMaxShownValueNbytes = 200;
// A class with thousands of attributes, and none of them there: the first few say enough.
constexpr size_t kMaxNamed = 10;

std::string shown(std::string text) {
  if (text.size() > kMaxShownValueNbytes) text = text.substr(0, kMaxShownValueNbytes) + "...";
  return text;
}

// What a value is, in the words of a type.
std::string found_text(const Value& value) {
  const auto with_class = [&value](const char* what) { return shown(value.class_name()) + " (" + what + ")"; };
  switch (value.kind()) {
    case ValueKind::kList: return value.declared_type() ? shown(value.declared_type()->print()) : "an untyped list";
    case ValueKind::kDict: return value.declared_type() ? shown(value.declared_type()->print()) : "an untyped dict";
    case ValueKind::kTuple: {
      if (!value.class_name().empty()) return with_class("a NamedTuple");
      return format("a tuple of %zu", value.items().size());
    }
    case ValueKind::kEnum: return with_class("an enum");
    case ValueKind::kObject: return with_class("an object");
    default: return value_kind_name(value.kind());
  }
}

// Where the check is: a chain over the frames of the recursion, made text only for a message.
struct Place {
  const Place* above;
  const char* separator;  // "." before a name, else null
  std::string_view name;
  const Value* key;  // of a dict's value
  size_t index;

  std::string text() const {
    if (above == nullptr) return std::string(name);
    const std::string path = above->text();
    if (separator != nullptr) return path.empty() ? std::string(name) : path + separator + std::string(name);
    return path + "[" + (key != nullptr ? key_text(*key) : std::to_string(index)) + "]";
  }
};

Place item_of(const Place& above, size_t index) { return {&above, nullptr, {}, nullptr, index}; }
Place value_of(const Place& above, const Value& key) { return {&above, nullptr, {}, &key, 0}; }
Place member_of(const Place& above, std::string_view name) { return {&above, ".", name, nullptr, 0}; }

class Checker {
 public:
  explicit Checker(const CheckOptions& options) : options_(options), classes_(options.classes) {}

  Status check(Value& value, const Type& type, const Place& place, size_t depth) {
    if (depth > options_.max_depth) return too_deep(place);
    // A value with one owner is met once with this type; others may be met by paths without number.
    const bool shared = value.child_count() > 0 && value.strong_count() > 1;
    if (shared && passed_.contains({&value, &type})) return Status::ok();
    TENON_TRY(check_fresh(value, type, place, depth));
    if (shared) passed_.insert({&value, &type});
    return Status::ok();
  }

  Status check_attributes(Value& object, const Place& place, size_t depth) {
    if (depth > options_.max_depth) return too_deep(place);
    const bool shared = object.strong_count() > 1;
    if (options_.classes == nullptr || (shared && objects_.contains(&object))) return Status::ok();
    TENON_TRY(check_fresh_attributes(object, place, depth));
    if (shared) objects_.insert(&object);
    return Status::ok();
  }

 private:
  Status check_fresh(Value& value, const Type& type, const Place& place, size_t depth) {
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
      case TypeKind::kNumber: return must_be(value.is(ValueKind::kInt) || value.is(ValueKind::kFloat) || value.is(ValueKind::kComplex));
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
      // No value is one of these.
      case TypeKind::kGenerator:
      case TypeKind::kStream:
      case TypeKind::kCapsule:
      case TypeKind::kFuture:
      case TypeKind::kRRef:
      case TypeKind::kAwait: break;
    }
    return unfit(place, type, value);
  }

  // Of what stands under no declared type: what it says of itself must hold, and objects are looked into.
  Status check_inside(Value& value, const Place& place, size_t depth) {
    switch (value.kind()) {
      case ValueKind::kList:
        if (value.declared_type()) return check_items(value, *value.declared_type()->element(), place, depth);
        return check_items(value, *Type::any(), place, depth);
      case ValueKind::kDict:
        if (value.declared_type()) return check_entries(value, *value.declared_type(), place, depth);
        for (const DictEntry& entry : value.entries()) TENON_TRY(check(*entry.value, *Type::any(), value_of(place, *entry.key), depth + 1));
        return Status::ok();
      case ValueKind::kTuple:
        if (value.class_name().empty() || options_.classes == nullptr) return check_items(value, *Type::any(), place, depth);
        return check_of_class(value, value.class_name(), nullptr, place, depth);
      case ValueKind::kEnum:
        if (options_.classes == nullptr) return Status::ok();
        return check_of_class(value, value.class_name(), nullptr, place, depth);
      case ValueKind::kObject: return check_attributes(value, place, depth);
      default: return Status::ok();
    }
  }

  Status check_inside_state(Value& object, const Place& place, size_t depth) {
    if (!object.is_opaque()) return Status::ok();
    return check(*object.state(), *Type::any(), member_of(place, "state"), depth + 1);
  }

  Status check_items(Value& value, const Type& element, const Place& place, size_t depth) {
    for (size_t i = 0; i < value.items().size(); ++i) TENON_TRY(check(*value.items()[i], element, item_of(place, i), depth + 1));
    return Status::ok();
  }

  Status check_entries(Value& value, const Type& type, const Place& place, size_t depth) {
    for (const DictEntry& entry : value.entries()) {
      const Place at = value_of(place, *entry.key);
      if (Status status = check(*entry.key, *type.key(), at, depth + 1); !status.is_ok()) {
        return unfit_text(place, "keys of " + type.key()->print(), "the key " + key_text(*entry.key));
      }
      TENON_TRY(check(*entry.value, *type.mapped(), at, depth + 1));
    }
    return Status::ok();
  }

  Status check_list(Value& value, const Type& type, const Place& place, size_t depth) {
    if (!value.is(ValueKind::kList)) return unfit(place, type, value);
    if (value.declared_type() && !value.declared_type()->equals(type)) return unfit(place, type, value);
    return check_items(value, *type.element(), place, depth);
  }

  Status check_dict(Value& value, const Type& type, const Place& place, size_t depth) {
    if (!value.is(ValueKind::kDict)) return unfit(place, type, value);
    if (value.declared_type() && !value.declared_type()->equals(type)) return unfit(place, type, value);
    return check_entries(value, type, place, depth);
  }

  Status check_tuple(Value& value, const Type& type, const Place& place, size_t depth) {
    if (!value.is(ValueKind::kTuple) || value.items().size() != type.parts().size()) return unfit(place, type, value);
    for (size_t i = 0; i < value.items().size(); ++i) TENON_TRY(check(*value.items()[i], *type.parts()[i], item_of(place, i), depth + 1));
    return Status::ok();
  }

  // The message is the one of the member that the value was most likely meant for, if there is just one.
  Status check_union(Value& value, const Type& type, const Place& place, size_t depth) {
    Status last = Status::ok();
    size_t containers = 0;
    for (const TypeRef& member : type.parts()) {
      Status status = check(value, *member, place, depth);
      if (status.is_ok()) return status;
      if (!is_for(*member, value)) continue;
      ++containers;
      last = std::move(status);
    }
    return containers == 1 ? last : unfit(place, type, value);
  }

  static bool is_for(const Type& type, const Value& value) noexcept {
    switch (type.kind()) {
      case TypeKind::kList: return value.is(ValueKind::kList);
      case TypeKind::kDict: return value.is(ValueKind::kDict);
      case TypeKind::kTuple: return value.is(ValueKind::kTuple);
      case TypeKind::kClass: return (value.is(ValueKind::kObject) || value.is(ValueKind::kEnum)) && value.class_name() == type.class_name();
      default: return false;
    }
  }

  Status check_class(Value& value, const Type& type, const Place& place, size_t depth) {
    if (options_.classes != nullptr) return check_of_class(value, type.class_name(), &type, place, depth);
    switch (value.kind()) {
      case ValueKind::kObject:
      case ValueKind::kEnum: return value.class_name() == type.class_name() ? Status::ok() : unfit(place, type, value);
      // A NamedTuple loses its name in an archive.
      case ValueKind::kTuple:
        if (!value.class_name().empty() && value.class_name() != type.class_name()) return unfit(place, type, value);
        return check_items(value, *Type::any(), place, depth);
      default: return unfit(place, type, value);
    }
  }

  // `type` is the class type that was declared, or null where the value is asked for its own class.
  Status check_of_class(Value& value, const std::string& name, const Type* type, const Place& place, size_t depth) {
    const ClassDecl* const decl = classes_.find(name);
    if (decl == nullptr) return bad(place, format("there is no class '%s'", shown(name).c_str()));
    const auto unfit_here = [&] {
      return type != nullptr ? unfit(place, *type, value) : unfit_text(place, shown(name), found_text(value));
    };
    switch (decl->kind) {
      case ClassDecl::Kind::kObject:
      case ClassDecl::Kind::kInterface:
      case ClassDecl::Kind::kOpaque:
        if (!value.is(ValueKind::kObject)) return unfit_here();
        if (value.class_name() != name && !options_.classes->implements(value.class_name(), name)) return unfit_here();
        return check_attributes(value, place, depth);
      case ClassDecl::Kind::kNamedTuple: {
        if (!value.is(ValueKind::kTuple) || value.items().size() != decl->fields.size()) return unfit_here();
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

  Status check_fresh_attributes(Value& object, const Place& place, size_t depth) {
    const auto name = [&object] { return shown(object.class_name()); };
    const ClassDecl* const decl = classes_.find(object.class_name());
    if (decl == nullptr) return bad(place, format("there is no class '%s'", name().c_str()));
    if (decl->kind == ClassDecl::Kind::kOpaque) return check_inside_state(object, place, depth);
    if (decl->kind != ClassDecl::Kind::kObject) return bad(place, format("'%s' is no class of objects", name().c_str()));
    if (decl->has_state != object.is_opaque()) {
      return bad(place, format(decl->has_state ? "an object of '%s' has attributes, and its class reads a state"
                                               : "an object of '%s' has a state, and its class reads attributes",
                               name().c_str()));
    }
    if (!object.is_opaque()) return check_fields(object, *decl, place, depth);
    if (!decl->state_type) return check_inside_state(object, place, depth);
    return check(*object.state(), *decl->state_type, member_of(place, "state"), depth + 1);
  }

  static bool is_scalar_equal(const Value& a, const Value& b) noexcept {
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case ValueKind::kInt: return a.as_int() == b.as_int();
      case ValueKind::kFloat: return a.as_float() == b.as_float();
      case ValueKind::kStr: return a.as_str() == b.as_str();
      default: return false;
    }
  }

  static Status check_enum(const Value& value, const ClassDecl& decl, const std::string& name, const Place& place) {
    if (!value.is(ValueKind::kEnum) || value.class_name() != name) return unfit_text(place, shown(name), found_text(value));
    const Value& held = *value.enum_value();
    const bool known = std::any_of(decl.enum_values.begin(), decl.enum_values.end(),
                                   [&held](const ValueRef& candidate) { return is_scalar_equal(*candidate, held); });
    if (!known) return bad(place, format("the enum '%s' has no value %s", shown(name).c_str(), key_text(held).c_str()));
    return Status::ok();
  }

  Status check_fields(Value& object, const ClassDecl& decl, const Place& place, size_t depth) {
    const Attributes& attributes = object.attributes();
    const auto is_of = [](const Field& field, const Attribute& attribute) { return field.name == attribute.name; };
    if (std::ranges::equal(decl.fields, attributes.all(), is_of)) {
      for (size_t i = 0; i < decl.fields.size(); ++i) TENON_TRY(check_field(*attributes.all()[i].value, decl.fields[i], place, depth));
      return Status::ok();
    }
    const auto index_of = [&](size_t field) {
      // PyTorch writes them in the order of the class.
      const std::string& name = decl.fields[field].name;
      return field < attributes.size() && attributes.all()[field].name == name ? field : attributes.index_of(name);
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

  Status check_field(Value& value, const Field& field, const Place& place, size_t depth) {
    return check(value, *field.type, member_of(place, field.name), depth + 1);
  }

  static std::string names_text(const std::string& class_name, const char* what, const std::vector<std::string_view>& names) {
    std::string text = "an object of '" + shown(class_name) + "' " + what + (names.size() == 1 ? " the attribute " : " the attributes ");
    for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
      text.append(i == 0 ? "'" : ", '").append(shown(std::string(names[i]))).push_back('\'');
    }
    if (names.size() > kMaxNamed) text += format(" and %zu more", names.size() - kMaxNamed);
    return text;
  }

  static Status unfit(const Place& place, const Type& type, const Value& value) {
    return unfit_text(place, shown(type.print()), found_text(value));
  }
  static Status unfit_text(const Place& place, std::string wanted, std::string found) {
    Status status = bad(place, wanted + " wanted, " + found + " found");
    return std::move(status).with("wanted", std::move(wanted)).with("found", std::move(found));
  }
  static Status bad(const Place& place, const std::string& what) {
    std::string path = place.text();
    Status status(Code::kInvalidArgument, path.empty() ? what : path + ": " + what);
    return std::move(status).with("where", std::move(path));
  }
  Status too_deep(const Place& place) const { return bad(place, format("values are nested deeper than %zu", options_.max_depth)); }

  const CheckOptions& options_;
  LastClass classes_;
  // What fits already, and need not be gone through again: values by the type they fit, and objects.
  std::set<std::pair<const Value*, const Type*>> passed_;
  std::unordered_set<const Value*> objects_;
};

// `depth` bounds the recursion: the constructors would only see the type of the innermost tuple.
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
    return Status(Code::kInvalidArgument, "the tuples are nested too deep, or have too many items, for their type");
  }
  std::vector<TypeRef> elements;
  for (const ValueRef& item : value.items()) {
    TENON_ASSIGN(TypeRef element, type_of(*item, depth + 1));
    elements.push_back(std::move(element));
  }
  return Type::tuple(std::move(elements));
}

}  // namespace

Status check_value(Value& value, const Type& type, std::string_view path, const CheckOptions& options) {
  return Checker(options).check(value, type, {nullptr, nullptr, path, nullptr, 0}, 0);
}

Status check_object(Value& object, std::string_view path, const CheckOptions& options) {
  return Checker(options).check_attributes(object, {nullptr, nullptr, path, nullptr, 0}, 0);
}

Result<TypeRef> type_of(const Value& value) { return type_of(value, 1); }

}  // namespace tenon::value
