// The part of Checker (checker.h) that checks whether the arguments of a call fit by number and
// keyword.
#include <algorithm>
#include <array>
#include <utility>

#include "modules/script/checker.h"
#include "modules/script/nearest.h"
#include "modules/script/number_operators.h"

namespace tenon::script {
namespace {

using value::TypeKind;
using Kind = CheckedValue::Kind;

// Calls of a function with more parameters are taken without a check. The time of the check is the
// product of the number of calls and the number of parameters.
constexpr size_t kMaxParameters = 1024;

// The parameters as a declaration has them: "self, other, *, alpha=".
std::string written(const Formals& formals) {
  std::string text;
  bool keyword_only = false;
  for (const Formal& formal : formals.list) {
    if (!text.empty()) text += ", ";
    if (formal.keyword_only && !keyword_only) text += "*, ";
    keyword_only = formal.keyword_only;
    text.append(formal.name);
    if (formal.has_default) text.push_back('=');
  }
  if (formals.any_more) text += text.empty() ? "..." : ", ...";
  return text;
}

// The name by which code calls an operator: "torch.relu", "ops.quantized.linear".
std::string called_name(std::string_view qualified_name) {
  const size_t colon = qualified_name.find("::");
  const std::string_view name_space = qualified_name.substr(0, colon);
  const std::string name(qualified_name.substr(colon + 2));
  return name_space == "aten" ? "torch." + name : "ops." + std::string(name_space) + "." + name;
}

// Finds the oldest and the newest PyTorch with an overload that takes the call. False: none has
// one. Overloads whose last version is older than `needed` do not count.
bool span_of(Overloads overloads, bool is_aten, const CallShape& shape, uint8_t needed,
             VersionSpan* out) {
  bool any = false;
  for (Overload overload; overloads.next(&overload);) {
    if (overload.versions.last < needed) continue;
    Formals formals = Formals::parse(overload.arguments);
    formals.is_aten = is_aten;
    if (!accepts(formals, shape)) continue;
    out->first = any ? std::min(out->first, overload.versions.first) : overload.versions.first;
    out->last = any ? std::max(out->last, overload.versions.last) : overload.versions.last;
    any = true;
  }
  return any;
}

// The oldest version whose overloads count. Archives of version 10 are read by PyTorch 1.12 and
// newer, where calls of some operators differ from before.
uint8_t needed_version(const SchemaTable& table, std::string_view name, int64_t archive_version) {
  if (archive_version < 10 || !depends_on_archive_version(name)) return 0;
  return table.version_of(Torch::kOldest);
}

std::string takes_of(Overloads overloads) {
  std::string text;
  std::vector<std::string> shown;
  for (Overload overload; overloads.next(&overload);) {
    std::string one = written(Formals::parse(overload.arguments));
    if (std::find(shown.begin(), shown.end(), one) != shown.end()) continue;
    if (shown.size() == 3) return text + ", ...";
    if (!text.empty()) text += ", ";
    text += "(" + one + ")";
    shown.push_back(std::move(one));
  }
  return text;
}

// Says that PyTorch `version` refuses a call that `other` takes.
std::string refusal_of(uint8_t version, const std::string& shown, Overloads listed, uint8_t other) {
  bool has_operator = false;
  for (Overload overload; listed.next(&overload);)
    has_operator =
        has_operator || (overload.versions.first <= version && version <= overload.versions.last);
  const std::vector<std::string_view>& versions = SchemaTable::get().versions();
  const std::string refused = "PyTorch " + std::string(versions[version]) + " refuses " + shown;
  const std::string taking = ", and PyTorch " + std::string(versions[other]);
  return has_operator ? refused + " with such arguments" + taking + " takes them"
                      : refused + taking + " has it";
}

}  // namespace

Status Checker::call(const Expr& expr, CheckedValue* out) {
  const Expr& callee = expr.child(0);
  CheckedValue called;
  TENON_TRY(checked_value(callee, &called));
  if (called.kind == Kind::kGlobal) return call_global(expr, called.global, out);
  Operands operands;
  if (called.kind == Kind::kNew) {
    // The argument of `__new__` is a class, and no value.
    for (const Expr* given : expr.arguments()) {
      CheckedValue ignored;
      TENON_TRY(checked_value(*given, &ignored));
    }
  } else {
    TENON_TRY(arguments(expr, 0, &operands));
  }
  note_method_of_unknown(callee, called);
  return call_meaning(expr, called, operands, 0, out);
}

Status Checker::operand(const Expr& expr, std::string_view keyword, Operands* given) {
  const bool is_starred = expr.kind == ExprKind::kStarred;
  CheckedValue meaning;
  TENON_TRY(value(is_starred ? expr.child(0) : expr, &meaning));
  if (given != nullptr)
    given->push_back({keyword, meaning.type, meaning.may_hold_tensor(), is_starred,
                      sure_type(meaning), expr.range});
  return {};
}

// Checks that all arguments but the first `skip` positional ones are values.
Status Checker::arguments(const Expr& call, size_t skip, Operands* given) {
  const ExprList positional = call.arguments();
  for (size_t i = skip; i < positional.size(); ++i) TENON_TRY(operand(*positional[i], {}, given));
  for (const Keyword& keyword : call.keywords)
    TENON_TRY(operand(*keyword.value, keyword.name, given));
  return {};
}

Status Checker::call_meaning(const Expr& call, const CheckedValue& callee, const Operands& given,
                             size_t skip, CheckedValue* out) {
  switch (callee.kind) {
    case Kind::kOperator: return call_operator(call, callee, given, skip, out);
    case Kind::kClass:
    case Kind::kNew: return call_class(call, callee, skip, out);
    case Kind::kFunction: return call_declared(call, *callee.function, 0, skip, out);
    case Kind::kMethod: return call_declared(call, *callee.function, 1, skip, out);
    case Kind::kValue: return call_object(call, callee, skip, out);
    case Kind::kClosure:
      // Only `fork` can call a nested function.
      return skip > 0 ? Status()
                      : refuse(call.child(0).range, "PyTorch calls a nested function by fork only");
    case Kind::kGlobal: return {};
    case Kind::kNamespace:
    case Kind::kQualified: break;
  }
  return refuse(call.child(0).range,
                "there is no function or class " + std::string(source_.text(call.child(0).range)));
}

Status Checker::call_operator(const Expr& call, const CheckedValue& callee, const Operands& given,
                              size_t skip, CheckedValue* out) {
  const SchemaTable& table = SchemaTable::get();
  const std::string& name = callee.name;
  const size_t colon = name.find("::");
  const std::string_view name_space = std::string_view(name).substr(0, colon);
  out->may_be_constant = name == "aten::is_scripting" ||
                         name.find("is_tracing") != std::string_view::npos ||
                         name.find("is_compiling") != std::string_view::npos;
  const auto holds_tensor = [](const Operand& operand) { return operand.may_hold_tensor; };
  const bool of_tensors = (callee.has_self && callee.may_hold_tensor()) ||
                          std::any_of(given.begin(), given.end(), holds_tensor);
  out->holds_no_tensor = gives_no_tensor(name, of_tensors);
  out->result_names = result_names(name);
  if (!table.knows_namespace(name_space)) {
    out->is_foreign = true;
    if (uses_ != nullptr && !is_quiet()) uses_->foreign_namespaces.insert(std::string(name_space));
    return {};
  }
  const Overloads listed = table.find(name);
  const Overloads from_source = find_source_operator(name);
  const std::string shown = called_name(name);
  const Range where = call.child(0).kind == ExprKind::kAttribute && skip == 0
                          ? call.child(0).text_range
                          : call.range;
  if (exists_in_graphs_alone(name)) {
    return refuse(where, shown +
                             " exists in an optimised graph alone, and what it needs there is lost "
                             "in this code: no PyTorch loads it. "
                             "Save the module from before optimize_for_inference, or before "
                             "whatever else fused its graph");
  }
  if (listed.empty() && from_source.empty()) {
    if (options_.unknown_operators || is_quiet()) return {};
    return refuse(where, "PyTorch has no operator " + shown + did_you_mean(table.nearest(name)));
  }
  // Operators with a `self` of any type have names such as __is__.
  if (callee.has_self && callee.owner != nullptr && !name.substr(colon + 2).starts_with("__"))
    return no_member(*callee.owner, name.substr(colon + 2), where);
  CallShape shape = call_shape(call, skip);
  shape.has_self = callee.has_self;
  VersionSpan span;
  VersionSpan other;
  const bool is_aten = name_space == "aten";
  bool taken =
      span_of(listed, is_aten, shape, needed_version(table, name, options_.archive_version), &span);
  if (span_of(from_source, is_aten, shape, 0, &other)) {
    // The versions that have these overloads are not known. They count as being in all versions.
    span = table.all_versions();
    taken = true;
  }
  if (taken) {
    used_operator(name, span);
    note_versioned_call(name, callee, given);
    // In an older archive PyTorch may run another operator here.
    if (options_.archive_version < 10 && depends_on_archive_version(name)) return {};
    TENON_TRY(note_versions(call, shown, listed, span));
    const Expr& written = call.child(0);
    const Receiver self{callee.type,
                        written.kind == ExprKind::kAttribute ? written.child(0).range : call.range};
    return check_operands(call, {&name, 1}, shown, callee.has_self ? &self : nullptr, given, shape,
                          out);
  }
  if (is_quiet()) return {};
  return not_accepted(call, shown, shape, takes_of(listed.empty() ? from_source : listed));
}

Status Checker::not_accepted(const Expr& call, std::string_view what, const CallShape& shape,
                             const std::string& takes) {
  return refuse(call.range, std::string(what) + " takes " + takes + ", and gets " +
                                (shape.has_self ? "self, " : "") + describe(shape));
}

void Checker::used_operator(std::string_view name, VersionSpan versions) {
  if (uses_ == nullptr || is_quiet()) return;
  const auto [found, is_new] = uses_->operators.try_emplace(std::string(name), versions);
  if (is_new) return;
  found->second.first = std::max(found->second.first, versions.first);
  found->second.last = std::min(found->second.last, versions.last);
}

// `span` are the versions with an overload for this number and these keywords of arguments.
Status Checker::note_versions(const Expr& call, const std::string& shown, Overloads listed,
                              VersionSpan span) {
  const SchemaTable& table = SchemaTable::get();
  const uint8_t oldest = table.version_of(Torch::kOldest);
  const uint8_t newest = table.version_of(Torch::kNewest);
  if (span.first > oldest)
    TENON_TRY(
        note_partly_refused(call, Torch::kOldest, refusal_of(oldest, shown, listed, span.first)));
  if (span.last < newest)
    TENON_TRY(
        note_partly_refused(call, Torch::kNewest, refusal_of(newest, shown, listed, span.last)));
  return {};
}

Status Checker::note_partly_refused(const Expr& call, Torch refusing, std::string sentence) {
  if (is_quiet()) return {};
  if (refusing == Torch::kNewest && options_.newest_decides)
    return refuse(
        call.range,
        sentence + ". If the module is for the older PyTorch alone, export it without the check");
  if (uses_ == nullptr) return {};
  CallPlaces& places = uses_->partly_refused[std::move(sentence)];
  if (places.count++ > 0) return {};
  const Position at = source_.position(call.range.begin);
  places.first = format("%s:%u:%u", source_.name().c_str(), at.line, at.column);
  return {};
}

Status Checker::call_class(const Expr& call, const CheckedValue& callee, size_t skip,
                           CheckedValue* out) {
  if (callee.kind == Kind::kNew) {
    out->owner = callee.owner;
    out->is_foreign = callee.owner == nullptr;
    const CallShape shape = call_shape(call, skip);
    // PyTorch does not look at keywords here.
    if (shape.open || shape.positional == 1) return {};
    return refuse(call.range, "__new__ takes one argument, the class");
  }
  if (callee.owner == nullptr) {
    out->is_foreign = true;
    return {};
  }
  const ClassDeclaration& owner = *callee.owner;
  out->owner = &owner;
  const CallShape shape = call_shape(call, skip);
  if (owner.kind == ClassKind::kNamedTuple) {
    if (owner.fields.size() > kMaxParameters) return {};
    Formals fields;
    for (const ParameterDeclaration& field : owner.fields) {
      const bool is_list = field.type && field.type->kind() == TypeKind::kList;
      fields.list.push_back({field.name, false, false, is_list});
    }
    return accepts(fields, shape)
               ? Status()
               : not_accepted(call, owner.name, shape, "(" + written(fields) + ")");
  }
  if (owner.kind == ClassKind::kEnum)
    return refuse(call.range, "PyTorch does not call an enum's class");
  const auto init = owner.methods.find(std::string_view("__init__"));
  if (init == owner.methods.end())
    return refuse(call.child(0).range, owner.name + " has no __init__");
  CheckedValue ignored;
  return call_declared(call, init->second, 1, skip, &ignored);
}

Status Checker::call_object(const Expr& call, const CheckedValue& callee, size_t skip,
                            CheckedValue* out) {
  out->is_foreign = callee.is_foreign;
  out->may_be_constant = true;
  if (callee.owner != nullptr) {
    const auto method = callee.owner->methods.find(std::string_view("__call__"));
    if (method != callee.owner->methods.end())
      return call_declared(call, method->second, 1, skip, out);
    return refuse(call.child(0).range, callee.owner->name + " has no __call__");
  }
  const bool is_data =
      callee.tuple_size >= 0 || (callee.type != nullptr && callee.type->kind() < TypeKind::kList &&
                                 callee.type->kind() != TypeKind::kAny);
  return is_data ? refuse(call.child(0).range, describe(callee) + " cannot be called") : Status();
}

Status Checker::call_declared(const Expr& call, const FunctionDeclaration& function,
                              size_t receiver, size_t skip, CheckedValue* out) {
  *out = typed(function.returns.get());
  if (&function == self_)
    TENON_TRY(refuse(call.range, function.name + " calls itself, which PyTorch refuses"));
  if (function.parameters.size() > kMaxParameters) return {};
  const CallShape shape = call_shape(call, skip);
  const Formals formals = function.formals(receiver);
  if (accepts(formals, shape)) return {};
  return not_accepted(call, function.name, shape, "(" + written(formals) + ")");
}

Status Checker::call_global(const Expr& expr, Global global, CheckedValue* out) {
  const Expr& callee = expr.child(0);
  switch (global) {
    case Global::kAnnotate:
    case Global::kUncheckedCast:
    case Global::kUninitialized: return call_with_type(expr, global, out);
    case Global::kGetAttr:
    case Global::kHasAttr: return get_attribute(expr, global, out);
    case Global::kFork: return fork(expr, out);
    case Global::kIsInstance:
      out->type = value::Type::boolean().get();
      out->may_be_constant = true;
      if (expr.arguments().size() != 2 || !expr.keywords.empty())
        return refuse(expr.range, "isinstance takes a value and its types");
      TENON_TRY(values(expr.arguments().first(1)));
      return types_of_isinstance(*expr.arguments()[1]);
    case Global::kPrint:
      TENON_TRY(arguments(expr, 0));
      return expr.keywords.empty() ? Status()
                                   : refuse(expr.keywords[0].name_range, "print takes no keywords");
    case Global::kCast: {
      TENON_TRY(arguments(expr, 1));
      CheckedValue given;
      if (!expr.arguments().empty()) TENON_TRY(value(*expr.arguments()[0], &given));
      // A cast of a bool to bool gives the same value, which may be a constant.
      out->may_be_constant = given.may_be_constant;
      Result<value::TypeRef> type = value::Type::parse(callee.text);
      if (!type.is_ok()) return {};
      kept_types_.push_back(std::move(type).value());
      out->type = kept_types_.back().get();
      return {};
    }
    case Global::kOperator: {
      Operands operands;
      CheckedValue given;
      if (!expr.arguments().empty()) {
        TENON_TRY(value(*expr.arguments()[0], &given));
        operands.push_back({{},
                            given.type,
                            given.may_hold_tensor(),
                            false,
                            sure_type(given),
                            expr.arguments()[0]->range});
      }
      Operands others;
      TENON_TRY(arguments(expr, 1, &others));
      operands.insert(operands.end(), others.begin(), others.end());
      const bool of_tensors = given.may_hold_tensor() ||
                              std::any_of(others.begin(), others.end(), [](const Operand& operand) {
                                return operand.may_hold_tensor;
                              });
      const std::string name(callee.text);
      out->holds_no_tensor = gives_no_tensor("prim::" + name, of_tensors) ||
                             gives_no_tensor("aten::" + name, of_tensors);
      const SchemaTable& table = SchemaTable::get();
      const CallShape shape = call_shape(expr);
      if (callee.text == "len" && given.owner != nullptr &&
          (given.owner->kind == ClassKind::kPlain || given.owner->is_module()) &&
          !given.owner->methods.contains(std::string_view("__len__")))
        return no_member(*given.owner, "__len__", expr.arguments()[0]->range);
      VersionSpan span;
      const std::array<std::string, 2> names = {"aten::" + name, "prim::" + name};
      for (const std::string& one : names) {
        if (!span_of(table.find(one), false, shape, 0, &span)) continue;
        // A class can have its own method for such a function, as `__len__` for `len`.
        const bool may_be_object = given.type == nullptr ||
                                   given.type->kind() == TypeKind::kClass || given.owner != nullptr;
        return may_be_object ? Status()
                             : check_operands(expr, names, name, nullptr, operands, shape, out);
      }
      // The argument may be an object, whose class has its own method for such a function.
      if (shape.positional == 1 && shape.keywords.empty()) return {};
      return not_accepted(expr, callee.text, shape, "other arguments");
    }
    case Global::kException: return arguments(expr, 0);
    case Global::kIterable: {
      Operands given;
      TENON_TRY(arguments(expr, 0, &given));
      out->holds_no_tensor = callee.text == "range" ||
                             std::none_of(given.begin(), given.end(), [](const Operand& operand) {
                               return operand.may_hold_tensor;
                             });
      return {};
    }
    case Global::kTorch:
    case Global::kOps:
    case Global::kConstants:
    case Global::kQualified:
    case Global::kNumber: break;
  }
  return refuse(callee.range, std::string(callee.text) + " cannot be called");
}

// Checks annotate(T, x), unchecked_cast(T, x) and uninitialized(T).
Status Checker::call_with_type(const Expr& call, Global global, CheckedValue* out) {
  const size_t wanted = global == Global::kUninitialized ? 1 : 2;
  const ExprList given = call.arguments();
  if (given.size() != wanted || !call.keywords.empty())
    return refuse(call.range, format("%s takes %zu arguments",
                                     std::string(call.child(0).text).c_str(), wanted));
  const value::Type* type = nullptr;
  TENON_TRY(annotation(*given[0], &type));
  CheckedValue of_value;
  if (wanted == 2) TENON_TRY(value(*given[1], &of_value));
  *out = typed(type);
  out->may_be_constant = of_value.may_be_constant;
  // PyTorch may know more of the value than the type that is written here.
  out->was_tested = true;
  return {};
}

// Checks getattr(x, "name"), getattr(x, "name", otherwise) and hasattr(x, "name").
Status Checker::get_attribute(const Expr& call, Global global, CheckedValue* out) {
  const ExprList given = call.arguments();
  const size_t most = global == Global::kGetAttr ? 3 : 2;
  if (given.size() < 2 || given.size() > most || !call.keywords.empty())
    return refuse(call.range, std::string(call.child(0).text) + " takes an object, a name" +
                                  (most == 3 ? " and perhaps a default" : ""));
  CheckedValue base;
  TENON_TRY(checked_value(*given[0], &base));
  const Expr& name = *given[1];
  if (name.kind != ExprKind::kString)
    return refuse(name.range, "the name of an attribute is a string that stands there");
  if (global == Global::kHasAttr) {
    out->type = value::Type::boolean().get();
    out->may_be_constant = true;
    return {};
  }
  if (given.size() == 2) return attribute_of(*given[0], base, name.text, name.range, out);
  // PyTorch decides while it compiles whether the object has the attribute, and compiles only the
  // attribute or only the default.
  out->may_be_constant = true;
  return {};
}

Status Checker::fork(const Expr& call, CheckedValue* out) {
  const ExprList given = call.arguments();
  if (given.empty())
    return refuse(call.range,
                  std::string(call.child(0).text) + " takes a function and its arguments");
  CheckedValue callee;
  TENON_TRY(checked_value(*given[0], &callee));
  Operands others;
  TENON_TRY(arguments(call, 1, &others));
  CheckedValue result;
  TENON_TRY(call_meaning(call, callee, others, 1, &result));
  out->is_foreign = result.is_foreign;
  return {};
}

Status Checker::types_of_isinstance(const Expr& expr) {
  if (expr.kind == ExprKind::kTuple) {
    for (const Expr* child : expr.children) TENON_TRY(types_of_isinstance(*child));
    return {};
  }
  // `list` and `tuple` are types here.
  if (expr.kind == ExprKind::kName && (expr.text == "list" || expr.text == "tuple")) return {};
  return annotation(expr, nullptr);
}

}  // namespace tenon::script
