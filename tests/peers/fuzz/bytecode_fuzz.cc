// libFuzzer target: it reads any bytes as a record bytecode.pkl. This must end in a typed error, or
// in a program that can be read again from its own record. A function that the verifier accepts
// must run without reading a register or a place of the stack that has no value. The types of such
// a function are read, and no attribute slot may be beyond the most attributes that an object of
// the module has.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/bytecode/program_reader.h"
#include "modules/bytecode/program_writer.h"
#include "modules/bytecode/type_text.h"
#include "modules/bytecode/verify.h"
#include "modules/bytecode/verify_operands.h"
#include "peers/fuzz/require.h"
#include "pickle/reader.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::bytecode;

void check_refusal(const Status& status) {
  const Code code = status.code();
  const bool is_known = code == Code::kCorrupt || code == Code::kUnsupported ||
                        code == Code::kIncompatible || code == Code::kResourceExhausted;
  require(is_known, "an unexpected code", status.message());
  require(status.message().starts_with("bytecode.pkl"), "a refusal without its record",
          status.message());
}

// Runs a function without values. It tracks only which registers have a value, and how many values
// are on the stack.
class DryRun {
 public:
  DryRun(const Function& function, uint64_t seed) : function_(function), seed_(seed) {
    registers_.resize(static_cast<size_t>(function.register_count) + 1);
    depth_ = static_cast<int64_t>(function.arguments.size());
  }

  void run() {
    for (int step = 0; step < 3000; ++step) {
      require(at_ < function_.instructions.size(), "ran out of the function");
      if (!one()) return;
    }
  }

 private:
  bool choose() noexcept {
    seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
    return (seed_ >> 40 & 1) != 0;
  }

  void take(int64_t count) {
    depth_ -= count;
    require(depth_ >= 0, "took from an empty stack", std::to_string(at_));
  }

  void jump(int32_t by) { at_ = static_cast<size_t>(static_cast<int64_t>(at_) + by); }

  // Runs one instruction. Returns false at the end.
  bool one() {
    const Instruction& instruction = function_.instructions[at_];
    const auto place = static_cast<size_t>(std::max(instruction.x, 0));
    switch (instruction.opcode) {
      case Opcode::kRet: require(depth_ == 1, "returned another number of values"); return false;
      case Opcode::kRaiseException: take(2); return false;
      case Opcode::kOp: {
        const int32_t arguments = function_.operators[place].arguments;
        take(arguments >= 0 ? arguments : 1);
        ++depth_;
        break;
      }
      case Opcode::kOpN:
        take(instruction.n);
        ++depth_;
        break;
      case Opcode::kLoop:
        require(depth_ >= instruction.n + 1, "a loop without its values");
        if (choose()) break;
        take(3);
        jump(instruction.x);
        return true;
      case Opcode::kJf:
        take(1);
        jump(choose() ? 1 : instruction.x);
        return true;
      case Opcode::kJmp: jump(instruction.x); return true;
      default: {
        const StackEffect effect = stack_effect(instruction);
        take(effect.pops);
        depth_ += effect.pushes;
        follow_registers(instruction);
      }
    }
    ++at_;
    return true;
  }

  void follow_registers(const Instruction& instruction) {
    const auto first = static_cast<size_t>(std::max(instruction.x, 0));
    switch (instruction.opcode) {
      case Opcode::kStore: registers_.at(first) = true; break;
      case Opcode::kStoreN:
        for (int32_t k = 0; k < instruction.n; ++k)
          registers_.at(first + static_cast<size_t>(k)) = true;
        break;
      case Opcode::kLoad: require(registers_.at(first), "read an empty register"); break;
      case Opcode::kMove:
        require(registers_.at(first), "moved from an empty register");
        registers_[first] = false;
        break;
      case Opcode::kDropR: registers_.at(first) = false; break;
      default: break;
    }
  }

  const Function& function_;
  uint64_t seed_;
  size_t at_ = 0;
  int64_t depth_ = 0;
  std::vector<bool> registers_;  // by number: whether it has a value
};

std::optional<OperatorArity> one_in_one_out(const std::string&, const std::string&) {
  return OperatorArity{1, 1};
}

void check_function(const Function& function) {
  VerifyOptions options;
  // Small limits keep a run short.
  options.max_words = 1 << 16;
  options.max_steps = 1 << 20;
  const Status without = verify(function, options);
  options.find_arity = one_in_one_out;
  const Status status = verify(function, options);
  if (!status.is_ok()) return check_refusal(status);
  require(without.is_ok(), "refused only because operators are not known", without.message());
  if (!function.has_schema) return;
  for (uint64_t seed = 1; seed <= 8; ++seed) DryRun(function, seed).run();
}

