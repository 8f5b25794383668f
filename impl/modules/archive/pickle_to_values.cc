#include "modules/archive/pickle_to_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "modules/archive/pickle_values.h"
#include "modules/value/dict_key.h"

namespace tenon::archive {
namespace {

using value::Value;
using value::ValueKind;
using value::ValueRef;

constexpr std::string_view kCustomClasses = "__torch__.torch.classes";

// Modules whose names have a special meaning to PyTorch. No class of an archive is in one of them.
bool is_reserved_module(std::string_view module) {
  static constexpr std::string_view kReserved[] = {
      "torch",    "torch._utils", "torch._tensor", "torch.jit._pickle", "torch.serialization",
      "builtins", "__builtin__",  "collections",   "copyreg",           "copy_reg"};
  return std::ranges::find(kReserved, module) != std::end(kReserved);
}

// The kind that the items of a list must have, for the lists that PyTorch writes in a special form.
// PyTorch refuses items of other kinds, too.
std::optional<ValueKind> item_kind(const value::TypeRef& list) {
  if (!list) return std::nullopt;
  switch (list->element()->kind()) {
    case value::TypeKind::kInt: return ValueKind::kInt;
    case value::TypeKind::kFloat: return ValueKind::kFloat;
    case value::TypeKind::kBool: return ValueKind::kBool;
    case value::TypeKind::kTensor: return ValueKind::kTensor;
    default: return std::nullopt;
  }
}

}  // namespace

bool is_custom_module(std::string_view module) noexcept {
  return module.starts_with(kCustomClasses) &&
         (module.size() == kCustomClasses.size() || module[kCustomClasses.size()] == '.');
}

Result<UnpickledValue> pickle_to_values(const pickle::PickleTree& tree,
                                        const ToValuesOptions& options) {
  return PickledValues(tree, options).run();
}

PickledValues::PickledValues(const pickle::PickleTree& tree, const ToValuesOptions& options)
    : tree_(tree), options_(options), tensors_(tree, {.find_storage = options.find_storage}) {
  places_.resize(tree.count());
  claimed_.resize(tree.count());
}

Result<UnpickledValue> PickledValues::run() {
  std::vector<Frame> stack;
  TENON_ASSIGN(Frame first, enter(tree_.root()));
  stack.push_back(std::move(first));
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next >= frame.children.size()) {
      TENON_TRY(leave(frame));
      stack.pop_back();
      continue;
    }
    const pickle::NodeId child = frame.children[frame.next];
    if (places_[child] == kOpen)
      return tree_.error(Code::kCorrupt, child, tree_.describe(child) + " contains itself");
    if (places_[child] == 0) {
      // The open nodes are a chain, so the limit on depth can be checked already on the way down.
      if (stack.size() >= options_.limits.max_depth)
        return over_limit(child, "max_depth", options_.limits.max_depth);
      if (!is_leaf(child)) {
        TENON_ASSIGN(Frame below, enter(child));
        stack.push_back(std::move(below));  // `frame` may dangle from here on
        continue;
      }
      TENON_TRY(keep(child, 0, make_leaf(child)));
    }
    frame.height = std::max(frame.height, made_[places_[child] - 1].height);
    frame.next += frame.step;
  }
  UnpickledValue out;
  out.root = value_of(tree_.root());
  for (pickle::NodeId id = 0; options_.memoised && id < tree_.count(); ++id) {
    if (has_value(id) && tree_.memoised(id) && value::has_identity(value_of(id)->kind()))
      out.memoised.push_back(value_of(id));
  }
  return out;
}

Status PickledValues::placed(pickle::NodeId id, const Status& status) const {
  const Code code = status.code() == Code::kInvalidArgument ? Code::kCorrupt : status.code();
  return tree_.error(code, id, status.message()).caused_by(status);
}

// Marks a container as part of another node's value, like the list in the arguments of
// build_intlist. A container can be taken only once. A second time would make a second copy, and a
// short pickle could ask for many copies of a long list.
Status PickledValues::claim(pickle::NodeId id) {
  if (claimed_[id] || has_value(id))
    return tree_.error(Code::kCorrupt, id, tree_.describe(id) + " is taken for two things");
  claimed_[id] = true;
  return Status::ok();
}

bool PickledValues::is_leaf(pickle::NodeId id) const noexcept {
  switch (tree_.kind(id)) {
    case pickle::NodeKind::kTuple:
    case pickle::NodeKind::kList:
    case pickle::NodeKind::kDict:
    case pickle::NodeKind::kNew: return false;
    case pickle::NodeKind::kReduce: return !tree_.is_long_call(id) && tensors_.is_tensor(id);
    default: return true;
  }
}

