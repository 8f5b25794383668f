// Instruction: one step of the lite interpreter. The numbers are PyTorch's
// (torch/csrc/jit/runtime/instruction.h): a flatbuffer stores them, and bytecode.pkl stores the
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon::bytecode {

enum class Opcode : uint8_t {
  kOp = 0,
  kOpN = 1,
  kLoad = 2,
  kMove = 3,
  kStoreN = 4,
  kStore = 5,
  kDrop = 6,
  kDropR = 7,
  kLoadC = 8,
  kJf = 9,
  kJmp = 10,
  kLoop = 11,
  kRet = 12,
  kWait = 13,
  kCall = 14,
  kGuard = 15,
  kTypeCheck = 16,
  kFailGuard = 17,
  kProfileOp = 18,
  kTailCall = 19,
  kInterfaceCall = 20,
  kGetAttr = 21,
  kSetAttr = 22,
  kListUnpack = 23,
  kTupleConstruct = 24,
  kNamedTupleConstruct = 25,
  kListConstruct = 26,
  kDictConstruct = 27,
  kCreateObject = 28,
  kIsInstance = 29,
  kTupleSlice = 30,
  kTupleIndex = 31,
  kRaiseException = 32,
  kDictIndex = 33,
  kUncheckedCast = 34,
  kIs = 35,
  kUninitialized = 36,
  kIsNot = 37,
  kFormat = 38,
  kDevice = 39,
  kDtype = 40,
  kDim = 41,
  kNot = 42,
  kToList = 43,
  kNumToTensor = 44,
  kIsCuda = 45,
  kFork = 46,
  kWarn = 47,
  kEnter = 48,
  kExit = 49,
  kAwaitable = 50,
};
inline constexpr uint8_t kOpcodeCount = 51;

struct Instruction {
  Opcode opcode = Opcode::kRet;
  int32_t x = 0;
  int32_t n = 0;  // 0 to 65535 in PyTorch

  bool operator==(const Instruction&) const = default;
};

// The name of the opcode in bytecode.pkl, such as "OP" or "__ISNOT__".
std::string_view opcode_name(Opcode opcode) noexcept;
// Finds an opcode by its name. Nothing: PyTorch has no opcode of that name. (PyTorch's own reader
// takes such a name for OP.)
std::optional<Opcode> find_opcode(std::string_view name) noexcept;
// Whether the lite interpreter runs the opcode. Its loader refuses the others, but for
// UNCHECKED_CAST, which the loader takes and the interpreter does not know.
bool runs_in_lite(Opcode opcode) noexcept;

}  // namespace tenon::bytecode
