// mentions_of() (class_graph.h): finds the definitions and constants that the text of a class or
// function mentions. ClassGraph calls it.
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "modules/module/class_graph.h"
#include "modules/script/class_parts.h"
#include "modules/script/rename.h"

namespace tenon::module {

namespace {

constexpr std::string_view kConstantTable = "CONSTANTS";
constexpr std::string_view kConstant = "CONSTANTS.c";

// Returns the first parts of all names that can mean a definition or a constant. An empty result
// means that any name can.
std::vector<std::string_view> first_parts_of(const CodeSet& code) {
  std::vector<std::string_view> parts = {kConstantTable};
  for (const std::unique_ptr<CodeFile>& file : code.files()) {
    const std::string_view qualifier = file->qualifier();
    if (qualifier.empty()) return {};
    const std::string_view part = qualifier.substr(0, qualifier.find('.'));
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  return parts;
}

// Finds the submodules that a class declares. `statements` gets all other statements of the class,
// because the objects themselves are a better source for the classes of their submodules.
Status find_children(const CodeSet& code, const CodeSet::Text& text, const ClassBody& body,
                     Mentions* mentions, std::vector<const script::Stmt*>* statements) {
  TENON_ASSIGN(const script::ClassParts parts,
               script::class_parts(text.source(), *text.item->class_def));
  std::map<const script::Stmt*, bool> is_child;
  for (const script::Field& field : parts.fields) {
    const size_t index = body.find_field(field.name);
    if (index == SIZE_MAX) continue;
    const FieldDecl& decl = body.fields[index];
    if (decl.type->kind() != value::TypeKind::kClass) continue;
    TENON_ASSIGN(Definition * declared, code.find_definition(decl.type->class_name()));
    bool is_module = declared == nullptr && decl.kind == FieldKind::kSubmodule;
    if (declared != nullptr && declared->is_class()) {
      TENON_ASSIGN(const ClassBody* its_body, code.body(*declared));
      is_module = its_body->kind == ClassKind::kModule;
    }
    if (!is_module) continue;
    is_child[field.statement] = true;
    mentions->children.push_back({field.name, decl.type->class_name(), declared});
  }
  for (const script::Stmt* statement : text.item->class_def->body) {
    if (is_child.find(statement) == is_child.end()) statements->push_back(statement);
  }
  return Status::ok();
}

}  // namespace

Result<Mentions> mentions_of(const CodeSet& code, const Definition& definition) {
  Mentions mentions;
  TENON_ASSIGN(const CodeSet::Text text, code.text(definition));
  std::vector<script::Range> ranges;
  if (definition.is_class()) {
    TENON_ASSIGN(const ClassBody* body, code.body(definition));
    std::vector<const script::Stmt*> statements;
    TENON_TRY(find_children(code, text, *body, &mentions, &statements));
    for (const script::Stmt* statement : statements) ranges.push_back(statement->range);
  } else {
    ranges.push_back(text.item->range);
  }
  const std::vector<std::string_view> first_parts = first_parts_of(code);
  std::map<std::string_view, Definition*> outer;
  for (const script::Range range : ranges) {
    for (const std::string& used : script::used_names(*text.file, range, first_parts)) {
      if (used.starts_with(kConstant)) {
        size_t index = 0;
        const std::string_view digits = std::string_view(used).substr(kConstant.size());
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), index);
        // "CONSTANTS.c3.shape" mentions constant 3 too.
        if (error == std::errc() && (end == digits.data() + digits.size() || *end == '.'))
          mentions.constants.push_back(index);
        continue;
      }
      TENON_ASSIGN(Definition * owner, code.find_owner(used));
      if (owner != nullptr && owner != &definition) outer[owner->name()] = owner;
    }
  }
  for (const auto& [name, owner] : outer) mentions.outer.push_back(owner);
  std::sort(mentions.constants.begin(), mentions.constants.end());
  mentions.constants.erase(std::unique(mentions.constants.begin(), mentions.constants.end()),
                           mentions.constants.end());
  return mentions;
}

}  // namespace tenon::module
