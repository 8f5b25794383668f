// Module: an object tree, the code of its classes, and what else an archive carries. A tenon_module
// is one of these. A submodule that was looked up is a Module of its own, over the same objects and
// the same code: what is changed through one shows in all.
//
// Looking (const) is for any number of threads; changing is for one, without any that looks.
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
#include "module/code.h"
#include "value/value.h"

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
  TypeRef type;  // null of methods
  // Of submodules, of methods and of constants that are written as something else than a literal:
  // null.
  ValueRef value;
  Ref<Module> module;  // of submodules
  std::string source;  // of methods, and of constants: as it stands in the class
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

// What an import found, for who asks.
struct ImportReport {
  int version = 0;
  std::string archive_name;
  uint64_t records = 0;
  uint64_t mapped_tensors = 0;  // storages that are views of the file
  uint64_t mapped_nbytes = 0;
  uint64_t filled_tensors = 0;  // storages that were copied, and why, by number
  uint64_t filled_nbytes = 0;
  uint64_t misaligned = 0;
  uint64_t compressed = 0;
  uint64_t foreign_endian = 0;
  uint64_t without_crc = 0;           // records
  std::vector<std::string> warnings;  // one line each
  // Records that an export does not write again: debug tables that were not asked for, bytecode
  // that is not kept (Package::why_no_bytecode).
  std::vector<std::string> dropped;
};

// What only the root of an imported tree has, or the module on which it was set.
struct Package {
  bool is_whole_archive = false;  // the module is an archive's root
  std::vector<ExtraFile> extra_files;
  ValueRef traced_inputs;  // a dict, method -> list of inputs; null: none
  // As they stood in the archive, until traced inputs are set: PyTorch writes their tensors without
  // bytes.
  std::string traced_inputs_pickle;
  std::vector<std::string> traced_inputs_records;
  std::shared_ptr<const KeptBytecode> bytecode;  // null: there is none, or it is not kept
  // Of bytecode that the archive has and that is not kept.
  Status why_no_bytecode;
  // What debuggers read, by the names of the records, if the import was asked to keep it.
  std::vector<ExtraFile> debug_tables;
  ImportReport report;
};

// Which class an object is of, where that is not what its archive says: its scope.
class Home final : public Counted {
 public:
  static Ref<const Counted> create(Ref<CodeSet> code, std::string class_name);
  const Ref<CodeSet>& code() const noexcept { return code_; }
  const std::string& class_name() const noexcept { return class_name_; }

 private:
  Home(Ref<CodeSet> code, std::string class_name) noexcept
      : code_(std::move(code)), class_name_(std::move(class_name)) {}
  ~Home() override = default;
  Ref<CodeSet> code_;
  std::string class_name_;
};
// The class of an object that stands below something with the code `around`: what its scope says,
// or else its class there. Borrowed from both.
struct ObjectClass {
  CodeSet* code = nullptr;
  std::string_view name;
};
ObjectClass class_of(const value::Value& object, CodeSet* around) noexcept;
// Whether a value that stands below something with the code `around` is the object of a module.
bool is_module_object(const value::Value& value, CodeSet* around);

class Module final : public Counted {
 public:
  static Result<Ref<Module>> create(std::string_view class_name);
  // Over an object of that code; `package` may be null.
  static Ref<Module> wrap(ValueRef object, Ref<CodeSet> code, std::shared_ptr<Package> package);

  std::string class_name() const;
  const ValueRef& object() const noexcept { return object_; }
  ObjectClass object_class() const noexcept { return class_of(*object_, code_.get()); }
  const Package& package() const noexcept;

