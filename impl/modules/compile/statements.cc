// The part of FunctionCompiler that compiles statements, and the function as a whole.
#include <algorithm>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/compile/operators.h"
#include "modules/script/signature.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using script::Stmt;
using script::StmtKind;
using script::StmtList;

Flow flow_of(StmtList statements) {
  Flow flow = Flow::kGoesOn;
  for (const Stmt* stmt : statements) {
    switch (stmt->kind) {
      case StmtKind::kReturn:
      case StmtKind::kBreak:
      case StmtKind::kContinue: return Flow::kLeaves;
      case StmtKind::kRaise: return flow == Flow::kMayLeave ? Flow::kLeaves : Flow::kRaises;
      case StmtKind::kIf: {
        const Flow a = flow_of(stmt->body);
        const Flow b = flow_of(stmt->else_body);
        if (a == Flow::kRaises && b == Flow::kRaises)
          return flow == Flow::kMayLeave ? Flow::kLeaves : Flow::kRaises;
        const bool a_ends = a == Flow::kLeaves || a == Flow::kRaises;
        const bool b_ends = b == Flow::kLeaves || b == Flow::kRaises;
        if (a_ends && b_ends) return Flow::kLeaves;
        if (a == Flow::kLeaves || a == Flow::kMayLeave || b == Flow::kLeaves ||
            b == Flow::kMayLeave)
          flow = Flow::kMayLeave;
        break;
      }
      case StmtKind::kWhile:
      case StmtKind::kFor: {
        // A break or continue leaves only the loop. A return leaves the statements around it too.
        const auto returns = [](const auto& self, StmtList list) -> bool {
          return std::any_of(list.begin(), list.end(), [&](const Stmt* each) {
            return each->kind == StmtKind::kReturn || self(self, each->body) ||
                   self(self, each->else_body);
          });
        };
        if (returns(returns, stmt->body)) flow = Flow::kMayLeave;
        break;
      }
      default: break;
    }
  }
  return flow;
}

Status FunctionCompiler::run() {
  out_.name = header_.name;
  out_.source = header_.source;
  out_.name_range = header_.function->name_range;
  out_.schema = header_.schema;
  out_.parameters = header_.parameters;
  out_.returns = header_.returns;
  const script::Function& function = *header_.function;
  builder_.move_to(function.name_range);
  for (size_t i = 0; i < header_.parameters.size(); ++i) {
    GraphValue* const parameter = out_.graph.add_input(&out_.graph.body(), header_.parameters[i]);
    environment_.set(header_.schema.arguments[i].name, {parameter, header_.parameters[i], frame_});
  }
  Flow flow = Flow::kGoesOn;
  TENON_TRY(block(function.body, &flow));
  GraphValue* result = nullptr;
  if (flow == Flow::kGoesOn) {
    if (out_.returns && out_.returns->kind() != TypeKind::kNone &&
        out_.returns->kind() != TypeKind::kOptional)
      return builder_.refuse(function.name_range,
                             std::string(function.name) + " does not return " +
                                 with_article(*out_.returns) +
                                 " on every way. Add a return statement at its end");
    result = builder_.none();
  } else if (flow == Flow::kRaises) {
    if (!out_.returns) out_.returns = Type::none();
    result = builder_.append_value(NodeKind::kUninitialized, {}, out_.returns);
  } else if (flow == Flow::kMayLeave && out_.returns && out_.returns->kind() == TypeKind::kNone) {
    result = builder_.none();
  } else {
    const Local* const variable = environment_.find(kResult);
    result = variable != nullptr ? variable->value : nullptr;
    if (result == nullptr || flow == Flow::kMayLeave)
      return builder_.refuse(
          function.name_range,
          std::string(function.name) +
              " does not return on every way. Add a return statement at its end");
  }
  if (!out_.returns) out_.returns = result->type;
  out_.graph.body().outputs.push_back(result);
  return builder_.check_size();
}

