// tenon/module.h: the functions that look at a module.
#include <tenon/module.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handles.h"
#include "modules/module/resolve.h"
#include "modules/module/tensor_members.h"
#include "text.h"
#include "tree_boundary.h"

using namespace tenon::capi;
using tenon::Result;
using tenon::Status;
using tenon::module::Member;
using tenon::module::Module;
using tenon::module::Resolved;
using tenon::module::ResolvedFile;
using tenon::value::Value;
using tenon::value::ValueRef;

namespace {

tenon_member_list* new_list(std::vector<Member> members) {
  auto list = std::make_unique<MemberList>();
  list->entries.reserve(members.size());
  for (Member& member : members) {
    std::string type = member.type ? member.type->print() : std::string();
    list->entries.push_back({std::move(member), std::move(type)});
  }
  return handle<tenon_member_list>(list.release());
}

// Makes a list. `look` gives its content from the module.
template <typename Look>
tenon_status look_at_members(const tenon_module* module, tenon_member_list** out, tenon_error** err,
                             Look look) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(std::vector<Member> members, look(own));
    *out = new_list(std::move(members));
    return Status::ok();
  });
}

}  // namespace

extern "C" {

tenon_status tenon_module_class_name(const tenon_module* module, char* out, size_t capacity,
                                     size_t* nbytes, tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    return publish_text(own.class_name(), out, capacity, nbytes);
  });
}

tenon_status tenon_module_object(const tenon_module* module, tenon_value** out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_ASSIGN(const Module* const own, complete_module(module, "module"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    ValueRef value = own->object();
    *out = handle<tenon_value>(value.detach());
    return Status::ok();
  });
}

tenon_status tenon_module_check(const tenon_module* module, tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status { return own.check(); });
}

tenon_status tenon_module_members(const tenon_module* module, tenon_member_list** out,
                                  tenon_error** err) noexcept {
  return look_at_members(module, out, err, [](const Module& own) { return own.members(); });
}

tenon_status tenon_module_find(const tenon_module* module, const char* path,
                               tenon_member_list** out, tenon_error** err) noexcept {
  return look_at_members(module, out, err, [&](const Module& own) -> Result<std::vector<Member>> {
    TENON_ASSIGN(const std::string_view text, read_text(path, "path"));
    TENON_ASSIGN(Member member, own.find(text));
    std::vector<Member> members;
    members.push_back(std::move(member));
    return members;
  });
}

tenon_status tenon_module_tensors(const tenon_module* module, tenon_member_list** out,
                                  tenon_error** err) noexcept {
  return look_at_members(module, out, err,
                         [](const Module& own) { return tenon::module::tensor_members(own); });
}

tenon_status tenon_module_states(const tenon_module* module, tenon_name_list** out,
                                 tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto list = std::make_unique<NameList>();
    TENON_ASSIGN(list->names, own.states());
    *out = handle<tenon_name_list>(list.release());
    return Status::ok();
  });
}

tenon_status tenon_module_extra_files(const tenon_module* module, tenon_file_list** out,
                                      tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    auto list = std::make_unique<FileList>();
    list->files = own.package().extra_files;
    *out = handle<tenon_file_list>(list.release());
    return Status::ok();
  });
}

tenon_status tenon_module_code_files(const tenon_module* module, tenon_file_list** out,
                                     tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(Resolved resolved, tenon::module::resolve(own, 0));
    auto list = std::make_unique<FileList>();
    for (ResolvedFile& file : resolved.files) {
      const std::string record = tenon::module::code_record_of(file.qualifier);
      list->files.push_back(
          {record.substr(std::string_view("code/").size()), std::move(file.text)});
    }
    *out = handle<tenon_file_list>(list.release());
    return Status::ok();
  });
}

tenon_status tenon_module_constants(const tenon_module* module, tenon_value** out,
                                    tenon_error** err) noexcept {
  return reading_boundary(module, err, [&](const Module& own) -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(Resolved resolved, tenon::module::resolve(own, 0));
    ValueRef constants = Value::tuple(std::move(resolved.constants));
    *out = handle<tenon_value>(constants.detach());
    return Status::ok();
  });
}
}
