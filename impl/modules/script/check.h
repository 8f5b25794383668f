// The checker says whether PyTorch would compile code of an archive. impl/modules/module calls it
// for every export and for tenon_module_check. It looks at names, attributes, methods and
// operators, and at the number, the keywords and the types of an operator's arguments
// (operand_types.h).
//
// PyTorch 1.13 and the newest PyTorch both refuse all code that the checker refuses. PyTorch may
// still refuse code that the checker takes, mostly for a type. If one of the two versions refuses a
// call and the other takes it, the checker takes the call and lists it (Uses::partly_refused). With
// CheckOptions::newest_decides it refuses such a call if the newest PyTorch does. PyTorch evaluates
// some conditions while it compiles (`if x is None` for an x that is never None) and leaves out the
// branch that cannot run. The checker ignores that branch too.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/script/ast.h"
#include "modules/script/declarations.h"
#include "modules/script/schema_table.h"
#include "modules/script/source.h"

namespace tenon::script {

struct CheckOptions {
  // Take operators that the schema table does not have. A PyTorch newer than the table may have
  // them.
  bool unknown_operators = false;
  // Refuse calls that the newest PyTorch refuses, also if PyTorch 1.13 takes them.
  bool newest_decides = false;
  // The version that the archive says. In an older archive some operators may be called as they
  // were at that version.
  int64_t archive_version = 10;
};

struct CallPlaces {
  std::string first;  // "code/__torch__.py:3:12"
  size_t count = 0;
};

// The operators, classes and functions that the checked code uses.
struct Uses {
  // By qualified name ("aten::relu"): the oldest and the newest PyTorch that take every call of the
  // operator, as indices into SchemaTable::versions().
  std::map<std::string, VersionSpan, std::less<>> operators;
  // Namespaces of operators that the schema table does not know. Libraries that must be loaded
  // beside PyTorch have these operators.
  std::set<std::string, std::less<>> foreign_namespaces;
  // Operators with a call that computes something else, or is refused, if the archive says another
  // version: "aten::div" with an operand that can be a Tensor, for example. A call in a branch that
  // PyTorch may leave out while it compiles counts too.
  std::set<std::string, std::less<>> versioned_operators;
  // Calls that PyTorch 1.13 refuses and the newest takes, or the other way round. The key is a
  // sentence about such calls, and the value says where they are.
  std::map<std::string, CallPlaces, std::less<>> partly_refused;
  // Classes and functions of the archive, by qualified name.
  std::set<std::string, std::less<>> classes;
  std::set<std::string, std::less<>> functions;
};

// Returns one line for each entry of partly_refused: "PyTorch 1.13 refuses torch.foo, and PyTorch
// 2.2 has it, in code/__torch__.py:3:12 and 2 more".
std::vector<std::string> partly_refused_lines(const Uses& uses);

// Adds `more` to `*uses`.
void add_uses(const Uses& more, Uses* uses);

// All arguments are borrowed for the call, and `*uses` does not refer to them. After an error
// `*uses` has a part of the uses. Calls that share an environment run on one thread, unless the
// environment allows more.
//
// These functions check a piece of code. What the code uses is added to `*uses`, which may be null.
// Names of functions and classes are qualified names, as in the environment. Code that PyTorch
// would refuse is INVALID_ARGUMENT, with the details of Source::error. A class whose body cannot be
// read, and an annotation that is no type, are CORRUPT. A class that the environment does not have
// is NOT_FOUND.
Status check_function(const Environment& environment, const Source& source, std::string_view name,
                      const Function& function, const CheckOptions& options, Uses* uses);
Status check_method(const Environment& environment, const Source& source,
                    std::string_view class_name, const Function& method,
                    const CheckOptions& options, Uses* uses);
// Checks the fields, constants and methods of a class.
Status check_class(const Environment& environment, const Source& source,
                   std::string_view class_name, const Class& class_def, const CheckOptions& options,
                   Uses* uses);

// Checks every item of a file. The qualified names of its items begin with `qualifier`.
Status check_file(const Environment& environment, std::string_view qualifier, const File& file,
                  const CheckOptions& options, Uses* uses);

// Checks the classes and functions in `roots`, and all that they use directly or indirectly.
// PyTorch compiles the same code when it loads an archive whose data.pkl names these roots.
// NOT_FOUND if the declarations lack a root.
Status check_reachable(const Declarations& declarations, std::span<const std::string> roots,
                       const CheckOptions& options, Uses* uses);

}  // namespace tenon::script
