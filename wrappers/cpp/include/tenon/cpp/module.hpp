// Modules: an object tree with typed members, and the code of its classes.
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

/// A named piece of bytes, as they are in a file: an extra file, or a file of code.
struct File {
  std::string name = {};
  std::string data = {};
  friend bool operator==(const File&, const File&) = default;
};

/// What Module::load lets pass.
struct LoadOptions {
  bool allow_missing = false;     ///< parameters and buffers that are not among the given ones keep what they have
  bool allow_unexpected = false;  ///< given names that the module has not are left out
  bool check_only = false;        ///< change nothing, say what would be missing and unexpected
};

/// What Module::load let pass.
struct LoadReport {
  std::vector<std::string> missing = {};     ///< paths of the module that were not among the given ones
  std::vector<std::string> unexpected = {};  ///< given ones that the module has not
};

/// What an import found; tenon/archive.h says what each is.
using ImportReport = tenon_import_report;

struct Member;  // module_look.hpp

/// What PyTorch calls a ScriptModule. It is built here, or read from an archive (import_module), changed, and written as an archive that
/// torch.jit.load runs (export_module). Nothing in it is ever run here.
///
/// A path names a member from a module on, with dots: "encoder.0.weight". A submodule that was looked up is a Module over the same objects,
/// and so is a copy: what is changed through one shows in all, and they are equal. Every value is checked against its declared type when it
/// is put in; the error's details "where", "wanted" and "found" say what does not fit. After a failed change everything is as it was.
///
/// Any number of threads may look at a tree at once. Changing is for one thread, beside no other call on the same tree; during an export,
/// also from its callables, it is kPermission. The module takes references of its own to what it is given.
class Module : public detail::Counted<Module, tenon_module, tenon_module_retain, tenon_module_release> {
 public:
  /// A module of a new class, "MLP" or a qualified name as "__torch__.my.MLP", with nothing but the attribute `training`, which is True.
  static Result<Module> try_make(const std::string& class_name) {
    if (!detail::is_c_text(class_name)) return detail::has_nul("the class");
    return detail::make<Module>([&](tenon_module** out, tenon_error** err) { return tenon_module_new(class_name.c_str(), out, err); });
  }

