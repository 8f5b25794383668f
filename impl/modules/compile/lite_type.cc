#include "modules/compile/lite_type.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/bytecode/type_text.h"
#include "modules/compile/types.h"
#include "modules/script/schema_table.h"

namespace tenon::compile {
namespace {

using value::TypeKind;
using value::TypeRef;

// A NamedTuple is written with all its fields. A field of its own type makes the text endless, and
// fields that double from one NamedTuple to the next make it huge. So both depth and parts are
// limited.
constexpr size_t kMaxTypeParts = 4096;
constexpr size_t kMaxTypeDepth = 64;

// Replaces each NamedTuple in a type that does not stay one in bytecode by the tuple of its fields.
// If `target` is null, no NamedTuple stays one. A Future[T] becomes T. Null: the type has a Union
// in it, or is too large.
TypeRef without_named_tuples(const Classes& classes, const value::Type& type, const Target* target,
                             size_t depth, size_t* parts_left) {
  if (depth > kMaxTypeDepth || *parts_left == 0) return {};
  --*parts_left;
  const bool is_named = classes.is_named_tuple(type) &&
                        (target == nullptr || !keeps_named_tuple(classes, type, *target));
  if (type.kind() == TypeKind::kUnion) return {};
  if (type.parts().empty() && !is_named) return TypeRef::share(&type);
  std::vector<TypeRef> parts;
  for (const TypeRef& part : is_named
                                 ? classes.items_of(type)
                                 : std::vector<TypeRef>(type.parts().begin(), type.parts().end())) {
    parts.push_back(without_named_tuples(classes, *part, target, depth + 1, parts_left));
    if (!parts.back()) return {};
  }
  if (type.kind() == TypeKind::kFuture) return parts[0];
  return with_parts(TypeRef::share(&type), is_named ? TypeKind::kTuple : type.kind(),
                    std::move(parts));
}

class LiteTypes {
 public:
  LiteTypes(const Classes& classes, const Target& target)
      : classes_(classes), target_(target), none_name_(target.none_name) {}

  Result<std::string> text(const value::Type& given, size_t depth) {
    TypeRef kept = without_futures(TypeRef::share(&given));
    if (holds_plain_named_tuple(classes_, *kept, target_)) {
      TypeRef plain = without_named_tuples(classes_, *kept, &target_, depth, &parts_left_);
      if (!plain)
        return Status(Code::kUnsupported,
                      "the lite interpreter of PyTorch does not read the type " + kept->print());
      kept = std::move(plain);
    }
    const value::Type& type = *kept;
    if (depth > kMaxTypeDepth || parts_left_ == 0)
      return Status(Code::kResourceExhausted, type.print() + " is nested too deep, or too large");
    --parts_left_;
    if (type.kind() == TypeKind::kDict) {
      TENON_ASSIGN(const std::string key, part_of_dict(type.key(), depth));
      TENON_ASSIGN(const std::string mapped, part_of_dict(type.mapped(), depth));
      return "Dict[" + key + "," + mapped + "]";
    }
    if (type.kind() != TypeKind::kClass || type.class_name().starts_with(script::kCustomClasses))
      return type.print(none_name_);
    const script::ClassDeclaration* const declared = classes_.declaration_of(type);
    if (declared == nullptr || declared->kind != script::ClassKind::kNamedTuple)
      return Status(Code::kUnsupported,
                    "the lite interpreter of PyTorch has no type " + type.class_name());
    std::string text = type.class_name() + "[NamedTuple, [";
    const std::vector<TypeRef> items = classes_.items_of(type);
    for (size_t i = 0; i < items.size(); ++i) {
      TENON_ASSIGN(const std::string part, this->text(*items[i], depth + 1));
      text += (i > 0 ? ",[" : "[") + declared->fields[i].name + ", " + part + "]";
    }
    return text + "]]";
  }

 private:
  Result<std::string> part_of_dict(const TypeRef& type, size_t depth) {
    return classes_.is_named_tuple(*type) ? text(*type, depth + 1)
                                          : Result<std::string>(type->print(none_name_));
  }

  const Classes& classes_;
  const Target& target_;
  std::string_view none_name_;
  size_t parts_left_ = kMaxTypeParts;
};

bool holds_empty_tuple(const value::Type& type) {
  return (type.kind() == TypeKind::kTuple && type.parts().empty()) ||
         std::any_of(type.parts().begin(), type.parts().end(),
                     [](const TypeRef& part) { return holds_empty_tuple(*part); });
}

// Whether the lite interpreters for versions below 8 read the type, in which all NamedTuples are
// replaced already.
bool is_read_below_8(const value::Type& type) {
  const TypeKind kind = type.kind();
  if (kind == TypeKind::kUnion || kind == TypeKind::kGenerator) return false;
  if (kind == TypeKind::kTuple && type.parts().empty()) return false;
  if (kind == TypeKind::kClass && !type.class_name().starts_with(script::kCustomClasses))
    return false;
  return std::all_of(type.parts().begin(), type.parts().end(),
                     [](const TypeRef& part) { return is_read_below_8(*part); });
}

Result<std::string> lowered_type(const Classes& classes, const value::Type& type,
                                 const Target& target) {
  size_t parts_left = kMaxTypeParts;
  const TypeRef plain = without_named_tuples(classes, type, nullptr, 0, &parts_left);
  if (!plain || !is_read_below_8(*plain)) {
    return Status(
        Code::kUnsupported,
        format("the lite interpreter of PyTorch %s has no type %s in bytecode of version %lld",
               std::string(target.torch).c_str(), type.print().c_str(),
               static_cast<long long>(target.version)));
  }
  return LiteTypes(classes, target).text(*plain, 0);
}

}  // namespace

bool keeps_named_tuple(const Classes& classes, const value::Type& type, const Target& target) {
  constexpr std::string_view kOfTorch = "__torch__.torch.";
  return classes.is_named_tuple(type) && target.has_named_tuples &&
         !type.class_name().starts_with(kOfTorch);
}

bool holds_plain_named_tuple(const Classes& classes, const value::Type& type,
                             const Target& target) {
  if (classes.is_named_tuple(type) && !keeps_named_tuple(classes, type, target)) return true;
  return std::any_of(type.parts().begin(), type.parts().end(), [&](const TypeRef& part) {
    return holds_plain_named_tuple(classes, *part, target);
  });
}

// Only dicts and NamedTuples are written in another form than in code. Types inside of other types
// are written as in code.
Result<std::string> lite_type(const Classes& classes, const value::Type& type,
                              const Target& target) {
  if (target.lowers()) return lowered_type(classes, type, target);
  TENON_ASSIGN(std::string text, LiteTypes(classes, target).text(type, 0));
  const Status is_read = bytecode::parse_type_text(text).status();
  if (!is_read.is_ok())
    return Status(Code::kUnsupported,
                  "the lite interpreter of PyTorch does not read the type " + type.print());
  return text;
}

std::string schema_type_text(const Classes& classes, const value::Type& type, bool is_argument,
                             const Target& target) {
  if (!is_argument && keeps_named_tuple(classes, type, target)) return type.print();
  size_t parts_left = kMaxTypeParts;
  const TypeRef plain = without_named_tuples(classes, type, nullptr, 0, &parts_left);
  // The loader reads the class of `self`, and classes of modules that a function takes, as plain
  // names.
  const bool is_class = plain && plain->kind() == TypeKind::kClass;
  if (!plain || holds_empty_tuple(*plain) ||
      (target.lowers() && !is_class && !is_read_below_8(*plain)))
    return "Any";
  return plain->print(target.none_name);
}

}  // namespace tenon::compile
