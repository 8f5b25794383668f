// resolve() works out what an export writes before anything is written: the tree with the class
// names of the archive, the code files, the constants and the version. All exporters begin with it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/module/class_graph.h"
#include "modules/module/module.h"

namespace tenon::module {

struct ResolvedFile {
  std::string qualifier;
  std::string text;
  std::shared_ptr<const script::File> parsed;  // null: the text is not parsed yet
};

struct Resolved {
  ValueRef root;
  std::vector<ValueRef> more_roots;  // of the modules after the first, if there are several
  std::vector<ValueRef> constants;
  // The origin of the constants, if they are those of one archive. It belongs to one of `codes`.
  // Null otherwise.
  const CodeSet::ConstantsOrigin* constants_origin = nullptr;
  std::vector<ResolvedFile> files;
  int version = 0;
  bool is_as_read = false;  // the code is an archive's and unchanged
  std::vector<Ref<CodeSet>> codes;

  // Whether the byte lies in the mapped file of an archive from which some of the code comes. Such
  // a file can be cut short, and a load would then raise SIGBUS.
  bool is_mapped(const std::byte* data) const noexcept;
};

// `file_version` 0: by the rule (version.h). The errors are those of ClassGraph::create() and
// resolve_version(). The result keeps the code alive. It holds as long as the module is not
// changed, which a CodeSet::Export ensures.
Result<Resolved> resolve(const Module& module, int file_version);
// Resolves several modules, at least one, that share the classes and the constants of one archive.
Result<Resolved> resolve(std::span<const Ref<Module>> modules, int file_version);

// The code of all objects below a module. An export keeps this code from being changed.
std::vector<Ref<CodeSet>> codes_below(const Module& module);

// Copies the values of a module with the class names that `graph` gives them in the new archive.
// `graph` and the values must outlive the Renamer. One thread at a time may use it.
class Renamer {
 public:
  explicit Renamer(const ClassGraph& graph) noexcept : graph_(&graph) {}
  // Gives `value` itself if nothing in it changes: no class name, and no order of attributes. A
  // value that occurs twice gives one result. `around` is the code of the value's parent. It tells
  // which class a name in `value` means, unless the value has code of its own.
  Result<ValueRef> rename(const ValueRef& value, CodeSet* around);

 private:
  Result<ValueRef> rename_now(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_object(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_items(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_dict(const ValueRef& value, CodeSet* around);
  Result<std::string> name_of(const std::string& class_name, CodeSet* around) const;
  Result<TypeRef> rename_type(const TypeRef& type, CodeSet* around) const;

  const ClassGraph* graph_;
  std::unordered_map<const value::Value*, ValueRef> done_;  // the results, by their values
};

// The text of a node's class or function, in which the node and the definitions that it mentions
// have their names in the archive.
Result<std::string> resolved_text(const ClassGraph& graph, const ClassGraph::Node& node);

}  // namespace tenon::module