Result<PickledValues::Frame> PickledValues::enter(pickle::NodeId id) {
  places_[id] = kOpen;
  Frame frame;
  frame.node = id;
  switch (tree_.kind(id)) {
    case pickle::NodeKind::kTuple:
      frame.role = Role::kTuple;
      frame.children = tree_.children(id);
      return frame;
    case pickle::NodeKind::kList:
    case pickle::NodeKind::kDict:
      TENON_TRY(claim(id));
      frame.role = tree_.kind(id) == pickle::NodeKind::kList ? Role::kList : Role::kDict;
      frame.children = tree_.children(id);
      return frame;
    case pickle::NodeKind::kReduce: return enter_call(id);
    case pickle::NodeKind::kNew: return enter_object(id);
    default: return frame;
  }
}

Result<PickledValues::Frame> PickledValues::enter_call(pickle::NodeId id) {
  Frame frame;
  frame.node = id;
  const pickle::PickledCall call = tree_.call(id);
  if (call.state != pickle::kNoNode || !call.items.empty() || !call.elements.empty()) {
    return tree_.error(
        Code::kCorrupt, id,
        tree_.describe(id) + " has a state or items, and no value of a module archive has");
  }
  const std::string_view module = tree_.module(call.callable);
  const std::string_view name = tree_.name(call.callable);
  if (module == kTypedListModule) {
    if (name == "build_intlist") return enter_typed_list(id, value::Type::integer());
    if (name == "build_doublelist") return enter_typed_list(id, value::Type::floating());
    if (name == "build_boollist") return enter_typed_list(id, value::Type::boolean());
    if (name == "build_tensorlist") return enter_typed_list(id, value::Type::tensor());
    if (name == "restore_type_tag") return enter_tagged(id);
  }
  if (is_reserved_module(module)) return frame;  // a leaf, or make_leaf() refuses it
  frame.role = Role::kEnum;
  frame.children = {&tree_.args(id), 1};
  return frame;
}

// build_intlist and similar functions take one bare list.
Result<PickledValues::Frame> PickledValues::enter_typed_list(pickle::NodeId id,
                                                             const value::TypeRef& element) {
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  if (arguments.size() != 1 || tree_.kind(arguments[0]) != pickle::NodeKind::kList) {
    return tree_.error(Code::kCorrupt, id, tree_.describe(id) + " is not given one list");
  }
  TENON_TRY(claim(arguments[0]));
  Frame frame;
  frame.node = id;
  frame.role = Role::kList;
  frame.children = tree_.children(arguments[0]);
  TENON_ASSIGN(frame.type, value::Type::list(element));
  return frame;
}

// restore_type_tag takes a bare list or dict, and the text of its type.
Result<PickledValues::Frame> PickledValues::enter_tagged(pickle::NodeId id) {
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  if (arguments.size() != 2 || tree_.kind(arguments[1]) != pickle::NodeKind::kStr) {
    return tree_.error(Code::kCorrupt, id, tree_.describe(id) + " is not given a value and a type");
  }
  const pickle::NodeId inner = arguments[0];
  const bool is_list = tree_.kind(inner) == pickle::NodeKind::kList;
  if (!is_list && tree_.kind(inner) != pickle::NodeKind::kDict) {
    return tree_.error(
        Code::kCorrupt, id,
        format("a type tag on %s, expected a list or a dict", tree_.describe(inner).c_str()));
  }
  TENON_TRY(claim(inner));
  Frame frame;
  frame.node = id;
  frame.role = is_list ? Role::kList : Role::kDict;
  frame.children = tree_.children(inner);
  TENON_ASSIGN(frame.type, type_of_text(arguments[1]));
  if (frame.type->kind() != (is_list ? value::TypeKind::kList : value::TypeKind::kDict)) {
    return tree_.error(Code::kCorrupt, arguments[1],
                       format("the type tag %s on a %s", tree_.describe(arguments[1]).c_str(),
                              is_list ? "list" : "dict"));
  }
  return frame;
}

Result<PickledValues::Frame> PickledValues::enter_object(pickle::NodeId id) {
  const pickle::PickledCall call = tree_.call(id);
  const std::string_view module = tree_.module(call.callable);
  if (is_reserved_module(module)) {
    return tree_.error(Code::kUnsupported, id,
                       format("%s is not known", tree_.describe(call.callable).c_str()));
  }
  if (call.keyword_args != pickle::kNoNode || !pickle::call_arguments(tree_, id).empty() ||
      !call.items.empty() || !call.elements.empty()) {
    return tree_.error(Code::kCorrupt, id, tree_.describe(id) + " is made of more than a state");
  }
  if (call.state == pickle::kNoNode)
    return tree_.error(Code::kCorrupt, id, tree_.describe(id) + " has no state");
  Frame frame;
  frame.node = id;
  if (tree_.kind(call.state) != pickle::NodeKind::kDict || is_custom_module(module)) {
    frame.role = Role::kOpaque;
    frame.children = {&tree_.state(id), 1};
    return frame;
  }
  TENON_TRY(claim(call.state));
  frame.role = Role::kObject;
  frame.children = tree_.children(call.state);
  frame.next = 1;
  frame.step = 2;
  return frame;
}

