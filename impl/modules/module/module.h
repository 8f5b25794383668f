// Module is an object tree, the code of its classes, and the other content of an archive. A
// tenon_module is a Module. Looking up a submodule makes another Module over the same objects and
// the same code. So a change through one is visible through both.
//
// The lock of modules/value/tree_lock.h guards all modules. The caller of a const function holds
// ReadTrees, and the caller of any other holds ChangeTrees. A forked child may use every module.
//
// While an export of the code runs, every change is refused with PERMISSION. In a child that was
// forked meanwhile, changes stay refused for ever. A change that fails leaves the members and their
// values as they were. After std::bad_alloc the module may be changed in part.
//
// The import of a flatbuffer may give a Module that is not complete. Then complete() gives the
// Module to use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "modules/module/code.h"
#include "modules/module/deferred.h"
#include "modules/value/value.h"

namespace tenon::module {

using value::TypeRef;
using value::ValueRef;

enum class MemberKind : uint8_t {
  kParameter,
  kBuffer,
  kAttribute,
  kConstant,
  kSubmodule,
  kMethod,
  kState
};
const char* member_kind_name(MemberKind kind) noexcept;

class Module;
class KeptBytecode;
struct StatePlace;

struct Member {
  MemberKind kind = MemberKind::kAttribute;
  std::string name;
  TypeRef type;  // null for methods
  // Null for submodules and methods, for constants whose text is neither a literal nor an entry of
  // CONSTANTS, and for attributes of a module that has a state.
  ValueRef value;
  Ref<Module> module;  // for submodules
  std::string source;  // for methods and constants: the text in the class
};

struct ExtraFile {
  std::string name;
  std::string content;
};

struct NamedTensor {
  std::string name;  // "encoder.0.weight"
  ValueRef value;    // a tensor, or None
};

struct LoadOptions {
  bool allow_missing = false;
  bool allow_unexpected = false;
  bool check_only = false;  // change nothing
};

struct LoadReport {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

// The findings of an import, for its caller.
struct ImportReport {
  int version = 0;
  std::string archive_name;
  uint64_t records = 0;
  uint64_t mapped_tensors = 0;  // storages that are views of the file
  uint64_t mapped_nbytes = 0;
  // Storages that were copied. The three numbers from `misaligned` on count the reasons.
  uint64_t filled_tensors = 0;
  uint64_t filled_nbytes = 0;
  uint64_t misaligned = 0;
  uint64_t compressed = 0;
  uint64_t foreign_endian = 0;
  uint64_t without_crc = 0;           // records
  std::vector<std::string> warnings;  // one line each
  // Records that an export does not write again: debug tables that were not asked for, and bytecode
  // that is not kept (Package::why_no_bytecode).
  std::vector<std::string> dropped;
};

// The data that only the root of an imported tree has, or a module on which it was set.
struct Package {
  bool is_whole_archive = false;  // the module is an archive's root
  std::vector<ExtraFile> extra_files;
  ValueRef traced_inputs;  // a dict from each method to a list of its inputs; null: none
  // The record with traced_inputs as the archive had it, and its tensors' records. PyTorch writes
  // these tensors without bytes. The pickle is emptied when traced inputs are set.
  std::string traced_inputs_pickle;
  std::vector<std::string> traced_inputs_records;
  // The archive's bytecode. Null: there is none, or it is not kept. The first call of one of these
  // three functions verifies the bytecode of a flatbuffer.
  const KeptBytecode* bytecode() const;
  // The reason, if the archive has bytecode that is not kept.
  const Status& why_no_bytecode() const;
  // report.warnings, and one for bytecode that is not kept.
  std::vector<std::string> import_warnings() const;
  // For Assembly. At most one of the two is set.
  std::shared_ptr<const KeptBytecode> found_bytecode;  // perhaps not verified
  Status unread_bytecode;
  // The records that debuggers read, by name, if the import was asked to keep them.
  std::vector<ExtraFile> debug_tables;
  ImportReport report;
};

// The scope of an object whose class is not what its archive says: the class, and the code in which
// the class is looked up. It is the object's attachment (Value::attachment). An object without one
// has its class in the same code as the class of the object that holds it.
class ClassScope final : public Counted {
 public:
  static Ref<const Counted> create(Ref<CodeSet> code, std::string class_name);
  const Ref<CodeSet>& code() const noexcept { return code_; }
  const std::string& class_name() const noexcept { return class_name_; }

