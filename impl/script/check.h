// Would PyTorch take this code? The check looks at names, attributes, methods and operators, and at
// the number, the keywords and the types of an operator's arguments (operand_types.h).
//
// What is refused here both PyTorch 1.13 and the newest refuse. What is taken here PyTorch may
// still refuse, mostly for a type. Calls that one of the two refuses and the other takes are listed
// (Uses::partly_refused) and taken, unless CheckOptions::newest_decides. Where PyTorch decides
// while it compiles (`if x is None` for an x that is never None), the code that it would leave out
// is not looked at.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "script/ast.h"
#include "script/declarations.h"
#include "script/schema_table.h"
#include "script/source.h"

namespace tenon::script {

struct CheckOptions {
  // Take operators that the schema table does not have, for a PyTorch newer than it.
  bool unknown_operators = false;
  // Refuse calls that the newest PyTorch refuses, also if PyTorch 1.13 takes them.
  bool newest_decides = false;
  // What the archive says: older ones may call some operators as they were then.
  int64_t archive_version = 10;
};

struct CallPlaces {
  std::string first;  // "code/__torch__.py:3:12"
  size_t count = 0;
};

// What the checked code uses from outside of itself.
struct Uses {
  // By qualified name ("aten::relu"): the index in SchemaTable::versions() of the oldest and the
  // newest PyTorch that take every call of it.
  std::map<std::string, VersionSpan, std::less<>> operators;
  // Namespaces of operators that the table does not know: of libraries that must be loaded beside
  // PyTorch.
  std::set<std::string, std::less<>> foreign_namespaces;
  // Calls among them that compute something else, or are refused, at another version of the
  // archive: "aten::div" of what can be a Tensor. What PyTorch may leave out while it compiles
  // counts too.
  std::set<std::string, std::less<>> versioned_operators;
  // Calls that PyTorch 1.13 refuses and the newest takes, or the other way round: for each sentence
  // about such calls, where they are.
  std::map<std::string, CallPlaces, std::less<>> partly_refused;
  // Of the archive, by qualified name.
  std::set<std::string, std::less<>> classes;
  std::set<std::string, std::less<>> functions;
};

// The same with their places, a line each: "PyTorch 1.13 refuses torch.foo, and PyTorch 2.2 has it,
// in code/__torch__.py:3:12 and 2 more".
std::vector<std::string> partly_refused_lines(const Uses& uses);

void add_uses(const Uses& more, Uses* uses);

// Errors are INVALID_ARGUMENT, with the details of Source::error. `uses` may be null, and is added
// to. Names of functions and classes are qualified ones, by which the environment has them.
Status check_function(const Environment& environment, const Source& source, std::string_view name,
                      const Function& function, const CheckOptions& options, Uses* uses);
Status check_method(const Environment& environment, const Source& source,
                    std::string_view class_name, const Function& method,
                    const CheckOptions& options, Uses* uses);
// Fields, constants and methods.
Status check_class(const Environment& environment, const Source& source,
                   std::string_view class_name, const Class& class_def, const CheckOptions& options,
                   Uses* uses);

// Every item of a file whose names begin with `qualifier`.
Status check_file(const Environment& environment, std::string_view qualifier, const File& file,
                  const CheckOptions& options, Uses* uses);

// The classes and functions `roots`, and those that they use, and so on: what PyTorch compiles when
// it loads an archive whose data.pkl names these. A root that the declarations do not have is
// NOT_FOUND.
Status check_reachable(const Declarations& declarations, std::span<const std::string> roots,
                       const CheckOptions& options, Uses* uses);

}  // namespace tenon::script
