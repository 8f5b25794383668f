#include "modules/module/replace.h"

#include <algorithm>
#include <utility>

namespace tenon::module {

using value::DictEntry;
using value::TensorValue;
using value::Value;
using value::ValueKind;

namespace {

bool same_view(const TensorValue& a, const TensorValue& b) {
  if (!a.storage() || !b.storage() || a.storage()->is_meta() ||
      a.storage()->key() != b.storage()->key())
    return false;
  return a.offset() == b.offset() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg() &&
         std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end()) &&
         std::equal(a.strides().begin(), a.strides().end(), b.strides().begin(), b.strides().end());
}

// A key that is equal for two values that are the same tensor (is_same_tensor()).
const void* place_of(const Value& tensor) {
  const TensorValue& held = *tensor.as_tensor();
  return held.storage() ? held.storage()->key().object : tensor.as_tensor().get();
}

}  // namespace

bool is_same_tensor(const Value& a, const Value& b) {
  if (&a == &b) return true;
  if (!a.is(ValueKind::kTensor) || !b.is(ValueKind::kTensor)) return false;
  return a.as_tensor().get() == b.as_tensor().get() || same_view(*a.as_tensor(), *b.as_tensor());
}

Result<ValueRef> with_gradient_of(const Value& held, ValueRef given) {
  if (!held.is(ValueKind::kTensor) || !given->is(ValueKind::kTensor) ||
      !held.as_tensor()->requires_grad())
    return given;
  const TensorValue& tensor = *given->as_tensor();
  const bool can_have_one =
      tensor::is_floating_point(tensor.type()) || tensor::is_complex(tensor.type());
  if (tensor.requires_grad() || !can_have_one) return given;
  value::TensorValueRef made;
  if (tensor.layout() == value::TensorLayout::kStrided) {
    value::StridedSpec spec;
    spec.storage = tensor.storage();
    spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
    spec.offset = tensor.offset();
    spec.requires_grad = true;
    spec.is_conj = tensor.is_conj();
    spec.is_neg = tensor.is_neg();
    spec.quantizer = tensor.quantizer();
    TENON_ASSIGN(made, TensorValue::create(spec));
  } else {
    value::SparseSpec spec;
    spec.layout = tensor.layout();
    spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    spec.requires_grad = true;
    spec.indices = tensor.indices();
    spec.plain_indices = tensor.plain_indices();
    spec.values = tensor.values();
    spec.is_coalesced = tensor.is_coalesced();
    TENON_ASSIGN(made, TensorValue::create_sparse(spec));
  }
  return Value::of_tensor(std::move(made));
}

const Replacement::Pair* Replacement::find(const Value& tensor) const {
  const auto [begin, end] = by_storage_.equal_range(place_of(tensor));
  for (auto entry = begin; entry != end; ++entry) {
    if (is_same_tensor(*pairs_[entry->second].from, tensor)) return &pairs_[entry->second];
  }
  return nullptr;
}

Result<ValueRef> Replacement::replaced(const ValueRef& value, size_t depth) {
  switch (value->kind()) {
    case ValueKind::kTensor: {
      const Pair* const pair = find(*value);
      return pair == nullptr ? value : pair->to;
    }
    case ValueKind::kObject:
      // The attributes and the state of an object change in place.
      if (done_.try_emplace(value.get(), value).second) steps_.push_back({value, now_});
      return value;
    case ValueKind::kTuple:
    case ValueKind::kList:
    case ValueKind::kDict: {
      if (const auto found = done_.find(value.get()); found != done_.end()) return found->second;
      TENON_ASSIGN(ValueRef made, replaced_inside(value, depth));
      done_[value.get()] = made;
      return made;
    }
    default: return value;
  }
}

Result<ValueRef> Replacement::replaced_inside(const ValueRef& value, size_t depth) {
  if (depth > kMaxDepth)
    return Status(Code::kInvalidArgument, format("values are nested deeper than %zu", kMaxDepth));
  bool changed = false;
  if (value->is(ValueKind::kDict)) {
    std::vector<DictEntry> entries;
    entries.reserve(value->entries().size());
    for (const DictEntry& entry : value->entries()) {
      TENON_ASSIGN(ValueRef mapped, replaced(entry.value, depth + 1));
      changed = changed || mapped.get() != entry.value.get();
      entries.push_back({entry.key, std::move(mapped)});
    }
    if (!changed) return value;
    return Value::dict(value->declared_type(), std::move(entries));
  }
  std::vector<ValueRef> items;
  items.reserve(value->items().size());
  for (const ValueRef& item : value->items()) {
    TENON_ASSIGN(ValueRef made, replaced(item, depth + 1));
    changed = changed || made.get() != item.get();
    items.push_back(std::move(made));
  }
  if (!changed) return value;
  if (value->is(ValueKind::kTuple)) return Value::tuple(std::move(items), value->class_name());
  return Value::list(value->declared_type(), std::move(items));
}

Status Replacement::collect_object(const ValueRef& object, CodeSet* around) {
  now_ = class_of(*object, around).code;
  if (object->is_opaque()) {
    TENON_ASSIGN(ValueRef made, replaced(object->state(), 0));
    if (made.get() == object->state().get()) return Status::ok();
    TENON_TRY(now_->check_may_change());
    changes_.push_back({object, Change::kState, std::move(made)});
    return Status::ok();
  }
  const value::Attributes& attributes = object->attributes();
  for (size_t i = 0; i < attributes.size(); ++i) {
    const ValueRef& held = attributes.all()[i].value;
    TENON_ASSIGN(ValueRef made, replaced(held, 0));
    if (made.get() == held.get()) continue;
    TENON_TRY(now_->check_may_change());
    changes_.push_back({object, i, std::move(made)});
  }
  return Status::ok();
}

Status Replacement::collect(const ValueRef& root, CodeSet* around) {
  for (size_t i = 0; i < pairs_.size(); ++i) by_storage_.emplace(place_of(*pairs_[i].from), i);
  done_.emplace(root.get(), root);
  steps_.push_back({root, around});
  while (!steps_.empty()) {
    const ObjectVisit step = std::move(steps_.back());
    steps_.pop_back();
    TENON_TRY(collect_object(step.object, step.around));
  }
  return Status::ok();
}

void Replacement::apply() {
  for (Change& change : changes_) {
    if (change.index == Change::kState)
      change.object->set_state(std::move(change.value));
    else
      change.object->attributes().replace_at(change.index, std::move(change.value));
  }
}

}  // namespace tenon::module
