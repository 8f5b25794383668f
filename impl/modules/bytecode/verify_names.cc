#include "modules/bytecode/verify_names.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "modules/bytecode/type_text.h"
#include "modules/bytecode/verify_operands.h"

namespace tenon::bytecode {
namespace {

constexpr int kMaxShownName = 100;

bool has_empty_part(std::string_view name) {
  return name.empty() || name.front() == '.' || name.back() == '.' ||
         name.find("..") != std::string_view::npos;
}

// No schema of an operator has such a name.
bool has_blank(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= ' '; });
}

Status check_operator(const Function& function, size_t index) {
  const OperatorUse& use = function.operators[index];
  const size_t colons = use.name.find("::");
  const bool has_parts = colons != std::string::npos && colons > 0 && colons + 2 < use.name.size();
  if (has_parts && !has_blank(use.name) && !has_blank(use.overload)) return Status::ok();
  std::string shown = use.overload.empty() ? use.name : use.name + "." + use.overload;
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return function_fault(
      Code::kCorrupt, function,
      format("operator %zu is '%.*s', and the name of an operator is like aten::add", index,
             kMaxShownName, shown.c_str()));
}

Status check_schema_type(const Function& function, const Argument& argument, bool is_result,
                         size_t index) {
  Status wrong = parse_type_text(argument.type).status();
  if (wrong.is_ok() || (is_result && argument.type.starts_with("Union["))) return Status::ok();
  const std::string place = format("the type '%.*s' of %s %zu", kMaxShownName,
                                   argument.type.c_str(), is_result ? "result" : "argument", index);
  return function_fault(wrong.code(), function,
                        place + " cannot be read: " + std::string(wrong.message()));
}

}  // namespace

Status check_names(const Function& function) {
  if (has_empty_part(function.name))
    return function_fault(Code::kCorrupt, function, "a part of its name is empty");
  for (size_t i = 0; i < function.operators.size(); ++i) TENON_TRY(check_operator(function, i));
  for (size_t i = 0; i < function.arguments.size(); ++i)
    TENON_TRY(check_schema_type(function, function.arguments[i], false, i));
  for (size_t i = 0; i < function.returns.size(); ++i)
    TENON_TRY(check_schema_type(function, function.returns[i], true, i));
  return Status::ok();
}

}  // namespace tenon::bytecode
