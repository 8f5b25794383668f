/// @file
/// Modules: trees of objects with typed members, and the code of their classes. tenon/module.h has
/// the details.
#ifndef TENON_CPP_MODULE_HPP
#define TENON_CPP_MODULE_HPP

#include <tenon/archive.h>
#include <tenon/module.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

TENON_CPP_BEGIN

/// Bytes with a name: an extra file, or a file of code.
struct File {
  std::string name = {};
  std::string data = {};
  friend bool operator==(const File&, const File&) = default;
};

/// The options of Module::load.
struct LoadOptions {
  /// Parameters and buffers for which no tensor is given keep the tensors that they have.
  bool allow_missing = false;
  /// Given paths that the module does not have are ignored.
  bool allow_unexpected = false;
  /// Make all checks, change nothing, and report the missing and the unexpected paths.
  bool check_only = false;
};

/// The paths that did not match in Module::load.
struct LoadReport {
  /// Paths of the module for which no tensor was given.
  std::vector<std::string> missing = {};
  /// Given paths that the module does not have.
  std::vector<std::string> unexpected = {};
};

/// The report of an import. tenon/archive.h explains each figure.
using ImportReport = tenon_import_report;

struct Member;

namespace detail {

// Joins names with commas, as the C library takes them. No names give nullopt, which is NULL for
// the C library.
inline std::optional<std::string> joined(std::span<const std::string> names) {
  if (names.empty()) return std::nullopt;
  std::string all = names.front();
  for (const std::string& name : names.subspan(1)) all.append(",").append(name);
  return all;
}

}  // namespace detail

