// Which classes a tree of objects needs, which of them are one, and what each is called in an
// archive.
//
// A node is a class as a module object has it (its own definition, and the classes of the modules
// below it, which may be others than the definition says), or a definition that some code or value
// mentions. Nodes are one if name and text are equal, and so are all nodes that they mention: that
// is found by splitting sets of nodes until no set can be split any more, so classes that mention
// each other are no trouble. Of several that have one name and are not equal, one keeps it, and the
// others are mangled.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "module/code.h"
#include "module/module.h"

namespace tenon::module {

// What the text of a definition mentions.
struct Mentions {
  struct Child {
    std::string field;
    std::string type;                  // the class that the definition says
    Definition* definition = nullptr;  // null: it is not in this code
  };
  std::vector<Definition*> outer;  // other than itself and the classes of its submodules; by name
  std::vector<Child> children;     // submodules that are declared by their class
  std::vector<size_t> constants;   // CONSTANTS.cN
};
Result<Mentions> mentions_of(const CodeSet& code, const Definition& definition);

class ClassGraph {
 public:
  struct Node {
    CodeSet* code = nullptr;
    Definition* definition = nullptr;
    const Mentions* mentions = nullptr;
    std::vector<uint32_t> outer;     // as in mentions
    std::vector<uint32_t> children;  // likewise
    uint32_t set = 0;                // equal for nodes that are one
    bool is_first = false;           // of its set: the one that is written
    std::string name;                // in the archive
  };

  // An object of a module, and the code in which its class is looked up.
  struct Root {
    ValueRef object;
    CodeSet* code = nullptr;
  };
  // At least one root. What several roots have in common is there once.
  static Result<ClassGraph> create(std::span<const Root> roots);

  // All code that has a part in it, the first root's first.
  const std::vector<Ref<CodeSet>>& codes() const noexcept { return codes_; }
  // Nothing was changed: one code, as it was read, of which every object is what the code says.
  bool is_as_read() const noexcept { return is_as_read_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  // The node of a module object, and of a definition; null: it is not needed.
  const Node* find(const value::Value& object) const;
  const Node* find(const Definition* definition) const;
  // The code in which the classes of a value are looked up. Only of what is below the root, or is a
  // constant.
  CodeSet* code_of(const value::Value& value) const;

  // Constants of all codes as one list, those of the first root's code first and in their order;
  // and where each went.
  const std::vector<ValueRef>& constants() const noexcept { return constants_; }
  size_t constant_index(const CodeSet* code, size_t index) const;

 private:
  ClassGraph() = default;
  Status walk(const ValueRef& root, CodeSet* code);
  Status visit_types(const value::Value& value, CodeSet* code);
  Status visit_type(const value::Type& type, CodeSet* code);
  Result<uint32_t> module_node(const ValueRef& object, CodeSet* around);
  uint32_t definition_node(Definition* definition, CodeSet* code);
  Result<const Mentions*> mentions(Definition* definition, CodeSet* code);
  Status close();
  Status link_children(uint32_t id);
  Status merge_constants();
  Status refine();
  void name_nodes();
  Result<std::string> own_text(const Node& node) const;
  void note_code(CodeSet* code);

  std::vector<Node> nodes_;
  std::vector<Ref<CodeSet>> codes_;
  bool is_as_read_ = true;
  std::unordered_map<const value::Value*, uint32_t> by_object_;
  std::vector<ValueRef> objects_;  // of module nodes, by node
  std::unordered_map<const Definition*, uint32_t> by_definition_;
  std::unordered_map<const Definition*, std::unique_ptr<Mentions>> mentions_;
  std::unordered_map<const value::Value*, CodeSet*> code_of_;
  std::vector<ValueRef> constants_;
  std::map<std::pair<const CodeSet*, size_t>, size_t> constant_index_;
};

}  // namespace tenon::module
