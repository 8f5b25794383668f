// tenon/module.h: the functions that replace and remove members.
#include <tenon/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handles.h"
#include "module_arguments.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Result;
using tenon::Status;
using tenon::module::LoadOptions;
using tenon::module::LoadReport;
using tenon::module::Module;
using tenon::module::NamedTensor;
using tenon::value::ValueKind;

namespace {

Result<std::vector<NamedTensor>> read_tensors(const char* const* paths, tenon_value* const* tensors,
                                              size_t n) {
  TENON_TRY(check_argument(paths != nullptr || n == 0, "paths is NULL"));
  TENON_TRY(check_argument(tensors != nullptr || n == 0, "tensors is NULL"));
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < n; ++i) {
    TENON_ASSIGN(const std::string_view path, read_text(paths[i], "a path"));
    named.push_back({std::string(path), value_or_none(tensors[i])});
    const ValueKind kind = named.back().value->kind();
    if (kind != ValueKind::kTensor && kind != ValueKind::kNone) {
      return Status(Code::kInvalidArgument,
                    tenon::format("\"%.200s\": a tensor is wanted, and a %s is given",
                                  named.back().name.c_str(), tenon::value::value_kind_name(kind)));
    }
  }
  return named;
}

}  // namespace

extern "C" {

tenon_status tenon_module_set(tenon_module* module, const char* path, tenon_value* value,
                              tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(path, "path"));
    return own.set(text, value_or_none(value));
  });
}

tenon_status tenon_module_set_state(tenon_module* module, const char* path, tenon_value* state,
                                    tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(path, "path"));
    return own.set_state(text, value_or_none(state));
  });
}

tenon_status tenon_module_set_submodule(tenon_module* module, const char* path, tenon_module* child,
                                        tenon_error** err) noexcept {
  return changing_boundary(module, child, err,
                           [&](Module& own, const Ref<Module>& below) -> Status {
                             TENON_ASSIGN(const std::string_view text, read_text(path, "path"));
                             return own.set_submodule(text, below);
                           });
}

tenon_status tenon_module_remove(tenon_module* module, const char* path,
                                 tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_ASSIGN(const std::string_view text, read_text(path, "path"));
    return own.remove(text);
  });
}

tenon_status tenon_module_load(tenon_module* module, const char* const* paths,
                               tenon_value* const* tensors, size_t n, uint32_t flags,
                               tenon_name_list** missing, tenon_name_list** unexpected,
                               tenon_error** err) noexcept {
  return changing_boundary(module, err, [&](Module& own) -> Status {
    TENON_TRY(check_flags(
        flags, TENON_LOAD_ALLOW_MISSING | TENON_LOAD_ALLOW_UNEXPECTED | TENON_LOAD_CHECK_ONLY,
        "tenon_module_load"));
    TENON_ASSIGN(const std::vector<NamedTensor> named, read_tensors(paths, tensors, n));
    LoadOptions options;
    options.allow_missing = (flags & TENON_LOAD_ALLOW_MISSING) != 0;
    options.allow_unexpected = (flags & TENON_LOAD_ALLOW_UNEXPECTED) != 0;
    options.check_only = (flags & TENON_LOAD_CHECK_ONLY) != 0;
    // These are allocated before anything is changed, because nothing may fail afterwards.
    auto are_missing = std::make_unique<NameList>();
    auto are_unexpected = std::make_unique<NameList>();
    LoadReport report;
    TENON_TRY(own.load(named, options, &report));
    are_missing->names = std::move(report.missing);
    are_unexpected->names = std::move(report.unexpected);
    if (missing != nullptr) *missing = handle<tenon_name_list>(are_missing.release());
    if (unexpected != nullptr) *unexpected = handle<tenon_name_list>(are_unexpected.release());
    return Status::ok();
  });
}
}
