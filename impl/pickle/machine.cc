#include "pickle/machine.h"

#include <algorithm>
#include <utility>

#include "os/limits.h"

namespace tenon::pickle {
namespace {

// Positions in children_ have 32 bits. A pickle that refers to more children needs more bytes for
// that than the limits on nodes allow.
constexpr size_t kMostChildren = UINT32_MAX;

// The vectors of nodes double their capacity when they grow. From this number of nodes on, the
// machine is asked first whether it has the memory (os::ask_headroom()): at most kNodeGrowthNbytes
// for each existing node.
constexpr size_t kAskFromNodes = size_t{1} << 18;
constexpr uint64_t kNodeGrowthNbytes = 96;

}  // namespace

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const PickleReadOptions& options)
    : bytes_(bytes), options_(options) {
  tree_.bytes_ = reinterpret_cast<const char*>(bytes.data());
  tree_.record_ = options.record;
  // A module with many tensors has a node for every four or five bytes. Room for all of them is
  // reserved at once, but no more than a few megabytes.
  const size_t expected = std::min<size_t>(bytes.size() / 4, 1U << 16);
  tree_.nodes_.reserve(expected);
  tree_.children_.reserve(expected);
  memo_.reserve(expected / 4);
}

Status PickleMachine::error(Code code, const std::string& message) const {
  const char* name =
      opcode_at_ < bytes_.size() ? opcode_name(static_cast<uint8_t>(bytes_[opcode_at_])) : nullptr;
  if (name == nullptr) return pickle_error(code, options_.record, opcode_at_, message);
  return pickle_error(code, options_.record, opcode_at_, std::string(name) + ": " + message)
      .with("opcode", name);
}

Status PickleMachine::cut_short(const std::string& message) const {
  if (options_.is_cut_short != nullptr) *options_.is_cut_short = true;
  return error(Code::kCorrupt, message);
}

Status PickleMachine::over_limit(const char* limit, uint64_t value) const {
  return error(Code::kResourceExhausted,
               format("the pickle exceeds the limit %s: %llu", limit, as_llu(value)))
      .with("limit", limit)
      .with("limit_value", value);
}

Result<PickleTree> PickleMachine::run() {
  if (bytes_.size() > options_.limits.max_nbytes)
    return over_limit("max_nbytes", options_.limits.max_nbytes);
  if (bytes_.empty() || static_cast<Opcode>(bytes_[0]) != Opcode::kProto) {
    return error(Code::kCorrupt, "this is no pickle: it does not begin with PROTO");
  }
  TENON_TRY(read_opcodes());
  return std::move(tree_);
}

Status PickleMachine::finish() {
  if (!marks_.empty()) return error(Code::kCorrupt, format("%zu marks are left", marks_.size()));
  if (stack_.size() != 1)
    return error(Code::kCorrupt,
                 format("%zu values are on the stack, expected one", stack_.size()));
  tree_.root_ = stack_.back();
  tree_.nbytes_ = cursor_;
  return Status::ok();
}

Status PickleMachine::unknown_opcode(uint8_t byte) const {
  if (opcode_name(byte) == nullptr)
    return error(Code::kCorrupt, format("0x%02x is no opcode", byte));
  return error(Code::kUnsupported, "PyTorch reads no such opcode in a module archive");
}

