// Module: replacing and removing what it has.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "module/module.h"
#include "module/replace.h"

namespace tenon::module {

using value::TensorValue;
using value::Type;
using value::Value;
using value::ValueKind;

namespace {

constexpr size_t kMostNamed = 10;

Status no_value(const std::string& path, const Member& member) {
  return Status(Code::kInvalidArgument,
                format("\"%.200s\" is a %s, which has no value to replace", path.c_str(), member_kind_name(member.kind)));
}

// Bytes and shape of two tensors that are to be one.
bool equal_content(const Value& a, const Value& b) {
  if (is_same_tensor(a, b)) return true;
  if (!a.is(ValueKind::kTensor) || !b.is(ValueKind::kTensor)) return a.is(ValueKind::kNone) && b.is(ValueKind::kNone);
  const TensorValue& x = *a.as_tensor();
  const TensorValue& y = *b.as_tensor();
  if (!x.storage() || !y.storage() || x.type() != y.type() || !x.is_contiguous() || !y.is_contiguous()) return false;
  if (!std::equal(x.sizes().begin(), x.sizes().end(), y.sizes().begin(), y.sizes().end())) return false;
  const uint64_t element = value::scalar_type_info(x.type()).nbytes;
  if (x.numel() == 0) return true;
  if (x.storage()->data() == nullptr || y.storage()->data() == nullptr || value::scalar_type_info(x.type()).packed != 1) return false;
  return std::memcmp(x.storage()->data() + static_cast<uint64_t>(x.offset()) * element,
                     y.storage()->data() + static_cast<uint64_t>(y.offset()) * element, x.numel() * element) == 0;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += format(", and %zu more", names.size() - kMostNamed);
  return text;
}

}  // namespace

Status Module::set(std::string_view path, ValueRef value) {
  const std::string text(path);
  TENON_ASSIGN(const Place place, place_of(path));
  TENON_ASSIGN(const Member member, place.owner->find_member(place.name));
  if (member.kind == MemberKind::kSubmodule) {
    return Status(Code::kInvalidArgument, format("\"%.200s\" is a submodule, and only a module can take its place", text.c_str()));
  }
  if (member.kind == MemberKind::kConstant || member.kind == MemberKind::kMethod || !member.value) return no_value(text, member);
  CodeSet* const code = place.owner->object_class().code;
  TENON_TRY(code->check_may_change());
  TENON_ASSIGN(ValueRef checked, place.owner->check_member_value(path, member.type, value));
  if (member.value->is(ValueKind::kTensor) && checked->is(ValueKind::kTensor)) {
    Replacement replacement;
    replacement.add(member.value, std::move(checked));
    TENON_TRY(replacement.collect(object_, code_.get()));
    replacement.apply();
    return Status::ok();
  }
  place.owner->object_->attributes().replace(place.name, std::move(checked));
  return Status::ok();
}

Status Module::set_submodule(std::string_view path, const Ref<Module>& child) {
  const std::string text(path);
  TENON_ASSIGN(const Place place, place_of(path));
  TENON_ASSIGN(const Member member, place.owner->find_member(place.name));
  if (member.kind != MemberKind::kSubmodule) {
    return Status(Code::kInvalidArgument, format("\"%.200s\" is a %s and no submodule", text.c_str(), member_kind_name(member.kind)));
  }
  const ObjectClass own = place.owner->object_class();
  TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
  const TypeRef& declared = found.body->fields[found.body->find_field(place.name)].type;
  // The class of a submodule that was built elsewhere is in that one's code; an interface is in this one.
  bool is_interface = false;
  TENON_ASSIGN(const Definition* wanted, own.code->find_definition(declared->class_name()));
  if (wanted != nullptr && wanted->is_class()) {
    TENON_ASSIGN(const ClassBody* body, own.code->body(*wanted));
    is_interface = body->kind == ClassKind::kModuleInterface;
  }
  TENON_TRY(place.owner->check_child(*child, is_interface ? declared : nullptr));
  place.owner->settle_child(*child);
  place.owner->object_->attributes().replace(place.name, child->object_);
  return Status::ok();
}

Status Module::remove(std::string_view path) {
  TENON_ASSIGN(const Place place, place_of(path));
  Module& owner = *place.owner;
  TENON_ASSIGN(const Member member, owner.find_member(place.name));
  if (member.kind == MemberKind::kMethod) return owner.remove_method(place.name);
  TENON_ASSIGN(ClassBody * body, owner.edit_class());
  if (member.kind == MemberKind::kConstant) {
    body->constants.erase(body->constants.begin() + static_cast<ptrdiff_t>(body->find_constant(place.name)));
    return Status::ok();
  }
  body->remove_field(body->find_field(place.name));
  owner.object_->attributes().remove(place.name);
  return Status::ok();
}

Status Module::load(std::span<const NamedTensor> tensors, const LoadOptions& options, LoadReport* report) {
  TENON_ASSIGN(const std::vector<TensorPlace> places, tensor_places(object_, code_.get()));
  std::map<std::string_view, const TensorPlace*> by_path;
  for (const TensorPlace& place : places) by_path[place.path] = &place;
  LoadReport names;
  std::map<std::string_view, const NamedTensor*> given;
  for (const NamedTensor& tensor : tensors) {
    if (!given.emplace(tensor.name, &tensor).second) {
      return Status(Code::kInvalidArgument, format("\"%.200s\" is given twice", tensor.name.c_str())).with("name", tensor.name);
    }
    if (by_path.find(tensor.name) == by_path.end()) names.unexpected.push_back(tensor.name);
  }
  const auto held = [](const TensorPlace& place) -> const ValueRef& { return place.object->attributes().all()[place.index].value; };

  // A tensor that several have is there if it is given for one of them; for several, they must agree.
  std::multimap<const void*, std::pair<const TensorPlace*, const NamedTensor*>> shared;
  const auto key_of = [&](const TensorPlace& place) -> const void* {
    const TensorValue& tensor = *held(place)->as_tensor();
    return tensor.storage() ? tensor.storage()->key().object : &tensor;
  };
  Replacement replacement;
  std::vector<std::pair<const TensorPlace*, ValueRef>> alone;
  for (const TensorPlace& place : places) {
    const auto found = given.find(place.path);
    if (found == given.end()) continue;
    CodeSet* const code = place.code;
    TENON_TRY(code->check_may_change());
    value::CheckOptions check;
    check.classes = code;
    TENON_TRY(value::check_value(*found->second->value, *place.type, place.path, check));
    if (!held(place)->is(ValueKind::kTensor) || !found->second->value->is(ValueKind::kTensor)) {
      alone.emplace_back(&place, found->second->value);
      continue;
    }
    bool is_known = false;
    const auto [begin, end] = shared.equal_range(key_of(place));
    for (auto entry = begin; entry != end; ++entry) {
      if (!is_same_tensor(*held(*entry->second.first), *held(place))) continue;
      is_known = true;
      if (equal_content(*entry->second.second->value, *found->second->value)) break;
      return Status(Code::kInvalidArgument, format("\"%.200s\" and \"%.200s\" are one tensor here, and two are given",
                                                   entry->second.first->path.c_str(), place.path.c_str()));
    }
    if (is_known) continue;
    shared.emplace(key_of(place), std::pair(&place, found->second));
    replacement.add(held(place), found->second->value);
  }
  for (const TensorPlace& place : places) {
    if (given.find(place.path) != given.end() || !held(place)->is(ValueKind::kTensor)) continue;
    const auto [begin, end] = shared.equal_range(key_of(place));
    const bool by_other =
        std::any_of(begin, end, [&](const auto& entry) { return is_same_tensor(*held(*entry.second.first), *held(place)); });
    if (!by_other) names.missing.push_back(place.path);
  }
  const bool refused = (!names.missing.empty() && !options.allow_missing) || (!names.unexpected.empty() && !options.allow_unexpected);
  Status status;
  if (refused) {
    std::string message = "the tensors do not fit " + class_name() + ":";
    if (!names.missing.empty() && !options.allow_missing) message += " missing " + listed(names.missing);
    if (!names.unexpected.empty() && !options.allow_unexpected) {
      message += (names.missing.empty() || options.allow_missing ? " unexpected " : "; unexpected ") + listed(names.unexpected);
    }
    status = Status(Code::kInvalidArgument, message)
                 .with("missing", static_cast<uint64_t>(names.missing.size()))
                 .with("unexpected", static_cast<uint64_t>(names.unexpected.size()));
  }
  if (report != nullptr) *report = std::move(names);
  if (refused) return status;
  TENON_TRY(replacement.collect(object_, code_.get()));
  if (options.check_only) return Status::ok();
  replacement.apply();
  for (auto& [place, value] : alone) place->object->attributes().replace_at(place->index, std::move(value));
  return Status::ok();
}

}  // namespace tenon::module
