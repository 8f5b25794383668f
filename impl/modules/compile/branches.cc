// The part of FunctionCompiler that compiles `if`: the branches, their join, and the statements
// after a branch that leaves.
#include <algorithm>
#include <utility>

#include "modules/compile/function_compiler.h"

namespace tenon::compile {

using script::Stmt;
using script::StmtList;

namespace {

bool ends(Flow flow) noexcept { return flow == Flow::kLeaves || flow == Flow::kRaises; }

bool is_flag(std::string_view name) noexcept {
  return name == kLeft || name == kStopped || name == kReturned || name.starts_with(kFlagPrefix);
}

// Whether a variable of the compiler has a meaning only if its flag is set.
bool is_behind_flag(std::string_view name) noexcept {
  return name == kResult || name.starts_with(kKeptPrefix);
}

bool is_of_source(std::string_view name) noexcept { return !name.starts_with('%'); }

Flow both(Flow a, Flow b) noexcept {
  if (a == b) return a;
  if (ends(a) && ends(b)) return Flow::kLeaves;
  if (a == Flow::kRaises) return b;
  if (b == Flow::kRaises) return a;
  return Flow::kMayLeave;
}

// Whether the statements contain a break or continue of a loop around them.
bool stays_in_function(StmtList statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Stmt* each) {
    const bool is_loop =
        each->kind == script::StmtKind::kFor || each->kind == script::StmtKind::kWhile;
    return each->kind == script::StmtKind::kBreak || each->kind == script::StmtKind::kContinue ||
           (!is_loop && (stays_in_function(each->body) || stays_in_function(each->else_body)));
  });
}

}  // namespace

Status FunctionCompiler::refine(const Condition::Refinements& known) {
  for (const auto& [name, type] : known) {
    const Local* const variable = environment_.find(name);
    if (variable == nullptr || variable->value == nullptr) continue;
    Local refined = *variable;
    if (variable->value->type->equals(*type)) {
      if (!variable->declared || variable->is_narrow) continue;
    } else if (type->kind() == TypeKind::kNone) {
      refined.value = builder_.none();
    } else {
      TENON_ASSIGN(refined.value, builder_.unchecked_cast(variable->value, type));
    }
    if (!refined.declared) refined.declared = variable->value->type;
    // Even if a variable is known to be None, PyTorch lets code assign every value to it that its
    // declared type allows.
    refined.is_narrow = type->kind() != TypeKind::kNone;
    environment_.set(name, std::move(refined));
  }
  return {};
}

Status FunctionCompiler::way(const Condition::Refinements& known, Block* block, StmtList statements,
                             StmtList rest, Branch* out) {
  Block* const around = builder_.block();
  builder_.enter(block);
  const size_t mark = environment_.begin();
  out->block = block;
  TENON_TRY(refine(known));
  ++frame_;
  TENON_TRY(this->block(statements, &out->flow));
  --frame_;
  if (!ends(out->flow) && !rest.empty()) {
    for (const auto& [name, type] : known) {
      const Local* const variable = environment_.find(name);
      if (!out->forgets || variable == nullptr || !variable->is_narrow) continue;
      Local wider = *variable;
      wider.is_narrow = false;
      environment_.set(name, std::move(wider));
    }
    // If the branch may leave, the rest runs only if its flag is not set.
    TENON_TRY(out->flow == Flow::kMayLeave ? if_not_left(rest, &out->flow)
                                           : this->block(rest, &out->flow));
  }
  out->changes = environment_.take(mark);
  builder_.enter(around);
  return {};
}

// Compiles the only branch that can run. PyTorch compiles both branches here, so after the `if` a
// variable has a type that it could have after either.
Status FunctionCompiler::only_way(const Condition& chosen, StmtList statements, StmtList other,
                                  Flow* flow) {
  const Condition::Refinements& known = chosen.known ? chosen.if_true : chosen.if_false;
  const size_t mark = environment_.begin();
  TENON_TRY(refine(known));
  TENON_TRY(block(statements, flow));
  const bool other_ends = ends(flow_of(other));
  for (Environment::Change& change : environment_.take(mark)) {
    const Local& before = environment_.at(change.id);
    const auto found = known.find(environment_.name_of(change.id));
    const bool was_none = found != known.end() && found->second->kind() == TypeKind::kNone;
    if (!other_ends && !was_none && before.declared && !before.is_narrow)
      change.after.is_narrow = false;
    environment_.change(change.id, std::move(change.after));
  }
  return {};
}

