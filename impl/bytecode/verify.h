// Checks that a function of bytecode can be run. PyTorch's lite interpreter trusts registers,
// jumps, types, slots of attributes and the depth of the stack, and reads foreign memory where they
// are wrong. The importer verifies the bytecode of an archive, and the compiler its own.
//
// Every instruction is looked at a fixed number of times, so time is linear in the instructions.
// Memory is bounded by the limit. The rules are in docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "bytecode/program.h"
#include "value/check.h"
#include "value/value.h"

namespace tenon::bytecode {

// How many values an operator takes from the stack and leaves there.
struct OperatorArity {
  static constexpr int kAny = -1;

  int inputs = kAny;   // kAny: the number differs from call to call
  int outputs = kAny;  // likewise
};

// Nothing: there is no such operator in the caller's table. Another PyTorch, or a program with
// operators of its own, may have it.
using FindArity = std::function<std::optional<OperatorArity>(const std::string& name,
                                                             const std::string& overload)>;

struct VerifyOptions {
  // Null: no operator is known. A known operator whose outputs differ from call to call has as many
  // as a STOREN right behind it takes, which is how PyTorch stores several results. Behind an
  // operator that is not known, or has no such STOREN, the depth of the stack is unknown. The
  // verifier does not check the depth on the paths that lead on from there, and checks all else: a
  // foreign operator is no fault of the archive.
  FindArity find_arity;
  // The object whose methods the program has. Null: the slots of attributes are not checked.
  value::ValueRef module;
  // The classes of the module's code, which say how many attributes an object with a state has.
  // Null: they are not known. It must stay while the verifier runs.
  const value::ClassTable* classes = nullptr;
  // Words of 64 registers that may be held at one time, and that may be looked at altogether.
  uint64_t max_words = uint64_t{1} << 23;
  uint64_t max_steps = uint64_t{1} << 26;
};

// CORRUPT, UNSUPPORTED for an opcode or a type that the lite interpreter does not have,
// RESOURCE_EXHAUSTED beyond a limit. The message names the function, the instruction or the type,
// and what is wrong with it. The slots of attributes are not checked.
Status verify(const Function& function, const VerifyOptions& options);
// Every function of a program, and the slots of attributes.
Status verify(const Program& program, const VerifyOptions& options);

}  // namespace tenon::bytecode
