// The part of Checker (checker.h) that follows the paths through the body of a function.
#include <string>
#include <utility>

#include "modules/script/checker.h"

namespace tenon::script {
namespace {

using value::TypeKind;

bool takes_none(const value::Type& type) noexcept {
  return type.kind() == TypeKind::kNone || type.kind() == TypeKind::kOptional ||
         type.kind() == TypeKind::kAny || type.kind() == TypeKind::kUnion;
}

bool is_scalar(TypeKind kind) noexcept {
  return kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kBool ||
         kind == TypeKind::kComplex || kind == TypeKind::kStr;
}

// Describes a value that can never have the declared type, whatever PyTorch converts. Null: it may
// have that type.
const char* never_becomes(const CheckedValue& value, const value::Type& declared) noexcept {
  if (takes_none(declared)) return nullptr;
  const TypeKind to = declared.kind();
  if (value.tuple_size >= 0) {
    if (to == TypeKind::kTensor || is_scalar(to)) return "a tuple";
    if (to == TypeKind::kTuple && declared.parts().size() != static_cast<size_t>(value.tuple_size))
      return "a tuple of another length";
    return nullptr;
  }
  if (value.type == nullptr || value.was_tested) return nullptr;
  const TypeKind from = value.type->kind();
  if (from == TypeKind::kNone) return "None";
  if (is_scalar(from) && to == TypeKind::kTensor) return "a number or a text";
  const bool has_parts = to == TypeKind::kTuple || to == TypeKind::kList || to == TypeKind::kDict;
  if (from == TypeKind::kTensor && (has_parts || to == TypeKind::kStr)) return "a Tensor";
  return nullptr;
}

}  // namespace

Status Checker::function(const ClassDeclaration* owner, const FunctionDeclaration* declared,
                         const Function& function) {
  self_ = declared;
  TENON_TRY(returned_type(function));
  TENON_TRY(parameters(owner, function));
  Flow flow = Flow::kGoesOn;
  TENON_TRY(block(function.body, &flow));
  if (flow == Flow::kGoesOn && returns_ != nullptr && returns_->kind() != TypeKind::kNone) {
    return refuse(function.name_range,
                  format("%s is annotated to return %s, and does not return on every path",
                         std::string(function.name).c_str(), returns_->print().c_str()));
  }
  return {};
}

Status Checker::header(const Function& function) {
  TENON_TRY(returned_type(function));
  return parameters(nullptr, function);
}

Status Checker::returned_type(const Function& function) {
  const Expr* returns = function.returns;
  if (returns == nullptr && function.type_comment != nullptr)
    returns = function.type_comment->returns;
  return returns != nullptr ? annotation(*returns, &returns_) : Status();
}

Status Checker::parameters(const ClassDeclaration* owner, const Function& function) {
  const TypeComment* const comment = function.type_comment;
  const size_t commented = comment != nullptr ? comment->params.size() : 0;
  const size_t left_out =
      commented < function.params.size() ? function.params.size() - commented : 0;
  // A default is no part of the function's body, so it sees none of the function's variables.
  for (const Param& param : function.params) {
    if (param.default_value != nullptr) TENON_TRY(constant(*param.default_value));
  }
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Param& param = function.params[i];
    const Expr* written = param.annotation;
    if (written == nullptr && comment != nullptr && i >= left_out)
      written = comment->params[i - left_out];
    const value::Type* type = nullptr;
    if (written != nullptr) TENON_TRY(annotation(*written, &type));
    CheckedValue meaning = typed(written != nullptr ? type : value::Type::tensor().get());
    if (i == 0 && owner != nullptr) {
      meaning = CheckedValue();
      meaning.owner = owner;
    }
    scope_.set(param.name, std::move(meaning));
  }
  return {};
}

Status Checker::block(StmtList body, Flow* flow) {
  int quiet = 0;
  Status status;
  for (const Stmt* stmt : body) {
    Flow here = Flow::kGoesOn;
    status = statement(*stmt, &here);
    if (!status.is_ok()) break;
    if (here == Flow::kGoesOn) continue;
    *flow = here;
    // PyTorch does not compile the statements after one that ends the block.
    if (here == Flow::kEnds) break;
    ++quiet;
    ++quiet_;
  }
  quiet_ -= quiet;
  return status;
}

