// Sugar: what an expression stands for while it is compiled: a value that exists at run time, or a name that only the compiler knows.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compile/graph.h"
#include "compile/unit.h"
#include "script/frontend_names.h"

namespace tenon::compile {

struct Sugar {
  enum class Kind : uint8_t {
    kValue,      // value
    kValues,     // values: the results of an operator that has several; a tuple if one value is wanted
    kGlobal,     // global, name
    kNamespace,  // name: operators of "aten"
    kOperator,   // name: "aten::relu"; value: what stood before the dot, or null
    kCast,       // number: the ScalarType that a method such as `x.float()` converts to; value
    kQualified,  // name: the beginning of a qualified name
    kClass,      // name: a class of the archive, or a custom class
    kFunction,   // header
    kMethod,     // header; value: the object
    kInterface,  // header of an interface's method; value: the object
    kCustom,     // name: a method of a custom class; value: the object; returns
  };
  Kind kind = Kind::kValue;
  GraphValue* value = nullptr;
  std::vector<GraphValue*> values;
  script::Global global = script::Global::kNumber;
  std::string name;
  const Header* header = nullptr;
  value::TypeRef returns;
  int64_t number = 0;

  static Sugar of(GraphValue* value) {
    Sugar made;
    made.value = value;
    return made;
  }
  static Sugar of(Kind kind, std::string name, GraphValue* value = nullptr) {
    Sugar made;
    made.kind = kind;
    made.name = std::move(name);
    made.value = value;
    return made;
  }
};

}  // namespace tenon::compile
