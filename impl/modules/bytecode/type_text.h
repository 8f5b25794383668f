// Reads the texts of a function's table of types. PyTorch's loader parses each of them when it
// loads a function, and it reads foreign memory for a Union or a text that is nested too deep. The
// verifier and compile/lite_type.cc call this parser.
//
// The grammar is in docs/format/bytecode.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tenon::bytecode {

// The kinds of types that instructions distinguish.
enum class TypeForm : uint8_t {
  kOther,
  kList,
  kDict,
  kTuple,
  kNamedTuple,   // a NamedTuple with its definition: "__torch__.P[NamedTuple, [[x, Tensor]]]"
  kName,         // a NamedTuple whose definition stands elsewhere: "__torch__.P"
  kCustomClass,  // "__torch__.torch.classes.ns.C"
};

struct TypeShape {
  TypeForm form = TypeForm::kOther;
  size_t parts = 0;  // the number of items of a Tuple or NamedTuple
};

// The deepest nesting that the parser takes. PyTorch writes fewer levels. Tenon's compiler stops at
// 64, and a level of a NamedTuple counts as up to three levels here.
inline constexpr size_t kMaxTypeTextDepth = 256;

// CORRUPT for a text that is no type. UNSUPPORTED for a type that PyTorch's loader does not read.
// RESOURCE_EXHAUSTED if it is nested too deep. The message says what is wrong, and at which byte.
Result<TypeShape> parse_type_text(std::string_view text);

}  // namespace tenon::bytecode
