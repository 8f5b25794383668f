// The classes, functions and constants that code of an archive can name. The checker asks an
// Environment for them, with their attributes and signatures. Declarations is an Environment that
// is made from code files.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "modules/script/arguments.h"
#include "modules/script/class_parts.h"
#include "modules/script/parser.h"
#include "modules/value/type.h"

namespace tenon::script {

// A map by name whose string keys can be found with a string_view.
template <typename T>
using NameMap = std::unordered_map<std::string, T, KeyedHash, std::equal_to<>>;

// Null: the map has no such name.
template <typename T>
const T* find_in(const NameMap<T>& map, std::string_view name) {
  const auto found = map.find(name);
  return found != map.end() ? &found->second : nullptr;
}

// "__torch__.a" and "B" make "__torch__.a.B".
std::string qualified(std::string_view qualifier, std::string_view name);

struct ParameterDeclaration {
  std::string name;
  value::TypeRef type;  // null: not known
  bool has_default = false;
  bool keyword_only = false;
};

struct FunctionDeclaration {
  std::string name;  // without its qualifier
  std::vector<ParameterDeclaration> parameters;
  value::TypeRef returns;  // null: not known
  // The parameters from number `skip` on, as views into this object. `skip` is 1 for a method,
  // because a call does not give the receiver as an argument.
  Formals formals(size_t skip) const;
};

struct AttributeDeclaration {
  value::TypeRef type;       // null: not known
  bool is_constant = false;  // `Final`, or a member of an enum
};

struct ClassDeclaration {
  std::string name;  // qualified
  ClassKind kind = ClassKind::kPlain;
  NameMap<AttributeDeclaration> attributes;
  // A NamedTuple's fields in their order, which are the parameters of its constructor.
  std::vector<ParameterDeclaration> fields;
  NameMap<FunctionDeclaration> methods;
  bool is_interface() const noexcept {
    return kind == ClassKind::kInterface || kind == ClassKind::kModuleInterface;
  }
  bool is_module() const noexcept { return kind == ClassKind::kModule; }
};

// An implementation may cache answers. So one thread at a time may ask an Environment, unless its
// class allows more.
class Environment {
 public:
  virtual ~Environment() = default;
  // Find a class or function by its qualified name. Null: there is none. The declaration lives as
  // long as the environment.
  virtual const ClassDeclaration* find_class(std::string_view name) const = 0;
  virtual const FunctionDeclaration* find_function(std::string_view name) const = 0;
  // Whether some class has, or may have, an attribute, a method or a field of that name.
  virtual bool any_class_has(std::string_view member) const = 0;
  // The number of entries of constants.pkl.
  virtual size_t constants() const = 0;
};

// Declare a class or a function from its own text alone. A type that cannot be read becomes an
// unknown type, because check_class() and check_function() report it. declare_class() has the
// errors of class_parts(). The declarations do not refer to the source.
Result<ClassDeclaration> declare_class(const Source& source, std::string qualified_name,
                                       const Class& class_def);
FunctionDeclaration declare_function(const Source& source, const Function& function);

// Any number of threads may ask while no thread calls add() or set_constants(). The object keeps
// the files alive.
class Declarations : public Environment {
 public:
  // The place of an item: its file, and the item there.
  struct ItemInFile {
    std::shared_ptr<const File> file;
    const Item* item = nullptr;
  };

  // Adds the items of a file. `qualifier` is "__torch__.a.b" for code/__torch__/a/b.py. If two
  // items have one name, the later one counts, as with PyTorch. CORRUPT for a class whose body
  // PyTorch's importer does not take. After an error the object is of no use.
  Status add(std::string_view qualifier, const std::shared_ptr<const File>& file);
  void set_constants(size_t count) noexcept { constants_ = count; }

  const ClassDeclaration* find_class(std::string_view name) const override;
  const FunctionDeclaration* find_function(std::string_view name) const override;
  bool any_class_has(std::string_view member) const override;
  size_t constants() const override { return constants_; }

  // Null: there is none.
  const ItemInFile* find_place(std::string_view qualified_name) const;
  const NameMap<ItemInFile>& places() const noexcept { return places_; }

 private:
  NameMap<ClassDeclaration> classes_;
  NameMap<FunctionDeclaration> functions_;
  NameMap<ItemInFile> places_;
  std::unordered_set<std::string, KeyedHash, std::equal_to<>> members_;
  // Some type names a custom class of another library. Such a class may have a member of any name.
  bool unknown_classes_ = false;
  size_t constants_ = 0;
};

}  // namespace tenon::script