  /// Add a parameter: a tensor, or None, as `bias=None`. Its name is any text without dots.
  Result<void> try_add_parameter(const std::string& name, const Value& tensor) {
    return put(name, tensor, [&](tenon_error** err) { return tenon_module_add_parameter(get(), name.c_str(), tensor.get(), err); });
  }
  /// Add a buffer, as a parameter.
  Result<void> try_add_buffer(const std::string& name, const Value& tensor) {
    return put(name, tensor, [&](tenon_error** err) { return tenon_module_add_buffer(get(), name.c_str(), tensor.get(), err); });
  }
  /// Add an attribute of a declared type: "Dict[str, int]", classes by their qualified names, defined before. std::nullopt: the type that
  /// the value shows by itself.
  Result<void> try_add_attribute(const std::string& name, const std::optional<std::string>& type, const Value& value) {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return put(name, value,
               [&](tenon_error** err) { return tenon_module_add_attribute(get(), name.c_str(), detail::c_text(type), value.get(), err); });
  }
  /// Add a constant, which PyTorch calls Final: it stands in the class and cannot change when the module runs. Its type as for an
  /// attribute.
  Result<void> try_add_constant(const std::string& name, const std::optional<std::string>& type, const Value& value) {
    if (!detail::is_c_text(type)) return detail::has_nul("the type");
    return put(name, value,
               [&](tenon_error** err) { return tenon_module_add_constant(get(), name.c_str(), detail::c_text(type), value.get(), err); });
  }
  /// Add a module below this one. One that is added in several places is shared by them, here and in archives. `interface`: the qualified
  /// name of one that the child has, to declare it so; std::nullopt: by its own class.
  Result<void> try_add_submodule(const std::string& name, const Module& child, const std::optional<std::string>& interface = std::nullopt) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    if (!detail::is_c_text(interface)) return detail::has_nul("the interface");
    return detail::call(
        [&](tenon_error** err) { return tenon_module_add_submodule(get(), name.c_str(), child.get(), detail::c_text(interface), err); });
  }

  /// Define methods: one `def` or more in TorchScript. One that is there already is replaced; this module alone gets them, and no other of
  /// its class. The error of bad code has the details "file", "line", "column" and "excerpt".
  Result<void> try_define(const std::string& source) {
    if (!detail::is_c_text(source)) return detail::has_nul("the source");
    return detail::call([&](tenon_error** err) { return tenon_module_define(get(), source.c_str(), err); });
  }
  /// Define what methods and types use: functions, NamedTuples, enums, interfaces and plain classes. Of `class P` comes "<qualifier>.P",
  /// where the qualifier is "__torch__" or a name below it.
  Result<void> try_define_types(const std::string& qualifier, const std::string& source) {
    if (!detail::is_c_text(qualifier)) return detail::has_nul("the qualifier");
    if (!detail::is_c_text(source)) return detail::has_nul("the source");
    return detail::call([&](tenon_error** err) { return tenon_module_define_types(get(), qualifier.c_str(), source.c_str(), err); });
  }

  /// Say which methods PyTorch runs before forward, in this order; none: none any more.
  Result<void> try_set_hooks_before_forward(const Names& methods) { return set_hooks(1, methods); }
  /// Say which methods PyTorch runs after forward, in this order; none: none any more.
  Result<void> try_set_hooks_after_forward(const Names& methods) { return set_hooks(0, methods); }

  /// Keep the example inputs of a traced method in archives. Their tensors are written without bytes.
  Result<void> try_set_traced_inputs(const std::string& method, const Values& inputs) {
    if (!detail::is_c_text(method)) return detail::has_nul("the method");
    const Result<std::vector<tenon_value*>> c = detail::c_values(inputs);
    if (!c) return c.error();
    return detail::call(
        [&](tenon_error** err) { return tenon_module_set_traced_inputs(get(), method.c_str(), c->data(), c->size(), err); });
  }

  /// Put a file beside the module, which goes into every archive of it; copied. One of that name is replaced.
  Result<void> try_set_extra_file(const std::string& name, std::span<const std::byte> data) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::call([&](tenon_error** err) { return tenon_module_set_extra_file(get(), name.c_str(), data.data(), data.size(), err); });
  }
  Result<void> try_set_extra_file(const std::string& name, std::string_view data) {
    return try_set_extra_file(name, std::as_bytes(std::span(data)));
  }
  /// Take such a file away.
  Result<void> try_remove_extra_file(const std::string& name) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    return detail::call([&](tenon_error** err) { return tenon_module_remove_extra_file(get(), name.c_str(), err); });
  }

  /// Replace a parameter, buffer or attribute. The shape and the element type of a tensor may change. Whatever else below this module held
  /// the same tensor has the new one too. A parameter that requires a gradient goes on to require one.
  Result<void> try_set(const std::string& path, const Value& value) {
    return put(path, value, [&](tenon_error** err) { return tenon_module_set(get(), path.c_str(), value.get(), err); });
  }
  /// Replace a submodule. Another class is fine unless an interface is declared that it has not.
  Result<void> try_set_submodule(const std::string& path, const Module& child) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return detail::call([&](tenon_error** err) { return tenon_module_set_submodule(get(), path.c_str(), child.get(), err); });
  }
  /// Take a member away: a parameter, buffer, attribute, constant, submodule or method.
  Result<void> try_remove(const std::string& path) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return detail::call([&](tenon_error** err) { return tenon_module_remove(get(), path.c_str(), err); });
  }

  /// Replace parameters and buffers by their paths, all of them or, on failure, none: try_load({{"fc.weight", w}, {"fc.bias", b}}). The
  /// error names what is missing and unexpected; its details of these names have their numbers.
  Result<LoadReport> try_load(const NamedValues& tensors, const LoadOptions& options = {});

  /// Check the code as an export does: names, operators, numbers and keywords of arguments. Types of operands are not checked. The error's
  /// details are as for define.
  Result<void> try_check() const {
    return detail::call([&](tenon_error** err) { return tenon_module_check(get(), err); });
  }

  /// All members, in the order in which the class declares them, methods last.
  Result<std::vector<Member>> try_members() const;
  /// The member of a path; kNotFound names the part that is not there.
  Result<Member> try_find(const std::string& path) const;
  /// The submodule of a path.
  Result<Module> try_submodule(const std::string& path) const;
  /// The value of a path: of a parameter, buffer, attribute, or a constant that is a literal.
  Result<Value> try_value(const std::string& path) const;
  /// Every parameter and buffer below, named by its path, in the order of the tree; a shared one under each of its paths. Those that are
  /// None are left out.
  Result<std::vector<Member>> try_tensors() const;
  /// The parameters among them.
  Result<std::vector<Member>> try_parameters() const;
  /// The buffers among them.
  Result<std::vector<Member>> try_buffers() const;
  /// The files beside the module.
  Result<std::vector<File>> try_extra_files() const;
  /// The code of its classes and functions, as an export writes it: one file for each qualifier, "__torch__/my/layers.py".
  Result<std::vector<File>> try_code_files() const;
  /// What CONSTANTS.c0, CONSTANTS.c1, … are in the code.
  Result<std::vector<Value>> try_constants() const;

  /// What the import found that gave this root; of every other module all of it is 0.
  Result<ImportReport> try_import_report() const {
    return detail::fill<ImportReport>([&](ImportReport* out, tenon_error** err) { return tenon_module_import_report(get(), out, err); });
  }
  /// What that import found remarkable, one line each.
  Result<std::vector<std::string>> try_warnings() const;

  /// The qualified name of its class.
  Result<std::string> try_class_name() const {
    return detail::written([&](char* out, std::size_t capacity, std::size_t* nbytes, tenon_error** err) {
      return tenon_module_class_name(get(), out, capacity, nbytes, err);
    });
  }

  /// The object that it is; empty if the module is.
  Value object() const noexcept {
    tenon_value* out = nullptr;
    (void)tenon_module_object(get(), &out, nullptr);
    return Value::adopt(out);
  }
  /// Whether both are the same object, and not only alike: a submodule with two owners is there twice.
  friend bool operator==(const Module& a, const Module& b) noexcept { return a.object().is_same(b.object()); }

