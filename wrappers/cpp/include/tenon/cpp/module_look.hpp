/// @file
/// Looking at modules: these functions read the members, the names and the files of a module. They
/// copy each list of the C library completely and then release it. module.hpp includes this header.
#ifndef TENON_CPP_MODULE_LOOK_HPP
#define TENON_CPP_MODULE_LOOK_HPP

#include <tenon/cpp/module.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// The kind of a member.
enum class MemberKind : std::int32_t {
  kParameter = TENON_MEMBER_PARAMETER,
  kBuffer = TENON_MEMBER_BUFFER,
  kAttribute = TENON_MEMBER_ATTRIBUTE,
  kConstant = TENON_MEMBER_CONSTANT,
  kSubmodule = TENON_MEMBER_SUBMODULE,
  kMethod = TENON_MEMBER_METHOD,
  kState = TENON_MEMBER_STATE
};

/// Returns the name of a kind, such as "parameter", in static storage. It is "" for a kind of a
/// newer library.
inline std::string_view name_of(MemberKind kind) noexcept {
  constexpr std::array<std::string_view, 7> kNames{"parameter", "buffer", "attribute", "constant",
                                                   "submodule", "method", "state"};
  const auto index = static_cast<std::size_t>(static_cast<std::int32_t>(kind));
  return index < kNames.size() ? kNames[index] : std::string_view();
}

/// A member of a module, as it was when it was looked up.
struct Member {
  MemberKind kind = MemberKind::kAttribute;
  /// The name. In the result of Module::tensors it is the path.
  std::string name = {};
  /// The declared type. For a submodule it is the name of its class, and for a method "".
  std::string type_text = {};
  /// The source of a method, or the text of a constant as the source of its class contains it. ""
  /// for other members.
  std::string source = {};
  /// The value. It is empty for submodules, for methods, for attributes of a module that has a
  /// state, and for a constant whose text is neither a literal nor the name of one of
  /// Module::constants.
  Value value = {};
  /// The submodule. It is empty for other members.
  Module module = {};
};

namespace detail {

struct MemberList : Owned<MemberList, tenon_member_list, tenon_member_list_release> {};
struct NameList : Owned<NameList, tenon_name_list, tenon_name_list_release> {};
struct FileList : Owned<FileList, tenon_file_list, tenon_file_list_release> {};

// Calls function(out, err), which gives a list of members, and copies the list.
template <class Function>
Result<std::vector<Member>> members(Function&& function) {
  const Result<MemberList> list = make<MemberList>(function);
  if (!list) return list.error();
  std::vector<Member> all;
  const std::size_t n = tenon_member_list_count(list->get());
  all.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Result<tenon_member> c = fill<tenon_member>([&](tenon_member* out, tenon_error** err) {
      return tenon_member_list_get(list->get(), i, out, err);
    });
    if (!c) return c.error();
    all.push_back({static_cast<MemberKind>(c->kind), c->name, c->type, c->source,
                   Value::retain(c->value), Module::retain(c->module)});
  }
  return all;
}

inline std::vector<std::string> names(const NameList& list) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < tenon_name_list_count(list.get()); ++i)
    all.emplace_back(view_of(tenon_name_list_get(list.get(), i)));
  return all;
}

template <class Handle>
Result<std::vector<std::string>> list_names(const Handle* handle,
                                            tenon_status (*function)(const Handle*,
                                                                     tenon_name_list**,
                                                                     tenon_error**)) {
  const Result<NameList> list = make<NameList>(
      [&](tenon_name_list** out, tenon_error** err) { return function(handle, out, err); });
  if (!list) return list.error();
  return names(*list);
}

template <class Handle>
Result<Value> read_value(const Handle* handle, const std::string& name,
                         tenon_status (*function)(const Handle*, const char*, tenon_value**,
                                                  tenon_error**)) {
  if (!is_c_text(name)) return has_nul("the name");
  return make<Value>([&](tenon_value** out, tenon_error** err) {
    return function(handle, name.c_str(), out, err);
  });
}

// Calls function(out, err), which gives a list of files, and copies the list.
template <class Function>
Result<std::vector<File>> files(Function&& function) {
  const Result<FileList> list = make<FileList>(function);
  if (!list) return list.error();
  std::vector<File> all;
  for (std::size_t i = 0; i < tenon_file_list_count(list->get()); ++i) {
    tenon_file c{};
    const Result<void> got =
        call([&](tenon_error** err) { return tenon_file_list_get(list->get(), i, &c, err); });
    if (!got) return got.error();
    all.push_back({c.name, c.nbytes == 0
                               ? std::string()
                               : std::string(static_cast<const char*>(c.data), c.nbytes)});
  }
  return all;
}