 private:
  ClassScope(Ref<CodeSet> code, std::string class_name) noexcept
      : code_(std::move(code)), class_name_(std::move(class_name)) {}
  ~ClassScope() override = default;
  Ref<CodeSet> code_;
  std::string class_name_;
};
// The class of an object that stands below a value with the code `around`: the class that its scope
// names, or else the object's class in `around`. Borrowed from the object and from `around`.
struct ObjectClass {
  CodeSet* code = nullptr;
  std::string_view name;
};
ObjectClass class_of(const value::Value& object, CodeSet* around) noexcept;
// Whether a value that stands below a value with the code `around` is the object of a module.
bool is_module_object(const value::Value& value, CodeSet* around);

class Module final : public Counted {
 public:
  // Makes a module of a new class, which is in new code. Its only member is the attribute
  // `training`. INVALID_ARGUMENT for a name that no class of an archive can have.
  static Result<Ref<Module>> create(std::string_view class_name);
  // Makes a Module over an object whose code is `code`. Keeps both alive. `package` may be null.
  static Ref<Module> wrap(ValueRef object, Ref<CodeSet> code, std::shared_ptr<Package> package);
  // Makes a Module whose import is not complete. Only complete() may be called on it.
  static Ref<Module> defer(std::unique_ptr<const DeferredImport> import);

  // Gives the module on which all other functions are called: this one, or the one that a deferred
  // import makes now. It lives as long as this one. The errors are those of import_module(). Any
  // thread may call this, with or without the lock.
  Result<Module*> complete() { return deferred_ ? deferred_->get() : this; }

  std::string class_name() const;
  const ValueRef& object() const noexcept { return object_; }
  ObjectClass object_class() const noexcept { return class_of(*object_, code_.get()); }
  const Package& package() const noexcept;

  // The functions from here on are in build.cc. INVALID_ARGUMENT names the name that is taken or
  // the value that does not fit its type. UNSUPPORTED if the module has a state and would get an
  // attribute. CORRUPT if the code of the class cannot be parsed.
  Status add_parameter(std::string_view name, ValueRef tensor_or_none);
  Status add_buffer(std::string_view name, ValueRef tensor_or_none);
  Status add_attribute(std::string_view name, const TypeRef& type, ValueRef value);
  // The constant becomes a literal of the class if there is one for it, and else a constant of the
  // code.
  Status add_constant(std::string_view name, const TypeRef& type, ValueRef value);
  // `type` is the interface as which the class declares the submodule. Null: the child's own class.
  // A child may have several owners. INVALID_ARGUMENT if this module is below the child already.
  Status add_submodule(std::string_view name, const Ref<Module>& child,
                       const TypeRef& type = nullptr);
  // Takes one or more `def`s, which are methods. Each replaces an existing method of its name.
  Status define(std::string_view source);
  Status remove_method(std::string_view name);
  // Defines functions, NamedTuples, enums, interfaces and plain classes. The qualifier is
  // "__torch__" or a name below it.
  Status define_types(std::string_view qualifier, std::string_view source);
  // Sets the methods that run before or after forward, in this order.
  Status set_hooks(bool before_forward, std::vector<std::string> method_names);
  Status set_extra_file(std::string_view name, std::string content);
  Status remove_extra_file(std::string_view name);
  // Sets the example inputs of a method, for traced modules.
  Status set_traced_inputs(std::string_view method, std::vector<ValueRef> inputs);