Status PickledValues::leave(Frame& frame) {
  if (frame.height >= options_.limits.max_depth)
    return over_limit(frame.node, "max_depth", options_.limits.max_depth);
  return keep(frame.node, frame.height, make(frame));
}

Status PickledValues::keep(pickle::NodeId id, uint32_t height, Result<ValueRef> made) {
  if (!made.is_ok())
    return made.status().code() == Code::kInvalidArgument ? placed(id, made.status())
                                                          : made.status();
  made_.push_back({std::move(made).value(), height + 1});
  places_[id] = static_cast<uint32_t>(made_.size());
  return Status::ok();
}

Result<ValueRef> PickledValues::make(Frame& frame) {
  switch (frame.role) {
    case Role::kLeaf: return make_leaf(frame.node);
    case Role::kTuple:
    case Role::kList: {
      std::vector<ValueRef> items;
      items.reserve(frame.children.size());
      const std::optional<ValueKind> wanted = item_kind(frame.type);
      for (const pickle::NodeId child : frame.children) {
        const ValueRef& item = value_of(child);
        if (wanted && !item->is(*wanted)) {
          return tree_.error(Code::kCorrupt, child,
                             format("a %s holds a %s", frame.type->print().c_str(),
                                    value::value_kind_name(item->kind())));
        }
        items.push_back(item);
      }
      return frame.role == Role::kTuple ? Value::tuple(std::move(items))
                                        : Value::list(std::move(frame.type), std::move(items));
    }
    case Role::kDict: {
      std::vector<value::DictEntry> entries;
      entries.reserve(frame.children.size() / 2);
      for (size_t i = 0; i + 1 < frame.children.size(); i += 2) {
        entries.push_back({value_of(frame.children[i]), value_of(frame.children[i + 1])});
      }
      TENON_TRY(count_names(frame.node, value::keys_nbytes(entries)));
      return Value::dict(std::move(frame.type), std::move(entries));
    }
    case Role::kEnum: {
      const ValueRef& inner = value_of(tree_.args(frame.node));
      if (!inner->is(ValueKind::kInt) && !inner->is(ValueKind::kFloat) &&
          !inner->is(ValueKind::kStr)) {
        return tree_.error(
            Code::kCorrupt, frame.node,
            format("%s with a %s: an enum has an int, a float or a str",
                   tree_.describe(frame.node).c_str(), value::value_kind_name(inner->kind())));
      }
      TENON_ASSIGN(std::string name, class_name(tree_.callable(frame.node)));
      return Value::enumeration(std::move(name), inner);
    }
    case Role::kObject:
    case Role::kOpaque: return make_object(frame);
  }
  return tree_.error(Code::kInternal, frame.node, "a node without a role");
}

Result<ValueRef> PickledValues::make_object(Frame& frame) {
  TENON_ASSIGN(std::string name, class_name(tree_.callable(frame.node)));
  if (frame.role == Role::kOpaque)
    return Value::object_with_state(std::move(name), value_of(frame.children[0]));
  std::vector<value::Attribute> attributes;
  attributes.reserve(frame.children.size() / 2);
  for (size_t i = 0; i + 1 < frame.children.size(); i += 2) {
    const pickle::NodeId key = frame.children[i];
    if (tree_.kind(key) != pickle::NodeKind::kStr) {
      return tree_.error(
          Code::kCorrupt, key,
          format("an attribute has the name %s, expected a str", tree_.describe(key).c_str()));
    }
    if (tree_.text(key).size() > options_.limits.max_name_nbytes)
      return over_limit(key, "max_name_nbytes", options_.limits.max_name_nbytes);
    TENON_ASSIGN(std::string attribute, copy_name(key, tree_.text(key)));
    attributes.push_back({std::move(attribute), value_of(frame.children[i + 1])});
  }
  return Value::object(std::move(name), std::move(attributes));
}

