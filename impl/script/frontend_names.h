// What PyTorch's frontend knows by name besides its operators: globals, what values of its own
// types have after a dot, and the functions that it keeps as TorchScript source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "script/schema_table.h"

namespace tenon::script {

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
  kNumber,         // inf, nan, infj, nanj: values
};

std::optional<Global> find_global(std::string_view name) noexcept;
// Of "did you mean".
std::string_view nearest_global(std::string_view name);

// `x.T`, `x.shape`, `x.is_cuda`, `x.float`, … of a Tensor, and `.type` of a Device: what is no
// operator with a parameter `self`.
bool is_builtin_attribute(std::string_view name) noexcept;

// The names of an operator's results, such as "values,indices" of "aten::max". Where the operator
// returns more than one value, it returns a NamedTuple with these fields. Empty: its results have
// no names. The schema table leaves the names of results out.
std::string_view result_names(std::string_view qualified_name) noexcept;
// Some operator has a result of that name.
bool is_result_name(std::string_view name) noexcept;
// The place of `name` in what result_names() returns. Nothing: it has no such name.
std::optional<size_t> find_result(std::string_view names, std::string_view name) noexcept;

// Operators that PyTorch has as TorchScript source: no schema is listed for them.
Overloads find_source_operator(std::string_view qualified_name) noexcept;
// The same operators with their types. Empty: there is no such operator. Safe from any thread. The
// schemas live as long as the process.
std::span<const Schema* const> source_schemas(std::string_view qualified_name);

// Operators that exist in a graph alone: each reads an attribute of its node, or what stands around
// the node, and source code carries neither. PyTorch's optimize_for_inference, its fusers and its
// profiler make them. It prints them when such a graph is saved, and refuses them, or dies of them,
// when it loads.
bool exists_in_graphs_alone(std::string_view qualified_name) noexcept;

// "div" and its like: what they compute depends on the version that the archive says.
bool depends_on_archive_version(std::string_view qualified_name) noexcept;

}  // namespace tenon::script
