#include "pickle/nodes.h"

#include <algorithm>

namespace tenon::pickle {
namespace {

// The beginning of a text for a message. The text may come from a hostile file, so a quote in it,
// which would end the excerpt, is replaced.
std::string excerpt(std::string_view text) {
  constexpr size_t kMaxExcerptNbytes = 60;
  const bool cut = text.size() > kMaxExcerptNbytes;
  std::string out = "'";
  out += text.substr(0, std::min(text.size(), kMaxExcerptNbytes));
  std::replace(out.begin() + 1, out.end(), '\'', '?');
  out += cut ? "…'" : "'";
  return out;
}

}  // namespace

const char* node_kind_name(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::kNone: return "None";
    case NodeKind::kBool: return "bool";
    case NodeKind::kInt: return "int";
    case NodeKind::kLong: return "int of more than 64 bits";
    case NodeKind::kFloat: return "float";
    case NodeKind::kStr: return "str";
    case NodeKind::kBytes: return "bytes";
    case NodeKind::kTuple: return "tuple";
    case NodeKind::kList: return "list";
    case NodeKind::kDict: return "dict";
    case NodeKind::kSet: return "set";
    case NodeKind::kGlobal: return "global";
    case NodeKind::kPersistent: return "persistent id";
    case NodeKind::kReduce: return "call";
    case NodeKind::kNew: return "object";
  }
  return "node";
}

std::string PickleTree::describe(NodeId id) const {
  switch (kind(id)) {
    case NodeKind::kBool: return boolean(id) ? "True" : "False";
    case NodeKind::kInt: return format("%lld", static_cast<long long>(integer(id)));
    case NodeKind::kFloat: return format("%.17g", real(id));
    case NodeKind::kStr: return excerpt(text(id));
    case NodeKind::kTuple:
    case NodeKind::kList:
    case NodeKind::kSet:
      return format("a %s of %zu", node_kind_name(kind(id)), children(id).size());
    case NodeKind::kDict: return format("a dict of %zu", children(id).size() / 2);
    case NodeKind::kGlobal: {
      std::string dotted(module(id));
      dotted += '.';
      dotted += name(id);
      return excerpt(dotted);
    }
    case NodeKind::kReduce:
    case NodeKind::kNew: {
      const NodeId called = callable(id);
      const char* what = kind(id) == NodeKind::kReduce ? "a call of " : "an object of ";
      return what + (kind(called) == NodeKind::kGlobal ? describe(called)
                                                       : std::string(node_kind_name(kind(called))));
    }
    default: return node_kind_name(kind(id));
  }
}

Status PickleTree::error(Code code, NodeId id, const std::string& message) const {
  return pickle_error(code, record_, offset(id), message);
}

Status pickle_error(Code code, const std::string& record, uint64_t offset,
                    const std::string& message) {
  return Status(code, format("%s, byte %llu: %s", record.c_str(),
                             static_cast<unsigned long long>(offset), message.c_str()))
      .with("record", record)
      .with("offset", offset);
}

bool is_global(const PickleTree& tree, NodeId id, std::string_view module,
               std::string_view name) noexcept {
  return tree.kind(id) == NodeKind::kGlobal && tree.module(id) == module && tree.name(id) == name;
}

bool is_call_of(const PickleTree& tree, NodeId id, std::string_view module,
                std::string_view name) noexcept {
  return tree.kind(id) == NodeKind::kReduce && is_global(tree, tree.callable(id), module, name);
}

std::span<const NodeId> call_arguments(const PickleTree& tree, NodeId id) noexcept {
  const NodeId arguments = tree.args(id);
  return tree.kind(arguments) == NodeKind::kTuple ? tree.children(arguments)
                                                  : std::span<const NodeId>();
}

}  // namespace tenon::pickle