inline Result<std::vector<Member>> only(MemberKind kind, Result<std::vector<Member>> members) {
  if (members)
    std::erase_if(*members, [kind](const Member& member) { return member.kind != kind; });
  return members;
}

}  // namespace detail

inline Result<LoadReport> Module::try_load(const NamedValues& tensors, const LoadOptions& options) {
  const Result<detail::CNamedValues> c = detail::c_named_values(tensors, "the path");
  if (!c) return c.error();
  const std::uint32_t flags =
      (options.allow_missing ? std::uint32_t{TENON_LOAD_ALLOW_MISSING} : 0U) |
      (options.allow_unexpected ? std::uint32_t{TENON_LOAD_ALLOW_UNEXPECTED} : 0U) |
      (options.check_only ? std::uint32_t{TENON_LOAD_CHECK_ONLY} : 0U);
  tenon_name_list* missing = nullptr;
  tenon_name_list* unexpected = nullptr;
  const Result<void> called = detail::call([&](tenon_error** err) {
    return tenon_module_load(get(), c->names.data(), c->values.data(), c->values.size(), flags,
                             &missing, &unexpected, err);
  });
  if (!called) return called.error();
  const auto missing_list = detail::NameList::adopt(missing);
  const auto unexpected_list = detail::NameList::adopt(unexpected);
  return LoadReport{detail::names(missing_list), detail::names(unexpected_list)};
}

inline Result<std::vector<Member>> Module::try_members() const {
  return detail::members([&](tenon_member_list** out, tenon_error** err) {
    return tenon_module_members(get(), out, err);
  });
}

inline Result<Member> Module::try_find(const std::string& path) const {
  if (!detail::is_c_text(path)) return detail::has_nul("the path");
  Result<std::vector<Member>> found =
      detail::members([&](tenon_member_list** out, tenon_error** err) {
        return tenon_module_find(get(), path.c_str(), out, err);
      });
  if (!found) return found.error();
  if (found->empty())
    return Error(Code::kInternal, "the member '" + path + "' is not in the list that was found");
  return std::move(found->front());
}

inline Result<Module> Module::try_submodule(const std::string& path) const {
  Result<Member> found = try_find(path);
  if (!found) return found.error();
  if (!found->module) return detail::wrong("'" + path + "' is no submodule");
  return std::move(found->module);
}

inline Result<std::vector<std::string>> Module::try_states() const {
  return detail::list_names(get(), tenon_module_states);
}

inline Result<Value> Module::try_value(const std::string& path) const {
  Result<Member> found = try_find(path);
  if (!found) return found.error();
  if (!found->value) return detail::wrong("'" + path + "' has no value");
  return std::move(found->value);
}

inline Result<std::vector<Member>> Module::try_tensors() const {
  return detail::members([&](tenon_member_list** out, tenon_error** err) {
    return tenon_module_tensors(get(), out, err);
  });
}

inline Result<std::vector<Member>> Module::try_parameters() const {
  return detail::only(MemberKind::kParameter, try_tensors());
}
inline Result<std::vector<Member>> Module::try_buffers() const {
  return detail::only(MemberKind::kBuffer, try_tensors());
}

inline Result<std::vector<File>> Module::try_extra_files() const {
  return detail::files([&](tenon_file_list** out, tenon_error** err) {
    return tenon_module_extra_files(get(), out, err);
  });
}

inline Result<std::vector<File>> Module::try_code_files() const {
  return detail::files([&](tenon_file_list** out, tenon_error** err) {
    return tenon_module_code_files(get(), out, err);
  });
}

inline Result<std::vector<Value>> Module::try_constants() const {
  const Result<Value> constants = detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_module_constants(get(), out, err);
  });
  if (!constants) return constants.error();
  return constants->try_items();
}

inline Result<std::vector<std::string>> Module::try_warnings() const {
  return detail::list_names(get(), tenon_module_warnings);
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline std::vector<Member> Module::members() const { return try_members().value(); }
inline Member Module::find(const std::string& path) const { return try_find(path).value(); }
inline std::vector<Member> Module::tensors() const { return try_tensors().value(); }
inline std::vector<Member> Module::parameters() const { return try_parameters().value(); }
inline std::vector<Member> Module::buffers() const { return try_buffers().value(); }
#endif

TENON_CPP_END

#endif