  // set() and set_submodule() are in set_members.cc. A path may lead into a state (state_path.h).
  // Every other place below this module that held the same tensor gets the new one too. If a
  // parameter required a gradient, its replacement requires one too, here and in load().
  Status set(std::string_view path, ValueRef value);
  Status set_submodule(std::string_view path, const Ref<Module>& child);
  // In state.cc. Gives the object at `path` (empty: this module's own) a state. The state replaces
  // the one that the object has, or a module's attributes.
  Status set_state(std::string_view path, ValueRef state);
  // Removes a parameter, buffer, attribute, constant, submodule or method.
  Status remove(std::string_view path);
  // In load.cc. Replaces parameters, buffers and tensors of states, by their paths. All names and
  // values are checked before anything is changed. `report` may be null. It is filled in also if
  // names are missing or unexpected, which is INVALID_ARGUMENT.
  Status load(std::span<const NamedTensor> tensors, const LoadOptions& options, LoadReport* report);

  // The functions from here on are in find_members.cc. NOT_FOUND names the part of the path that
  // does not exist. find() refuses the empty path. CORRUPT if the code of a class cannot be parsed.
  Result<Member> find(std::string_view path) const;
  Result<std::vector<Member>> members() const;
  // Gives every parameter and buffer below, and every tensor of a state, with its path, in the
  // order of the tree. A shared tensor appears under each of its paths.
  Result<std::vector<NamedTensor>> tensors() const;
  // The paths of all states below, as find() takes them.
  Result<std::vector<std::string>> states() const;

  // In compile_code.cc. The operators that bytecode of these methods calls, as "aten::add.Tensor",
  // each once and in order. Empty `methods`: all methods.
  Result<std::vector<std::string>> operator_names(const std::vector<std::string>& methods) const;

  // In export.cc. Checks the code as an export does, and writes nothing. An error has line, caret
  // and reason.
  Status check() const;

 private:
  Module(ValueRef object, Ref<CodeSet> code, std::shared_ptr<Package> package) noexcept
      : object_(std::move(object)), code_(std::move(code)), package_(std::move(package)) {}
  ~Module() override = default;
  // Gives the class body of this module's object for a change. A class that other objects have too
  // is copied first.
  Result<ClassBody*> edit_class();
  // INVALID_ARGUMENT for a name that is taken or cannot be a member's.
  Status check_new_member(std::string_view name) const;
  Result<ValueRef> check_member_value(std::string_view path, const TypeRef& type,
                                      const ValueRef& value) const;
  Status add_field(std::string_view name, const TypeRef& type, FieldKind kind, ValueRef value);
  Status add_tensor(std::string_view name, FieldKind kind, ValueRef tensor_or_none);
  // Whether `child` may stand below this module; `type` as in add_submodule.
  Status check_child(const Module& child, const TypeRef& type) const;
  // Fixes the class of `child` in the child's code, before an owner with other code gets it.
  void settle_child(const Module& child) const;
  // The module that owns the last part of a path, and that part.
  struct OwnedMember {
    Ref<Module> owner;
    std::string_view name;
  };
  Result<OwnedMember> place_of(std::string_view path) const;
  Result<Member> find_member(std::string_view name) const;
  Member field_member(const FieldDecl& field, size_t index) const;
  Result<Member> constant_member(const ConstantDecl& constant) const;
  // For a module that has attributes and no state yet.
  Status start_state(ValueRef state);
  Status replace_in_state(const StatePlace& place, std::string_view path, const ValueRef& value);
  Package& make_package();

  ValueRef object_;
  Ref<CodeSet> code_;  // the code of the object's class, unless the object has a scope
  std::shared_ptr<Package> package_;
  std::unique_ptr<const Deferred> deferred_;  // if it is set, the members above are null
};

}  // namespace tenon::module
