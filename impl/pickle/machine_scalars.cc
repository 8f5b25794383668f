// The opcodes of PickleMachine that have an operand in the bytes behind them: numbers, texts and
// names.
#include "base/checked.h"
#include "pickle/machine.h"

namespace tenon::pickle {
namespace {

constexpr uint64_t kMinProtocol = 2;
constexpr uint64_t kMaxProtocol = 5;

}  // namespace

bool PickleMachine::take(uint64_t nbytes, std::span<const std::byte>* out) noexcept {
  if (nbytes > bytes_.size() - cursor_) return false;
  *out = bytes_.subspan(cursor_, nbytes);
  cursor_ += nbytes;
  return true;
}

Status PickleMachine::missing_bytes(uint64_t nbytes) const {
  return cut_short(
      format("%llu bytes are named, %zu are left", as_llu(nbytes), bytes_.size() - cursor_));
}

Status PickleMachine::read_protocol() {
  uint64_t protocol = 0;
  if (!take_number<uint8_t>(&protocol)) return missing_bytes(1);
  const bool is_module = options_.dialect == PickleDialect::kModule;
  if (protocol < kMinProtocol || protocol > (is_module ? kMinProtocol : kMaxProtocol)) {
    const char* wanted = is_module ? "a module archive has 2" : "2 to 5 are read";
    return error(Code::kUnsupported, format("pickle protocol %llu, %s", as_llu(protocol), wanted));
  }
  tree_.protocol_ = static_cast<int>(protocol);
  return Status::ok();
}

// A FRAME is only advice on how much to read at once. Its bytes must lie in the pickle, but it does
// not matter where the frame ends.
Status PickleMachine::read_frame() {
  uint64_t nbytes = 0;
  if (!take_number<uint64_t>(&nbytes)) return missing_bytes(8);
  if (!range_inside(cursor_, nbytes, bytes_.size())) {
    return cut_short(
        format("a frame of %llu bytes, %zu are left", as_llu(nbytes), bytes_.size() - cursor_));
  }
  return Status::ok();
}

Status PickleMachine::read_scalar(Opcode opcode) {
  uint64_t number = 0;
  switch (opcode) {
    case Opcode::kNewTrue: return push_number(NodeKind::kBool, 1);
    case Opcode::kNewFalse: return push_number(NodeKind::kBool, 0);
    case Opcode::kBinInt:
      if (!take_number<uint32_t>(&number)) return missing_bytes(4);
      return push_number(NodeKind::kInt, static_cast<int32_t>(static_cast<uint32_t>(number)));
    case Opcode::kBinInt1:
      if (!take_number<uint8_t>(&number)) return missing_bytes(1);
      return push_number(NodeKind::kInt, static_cast<int64_t>(number));
    case Opcode::kBinInt2:
      if (!take_number<uint16_t>(&number)) return missing_bytes(2);
      return push_number(NodeKind::kInt, static_cast<int64_t>(number));
    case Opcode::kBinFloat:
      if (!take_number<uint64_t>(&number)) return missing_bytes(8);
      // This is the only big-endian number in a pickle.
      return push_node(NodeKind::kFloat,
                       {.real = std::bit_cast<double>(__builtin_bswap64(number))});
    default: return push_number(NodeKind::kNone, 0);
  }
}

template <typename Number>
Status PickleMachine::read_integer() {
  uint64_t nbytes = 0;
  if (!take_number<Number>(&nbytes)) return missing_bytes(sizeof(Number));
  if (options_.dialect == PickleDialect::kModule && nbytes != 8) {
    return error(Code::kUnsupported,
                 format("an integer of %llu bytes, PyTorch reads 8", as_llu(nbytes)));
  }
  std::span<const std::byte> from;
  if (!take(nbytes, &from)) return missing_bytes(nbytes);
  if (nbytes > options_.limits.max_text_nbytes)
    return over_limit("max_text_nbytes", options_.limits.max_text_nbytes);
  if (nbytes > 8)
    return push_node(NodeKind::kLong,
                     {.pair = {1 + sizeof(Number), static_cast<uint32_t>(nbytes)}});
  uint64_t value =
      !from.empty() && (from.back() & std::byte{0x80}) != std::byte{0} ? ~uint64_t{0} : 0;
  for (size_t i = 0; i < from.size(); ++i) {
    value &= ~(uint64_t{0xff} << (8 * i));
    value |= static_cast<uint64_t>(from[i]) << (8 * i);
  }
  return push_number(NodeKind::kInt, static_cast<int64_t>(value));
}

template <typename Number>
Status PickleMachine::read_text(NodeKind kind) {
  uint64_t nbytes = 0;
  if (!take_number<Number>(&nbytes)) return missing_bytes(sizeof(Number));
  if (nbytes > bytes_.size() - cursor_) return missing_bytes(nbytes);
  cursor_ += nbytes;
  if (nbytes > options_.limits.max_text_nbytes)
    return over_limit("max_text_nbytes", options_.limits.max_text_nbytes);
  return push_node(kind, {.pair = {1 + sizeof(Number), static_cast<uint32_t>(nbytes)}});
}

template Status PickleMachine::read_integer<uint8_t>();
template Status PickleMachine::read_integer<uint32_t>();
template Status PickleMachine::read_text<uint8_t>(NodeKind kind);
template Status PickleMachine::read_text<uint32_t>(NodeKind kind);
template Status PickleMachine::read_text<uint64_t>(NodeKind kind);

Status PickleMachine::read_line(std::string_view* out) {
  const std::span<const std::byte> rest = bytes_.subspan(cursor_);
  const void* end = rest.empty() ? nullptr : std::memchr(rest.data(), '\n', rest.size());
  if (end == nullptr) return cut_short("a name without its end");
  *out = {reinterpret_cast<const char*>(rest.data()),
          static_cast<size_t>(static_cast<const std::byte*>(end) - rest.data())};
  cursor_ += out->size() + 1;
  return Status::ok();
}

Status PickleMachine::read_global() {
  std::string_view module;
  std::string_view name;
  if (static_cast<Opcode>(bytes_[opcode_at_]) == Opcode::kGlobal) {
    TENON_TRY(read_line(&module));
    TENON_TRY(read_line(&name));
  } else {
    NodeId name_node = kNoNode;
    NodeId module_node = kNoNode;
    if (!pop(&name_node) || !pop(&module_node)) return missing_values();
    if (tree_.kind(name_node) != NodeKind::kStr || tree_.kind(module_node) != NodeKind::kStr) {
      return error(Code::kCorrupt, "a name that is no str");
    }
    module = tree_.text(module_node);
    name = tree_.text(name_node);
  }
  if (module.size() > options_.limits.max_name_nbytes ||
      name.size() > options_.limits.max_name_nbytes) {
    return over_limit("max_name_nbytes", options_.limits.max_name_nbytes);
  }
  return push_global(module, name);
}

}  // namespace tenon::pickle