Status FunctionCompiler::block(StmtList statements, Flow* flow) {
  *flow = Flow::kGoesOn;
  const Nesting nesting(&unit_);
  if (nesting.is_too_deep()) return too_deep();
  for (size_t i = 0; i < statements.size(); ++i) {
    const Stmt& stmt = *statements[i];
    const StmtList rest = statements.subspan(i + 1);
    builder_.move_to(stmt.range);
    TENON_TRY(builder_.check_size());
    switch (stmt.kind) {
      case StmtKind::kReturn:
      case StmtKind::kBreak:
      case StmtKind::kContinue: *flow = Flow::kLeaves; return leave(stmt);
      case StmtKind::kRaise: *flow = Flow::kRaises; return raise(stmt);
      case StmtKind::kIf: {
        bool took_rest = false;
        TENON_TRY(if_statement(stmt, rest, flow, &took_rest));
        if (took_rest || *flow == Flow::kLeaves || *flow == Flow::kRaises) return {};
        if (*flow == Flow::kMayLeave) return if_not_left(rest, flow);
        break;
      }
      case StmtKind::kWhile:
      case StmtKind::kFor:
        TENON_TRY(stmt.kind == StmtKind::kWhile ? while_statement(stmt) : for_statement(stmt));
        if (flow_of({&statements[i], 1}) == Flow::kMayLeave) {
          *flow = Flow::kMayLeave;
          return if_not_left(rest, flow);
        }
        break;
      default: TENON_TRY(statement(stmt)); break;
    }
  }
  return {};
}

Status FunctionCompiler::statement(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kExpr: {
      if (stmt.value->kind == ExprKind::kString) return {};  // a docstring
      SugaredValue ignored;
      return sugar(*stmt.value, nullptr, &ignored);
    }
    case StmtKind::kAssign: return assign_statement(stmt);
    case StmtKind::kAugAssign: return augmented(stmt);
    case StmtKind::kAssert: return assertion(stmt);
    case StmtKind::kDelete: return delete_items(stmt);
    case StmtKind::kPass: return {};
    case StmtKind::kWith:
      return builder_.unsupported("the lite interpreter of PyTorch has no `with`");
    case StmtKind::kDef: return define_closure(stmt);
    case StmtKind::kGlobal: return builder_.refuse("PyTorch compiles no `global`");
    default: return {};
  }
}

Status FunctionCompiler::assign_statement(const Stmt& stmt) {
  TypeRef declared;
  if (stmt.annotation != nullptr) {
    TENON_ASSIGN(declared, script::annotation_type(builder_.source(), *stmt.annotation));
  }
  if (stmt.value == nullptr) return {};
  SugaredValue given;
  TENON_TRY(sugar(*stmt.value, declared, &given));
  if (stmt.targets.size() > 1) {
    TENON_ASSIGN(GraphValue* const value, value_of(std::move(given), stmt.value->range));
    given = SugaredValue::of(value);
  }
  for (const Expr* target : stmt.targets) TENON_TRY(assign(*target, given, declared));
  return {};
}

Status FunctionCompiler::assign(const Expr& target, SugaredValue given, const TypeRef& declared) {
  switch (target.kind) {
    case ExprKind::kName: {
      if (given.kind != SugaredValue::Kind::kValue && given.kind != SugaredValue::Kind::kValues &&
          given.kind != SugaredValue::Kind::kGlobal) {
        name_sugar(target.text, std::move(given));
        return {};
      }
      TENON_ASSIGN(GraphValue* const value, value_of(std::move(given), target.range));
      return assign_name(target.text, value, declared, target.range);
    }
    case ExprKind::kTuple:
    case ExprKind::kList: return assign_items(target, std::move(given));
    case ExprKind::kAttribute: {
      TENON_ASSIGN(GraphValue* const value, value_of(std::move(given), target.range));
      return assign_attribute(target, value);
    }
    case ExprKind::kSubscript: {
      TENON_ASSIGN(GraphValue* const value, value_of(std::move(given), target.range));
      return assign_subscript(target, value, nullptr);
    }
    default: return builder_.refuse(target.range, "nothing can be assigned to this");
  }
}

Status FunctionCompiler::assign_name(std::string_view name, GraphValue* value,
                                     const TypeRef& declared, script::Range range) {
  const Local* const before = environment_.find(name);
  Local after{value, declared, frame_};
  const bool is_set = before != nullptr && before->value != nullptr;
  const bool is_outer = is_set && before->frame < frame_;
  if (is_outer && declared) {
    return builder_.refuse(
        range, std::string(name) +
                   " was set outside this block, where its type is declared or follows from its " +
                   "value. Leave the type out here, or use another name");
  }
  if (is_set && !declared) {
    const TypeRef& wanted = before->declared ? before->declared : before->value->type;
    GraphValue* const converted = convert(&builder_, value, wanted, is_outer);
    const bool is_same =
        converted != nullptr && is_subtype(builder_.classes(), *converted->type, *wanted);
    if (!is_same && is_outer)
      return builder_.refuse(range, std::string(name) + " is " + with_article(*wanted) +
                                        " outside this block, and here it would become " +
                                        with_article(*value->type) + ". Use another name");
    // A variable may change its type in the block that made it, and then `after` stays as it is.
    if (is_same)
      after = {converted, before->declared, before->frame,
               converted->type->kind() != value::TypeKind::kNone};
  } else if (declared) {
    after.value = convert(&builder_, value, declared, false);
    if (after.value == nullptr || !is_subtype(builder_.classes(), *after.value->type, *declared))
      return builder_.refuse(range, std::string(name) + " is declared as " +
                                        with_article(*declared) + ", and it gets " +
                                        with_article(*value->type));
  }
  environment_.set(name, std::move(after));
  return {};
}

