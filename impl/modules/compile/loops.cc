// The part of FunctionCompiler that compiles loops and the iterables that they go over.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "modules/compile/function_compiler.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using script::ExprList;
using script::Stmt;
using script::StmtKind;
using script::StmtList;

namespace {

void targets_of(const Expr& target, std::set<std::string_view>* names) {
  if (target.kind == ExprKind::kName) names->insert(target.text);
  if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList ||
      target.kind == ExprKind::kStarred) {
    for (const Expr* child : target.children) targets_of(*child, names);
  }
}

// Collects the names that the statements assign, and the compiler's variables that a return sets.
void assigned_in(StmtList statements, std::set<std::string_view>* names) {
  for (const Stmt* stmt : statements) {
    if (stmt->kind == StmtKind::kAssign || stmt->kind == StmtKind::kAugAssign ||
        stmt->kind == StmtKind::kFor) {
      for (const Expr* target : stmt->targets) targets_of(*target, names);
    }
    if (stmt->kind == StmtKind::kReturn) {
      names->insert(kReturned);
      names->insert(kResult);
    }
    assigned_in(stmt->body, names);
    assigned_in(stmt->else_body, names);
  }
}

}  // namespace

// Whether the expression is a call of range, enumerate or zip. A variable of that name hides the
// function.
bool FunctionCompiler::is_iterable_call(const Expr& expr) const {
  if (expr.kind != ExprKind::kCall || expr.child(0).kind != ExprKind::kName ||
      !expr.keywords.empty())
    return false;
  const std::string_view callee = expr.child(0).text;
  const size_t given = expr.arguments().size();
  if (environment_.find(callee) != nullptr) return false;
  return (callee == "range" && given >= 1 && given <= 3) ||
         (callee == "enumerate" && given >= 1 && given <= 2) || (callee == "zip" && given >= 1);
}

Status FunctionCompiler::iterable(const Expr& expr, Iterable* out) {
  const Nesting nesting(&unit_);
  if (nesting.is_too_deep()) return too_deep();
  if (is_iterable_call(expr)) {
    const std::string_view callee = expr.child(0).text;
    const script::ExprList given = expr.arguments();
    if (callee == "range") {
      std::vector<GraphValue*> numbers;
      for (const Expr* argument : given) {
        TENON_ASSIGN(GraphValue * number, value(*argument));
        number = convert(&builder_, number, Type::integer(), true);
        if (number == nullptr || number->type->kind() != TypeKind::kInt)
          return builder_.refuse(argument->range, "range takes ints");
        numbers.push_back(number);
      }
      out->kind = Iterable::Kind::kRange;
      out->start = numbers.size() > 1 ? numbers[0] : nullptr;
      out->stop = numbers[numbers.size() > 1 ? 1 : 0];
      if (numbers.size() > 1) out->step = numbers.size() == 3 ? numbers[2] : builder_.integer(1);
      return {};
    }
    out->kind = callee == "zip" ? Iterable::Kind::kZip : Iterable::Kind::kEnumerate;
    const size_t parts = callee == "zip" ? given.size() : 1;
    for (size_t i = 0; i < parts; ++i) TENON_TRY(iterable(*given[i], &out->parts.emplace_back()));
    if (callee == "enumerate" && given.size() == 2) {
      TENON_ASSIGN(out->start, value(*given[1]));
    }
    return {};
  }
  SugaredValue made;
  TENON_TRY(sugar(expr, nullptr, &made));
  if (made.kind == SugaredValue::Kind::kIterable) {
    *out = *made.iterable;
    return {};
  }
  TENON_ASSIGN(GraphValue* const given, value_of(std::move(made), expr.range));
  return iterable_of(given, expr.range, out);
}