Status FunctionCompiler::if_statement(const Stmt& stmt, StmtList rest, Flow* flow,
                                      bool* took_rest) {
  Condition chosen;
  TENON_TRY(condition(*stmt.value, &chosen));
  if (chosen.value == nullptr) {
    return only_way(chosen, chosen.known ? stmt.body : stmt.else_body,
                    chosen.known ? stmt.else_body : stmt.body, flow);
  }
  const Flow flow_true = flow_of(stmt.body);
  const Flow flow_false = flow_of(stmt.else_body);
  // The rest is compiled into the branch that goes on, so that it needs no check of a flag.
  *took_rest = (flow_true == Flow::kLeaves) != (flow_false == Flow::kLeaves) &&
               !(flow_true == Flow::kRaises || flow_false == Flow::kRaises);
  Node* const node = builder_.append_if(chosen.value);
  Branch if_true;
  Branch if_false;
  const StmtList nothing;
  // If break or continue end the other branch, PyTorch forgets after the `if` which types the
  // condition implied.
  if_true.forgets = stays_in_function(stmt.else_body);
  if_false.forgets = stays_in_function(stmt.body);
  TENON_TRY(way(chosen.if_true, node->blocks[0], stmt.body,
                *took_rest && flow_true != Flow::kLeaves ? rest : nothing, &if_true));
  TENON_TRY(way(chosen.if_false, node->blocks[1], stmt.else_body,
                *took_rest && flow_false != Flow::kLeaves ? rest : nothing, &if_false));
  *flow = both(if_true.flow, if_false.flow);
  return join(node, std::move(if_true), std::move(if_false));
}

TypeRef FunctionCompiler::joined_type(std::string_view name, const Pair& pair,
                                      const Branch* const (&ways)[2]) const {
  const TypeRef& a = pair.ways[0].value->type;
  const TypeRef& b = pair.ways[1].value->type;
  // If one branch ends, the type from the other branch counts.
  if (is_of_source(name) && ends(ways[0]->flow)) return b;
  if (is_of_source(name) && ends(ways[1]->flow)) return a;
  const TypeRef& declared = pair.ways[0].declared ? pair.ways[0].declared : pair.ways[1].declared;
  TypeRef type = unify(builder_.classes(), a, b);
  if (declared &&
      (!type || (is_behind_flag(name) && is_subtype(builder_.classes(), *type, *declared))))
    return declared;
  return type;
}

Result<GraphValue*> FunctionCompiler::handed_on(std::string_view name, GraphValue* usual,
                                                GraphValue* flag, GraphValue* kept,
                                                const TypeRef& type) {
  const auto fitted = [&](GraphValue* value) -> Result<GraphValue*> {
    if (value != nullptr) value = convert(&builder_, value, type, false);
    if (value == nullptr || !is_subtype(builder_.classes(), *value->type, *type))
      return builder_.refuse(std::string(name) + " is " + with_article(*type) +
                             " before the loop, and a round gives it another type");
    return value;
  };
  if (flag == nullptr) return fitted(usual);
  Node* const node = builder_.append_if(flag);
  Block* const around = builder_.block();
  for (const auto& [block, value] :
       {std::pair(node->blocks[0], kept), std::pair(node->blocks[1], usual)}) {
    builder_.enter(block);
    TENON_ASSIGN(GraphValue* const converted, fitted(value));
    block->outputs.push_back(converted);
  }
  builder_.enter(around);
  return builder_.graph().add_output(node, type);
}

