#include "pickle/opcodes.h"

#include <array>

namespace tenon::pickle {
namespace {

struct Fact {
  const char* name;
  Opcode opcode;
  bool in_module_dialect;
};

constexpr Fact kFacts[] = {
    {"MARK", Opcode::kMark, true},
    {"STOP", Opcode::kStop, true},
    {"POP", Opcode::kPop, false},
    {"POP_MARK", Opcode::kPopMark, false},
    {"DUP", Opcode::kDup, false},
    {"FLOAT", Opcode::kFloat, false},
    {"INT", Opcode::kInt, false},
    {"BININT", Opcode::kBinInt, true},
    {"BININT1", Opcode::kBinInt1, true},
    {"LONG", Opcode::kLong, false},
    {"BININT2", Opcode::kBinInt2, true},
    {"NONE", Opcode::kNone, true},
    {"PERSID", Opcode::kPersId, false},
    {"BINPERSID", Opcode::kBinPersId, true},
    {"REDUCE", Opcode::kReduce, true},
    {"STRING", Opcode::kString, false},
    {"BINSTRING", Opcode::kBinString, false},
    {"SHORT_BINSTRING", Opcode::kShortBinString, false},
    {"UNICODE", Opcode::kUnicode, false},
    {"BINUNICODE", Opcode::kBinUnicode, true},
    {"APPEND", Opcode::kAppend, true},
    {"BUILD", Opcode::kBuild, true},
    {"GLOBAL", Opcode::kGlobal, true},
    {"DICT", Opcode::kDict, true},
    {"EMPTY_DICT", Opcode::kEmptyDict, true},
    {"APPENDS", Opcode::kAppends, true},
    {"GET", Opcode::kGet, false},
    {"BINGET", Opcode::kBinGet, true},
    {"INST", Opcode::kInst, false},
    {"LONG_BINGET", Opcode::kLongBinGet, true},
    {"LIST", Opcode::kList, true},
    {"EMPTY_LIST", Opcode::kEmptyList, true},
    {"OBJ", Opcode::kObj, false},
    {"PUT", Opcode::kPut, false},
    {"BINPUT", Opcode::kBinPut, true},
    {"LONG_BINPUT", Opcode::kLongBinPut, true},
    {"SETITEM", Opcode::kSetItem, true},
    {"TUPLE", Opcode::kTuple, true},
    {"EMPTY_TUPLE", Opcode::kEmptyTuple, true},
    {"SETITEMS", Opcode::kSetItems, true},
    {"BINFLOAT", Opcode::kBinFloat, true},
    {"PROTO", Opcode::kProto, true},
    {"NEWOBJ", Opcode::kNewObj, true},
    {"EXT1", Opcode::kExt1, false},
    {"EXT2", Opcode::kExt2, false},
    {"EXT4", Opcode::kExt4, false},
    {"TUPLE1", Opcode::kTuple1, true},
    {"TUPLE2", Opcode::kTuple2, true},
    {"TUPLE3", Opcode::kTuple3, true},
    {"NEWTRUE", Opcode::kNewTrue, true},
    {"NEWFALSE", Opcode::kNewFalse, true},
    {"LONG1", Opcode::kLong1, true},
    {"LONG4", Opcode::kLong4, false},
    {"BINBYTES", Opcode::kBinBytes, false},
    {"SHORT_BINBYTES", Opcode::kShortBinBytes, false},
    {"SHORT_BINUNICODE", Opcode::kShortBinUnicode, false},
    {"BINUNICODE8", Opcode::kBinUnicode8, true},
    {"BINBYTES8", Opcode::kBinBytes8, false},
    {"EMPTY_SET", Opcode::kEmptySet, false},
    {"ADDITEMS", Opcode::kAddItems, false},
    {"FROZENSET", Opcode::kFrozenSet, false},
    {"NEWOBJ_EX", Opcode::kNewObjEx, false},
    {"STACK_GLOBAL", Opcode::kStackGlobal, false},
    {"MEMOIZE", Opcode::kMemoize, false},
    {"FRAME", Opcode::kFrame, false},
    {"BYTEARRAY8", Opcode::kByteArray8, false},
    {"NEXT_BUFFER", Opcode::kNextBuffer, false},
    {"READONLY_BUFFER", Opcode::kReadOnlyBuffer, false},
};

constexpr std::array<const Fact*, 256> by_byte() {
  std::array<const Fact*, 256> table{};
  for (const Fact& fact : kFacts) table[static_cast<uint8_t>(fact.opcode)] = &fact;
  return table;
}

constexpr std::array<const Fact*, 256> kByByte = by_byte();

constexpr std::array<uint8_t, 256> dialects() {
  std::array<uint8_t, 256> table{};
  for (const Fact& fact : kFacts) {
    table[static_cast<uint8_t>(fact.opcode)] =
        static_cast<uint8_t>(kOpcodeOfAll | (fact.in_module_dialect ? kOpcodeOfModules : 0));
  }
  return table;
}

}  // namespace

constexpr std::array<uint8_t, 256> kOpcodeDialects = dialects();

const char* opcode_name(uint8_t byte) noexcept {
  return kByByte[byte] != nullptr ? kByByte[byte]->name : nullptr;
}

}  // namespace tenon::pickle
