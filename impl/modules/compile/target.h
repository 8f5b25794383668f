// Target: the properties of the lite interpreters for which bytecode of one version is made. The
// emitter asks it for operators, instructions and types. The export asks it for the version that
// the archive must say.
//
// Source of the facts: experiments with PyTorch 1.8.1, 1.9.1, 1.10.2 and 1.11.0, and
// docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "modules/value/type.h"

namespace tenon::compile {

struct Target {
  int64_t version = 0;  // the bytecode's version
  // The oldest PyTorch that runs the bytecode, such as "1.9". The bytecode has the operators of
  // this PyTorch. Empty: PyTorch writes this version today, and nothing is lowered.
  std::string_view torch = {};
  int newest_archive = 0;  // the PyTorch refuses an archive whose own version is higher
  // All arguments of an operator are on the stack, and the entry of an operator says no number.
  bool all_arguments = false;
  // Arguments that have their defaults are not on the stack if only `out` arguments follow them.
  bool defaults_before_out = true;
  bool promoted_operators = true;  // some operators are instructions, such as aten::dim
  // Tensors that are constants of the bytecode are in bytecode/, apart from the code's tensors.
  bool constants_apart = false;
  // If all arguments are on the stack, the PyTorch still takes an entry with a number of arguments.
  // It does not use the number.
  bool reads_counts = true;
  // The lite interpreter of the PyTorch runs ISINSTANCE.
  bool has_isinstance = true;
  // The lite interpreter finds the methods of INTERFACE_CALL.
  bool has_interface_calls = true;
  // The loader of the PyTorch reads NamedTuples. Otherwise they become tuples.
  bool has_named_tuples = true;
  std::string_view none_name = value::Type::kNoneName;  // how the type of None is written

  bool lowers() const noexcept { return !torch.empty(); }
};

// INVALID_ARGUMENT: the compiler makes no bytecode of that version. A target lives as long as the
// process.
Result<const Target*> target_of(int64_t version);

}  // namespace tenon::compile
