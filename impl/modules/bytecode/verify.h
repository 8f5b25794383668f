// Checks that a function of bytecode can be run. PyTorch's lite interpreter trusts registers,
// jumps, types, slots of attributes and the depth of the stack, and reads foreign memory where they
// are wrong. impl/module verifies the bytecode of an archive on import.
//
// The verifier looks at each instruction a fixed number of times, so its time is linear in the
// number of instructions. VerifyOptions limit its memory. The rules are in docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/value/check.h"
#include "modules/value/value.h"

namespace tenon::bytecode {

// How many values an operator takes from the stack and leaves there.
struct OperatorArity {
  static constexpr int kAny = -1;

  int inputs = kAny;   // kAny: the number differs from call to call
  int outputs = kAny;  // kAny: the number differs from call to call
};

// Finds the arity of an operator. Nothing: the caller's table lacks the operator. Another PyTorch,
// or a program with operators of its own, may have it.
using FindArity = std::function<std::optional<OperatorArity>(const std::string& name,
                                                             const std::string& overload)>;

struct VerifyOptions {
  // Null: no operator is known. If the number of outputs of a known operator differs from call to
  // call, the call has as many outputs as the STOREN right behind it takes, because PyTorch stores
  // several results in this way. Behind an operator that is not known, or has no such STOREN, the
  // depth of the stack is unknown. On the paths from there on, the verifier checks everything but
  // the depth, because an operator of another library is no fault of the archive.
  FindArity find_arity;
  // The object whose methods the program has. Null: the slots of attributes (slots.h) are not
  // checked.
  value::ValueRef module;
  // The classes of the module's code, which say how many attributes an object with a state has.
  // Null: they are not known. It must stay while the verifier runs.
  const value::ClassTable* classes = nullptr;
  // The sets of written registers are bit sets. These are the most words of 64 registers that may
  // be held at one time, and that may be processed in all.
  uint64_t max_words = uint64_t{1} << 23;
  uint64_t max_steps = uint64_t{1} << 26;
};

// Verifies one function without the slots of attributes. CORRUPT for a function that cannot run,
// UNSUPPORTED for an opcode or a type that the lite interpreter does not have, RESOURCE_EXHAUSTED
// beyond a limit. The message names the function, the instruction or the type, and what is wrong
// with it.
Status verify(const Function& function, const VerifyOptions& options);
// Verifies every function of a program, with the slots of attributes.
Status verify(const Program& program, const VerifyOptions& options);
// Does the same with slots that ModuleSlots::create() made before, so that the module may have
// changed since. `options.module` and `options.classes` are not used.
class ModuleSlots;
Status verify(const Program& program, const ModuleSlots& slots, const VerifyOptions& options);

}  // namespace tenon::bytecode