Status Checker::statement(const Stmt& stmt, Flow* flow) {
  switch (stmt.kind) {
    case StmtKind::kExpr: {
      CheckedValue ignored;
      return checked_value(*stmt.value, &ignored);
    }
    case StmtKind::kAssign: return assign(stmt);
    case StmtKind::kAugAssign: return augmented(stmt);
    case StmtKind::kReturn: *flow = Flow::kEnds; return returned(stmt);
    case StmtKind::kRaise: *flow = Flow::kEnds; return raised(stmt);
    case StmtKind::kAssert: return asserted(stmt, flow);
    case StmtKind::kIf: return if_else(stmt, flow);
    case StmtKind::kWhile: return while_loop(stmt);
    case StmtKind::kFor: return for_loop(stmt, flow);
    case StmtKind::kWith: {
      TENON_TRY(with_statement(stmt));
      return block(stmt.body, flow);
    }
    case StmtKind::kDef: return nested(*stmt.function);
    case StmtKind::kDelete: return deleted(stmt);
    case StmtKind::kGlobal: return refuse(stmt.range, "PyTorch compiles no `global`");
    case StmtKind::kBreak:
    case StmtKind::kContinue:
    case StmtKind::kPass: return {};
  }
  return {};
}

Status Checker::assign(const Stmt& stmt) {
  const value::Type* annotated = nullptr;
  if (stmt.annotation != nullptr) TENON_TRY(annotation(*stmt.annotation, &annotated));
  if (stmt.value == nullptr) return {};
  CheckedValue assigned;
  // An assignment to a single name may give the name to a function or a class.
  const bool one_name = stmt.targets.size() == 1 && stmt.targets[0]->kind == ExprKind::kName;
  TENON_TRY(one_name ? checked_value(*stmt.value, &assigned) : value(*stmt.value, &assigned));
  if (stmt.annotation != nullptr && assigned.is_value()) {
    assigned = typed(annotated);
    // PyTorch may still know more than the annotation, such as that the value is not None.
    assigned.was_tested = true;
  }
  for (const Expr* target : stmt.targets) TENON_TRY(assign_to(*target, assigned, stmt.value));
  return {};
}

// `written` is the expression of the value. Null: the value is a part of a larger one.
Status Checker::assign_to(const Expr& target, const CheckedValue& assigned, const Expr* written) {
  switch (target.kind) {
    case ExprKind::kName: {
      // PyTorch knows the values of constants, but not of variables.
      CheckedValue kept = assigned;
      kept.may_be_constant = false;
      scope_.set(target.text, std::move(kept));
      return {};
    }
    case ExprKind::kTuple:
    case ExprKind::kList: return unpack(target, assigned, written);
    case ExprKind::kStarred: return assign_to(target.child(0), {}, nullptr);
    case ExprKind::kAttribute: return assign_to_attribute(target);
    case ExprKind::kSubscript: {
      CheckedValue ignored;
      return subscript(target, &ignored);
    }
    default: return {};
  }
}

Status Checker::assign_to_attribute(const Expr& target) {
  CheckedValue base;
  TENON_TRY(value(target.child(0), &base));
  if (base.owner == nullptr) {
    const bool is_class =
        base.type == nullptr || base.type->kind() == TypeKind::kClass || takes_none(*base.type);
    return is_class
               ? Status()
               : refuse(target.text_range, describe(base) + " has no attributes that can be set");
  }
  const ClassDeclaration& owner = *base.owner;
  if (owner.kind != ClassKind::kPlain && !owner.is_module())
    return refuse(target.text_range, "nothing can be set in " + describe(base));
  const auto found = owner.attributes.find(target.text);
  if (found == owner.attributes.end()) return no_member(owner, target.text, target.text_range);
  return {};
}