Status FunctionCompiler::keep_what_is_left(const Branch* const (&ways)[2], Changed* changed) {
  if (loops_ == 0) return {};
  std::vector<std::string> names;
  for (const auto& [name, pair] : *changed) {
    if (is_of_source(name)) names.push_back(name);
  }
  const auto pair_of = [&](const std::string& name) -> Pair& {
    const auto [found, is_new] = changed->try_emplace(name);
    const Local* const now = is_new ? environment_.find(name) : nullptr;
    if (now != nullptr) found->second = {{*now, *now}};
    return found->second;
  };
  for (const std::string& name : names) {
    const Local* const of_loop = environment_.find(name_of_kept(name));
    const Pair& pair = changed->find(name)->second;
    // The loop carries a variable if it has noted the variable's type under name_of_kept().
    if (of_loop == nullptr || !of_loop->declared || pair.ways[0].value == nullptr ||
        pair.ways[1].value == nullptr)
      continue;
    const TypeRef wanted = of_loop->declared;
    const TypeRef type = joined_type(name, pair, ways);
    for (int side = 0; side < 2; ++side) {
      GraphValue* value = pair.ways[side].value;
      if (ways[side]->flow != Flow::kLeaves || is_subtype(builder_.classes(), *value->type, *type))
        continue;
      Pair& flags = pair_of(name_of_flag(name));
      Pair& kept = pair_of(name_of_kept(name));
      Block* const around = builder_.block();
      builder_.enter(ways[side]->block);
      // An inner branch may have kept a value of the variable already.
      TENON_ASSIGN(value,
                   handed_on(name, value, flags.ways[side].value, kept.ways[side].value, wanted));
      flags.ways[side].value = builder_.constant(value::Value::of_bool(true));
      builder_.enter(around);
      kept.ways[side] = {value, wanted};
    }
  }
  return {};
}

Status FunctionCompiler::join(Node* node, Branch if_true, Branch if_false) {
  Changed changed;
  const Branch* const ways[2] = {&if_true, &if_false};
  for (int side = 0; side < 2; ++side) {
    for (const Environment::Change& change : ways[side]->changes) {
      const auto [found, is_new] = changed.try_emplace(environment_.name_of(change.id));
      if (is_new) found->second.ways[1 - side] = environment_.at(change.id);
      found->second.ways[side] = change.after;
    }
  }
  TENON_TRY(keep_what_is_left(ways, &changed));
  Block* const around = builder_.block();
  for (auto& [name, pair] : changed) {
    Local after;
    after.frame = frame_;
    after.is_narrow = true;
    for (const Local& each : pair.ways) {
      if (each.value == nullptr) continue;
      after.frame = std::min(after.frame, each.frame);
      after.is_narrow = after.is_narrow && each.is_narrow;
    }
    after.declared = pair.ways[0].declared ? pair.ways[0].declared : pair.ways[1].declared;
    for (int side = 0; side < 2; ++side) {
      GraphValue*& value = pair.ways[side].value;
      const GraphValue* const other = pair.ways[1 - side].value;
      if (value != nullptr || other == nullptr) continue;
      builder_.enter(ways[side]->block);
      if (is_flag(name)) {
        value = builder_.constant(value::Value::of_bool(false));
      } else if (ends(ways[side]->flow) || is_behind_flag(name)) {
        value = builder_.append_value(NodeKind::kUninitialized, {}, other->type);
      }
      builder_.enter(around);
    }
    GraphValue* const a = pair.ways[0].value;
    GraphValue* const b = pair.ways[1].value;
    if (a == nullptr || b == nullptr || a == b) {
      if (a == b) after.value = a;
      environment_.set(name, after);
      continue;
    }
    TypeRef type = joined_type(name, pair, ways);
    if (!type) {
      environment_.set(name, {});
      continue;
    }
    for (int side = 0; side < 2; ++side) {
      GraphValue* const value = pair.ways[side].value;
      builder_.enter(ways[side]->block);
      GraphValue* const converted = is_subtype(builder_.classes(), *value->type, *type)
                                        ? convert(&builder_, value, type, false)
                                        : builder_.append_value(NodeKind::kUninitialized, {}, type);
      builder_.enter(around);
      ways[side]->block->outputs.push_back(converted);
    }
    after.value = builder_.graph().add_output(node, std::move(type));
    environment_.set(name, after);
  }
  return {};
}

Status FunctionCompiler::if_not_left(StmtList rest, Flow* flow) {
  if (rest.empty()) return {};
  const Local* const left = environment_.find(kLeft);
  if (left == nullptr || left->value == nullptr) return block(rest, flow);
  Node* const node = builder_.append_if(left->value);
  Branch if_true;
  Branch if_false;
  if_true.block = node->blocks[0];
  if_true.flow = Flow::kLeaves;
  TENON_TRY(way({}, node->blocks[1], {}, rest, &if_false));
  *flow = both(if_true.flow, if_false.flow);
  return join(node, std::move(if_true), std::move(if_false));
}

}  // namespace tenon::compile
