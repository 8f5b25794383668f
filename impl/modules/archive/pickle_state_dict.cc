#include "modules/archive/pickle_state_dict.h"

#include <algorithm>
#include <map>
#include <utility>

#include "modules/archive/pickle_tensors.h"

namespace tenon::archive {
namespace {

class StateDictReader {
 public:
  StateDictReader(const pickle::PickleTree& tree, const StateDictOptions& options)
      : tree_(tree),
        options_(options),
        tensors_(tree, {.find_storage = options.find_storage,
                        .any_device = options.any_device,
                        .general = true}),
        open_(tree.count()) {}
  Result<StateDict> run();

 private:
  struct Frame {
    pickle::NodeId node = pickle::kNoNode;
    bool keyed = false;  // children are key, value, key, value, …
    size_t next = 0;
    size_t name_nbytes = 0;  // the size of this node's own name, at the start of name_
    std::span<const pickle::NodeId> children;
  };

  bool is_container(pickle::NodeId id) const noexcept;
  Status enter(pickle::NodeId id);
  Status visit(pickle::NodeId id);
  Status add_tensor(pickle::NodeId id);
  Status add_name(const Frame& frame);
  Status count_name(pickle::NodeId id, size_t nbytes);
  Status over_limit(pickle::NodeId id, const char* limit) const;
  void add_other(pickle::NodeId id);
  Status check_names();

  const pickle::PickleTree& tree_;
  const StateDictOptions& options_;
  PickledTensors tensors_;
  StateDict out_;
  std::vector<pickle::NodeId> nodes_;  // the node of each entry of out_.tensors
  std::map<pickle::NodeId, value::TensorValueRef> known_;
  std::vector<bool> open_;
  std::vector<Frame> stack_;
  std::string name_;  // the name of the node that is being visited
  uint64_t names_nbytes_ = 0;
  uint64_t visits_ = 0;
};

bool StateDictReader::is_container(pickle::NodeId id) const noexcept {
  const pickle::NodeKind kind = tree_.kind(id);
  return kind == pickle::NodeKind::kDict || kind == pickle::NodeKind::kList ||
         kind == pickle::NodeKind::kTuple ||
         pickle::is_call_of(tree_, id, "collections", "OrderedDict");
}

Result<StateDict> StateDictReader::run() {
  const pickle::NodeId root = tree_.root();
  if (tensors_.is_tensor(root)) {
    TENON_TRY(add_tensor(root));
    return std::move(out_);
  }
  if (!is_container(root)) {
    return tree_.error(
        Code::kUnsupported, root,
        format("%s is no state dict: save module.state_dict(), or a dict, list or tuple of tensors",
               tree_.describe(root).c_str()));
  }
  TENON_TRY(enter(root));
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    name_.resize(frame.name_nbytes);
    if (frame.next >= frame.children.size()) {
      open_[frame.node] = false;
      stack_.pop_back();
      continue;
    }
    TENON_TRY(add_name(frame));
    const pickle::NodeId child = frame.children[frame.keyed ? frame.next + 1 : frame.next];
    frame.next += frame.keyed ? 2 : 1;
    TENON_TRY(visit(child));  // `frame` may dangle from here on
  }
  TENON_TRY(check_names());
  return std::move(out_);
}

Status StateDictReader::visit(pickle::NodeId id) {
  // A shared node is walked once for each of its names, and a short pickle can give a node many
  // names. So visits are counted.
  if (++visits_ > options_.limits.max_nodes) return over_limit(id, "max_nodes");
  if (tensors_.is_tensor(id)) return add_tensor(id);
  if (is_container(id)) return enter(id);
  add_other(id);
  return Status::ok();
}

Status StateDictReader::enter(pickle::NodeId id) {
  if (open_[id])
    return tree_.error(Code::kUnsupported, id, tree_.describe(id) + " contains itself");
  if (stack_.size() >= options_.limits.max_depth) return over_limit(id, "max_depth");
  Frame frame;
  frame.node = id;
  frame.name_nbytes = name_.size();
  if (tree_.kind(id) == pickle::NodeKind::kReduce) {
    if (!pickle::call_arguments(tree_, id).empty()) {
      return tree_.error(Code::kUnsupported, id, "an OrderedDict that is made of arguments");
    }
    // The state is _metadata: versions of Python classes, which Tenon does not need.
    frame.children = tree_.call(id).items;
    frame.keyed = true;
  } else {
    frame.children = tree_.children(id);
    frame.keyed = tree_.kind(id) == pickle::NodeKind::kDict;
  }
  open_[id] = true;
  stack_.push_back(frame);
  return Status::ok();
}

Status StateDictReader::add_name(const Frame& frame) {
  if (!name_.empty()) name_ += '.';
  if (!frame.keyed) {
    name_ += std::to_string(frame.next);
    return Status::ok();
  }
  const pickle::NodeId key = frame.children[frame.next];
  const bool is_str = tree_.kind(key) == pickle::NodeKind::kStr;
  if (is_str && tree_.text(key).size() > options_.limits.max_name_nbytes)
    return over_limit(key, "max_name_nbytes");
  name_ += is_str ? tree_.text(key) : tree_.describe(key);
  return count_name(key, name_.size() - frame.name_nbytes);
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
    TENON_ASSIGN(named.tensor, tensors_.read(id));
    known_.emplace(id, named.tensor);
  }
  out_.tensors.push_back(std::move(named));
  nodes_.push_back(id);
  return Status::ok();
}

void StateDictReader::add_other(pickle::NodeId id) {
  ++out_.n_others;
  if (out_.others.size() >= StateDict::kMaxOthers) return;
  const pickle::NodeKind kind = tree_.kind(id);
  const bool is_call = kind == pickle::NodeKind::kReduce || kind == pickle::NodeKind::kNew;
  out_.others.push_back(is_call ? name_ + ": " + tree_.describe(id) : name_);
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