Status Checker::unpack(const Expr& target, const CheckedValue& assigned, const Expr* written) {
  const ExprList targets = target.children;
  bool starred = false;
  for (const Expr* each : targets) starred = starred || each->kind == ExprKind::kStarred;
  const value::Type* const type =
      assigned.type != nullptr && assigned.type->kind() == TypeKind::kTuple ? assigned.type
                                                                            : nullptr;
  size_t size = targets.size();
  if (assigned.tuple_size >= 0) size = static_cast<size_t>(assigned.tuple_size);
  if (type != nullptr) size = type->parts().size();
  if (starred ? size + 1 < targets.size() : size != targets.size()) {
    return refuse(target.range,
                  format("%zu values are unpacked into %zu names", size, targets.size()));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    CheckedValue part;
    part.is_foreign = assigned.is_foreign;
    part.holds_no_tensor = !assigned.may_hold_tensor();
    if (type != nullptr && !starred) part = typed(type->parts()[i].get());
    const bool is_literal = written != nullptr && written->kind == ExprKind::kTuple && !starred &&
                            written->children.size() == targets.size();
    // The items of the tuple were checked already, and all are values.
    if (is_literal && written->child(i).kind == ExprKind::kName) {
      const Variable* const variable = scope_.find(written->child(i).text);
      if (variable != nullptr && variable->set == Set::kYes) part = variable->meaning;
    }
    TENON_TRY(assign_to(*targets[i], part, nullptr));
  }
  return {};
}

Status Checker::augmented(const Stmt& stmt) {
  const Expr& target = *stmt.targets[0];
  CheckedValue before;
  TENON_TRY(value(target, &before));
  CheckedValue operand;
  TENON_TRY(value(*stmt.value, &operand));
  if (stmt.op == Operator::kDiv) {
    used_operator("aten::div", SchemaTable::get().all_versions());
    used_operator("aten::div_", SchemaTable::get().all_versions());
    note_division_in_place(before, operand);
  }
  if (target.kind == ExprKind::kAttribute) return assign_to_attribute(target);
  if (target.kind != ExprKind::kName) return {};
  CheckedValue after;
  if (before.type != nullptr &&
      (before.type->kind() == TypeKind::kTensor || before.type->kind() == TypeKind::kList))
    after.type = before.type;
  after.holds_no_tensor = !before.may_hold_tensor() && !operand.may_hold_tensor();
  scope_.set(target.text, std::move(after));
  return {};
}

Status Checker::returned(const Stmt& stmt) {
  CheckedValue result;
  if (stmt.value != nullptr)
    TENON_TRY(value(*stmt.value, &result));
  else
    result.type = value::Type::none().get();
  if (returns_ == nullptr || closures_ > 0) return {};
  const char* const what = never_becomes(result, *returns_);
  if (what == nullptr) return {};
  return refuse(stmt.range,
                format("%s is returned where %s is declared", what, returns_->print().c_str()));
}

Status Checker::if_else(const Stmt& stmt, Flow* flow) {
  Fixed fixed = Fixed::kNo;
  TENON_TRY(condition(*stmt.value, &fixed));
  if (fixed == Fixed::kTrue) return block(stmt.body, flow);
  if (fixed == Fixed::kFalse) return block(stmt.else_body, flow);
  quiet_ += fixed == Fixed::kUnknown;
  Flow flow_true = Flow::kGoesOn;
  Flow flow_false = Flow::kGoesOn;
  const size_t mark = scope_.begin();
  Status status = block(stmt.body, &flow_true);
  Scope::Changes if_true = scope_.take(mark);
  Scope::Changes if_false;
  if (status.is_ok()) {
    const size_t again = scope_.begin();
    status = block(stmt.else_body, &flow_false);
    if_false = scope_.take(again);
  }
  quiet_ -= fixed == Fixed::kUnknown;
  TENON_TRY(std::move(status));
  const bool both_end = flow_true == Flow::kEnds && flow_false == Flow::kEnds;
  if (fixed == Fixed::kUnknown) {
    // PyTorch may compile only one of the branches, and each of the two may be the one.
    const bool neither = flow_true == Flow::kGoesOn && flow_false == Flow::kGoesOn;
    *flow = both_end ? Flow::kEnds : neither ? Flow::kGoesOn : Flow::kMayEnd;
    scope_.meet(std::move(if_true), Flow::kMayEnd, std::move(if_false), Flow::kMayEnd, stmt.range);
    return {};
  }
  const bool one_goes_on = flow_true == Flow::kGoesOn || flow_false == Flow::kGoesOn;
  *flow = both_end ? Flow::kEnds : one_goes_on ? Flow::kGoesOn : Flow::kMayEnd;
  scope_.meet(std::move(if_true), flow_true, std::move(if_false), flow_false, stmt.range);
  return {};
}

