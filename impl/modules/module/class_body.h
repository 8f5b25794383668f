// ClassBody holds the declarations of one class of a code file: fields, constants and methods.
// CodeSet makes it from the parsed class. It can be changed, and printed again as PyTorch prints
// classes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/module/name_map.h"
#include "modules/script/class_parts.h"
#include "modules/script/parser.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::module {

using script::ClassKind;

enum class FieldKind : uint8_t { kParameter, kBuffer, kAttribute, kSubmodule };

struct FieldDecl {
  std::string name;
  value::TypeRef type;
  FieldKind kind = FieldKind::kAttribute;
};

struct ConstantDecl {
  std::string name;
  value::TypeRef type;      // null: the annotation is `Final` alone
  std::string text;         // the value as source text
  value::ValueRef literal;  // null: `text` is not a literal
};

struct MethodDecl {
  std::string name;
  std::string text;  // whole lines, indented as in a class's body
  int version = 0;   // the version of the operators to which the method refers
};

struct ClassBody {
  // Makes the body of a parsed class. Submodules are attributes in it, because only the code knows
  // which classes are modules. CodeSet::edit() changes their kind. CORRUPT, with line and caret, if
  // a field has no type or is declared twice. The body does not refer to `file`.
  static Result<ClassBody> create(const script::File& file, const script::Class& class_def,
                                  int version);

  // The index in fields, constants or methods; SIZE_MAX if there is none.
  size_t find_field(std::string_view field_name) const {
    return find_in(field_places_, field_name);
  }
  size_t find_constant(std::string_view constant_name) const;
  size_t find_method(std::string_view method_name) const {
    return find_in(method_places_, method_name);
  }
  // Says which kind of member has the name, as "a parameter". Null: no member has it.
  const char* taken_by(std::string_view name) const;

  // These functions keep the lookup by name right, so `fields` and `methods` are not extended or
  // shortened in any other way. Indices are valid until the next removal.
  void add_field(FieldDecl field);
  void add_method(MethodDecl method);  // replaces a method of the same name
  void remove_field(size_t index);
  void remove_method(size_t index);

  // Prints the class as source text in PyTorch's order: first parameters and buffers, then
  // attributes, then submodules.
  std::string print(std::string_view base_name) const;
  // The indices of the fields in that order.
  std::vector<size_t> field_order() const;

  ClassKind kind = ClassKind::kModule;
  std::vector<FieldDecl> fields;
  std::vector<ConstantDecl> constants;
  std::vector<ConstantDecl> enum_members;  // their types are null
  std::vector<MethodDecl> methods;
  std::vector<std::string> forward_hooks;
  std::vector<std::string> forward_pre_hooks;

 private:
  using Places = ByName<size_t>;
  static size_t find_in(const Places& places, std::string_view name);
  Places field_places_;
  Places method_places_;
};

}  // namespace tenon::module