Status PickleMachine::read_opcodes() {
  const uint8_t dialect =
      options_.dialect == PickleDialect::kModule ? kOpcodeOfModules : kOpcodeOfAll;
  for (;;) {
    opcode_at_ = cursor_;
    if (cursor_ >= bytes_.size()) return cut_short("the pickle ends without STOP");
    const auto byte = static_cast<uint8_t>(bytes_[cursor_++]);
    if ((kOpcodeDialects[byte] & dialect) == 0) return unknown_opcode(byte);
    const auto opcode = static_cast<Opcode>(byte);
    uint64_t number = 0;
    switch (opcode) {
      case Opcode::kBinGet:
      case Opcode::kLongBinGet:
        if (opcode == Opcode::kBinGet) {
          if (!take_number<uint8_t>(&number)) return missing_bytes(1);
        } else if (!take_number<uint32_t>(&number)) {
          return missing_bytes(4);
        }
        if (number < memo_.size()) {
          stack_.push_back(memo_[number]);
        } else {
          TENON_TRY(read_sparse_get(number));
        }
        break;
      case Opcode::kBinPut:
        if (!take_number<uint8_t>(&number)) return missing_bytes(1);
        TENON_TRY(put(number));
        break;
      case Opcode::kLongBinPut:
        if (!take_number<uint32_t>(&number)) return missing_bytes(4);
        TENON_TRY(put(number));
        break;
      case Opcode::kMemoize: TENON_TRY(put(memo_.size() + sparse_memo_.size())); break;
      case Opcode::kMark: push_mark(); break;
      case Opcode::kTuple: TENON_TRY(read_tuple()); break;
      case Opcode::kEmptyTuple: TENON_TRY(push_tuple(stack_.size())); break;
      case Opcode::kTuple1:
      case Opcode::kTuple2:
      case Opcode::kTuple3:
        number = static_cast<uint64_t>(byte) - static_cast<uint64_t>(Opcode::kTuple1) + 1;
        if (!has(number)) return missing_values();
        TENON_TRY(push_tuple(stack_.size() - number));
        break;
      case Opcode::kNone:
      case Opcode::kNewTrue:
      case Opcode::kNewFalse:
      case Opcode::kBinInt:
      case Opcode::kBinInt1:
      case Opcode::kBinInt2:
      case Opcode::kBinFloat: TENON_TRY(read_scalar(opcode)); break;
      case Opcode::kBinPersId: TENON_TRY(read_persistent()); break;
      case Opcode::kReduce:
      case Opcode::kNewObj:
      case Opcode::kNewObjEx: TENON_TRY(read_call(opcode)); break;
      case Opcode::kBuild: TENON_TRY(read_build()); break;
      // BINSTRING is a str of Python 2. In checkpoints such strings are names.
      case Opcode::kShortBinString:
      case Opcode::kShortBinUnicode: TENON_TRY(read_text<uint8_t>(NodeKind::kStr)); break;
      case Opcode::kBinString:
      case Opcode::kBinUnicode: TENON_TRY(read_text<uint32_t>(NodeKind::kStr)); break;
      case Opcode::kBinUnicode8: TENON_TRY(read_text<uint64_t>(NodeKind::kStr)); break;
      case Opcode::kShortBinBytes: TENON_TRY(read_text<uint8_t>(NodeKind::kBytes)); break;
      case Opcode::kBinBytes: TENON_TRY(read_text<uint32_t>(NodeKind::kBytes)); break;
      case Opcode::kBinBytes8:
      case Opcode::kByteArray8: TENON_TRY(read_text<uint64_t>(NodeKind::kBytes)); break;
      case Opcode::kEmptyList:
      case Opcode::kList:
      case Opcode::kEmptyDict:
      case Opcode::kDict:
      case Opcode::kEmptySet:
      case Opcode::kFrozenSet: TENON_TRY(read_container(opcode)); break;
      case Opcode::kAppend:
      case Opcode::kAppends:
      case Opcode::kSetItem:
      case Opcode::kSetItems:
      case Opcode::kAddItems: TENON_TRY(read_addition(opcode)); break;
      case Opcode::kLong1: TENON_TRY(read_integer<uint8_t>()); break;
      case Opcode::kLong4: TENON_TRY(read_integer<uint32_t>()); break;
      case Opcode::kGlobal:
      case Opcode::kStackGlobal: TENON_TRY(read_global()); break;
      case Opcode::kPop:
      case Opcode::kPopMark:
      case Opcode::kDup: TENON_TRY(read_pop(opcode)); break;
      case Opcode::kProto: TENON_TRY(read_protocol()); break;
      case Opcode::kFrame: TENON_TRY(read_frame()); break;
      case Opcode::kStop: return finish();
      default:
        return error(
            Code::kUnsupported,
            "no pickler of protocol 2 or later writes this, or it needs what is not in the pickle");
    }
  }
}