Status Checker::asserted(const Stmt& stmt, Flow* flow) {
  Fixed fixed = Fixed::kNo;
  TENON_TRY(condition(*stmt.value, &fixed));
  // To PyTorch an assert is `if not value: raise AssertionError(message)`.
  if (fixed == Fixed::kFalse) *flow = Flow::kEnds;
  if (fixed == Fixed::kUnknown) *flow = Flow::kMayEnd;
  if (stmt.message == nullptr || fixed == Fixed::kTrue) return {};
  quiet_ += fixed == Fixed::kUnknown;
  CheckedValue ignored;
  Status status = value(*stmt.message, &ignored);
  quiet_ -= fixed == Fixed::kUnknown;
  return status;
}

Status Checker::raised(const Stmt& stmt) {
  if (stmt.value == nullptr) return {};
  CheckedValue exception;
  TENON_TRY(checked_value(*stmt.value, &exception));
  const bool is_exception_class =
      exception.kind == CheckedValue::Kind::kGlobal && exception.global == Global::kException;
  // The checker gives an exception no type.
  const bool may_be_exception = exception.is_value() && exception.type == nullptr &&
                                exception.owner == nullptr && exception.tuple_size < 0;
  if (is_exception_class || may_be_exception) return {};
  return refuse(stmt.value->range,
                "PyTorch raises AssertionError alone, as in `raise AssertionError(\"...\")`. This "
                "is no exception");
}

Status Checker::with_statement(const Stmt& stmt) {
  for (const WithItem& item : stmt.with_items) {
    CheckedValue context;
    TENON_TRY(value(*item.value, &context));
    const bool no_object = context.owner == nullptr && context.type != nullptr &&
                           context.type->kind() != TypeKind::kClass && !takes_none(*context.type);
    if (no_object || context.tuple_size >= 0)
      TENON_TRY(
          refuse(item.value->range, "`with` needs an object, and this is " + describe(context)));
    CheckedValue entered;
    if (context.owner != nullptr) {
      const auto enter = context.owner->methods.find(std::string_view("__enter__"));
      const bool has_exit = context.owner->methods.contains(std::string_view("__exit__"));
      if (enter == context.owner->methods.end() || !has_exit)
        TENON_TRY(
            refuse(item.value->range, context.owner->name + " has no __enter__ and __exit__"));
      else
        entered = typed(enter->second.returns.get());
    }
    if (item.name != nullptr) TENON_TRY(assign_to(*item.name, entered, nullptr));
  }
  return {};
}

Status Checker::nested(const Function& function) {
  const size_t mark = scope_.begin();
  ++closures_;
  TENON_TRY(parameters(nullptr, function));
  Flow flow = Flow::kGoesOn;
  TENON_TRY(block(function.body, &flow));
  --closures_;
  scope_.leave_inner(scope_.take(mark), function.range);
  scope_.set(function.name, CheckedValue::of(CheckedValue::Kind::kClosure));
  return {};
}

Status Checker::deleted(const Stmt& stmt) {
  for (const Expr* target : stmt.targets) {
    CheckedValue ignored;
    TENON_TRY(checked_value(*target, &ignored));
    if (target->kind == ExprKind::kName) scope_.unset(target->text, stmt.range);
  }
  return {};
}

}  // namespace tenon::script
