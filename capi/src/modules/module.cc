// tenon/module.h: the functions that make modules and add to them.
#include <tenon/module.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "module_arguments.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Status;
using tenon::module::Module;
using tenon::value::TypeRef;
using tenon::value::ValueRef;

namespace {

// Turns CORRUPT into INVALID_ARGUMENT. Source that the caller passes was not damaged in a file, so
// the call is wrong.
Status of_given_source(const Status& status) {
  if (status.code() != Code::kCorrupt) return status;
  return Status(Code::kInvalidArgument, status.message()).with_details_of(status);
}

}  // namespace

extern "C" {

tenon_status tenon_module_new(const char* class_name, tenon_module** out,
                              tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const std::string_view name, read_text(class_name, "class_name"));
    TENON_ASSIGN(Ref<Module> module, Module::create(name));
    *out = handle<tenon_module>(module.detach());
    return Status::ok();
  });
}

tenon_module* tenon_module_retain(tenon_module* module) noexcept {
  if (module != nullptr) counted(module)->retain();
  return module;
}

void tenon_module_release(tenon_module* module) noexcept {
  if (module != nullptr) counted(module)->release();
}

tenon_status tenon_module_add_parameter(tenon_module* module, const char* name, tenon_value* tensor,
                                        tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    return own.add_parameter(text, value_or_none(tensor));
  });
}

tenon_status tenon_module_add_buffer(tenon_module* module, const char* name, tenon_value* tensor,
                                     tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    return own.add_buffer(text, value_or_none(tensor));
  });
}

tenon_status tenon_module_add_attribute(tenon_module* module, const char* name, const char* type,
                                        tenon_value* value, tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(const TypeRef declared, type_or_null(type));
    return own.add_attribute(text, declared, ValueRef::share(object(value)));
  });
}

tenon_status tenon_module_add_constant(tenon_module* module, const char* name, const char* type,
                                       tenon_value* value, tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_TRY(check_argument(value != nullptr, "value is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    TENON_ASSIGN(const TypeRef declared, type_or_null(type));
    return own.add_constant(text, declared, ValueRef::share(object(value)));
  });
}

tenon_status tenon_module_add_submodule(tenon_module* module, const char* name, tenon_module* child,
                                        const char* type, tenon_error** err) noexcept {
  return changing_boundary(module, child, err,
                           [&](Module& own, const Ref<Module>& below) -> Status {
                             TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
                             TENON_ASSIGN(const TypeRef declared, type_or_null(type));
                             return own.add_submodule(text, below, declared);
                           });
}

tenon_status tenon_module_define(tenon_module* module, const char* source,
                                 tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(source, "source"));
    return of_given_source(own.define(text));
  });
}

tenon_status tenon_module_define_types(tenon_module* module, const char* qualifier,
                                       const char* source, tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view below, read_text(qualifier, "qualifier"));
    TENON_ASSIGN(const std::string_view text, read_text(source, "source"));
    return of_given_source(own.define_types(below, text));
  });
}

tenon_status tenon_module_set_hooks(tenon_module* module, int before_forward,
                                    const char* const* names, size_t n,
                                    tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_TRY(check_argument(names != nullptr || n == 0, "names is NULL"));
    std::vector<std::string> methods;
    for (size_t i = 0; i < n; ++i) {
      TENON_ASSIGN(const std::string_view text, read_text(names[i], "a name"));
      methods.emplace_back(text);
    }
    return own.set_hooks(before_forward != 0, std::move(methods));
  });
}

tenon_status tenon_module_set_traced_inputs(tenon_module* module, const char* method,
                                            tenon_value* const* inputs, size_t n,
                                            tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    if (inputs == nullptr && n > 0) return {Code::kInvalidArgument, "inputs is NULL"};
    TENON_ASSIGN(const std::string_view name, read_text(method, "method"));
    std::vector<ValueRef> values;
    for (size_t i = 0; i < n; ++i) {
      TENON_TRY(check_argument(inputs[i] != nullptr, "an input is NULL"));
      values.push_back(ValueRef::share(object(inputs[i])));
    }
    return own.set_traced_inputs(name, std::move(values));
  });
}

tenon_status tenon_module_set_extra_file(tenon_module* module, const char* name, const void* data,
                                         size_t nbytes, tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_TRY(check_argument(data != nullptr || nbytes == 0, "data is NULL"));
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    return own.set_extra_file(text, std::string(static_cast<const char*>(data), nbytes));
  });
}

tenon_status tenon_module_remove_extra_file(tenon_module* module, const char* name,
                                            tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(name, "name"));
    return own.remove_extra_file(text);
  });
}
}