Status PickleMachine::read_pop(Opcode opcode) {
  size_t begin = 0;
  switch (opcode) {
    case Opcode::kPop:
      // Python's pickler ends a tuple that contains itself like this.
      if (!marks_.empty() && floor_ == stack_.size()) {
        pop_mark(&begin);
        return Status::ok();
      }
      if (!has(1)) return missing_values();
      stack_.pop_back();
      return Status::ok();
    case Opcode::kPopMark:
      if (!pop_mark(&begin)) return missing_mark();
      stack_.resize(begin);
      return Status::ok();
    default:
      if (!has(1)) return missing_values();
      stack_.push_back(stack_.back());
      return Status::ok();
  }
}

Status PickleMachine::read_tuple() {
  size_t begin = 0;
  if (!pop_mark(&begin)) return missing_mark();
  return push_tuple(begin);
}

Status PickleMachine::read_container(Opcode opcode) {
  size_t begin = stack_.size();
  switch (opcode) {
    case Opcode::kEmptyList: return push_list(NodeKind::kList, begin);
    case Opcode::kEmptyDict: return push_list(NodeKind::kDict, begin);
    case Opcode::kEmptySet: return push_list(NodeKind::kSet, begin);
    default: break;
  }
  if (!pop_mark(&begin)) return missing_mark();
  if (opcode == Opcode::kDict && (stack_.size() - begin) % 2 != 0)
    return error(Code::kCorrupt, "a key without its value");
  return push_list(opcode == Opcode::kList   ? NodeKind::kList
                   : opcode == Opcode::kDict ? NodeKind::kDict
                                             : NodeKind::kSet,
                   begin);
}

Status PickleMachine::read_addition(Opcode opcode) {
  size_t added_count = opcode == Opcode::kAppend ? 1 : 2;
  if (opcode != Opcode::kAppend && opcode != Opcode::kSetItem) {
    size_t begin = 0;
    if (!pop_mark(&begin)) return missing_mark();
    added_count = stack_.size() - begin;
  }
  if (!has(added_count + 1)) return missing_values();
  const std::span<const NodeId> added = std::span<const NodeId>(stack_).last(added_count);
  const NodeId target = stack_[stack_.size() - added_count - 1];
  const Node& node = tree_.nodes_[target];
  const bool is_call = node.kind == NodeKind::kReduce || node.kind == NodeKind::kNew;
  const bool as_items = opcode == Opcode::kSetItem || opcode == Opcode::kSetItems;
  const NodeKind wanted = as_items                      ? NodeKind::kDict
                          : opcode == Opcode::kAddItems ? NodeKind::kSet
                                                        : NodeKind::kList;
  if (node.kind != wanted && (!is_call || opcode == Opcode::kAddItems)) {
    return error(Code::kCorrupt, format("%s cannot take this", tree_.describe(target).c_str()));
  }
  if (as_items && added.size() % 2 != 0) return error(Code::kCorrupt, "a key without its value");
  if (is_call) {
    PickleTree::LongCall& call = make_long_call(target);
    TENON_TRY(extend_list(as_items ? &call.items : &call.elements, added));
  } else {
    TENON_TRY(extend_list(&tree_.lists_[node.content.pair.first], added));
  }
  stack_.resize(stack_.size() - added_count);
  return Status::ok();
}

Status PickleMachine::extend_list(PickleTree::List* list, std::span<const NodeId> added) {
  std::vector<NodeId>& all = tree_.children_;
  const size_t count = list->count + added.size();
  if (count > list->capacity) {
    // Moves the list to the end of children_, unless it is already last. A list that is filled in
    // one go, as nearly all are, gets no spare room. A list that grows again gets as much room
    // again as it has. So a pickle that fills many lists in turns copies each only a few times.
    const bool is_last = size_t{list->begin} + list->capacity == all.size();
    const size_t begin = is_last ? list->begin : all.size();
    const size_t capacity = is_last || list->count == 0 ? count : 2 * count;
    if (begin + capacity > kMostChildren) return over_limit("max_nodes", options_.limits.max_nodes);
    all.resize(begin + capacity);
    if (!is_last) std::copy_n(all.data() + list->begin, list->count, all.data() + begin);
    list->begin = static_cast<uint32_t>(begin);
    list->capacity = static_cast<uint32_t>(capacity);
  }
  std::ranges::copy(added, all.data() + list->begin + list->count);
  list->count = static_cast<uint32_t>(count);
  return Status::ok();
}

