// What a class of a code file declares, in a form that can be changed and printed again as PyTorch
// prints it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "module/name_map.h"
#include "script/class_parts.h"
#include "script/parser.h"
#include "value/type.h"
#include "value/value.h"

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
  value::TypeRef type;      // null: `Final` alone
  std::string text;         // of the value, as source
  value::ValueRef literal;  // null if that is none
};

struct MethodDecl {
  std::string name;
  std::string text;  // whole lines, at the level of a class's body
  int version = 0;   // of the operators that it means
};

struct ClassBody {
  // Of a class that was parsed. Submodules are attributes in it: which classes are modules, only
  // the code knows (Code::edit).
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
  // "a parameter", … of what there is of that name; null: nothing.
  const char* taken_by(std::string_view name) const;

  void add_field(FieldDecl field);
  void add_method(MethodDecl method);  // replaces the one of its name
  void remove_field(size_t index);
  void remove_method(size_t index);

  // The class as source text: parameters and buffers first, then attributes, then submodules, as
  // PyTorch orders them.
  std::string print(std::string_view base_name) const;
  // The names of its fields in that order.
  std::vector<size_t> field_order() const;

  ClassKind kind = ClassKind::kModule;
  std::vector<FieldDecl> fields;
  std::vector<ConstantDecl> constants;
  std::vector<ConstantDecl> enum_members;  // types are null
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