Result<ValueRef> PickledValues::make_leaf(pickle::NodeId id) {
  switch (tree_.kind(id)) {
    case pickle::NodeKind::kNone:
      if (!none_) none_ = Value::none();
      return none_;
    case pickle::NodeKind::kBool: {
      ValueRef& known = bools_[tree_.boolean(id) ? 1 : 0];
      if (!known) known = Value::of_bool(tree_.boolean(id));
      return known;
    }
    case pickle::NodeKind::kInt: return Value::of_int(tree_.integer(id));
    case pickle::NodeKind::kFloat: return Value::of_float(tree_.real(id));
    case pickle::NodeKind::kStr: return Value::of_str(std::string(tree_.text(id)));
    case pickle::NodeKind::kReduce: {
      if (tensors_.is_tensor(id)) {
        TENON_ASSIGN(value::TensorValueRef tensor, tensors_.read(id));
        return Value::of_tensor(std::move(tensor));
      }
      if (pickle::is_call_of(tree_, id, "torch", "device")) return make_device(id);
      if (pickle::is_call_of(tree_, id, "builtins", "complex") ||
          pickle::is_call_of(tree_, id, "__builtin__", "complex"))
        return make_complex(id);
      return tree_.error(Code::kUnsupported, id,
                         format("%s is not known", tree_.describe(tree_.callable(id)).c_str()));
    }
    case pickle::NodeKind::kGlobal:
      return tree_.error(Code::kUnsupported, id,
                         format("%s stands where a value is wanted", tree_.describe(id).c_str()));
    default:
      return tree_.error(Code::kCorrupt, id,
                         format("%s stands where a value is wanted", tree_.describe(id).c_str()));
  }
}

Result<ValueRef> PickledValues::make_complex(pickle::NodeId id) {
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  if (arguments.size() != 2 || tree_.kind(arguments[0]) != pickle::NodeKind::kFloat ||
      tree_.kind(arguments[1]) != pickle::NodeKind::kFloat) {
    return tree_.error(Code::kCorrupt, id, "a complex is not given two floats");
  }
  return Value::of_complex({tree_.real(arguments[0]), tree_.real(arguments[1])});
}

Result<ValueRef> PickledValues::make_device(pickle::NodeId id) {
  constexpr size_t kMaxDevicePlaceNbytes = 64;
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  if (arguments.size() != 1 || tree_.kind(arguments[0]) != pickle::NodeKind::kStr ||
      tree_.text(arguments[0]).size() > kMaxDevicePlaceNbytes) {
    return tree_.error(Code::kCorrupt, id, "a device is not given one short name");
  }
  return Value::of_device(std::string(tree_.text(arguments[0])));
}

Result<value::TypeRef> PickledValues::type_of_text(pickle::NodeId text) {
  const auto known = types_.find(text);
  if (known != types_.end()) return known->second;
  Result<value::TypeRef> parsed = value::Type::parse(tree_.text(text));
  if (!parsed.is_ok()) return placed(text, parsed.status());
  types_.emplace(text, parsed.value());
  return parsed;
}

Result<std::string> PickledValues::class_name(pickle::NodeId callable) {
  if (callable != class_node_) {
    class_node_ = pickle::kNoNode;
    class_name_ = tree_.module(callable);
    class_name_ += '.';
    class_name_ += tree_.name(callable);
  }
  TENON_ASSIGN(std::string name, copy_name(callable, class_name_));
  if (callable != class_node_) TENON_TRY(check_class(callable, name));
  class_node_ = callable;
  return name;
}

Status PickledValues::check_class(pickle::NodeId callable, const std::string& name) {
  if (classes_.contains(name)) return Status::ok();
  if (!value::is_qualified_name(name)) {
    return tree_.error(Code::kCorrupt, callable,
                       format("%s is no name of a class", tree_.describe(callable).c_str()));
  }
  if (options_.check_class) {
    if (const Status known = options_.check_class(name); !known.is_ok())
      return placed(callable, known);
  }
  classes_.insert(name);
  return Status::ok();
}

// Copies a name, and counts the copy. Each object has its own copy of its class's name, and each
// attribute of its own name. A pickle contains a name once and can use it many times.
Result<std::string> PickledValues::copy_name(pickle::NodeId node, std::string_view name) {
  TENON_TRY(count_names(node, name.size()));
  return std::string(name);
}

Status PickledValues::count_names(pickle::NodeId node, uint64_t nbytes) {
  names_nbytes_ += nbytes;
  if (names_nbytes_ <= options_.limits.max_names_nbytes) return Status::ok();
  return over_limit(node, "max_names_nbytes", options_.limits.max_names_nbytes);
}

Status PickledValues::over_limit(pickle::NodeId node, const char* limit, uint64_t value) const {
  return tree_
      .error(Code::kResourceExhausted, node,
             format("the values exceed the limit %s: %llu", limit,
                    static_cast<unsigned long long>(value)))
      .with("limit", limit)
      .with("limit_value", value);
}

}  // namespace tenon::archive
