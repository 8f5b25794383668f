// CodeEnvironment answers the questions of the checker of code (script/check.h) about an archive,
// from a CodeSet. A class or a function is declared when the checker first names it, so code that
// the checker never names is not parsed. version.cc and warnings.cc make the objects.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "modules/module/code.h"
#include "modules/module/name_map.h"
#include "modules/script/declarations.h"

namespace tenon::module {

// Use it from one thread. `code` outlives it and must not change meanwhile. The answers are those
// of script::Environment (script/declarations.h). They belong to this object and stay valid as long
// as it lives. Names are qualified ("__torch__.a.B"). A class or function that cannot be parsed is
// null, as if it did not exist.
class CodeEnvironment final : public script::Environment {
 public:
  explicit CodeEnvironment(const CodeSet& code) noexcept : code_(code) {}

  const script::ClassDeclaration* find_class(std::string_view name) const override;
  const script::FunctionDeclaration* find_function(std::string_view name) const override;
  // Whether any class has a member of that name. True for every name, because the exact answer
  // would require all code to be parsed. So the checker accepts an unknown member of a value whose
  // class it does not know, also where PyTorch would refuse it.
  bool any_class_has(std::string_view) const override { return true; }
  size_t constants() const override { return code_.constants().size(); }

 private:
  // Both are null for a name that is neither, and this answer is kept too.
  struct Declared {
    std::unique_ptr<script::ClassDeclaration> class_declaration;        // null: it is no class
    std::unique_ptr<script::FunctionDeclaration> function_declaration;  // null: it is no function
  };
  const Declared& declared(std::string_view name) const;
  Declared declare(std::string_view name) const;

  const CodeSet& code_;
  mutable ByName<Declared> declared_;
};

}  // namespace tenon::module
