// Unit: all functions of an archive that were compiled so far. A function is compiled when another
// one calls it, or when its bytecode is asked for.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compile/classes.h"
#include "compile/graph.h"
#include "script/declarations.h"
#include "script/schema.h"
#include "script/schema_table.h"

namespace tenon::compile {

// A compiled function, with all that it calls in it.
struct Compiled {
  std::string name;  // qualified
  const script::Source* source = nullptr;
  script::Range name_range;
  Graph graph;
  script::Schema schema;
  std::vector<value::TypeRef> parameters;
  value::TypeRef returns;
  // What a call of it becomes. Null: it was not called yet.
  std::unique_ptr<Graph> optimised;
};

// A function's header, before its body is compiled.
struct Header {
  const script::Source* source = nullptr;
  const script::Function* function = nullptr;
  std::string name;                        // qualified
  std::string owner;                       // the class of a method; empty of a function
  script::Schema schema;                   // with defaults
  std::vector<value::TypeRef> parameters;  // the first is the method's class
  value::TypeRef returns;                  // null: what the body says
};

struct UnitOptions {
  script::Torch torch = script::Torch::kNewest;
  // For one function with all that it calls; for all together four times as many.
  size_t max_nodes = 0;
  // Whether `fork` calls its function at once, and does not refuse to be compiled.
  bool forks_at_once = false;
  int archive_version = std::numeric_limits<int>::max();
};

class Unit {
 public:
  // Calls in one another. Each takes room on the stack for the expression in which it stands.
  static constexpr size_t kMaxCallDepth = 64;
  // Expressions and statements in one another, in all functions that are being compiled: each takes
  // room on the stack.
  static constexpr size_t kMaxNesting = 1000;

  Unit(const script::Declarations& declarations, const Classes::SlotNames* slots,
       std::span<const value::ValueRef> constants, const UnitOptions& options)
      : classes_(declarations, slots), constants_(constants), options_(options) {}

  const Classes& classes() const noexcept { return classes_; }
  std::span<const value::ValueRef> constants() const noexcept { return constants_; }
  script::Torch torch() const noexcept { return options_.torch; }
  size_t max_nodes() const noexcept { return options_.max_nodes; }
  bool forks_at_once() const noexcept { return options_.forks_at_once; }

  // Of a function of the archive, or of a method of a class. NOT_FOUND: there is none.
  Result<const Header*> header(std::string_view qualified_name);
  Result<const Header*> method_header(std::string_view class_name, std::string_view method);
  // Compiles it, if that was not done yet.
  Result<const Compiled*> compile(const Header& header);
  // The graph that a call of it becomes.
  Result<const Graph*> called_graph(const Header& header);

  // Of a function that has no name in the archive, and was copied into its caller: nodes of the
  // copies lead to its graph.
  Status keep(const Header& header, std::unique_ptr<Compiled> compiled);

  // The overloads of an operator that PyTorch keeps as TorchScript source. Tenon compiles them from
  // its own source, which is parsed once in a process.
  struct SourceOperators {
    std::vector<const script::Schema*> schemas;
    std::vector<std::unique_ptr<const Header>> headers;
    std::vector<std::shared_ptr<const script::File>> files;
  };
  const SourceOperators& source_operators(std::string_view name) const;

  // Methods that are called through an interface, in the order in which they were met.
  const std::vector<std::string>& interface_methods() const noexcept { return interface_methods_; }
  void note_interface_call(std::string_view method);
  bool is_called_by_interface(std::string_view method) const {
    return interface_names_.contains(method);
  }

  // How deep the compiler is in expressions and statements now.
  size_t nesting = 0;

 private:
  Status count(const Header& header, const Graph& graph);
  Result<Compiled*> compile_once(const Header& header);
  Result<const Header*> make_header(std::string name, std::string owner,
                                    const script::Source& source, const script::Function& function);

  Classes classes_;
  std::span<const value::ValueRef> constants_;
  UnitOptions options_;
  std::map<std::string, std::unique_ptr<Header>, std::less<>> headers_;
  std::map<const Header*, std::unique_ptr<Compiled>> compiled_;
  std::vector<std::unique_ptr<Compiled>> kept_;
  std::set<const Header*> open_;  // being compiled
  std::vector<std::string> interface_methods_;
  std::set<std::string, std::less<>> interface_names_;  // the same
  size_t node_count_ = 0;
};

}  // namespace tenon::compile
