// What a class's body declares, sorted: fields, constants, members of an enum, methods, and the
// lists that say which field is a parameter, a buffer or a hook.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "script/ast.h"

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

// `__parameters__ = ["w", ]` and its like. Absent and empty are two things: the printer of PyTorch
// writes some of them always.
struct NameList {
  std::vector<std::string> names;
  const Stmt* statement = nullptr;
};

struct Method {
  const Function* function = nullptr;
  const Stmt* statement = nullptr;
};

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

// Refuses, with line and caret, a base class that the importer does not know and a statement that
// it does not take in such a class.
Result<ClassParts> class_parts(const Source& source, const Class& class_def);

}  // namespace tenon::script
