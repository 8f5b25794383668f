// The names that PyTorch's frontend knows besides its operators: globals, the builtin attributes of
// values, the result names of operators, and the functions that it keeps as TorchScript source. The
// checker and the compiler look names up here. Any thread may call these functions. The texts that
// they return live as long as the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "modules/script/schema_table.h"

namespace tenon::script {

// What a global name stands for. The comments of functions list their arguments.
enum class Global : uint8_t {
  kTorch,          // operators of aten
  kOps,            // ops.<namespace>.<operator>
  kConstants,      // CONSTANTS.cN
  kQualified,      // __torch__: classes and functions of the archive
  kFork,           // function, its arguments
  kAnnotate,       // type, value
  kUncheckedCast,  // type, value
  kUninitialized,  // type
  kIsInstance,     // value, types
  kGetAttr,        // value, "name", perhaps a default
  kHasAttr,        // value, "name"
  kPrint,          // values
  kCast,           // bool, int, float, complex, str
  kException,      // AssertionError
  kOperator,       // a function over an operator of aten or prim: len, min, ...
  kIterable,       // range, zip, enumerate, and list, dict, tuple, rangelist
  kNumber,         // inf, nan, infj, nanj, which are values
};

std::optional<Global> find_global(std::string_view name) noexcept;
// The global that is spelled most like `name`, for "did you mean". Empty: none is near enough.
std::string_view nearest_global(std::string_view name);

// Whether `name` is an attribute of a Tensor or a Device that is no operator with a parameter
// `self`: `x.T`, `x.shape`, `x.is_cuda`, `x.float`, … of a Tensor, and `.type` of a Device.
bool is_builtin_attribute(std::string_view name) noexcept;

// The names of an operator's results, such as "values,indices" of "aten::max". Where the operator
// returns more than one value, it returns a NamedTuple with these fields. Empty: its results have
// no names. The schema table leaves the names of results out.
std::string_view result_names(std::string_view qualified_name) noexcept;
// Whether some operator has a result of that name.
bool is_result_name(std::string_view name) noexcept;
// The place of `name` in what result_names() returns. Nothing: it has no such name.
std::optional<size_t> find_result(std::string_view names, std::string_view name) noexcept;

// The overloads of an operator that PyTorch keeps as TorchScript source. PyTorch lists no schemas
// for these overloads, so the schema table lacks them.
Overloads find_source_operator(std::string_view qualified_name) noexcept;
// The same overloads with their types. Empty: there is no such operator. The schemas live as long
// as the process.
std::span<const Schema* const> source_schemas(std::string_view qualified_name);

// Whether the operator can exist only in a graph. Such an operator reads an attribute of its node,
// or the nodes around it, and source code carries neither. PyTorch's optimize_for_inference, its
// fusers and its profiler make such operators. PyTorch prints them when it saves such a graph, and
// it refuses them or dies of them when it loads the archive.
bool exists_in_graphs_alone(std::string_view qualified_name) noexcept;

// Whether the version that the archive says can change what the operator computes, as with
// "aten::div".
bool depends_on_archive_version(std::string_view qualified_name) noexcept;

}  // namespace tenon::script
