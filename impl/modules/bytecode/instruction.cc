#include "modules/bytecode/instruction.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tenon::bytecode {
namespace {

// The index of a name is the opcode's number.
constexpr std::string_view kOpcodeNames[] = {
    "OP",
    "OPN",
    "LOAD",
    "MOVE",
    "STOREN",
    "STORE",
    "DROP",
    "DROPR",
    "LOADC",
    "JF",
    "JMP",
    "LOOP",
    "RET",
    "WAIT",
    "CALL",
    "GUARD",
    "TYPECHECK",
    "FAIL_GUARD",
    "PROFILE_OP",
    "TAIL_CALL",
    "INTERFACE_CALL",
    "GET_ATTR",
    "SET_ATTR",
    "LIST_UNPACK",
    "TUPLE_CONSTRUCT",
    "NAMED_TUPLE_CONSTRUCT",
    "LIST_CONSTRUCT",
    "DICT_CONSTRUCT",
    "CREATE_OBJECT",
    "ISINSTANCE",
    "TUPLE_SLICE",
    "TUPLE_INDEX",
    "RAISE_EXCEPTION",
    "DICT_INDEX",
    "UNCHECKED_CAST",
    "__IS__",
    "UN_INITIALIZED",
    "__ISNOT__",
    "FORMAT",
    "DEVICE",
    "DTYPE",
    "DIM",
    "__NOT__",
    "TO_LIST",
    "NUM_TO_TENSOR",
    "IS_CUDA",
    "FORK",
    "WARN",
    "ENTER",
    "EXIT",
    "AWAITABLE",
};
static_assert(std::size(kOpcodeNames) == kOpcodeCount);

using OrderedOpcodes = std::array<uint8_t, kOpcodeCount>;

constexpr OrderedOpcodes order_opcodes() {
  OrderedOpcodes ordered{};
  for (uint8_t i = 0; i < kOpcodeCount; ++i) ordered[i] = i;
  std::sort(ordered.begin(), ordered.end(),
            [](uint8_t a, uint8_t b) { return kOpcodeNames[a] < kOpcodeNames[b]; });
  return ordered;
}

// The numbers of the opcodes, sorted by their names.
constexpr OrderedOpcodes kOrderedOpcodes = order_opcodes();

}  // namespace

std::string_view opcode_name(Opcode opcode) noexcept {
  const auto number = static_cast<uint8_t>(opcode);
  return number < kOpcodeCount ? kOpcodeNames[number] : std::string_view("?");
}

std::optional<Opcode> find_opcode(std::string_view name) noexcept {
  const auto found = std::lower_bound(
      kOrderedOpcodes.begin(), kOrderedOpcodes.end(), name,
      [](uint8_t number, std::string_view wanted) { return kOpcodeNames[number] < wanted; });
  if (found == kOrderedOpcodes.end() || kOpcodeNames[*found] != name) return std::nullopt;
  return static_cast<Opcode>(*found);
}

bool runs_in_lite(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::kWait:
    case Opcode::kGuard:
    case Opcode::kTypeCheck:
    case Opcode::kFailGuard:
    case Opcode::kProfileOp:
    case Opcode::kTailCall:
    case Opcode::kUncheckedCast:
    case Opcode::kFork:
    case Opcode::kEnter:
    case Opcode::kExit:
    case Opcode::kAwaitable: return false;
    default: return static_cast<uint8_t>(opcode) < kOpcodeCount;
  }
}

}  // namespace tenon::bytecode