Status FunctionCompiler::assign_items(const Expr& target, SugaredValue given) {
  std::vector<GraphValue*> items;
  if (given.kind == SugaredValue::Kind::kValues) {
    items = std::move(given.values);
  } else {
    TENON_ASSIGN(GraphValue* const value, value_of(std::move(given), target.range));
    const Type& type = *value->type;
    if (type.kind() == TypeKind::kList) {
      Node* const node = builder_.append(NodeKind::kListUnpack, {value});
      for (size_t i = 0; i < target.children.size(); ++i)
        builder_.graph().add_output(node, type.element());
      items = node->outputs;
    } else if (is_tuple(type)) {
      items = builder_.unpack(value);
    } else {
      return builder_.refuse(target.range, with_article(type) + " has no items to assign");
    }
  }
  size_t stars = 0;
  for (const Expr* child : target.children) stars += child->kind == ExprKind::kStarred ? 1 : 0;
  const size_t names = target.children.size();
  if (stars > 1) return builder_.refuse(target.range, "only one name can take the rest");
  if (stars == 0 ? items.size() != names : items.size() + 1 < names)
    return builder_.refuse(target.range,
                           format("%zu items are assigned to %zu names", items.size(), names));
  size_t next = 0;
  for (const Expr* child : target.children) {
    if (child->kind != ExprKind::kStarred) {
      TENON_TRY(assign(*child, SugaredValue::of(items[next++]), nullptr));
      continue;
    }
    const size_t count = items.size() + 1 - names;
    GraphValue* const taken =
        builder_.tuple({items.begin() + static_cast<ptrdiff_t>(next),
                        items.begin() + static_cast<ptrdiff_t>(next + count)});
    next += count;
    TENON_TRY(assign(child->child(0), SugaredValue::of(taken), nullptr));
  }
  return {};
}

Status FunctionCompiler::assign_attribute(const Expr& target, GraphValue* value) {
  TENON_ASSIGN(GraphValue* const object, this->value(target.child(0)));
  const std::string_view name = target.text;
  if (object->type->kind() != TypeKind::kClass)
    return builder_.refuse(target.range,
                           with_article(*object->type) + " has no attributes that can be set");
  TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(object->type->class_name()));
  if (info == nullptr || !info->attributes.contains(name))
    return builder_.refuse(target.range,
                           object->type->class_name() + " has no attribute " + std::string(name));
  const auto& [slot, wanted] = info->attributes.find(name)->second;
  GraphValue* const converted = convert(&builder_, value, wanted, false);
  if (converted == nullptr || !is_subtype(builder_.classes(), *converted->type, *wanted))
    return builder_.refuse(target.range, std::string(name) + " is " + with_article(*wanted) +
                                             ", and it gets " + with_article(*value->type));
  Node* const node = builder_.append(NodeKind::kSetAttribute, {object, converted});
  node->name = name;
  node->number = static_cast<int64_t>(slot);
  return {};
}

std::string_view FunctionCompiler::augmenting_name(script::Operator op, const Type& type) {
  const bool changes_itself = type.kind() == TypeKind::kTensor || type.kind() == TypeKind::kList;
  const std::string_view in_place = changes_itself ? in_place_name(op) : std::string_view();
  return in_place.empty() ? augmented_name(op) : in_place;
}

Status FunctionCompiler::augmented(const Stmt& stmt) {
  const Expr& target = *stmt.targets[0];
  if (target.kind == ExprKind::kSubscript) return assign_subscript(target, nullptr, &stmt);
  TENON_ASSIGN(GraphValue* const left, value(target));
  TENON_ASSIGN(GraphValue* const right, value(*stmt.value));
  GivenArguments given;
  given.positional = {{{}, left, target.range}, {{}, right, stmt.value->range}};
  SugaredValue made;
  TENON_TRY(call_operator(augmenting_name(stmt.op, *left->type), given, &made));
  TENON_ASSIGN(GraphValue* const result, value_of(std::move(made), stmt.range));
  return assign(target, SugaredValue::of(result), nullptr);
}

