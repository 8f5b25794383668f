#include "modules/script/scope.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "modules/script/nearest.h"

namespace tenon::script {
namespace {

// The state of a variable after an `if`, from its states at the ends of the two branches.
Variable met(const Variable& if_true, Flow flow_true, const Variable& if_false, Flow flow_false,
             Range where) {
  const bool lost_if_false = if_false.set == Set::kNo;
  const bool lost_if_true = if_true.set == Set::kNo;
  Variable out;
  if (lost_if_true && lost_if_false) {
    out.lost = if_true.lost != Variable::Lost::kNever ? if_true.lost : if_false.lost;
    out.where = if_true.lost != Variable::Lost::kNever ? if_true.where : if_false.where;
    return out;
  }
  out.meaning = lost_if_true    ? if_false.meaning
                : lost_if_false ? if_true.meaning
                                : common(if_true.meaning, if_false.meaning);
  if (!lost_if_true && !lost_if_false) {
    out.set = if_true.set == Set::kYes && if_false.set == Set::kYes ? Set::kYes : Set::kMaybe;
    return out;
  }
  // PyTorch may not compile the branch that does not set the variable.
  if ((lost_if_true ? flow_true : flow_false) == Flow::kMayEnd) {
    out.set = Set::kMaybe;
    return out;
  }
  out.lost = lost_if_true ? Variable::Lost::kNotIfTrue : Variable::Lost::kNotIfFalse;
  out.where = where;
  return out;
}

}  // namespace

void Scope::set(std::string_view name, CheckedValue meaning) {
  Variable variable;
  variable.set = Set::kYes;
  variable.meaning = std::move(meaning);
  log_.change(log_.id_of(name), std::move(variable));
}

void Scope::unset(std::string_view name, Range where) {
  Variable variable;
  variable.lost = Variable::Lost::kDeleted;
  variable.where = where;
  log_.change(log_.id_of(name), std::move(variable));
}

void Scope::mark_tested(std::string_view name) {
  const Variable* const known = find(name);
  if (known == nullptr || known->meaning.was_tested) return;
  Variable variable = *known;
  variable.meaning.was_tested = true;
  log_.change(log_.id_of(name), std::move(variable));
}

void Scope::meet(Changes if_true, Flow flow_true, Changes if_false, Flow flow_false, Range where) {
  if (flow_true == Flow::kEnds)
    return flow_false == Flow::kEnds ? void() : apply(std::move(if_false));
  if (flow_false == Flow::kEnds) return apply(std::move(if_true));
  std::unordered_map<uint32_t, const Variable*> false_of;
  for (const Changes::value_type& each : if_false) false_of.emplace(each.id, &each.after);
  std::unordered_set<uint32_t> met_ids;
  for (const Changes::value_type& here : if_true) {
    met_ids.insert(here.id);
    const auto there = false_of.find(here.id);
    const Variable& other = there != false_of.end() ? *there->second : log_.at(here.id);
    log_.change(here.id, met(here.after, flow_true, other, flow_false, where));
  }
  for (const Changes::value_type& there : if_false) {
    if (!met_ids.contains(there.id))
      log_.change(there.id, met(log_.at(there.id), flow_true, there.after, flow_false, where));
  }
}

void Scope::apply(Changes changes) {
  for (Changes::value_type& each : changes) log_.change(each.id, std::move(each.after));
}

void Scope::leave_loop(Changes body, bool may_be_unrolled, Range where) {
  for (Changes::value_type& each : body) {
    const Variable& before = log_.at(each.id);
    Variable after;
    if (before.set == Set::kNo && !may_be_unrolled) {
      after = before;
      if (each.after.set != Set::kNo) {
        after.lost = Variable::Lost::kInLoop;
        after.where = where;
      }
    } else {
      after.set = before.set == Set::kNo ? Set::kMaybe : before.set;
      after.meaning = before.set == Set::kNo ? std::move(each.after.meaning)
                                             : common(before.meaning, each.after.meaning);
    }
    log_.change(each.id, std::move(after));
  }
}

void Scope::leave_inner(const Changes& inner, Range where) {
  for (const Changes::value_type& each : inner) {
    if (log_.at(each.id).set != Set::kNo || each.after.set == Set::kNo) continue;
    Variable after = log_.at(each.id);
    after.lost = Variable::Lost::kInner;
    after.where = where;
    log_.change(each.id, std::move(after));
  }
}

std::string_view Scope::nearest(std::string_view name) const {
  Nearest nearest(name);
  for (uint32_t id = 0; id < log_.size(); ++id) {
    if (log_.at(id).set != Set::kNo) nearest.consider(log_.name_of(id));
  }
  return nearest.best();
}

}  // namespace tenon::script
