#include "modules/bytecode/program.h"

namespace tenon::bytecode {

namespace {

uint64_t nbytes_of(const std::vector<Argument>& arguments) noexcept {
  uint64_t nbytes = 0;
  for (const Argument& argument : arguments)
    nbytes += sizeof(Argument) + argument.name.size() + argument.type.size();
  return nbytes;
}

}  // namespace

uint64_t memory_nbytes(const Program& program) noexcept {
  uint64_t nbytes = 0;
  for (const Function& function : program.functions) {
    nbytes += sizeof(Function) + function.name.size() +
              function.instructions.size() * sizeof(Instruction);
    for (const OperatorUse& use : function.operators)
      nbytes += sizeof(OperatorUse) + use.name.size() + use.overload.size();
    for (const std::string& type : function.types) nbytes += sizeof(std::string) + type.size();
    nbytes += function.constants.size() * sizeof(value::ValueRef);
    nbytes += nbytes_of(function.arguments) + nbytes_of(function.returns);
  }
  return nbytes;
}

}  // namespace tenon::bytecode