/// A module, which PyTorch calls a ScriptModule. A program builds a module, or reads it from an
/// archive (import_module). It can change the module, and write it as an archive that
/// torch.jit.load reads (export_module). Tenon never runs the code of a module.
///
/// A path names a member below a module, with dots between the names: "encoder.0.weight". A
/// submodule that was looked up is a Module over the same objects, and so is a copy. They are
/// equal, and a change through one of them shows in all. Every value is checked against its
/// declared type when it is stored. If the value does not fit, the error has the details "where",
/// "wanted" and "found". A change that fails leaves the module as it was.
///
/// Any number of threads may read and change modules, also those of one tree: a change waits for
/// other calls. During an export, also in the callables of the export, a change gives kPermission.
/// The module takes references of its own to the values that it is given.
class Module
    : public detail::Counted<Module, tenon_module, tenon_module_retain, tenon_module_release> {
 public:
  /// Makes a module of a new class. The name is "MLP", or a qualified name such as
  /// "__torch__.my.MLP". The module has only the attribute `training`, which is True.
  static Result<Module> try_make(const std::string& class_name) {
    if (!detail::is_c_text(class_name)) return detail::has_nul("the class");
    return detail::make<Module>([&](tenon_module** out, tenon_error** err) {
      return tenon_module_new(class_name.c_str(), out, err);
    });
  }

  /// Adds a parameter: a tensor, or None as in `bias=None`. Its name is any text without dots.
  Result<void> try_add_parameter(const std::string& name, const Value& tensor) {
    return put(name, tensor, [&](tenon_error** err) {
      return tenon_module_add_parameter(get(), name.c_str(), tensor.get(), err);
    });
  }
  /// Adds a buffer, in the same way as a parameter.
  Result<void> try_add_buffer(const std::string& name, const Value& tensor) {
    return put(name, tensor, [&](tenon_error** err) {
      return tenon_module_add_buffer(get(), name.c_str(), tensor.get(), err);
    });
  }
  /// Adds an attribute of a declared type such as "Dict[str, int]". Classes in the type are written
  /// with their qualified names and must have been defined before. std::nullopt means the value's
  /// own type.
  Result<void> try_add_attribute(const std::string& name, const std::optional<std::string>& type,
                                 const Value& value) {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return put(name, value, [&](tenon_error** err) {
      return tenon_module_add_attribute(get(), name.c_str(), detail::c_text(type), value.get(),
                                        err);
    });
  }
  /// Adds a constant, which PyTorch calls Final. It belongs to the class and cannot change while
  /// the module runs. `type` is as for an attribute.
  Result<void> try_add_constant(const std::string& name, const std::optional<std::string>& type,
                                const Value& value) {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return put(name, value, [&](tenon_error** err) {
      return tenon_module_add_constant(get(), name.c_str(), detail::c_text(type), value.get(), err);
    });
  }
  /// Adds a submodule. One module may be added in several places, which then share it, here and in
  /// archives. `interface` is the qualified name of an interface that the child implements. The
  /// submodule is then declared by this interface. std::nullopt declares it by its own class.
  Result<void> try_add_submodule(const std::string& name, const Module& child,
                                 const std::optional<std::string>& interface = std::nullopt) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    if (!detail::is_c_text(interface)) return detail::has_nul("the interface");
    return detail::call([&](tenon_error** err) {
      return tenon_module_add_submodule(get(), name.c_str(), child.get(), detail::c_text(interface),
                                        err);
    });
  }

  /// Defines methods: one `def` or more in TorchScript. A method that exists already is replaced.
  /// No other module of the same class gets the methods. The error of bad code has the details
  /// "file", "line", "column" and "excerpt".
  Result<void> try_define(const std::string& source) {
    if (!detail::is_c_text(source)) return detail::has_nul("the source");
    return detail::call(
        [&](tenon_error** err) { return tenon_module_define(get(), source.c_str(), err); });
  }
  /// Defines functions and types that methods use: functions, NamedTuples, enums, interfaces and
  /// plain classes. `class P` becomes "<qualifier>.P". The qualifier is "__torch__" or a name below
  /// it.
  Result<void> try_define_types(const std::string& qualifier, const std::string& source) {
    if (!detail::is_c_text(qualifier)) return detail::has_nul("the qualifier");
    if (!detail::is_c_text(source)) return detail::has_nul("the source");
    return detail::call([&](tenon_error** err) {
      return tenon_module_define_types(get(), qualifier.c_str(), source.c_str(), err);
    });
  }

  /// Sets the methods that PyTorch runs before forward, in this order. An empty list removes them.
  Result<void> try_set_hooks_before_forward(const Names& methods) { return set_hooks(1, methods); }
  /// Sets the methods that PyTorch runs after forward, in this order. An empty list removes them.
  Result<void> try_set_hooks_after_forward(const Names& methods) { return set_hooks(0, methods); }

  /// Stores the example inputs of a traced method. Archives of the module contain them, with the
  /// shapes and the element types of their tensors, but without the bytes.
  Result<void> try_set_traced_inputs(const std::string& method, const Values& inputs) {
    if (!detail::is_c_text(method)) return detail::has_nul("the method");
    const Result<std::vector<tenon_value*>> c = detail::c_values(inputs);
    if (!c) return c.error();
    return detail::call([&](tenon_error** err) {
      return tenon_module_set_traced_inputs(get(), method.c_str(), c->data(), c->size(), err);
    });
  }

  /// Stores an extra file with the module, which goes into every archive of the module. The bytes
  /// are copied. A file with the same name is replaced.
  Result<void> try_set_extra_file(const std::string& name, std::span<const std::byte> data) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::call([&](tenon_error** err) {
      return tenon_module_set_extra_file(get(), name.c_str(), data.data(), data.size(), err);
    });
  }
  Result<void> try_set_extra_file(const std::string& name, std::string_view data) {
    return try_set_extra_file(name, std::as_bytes(std::span(data)));
  }
  /// Removes an extra file.
  Result<void> try_remove_extra_file(const std::string& name) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::call([&](tenon_error** err) {
      return tenon_module_remove_extra_file(get(), name.c_str(), err);
    });
  }

  /// Replaces a parameter, a buffer, an attribute, a state or a part of a state. The shape and the
  /// element type of a tensor may change. If other members below this module hold the same tensor,
  /// they get the new tensor too. A parameter that requires a gradient still requires one.
  Result<void> try_set(const std::string& path, const Value& value) {
    return put(path, value, [&](tenon_error** err) {
      return tenon_module_set(get(), path.c_str(), value.get(), err);
    });
  }
  /// Gives the object at a path a state. The state replaces the object's old state, or the
  /// attributes of a module. "" is this module. try_set("conv.state[0]", …) replaces a part of a
  /// state.
  Result<void> try_set_state(const std::string& path, const Value& state) {
    return put(path, state, [&](tenon_error** err) {
      return tenon_module_set_state(get(), path.c_str(), state.get(), err);
    });
  }
  /// Replaces a submodule. The new submodule may have another class. If the old submodule is
  /// declared by an interface, the new one must implement that interface.
  Result<void> try_set_submodule(const std::string& path, const Module& child) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return detail::call([&](tenon_error** err) {
      return tenon_module_set_submodule(get(), path.c_str(), child.get(), err);
    });
  }
  /// Removes a member: a parameter, buffer, attribute, constant, submodule or method.
  Result<void> try_remove(const std::string& path) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return detail::call(
        [&](tenon_error** err) { return tenon_module_remove(get(), path.c_str(), err); });
  }

  /// Replaces parameters, buffers and tensors of states by their paths: try_load({{"fc.weight", w},
  /// {"fc.bias", b}}). The call replaces all of them or, on failure, none. The error names the
  /// missing and the unexpected paths, and its details "missing" and "unexpected" have the numbers
  /// of such paths.
  Result<LoadReport> try_load(const NamedValues& tensors, const LoadOptions& options = {});

  /// Checks the code as an export does: names, operators, and the numbers, keywords and types of
  /// arguments. The error has the same details as the error of define. A call that only PyTorch
  /// 1.13 refuses is not an error: try_warnings lists it.
  Result<void> try_check() const {
    return detail::call([&](tenon_error** err) { return tenon_module_check(get(), err); });
  }

  /// Gives all members, in the order in which the class declares them. Constants follow the other
  /// attributes, and methods come last.
  Result<std::vector<Member>> try_members() const;
  /// Gives the member at a path. The error kNotFound names the part of the path that does not
  /// exist.
  Result<Member> try_find(const std::string& path) const;
  /// Gives the submodule at a path.
  Result<Module> try_submodule(const std::string& path) const;
  /// Gives the value at a path: the value of a parameter, a buffer, an attribute, a state, or a
  /// constant that has one (Member::value).
  Result<Value> try_value(const std::string& path) const;
  /// Gives every parameter, buffer and tensor of a state below this module, named by its path, in
  /// the order of the tree. A shared tensor appears under each of its paths. Members that are None
  /// are left out.
  Result<std::vector<Member>> try_tensors() const;
  /// Gives the paths of all states below this module, such as "conv.state".
  Result<std::vector<std::string>> try_states() const;
  /// Gives the parameters among the members of try_tensors.
  Result<std::vector<Member>> try_parameters() const;
  /// Gives the buffers among the members of try_tensors.
  Result<std::vector<Member>> try_buffers() const;
  /// Gives the extra files of the module.
  Result<std::vector<File>> try_extra_files() const;
  /// Gives the code of the module's classes and functions, as an export writes it. There is one
  /// file for each qualifier, such as "__torch__/my/layers.py".
  Result<std::vector<File>> try_code_files() const;
  /// Gives the values that the code calls CONSTANTS.c0, CONSTANTS.c1, …
  Result<std::vector<Value>> try_constants() const;

  /// Gives the operators that bytecode of the given methods calls, such as "aten::add.Tensor". The
  /// result has each operator once, sorted by name. A mobile build of PyTorch needs this list. An
  /// empty list of methods means all methods. The call writes no file. The error kUnsupported means
  /// that the lite interpreter cannot run some code.
  Result<std::vector<std::string>> try_opnames(const Names& methods = {}) const {
    struct List : detail::Owned<List, tenon_name_list, tenon_name_list_release> {};
    const std::optional<std::string> given = detail::joined(methods.get());
    if (!detail::is_c_text(given)) return detail::has_nul("a method");
    const Result<List> list = detail::make<List>([&](tenon_name_list** out, tenon_error** err) {
      return tenon_export_opnames(get(), detail::c_text(given), out, err);
    });
    if (!list) return list.error();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < tenon_name_list_count(list->get()); ++i)
      names.emplace_back(detail::view_of(tenon_name_list_get(list->get(), i)));
    return names;
  }

  /// Gives the report of the import that made this root module. For every other module all figures
  /// are 0.
  Result<ImportReport> try_import_report() const {
    return detail::fill<ImportReport>([&](ImportReport* out, tenon_error** err) {
      return tenon_module_import_report(get(), out, err);
    });
  }
  /// Lists warnings about the module, one line each. They name calls that PyTorch 1.13 refuses and
  /// the newest PyTorch accepts, or the reverse. For an imported module there are also lines about
  /// the import, for example about operators that have another meaning in the archive's version
  /// than today.
  Result<std::vector<std::string>> try_warnings() const;

  /// Gives the qualified name of the module's class.
  Result<std::string> try_class_name() const {
    return detail::written(
        [&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
          return tenon_module_class_name(get(), out, capacity, nbytes, err);
        });
  }

  /// The object of the module, as a value. It is empty for an empty module, and for an imported one
  /// whose file is bad.
  Value object() const noexcept {
    tenon_value* out = nullptr;
    (void)tenon_module_object(get(), &out, nullptr);
    return Value::adopt(out);
  }
  /// Whether both modules are the same object, and not only alike. A submodule that two modules
  /// share is the same object in both.
  friend bool operator==(const Module& a, const Module& b) noexcept {
    if (a.get() == b.get()) return true;
    const Value own = a.object();
    return own.get() != nullptr && own.is_same(b.object());
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Module make(const std::string& class_name) { return try_make(class_name).value(); }
  void add_parameter(const std::string& name, const Value& tensor) {
    try_add_parameter(name, tensor).value();
  }
  void add_buffer(const std::string& name, const Value& tensor) {
    try_add_buffer(name, tensor).value();
  }
  void add_attribute(const std::string& name, const std::optional<std::string>& type,
                     const Value& value) {
    try_add_attribute(name, type, value).value();
  }
  void add_constant(const std::string& name, const std::optional<std::string>& type,
                    const Value& value) {
    try_add_constant(name, type, value).value();
  }
  void add_submodule(const std::string& name, const Module& child,
                     const std::optional<std::string>& interface = std::nullopt) {
    try_add_submodule(name, child, interface).value();
  }
  void define(const std::string& source) { try_define(source).value(); }
  void define_types(const std::string& qualifier, const std::string& source) {
    try_define_types(qualifier, source).value();
  }
  void set_hooks_before_forward(const Names& methods) {
    try_set_hooks_before_forward(methods).value();
  }
  void set_hooks_after_forward(const Names& methods) {
    try_set_hooks_after_forward(methods).value();
  }
  void set_traced_inputs(const std::string& method, const Values& inputs) {
    try_set_traced_inputs(method, inputs).value();
  }
  void set_extra_file(const std::string& name, std::span<const std::byte> data) {
    try_set_extra_file(name, data).value();
  }
  void set_extra_file(const std::string& name, std::string_view data) {
    try_set_extra_file(name, data).value();
  }
  void remove_extra_file(const std::string& name) { try_remove_extra_file(name).value(); }
  void set(const std::string& path, const Value& value) { try_set(path, value).value(); }
  void set_state(const std::string& path, const Value& state) {
    try_set_state(path, state).value();
  }
  void set_submodule(const std::string& path, const Module& child) {
    try_set_submodule(path, child).value();
  }
  void remove(const std::string& path) { try_remove(path).value(); }
  LoadReport load(const NamedValues& tensors, const LoadOptions& options = {}) {
    return try_load(tensors, options).value();
  }
  void check() const { try_check().value(); }
  std::vector<Member> members() const;
  Member find(const std::string& path) const;
  Module submodule(const std::string& path) const { return try_submodule(path).value(); }
  Value value(const std::string& path) const { return try_value(path).value(); }
  std::vector<Member> tensors() const;
  std::vector<std::string> states() const { return try_states().value(); }
  std::vector<Member> parameters() const;
  std::vector<Member> buffers() const;
  std::vector<File> extra_files() const { return try_extra_files().value(); }
  std::vector<File> code_files() const { return try_code_files().value(); }
  std::vector<Value> constants() const { return try_constants().value(); }
  std::vector<std::string> opnames(const Names& methods = {}) const {
    return try_opnames(methods).value();
  }
  ImportReport import_report() const { return try_import_report().value(); }
  std::vector<std::string> warnings() const { return try_warnings().value(); }
  std::string class_name() const { return try_class_name().value(); }
#endif

 private:
  // Calls function(err), which stores a value under a name or a path.
  template <class Function>
  Result<void> put(const std::string& name, const Value& value, Function&& function) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    if (!value) return detail::no_value("what '" + name + "' gets");
    return detail::call(function);
  }

  Result<void> set_hooks(int before_forward, const Names& methods) {
    const Result<std::vector<const char*>> c = detail::c_texts(methods.get(), "the method");
    if (!c) return c.error();
    return detail::call([&](tenon_error** err) {
      return tenon_module_set_hooks(get(), before_forward, c->data(), c->size(), err);
    });
  }
};

TENON_CPP_END

template <>
struct std::hash<tenon::Module> {
  std::size_t operator()(const tenon::Module& module) const noexcept {
    return std::hash<const void*>()(module.object().get());
  }
};

// This header holds the definitions of functions that are only declared here.
#include <tenon/cpp/module_look.hpp>

#endif
