#include "archive/pickle_opcodes.h"

#include <array>

namespace tenon::archive {
namespace {

struct Fact {
  Opcode opcode;
  const char* name;
  bool in_module_dialect;
};

constexpr Fact kFacts[] = {
    {Opcode::kMark, "MARK", true},
    {Opcode::kStop, "STOP", true},
    {Opcode::kPop, "POP", false},
    {Opcode::kPopMark, "POP_MARK", false},
    {Opcode::kDup, "DUP", false},
    {Opcode::kFloat, "FLOAT", false},
    {Opcode::kInt, "INT", false},
    {Opcode::kBinInt, "BININT", true},
    {Opcode::kBinInt1, "BININT1", true},
    {Opcode::kLong, "LONG", false},
    {Opcode::kBinInt2, "BININT2", true},
    {Opcode::kNone, "NONE", true},
    {Opcode::kPersId, "PERSID", false},
    {Opcode::kBinPersId, "BINPERSID", true},
    {Opcode::kReduce, "REDUCE", true},
    {Opcode::kString, "STRING", false},
    {Opcode::kBinString, "BINSTRING", false},
    {Opcode::kShortBinString, "SHORT_BINSTRING", false},
    {Opcode::kUnicode, "UNICODE", false},
    {Opcode::kBinUnicode, "BINUNICODE", true},
    {Opcode::kAppend, "APPEND", true},
    {Opcode::kBuild, "BUILD", true},
    {Opcode::kGlobal, "GLOBAL", true},
    {Opcode::kDict, "DICT", true},
    {Opcode::kEmptyDict, "EMPTY_DICT", true},
    {Opcode::kAppends, "APPENDS", true},
    {Opcode::kGet, "GET", false},
    {Opcode::kBinGet, "BINGET", true},
    {Opcode::kInst, "INST", false},
    {Opcode::kLongBinGet, "LONG_BINGET", true},
    {Opcode::kList, "LIST", true},
    {Opcode::kEmptyList, "EMPTY_LIST", true},
    {Opcode::kObj, "OBJ", false},
    {Opcode::kPut, "PUT", false},
    {Opcode::kBinPut, "BINPUT", true},
    {Opcode::kLongBinPut, "LONG_BINPUT", true},
    {Opcode::kSetItem, "SETITEM", true},
    {Opcode::kTuple, "TUPLE", true},
    {Opcode::kEmptyTuple, "EMPTY_TUPLE", true},
    {Opcode::kSetItems, "SETITEMS", true},
    {Opcode::kBinFloat, "BINFLOAT", true},
    {Opcode::kProto, "PROTO", true},
    {Opcode::kNewObj, "NEWOBJ", true},
    {Opcode::kExt1, "EXT1", false},
    {Opcode::kExt2, "EXT2", false},
    {Opcode::kExt4, "EXT4", false},
    {Opcode::kTuple1, "TUPLE1", true},
    {Opcode::kTuple2, "TUPLE2", true},
    {Opcode::kTuple3, "TUPLE3", true},
    {Opcode::kNewTrue, "NEWTRUE", true},
    {Opcode::kNewFalse, "NEWFALSE", true},
    {Opcode::kLong1, "LONG1", true},
    {Opcode::kLong4, "LONG4", false},
    {Opcode::kBinBytes, "BINBYTES", false},
    {Opcode::kShortBinBytes, "SHORT_BINBYTES", false},
    {Opcode::kShortBinUnicode, "SHORT_BINUNICODE", false},
    {Opcode::kBinUnicode8, "BINUNICODE8", true},
    {Opcode::kBinBytes8, "BINBYTES8", false},
    {Opcode::kEmptySet, "EMPTY_SET", false},
    {Opcode::kAddItems, "ADDITEMS", false},
    {Opcode::kFrozenSet, "FROZENSET", false},
    {Opcode::kNewObjEx, "NEWOBJ_EX", false},
    {Opcode::kStackGlobal, "STACK_GLOBAL", false},
    {Opcode::kMemoize, "MEMOIZE", false},
    {Opcode::kFrame, "FRAME", false},
    {Opcode::kByteArray8, "BYTEARRAY8", false},
    {Opcode::kNextBuffer, "NEXT_BUFFER", false},
    {Opcode::kReadOnlyBuffer, "READONLY_BUFFER", false},
};

constexpr std::array<const Fact*, 256> by_byte() {
  std::array<const Fact*, 256> table{};
  for (const Fact& fact : kFacts) table[static_cast<uint8_t>(fact.opcode)] = &fact;
  return table;
}

constexpr std::array<const Fact*, 256> kByByte = by_byte();

}  // namespace

const char* opcode_name(uint8_t byte) noexcept { return kByByte[byte] != nullptr ? kByByte[byte]->name : nullptr; }

bool opcode_in_module_dialect(uint8_t byte) noexcept { return kByByte[byte] != nullptr && kByByte[byte]->in_module_dialect; }

}  // namespace tenon::archive
