// Target: the lite interpreters that bytecode of one version is for. The emitter asks it for
// operators, instructions and types, and the export asks it what the archive has to say.
//
// Source of the facts: experiments with PyTorch 1.8.1, 1.9.1, 1.10.2 and 1.11.0, and
// docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "value/type.h"

namespace tenon::compile {

struct Target {
  int64_t version = 0;  // of the bytecode
  // The oldest PyTorch that runs it, "1.9": bytecode has the operators of that one. Empty: this is
  // the version that PyTorch writes today, and nothing is lowered.
  std::string_view torch = {};
  int newest_archive = 0;  // that PyTorch refuses an archive whose own version is higher
  // All arguments of an operator are on the stack, and its entry has no number of them.
  bool all_arguments = false;
  // Arguments that have their defaults are not on the stack if only `out` arguments follow them.
  bool defaults_before_out = true;
  bool promoted_operators = true;  // some operators are instructions, such as aten::dim
  // Tensors that are constants of bytecode lie in bytecode/, apart from those of the code.
  bool constants_apart = false;
  // That PyTorch takes a number of arguments in an entry without one, though it does not use the
  // number.
  bool reads_counts = true;
  // The lite interpreter of that PyTorch runs ISINSTANCE.
  bool has_isinstance = true;
  bool has_interface_calls = true;  // and finds the methods of INTERFACE_CALL
  // Its loader reads NamedTuples; else they are tuples.
  bool has_named_tuples = true;
  std::string_view none_name = value::Type::kNoneName;  // how the type of None is written

  bool lowers() const noexcept { return !torch.empty(); }
};

// INVALID_ARGUMENT: no code is compiled to bytecode of that version.
Result<const Target*> target_of(int64_t version);

}  // namespace tenon::compile
