// SugaredValue: what an expression stands for while the function compiler compiles it. That is a
// value that exists at run time, or something that only the compiler knows, such as a class or a
// method.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/compile/graph.h"
#include "modules/compile/unit.h"
#include "modules/script/frontend_names.h"

namespace tenon::compile {

// A nested function, which `fork` calls. It sees the variables of the function around it.
struct Closure {
  const script::Function* function = nullptr;
  std::vector<std::pair<std::string_view, GraphValue*>> captured;  // name and value
};

// Something that a loop can iterate over. `range(n)`, `zip(a, b)` and `enumerate(a)` are iterables
// and no values.
struct Iterable {
  enum class Kind : uint8_t { kRange, kList, kText, kTensor, kTuple, kEnumerate, kZip };
  Kind kind = Kind::kList;
  GraphValue* value = nullptr;
  GraphValue* start = nullptr;  // for range and enumerate
  GraphValue* stop = nullptr;
  GraphValue* step = nullptr;      // null: 1, and start is 0
  std::vector<GraphValue*> items;  // the items of a tuple; the loop is unrolled
  std::vector<Iterable> parts;     // the operands of enumerate and zip
};

// The pointers are borrowed: from the graph, the Unit and the function compiler.
struct SugaredValue {
  // The comment of a kind names the fields that it uses.
  enum class Kind : uint8_t {
    kValue,  // value
    // values: the results of an operator with several results, which become a tuple if one value is
    // wanted; name: the operator's
    kValues,
    kGlobal,     // global, name
    kNamespace,  // name: a namespace of operators, such as "aten"
    kOperator,   // name: "aten::relu"; value: the value before the dot, or null
    kCast,       // number: the ScalarType that a method such as `x.float()` converts to; value
    kQualified,  // name: the beginning of a qualified name
    kClass,      // name: a class of the archive, or a custom class
    kFunction,   // header
    kMethod,     // header; value: the object
    kInterface,  // header of an interface's method; value: the object
    kCustom,     // name: a method of a custom class; value: the object; returns: the result's type
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

  static SugaredValue of(GraphValue* value) {
    SugaredValue made;
    made.value = value;
    return made;
  }
  static SugaredValue of(Kind kind, std::string name, GraphValue* value = nullptr) {
    SugaredValue made;
    made.kind = kind;
    made.name = std::move(name);
    made.value = value;
    return made;
  }
};

}  // namespace tenon::compile