Status FunctionCompiler::iterable_of(GraphValue* given, script::Range range, Iterable* out) {
  out->value = given;
  switch (given->type->kind()) {
    case TypeKind::kList: out->kind = Iterable::Kind::kList; return {};
    case TypeKind::kStr: out->kind = Iterable::Kind::kText; return {};
    case TypeKind::kTensor: out->kind = Iterable::Kind::kTensor; return {};
    case TypeKind::kDict: {
      TENON_ASSIGN(out->value, operator_value("aten::keys", {given}));
      out->kind = Iterable::Kind::kList;
      return {};
    }
    default: break;
  }
  if (given->type->kind() == TypeKind::kTuple || builder_.classes().is_named_tuple(*given->type)) {
    out->kind = Iterable::Kind::kTuple;
    out->items = builder_.unpack(given);
    return {};
  }
  return builder_.refuse(range, "a loop cannot go over " + with_article(*given->type));
}

Result<GraphValue*> FunctionCompiler::length_of(const Iterable& iterable) {
  switch (iterable.kind) {
    case Iterable::Kind::kRange:
      if (iterable.step == nullptr) return iterable.stop;
      return operator_value("aten::__range_length", {iterable.start, iterable.stop, iterable.step});
    case Iterable::Kind::kEnumerate: return length_of(iterable.parts[0]);
    case Iterable::Kind::kZip: {
      std::vector<GraphValue*> lengths;
      for (const Iterable& part : iterable.parts) {
        TENON_ASSIGN(GraphValue* const length, length_of(part));
        lengths.push_back(length);
      }
      if (lengths.size() == 1) return lengths[0];
      return operator_value("prim::min", {builder_.list(Type::integer(), std::move(lengths))});
    }
    case Iterable::Kind::kTuple:
      return builder_.integer(static_cast<int64_t>(iterable.items.size()));
    default: return operator_value("aten::len", {iterable.value});
  }
}

Result<SugaredValue> FunctionCompiler::item_of(const Iterable& iterable, GraphValue* index) {
  switch (iterable.kind) {
    case Iterable::Kind::kRange: {
      if (iterable.step == nullptr) return SugaredValue::of(index);
      TENON_ASSIGN(GraphValue* const item,
                   operator_value("aten::__derive_index", {index, iterable.start, iterable.step}));
      return SugaredValue::of(item);
    }
    case Iterable::Kind::kEnumerate: {
      SugaredValue pair = SugaredValue::of(SugaredValue::Kind::kValues, {});
      GraphValue* number = index;
      if (iterable.start != nullptr) {
        TENON_ASSIGN(number, operator_value("aten::add", {index, iterable.start}));
      }
      TENON_ASSIGN(SugaredValue item, item_of(iterable.parts[0], index));
      TENON_ASSIGN(GraphValue* const second, value_of(std::move(item), builder_.range()));
      pair.values = {number, second};
      return pair;
    }
    case Iterable::Kind::kZip: {
      SugaredValue all = SugaredValue::of(SugaredValue::Kind::kValues, {});
      for (const Iterable& part : iterable.parts) {
        TENON_ASSIGN(SugaredValue item, item_of(part, index));
        TENON_ASSIGN(GraphValue* const each, value_of(std::move(item), builder_.range()));
        all.values.push_back(each);
      }
      return all;
    }
    case Iterable::Kind::kTensor: {
      TENON_ASSIGN(GraphValue* const item,
                   operator_value("aten::select", {iterable.value, builder_.integer(0), index}));
      return SugaredValue::of(item);
    }
    case Iterable::Kind::kTuple: {
      int64_t at = 0;
      if (known_int(index, &at) && at >= 0 && static_cast<size_t>(at) < iterable.items.size())
        return SugaredValue::of(iterable.items[static_cast<size_t>(at)]);
      return builder_.refuse("PyTorch unrolls a loop over a tuple, which it cannot do here");
    }
    default: {
      TENON_ASSIGN(GraphValue* const item,
                   operator_value("aten::__getitem__", {iterable.value, index}));
      return SugaredValue::of(item);
    }
  }
}

