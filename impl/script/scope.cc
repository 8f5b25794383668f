#include "script/scope.h"

#include <unordered_map>
#include <utility>

#include "script/nearest.h"

namespace tenon::script {
namespace {

// How a variable stands after an `if` whose two ways leave it so.
Variable met(const Variable& if_true, Flow flow_true, const Variable& if_false, Flow flow_false, Range where) {
  const bool lost_if_false = if_false.set == Set::kNo;
  const bool lost_if_true = if_true.set == Set::kNo;
  Variable out;
  if (lost_if_true && lost_if_false) {
    out.lost = if_true.lost != Variable::Lost::kNever ? if_true.lost : if_false.lost;
    out.where = if_true.lost != Variable::Lost::kNever ? if_true.where : if_false.where;
    return out;
  }
  out.meaning = lost_if_true ? if_false.meaning : lost_if_false ? if_true.meaning : common(if_true.meaning, if_false.meaning);
  if (!lost_if_true && !lost_if_false) {
    out.set = if_true.set == Set::kYes && if_false.set == Set::kYes ? Set::kYes : Set::kMaybe;
    return out;
  }
  // The way on which it is not set may not be there.
  if ((lost_if_true ? flow_true : flow_false) == Flow::kMayEnd) {
    out.set = Set::kMaybe;
    return out;
  }
  out.lost = lost_if_true ? Variable::Lost::kNotIfTrue : Variable::Lost::kNotIfFalse;
  out.where = where;
  return out;
}

}  // namespace

uint32_t Scope::id_of(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<uint32_t>(variables_.size());
  ids_.emplace(name, id);
  variables_.emplace_back();
  stamps_.push_back(0);
  return id;
}

void Scope::change(uint32_t id, Variable after) {
  Variable before = std::exchange(variables_[id], std::move(after));
  if (open_marks_ > 0) undo_.push_back({id, std::move(before)});
}

const Variable* Scope::find(std::string_view name) const {
  const auto found = ids_.find(name);
  return found != ids_.end() ? &variables_[found->second] : nullptr;
}

void Scope::set(std::string_view name, Meaning meaning) {
  Variable variable;
  variable.set = Set::kYes;
  variable.meaning = std::move(meaning);
  change(id_of(name), std::move(variable));
}

void Scope::unset(std::string_view name, Range where) {
  Variable variable;
  variable.lost = Variable::Lost::kDeleted;
  variable.where = where;
  change(id_of(name), std::move(variable));
}

void Scope::mark_tested(std::string_view name) {
  const auto found = ids_.find(name);
  if (found == ids_.end() || variables_[found->second].meaning.was_tested) return;
  Variable variable = variables_[found->second];
  variable.meaning.was_tested = true;
  change(found->second, std::move(variable));
}

size_t Scope::begin() {
  ++open_marks_;
  return undo_.size();
}

Scope::Changes Scope::take(size_t mark) {
  ++stamp_;
  Changes changes;
  for (size_t i = undo_.size(); i > mark; --i) {
    Undo& undo = undo_[i - 1];
    if (stamps_[undo.id] != stamp_) {
      stamps_[undo.id] = stamp_;
      changes.push_back({undo.id, std::move(variables_[undo.id])});
    }
    variables_[undo.id] = std::move(undo.before);
  }
  undo_.resize(mark);
  --open_marks_;
  return changes;
}

void Scope::meet(Changes if_true, Flow flow_true, Changes if_false, Flow flow_false, Range where) {
  if (flow_true == Flow::kEnds) return flow_false == Flow::kEnds ? void() : apply(std::move(if_false));
  if (flow_false == Flow::kEnds) return apply(std::move(if_true));
  ++stamp_;
  std::unordered_map<uint32_t, const Variable*> false_of;
  for (const Change& change : if_false) false_of.emplace(change.id, &change.after);
  for (Change& here : if_true) {
    stamps_[here.id] = stamp_;
    const auto there = false_of.find(here.id);
    const Variable& other = there != false_of.end() ? *there->second : variables_[here.id];
    change(here.id, met(here.after, flow_true, other, flow_false, where));
  }
  for (Change& there : if_false) {
    if (stamps_[there.id] != stamp_) change(there.id, met(variables_[there.id], flow_true, there.after, flow_false, where));
  }
}

void Scope::apply(Changes changes) {
  for (Change& each : changes) change(each.id, std::move(each.after));
}

void Scope::leave_loop(Changes body, bool may_be_unrolled, Range where) {
  for (Change& each : body) {
    const Variable& before = variables_[each.id];
    Variable after;
    if (before.set == Set::kNo && !may_be_unrolled) {
      after = before;
      if (each.after.set != Set::kNo) {
        after.lost = Variable::Lost::kInLoop;
        after.where = where;
      }
    } else {
      after.set = before.set == Set::kNo ? Set::kMaybe : before.set;
      after.meaning = before.set == Set::kNo ? std::move(each.after.meaning) : common(before.meaning, each.after.meaning);
    }
    change(each.id, std::move(after));
  }
}

void Scope::leave_inner(const Changes& inner, Range where) {
  for (const Change& each : inner) {
    if (variables_[each.id].set != Set::kNo || each.after.set == Set::kNo) continue;
    Variable after = variables_[each.id];
    after.lost = Variable::Lost::kInner;
    after.where = where;
    change(each.id, std::move(after));
  }
}

std::string_view Scope::nearest(std::string_view name) const {
  Nearest nearest(name);
  for (const auto& [candidate, id] : ids_) {
    if (variables_[id].set != Set::kNo) nearest.consider(candidate);
  }
  return nearest.best();
}

}  // namespace tenon::script
