// Checks whether a value fits a declared type, all the way down. Imports, and setters of a module's
// attributes, call it. PyTorch does not check what it loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::value {

struct Field {
  std::string name;
  TypeRef type;
};

// A class as the code declares it. impl/modules/module, which has the code, fills this in.
struct ClassDecl {
  enum class Kind : uint8_t {
    kObject,      // a module or a plain class; `fields` are its attributes
    kInterface,   // an object of a class that implements it fits
    kNamedTuple,  // `fields` are in their order
    kEnum,
    kOpaque,  // a custom C++ class; nothing is known of its state
  };
  Kind kind = Kind::kObject;
  std::vector<Field> fields;
  std::vector<ValueRef> enum_values;  // kEnum: all of its values
  size_t methods = 0;                 // kInterface: the number of its methods
  // For kObject: the class has __getstate__ and __setstate__, so its objects are opaque (they have
  // a state instead of attributes).
  bool has_state = false;
  TypeRef state_type;  // of that state; null: unknown, so the state is not checked against a type
};

class ClassTable {
 public:
  virtual ~ClassTable() = default;
  // Null if there is no such class. The pointer must stay valid while the check runs, and equal
  // names must give equal pointers.
  virtual const ClassDecl* find(std::string_view class_name) const = 0;
  // Whether an object of `class_name` may stand where `declared` is wanted, if the names differ. An
  // example is a module that has all methods of an interface.
  virtual bool implements(std::string_view class_name, std::string_view declared) const = 0;
};

// A cache of the last class that was found, because objects of one class often come in a row. The
// table must outlive the cache and not change meanwhile.
class LastClass {
 public:
  explicit LastClass(const ClassTable* classes) noexcept : classes_(classes) {}
  const ClassDecl* find(std::string_view class_name) {
    if (decl_ == nullptr || class_name != name_) {
      decl_ = classes_->find(class_name);
      name_ = class_name;
    }
    return decl_;
  }

 private:
  const ClassTable* classes_;
  const ClassDecl* decl_ = nullptr;
  std::string name_;
};

struct CheckOptions {
  // Borrowed for the check, as `steps_left` is. Null: a class fits if the names are equal, and the
  // attributes of objects are not checked.
  const ClassTable* classes = nullptr;
  // Whether an object may have attributes that its class does not declare. PyTorch drops them.
  bool extra_attributes = false;
  size_t max_depth = 512;
  // Null: no limit. Otherwise the number of steps that are left for this check and the checks after
  // it. A check that needs more sets the number to 0 and ends with RESOURCE_EXHAUSTED (limit
  // steps_left). One step is a value together with a type against which it is tried, an attribute
  // that a class declares, or a part of two types that are compared. The memory used is at most 16
  // bytes for each step.
  uint64_t* steps_left = nullptr;
};

// OK if `value` fits `type`. An int is no float. A list or dict that says its type must say the
// declared one: item types must be equal and not only compatible. The items are checked in any
// case, also those of a list or dict that says no type. A NamedTuple fits the Tuple of its fields'
// types. Otherwise INVALID_ARGUMENT with the path of the value that does not fit: "w[3].b: Tensor
// wanted, int found". The path starts with `path`, which is empty for the root of the whole tree.
// The details are "where" and, for a value of a wrong type, "wanted" and "found". An object is
// checked once, however many owners it has. The caller holds ReadTrees or ChangeTrees (tree_lock.h)
// if other threads can reach the objects.
Status check_value(Value& value, const Type& type, std::string_view path,
                   const CheckOptions& options = {});

// Checks the attributes of an object, or its state, against its own class. Missing and extra
// attributes are named in the error, and each attribute is checked. Without `classes` the result is
// OK. check_value() does the same for every object that it meets.
Status check_object(Value& object, std::string_view path, const CheckOptions& options);

// The type that a value shows by itself: "List[int]" for a list that says its type, "Tuple[int,
// str]" from the items of a tuple, a class by its name. For a list or dict that says none, it is
// the type that PyTorch's reader assumes: List[Any], Dict[Any, Any]. INVALID_ARGUMENT if the type
// would be too large.
Result<TypeRef> type_of(const Value& value);

}  // namespace tenon::value
