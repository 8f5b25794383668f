#include "modules/module/resolve.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "modules/module/version.h"
#include "modules/script/parser.h"
#include "modules/script/rename.h"

namespace tenon::module {

using value::Type;
using value::Value;
using value::ValueKind;

namespace {

// The prefix of stand-in names. No name in an archive begins like this.
constexpr std::string_view kStandIn = "__child__.c";

script::NewNames names_outside(const ClassGraph& graph, const ClassGraph::Node& node) {
  script::NewNames names;
  names[node.definition->name()] = node.name;
  for (size_t i = 0; i < node.outer.size(); ++i) {
    names[node.mentions->outer[i]->name()] = graph.nodes()[node.outer[i]].name;
  }
  for (const size_t index : node.mentions->constants) {
    names["CONSTANTS.c" + std::to_string(index)] =
        "CONSTANTS.c" + std::to_string(graph.constant_index(node.code, index));
  }
  return names;
}

// Adds the new names of the submodules' classes. False if one declared class would need two new
// names, because its submodules have different classes now or the class is mentioned elsewhere too.
bool add_children(const ClassGraph& graph, const ClassGraph::Node& node, script::NewNames* names) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::string& name = graph.nodes()[node.children[i]].name;
    const auto [place, is_new] = names->try_emplace(node.mentions->children[i].type, name);
    if (!is_new && place->second != name) return false;
  }
  return true;
}

bool changes_nothing(const script::NewNames& names) {
  for (const auto& [from, to] : names) {
    if (from != to) return false;
  }
  return true;
}

// Prints the class anew. Each submodule first gets a stand-in type of its own, which is then
// renamed like any other.
Result<std::string> text_by_stand_ins(const ClassGraph& graph, const ClassGraph::Node& node,
                                      script::NewNames names) {
  TENON_ASSIGN(const ClassBody* body, node.code->body(*node.definition));
  ClassBody copy = *body;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::string stand_in = std::string(kStandIn) + std::to_string(i);
    TENON_ASSIGN(copy.fields[copy.find_field(node.mentions->children[i].field)].type,
                 Type::class_type(stand_in));
    names[stand_in] = graph.nodes()[node.children[i]].name;
  }
  TENON_ASSIGN(const auto file, script::parse_file("class " + node.definition->name(),
                                                   copy.print(base_name_of(node.name))));
  if (file->items().empty()) return Status(Code::kInternal, "a class printed anew is none");
  return script::renamed(*file, file->items().front().extent, names);
}

void append(std::vector<ResolvedFile>* files, std::map<std::string, size_t>* places,
            const std::string& qualifier, std::string_view text) {
  const auto [place, is_new] = places->try_emplace(qualifier, files->size());
  if (is_new) files->push_back({qualifier, {}, nullptr});
  std::string& whole = (*files)[place->second].text;
  if (!whole.empty() && whole.back() != '\n') whole += '\n';
  whole += text;
}

// Gives the code files. The definitions have the order of their files, those of the first root's
// code first.
Result<std::vector<ResolvedFile>> resolve_files(const ClassGraph& graph) {
  std::vector<ResolvedFile> files;
  std::map<std::string, size_t> places;
  std::multimap<const Definition*, const ClassGraph::Node*> to_write;
  for (const ClassGraph::Node& node : graph.nodes()) {
    if (node.is_first) to_write.emplace(node.definition, &node);
  }
  for (const Ref<CodeSet>& code : graph.codes()) {
    const bool of_root = code.get() == graph.codes().front().get();
    for (const std::unique_ptr<CodeFile>& file : code->files()) {
      // PyTorch writes an empty file for custom C++ classes.
      if (of_root && file->unchanged_text() != nullptr && file->unchanged_text()->empty())
        append(&files, &places, file->qualifier(), {});
      auto pieces = file->pieces();
      // A file that cannot be parsed holds no needed definition, or the search for it would have
      // failed.
      if (!pieces.is_ok()) continue;
      for (const CodeFile::Piece& piece : *pieces.value()) {
        if (piece.definition == nullptr) continue;
        const auto [begin, end] = to_write.equal_range(piece.definition);
        for (auto entry = begin; entry != end; ++entry) {
          TENON_ASSIGN(const std::string text, resolved_text(graph, *entry->second));
          append(&files, &places, std::string(qualifier_of(entry->second->name)), text);
        }
      }
    }
  }
  return files;
}

