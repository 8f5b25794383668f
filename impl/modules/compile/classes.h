// Classes: the classes of an archive as the compiler needs them. Each class is looked up once and
// then cached.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "modules/script/class_parts.h"
#include "modules/script/declarations.h"
#include "modules/value/type.h"

namespace tenon::compile {

// One class, with the parts of its body in their order and tables by name.
struct ClassInfo {
  const script::ClassDeclaration* declaration = nullptr;
  const script::Source* source = nullptr;
  script::Range name_range;
  script::ClassParts parts;
  struct Attribute {
    size_t slot = 0;  // the place of the attribute in an object (see Classes::SlotNames)
    value::TypeRef type;
  };
  std::map<std::string, Attribute, std::less<>> attributes;
  // By name.
  std::unordered_map<std::string_view, const script::Function*> methods;
  std::unordered_map<std::string_view, const script::Constant*> constants;
  std::unordered_map<std::string_view, size_t> fields;  // a NamedTuple's fields and their numbers

  script::ClassKind kind() const noexcept { return declaration->kind; }
  // Null: the class has no method of that name.
  const script::Function* find_method(std::string_view name) const noexcept {
    const auto found = methods.find(name);
    return found != methods.end() ? found->second : nullptr;
  }
  const script::Constant* find_constant(std::string_view name) const noexcept {
    const auto found = constants.find(name);
    return found != constants.end() ? found->second : nullptr;
  }
};

// One thread at a time may use it, because find() fills the cache. The arguments of the constructor
// must outlive it, and it must outlive each ClassInfo that it gives.
class Classes {
 public:
  using SlotNames = std::map<std::string, std::vector<std::string>, std::less<>>;

  // `slots` has the attributes of each class in the order in which its objects have them. If it is
  // null or lacks a class, the order is that in which the class declares them.
  Classes(const script::Declarations& declarations, const SlotNames* slots)
      : declarations_(declarations), slots_(slots) {}

  const script::Declarations& declarations() const noexcept { return declarations_; }

  // Null: the archive has no such class. A class whose body PyTorch refuses is CORRUPT.
  Result<const ClassInfo*> find(std::string_view qualified_name) const;

  // The declaration of a type's class. Null: the type is no class of the archive.
  const script::ClassDeclaration* declaration_of(const value::Type& type) const;
  bool is_named_tuple(const value::Type& type) const;
  bool is_enum(const value::Type& type) const;
  bool is_interface(const value::Type& type) const;
  // The types of a NamedTuple's fields, or of a tuple's items. A field of unknown type counts as a
  // Tensor. Empty: the type is neither a NamedTuple nor a tuple.
  std::vector<value::TypeRef> items_of(const value::Type& type) const;

 private:
  const script::Declarations& declarations_;
  const SlotNames* slots_;
  mutable std::map<std::string, std::unique_ptr<ClassInfo>, std::less<>> found_;
};

}  // namespace tenon::compile
