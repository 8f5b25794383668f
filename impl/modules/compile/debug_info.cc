#include "modules/compile/debug_info.h"

#include <utility>

namespace tenon::compile {
namespace {

// PyTorch's name for the node.
std::string_view name_of(const Node& node) {
  switch (node.kind) {
    case NodeKind::kOperator: return node.schema->name;
    case NodeKind::kConstant: return "prim::Constant";
    case NodeKind::kTupleUnpack: return "prim::TupleUnpack";
    case NodeKind::kTupleConstruct: return "prim::TupleConstruct";
    case NodeKind::kListConstruct: return "prim::ListConstruct";
    case NodeKind::kDictConstruct: return "prim::DictConstruct";
    case NodeKind::kTupleIndex: return "prim::TupleIndex";
    case NodeKind::kTupleSlice: return "prim::TupleSlice";
    case NodeKind::kListUnpack: return "prim::ListUnpack";
    case NodeKind::kGetAttribute: return "prim::GetAttr";
    case NodeKind::kSetAttribute: return "prim::SetAttr";
    case NodeKind::kInterfaceCall: return "prim::CallMethod";
    case NodeKind::kIsInstance: return "prim::isinstance";
    case NodeKind::kUninitialized: return "prim::Uninitialized";
    case NodeKind::kIf: return "prim::If";
    case NodeKind::kLoop: return "prim::Loop";
    case NodeKind::kDrop: return "prim::Drop";
    case NodeKind::kParameters: return "prim::Param";
    case NodeKind::kResults: return "prim::Return";
    case NodeKind::kCalled: break;
  }
  return {};
}

}  // namespace

void DebugRecorder::begin(const script::Source* source, script::Range name_range) {
  source_ = source;
  name_range_ = name_range;
  function_.clear();
  origins_.clear();
}

void DebugRecorder::add(const Node* node) { function_.push_back(origin_of(node)); }

void DebugRecorder::end() { info_.functions.push_back(std::move(function_)); }

size_t DebugRecorder::origin_of(const Node* node) {
  const auto [found, is_new] = origins_.try_emplace(node, info_.origins.size());
  if (!is_new) return found->second;
  DebugInfo::Origin origin;
  origin.node = name_of(*node);
  origin.source = node->source != nullptr ? node->source : source_;
  origin.range = node->source != nullptr ? node->range : name_range_;
  origin.call = call_of(node);
  info_.origins.push_back(std::move(origin));
  return found->second;
}

// Records the chain of calls through which a node was copied, and returns its outermost call. The
// chain is recorded from the innermost call outwards, because each call names the next inner one.
size_t DebugRecorder::call_of(const Node* node) {
  std::vector<const Call*> chain;
  for (; node != nullptr; node = node->origin) {
    if (node->call != nullptr) chain.push_back(node->call);
  }
  size_t callee = DebugInfo::kNoCall;
  for (; !chain.empty(); chain.pop_back()) {
    const Call& call = *chain.back();
    const auto [found, is_new] = calls_.try_emplace({&call, callee}, info_.calls.size());
    if (is_new) {
      info_.calls.push_back({call.source, call.range, std::string(call.module),
                             std::string(call.instance), std::string(call.function), callee});
    }
    callee = found->second;
  }
  return callee;
}

}  // namespace tenon::compile
