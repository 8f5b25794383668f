// What an export writes, worked out before anything is written: the tree with the names that its
// classes have in the archive, the code files, the constants, the version.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "module/class_graph.h"
#include "module/module.h"

namespace tenon::module {

struct ResolvedFile {
  std::string qualifier;
  std::string text;
  std::shared_ptr<const script::File> parsed;  // null: the text is not parsed yet
};

struct Resolved {
  ValueRef root;
  std::vector<ValueRef> more_roots;  // of the modules behind the first, if there are several
  std::vector<ValueRef> constants;
  // Of the constants, if they are those of one archive; null else.
  const CodeSet::ConstantsOrigin* constants_origin = nullptr;
  std::vector<ResolvedFile> files;
  int version = 0;
  bool is_as_read = false;  // the code is that of an archive, unchanged
  std::vector<Ref<CodeSet>> codes;

  // Whether the byte lies in the mapped file of an archive that some of the code is from. Such a
  // file can be cut short, and a load would raise SIGBUS then.
  bool is_mapped(const std::byte* data) const noexcept;
};

// `file_version` 0: by the rule (version.h).
Result<Resolved> resolve(const Module& module, int file_version);
// Several modules, at least one, that share the classes and the constants of one archive.
Result<Resolved> resolve(std::span<const Ref<Module>> modules, int file_version);

// The code below a module, as far as objects tell: what an export keeps from being changed.
std::vector<Ref<CodeSet>> codes_below(const Module& module);

// Values with other names of classes.
class Renamer {
 public:
  explicit Renamer(const ClassGraph& graph) noexcept : graph_(&graph) {}
  // `value` itself if nothing in it has another name. `around` is the code of what holds it.
  Result<ValueRef> rename(const ValueRef& value, CodeSet* around);

 private:
  Result<ValueRef> rename_now(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_object(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_items(const ValueRef& value, CodeSet* around);
  Result<ValueRef> rename_dict(const ValueRef& value, CodeSet* around);
  Result<std::string> name_of(const std::string& class_name, CodeSet* around) const;
  Result<TypeRef> rename_type(const TypeRef& type, CodeSet* around) const;

  const ClassGraph* graph_;
  std::unordered_map<const value::Value*, ValueRef> done_;
};

// The text of a node's class or function with the names that it and what it mentions have in the
// archive.
Result<std::string> resolved_text(const ClassGraph& graph, const ClassGraph::Node& node);

}  // namespace tenon::module