Status FunctionCompiler::loop(GraphValue* rounds, const Expr* condition, ExprList targets,
                              StmtList body, const Head& head) {
  std::set<std::string_view> names;
  for (const Expr* target : targets) targets_of(*target, &names);
  assigned_in(body, &names);
  const bool may_return = names.contains(kReturned);
  const auto no = [&] { return builder_.constant(value::Value::of_bool(false)); };
  if (may_return) {
    const Local* const returned = environment_.find(kReturned);
    if (returned == nullptr || returned->value == nullptr)
      environment_.set(kReturned, {no(), nullptr});
    const Local* const result = environment_.find(kResult);
    if (result == nullptr || result->value == nullptr) {
      if (!out_.returns)
        return builder_.refuse("a loop returns here: say after -> what the function returns");
      environment_.set(kResult, {builder_.append_value(NodeKind::kUninitialized, {}, out_.returns),
                                 out_.returns});
    }
  }
  GraphValue* first = nullptr;
  if (condition == nullptr) {
    first = builder_.constant(value::Value::of_bool(true));
  } else {
    Condition asked;
    TENON_TRY(this->condition(*condition, &asked));
    TENON_ASSIGN(first, bool_of(asked));
  }
  struct Carried {
    std::string_view name;
    Local before;
    TypeRef type;
  };
  std::vector<Carried> carried;
  for (const std::string_view name : names) {
    const Local* const variable = environment_.find(name);
    if (variable == nullptr || variable->value == nullptr) continue;
    carried.push_back(
        {name, *variable,
         variable->declared && !variable->is_narrow ? variable->declared : variable->value->type});
  }
  Node* const node = builder_.append(NodeKind::kLoop, {rounds, first});
  for (const Carried& each : carried) node->inputs.push_back(each.before.value);
  Block* const inner = builder_.graph().make_block(node);
  node->blocks.push_back(inner);
  GraphValue* const index = builder_.graph().add_input(inner, Type::integer());
  Block* const around = builder_.block();
  builder_.enter(inner);
  ++loops_;
  const size_t mark = environment_.begin();
  for (const Carried& each : carried) {
    environment_.set(each.name, {builder_.graph().add_input(inner, each.type), each.before.declared,
                                 each.before.frame, each.before.is_narrow});
    environment_.set(name_of_flag(each.name), {});
    environment_.set(name_of_kept(each.name), {nullptr, each.type});
  }
  environment_.set(kLeft, {});
  environment_.set(kStopped, {});
  ++frame_;
  TENON_TRY(head(index));
  Flow flow = Flow::kGoesOn;
  TENON_TRY(block(body, &flow));
  --frame_;
  std::vector<Local> after;
  after.reserve(carried.size());
  for (const Carried& each : carried) {
    after.push_back(*environment_.find(each.name));
    GraphValue* const was_kept = environment_.find(name_of_flag(each.name))->value;
    if (was_kept == nullptr) continue;
    GraphValue* const kept = environment_.find(name_of_kept(each.name))->value;
    TENON_ASSIGN(GraphValue* const value,
                 handed_on(each.name, after.back().value, was_kept, kept, each.type));
    after.back() = {value, each.before.declared, each.before.frame, each.before.is_narrow};
  }
  const Local* const flag = environment_.find(kStopped);
  GraphValue* const stopped = flag != nullptr ? flag->value : nullptr;
  // The condition sees the values that a round hands on. Every other variable has its state from
  // before the loop, because types that the body implied need not hold on a path that left the
  // body.
  environment_.take(mark);
  const size_t end_of_round = environment_.begin();
  for (size_t i = 0; i < carried.size(); ++i) environment_.set(carried[i].name, after[i]);
  // The condition for another round.
  GraphValue* next = nullptr;
  const auto ask = [&](GraphValue** out) -> Status {
    if (condition == nullptr) {
      *out = builder_.constant(value::Value::of_bool(true));
      return {};
    }
    Condition asked;
    TENON_TRY(this->condition(*condition, &asked));
    TENON_ASSIGN(*out, bool_of(asked));
    return {};
  };
  if (stopped != nullptr) {
    Node* const choice = builder_.append_if(stopped);
    builder_.enter(choice->blocks[0]);
    choice->blocks[0]->outputs.push_back(no());
    builder_.enter(choice->blocks[1]);
    GraphValue* answer = nullptr;
    TENON_TRY(ask(&answer));
    choice->blocks[1]->outputs.push_back(answer);
    builder_.enter(inner);
    next = builder_.graph().add_output(choice, Type::boolean());
  } else {
    TENON_TRY(ask(&next));
  }
  inner->outputs.push_back(next);
  for (const Carried& each : carried) {
    TENON_ASSIGN(GraphValue* const value, handed_on(each.name, environment_.find(each.name)->value,
                                                    nullptr, nullptr, each.type));
    inner->outputs.push_back(value);
  }
  environment_.take(end_of_round);
  --loops_;
  builder_.enter(around);
  for (const Carried& each : carried) {
    environment_.set(each.name, {builder_.graph().add_output(node, each.type), each.before.declared,
                                 each.before.frame, each.before.is_narrow});
  }
  if (may_return) {
    environment_.set(kLeft, {environment_.find(kReturned)->value, nullptr});
    // A return ends the loop around this one too.
    if (loops_ > 0) environment_.set(kStopped, {environment_.find(kReturned)->value, nullptr});
  }
  return {};
}

