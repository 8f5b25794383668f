// Unit: the functions of an archive that were compiled so far. It compiles a function when another
// function calls it, or when compile.cc asks for its bytecode.
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
#include "modules/compile/classes.h"
#include "modules/compile/graph.h"
#include "modules/script/declarations.h"
#include "modules/script/schema.h"
#include "modules/script/schema_table.h"

namespace tenon::compile {

// A compiled function. Its graph contains copies of all functions that it calls.
struct Compiled {
  std::string name;  // qualified
  const script::Source* source = nullptr;
  script::Range name_range;
  Graph graph;
  script::Schema schema;
  std::vector<value::TypeRef> parameters;
  value::TypeRef returns;
  // The graph that is copied into callers. Null: no function has called this one yet.
  std::unique_ptr<Graph> optimised;
};

// A function's header, before its body is compiled.
struct Header {
  const script::Source* source = nullptr;
  const script::Function* function = nullptr;
  std::string name;                        // qualified
  std::string owner;                       // the class of a method; empty for a function
  script::Schema schema;                   // with defaults
  std::vector<value::TypeRef> parameters;  // a method's first one is its class
  value::TypeRef returns;                  // null: the body decides
};

struct UnitOptions {
  script::Torch torch = script::Torch::kNewest;
  // The most nodes of one function with all functions that it calls. All functions together may
  // have four times as many.
  size_t max_nodes = 0;
  // Whether `fork` runs its function at once. Otherwise code with a `fork` is refused.
  bool forks_at_once = false;
  int archive_version = std::numeric_limits<int>::max();
};

// One thread at a time may use a Unit. The declarations, slots and constants must outlive it. It
// owns the headers, the compiled functions and their graphs.
class Unit {
 public:
  // The deepest chain of calls. Each call takes room on the machine's stack for the expressions
  // around it.
  static constexpr size_t kMaxCallDepth = 64;
  // The deepest nesting of expressions and statements, summed over all functions that are being
  // compiled. Each level takes room on the machine's stack.
  static constexpr size_t kMaxNesting = 1000;

  Unit(const script::Declarations& declarations, const Classes::SlotNames* slots,
       std::span<const value::ValueRef> constants, const UnitOptions& options)
      : classes_(declarations, slots), constants_(constants), options_(options) {}

  const Classes& classes() const noexcept { return classes_; }
  std::span<const value::ValueRef> constants() const noexcept { return constants_; }
  script::Torch torch() const noexcept { return options_.torch; }
  size_t max_nodes() const noexcept { return options_.max_nodes; }
  bool forks_at_once() const noexcept { return options_.forks_at_once; }

  // The header of a function of the archive, or of a method of a class. NOT_FOUND: there is none.
  // Other errors are those of an annotation or a default that cannot be read.
  Result<const Header*> header(std::string_view qualified_name);
  Result<const Header*> method_header(std::string_view class_name, std::string_view method);
  // Compiles the function, if that was not done yet. The errors are those of compile_program(), and
  // UNSUPPORTED for a function that calls itself.
  Result<const Compiled*> compile(const Header& header);
  // The graph that is copied in place of a call of the function.
  Result<const Graph*> called_graph(const Header& header);

  // Keeps a compiled function that has no name in the archive and was copied into its caller. It
  // must live on because nodes of the copies point to its graph.
  Status keep(const Header& header, std::unique_ptr<Compiled> compiled);

  // The overloads of an operator that PyTorch keeps as TorchScript source. Tenon compiles them from
  // its own source, which is parsed once in a process.
  struct SourceOperators {
    std::vector<const script::Schema*> schemas;
    std::vector<std::unique_ptr<const Header>> headers;
    std::vector<std::shared_ptr<const script::File>> files;
  };
  const SourceOperators& source_operators(std::string_view name) const;

  // The names of methods that are called through an interface, in the order of their first call.
  const std::vector<std::string>& interface_methods() const noexcept { return interface_methods_; }
  void note_interface_call(std::string_view method);
  bool is_called_by_interface(std::string_view method) const {
    return interface_names_.contains(method);
  }

  // How deep the compiler is in nested expressions and statements now.
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
  std::set<const Header*> open_;  // the functions that are being compiled
  std::vector<std::string> interface_methods_;
  std::set<std::string, std::less<>> interface_names_;  // the same names, sorted
  size_t node_count_ = 0;
};

}  // namespace tenon::compile
