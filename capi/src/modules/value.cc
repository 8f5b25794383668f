// tenon/value.h: the functions that make values, count their references and check their types.
#include <tenon/value.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "modules/value/check.h"
#include "tensor/name.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Result;
using tenon::Status;
using tenon::value::Attribute;
using tenon::value::DictEntry;
using tenon::value::ReadTrees;
using tenon::value::Type;
using tenon::value::TypeKind;
using tenon::value::TypeRef;
using tenon::value::Value;
using tenon::value::ValueKind;
using tenon::value::ValueRef;

static_assert(static_cast<int>(ValueKind::kNone) == TENON_VALUE_NONE &&
              static_cast<int>(ValueKind::kDevice) == TENON_VALUE_DEVICE &&
              static_cast<int>(ValueKind::kTuple) == TENON_VALUE_TUPLE &&
              static_cast<int>(ValueKind::kObject) == TENON_VALUE_OBJECT);

namespace {

template <typename Make>
tenon_status make_value(tenon_value** out, tenon_error** err, Make make) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(ValueRef value, make());
    *out = handle<tenon_value>(value.detach());
    return Status::ok();
  });
}

Result<ValueRef> share_value(tenon_value* value, const char* what) {
  if (value == nullptr) return Status(Code::kInvalidArgument, what);
  return ValueRef::share(object(value));
}

Result<std::vector<ValueRef>> share_values(tenon_value* const* values, size_t n, const char* name) {
  if (values == nullptr && n > 0)
    return Status(Code::kInvalidArgument, tenon::format("%s is NULL", name));
  std::vector<ValueRef> shared;
  if (n > shared.max_size()) return Status(Code::kInvalidArgument, "n is larger than memory");
  shared.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (values[i] == nullptr)
      return Status(Code::kInvalidArgument, tenon::format("%s[%zu] is NULL", name, i));
    shared.push_back(ValueRef::share(object(values[i])));
  }
  return shared;
}

Result<std::string> class_name_of(const char* class_name) {
  if (class_name == nullptr) return Status(Code::kInvalidArgument, "class_name is NULL");
  TENON_ASSIGN(const TypeRef type, Type::class_type(class_name));
  return type->class_name();
}

// Gives null for NULL.
Result<TypeRef> type_of_kind(const char* text, TypeKind kind, const char* wanted) {
  if (text == nullptr) return TypeRef();
  TENON_ASSIGN(TypeRef type, Type::parse(text));
  if (type->kind() != kind)
    return Status(Code::kInvalidArgument,
                  tenon::format("the type of a %s cannot be %s", wanted, type->print().c_str()));
  return type;
}

}  // namespace

extern "C" {

tenon_status tenon_value_new_none(tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, []() -> Result<ValueRef> { return Value::none(); });
}

tenon_status tenon_value_new_bool(int value, tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> { return Value::of_bool(value != 0); });
}

tenon_status tenon_value_new_int(int64_t value, tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> { return Value::of_int(value); });
}

tenon_status tenon_value_new_float(double value, tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> { return Value::of_float(value); });
}

tenon_status tenon_value_new_complex(double real, double imaginary, tenon_value** out,
                                     tenon_error** err) noexcept {
  return make_value(out, err,
                    [&]() -> Result<ValueRef> { return Value::of_complex({real, imaginary}); });
}

tenon_status tenon_value_new_str(const char* utf8, size_t nbytes, tenon_value** out,
                                 tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_TRY(check_argument(utf8 != nullptr || nbytes == 0, "utf8 is NULL"));
    const std::string_view text(utf8, nbytes);
    TENON_TRY(check_argument(tenon::tensor::is_utf8(text), "the text is no UTF-8"));
    return Value::of_str(std::string(text));
  });
}

tenon_status tenon_value_new_device(const char* name, tenon_value** out,
                                    tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_TRY(check_argument(!text.empty(), "the name of the device is empty"));
    return Value::of_device(std::string(text));
  });
}

tenon_status tenon_value_new_tuple(const char* class_name, tenon_value* const* items, size_t n,
                                   tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    std::string name;
    if (class_name != nullptr) {
      TENON_ASSIGN(name, class_name_of(class_name));
    }
    TENON_ASSIGN(std::vector<ValueRef> shared, share_values(items, n, "items"));
    return Value::tuple(std::move(shared), std::move(name));
  });
}