Status FunctionCompiler::while_statement(const Stmt& stmt) {
  GraphValue* const rounds = builder_.integer(std::numeric_limits<int64_t>::max());
  return loop(rounds, stmt.value, {}, stmt.body, [](GraphValue*) { return Status(); });
}

Status FunctionCompiler::for_statement(const Stmt& stmt) {
  if (stmt.iterables.size() != 1) return builder_.refuse("PyTorch's loops go over one thing");
  Iterable over;
  TENON_TRY(iterable(*stmt.iterables[0], &over));
  const auto assign_item = [&](GraphValue* index) -> Status {
    TENON_ASSIGN(SugaredValue item, item_of(over, index));
    if (stmt.targets.size() == 1) return assign(*stmt.targets[0], std::move(item), nullptr);
    Expr together;
    together.kind = ExprKind::kTuple;
    together.range = stmt.targets[0]->range;
    together.children = stmt.targets;
    return assign_items(together, std::move(item));
  };
  const auto is_unrolled = [](const auto& self, const Iterable& each) -> bool {
    return each.kind == Iterable::Kind::kTuple ||
           std::any_of(each.parts.begin(), each.parts.end(),
                       [&](const Iterable& part) { return self(self, part); });
  };
  if (is_unrolled(is_unrolled, over)) {
    if (flow_of(stmt.body) != Flow::kGoesOn)
      return builder_.refuse(
          "PyTorch unrolls a loop over a tuple: it can have no break, continue or return");
    size_t rounds = SIZE_MAX;
    const auto least = [&](const auto& self, const Iterable& each) -> void {
      if (each.kind == Iterable::Kind::kTuple) rounds = std::min(rounds, each.items.size());
      for (const Iterable& part : each.parts) self(self, part);
    };
    least(least, over);
    if (rounds > kMostUnrolled) return builder_.refuse("this tuple has too many items for a loop");
    for (size_t i = 0; i < rounds; ++i) {
      TENON_TRY(assign_item(builder_.integer(static_cast<int64_t>(i))));
      Flow flow = Flow::kGoesOn;
      TENON_TRY(block(stmt.body, &flow));
    }
    return {};
  }
  TENON_ASSIGN(GraphValue* const rounds, length_of(over));
  return loop(rounds, nullptr, stmt.targets, stmt.body, assign_item);
}

}  // namespace tenon::compile
