// FunctionCompiler: `if`, where two ways meet, and what follows a way that leaves.
#include <algorithm>
#include <utility>

#include "compile/function_compiler.h"

namespace tenon::compile {

using script::Stmt;
using script::StmtList;

namespace {

bool ends(Flow flow) noexcept { return flow == Flow::kLeaves || flow == Flow::kRaises; }

bool is_flag(std::string_view name) noexcept { return name == kLeft || name == kStopped || name == kReturned; }

Flow both(Flow a, Flow b) noexcept {
  if (a == b) return a;
  if (ends(a) && ends(b)) return Flow::kLeaves;
  if (a == Flow::kRaises) return b;
  if (b == Flow::kRaises) return a;
  return Flow::kMayLeave;
}

}  // namespace

Status FunctionCompiler::refine(const Condition::Refinements& known) {
  for (const auto& [name, type] : known) {
    const Local* const variable = environment_.find(name);
    if (variable == nullptr || variable->value == nullptr || variable->value->type->equals(*type)) continue;
    Local refined = *variable;
    if (type->kind() == TypeKind::kNone) {
      refined.value = builder_.none();
    } else {
      TENON_ASSIGN(refined.value, builder_.unchecked_cast(variable->value, type));
    }
    if (!refined.declared) refined.declared = variable->value->type;
    environment_.set(name, std::move(refined));
  }
  return {};
}

Status FunctionCompiler::way(const Condition::Refinements& known, Block* block, StmtList statements, StmtList rest, Way* out) {
  Block* const around = builder_.block();
  builder_.enter(block);
  const size_t mark = environment_.begin();
  out->block = block;
  TENON_TRY(refine(known));
  ++frame_;
  TENON_TRY(this->block(statements, &out->flow));
  --frame_;
  if (!ends(out->flow) && !rest.empty()) {
    // A way that may leave has its flag looked at before the rest.
    TENON_TRY(out->flow == Flow::kMayLeave ? if_not_left(rest, &out->flow) : this->block(rest, &out->flow));
  }
  out->changes = environment_.take(mark);
  builder_.enter(around);
  return {};
}

Status FunctionCompiler::if_statement(const Stmt& stmt, StmtList rest, Flow* flow, bool* took_rest) {
  Condition chosen;
  TENON_TRY(condition(*stmt.value, &chosen));
  if (chosen.value == nullptr) {
    // Only one way is there: it belongs to the block around it.
    TENON_TRY(refine(chosen.known ? chosen.if_true : chosen.if_false));
    return block(chosen.known ? stmt.body : stmt.else_body, flow);
  }
  const Flow flow_true = flow_of(stmt.body);
  const Flow flow_false = flow_of(stmt.else_body);
  // The rest is compiled into the way that goes on, so that no flag has to be looked at.
  *took_rest =
      (flow_true == Flow::kLeaves) != (flow_false == Flow::kLeaves) && !(flow_true == Flow::kRaises || flow_false == Flow::kRaises);
  Node* const node = builder_.append_if(chosen.value);
  Way if_true;
  Way if_false;
  const StmtList nothing;
  TENON_TRY(way(chosen.if_true, node->blocks[0], stmt.body, *took_rest && flow_true != Flow::kLeaves ? rest : nothing, &if_true));
  TENON_TRY(way(chosen.if_false, node->blocks[1], stmt.else_body, *took_rest && flow_false != Flow::kLeaves ? rest : nothing, &if_false));
  *flow = both(if_true.flow, if_false.flow);
  return join(node, std::move(if_true), std::move(if_false));
}

Status FunctionCompiler::join(Node* node, Way if_true, Way if_false) {
  struct Pair {
    Local ways[2];
  };
  std::map<std::string_view, Pair> changed;
  const Way* const ways[2] = {&if_true, &if_false};
  for (int side = 0; side < 2; ++side) {
    for (const Environment::Change& change : ways[side]->changes) {
      const auto [found, is_new] = changed.try_emplace(environment_.name_of(change.id));
      if (is_new) found->second.ways[1 - side] = environment_.at(change.id);
      found->second.ways[side] = change.after;
    }
  }
  Block* const around = builder_.block();
  for (auto& [name, pair] : changed) {
    Local after;
    after.frame = frame_;
    for (const Local& each : pair.ways) {
      if (each.value != nullptr) after.frame = std::min(after.frame, each.frame);
    }
    after.declared = pair.ways[0].declared ? pair.ways[0].declared : pair.ways[1].declared;
    for (int side = 0; side < 2; ++side) {
      GraphValue*& value = pair.ways[side].value;
      const GraphValue* const other = pair.ways[1 - side].value;
      if (value != nullptr || other == nullptr) continue;
      builder_.enter(ways[side]->block);
      if (is_flag(name)) {
        value = builder_.constant(value::Value::of_bool(false));
      } else if (ends(ways[side]->flow) || name == kResult) {
        value = builder_.append_value(NodeKind::kUninitialized, {}, other->type);
      }
      builder_.enter(around);
    }
    GraphValue* const a = pair.ways[0].value;
    GraphValue* const b = pair.ways[1].value;
    if (a == nullptr || b == nullptr) {
      environment_.set(name, after);
      continue;
    }
    if (a == b) {
      after.value = a;
      environment_.set(name, after);
      continue;
    }
    // On a way that is left, a value has the type of the other one.
    TypeRef type = ends(if_true.flow) && !is_flag(name) && name != kResult    ? b->type
                   : ends(if_false.flow) && !is_flag(name) && name != kResult ? a->type
                                                                              : unify(builder_.classes(), a->type, b->type);
    if (after.declared && type && is_subtype(builder_.classes(), *type, *after.declared) && name == kResult) type = after.declared;
    if (!type && after.declared) type = after.declared;
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
  Way if_true;
  Way if_false;
  if_true.block = node->blocks[0];
  if_true.flow = Flow::kLeaves;
  TENON_TRY(way({}, node->blocks[1], {}, rest, &if_false));
  *flow = both(if_true.flow, if_false.flow);
  return join(node, std::move(if_true), std::move(if_false));
}

}  // namespace tenon::compile
