#include "modules/module/tensor_places.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "modules/value/path.h"

namespace tenon::module {

using value::Type;
using value::Value;
using value::ValueKind;

namespace {

// A tree with shared submodules has more paths than modules: up to 2^d at depth d.
constexpr size_t kMaxPaths = 1'000'000;
// The total size of all paths, those of modules included.
constexpr size_t kMaxPathsNbytes = size_t{128} << 20;
constexpr size_t kMaxStateDepth = 1024;

class PlaceFinder {
 public:
  Status run(const ValueRef& root, CodeSet* around) {
    steps_.push_back({root, around, {}});
    while (!steps_.empty()) {
      const ObjectVisit step = std::move(steps_.back());
      steps_.pop_back();
      TENON_TRY(count_path());
      TENON_TRY(step.object->is_opaque() ? add_state(step.object, step.around, step.path, 0)
                                         : add_attributes(step));
    }
    return Status::ok();
  }

  std::vector<TensorPlace>& places() noexcept { return places_; }
  std::vector<std::string>& states() noexcept { return states_; }

 private:
  struct ObjectVisit {
    ValueRef object;
    CodeSet* around = nullptr;
    std::string path;
  };

  Status count_path() {
    if (++n_paths_ <= kMaxPaths) return Status::ok();
    return Status(Code::kResourceExhausted, format("the tree has more than %zu paths", kMaxPaths))
        .with("limit", "paths");
  }

  Status check_nbytes() const {
    if (paths_nbytes_ <= kMaxPathsNbytes) return Status::ok();
    return Status(Code::kResourceExhausted,
                  format("the paths of the tree's tensors and submodules have more than %zu bytes: "
                         "its submodules are shared so that "
                         "each has very many paths; look at one submodule at a time",
                         kMaxPathsNbytes))
        .with("limit", "paths_nbytes");
  }

  std::string path_of(std::string_view prefix, std::string_view name) {
    std::string path(prefix);
    if (!path.empty() && !name.starts_with('[')) path += '.';
    path += name;
    paths_nbytes_ += path.size();
    return path;
  }

  Status add_attributes(const ObjectVisit& step) {
    const ObjectClass own = class_of(*step.object, step.around);
    TENON_ASSIGN(const CodeSet::FoundClass found, own.code->find_class(own.name));
    const value::Attributes& attributes = step.object->attributes();
    const size_t first = steps_.size();
    for (size_t i = 0; i < found.body->fields.size(); ++i) {
      const FieldDecl& field = found.body->fields[i];
      const size_t index = attributes.index_of(field.name, i);
      if (index == attributes.size()) continue;
      TENON_TRY(check_nbytes());
      const ValueRef& held = attributes.all()[index].value;
      if (field.kind == FieldKind::kParameter || field.kind == FieldKind::kBuffer) {
        TENON_TRY(count_path());
        places_.push_back(
            {path_of(step.path, field.name), step.object, index, own.code, field.type, held});
      } else if (is_module_object(*held, own.code)) {
        steps_.push_back({held, own.code, path_of(step.path, field.name)});
      } else if (held->is(ValueKind::kObject) && held->is_opaque()) {
        TENON_TRY(add_state(held, own.code, path_of(step.path, field.name), 0));
      }
    }
    std::reverse(steps_.begin() + static_cast<ptrdiff_t>(first), steps_.end());
    return Status::ok();
  }

  Status add_state(const ValueRef& object, CodeSet* around, const std::string& path, size_t depth) {
    std::string state = path_of(path, "state");
    TENON_TRY(add_tensors(object->state(), object, class_of(*object, around).code, state, depth));
    states_.push_back(std::move(state));
    return Status::ok();
  }

  // Adds the tensors of `value`, which is in the state of `object`.
  Status add_tensors(const ValueRef& value, const ValueRef& object, CodeSet* code,
                     const std::string& path, size_t depth) {
    if (depth > kMaxStateDepth)
      return Status(Code::kInvalidArgument,
                    format("a state is nested deeper than %zu", kMaxStateDepth));
    TENON_TRY(count_path());
    TENON_TRY(check_nbytes());
    switch (value->kind()) {
      case ValueKind::kTensor:
        places_.push_back({path, object, SIZE_MAX, code, Type::tensor(), value});
        return Status::ok();
      case ValueKind::kObject:
        return value->is_opaque() ? add_state(value, code, path, depth + 1) : Status::ok();
      case ValueKind::kTuple:
      case ValueKind::kList:
      case ValueKind::kDict: break;
      default: return Status::ok();
    }
    const bool is_dict = value->is(ValueKind::kDict);
    for (size_t i = is_dict ? 1 : 0; i < value->child_count(); i += is_dict ? 2 : 1) {
      Value& child = value->child(i);
      if (!value::has_identity(child.kind())) continue;
      TENON_TRY(add_tensors(ValueRef::share(&child), object, code,
                            path_of(path, value::step_text(*value, i)), depth + 1));
    }
    return Status::ok();
  }

  std::vector<ObjectVisit> steps_;
  std::vector<TensorPlace> places_;
  std::vector<std::string> states_;
  size_t n_paths_ = 0;
  size_t paths_nbytes_ = 0;
};

}  // namespace

Result<std::vector<TensorPlace>> tensor_places(const ValueRef& root, CodeSet* around) {
  PlaceFinder finder;
  TENON_TRY(finder.run(root, around));
  return std::move(finder.places());
}

Result<std::vector<std::string>> state_paths(const ValueRef& root, CodeSet* around) {
  PlaceFinder finder;
  TENON_TRY(finder.run(root, around));
  return std::move(finder.states());
}

}  // namespace tenon::module
