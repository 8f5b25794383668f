#include "object/object_from_pickle.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "object/split_tensors.h"
#include "pickle/reader.h"
#include "tensor/name.h"

namespace tenon::object {
namespace {

using pickle::NodeId;
using pickle::NodeKind;
using pickle::PickledCall;
using pickle::PickleTree;

// The fixed allowance: beside kMostCopies for each node of its pickle, an object may have this many
// nodes.
constexpr uint64_t kSpareNodes = 65536;

class Reader {
 public:
  Reader(const PickleTree& tree, const std::byte* bytes,
         std::span<const Ref<tensor::Tensor>> storages)
      : tree_(tree), bytes_(bytes), tensors_(tree, storages), open_(tree.count()) {}

  // The result lacks the bytes of the texts. The caller moves the pickle into Contents::bytes, to
  // which the texts refer.
  Result<Contents> read() {
    TENON_TRY(visit(tree_.root()));
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.next == frame.children.size()) {
        open_[frame.node] = false;
        stack_.pop_back();
        continue;
      }
      TENON_TRY(visit(frame.children[frame.next++]));  // `frame` may dangle from here on
    }
    return std::move(out_);
  }

  // Adds the place in the pickle to an error of Object::create().
  Status placed(const Status& refused) const {
    NodeId id = tree_.root();
    if (const std::string_view index = refused.detail("index"); !index.empty())
      id = origins_[std::stoul(std::string(index))];
    const Code code = refused.code() == Code::kInvalidArgument ? Code::kCorrupt : refused.code();
    return tree_.error(code, id, refused.message()).with_details_of(refused).caused_by(refused);
  }

 private:
  struct Frame {
    NodeId node;
    std::span<const NodeId> children;
    size_t next = 0;
  };

  Status visit(NodeId id) {
    const uint64_t most = kMostCopies * tree_.count() + kSpareNodes;
    if (out_.nodes.size() >= most) {
      return tree_
          .error(Code::kResourceExhausted, id,
                 format("the pickle uses values again and again, so that its object would have "
                        "more than %llu nodes",
                        as_llu(most)))
          .with("limit", "nodes")
          .with("limit_value", most);
    }
    switch (tree_.kind(id)) {
      case NodeKind::kNone: add(Kind::kNone, id); return Status::ok();
      case NodeKind::kBool:
        add(Kind::kBool, id).content.integer = tree_.boolean(id) ? 1 : 0;
        return Status::ok();
      case NodeKind::kInt:
        add(Kind::kInt, id).content.integer = tree_.integer(id);
        return Status::ok();
      case NodeKind::kFloat:
        add(Kind::kFloat, id).content.real = tree_.real(id);
        return Status::ok();
      case NodeKind::kStr:
        if (!tensor::is_utf8(tree_.text(id))) {
          return unsupported(
              id,
              "a text is not UTF-8, which other languages than Python require: send it as bytes");
        }
        add(Kind::kStr, id).content.text = text(id);
        return Status::ok();
      case NodeKind::kBytes: add(Kind::kBytes, id).content.text = text(id); return Status::ok();
      case NodeKind::kTuple: return enter(Kind::kTuple, id, tree_.children(id));
      case NodeKind::kList: return enter(Kind::kList, id, tree_.children(id));
      case NodeKind::kSet: return enter(Kind::kSet, id, tree_.children(id));
      case NodeKind::kDict: return enter(Kind::kDict, id, tree_.children(id));
      case NodeKind::kReduce: return visit_call(id);
      case NodeKind::kLong:
        return unsupported(id, format("an integer of %zu bytes, and integers of 64 bits are "
                                      "carried: send it as text or bytes",
                                      tree_.text(id).size()));
      case NodeKind::kPersistent:
        return tree_.error(Code::kCorrupt, id, "a persistent id, which no object has");
      default: return no_plain_data(id);
    }
  }

  Status visit_call(NodeId id) {
    const PickledCall call = tree_.call(id);
    const std::string_view module = tree_.module(call.callable);
    const std::string_view name = tree_.name(call.callable);
    if (module == "builtins" && name == "complex") return visit_complex(id);
    if (module == "builtins" && name == "bytearray") return visit_bytearray(id);
    if (module == "collections" && name == "OrderedDict" &&
        pickle::call_arguments(tree_, id).empty() && call.elements.empty()) {
      // The state is ignored. It has the attributes of a module's state dict: versions of classes.
      return enter(Kind::kDict, id, call.items);
    }
    if (!tensors_.is_known(id)) return no_plain_data(id);
    const auto made = made_.find(id);
    if (made != made_.end()) {
      add(made->second.kind, id).content = made->second.content;
      return Status::ok();
    }
    Node node;
    if (tensors_.is_composite(id)) {
      TENON_ASSIGN(Ref<tensor::Composite> composite, tensors_.read_composite(id));
      node.kind = Kind::kComposite;
      node.content.index = out_.composites.size();
      out_.composites.push_back(std::move(composite));
    } else {
      TENON_ASSIGN(Ref<tensor::Tensor> tensor, tensors_.read_tensor(id));
      node.kind = Kind::kTensor;
      node.content.index = out_.tensors.size();
      out_.tensors.push_back(std::move(tensor));
    }
    made_.emplace(id, node);
    add(node.kind, id).content = node.content;
    return Status::ok();
  }

