// Sugar: what an expression stands for while it is compiled: a value that exists at run time, or a
// name that only the compiler knows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/graph.h"
#include "compile/unit.h"
#include "script/frontend_names.h"

namespace tenon::compile {

// A function within a function, which `fork` calls. It sees the variables around it.
struct Closure {
  const script::Function* function = nullptr;
  std::vector<std::pair<std::string_view, GraphValue*>> captured;  // name and value
};

// What a loop goes over. `range(n)`, `zip(a, b)` and `enumerate(a)` are this and no values.
struct Iterable {
  enum class Kind : uint8_t { kRange, kList, kText, kTensor, kTuple, kEnumerate, kZip };
  Kind kind = Kind::kList;
  GraphValue* value = nullptr;
  GraphValue* start = nullptr;  // of a range, and of enumerate
  GraphValue* stop = nullptr;
  GraphValue* step = nullptr;      // null: 1, and start is 0
  std::vector<GraphValue*> items;  // of a tuple: the loop is unrolled
  std::vector<Iterable> parts;     // of enumerate and zip
};

struct Sugar {
  enum class Kind : uint8_t {
    kValue,      // value
    kValues,     // values: the results of an operator that has several; a tuple if one value is
                 // wanted; name: of the operator
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
    kClosure,    // closure
    kIterable,   // iterable; name: "range", "zip" or "enumerate"
  };
  Kind kind = Kind::kValue;
  GraphValue* value = nullptr;
  std::vector<GraphValue*> values;
  script::Global global = script::Global::kNumber;
  std::string name;
  const Header* header = nullptr;
  const Closure* closure = nullptr;
  std::shared_ptr<const Iterable> iterable;
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