Status FunctionCompiler::raise(const Stmt& stmt) {
  if (stmt.value == nullptr)
    return builder_.refuse("PyTorch compiles no `raise` without an exception");
  const bool is_call = stmt.value->kind == ExprKind::kCall;
  const Expr& raised = is_call ? stmt.value->child(0) : *stmt.value;
  const bool is_name = raised.kind == ExprKind::kName && environment_.find(raised.text) == nullptr;
  if (!is_name || script::find_global(raised.text) != script::Global::kException)
    return builder_.refuse(stmt.value->range,
                           "PyTorch compiles no `raise` but that of AssertionError, as in `raise "
                           "AssertionError(\"why\")`");
  std::vector<const Expr*> words;
  if (is_call) words.assign(stmt.value->arguments().begin(), stmt.value->arguments().end());
  return raise_error(is_call ? std::string(raised.text) + ": " : std::string(), words);
}

Status FunctionCompiler::raise_error(std::string beginning, script::ExprList words) {
  GraphValue* message = builder_.constant(value::Value::of_str(std::move(beginning)));
  for (const Expr* word : words) {
    TENON_ASSIGN(GraphValue * text, value(*word));
    if (text->type->kind() != TypeKind::kStr) {
      TENON_ASSIGN(text, operator_value("aten::str", {text}));
    }
    TENON_ASSIGN(message, operator_value("aten::add", {message, text}));
  }
  return operator_value("prim::RaiseException", {message, builder_.none()}).status();
}

Status FunctionCompiler::assertion(const Stmt& stmt) {
  Condition holds;
  TENON_TRY(condition(*stmt.value, &holds));
  if (holds.value == nullptr && holds.known) return refine(holds.if_true);
  TENON_ASSIGN(GraphValue* const value, bool_of(holds));
  Node* const node = builder_.append_if(value);
  Block* const around = builder_.block();
  builder_.enter(node->blocks[1]);
  const size_t mark = environment_.begin();
  TENON_TRY(refine(holds.if_false));
  std::vector<const Expr*> words;
  if (stmt.message != nullptr) words.push_back(stmt.message);
  const Status raised = raise_error("AssertionError: ", words);
  environment_.take(mark);
  builder_.enter(around);
  TENON_TRY(raised);
  return refine(holds.if_true);
}

Status FunctionCompiler::leave(const Stmt& stmt) {
  GraphValue* const yes = builder_.constant(value::Value::of_bool(true));
  if (stmt.kind != StmtKind::kReturn && loops_ == 0)
    return builder_.refuse("this stands in no loop");
  if (stmt.kind == StmtKind::kReturn) {
    GraphValue* result = nullptr;
    if (stmt.value == nullptr) {
      result = builder_.none();
    } else {
      TENON_ASSIGN(result, value(*stmt.value, out_.returns));
    }
    if (out_.returns) {
      GraphValue* const converted = convert(&builder_, result, out_.returns, true);
      if (converted == nullptr || !is_subtype(builder_.classes(), *converted->type, *out_.returns))
        return builder_.refuse(std::string(header_.function->name) + " returns " +
                               with_article(*out_.returns) + ", and this is " +
                               with_article(*result->type));
      result = converted;
    }
    environment_.set(kResult, {result, out_.returns});
    environment_.set(kReturned, {yes, nullptr});
  }
  environment_.set(kLeft, {yes, nullptr});
  if (stmt.kind != StmtKind::kContinue) environment_.set(kStopped, {yes, nullptr});
  return {};
}

Status FunctionCompiler::delete_items(const Stmt& stmt) {
  for (const Expr* target : stmt.targets) {
    if (target->kind == ExprKind::kName) {
      environment_.set(target->text, {});
      continue;
    }
    if (target->kind != ExprKind::kSubscript || target->arguments().size() != 1)
      return builder_.refuse(target->range,
                             "PyTorch deletes names and items of lists and dicts only");
    TENON_ASSIGN(GraphValue* const container, value(target->child(0)));
    TENON_ASSIGN(GraphValue* const index, value(*target->arguments()[0]));
    GivenArguments given;
    given.positional = {{{}, container, target->range}, {{}, index, target->range}};
    SugaredValue ignored;
    TENON_TRY(call_operator("aten::Delete", given, &ignored));
  }
  return {};
}

}  // namespace tenon::compile
