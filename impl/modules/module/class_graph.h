// ClassGraph finds the classes that a tree of objects needs, merges equal ones, and gives each its
// name in the archive. resolve() (resolve.h) makes a graph for every export.
//
// A node is one of two things. It may be the class of a module object: the object's own definition,
// together with the classes of the modules below the object, which may differ from what the
// definition declares. Or it is a definition that some code or value mentions.
//
// Two nodes are equal if their names and texts are equal, and all nodes that they mention are equal
// too. To find equal nodes, refine() puts nodes with one name and text in one set, and splits the
// sets until none can be split any more. So classes that mention each other need no special
// treatment. If several nodes have one name and are not equal, one keeps the name and the names of
// the others are mangled. A definition of the first root's code has precedence.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "modules/module/code.h"
#include "modules/module/module.h"

namespace tenon::module {

// The definitions and constants that the text of a definition mentions.
struct Mentions {
  struct Child {
    std::string field;
    std::string type;                  // the class that the definition declares
    Definition* definition = nullptr;  // null: the class is not in this code
  };
  // All mentioned definitions, sorted by name, without the definition itself. The statements that
  // declare submodules are not searched, because the objects tell better which classes their
  // submodules have.
  std::vector<Definition*> outer;
  std::vector<Child> children;    // submodules whose declared type is a module's class
  std::vector<size_t> constants;  // the N of each CONSTANTS.cN
};
Result<Mentions> mentions_of(const CodeSet& code, const Definition& definition);

// A graph borrows the objects of its roots, and keeps their code alive. Neither may change while it
// exists. It never changes itself, so any thread may read it.
class ClassGraph {
 public:
  struct Node {
    CodeSet* code = nullptr;
    Definition* definition = nullptr;
    const Mentions* mentions = nullptr;
    std::vector<uint32_t> outer;     // the nodes of mentions->outer
    std::vector<uint32_t> children;  // the nodes of mentions->children
    uint32_t set = 0;                // the number of the node's set: equal nodes have one number
    bool is_first = false;           // the first node of its set, which is the one that is written
    std::string name;                // the name in the archive
  };

  // A module object, and the code in which its class is looked up.
  struct Root {
    ValueRef object;
    CodeSet* code = nullptr;
  };
  // Takes at least one root. A class or constant that several roots have in common is in the graph
  // once. INVALID_ARGUMENT if values are nested too deep, or if a submodule, a constant or a
  // submodule's class that code mentions is missing. NOT_FOUND if the code lacks the class of a
  // value. CORRUPT if code cannot be parsed.
  static Result<ClassGraph> create(std::span<const Root> roots);

  // All code to which the graph refers. The first root's code comes first.
  const std::vector<Ref<CodeSet>>& codes() const noexcept { return codes_; }
  // Whether nothing was changed: there is one root and one code, the code is as it was read, and
  // every object has the class that the code declares.
  bool is_as_read() const noexcept { return is_as_read_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  // find() gives the node of a module object, or of a definition. Null: the graph does not need it.
  const Node* find(const value::Value& object) const;
  const Node* find(const Definition* definition) const;
  // The code in which the classes of a value are looked up. It is known only for values with an
  // identity that are below a root or in a constant. Null for others.
  CodeSet* code_of(const value::Value& value) const;

  // The constants of all codes as one list. All constants of the first root's code come first, in
  // their order. Then come the constants of other code that some node mentions, without those that
  // equal an earlier one. constant_index() says which place a constant has in this list, and throws
  // std::out_of_range for a constant that is not in it.
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
  std::vector<ValueRef> objects_;  // by node; null: the node is not a module object's
  std::unordered_map<const Definition*, uint32_t> by_definition_;
  std::unordered_map<const Definition*, std::unique_ptr<Mentions>> mentions_;
  std::unordered_map<const value::Value*, CodeSet*> code_of_;
  std::vector<ValueRef> constants_;
  std::map<std::pair<const CodeSet*, size_t>, size_t> constant_index_;
};

}  // namespace tenon::module
