// Checks that a function of bytecode can be run. PyTorch's lite interpreter trusts registers, jumps
// and the depth of the stack, and reads foreign memory where they are wrong. The importer verifies
// the bytecode of an archive, and the compiler its own.
//
// Every instruction is looked at once, so time is linear in the instructions. Memory is bounded by
// the limit. The rules are in docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "bytecode/program.h"

namespace tenon::bytecode {

// How many values an operator takes from the stack and leaves there.
struct OperatorArity {
  static constexpr int kAny = -1;

  int inputs = kAny;   // kAny: the number differs from call to call
  int outputs = kAny;  // likewise
};

// Nothing: there is no such operator in the caller's table. Another PyTorch, or a program with
// operators of its own, may have it.
using FindArity = std::function<std::optional<OperatorArity>(const std::string& name, const std::string& overload)>;

struct VerifyOptions {
  // Null: no operator is known. A known operator whose outputs differ from call to call has as many
  // as a STOREN right behind it takes, which is how PyTorch stores several results. Behind an
  // operator that is not known, or has no such STOREN, the depth of the stack is unknown. The
  // verifier does not check the depth on the paths that lead on from there, and checks all else: a
  // foreign operator is no fault of the archive.
  FindArity find_arity;
  // Words of 64 registers that may be held at one time, and that may be looked at altogether.
  uint64_t max_words = uint64_t{1} << 23;
  uint64_t max_steps = uint64_t{1} << 26;
};

// CORRUPT, UNSUPPORTED for an opcode that the lite interpreter does not run, RESOURCE_EXHAUSTED
// beyond a limit. The message names the function, the instruction and what is wrong with it.
Status verify(const Function& function, const VerifyOptions& options);
// Every function of a program.
Status verify(const Program& program, const VerifyOptions& options);

}  // namespace tenon::bytecode