Status PickleMachine::read_persistent() {
  NodeId id = kNoNode;
  if (!pop(&id)) return missing_values();
  return push_node(NodeKind::kPersistent, {.pair = {id, tree_.persistent_count_++}});
}

Status PickleMachine::read_call(Opcode opcode) {
  NodeId keyword_args = kNoNode;
  NodeId args = kNoNode;
  NodeId callable = kNoNode;
  if (opcode == Opcode::kNewObjEx && !pop(&keyword_args)) return missing_values();
  if (!pop(&args) || !pop(&callable)) return missing_values();
  if (opcode == Opcode::kNewObjEx && tree_.kind(keyword_args) != NodeKind::kDict) {
    return error(Code::kCorrupt, "keyword arguments that are no dict");
  }
  if (options_.dialect == PickleDialect::kGeneral) TENON_TRY(name_callable(&callable));
  if (tree_.kind(callable) != NodeKind::kGlobal) {
    return error(Code::kCorrupt, format("%s cannot be called", tree_.describe(callable).c_str()));
  }
  // The REDUCE of an enum has the enum's value as its arguments, and no tuple. Only code that knows
  // the callable can check this.
  if (opcode != Opcode::kReduce && tree_.kind(args) != NodeKind::kTuple)
    return error(Code::kCorrupt, "arguments that are no tuple");
  TENON_TRY(push_node(opcode == Opcode::kReduce ? NodeKind::kReduce : NodeKind::kNew,
                      {.pair = {callable, args}}));
  if (keyword_args != kNoNode) make_long_call(stack_.back()).keyword_args = keyword_args;
  return Status::ok();
}

// torch.save before PyTorch 1.6 wrote the class of a module as a persistent id ("module", class,
// …). Other picklers write classes that a call makes. Readers expect a global as the callable, so a
// class without a name gets one that no module has.
Status PickleMachine::name_callable(NodeId* callable) {
  const NodeKind kind = tree_.kind(*callable);
  if (kind == NodeKind::kPersistent) {
    const NodeId id = tree_.persistent_id(*callable);
    const std::span<const NodeId> parts =
        tree_.kind(id) == NodeKind::kTuple ? tree_.children(id) : std::span<const NodeId>();
    if (parts.size() < 2 || tree_.kind(parts[1]) != NodeKind::kGlobal) return Status::ok();
    *callable = parts[1];
  } else if (kind == NodeKind::kReduce || kind == NodeKind::kNew) {
    TENON_TRY(push_global("<unnamed>", "class"));
    pop(callable);
  }
  return Status::ok();
}

PickleTree::LongCall& PickleMachine::make_long_call(NodeId id) {
  Node& node = tree_.nodes_[id];
  if (!node.is_long_call) {
    PickleTree::LongCall call;
    call.callable = node.content.pair.first;
    call.args = node.content.pair.second;
    node.content.pair = {static_cast<uint32_t>(tree_.calls_.size()), 0};
    node.is_long_call = true;
    tree_.calls_.push_back(call);
  }
  return tree_.calls_[node.content.pair.first];
}

Status PickleMachine::read_build() {
  NodeId state = kNoNode;
  NodeId target = kNoNode;
  if (!pop(&state) || !pop(&target)) return missing_values();
  stack_.push_back(target);
  const NodeKind kind = tree_.kind(target);
  if (kind != NodeKind::kReduce && kind != NodeKind::kNew) {
    return error(Code::kCorrupt, format("%s cannot have a state", tree_.describe(target).c_str()));
  }
  PickleTree::LongCall& call = make_long_call(target);
  if (call.state != kNoNode) return error(Code::kCorrupt, "a second state");
  call.state = state;
  return Status::ok();
}

