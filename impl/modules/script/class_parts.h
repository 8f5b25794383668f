// class_parts() sorts the body of a class into fields, constants, members of an enum, methods, and
// the lists that say which field is a parameter, a buffer or a hook. The checker, the compiler and
// impl/modules/module use these parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/script/ast.h"

namespace tenon::script {

enum class ClassKind { kPlain, kModule, kNamedTuple, kEnum, kInterface, kModuleInterface };

struct Field {
  std::string name;
  const Expr* annotation = nullptr;
  const Stmt* statement = nullptr;
  bool is_quoted = false;  // `__annotations__["0"] = T`
};

// `name : Final[T] = value`.
struct Constant {
  std::string name;
  const Expr* annotation = nullptr;  // the T; null for `Final` alone
  const Expr* value = nullptr;
  const Stmt* statement = nullptr;
};

struct EnumMember {
  std::string name;
  const Expr* value = nullptr;
  const Stmt* statement = nullptr;
};

// A list of names such as `__parameters__ = ["w", ]`. An absent list differs from an empty one,
// because PyTorch's printer writes some of the lists always.
struct NameList {
  std::vector<std::string> names;
  const Stmt* statement = nullptr;
};

struct Method {
  const Function* function = nullptr;
  const Stmt* statement = nullptr;
};

// The pointers lead into the tree of the class, so its File must outlive the parts.
struct ClassParts {
  ClassKind kind = ClassKind::kPlain;
  std::vector<Field> fields;
  std::vector<Constant> constants;
  std::vector<EnumMember> members;
  std::vector<Method> methods;
  std::optional<NameList> parameters;
  std::optional<NameList> buffers;
  std::optional<NameList> forward_hooks;
  std::optional<NameList> forward_pre_hooks;
};

// Sorts the body of a class. CORRUPT, with line and caret, for a base class that PyTorch's importer
// does not know, and for a statement that it does not take in such a class.
Result<ClassParts> class_parts(const Source& source, const Class& class_def);

}  // namespace tenon::script
