// What code may name outside of itself: the classes and functions of an archive, with their
// attributes and signatures, and its constants. An Environment answers for them; Declarations is
// one made from code files.
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
#include "script/arguments.h"
#include "script/class_parts.h"
#include "script/parser.h"
#include "value/type.h"

namespace tenon::script {

// So that a map with string keys is asked with a string_view.
template <typename T>
using NameMap = std::unordered_map<std::string, T, KeyedHash, std::equal_to<>>;

// Null: there is none of that name.
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
  std::string name;  // without what qualifies it
  std::vector<ParameterDeclaration> parameters;
  value::TypeRef returns;  // null: not known
  // Views into it. `skip`: a method's receiver, which a call does not give.
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
  // Of a NamedTuple, in order: what its constructor takes.
  std::vector<ParameterDeclaration> fields;
  NameMap<FunctionDeclaration> methods;
  bool is_interface() const noexcept {
    return kind == ClassKind::kInterface || kind == ClassKind::kModuleInterface;
  }
  bool is_module() const noexcept { return kind == ClassKind::kModule; }
};

class Environment {
 public:
  virtual ~Environment() = default;
  // By qualified name; null: none. What they return lives as long as the environment.
  virtual const ClassDeclaration* find_class(std::string_view name) const = 0;
  virtual const FunctionDeclaration* find_function(std::string_view name) const = 0;
  // Some class has, or may have, an attribute, a method or a field of that name.
  virtual bool any_class_has(std::string_view member) const = 0;
  // Entries of constants.pkl.
  virtual size_t constants() const = 0;
};

// Of a class's header and body alone. Types that cannot be read become unknown ones; checking the
// class names them.
Result<ClassDeclaration> declare_class(const Source& source, std::string qualified_name,
                                       const Class& class_def);
FunctionDeclaration declare_function(const Source& source, const Function& function);

class Declarations : public Environment {
 public:
  // Where an item stands.
  struct Place {
    std::shared_ptr<const File> file;
    const Item* item = nullptr;
  };

  // `qualifier` is "__torch__.a.b" for code/__torch__/a/b.py. Of two items of one name the later
  // one counts, as with PyTorch.
  Status add(std::string_view qualifier, const std::shared_ptr<const File>& file);
  void set_constants(size_t count) noexcept { constants_ = count; }

  const ClassDeclaration* find_class(std::string_view name) const override;
  const FunctionDeclaration* find_function(std::string_view name) const override;
  bool any_class_has(std::string_view member) const override;
  size_t constants() const override { return constants_; }

  // Null: there is none.
  const Place* find_place(std::string_view qualified_name) const;
  const NameMap<Place>& places() const noexcept { return places_; }

 private:
  NameMap<ClassDeclaration> classes_;
  NameMap<FunctionDeclaration> functions_;
  NameMap<Place> places_;
  std::unordered_set<std::string, KeyedHash, std::equal_to<>> members_;
  // Of other libraries: whatever is asked for, one of them may have it.
  bool unknown_classes_ = false;
  size_t constants_ = 0;
};

}  // namespace tenon::script
