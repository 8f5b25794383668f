// Implements Module::load(), which replaces a whole set of parameters and buffers by their paths.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "modules/module/module.h"
#include "modules/module/replace.h"
#include "modules/module/state_path.h"
#include "modules/module/tensor_places.h"

namespace tenon::module {

using value::TensorValue;
using value::Value;
using value::ValueKind;

namespace {

constexpr size_t kMostNamed = 10;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNamed) text += format(", and %zu more", names.size() - kMostNamed);
  return text;
}

// Whether two tensors that are given for one place are equal, so that either can be taken.
bool equal_content(const Value& a, const Value& b) {
  if (is_same_tensor(a, b)) return true;
  const TensorValue& x = *a.as_tensor();
  const TensorValue& y = *b.as_tensor();
  if (!x.storage() || !y.storage() || x.type() != y.type() || !x.is_contiguous() ||
      !y.is_contiguous() || x.quantizer() || y.quantizer()) {
    return false;
  }
  if (x.requires_grad() != y.requires_grad() || x.is_conj() != y.is_conj() ||
      x.is_neg() != y.is_neg())
    return false;
  if (!std::equal(x.sizes().begin(), x.sizes().end(), y.sizes().begin(), y.sizes().end()))
    return false;
  if (x.numel() == 0) return true;
  if (x.storage()->data() == nullptr || y.storage()->data() == nullptr) return false;
  const uint64_t element = tensor::scalar_type_info(x.type()).nbytes;
  return std::memcmp(x.storage()->data() + static_cast<uint64_t>(x.offset()) * element,
                     y.storage()->data() + static_cast<uint64_t>(y.offset()) * element,
                     x.numel() * element) == 0;
}

// Loader works out all changes before any of them is made.
class Loader {
 public:
  explicit Loader(std::vector<TensorPlace> places) : places_(std::move(places)) {}

  Status take(std::span<const NamedTensor> tensors) {
    std::map<std::string_view, const TensorPlace*> by_path;
    for (const TensorPlace& place : places_) by_path[place.path] = &place;
    for (const NamedTensor& tensor : tensors) {
      if (!given_.emplace(tensor.name, &tensor).second) {
        return Status(Code::kInvalidArgument,
                      format("\"%.200s\" is given twice", tensor.name.c_str()))
            .with("name", tensor.name);
      }
      if (by_path.find(tensor.name) == by_path.end()) report_.unexpected.push_back(tensor.name);
    }
    for (const TensorPlace& place : places_) {
      const auto found = given_.find(place.path);
      if (found != given_.end()) TENON_TRY(plan(place, *found->second));
    }
    find_missing();
    return Status::ok();
  }

  // INVALID_ARGUMENT if tensors are missing or unexpected and the options do not allow it.
  Status judge(const LoadOptions& options, const std::string& class_name) const {
    const bool misses = !report_.missing.empty() && !options.allow_missing;
    const bool exceeds = !report_.unexpected.empty() && !options.allow_unexpected;
    if (!misses && !exceeds) return Status::ok();
    std::string message = "the tensors do not fit " + class_name + ":";
    if (misses) message += " missing " + listed(report_.missing) + (exceeds ? ";" : "");
    if (exceeds) message += " unexpected " + listed(report_.unexpected);
    return Status(Code::kInvalidArgument, std::move(message))
        .with("missing", static_cast<uint64_t>(report_.missing.size()))
        .with("unexpected", static_cast<uint64_t>(report_.unexpected.size()));
  }

  Status collect(const ValueRef& root, CodeSet* around) {
    return replacement_.collect(root, around);
  }

  void apply() {
    replacement_.apply();
    for (auto& [place, value] : alone_)
      place->object->attributes().replace_at(place->index, std::move(value));
  }

  const LoadReport& report() const noexcept { return report_; }

 private:
  // A tensor that several places may hold, with the replacement that was given for one of them.
  struct Shared {
    const TensorPlace* place = nullptr;
    const NamedTensor* tensor = nullptr;
  };

  static const void* key_of(const TensorPlace& place) {
    const TensorValue& tensor = *place.held->as_tensor();
    return tensor.storage() ? tensor.storage()->key().object : static_cast<const void*>(&tensor);
  }

  const Shared* find_shared(const TensorPlace& place) const {
    const auto [begin, end] = shared_.equal_range(key_of(place));
    const auto found = std::find_if(begin, end, [&](const auto& entry) {
      return is_same_tensor(*entry.second.place->held, *place.held);
    });
    return found == end ? nullptr : &found->second;
  }

  Status plan(const TensorPlace& place, const NamedTensor& tensor) {
    TENON_TRY(place.code->check_may_change());
    value::CheckOptions check;
    check.classes = place.code;
    TENON_TRY(value::check_value(*tensor.value, *place.type, place.path, check));
    TENON_TRY(check_state_tensor(*place.object, *place.held, *tensor.value, place.path));
    if (!place.held->is(ValueKind::kTensor) || !tensor.value->is(ValueKind::kTensor)) {
      alone_.emplace_back(&place, tensor.value);
      return Status::ok();
    }
    if (const Shared* const shared = find_shared(place)) {
      if (equal_content(*shared->tensor->value, *tensor.value)) return Status::ok();
      return Status(Code::kInvalidArgument,
                    format("\"%.200s\" and \"%.200s\" are one tensor here, and two are given",
                           shared->place->path.c_str(), place.path.c_str()));
    }
    shared_.emplace(key_of(place), Shared{&place, &tensor});
    ValueRef value = tensor.value;
    TENON_ASSIGN(const bool is_parameter, is_parameter_at(place));
    if (is_parameter) {
      TENON_ASSIGN(value, with_gradient_of(*place.held, std::move(value)));
      // A tensor that is given for two parameters stays one tensor.
      if (value.get() != tensor.value.get())
        value = with_gradient_.try_emplace(tensor.value.get(), value).first->second;
    }
    replacement_.add(place.held, std::move(value));
    return Status::ok();
  }

  static Result<bool> is_parameter_at(const TensorPlace& place) {
    if (place.in_state()) return false;
    const ObjectClass own = class_of(*place.object, place.code);
    TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
    const size_t field = found.body->find_field(place.object->attributes().all()[place.index].name);
    return field != SIZE_MAX && found.body->fields[field].kind == FieldKind::kParameter;
  }

  // A tensor that was given under another of its paths is not missing. A state may stay as it is.
  void find_missing() {
    for (const TensorPlace& place : places_) {
      if (place.in_state() || given_.find(place.path) != given_.end() ||
          !place.held->is(ValueKind::kTensor))
        continue;
      if (find_shared(place) == nullptr) report_.missing.push_back(place.path);
    }
  }

  std::vector<TensorPlace> places_;
  std::map<std::string_view, const NamedTensor*> given_;
  std::multimap<const void*, Shared> shared_;
  Replacement replacement_;
  std::map<const Value*, ValueRef> with_gradient_;  // by the tensor that was given
  std::vector<std::pair<const TensorPlace*, ValueRef>> alone_;
  LoadReport report_;
};

}  // namespace

Status Module::load(std::span<const NamedTensor> tensors, const LoadOptions& options,
                    LoadReport* report) {
  TENON_ASSIGN(std::vector<TensorPlace> places, tensor_places(object_, code_.get()));
  Loader loader(std::move(places));
  TENON_TRY(loader.take(tensors));
  const Status judged = loader.judge(options, class_name());
  if (report != nullptr) *report = loader.report();
  TENON_TRY(judged);
  TENON_TRY(loader.collect(object_, code_.get()));
  if (!options.check_only) loader.apply();
  return Status::ok();
}

}  // namespace tenon::module
