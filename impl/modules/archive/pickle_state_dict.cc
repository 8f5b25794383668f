#include "modules/archive/pickle_state_dict.h"

#include <algorithm>
#include <map>
#include <utility>

#include "modules/archive/pickle_tensors.h"
#include "tensor/name.h"

namespace tenon::archive {
namespace {

class StateDictReader {
 public:
  StateDictReader(const pickle::PickleTree& tree, const StateDictOptions& options)
      : tree_(tree),
        options_(options),
        tensors_(tree, {.find_storage = options.find_storage,
                        .any_device = options.any_device,
                        .general = !options.is_module}),
        open_(tree.count()) {}
  Result<StateDict> run();

 private:
  // How the children of a container are named.
  enum class Form : uint8_t {
    kNone,   // the node is no container
    kItems,  // by their numbers
    kKeyed,  // children are key, value, key, value, …
    kPairs,  // children are lists or tuples of a key and a value
    kState,  // one child, the state of an object
  };
  struct Frame {
    pickle::NodeId node = pickle::kNoNode;
    Form form = Form::kNone;
    size_t next = 0;
    size_t name_nbytes = 0;  // the size of this node's own name, at the start of name_
    std::span<const pickle::NodeId> children;
  };

  Frame frame_of(pickle::NodeId id) const;
  Frame frame_of_call(pickle::NodeId id) const;
  Frame frame_of_object(pickle::NodeId id) const;
  Status enter(const Frame& frame);
  Status visit_next(Frame& frame);
  Status visit(pickle::NodeId id);
  Status add_tensor(pickle::NodeId id);
  Status add_key(pickle::NodeId key, size_t name_nbytes);
  Status count_name(pickle::NodeId id, size_t nbytes);
  Status over_limit(pickle::NodeId id, const char* limit) const;
  Status add_leaf(pickle::NodeId id);
  Status skip(pickle::NodeId id, std::string what);
  value::ValueRef value_of(pickle::NodeId id);
  value::ValueRef value_of_call(pickle::NodeId id) const;
  Status check_names();

