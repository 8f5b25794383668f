// tenon/value.h: the functions that look into a value.
#include <tenon/value.h>

#include <optional>
#include <string>

#include "boundary.h"
#include "handles.h"
#include "modules/value/tree_lock.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Status;
using tenon::value::ReadTrees;
using tenon::value::Value;
using tenon::value::ValueKind;
using tenon::value::ValueRef;

namespace {

Status check_kind(const tenon_value* value, ValueKind kind, bool has_out) {
  TENON_TRY(check_argument(value != nullptr, "value is NULL"));
  TENON_TRY(check_argument(has_out, "out is NULL"));
  if (object(value)->is(kind)) return Status::ok();
  return {Code::kInvalidArgument,
          tenon::format("the value is a %s and no %s",
                        tenon::value::value_kind_name(object(value)->kind()),
                        tenon::value::value_kind_name(kind))};
}

Status check_item_index(size_t index, size_t count) {
  if (index < count) return Status::ok();
  return {Code::kInvalidArgument,
          tenon::format("there is no item %zu: the value has %zu", index, count)};
}

// Holds the lock of trees if the value is an object, because other values never change.
class ReadValue {
 public:
  explicit ReadValue(const tenon_value* value) noexcept {
    if (value != nullptr && object(value)->is(ValueKind::kObject)) reading_.emplace();
  }

 private:
  std::optional<ReadTrees> reading_;
};

// Call the next two under a ReadValue.
size_t item_count(const Value& value) noexcept {
  return value.is(ValueKind::kDict) ? value.entries().size() : value.child_count();
}

bool has_attributes(const tenon_value* value) noexcept {
  return value != nullptr && object(value)->is(ValueKind::kObject) && !object(value)->is_opaque();
}

tenon_value* new_reference(Value& value) noexcept {
  return handle<tenon_value>(ValueRef::share(&value).detach());
}

}  // namespace

extern "C" {

int32_t tenon_value_kind(const tenon_value* value) noexcept {
  return value == nullptr ? -1 : static_cast<int32_t>(object(value)->kind());
}

const char* tenon_value_class_name(const tenon_value* value) noexcept {
  if (value == nullptr) return "";
  switch (object(value)->kind()) {
    case ValueKind::kTuple:
    case ValueKind::kEnum:
    case ValueKind::kObject: return object(value)->class_name().c_str();
    default: return "";
  }
}

int tenon_value_is_opaque(const tenon_value* value) noexcept {
  const ReadValue reading(value);
  return value != nullptr && object(value)->is(ValueKind::kObject) && object(value)->is_opaque()
             ? 1
             : 0;
}

size_t tenon_value_count(const tenon_value* value) noexcept {
  const ReadValue reading(value);
  return value == nullptr ? 0 : item_count(*object(value));
}

tenon_status tenon_value_item(const tenon_value* value, size_t index, tenon_value** out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const ReadValue reading(value);
    const Value& from = *object(value);
    TENON_TRY(check_item_index(index, item_count(from)));
    *out = new_reference(from.child(from.is(ValueKind::kDict) ? 2 * index + 1 : index));
    return Status::ok();
  });
}

tenon_status tenon_value_key(const tenon_value* value, size_t index, tenon_value** out,
                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kDict, out != nullptr));
    TENON_TRY(check_item_index(index, object(value)->entries().size()));
    *out = new_reference(*object(value)->entries()[index].key);
    return Status::ok();
  });
}

const char* tenon_value_attribute_name(const tenon_value* value, size_t index) noexcept {
  const char* name = nullptr;
  (void)boundary(nullptr, [&]() -> Status {
    const ReadValue reading(value);
    if (has_attributes(value) && index < object(value)->attributes().size())
      name = object(value)->lend_name(index);
    return Status::ok();
  });
  return name;
}

tenon_status tenon_value_find(const tenon_value* value, const char* name, tenon_value** out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    TENON_TRY(check_argument(name != nullptr, "name is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const ReadValue reading(value);
    const bool is_dict = object(value)->is(ValueKind::kDict);
    TENON_TRY(check_argument(is_dict || has_attributes(value),
                             "the value is no dict, and no object with attributes"));
    const ValueRef* const found =
        is_dict ? object(value)->find(name) : object(value)->attributes().find(name);
    if (found == nullptr)
      return {Code::kNotFound,
              tenon::format("there is no %s '%s'", is_dict ? "key" : "attribute", name)};
    *out = new_reference(**found);
    return Status::ok();
  });
}

tenon_status tenon_value_get_bool(const tenon_value* value, int* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kBool, out != nullptr));
    *out = object(value)->as_bool() ? 1 : 0;
    return Status::ok();
  });
}

tenon_status tenon_value_get_int(const tenon_value* value, int64_t* out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kInt, out != nullptr));
    *out = object(value)->as_int();
    return Status::ok();
  });
}

tenon_status tenon_value_get_float(const tenon_value* value, double* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kFloat, out != nullptr));
    *out = object(value)->as_float();
    return Status::ok();
  });
}

tenon_status tenon_value_get_complex(const tenon_value* value, double* real, double* imaginary,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kComplex, real != nullptr));
    TENON_TRY(check_argument(imaginary != nullptr, "imaginary is NULL"));
    *real = object(value)->as_complex().real();
    *imaginary = object(value)->as_complex().imag();
    return Status::ok();
  });
}

tenon_status tenon_value_get_str(const tenon_value* value, const char** out, size_t* nbytes,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kStr, out != nullptr));
    *out = object(value)->as_str().c_str();
    if (nbytes != nullptr) *nbytes = object(value)->as_str().size();
    return Status::ok();
  });
}

tenon_status tenon_value_get_device(const tenon_value* value, const char** out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_kind(value, ValueKind::kDevice, out != nullptr));
    *out = object(value)->as_device().c_str();
    return Status::ok();
  });
}
}
