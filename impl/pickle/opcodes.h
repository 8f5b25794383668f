// The opcodes of pickle, named as in Python's documentation. The reader (machine.h) and the writers
// of pickles (writer.h, object/object_to_pickle.cc) use them.
#pragma once

#include <array>
#include <cstdint>

namespace tenon::pickle {

enum class Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kPersId = 'P',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kInst = 'i',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kObj = 'o',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  // Protocol 2.
  kProto = 0x80,
  kNewObj = 0x81,
  kExt1 = 0x82,
  kExt2 = 0x83,
  kExt4 = 0x84,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  // Protocol 3.
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  // Protocol 4.
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kNewObjEx = 0x92,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  // Protocol 5.
  kByteArray8 = 0x96,
  kNextBuffer = 0x97,
  kReadOnlyBuffer = 0x98,
};

// The opcode's name, such as "BINPUT". Null if the byte is no opcode.
const char* opcode_name(uint8_t byte) noexcept;

// For each byte, a set of two bits. kOpcodeOfModules: a version of PyTorch's C++ unpickler reads
// this opcode, so a module archive may contain it. kOpcodeOfAll: the byte is an opcode.
inline constexpr uint8_t kOpcodeOfModules = 1;
inline constexpr uint8_t kOpcodeOfAll = 2;
extern const std::array<uint8_t, 256> kOpcodeDialects;

inline bool opcode_in_module_dialect(uint8_t byte) noexcept {
  return (kOpcodeDialects[byte] & kOpcodeOfModules) != 0;
}

}  // namespace tenon::pickle
