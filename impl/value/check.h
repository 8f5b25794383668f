// Whether a value fits a declared type, all the way down. PyTorch asks this of nothing that it
// loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "value/type.h"
#include "value/value.h"

namespace tenon::value {

struct Field {
  std::string name;
  TypeRef type;
};

// What the code says of a class. Filled by whoever has the code (impl/module).
struct ClassDecl {
  enum class Kind : uint8_t {
    kObject,      // a module or a plain class: fields are its attributes
    kInterface,   // what implements it, fits
    kNamedTuple,  // fields in their order
    kEnum,
    kOpaque,  // a custom C++ class: nothing is known of its state
  };
  Kind kind = Kind::kObject;
  std::vector<Field> fields;
  std::vector<ValueRef> enum_values;  // kEnum: every value that it has
  size_t methods = 0;                 // kInterface: how many it wants
  // kObject with __getstate__ and __setstate__: its objects are opaque.
  bool has_state = false;
  TypeRef state_type;  // of that state; null: not known, not checked
};

class ClassTable {
 public:
  virtual ~ClassTable() = default;
  // Null if there is no such class. The pointer stays good while the check runs, the same for the
  // same name.
  virtual const ClassDecl* find(std::string_view class_name) const = 0;
  // Whether an object of `class_name` may stand where `declared` is wanted, names being unequal: a
  // module for the interface it has all methods of.
  virtual bool implements(std::string_view class_name, std::string_view declared) const = 0;
};

// Of many objects of one class in a row, the class is looked up once.
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
  // null: classes fit by equal names, and objects are not looked into.
  const ClassTable* classes = nullptr;
  // An object may have attributes that its class does not declare (PyTorch drops them).
  bool extra_attributes = false;
  size_t max_depth = 512;
  // Null: no bound. Else so many steps are left for this check and those after it, and
  // RESOURCE_EXHAUSTED ends the check that needs more. A step is a value with a type that it is
  // tried for, an attribute that a class declares, or a part of two types that are compared. The
  // memory is at most 16 bytes for a step.
  uint64_t* steps_left = nullptr;
};

// OK if `value` fits `type`: an int is no float; a list or dict that says its type says the
// declared one, item types are the same and not only compatible; one that says none is looked at
// item by item; a NamedTuple fits the Tuple of its fields' types. INVALID_ARGUMENT with the path of
// what does not fit, which starts with `path` (empty: of the root of all): "w[3].b: Tensor wanted,
// int found"; details "where", "wanted", "found". Objects are looked into once each, whatever their
// number of owners.
Status check_value(Value& value, const Type& type, std::string_view path,
                   const CheckOptions& options = {});

// The attributes of an object against its own class: missing and extra ones are named, and each is
// checked. What check_value does below objects.
Status check_object(Value& object, std::string_view path, const CheckOptions& options);

// The type that a value shows by itself: "List[int]" as declared, "Tuple[int, str]" of its items, a
// class by its name. A list or dict that says none is what PyTorch's reader makes of one:
// List[Any], Dict[Any, Any]. INVALID_ARGUMENT if the type would be too large.
Result<TypeRef> type_of(const Value& value);

}  // namespace tenon::value