// A module with a Small, which has one attribute, and a Large, which has three.
value::ValueRef small_module() {
  const auto object = [](const char* name, const std::vector<value::ValueRef>& attributes) {
    value::ValueRef made = value::Value::object(name);
    for (const value::ValueRef& attribute : attributes) {
      require(made->attributes()
                  .add("a" + std::to_string(made->attributes().size()), attribute)
                  .is_ok(),
              "no attribute");
    }
    return made;
  };
  const value::ValueRef number = value::Value::of_int(1);
  return object("__torch__.M", {object("__torch__.Small", {number}),
                                object("__torch__.Large", {number, number, number})});
}

void check_attributes(const Function& function) {
  constexpr int32_t kMostAttributes = 3;
  static const value::ValueRef module = small_module();
  Program program;
  program.functions.push_back(function);
  VerifyOptions options;
  options.max_words = 1 << 16;
  options.max_steps = 1 << 20;
  options.find_arity = one_in_one_out;
  const bool is_good_alone = verify(program, options).is_ok();
  options.module = module;
  const Status status = verify(program, options);
  require(is_good_alone || !status.is_ok(), "a module makes a bad function good");
  if (!status.is_ok()) return check_refusal(status);
  for (const Instruction& instruction : function.instructions) {
    if (instruction.opcode != Opcode::kGetAttr && instruction.opcode != Opcode::kSetAttr) continue;
    require(instruction.x < kMostAttributes, "a slot that no object has");
  }
}

// Any text of a type must be read or refused.
void check_type(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Result<TypeShape> shape = parse_type_text(text);
  Function function;
  function.types = {text};
  Result<std::vector<TypeShape>> table = parse_types(function);
  require(shape.is_ok() == table.is_ok(), "a table is not read as its text is");
  if (!table.is_ok()) check_refusal(table.status());
}

// Four bytes of the input are one instruction, whose operands are small.
void check_instructions(const uint8_t* data, size_t size) {
  Function function;
  function.name = "__torch__.M.forward";
  function.operators = {{"aten::relu", "", 1},
                        {"aten::add", "Tensor", 2},
                        {"aten::format", "", OperatorUse::kVariadic}};
  function.constants = {value::Value::none(), value::Value::of_str("run")};
  function.types = {"List[int]", "Dict[str,Tensor]", "__torch__.P[NamedTuple, [[x, int]]]",
                    "__torch__.torch.classes.a.B"};
  function.register_count = 70;
  function.arguments.resize(2);
  function.returns.resize(1);
  for (size_t i = 0; i + 4 <= size && i < 4000; i += 4) {
    const auto x = static_cast<int8_t>(data[i + 1]);
    function.instructions.push_back(
        {static_cast<Opcode>(data[i] % kOpcodeCount), x, data[i + 2] % 8});
  }
  check_function(function);
  check_attributes(function);
}

Result<value::StorageValueRef> find_storage(const archive::PickledStorage& wanted) {
  return value::StorageValue::create(wanted.type, wanted.numel, nullptr, 0, "meta");
}

bool same_constants(const Function& one, const Function& other) {
  return std::equal(
      one.constants.begin(), one.constants.end(), other.constants.begin(), other.constants.end(),
      [](const value::ValueRef& a, const value::ValueRef& b) { return a.get() == b.get(); });
}

void check_record(std::span<const std::byte> bytes) {
  pickle::PickleReadOptions read;
  read.limits.max_nodes = 100'000;
  read.limits.max_names_nbytes = 1'000'000;
  read.record = "bytecode.pkl";
  Result<pickle::PickleTree> tree = pickle::read_pickle(bytes, read);
  if (!tree.is_ok()) return;
  archive::ToValuesOptions to_values;
  to_values.find_storage = find_storage;
  to_values.limits = read.limits;
  Result<archive::UnpickledValue> values = archive::pickle_to_values(tree.value(), to_values);
  if (!values.is_ok()) return;
  Result<Program> program = read_program(values.value().root, {uint64_t{8} << 20});
  if (!program.is_ok()) return check_refusal(program.status());
  for (const Function& function : program.value().functions) {
    check_function(function);
    check_attributes(function);
  }

  Result<value::ValueRef> again = program_value(program.value());
  require(again.is_ok(), "what was read is not written", again.status().message());
  Result<Program> second = read_program(again.value(), {uint64_t{64} << 20});
  require(second.is_ok(), "what was written is refused", second.status().message());
  require(second.value().functions.size() == program.value().functions.size(),
          "a round changes the number of functions");
  for (size_t i = 0; i < second.value().functions.size(); ++i) {
    const Function& one = program.value().functions[i];
    const Function& other = second.value().functions[i];
    require(one.name == other.name && one.instructions == other.instructions &&
                one.operators == other.operators && one.types == other.types &&
                same_constants(one, other) && one.register_count == other.register_count &&
                one.has_schema == other.has_schema,
            "a round changes a function", one.name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check_record({reinterpret_cast<const std::byte*>(data), size});
  check_instructions(data, size);
  check_type(data, size);
  return 0;
}