Status PickleMachine::put(uint64_t index) {
  if (!has(1)) return missing_values();
  const NodeId top = stack_.back();
  tree_.nodes_[top].memoised = true;
  if (index < memo_.size()) {
    memo_[index] = top;
    return Status::ok();
  }
  if (memo_.size() + sparse_memo_.size() >= options_.limits.max_memo)
    return over_limit("max_memo", options_.limits.max_memo);
  if (index == memo_.size() && sparse_memo_.empty()) {
    memo_.push_back(top);
  } else {
    sparse_memo_[index] = top;
  }
  return Status::ok();
}

Status PickleMachine::read_sparse_get(uint64_t index) {
  const auto found = sparse_memo_.find(index);
  if (found == sparse_memo_.end())
    return error(Code::kCorrupt, format("memo %llu was never put", as_llu(index)));
  stack_.push_back(found->second);
  return Status::ok();
}

Status PickleMachine::push_node(NodeKind kind, Content content) {
  const size_t id = tree_.nodes_.size();
  if (id >= options_.limits.max_nodes) [[unlikely]]
    return over_limit("max_nodes", options_.limits.max_nodes);
  if (id == tree_.nodes_.capacity() && id >= kAskFromNodes) [[unlikely]]
    TENON_TRY(os::ask_headroom(kNodeGrowthNbytes * id));
  stack_.push_back(static_cast<NodeId>(id));
  Node& node = tree_.nodes_.emplace_back();
  node.content = content;
  node.offset_low = static_cast<uint32_t>(opcode_at_);
  node.offset_high = static_cast<uint16_t>(opcode_at_ >> 32);
  node.kind = kind;
  return Status::ok();
}

// A tuple never grows, so it needs no List.
Status PickleMachine::push_tuple(size_t begin) {
  std::vector<NodeId>& all = tree_.children_;
  const size_t at = all.size();
  const size_t count = stack_.size() - begin;
  if (at + count > kMostChildren) [[unlikely]]
    return over_limit("max_nodes", options_.limits.max_nodes);
  for (size_t i = 0; i < count; ++i) all.push_back(stack_[begin + i]);
  stack_.resize(begin);
  return push_node(NodeKind::kTuple,
                   {.pair = {static_cast<uint32_t>(at), static_cast<uint32_t>(count)}});
}

Status PickleMachine::push_list(NodeKind kind, size_t begin) {
  PickleTree::List list;
  TENON_TRY(extend_list(&list, std::span<const NodeId>(stack_).subspan(begin)));
  const PickleTree::Pair pair{static_cast<uint32_t>(tree_.lists_.size()), 0};
  tree_.lists_.push_back(list);
  stack_.resize(begin);
  return push_node(kind, {.pair = pair});
}

Status PickleMachine::push_global(std::string_view module, std::string_view name) {
  const PickleTree::Pair pair{static_cast<uint32_t>(tree_.globals_.size()), 0};
  tree_.globals_.push_back({module, name});
  return push_node(NodeKind::kGlobal, {.pair = pair});
}

bool PickleMachine::pop(NodeId* out) noexcept {
  if (!has(1)) return false;
  *out = stack_.back();
  stack_.pop_back();
  return true;
}

void PickleMachine::push_mark() {
  floor_ = stack_.size();
  marks_.push_back(floor_);
}

bool PickleMachine::pop_mark(size_t* begin) noexcept {
  if (marks_.empty()) return false;
  *begin = floor_;
  marks_.pop_back();
  floor_ = marks_.empty() ? 0 : marks_.back();
  return true;
}

Status PickleMachine::missing_values() const {
  return error(Code::kCorrupt, "the stack has too few values");
}

Status PickleMachine::missing_mark() const { return error(Code::kCorrupt, "there is no mark"); }

}  // namespace tenon::pickle