  const pickle::PickleTree& tree_;
  const StateDictOptions& options_;
  PickledTensors tensors_;
  StateDict out_;
  std::vector<pickle::NodeId> nodes_;  // the node of each entry of out_.tensors
  std::map<pickle::NodeId, value::TensorValueRef> known_;
  // A text that has many names is one value, or a short pickle could ask for many copies.
  std::map<pickle::NodeId, value::ValueRef> texts_;
  std::vector<bool> open_;
  std::vector<Frame> stack_;
  std::string name_;  // the name of the node that is being visited
  uint64_t names_nbytes_ = 0;
  uint64_t visits_ = 0;
};

StateDictReader::Frame StateDictReader::frame_of(pickle::NodeId id) const {
  Frame frame;
  frame.node = id;
  switch (tree_.kind(id)) {
    case pickle::NodeKind::kDict: frame.form = Form::kKeyed; break;
    case pickle::NodeKind::kList:
    case pickle::NodeKind::kTuple: frame.form = Form::kItems; break;
    case pickle::NodeKind::kReduce: return frame_of_call(id);
    case pickle::NodeKind::kNew: return frame_of_object(id);
    default: return frame;
  }
  frame.children = tree_.children(id);
  return frame;
}

// The calls that make containers of Python or of TorchScript.
StateDictReader::Frame StateDictReader::frame_of_call(pickle::NodeId id) const {
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  Frame frame;
  if (pickle::is_call_of(tree_, id, "collections", "OrderedDict") && !arguments.empty()) {
    // Python 2 gives the entries as an argument.
    if (arguments.size() == 1 && tree_.kind(arguments[0]) == pickle::NodeKind::kList) {
      frame.form = Form::kPairs;
      frame.children = tree_.children(arguments[0]);
    }
  } else if (pickle::is_call_of(tree_, id, "collections", "OrderedDict") ||
             pickle::is_call_of(tree_, id, "collections", "defaultdict")) {
    // The state of an OrderedDict is _metadata: versions of Python classes, which no caller needs.
    frame.children = tree_.call(id).items;
    frame.form = Form::kKeyed;
  } else if (!arguments.empty() &&
             (pickle::is_call_of(tree_, id, "torch", "Size") ||
              (options_.is_module && tree_.module(tree_.callable(id)) == kTypedListModule))) {
    // A call in a call would recurse, so a file could exhaust the stack.
    if (tree_.kind(arguments[0]) != pickle::NodeKind::kReduce) frame = frame_of(arguments[0]);
  }
  frame.node = id;
  return frame;
}

// The objects of a module archive have a dict of attributes, or another state.
StateDictReader::Frame StateDictReader::frame_of_object(pickle::NodeId id) const {
  Frame frame;
  frame.node = id;
  if (!options_.is_module || !tree_.is_long_call(id) || tree_.state(id) == pickle::kNoNode)
    return frame;
  const bool has_attributes = tree_.kind(tree_.state(id)) == pickle::NodeKind::kDict &&
                              !is_custom_module(tree_.module(tree_.callable(id)));
  frame.form = has_attributes ? Form::kKeyed : Form::kState;
  frame.children = has_attributes ? tree_.children(tree_.state(id))
                                  : std::span<const pickle::NodeId>(&tree_.state(id), 1);
  return frame;
}

Result<StateDict> StateDictReader::run() {
  const pickle::NodeId root = tree_.root();
  if (tensors_.is_tensor(root)) {
    TENON_TRY(add_tensor(root));
    TENON_TRY(out_.tensors.back().why);
    return std::move(out_);
  }
  const Frame whole = frame_of(root);
  if (whole.form == Form::kNone) {
    return tree_.error(
        Code::kUnsupported, root,
        format("%s is no state dict: save module.state_dict(), or a dict, list or tuple of tensors",
               tree_.describe(root).c_str()));
  }
  TENON_TRY(enter(whole));
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    name_.resize(frame.name_nbytes);
    if (frame.next >= frame.children.size()) {
      open_[frame.node] = false;
      stack_.pop_back();
    } else {
      TENON_TRY(visit_next(frame));  // `frame` may dangle from here on
    }
  }
  TENON_TRY(check_names());
  return std::move(out_);
}

Status StateDictReader::visit_next(Frame& frame) {
  const size_t at = frame.next;
  const size_t name_nbytes = frame.name_nbytes;
  const std::span<const pickle::NodeId> children = frame.children;
  frame.next += frame.form == Form::kKeyed ? 2 : 1;
  if (!name_.empty()) name_ += '.';
  switch (frame.form) {
    case Form::kKeyed:
      TENON_TRY(add_key(children[at], name_nbytes));
      return visit(children[at + 1]);
    case Form::kState: name_ += "state"; return visit(children[at]);
    case Form::kPairs: {
      const Frame pair = frame_of(children[at]);
      if (pair.form == Form::kItems && pair.children.size() == 2) {
        TENON_TRY(add_key(pair.children[0], name_nbytes));
        return visit(pair.children[1]);
      }
      [[fallthrough]];
    }
    default: name_ += std::to_string(at); return visit(children[at]);
  }
}

Status StateDictReader::visit(pickle::NodeId id) {
  // A shared node is walked once for each of its names, and a short pickle can give a node many
  // names. So visits are counted.
  if (++visits_ > options_.limits.max_nodes) return over_limit(id, "max_nodes");
  if (tensors_.is_tensor(id)) return add_tensor(id);
  const Frame frame = frame_of(id);
  if (frame.form == Form::kNone) return add_leaf(id);
  if (open_[id]) return skip(id, tree_.describe(id) + " that contains itself");
  return enter(frame);
}

Status StateDictReader::enter(const Frame& frame) {
  if (stack_.size() >= options_.limits.max_depth) return over_limit(frame.node, "max_depth");
  open_[frame.node] = true;
  stack_.push_back(frame);
  stack_.back().name_nbytes = name_.size();
  return Status::ok();
}

Status StateDictReader::add_key(pickle::NodeId key, size_t name_nbytes) {
  const bool is_str = tree_.kind(key) == pickle::NodeKind::kStr;
  if (is_str && tree_.text(key).size() > options_.limits.max_name_nbytes)
    return over_limit(key, "max_name_nbytes");
  name_ += is_str ? tree_.text(key) : tree_.describe(key);
  return count_name(key, name_.size() - name_nbytes);
}

Status StateDictReader::count_name(pickle::NodeId id, size_t nbytes) {
  names_nbytes_ += nbytes;
  return names_nbytes_ > options_.limits.max_names_nbytes ? over_limit(id, "max_names_nbytes")
                                                          : Status::ok();
}

Status StateDictReader::over_limit(pickle::NodeId id, const char* limit) const {
  return tree_
      .error(Code::kResourceExhausted, id, format("the state dict exceeds the limit %s", limit))
      .with("limit", limit);
}

Status StateDictReader::add_tensor(pickle::NodeId id) {
  TENON_TRY(count_name(id, name_.size()));
  NamedTensor named;
  named.name = name_;
  named.is_parameter = tensors_.is_parameter(id);
  const auto known = known_.find(id);
  if (known != known_.end()) {
    named.tensor = known->second;
  } else {
    Result<value::TensorValueRef> read = tensors_.read(id);
    if (read.is_ok()) {
      named.tensor = std::move(read).value();
      known_.emplace(id, named.tensor);
    } else if (read.status().code() == Code::kUnsupported) {
      named.why = read.status();
      TENON_TRY(count_name(id, named.why.message().size()));
    } else {
      return read.status();
    }
  }
  out_.tensors.push_back(std::move(named));
  nodes_.push_back(id);
  return Status::ok();
}

// Returns null for a node that is no value.
value::ValueRef StateDictReader::value_of(pickle::NodeId id) {
  switch (tree_.kind(id)) {
    case pickle::NodeKind::kNone: return value::Value::none();
    case pickle::NodeKind::kBool: return value::Value::of_bool(tree_.boolean(id));
    case pickle::NodeKind::kInt: return value::Value::of_int(tree_.integer(id));
    case pickle::NodeKind::kFloat: return value::Value::of_float(tree_.real(id));
    case pickle::NodeKind::kReduce: return value_of_call(id);
    case pickle::NodeKind::kStr: break;
    default: return nullptr;
  }
  if (!tensor::is_utf8(tree_.text(id))) return nullptr;
  value::ValueRef& known = texts_[id];
  if (!known) known = value::Value::of_str(std::string(tree_.text(id)));
  return known;
}

value::ValueRef StateDictReader::value_of_call(pickle::NodeId id) const {
  const std::span<const pickle::NodeId> arguments = pickle::call_arguments(tree_, id);
  const auto is_all = [&](size_t count, pickle::NodeKind kind) {
    return arguments.size() == count && std::ranges::all_of(arguments, [&](pickle::NodeId each) {
             return tree_.kind(each) == kind;
           });
  };
  const std::string_view module = tree_.module(tree_.callable(id));
  const std::string_view name = tree_.name(tree_.callable(id));
  if (name == "complex" && (module == "builtins" || module == "__builtin__") &&
      is_all(2, pickle::NodeKind::kFloat))
    return value::Value::of_complex({tree_.real(arguments[0]), tree_.real(arguments[1])});
  if (name == "device" && module == "torch" && is_all(1, pickle::NodeKind::kStr) &&
      value::is_device_name(tree_.text(arguments[0])))
    return value::Value::of_device(std::string(tree_.text(arguments[0])));
  return nullptr;
}

Status StateDictReader::add_leaf(pickle::NodeId id) {
  StateDictLeaf leaf;
  leaf.value = value_of(id);
  if (!leaf.value) return skip(id, tree_.describe(id));
  leaf.name = name_;
  TENON_TRY(count_name(id, name_.size()));
  out_.leaves.push_back(std::move(leaf));
  return Status::ok();
}

Status StateDictReader::skip(pickle::NodeId id, std::string what) {
  TENON_TRY(count_name(id, name_.size() + what.size()));
  out_.leaves.push_back({name_, nullptr, std::move(what)});
  return Status::ok();
}

// Refuses two tensors of one name, as in {"a.b": x, "a": {"b": y}}.
Status StateDictReader::check_names() {
  std::vector<size_t> order(out_.tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return out_.tensors[a].name < out_.tensors[b].name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (out_.tensors[order[i - 1]].name != out_.tensors[order[i]].name) continue;
    return tree_.error(Code::kUnsupported, nodes_[order[i]],
                       format("two tensors have the name %s", out_.tensors[order[i]].name.c_str()));
  }
  return Status::ok();
}

}  // namespace

Result<StateDict> pickle_state_dict(const pickle::PickleTree& tree,
                                    const StateDictOptions& options) {
  return StateDictReader(tree, options).run();
}

}  // namespace tenon::archive
