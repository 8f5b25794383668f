// Schema: the typed signature of one overload of an operator, parsed from the text of the schema
// table (schema_table.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::script {

// The type of an argument or a result. It is wider than value::Type: it has type variables, lists
// of a fixed size, and `Scalar`, `ScalarType` and their like.
struct SchemaType {
  enum class Kind : uint8_t {
    // simple: Tensor, int, float, bool, complex, str, Device, NoneType, number, Generator, Stream,
    // Capsule, Any, list, tuple.
    kSimple,
    kVariable,  // name: a type variable such as "t", bound by the first argument that has it
    kList,      // parts[0]
    kDict,      // parts[0], parts[1]
    kTuple,     // parts
    kOptional,  // parts[0]
    kUnion,     // parts
    kFuture,    // parts[0]
    kRRef,      // parts[0]
    kAwait,     // parts[0]
    kAnyEnum,   // a value of any enum
    kAnyClass,  // an object of any class
    kClass,     // name: a custom class, "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    // name: a type that no value of TorchScript source has, such as Storage and QScheme. No value
    // can be given for an argument of such a type.
    kOther,
  };
  Kind kind = Kind::kOther;
  value::TypeKind simple = value::TypeKind::kAny;
  std::string name;
  std::vector<SchemaType> parts;
  // kList: "int[2]" has 2. One value stands for a list of that many. 0: any size.
  uint32_t fixed_size = 0;

  bool operator==(const SchemaType&) const = default;
};

struct SchemaArgument {
  std::string name;
  SchemaType type;
  value::ValueRef default_value;  // null: required
  bool keyword_only = false;
  bool is_out = false;      // keyword-only and written to: an `out=` argument
  bool is_written = false;  // the operator writes to it: "Tensor(a!)"
};

struct Schema {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; empty: none
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaType> returns;
  bool takes_more = false;    // "...": any number of further arguments
  bool returns_more = false;  // "-> ...": the compiler knows the results
};

}  // namespace tenon::script
