#include "modules/module/code_environment.h"

#include <utility>

namespace tenon::module {

const CodeEnvironment::Declared& CodeEnvironment::declared(std::string_view name) const {
  const auto found = declared_.find(name);
  if (found != declared_.end()) return found->second;
  return declared_.emplace(std::string(name), declare(name)).first->second;
}

// A class or function that cannot be parsed is treated as if it did not exist.
CodeEnvironment::Declared CodeEnvironment::declare(std::string_view name) const {
  Declared declared;
  auto definition = code_.find_definition(name);
  if (!definition.is_ok() || definition.value() == nullptr) return declared;
  auto text = code_.text(*definition.value());
  if (!text.is_ok()) return declared;
  const script::Item& item = *text.value().item;
  if (item.class_def != nullptr) {
    auto made = script::declare_class(text.value().source(), std::string(name), *item.class_def);
    if (made.is_ok())
      declared.class_declaration =
          std::make_unique<script::ClassDeclaration>(std::move(made).value());
  } else if (item.function != nullptr) {
    declared.function_declaration = std::make_unique<script::FunctionDeclaration>(
        script::declare_function(text.value().source(), *item.function));
  }
  return declared;
}

const script::ClassDeclaration* CodeEnvironment::find_class(std::string_view name) const {
  return declared(name).class_declaration.get();
}

const script::FunctionDeclaration* CodeEnvironment::find_function(std::string_view name) const {
  return declared(name).function_declaration.get();
}

}  // namespace tenon::module
