// tenon/module.h: the lists of members, names and files, which functions of module.h, archive.h,
// package.h and weights.h give.
#include "module_lists.h"

#include <tenon/module.h>

#include "boundary.h"
#include "handles.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Status;
using tenon::module::ExtraFile;
using tenon::module::MemberKind;

static_assert(static_cast<int>(MemberKind::kParameter) == TENON_MEMBER_PARAMETER &&
              static_cast<int>(MemberKind::kBuffer) == TENON_MEMBER_BUFFER &&
              static_cast<int>(MemberKind::kAttribute) == TENON_MEMBER_ATTRIBUTE &&
              static_cast<int>(MemberKind::kConstant) == TENON_MEMBER_CONSTANT &&
              static_cast<int>(MemberKind::kSubmodule) == TENON_MEMBER_SUBMODULE &&
              static_cast<int>(MemberKind::kMethod) == TENON_MEMBER_METHOD);

namespace {

Status check_list_index(size_t index, size_t count, const char* what) {
  if (index < count) return Status::ok();
  return {Code::kInvalidArgument,
          tenon::format("there is no %s %zu: the list has %zu", what, index, count)};
}

}  // namespace

extern "C" {

size_t tenon_member_list_count(const tenon_member_list* list) noexcept {
  return list == nullptr ? 0 : object(list)->entries.size();
}

tenon_status tenon_member_list_get(const tenon_member_list* list, size_t index, tenon_member* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(list != nullptr, "list is NULL"));
    TENON_TRY(check_output(out, "tenon_member"));
    TENON_TRY(check_list_index(index, object(list)->entries.size(), "member"));
    const MemberList::Entry& entry = object(list)->entries[index];
    tenon_member member{};
    member.kind = static_cast<int32_t>(entry.member.kind);
    member.name = entry.member.name.c_str();
    member.type = entry.type.c_str();
    member.source = entry.member.source.c_str();
    member.value = handle<tenon_value>(entry.member.value.get());
    member.module = handle<tenon_module>(entry.member.module.get());
    write_struct(out, member);
    return Status::ok();
  });
}

void tenon_member_list_release(tenon_member_list* list) noexcept { delete object(list); }

size_t tenon_file_list_count(const tenon_file_list* list) noexcept {
  return list == nullptr ? 0 : object(list)->files.size();
}

tenon_status tenon_file_list_get(const tenon_file_list* list, size_t index, tenon_file* out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(list != nullptr, "list is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(check_list_index(index, object(list)->files.size(), "file"));
    const ExtraFile& file = object(list)->files[index];
    *out = {file.name.c_str(), file.content.c_str(), file.content.size()};
    return Status::ok();
  });
}

void tenon_file_list_release(tenon_file_list* list) noexcept { delete object(list); }

size_t tenon_name_list_count(const tenon_name_list* list) noexcept {
  return list == nullptr ? 0 : object(list)->names.size();
}

const char* tenon_name_list_get(const tenon_name_list* list, size_t index) noexcept {
  return list == nullptr || index >= object(list)->names.size()
             ? nullptr
             : object(list)->names[index].c_str();
}

void tenon_name_list_release(tenon_name_list* list) noexcept { delete object(list); }
}