  Status visit_complex(NodeId id) {
    const std::span<const NodeId> arguments = pickle::call_arguments(tree_, id);
    const bool good = !tree_.is_long_call(id) && arguments.size() == 2 &&
                      std::ranges::all_of(arguments, [this](NodeId argument) {
                        return tree_.kind(argument) == NodeKind::kFloat;
                      });
    if (!good) return tree_.error(Code::kCorrupt, id, "a complex number is made of two floats");
    add(Kind::kComplex, id).content.complex = {tree_.real(arguments[0]), tree_.real(arguments[1])};
    return Status::ok();
  }

  // Reads a bytearray. Before protocol 5 it is a call with bytes, or with no argument.
  Status visit_bytearray(NodeId id) {
    const std::span<const NodeId> arguments = pickle::call_arguments(tree_, id);
    const bool good = arguments.empty() ||
                      (arguments.size() == 1 && tree_.kind(arguments[0]) == NodeKind::kBytes);
    if (tree_.is_long_call(id) || !good)
      return tree_.error(Code::kCorrupt, id, "a bytearray is made of bytes");
    add(Kind::kBytes, id).content.text = arguments.empty() ? Node::Text{0, 0} : text(arguments[0]);
    return Status::ok();
  }

  // Refuses keys that only Python has.
  Status check_key(NodeId id) const {
    const bool is_tensor = tree_.kind(id) == NodeKind::kReduce && tensors_.is_known(id);
    if (!is_tensor && tree_.kind(id) != NodeKind::kSet) return Status::ok();
    return unsupported(
        id,
        format(
            "a %s is a key or an item of a set, which only Python can read: send a list of pairs",
            is_tensor ? "tensor" : "frozenset"));
  }

  Status enter(Kind kind, NodeId id, std::span<const NodeId> children) {
    if (open_[id])
      return unsupported(
          id, format("a %s contains itself: send the values without the cycle", kind_name(kind)));
    if (stack_.size() >= kMaxDepth) {
      return tree_
          .error(Code::kResourceExhausted, id,
                 format("values are nested deeper than %zu", kMaxDepth))
          .with("limit", "depth")
          .with("limit_value", uint64_t{kMaxDepth});
    }
    if (kind == Kind::kDict || kind == Kind::kSet) {
      for (size_t i = 0; i < children.size(); i += kind == Kind::kDict ? 2 : 1)
        TENON_TRY(check_key(children[i]));
    }
    // The count fits in 32 bits, because a pickle has fewer nodes than that.
    add(kind, id).count =
        static_cast<uint32_t>(kind == Kind::kDict ? children.size() / 2 : children.size());
    open_[id] = true;
    stack_.push_back({id, children});
    return Status::ok();
  }

  Node& add(Kind kind, NodeId id) {
    origins_.push_back(id);
    Node& node = out_.nodes.emplace_back();
    node.kind = kind;
    return node;
  }

  Node::Text text(NodeId id) const {
    const std::string_view text = tree_.text(id);
    return {static_cast<uint64_t>(reinterpret_cast<const std::byte*>(text.data()) - bytes_),
            text.size()};
  }

  Status unsupported(NodeId id, const std::string& message) const {
    return tree_.error(Code::kUnsupported, id, message);
  }

  Status no_plain_data(NodeId id) const {
    const bool is_call = tree_.kind(id) == NodeKind::kReduce || tree_.kind(id) == NodeKind::kNew;
    const NodeId named = is_call ? tree_.callable(id) : id;
    return unsupported(id, format("%s is needed, which only Python can call: send plain data "
                                  "(dicts, lists, tuples, sets, numbers, text, "
                                  "bytes and tensors), or receive the object in Python",
                                  tree_.describe(named).c_str()));
  }

  const PickleTree& tree_;
  const std::byte* const bytes_;
  SplitTensors tensors_;
  Contents out_;
  std::vector<NodeId> origins_;  // the pickle's node for each entry of out_.nodes
  std::vector<Frame> stack_;
  std::vector<bool> open_;
  std::map<NodeId, Node> made_;  // tensors and composites that the pickle may use again
};

}  // namespace

Result<Ref<Object>> object_from_pickle(std::vector<std::byte> bytes,
                                       std::span<const Ref<tensor::Tensor>> storages) {
  pickle::PickleReadOptions options;
  options.dialect = pickle::PickleDialect::kGeneral;
  options.record = "the object";
  TENON_ASSIGN(const PickleTree tree, pickle::read_pickle(bytes, options));
  Reader reader(tree, bytes.data(), storages);
  TENON_ASSIGN(Contents contents, reader.read());
  contents.bytes = std::move(bytes);  // the texts of the tree stay where they are
  Result<Ref<Object>> made = Object::create(std::move(contents));
  if (!made.is_ok()) return reader.placed(made.status());
  return made;
}

}  // namespace tenon::object