  // build.cc. INVALID_ARGUMENT names what is taken or does not fit its type.
  Status add_parameter(std::string_view name, ValueRef tensor_or_none);
  Status add_buffer(std::string_view name, ValueRef tensor_or_none);
  Status add_attribute(std::string_view name, const TypeRef& type, ValueRef value);
  // A literal of the class if it can be one, else a constant of the code.
  Status add_constant(std::string_view name, const TypeRef& type, ValueRef value);
  // `type`: the interface that stands in the class; null: the child's own class. A child may have
  // several owners.
  Status add_submodule(std::string_view name, const Ref<Module>& child,
                       const TypeRef& type = nullptr);
  // One or more `def`s: methods, which replace those of their names.
  Status define(std::string_view source);
  Status remove_method(std::string_view name);
  // Functions, NamedTuples, enums, interfaces, plain classes; the qualifier is "__torch__" or
  // below.
  Status define_types(std::string_view qualifier, std::string_view source);
  // Methods that are run before or after forward, in this order.
  Status set_hooks(bool before_forward, std::vector<std::string> method_names);
  Status set_extra_file(std::string_view name, std::string content);
  Status remove_extra_file(std::string_view name);
  // Example inputs of a method, for traced modules.
  Status set_traced_inputs(std::string_view method, std::vector<ValueRef> inputs);

  // set.cc. A path may lead into a state (state_path.h). Who else below this module held the same
  // tensor has the new one too. Where a parameter required a gradient, what takes its place
  // requires one too, here and in load().
  Status set(std::string_view path, ValueRef value);
  Status set_submodule(std::string_view path, const Ref<Module>& child);
  // state.cc. Gives the object at `path` (empty: this module's own) a state in place of the one
  // that it has, or of its attributes if it is a module.
  Status set_state(std::string_view path, ValueRef state);
  // A parameter, buffer, attribute, constant, submodule or method.
  Status remove(std::string_view path);
  // Parameters, buffers and tensors of states by their paths. All names are checked before anything
  // is changed; `report` may be null.
  Status load(std::span<const NamedTensor> tensors, const LoadOptions& options, LoadReport* report);

  // look.cc. NOT_FOUND names the part of the path that is not there. The empty path of find() is
  // none.
  Result<Member> find(std::string_view path) const;
  Result<std::vector<Member>> members() const;
  // Every parameter and buffer below and every tensor of a state, with its path, in the order of
  // the tree; a shared one under each of its paths.
  Result<std::vector<NamedTensor>> tensors() const;
  // The paths of all states below, as find() takes them.
  Result<std::vector<std::string>> states() const;

  // compile_code.cc. The operators that bytecode of these methods calls, "aten::add.Tensor", each
  // once and in order. Empty `methods`: all.
  Result<std::vector<std::string>> operator_names(const std::vector<std::string>& methods) const;

  // What export checks of the code, and writes nothing: line, caret, reason.
  Status check() const;

 private:
  Module(ValueRef object, Ref<CodeSet> code, std::shared_ptr<Package> package) noexcept
      : object_(std::move(object)), code_(std::move(code)), package_(std::move(package)) {}
  ~Module() override = default;
  // The class of this module's object, and of no other, to be changed.
  Result<ClassBody*> edit_class();
  // INVALID_ARGUMENT for a name that is taken or can be none.
  Status check_new_member(std::string_view name) const;
  Result<ValueRef> check_member_value(std::string_view path, const TypeRef& type,
                                      const ValueRef& value) const;
  Status add_field(std::string_view name, const TypeRef& type, FieldKind kind, ValueRef value);
  Status add_tensor(std::string_view name, FieldKind kind, ValueRef tensor_or_none);
  // Whether `child` may stand below this module; `type` as in add_submodule.
  Status check_child(const Module& child, const TypeRef& type) const;
  // Its class stays what it is when its owner has other code.
  void settle_child(const Module& child) const;
  // The module that has the last part of a path, and that part.
  struct Place {
    Ref<Module> owner;
    std::string_view name;
  };
  Result<Place> place_of(std::string_view path) const;
  Result<Member> find_member(std::string_view name) const;
  Member field_member(const FieldDecl& field, size_t index) const;
  Result<Member> constant_member(const ConstantDecl& constant) const;
  // Of a module that has attributes.
  Status start_state(ValueRef state);
  Status replace_in_state(const StatePlace& place, std::string_view path, const ValueRef& value);
  Package& make_package();

  ValueRef object_;
  Ref<CodeSet> code_;  // in which its class is looked up, unless it has a scope
  std::shared_ptr<Package> package_;
};

}  // namespace tenon::module