#ifndef TENON_NO_EXCEPTIONS
  // Each throws what its try_ form returns.
  static Module make(const std::string& class_name) { return try_make(class_name).value(); }
  void add_parameter(const std::string& name, const Value& tensor) { try_add_parameter(name, tensor).value(); }
  void add_buffer(const std::string& name, const Value& tensor) { try_add_buffer(name, tensor).value(); }
  void add_attribute(const std::string& name, const std::optional<std::string>& type, const Value& value) {
    try_add_attribute(name, type, value).value();
  }
  void add_constant(const std::string& name, const std::optional<std::string>& type, const Value& value) {
    try_add_constant(name, type, value).value();
  }
  void add_submodule(const std::string& name, const Module& child, const std::optional<std::string>& interface = std::nullopt) {
    try_add_submodule(name, child, interface).value();
  }
  void define(const std::string& source) { try_define(source).value(); }
  void define_types(const std::string& qualifier, const std::string& source) { try_define_types(qualifier, source).value(); }
  void set_hooks_before_forward(const Names& methods) { try_set_hooks_before_forward(methods).value(); }
  void set_hooks_after_forward(const Names& methods) { try_set_hooks_after_forward(methods).value(); }
  void set_traced_inputs(const std::string& method, const Values& inputs) { try_set_traced_inputs(method, inputs).value(); }
  void set_extra_file(const std::string& name, std::span<const std::byte> data) { try_set_extra_file(name, data).value(); }
  void set_extra_file(const std::string& name, std::string_view data) { try_set_extra_file(name, data).value(); }
  void remove_extra_file(const std::string& name) { try_remove_extra_file(name).value(); }
  void set(const std::string& path, const Value& value) { try_set(path, value).value(); }
  void set_submodule(const std::string& path, const Module& child) { try_set_submodule(path, child).value(); }
  void remove(const std::string& path) { try_remove(path).value(); }
  LoadReport load(const NamedValues& tensors, const LoadOptions& options = {}) { return try_load(tensors, options).value(); }
  void check() const { try_check().value(); }
  std::vector<Member> members() const;
  Member find(const std::string& path) const;
  Module submodule(const std::string& path) const { return try_submodule(path).value(); }
  Value value(const std::string& path) const { return try_value(path).value(); }
  std::vector<Member> tensors() const;
  std::vector<Member> parameters() const;
  std::vector<Member> buffers() const;
  std::vector<File> extra_files() const { return try_extra_files().value(); }
  std::vector<File> code_files() const { return try_code_files().value(); }
  std::vector<Value> constants() const { return try_constants().value(); }
  ImportReport import_report() const { return try_import_report().value(); }
  std::vector<std::string> warnings() const { return try_warnings().value(); }
  std::string class_name() const { return try_class_name().value(); }
#endif

 private:
  // function(err) puts a value under a name or path.
  template <class Function>
  Result<void> put(const std::string& name, const Value& value, Function&& function) {
    if (!detail::is_c_text(name)) return detail::has_nul("the name");
    if (!value) return detail::no_value("what '" + name + "' gets");
    return detail::call(function);
  }

  Result<void> set_hooks(int before_forward, const Names& methods) {
    const Result<std::vector<const char*>> c = detail::c_texts(methods.get(), "the method");
    if (!c) return c.error();
    return detail::call([&](tenon_error** err) { return tenon_module_set_hooks(get(), before_forward, c->data(), c->size(), err); });
  }
};

TENON_CPP_END

template <>
struct std::hash<tenon::Module> {
  std::size_t operator()(const tenon::Module& module) const noexcept { return std::hash<const void*>()(module.object().get()); }
};

// The definitions of what was only declared here.
#include <tenon/cpp/module_look.hpp>

#endif