std::vector<ResolvedFile> files_as_read(const CodeSet& code) {
  std::vector<ResolvedFile> files;
  for (const std::unique_ptr<CodeFile>& file : code.files())
    files.push_back({file->qualifier(), *file->unchanged_text(), file->file()});
  return files;
}

}  // namespace

std::vector<Ref<CodeSet>> codes_below(const Module& module) {
  std::vector<Ref<CodeSet>> codes;
  std::set<const CodeSet*> known;
  std::set<const Value*> seen;
  struct Visit {
    const Value* value = nullptr;
    CodeSet* around = nullptr;
  };
  std::vector<Visit> steps{{module.object().get(), module.object_class().code}};
  while (!steps.empty()) {
    const Visit step = steps.back();
    steps.pop_back();
    if (!step.value->is(ValueKind::kObject) || !seen.insert(step.value).second) continue;
    CodeSet* const code = class_of(*step.value, step.around).code;
    if (known.insert(code).second) codes.push_back(Ref<CodeSet>::share(code));
    for (size_t i = 0; i < step.value->child_count(); ++i)
      steps.push_back({&step.value->child(i), code});
  }
  return codes;
}

Result<std::string> resolved_text(const ClassGraph& graph, const ClassGraph::Node& node) {
  TENON_ASSIGN(const CodeSet::Text text, node.code->text(*node.definition));
  const script::NewNames outside = names_outside(graph, node);
  script::NewNames names = outside;
  if (!add_children(graph, node, &names)) return text_by_stand_ins(graph, node, outside);
  if (changes_nothing(names)) return std::string(text.text());
  return script::renamed(*text.file, text.item->extent, names);
}

bool Resolved::is_mapped(const std::byte* data) const noexcept {
  return std::any_of(codes.begin(), codes.end(),
                     [data](const Ref<CodeSet>& code) { return code->is_mapped(data); });
}

namespace {

Result<Resolved> resolve_all(std::span<const Module* const> modules, int file_version) {
  std::vector<ClassGraph::Root> roots;
  for (const Module* module : modules)
    roots.push_back({module->object(), module->object_class().code});
  TENON_ASSIGN(const ClassGraph graph, ClassGraph::create(roots));
  Resolved resolved;
  resolved.codes = graph.codes();
  resolved.is_as_read = graph.is_as_read() && modules.front()->package().is_whole_archive;
  TENON_ASSIGN(resolved.version, resolve_version(graph, file_version));
  const CodeSet& first = *graph.codes().front();
  if (graph.constants().size() == first.constants().size())
    resolved.constants_origin = &first.constants_origin();
  if (resolved.is_as_read) {
    resolved.root = modules.front()->object();
    resolved.constants = first.constants();
    resolved.files = files_as_read(first);
    return resolved;
  }
  TENON_ASSIGN(resolved.files, resolve_files(graph));
  Renamer renamer(graph);
  for (const ClassGraph::Root& root : roots) {
    TENON_ASSIGN(ValueRef renamed, renamer.rename(root.object, root.code));
    if (resolved.root)
      resolved.more_roots.push_back(std::move(renamed));
    else
      resolved.root = std::move(renamed);
  }
  for (const ValueRef& constant : graph.constants()) {
    TENON_ASSIGN(ValueRef renamed, renamer.rename(constant, graph.code_of(*constant)));
    resolved.constants.push_back(std::move(renamed));
  }
  return resolved;
}

}  // namespace

Result<Resolved> resolve(const Module& module, int file_version) {
  const Module* const only = &module;
  return resolve_all({&only, 1}, file_version);
}

Result<Resolved> resolve(std::span<const Ref<Module>> modules, int file_version) {
  std::vector<const Module*> all;
  for (const Ref<Module>& module : modules) all.push_back(module.get());
  return resolve_all(all, file_version);
}

}  // namespace tenon::module