tenon_status tenon_value_new_list(const char* type, tenon_value* const* items, size_t n,
                                  tenon_value** out, tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(TypeRef declared, type_of_kind(type, TypeKind::kList, "list"));
    TENON_ASSIGN(std::vector<ValueRef> shared, share_values(items, n, "items"));
    ValueRef list = Value::list(declared, std::move(shared));
    if (!declared) return list;
    const ReadTrees reading;
    TENON_TRY(tenon::value::check_value(*list, *declared, "list"));
    return list;
  });
}

tenon_status tenon_value_new_dict(const char* type, tenon_value* const* keys,
                                  tenon_value* const* values, size_t n, tenon_value** out,
                                  tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(TypeRef declared, type_of_kind(type, TypeKind::kDict, "dict"));
    TENON_ASSIGN(std::vector<ValueRef> shared_keys, share_values(keys, n, "keys"));
    TENON_ASSIGN(std::vector<ValueRef> shared_values, share_values(values, n, "values"));
    std::vector<DictEntry> entries(n);
    for (size_t i = 0; i < n; ++i)
      entries[i] = {std::move(shared_keys[i]), std::move(shared_values[i])};
    TENON_ASSIGN(ValueRef dict, Value::dict(declared, std::move(entries)));
    if (!declared) return dict;
    const ReadTrees reading;
    TENON_TRY(tenon::value::check_value(*dict, *declared, "dict"));
    return dict;
  });
}

tenon_status tenon_value_new_enum(const char* class_name, tenon_value* value, tenon_value** out,
                                  tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(std::string name, class_name_of(class_name));
    TENON_ASSIGN(ValueRef shared, share_value(value, "value is NULL"));
    const bool good =
        shared->is(ValueKind::kInt) || shared->is(ValueKind::kFloat) || shared->is(ValueKind::kStr);
    TENON_TRY(check_argument(good, "the value of an enum is an int, a float or a str"));
    return Value::enumeration(std::move(name), std::move(shared));
  });
}

tenon_status tenon_value_new_object(const char* class_name, const char* const* names,
                                    tenon_value* const* values, size_t n, tenon_value** out,
                                    tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(std::string name, class_name_of(class_name));
    TENON_ASSIGN(std::vector<ValueRef> shared, share_values(values, n, "values"));
    TENON_TRY(check_argument(names != nullptr || n == 0, "names is NULL"));
    std::vector<Attribute> attributes(n);
    for (size_t i = 0; i < n; ++i) {
      TENON_ASSIGN(const std::string_view text, read_text(names[i], "a name"));
      TENON_TRY(check_argument(!text.empty(), "a name is empty"));
      attributes[i] = {std::string(text), std::move(shared[i])};
    }
    return Value::object(std::move(name), std::move(attributes));
  });
}

tenon_status tenon_value_new_opaque(const char* class_name, tenon_value* state, tenon_value** out,
                                    tenon_error** err) noexcept {
  return make_value(out, err, [&]() -> Result<ValueRef> {
    TENON_ASSIGN(std::string name, class_name_of(class_name));
    TENON_ASSIGN(ValueRef shared, share_value(state, "state is NULL"));
    return Value::object_with_state(std::move(name), std::move(shared));
  });
}

tenon_value* tenon_value_retain(tenon_value* value) noexcept {
  if (value != nullptr) object(value)->retain();
  return value;
}

void tenon_value_release(tenon_value* value) noexcept {
  if (value != nullptr) object(value)->release();
}

tenon_status tenon_value_type(const tenon_value* value, char* out, size_t capacity, size_t* nbytes,
                              tenon_error** err) noexcept {
  return reading_boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    Result<TypeRef> type = tenon::value::type_of(*object(value));
    if (type.is_ok()) return publish_text(type.value()->print(), out, capacity, nbytes);
    // Two kinds of values have no type: one whose class name, from a file, is not valid, and a
    // tuple that is too large for a type.
    const std::string_view class_name = tenon_value_class_name(value);
    return publish_text(class_name.empty() ? "tuple" : class_name, out, capacity, nbytes);
  });
}

tenon_status tenon_value_check(tenon_value* value, const char* type, tenon_error** err) noexcept {
  return reading_boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    TENON_TRY(check_argument(type != nullptr, "type is NULL"));
    TENON_ASSIGN(const TypeRef declared, Type::parse(type));
    return tenon::value::check_value(*object(value), *declared, "value");
  });
}

tenon_status tenon_type_text(const char* type, char* out, size_t capacity, size_t* nbytes,
                             tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(type != nullptr, "type is NULL"));
    TENON_ASSIGN(const TypeRef parsed, Type::parse(type));
    return publish_text(parsed->print(), out, capacity, nbytes);
  });
}
}
