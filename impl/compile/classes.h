// Classes: what the compiler asks of the classes and functions of an archive, found once and kept.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "script/class_parts.h"
#include "script/declarations.h"
#include "value/type.h"

namespace tenon::compile {

// One class, with the parts of its body in their order.
struct ClassInfo {
  const script::ClassDeclaration* declaration = nullptr;
  const script::Source* source = nullptr;
  script::Range name_range;
  script::ClassParts parts;
  struct Attribute {
    size_t slot = 0;
    value::TypeRef type;
  };
  std::map<std::string, Attribute, std::less<>> attributes;
  // Of two methods or constants of one name the one that counts.
  std::unordered_map<std::string_view, const script::Function*> methods;
  std::unordered_map<std::string_view, const script::Constant*> constants;
  std::unordered_map<std::string_view, size_t> fields;  // of a NamedTuple: the number of each

  script::ClassKind kind() const noexcept { return declaration->kind; }
  // Null: there is none of that name.
  const script::Function* find_method(std::string_view name) const noexcept {
    const auto found = methods.find(name);
    return found != methods.end() ? found->second : nullptr;
  }
  const script::Constant* find_constant(std::string_view name) const noexcept {
    const auto found = constants.find(name);
    return found != constants.end() ? found->second : nullptr;
  }
};

class Classes {
 public:
  using SlotNames = std::map<std::string, std::vector<std::string>, std::less<>>;

  // `slots`: the attributes of classes in the order of their objects. Null, or no entry: the order
  // of the class.
  Classes(const script::Declarations& declarations, const SlotNames* slots)
      : declarations_(declarations), slots_(slots) {}

  const script::Declarations& declarations() const noexcept { return declarations_; }

  // Null: the archive has no such class. A class whose body PyTorch refuses is an error.
  Result<const ClassInfo*> find(std::string_view qualified_name) const;

  // What the declarations know of a type's class without its body. Null: it is no class of the
  // archive.
  const script::ClassDeclaration* declaration_of(const value::Type& type) const;
  bool is_named_tuple(const value::Type& type) const;
  bool is_enum(const value::Type& type) const;
  bool is_interface(const value::Type& type) const;
  // The types of a NamedTuple's fields, or of a tuple's items. Null: the type is neither, or a
  // field's type is not known.
  std::vector<value::TypeRef> items_of(const value::Type& type) const;

 private:
  const script::Declarations& declarations_;
  const SlotNames* slots_;
  mutable std::map<std::string, std::unique_ptr<ClassInfo>, std::less<>> found_;
};

}  // namespace tenon::compile
