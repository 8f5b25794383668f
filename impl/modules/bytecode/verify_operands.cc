#include "modules/bytecode/verify_operands.h"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace tenon::bytecode {
namespace {

// Checks of one instruction's operands. Each check returns a text that says what is wrong, or an
// empty text.
class OperandChecks {
 public:
  OperandChecks(const Function& function, std::span<const TypeShape> types, size_t index)
      : function_(function),
        types_(types),
        x_(function.instructions[index].x),
        n_(function.instructions[index].n),
        index_(index) {}

  std::string operand_in(size_t count, const char* what) const {
    if (x_ >= 0 && static_cast<size_t>(x_) < count) return {};
    return format("there is no %s %lld, for the function has %zu", what, as_lld(x_), count);
  }

  // Checks that X names a type, and that it has one of `forms`.
  std::string type(std::initializer_list<TypeForm> forms, const char* wanted) const {
    std::string wrong = types(1);
    if (!wrong.empty()) return wrong;
    const auto number = static_cast<size_t>(x_);
    if (std::find(forms.begin(), forms.end(), types_[number].form) != forms.end()) return {};
    return format("type %zu is '%.100s', and not %s", number, function_.types[number].c_str(),
                  wanted);
  }

  // PyTorch writes only the name of a NamedTuple if it does not know the definition.
  std::string named_tuple() const {
    std::string wrong =
        type({TypeForm::kNamedTuple, TypeForm::kTuple, TypeForm::kName}, "a NamedTuple");
    if (!wrong.empty()) return wrong;
    const TypeShape& shape = types_[static_cast<size_t>(x_)];
    if (shape.form == TypeForm::kName || shape.parts == static_cast<size_t>(n_)) return {};
    return format("it makes a NamedTuple of %lld values, and type %lld has %zu", as_lld(n_),
                  as_lld(x_), shape.parts);
  }

  std::string types(int64_t count) const {
    const auto size = static_cast<int64_t>(function_.types.size());
    if (x_ >= 0 && count >= 1 && x_ + count <= size) return {};
    return format("it names %lld types from number %lld on, and the function has %lld",
                  as_lld(count), as_lld(x_), as_lld(size));
  }

  std::string registers(int64_t count) const {
    if (x_ >= 1 && count <= function_.register_count - x_ + 1) return {};
    return format("it names %lld registers from number %lld on, and the function has %lld",
                  as_lld(count), as_lld(x_), as_lld(function_.register_count));
  }

  std::string jump(bool may_go_back) const {
    const auto count = static_cast<int64_t>(function_.instructions.size());
    const int64_t target = static_cast<int64_t>(index_) + x_;
    if (target < 0 || target >= count) {
      return format("it jumps to instruction %lld, and the function has %lld", as_lld(target),
                    as_lld(count));
    }
    if (x_ > 0) return {};
    const bool is_loop =
        may_go_back && function_.instructions[static_cast<size_t>(target)].opcode == Opcode::kLoop;
    if (is_loop) return {};
    return format("it jumps back to instruction %lld, and only a JMP to a LOOP goes back",
                  as_lld(target));
  }

  std::string not_negative() const {
    return x_ >= 0 ? std::string() : format("its X is %lld, and not 0 or more", as_lld(x_));
  }

  std::string loop() const {
    if (n_ < 2) return format("its N is %lld, and a loop has 2 or more", as_lld(n_));
    return jump(false);
  }

  std::string method() const {
    std::string wrong = operand_in(function_.constants.size(), "constant");
    if (!wrong.empty()) return wrong;
    if (!function_.constants[static_cast<size_t>(x_)]->is(value::ValueKind::kStr)) {
      return format("constant %lld is the name of a method there, and no text", as_lld(x_));
    }
    return n_ >= 1 ? std::string() : "a method has the module as its first input";
  }

 private:
  static long long as_lld(int64_t number) noexcept { return number; }

  const Function& function_;
  std::span<const TypeShape> types_;
  int64_t x_;
  int64_t n_;
  size_t index_;
};

std::string find_operand_fault(const Function& function, std::span<const TypeShape> types,
                               size_t index) {
  const Instruction& instruction = function.instructions[index];
  const OperandChecks check(function, types, index);
  switch (instruction.opcode) {
    case Opcode::kOp:
    case Opcode::kOpN: return check.operand_in(function.operators.size(), "operator");
    case Opcode::kLoad:
    case Opcode::kMove:
    case Opcode::kStore:
    case Opcode::kDropR: return check.registers(1);
    case Opcode::kStoreN: return check.registers(instruction.n);
    case Opcode::kLoadC: return check.operand_in(function.constants.size(), "constant");
    case Opcode::kJf: return check.jump(false);
    case Opcode::kJmp: return check.jump(true);
    case Opcode::kLoop: return check.loop();
    case Opcode::kInterfaceCall: return check.method();
    case Opcode::kNamedTupleConstruct: return check.named_tuple();
    case Opcode::kListConstruct: return check.type({TypeForm::kList}, "a List");
    case Opcode::kCreateObject:
      return check.type({TypeForm::kCustomClass, TypeForm::kName}, "a class");
    case Opcode::kDictConstruct:
      if (instruction.n % 2 != 0) return "its N is odd, and a dict is made of keys and values";
      return check.type({TypeForm::kDict}, "a Dict");
    case Opcode::kIsInstance: return check.types(instruction.n);
    case Opcode::kGetAttr:
    case Opcode::kSetAttr:
    case Opcode::kListUnpack:
    case Opcode::kTupleConstruct:
    case Opcode::kTupleSlice: return check.not_negative();
    case Opcode::kFormat:
      return instruction.x >= 1 ? std::string() : "its X counts the format too, and is less than 1";
    case Opcode::kCall:
      // Only PyTorch's loader adds the functions that a CALL names, which are upgraders of
      // operators.
      return "a record has no functions for it to call";
    default: return {};
  }
}

}  // namespace

StackEffect stack_effect(const Instruction& instruction) noexcept {
  const int64_t x = instruction.x;
  const int64_t n = instruction.n;
  switch (instruction.opcode) {
    case Opcode::kLoad:
    case Opcode::kMove:
    case Opcode::kLoadC:
    case Opcode::kCreateObject:
    case Opcode::kUninitialized: return {0, 1};
    case Opcode::kStore:
    case Opcode::kDrop:
    case Opcode::kJf: return {1, 0};
    case Opcode::kStoreN: return {n, 0};
    case Opcode::kInterfaceCall:
    case Opcode::kNamedTupleConstruct:
    case Opcode::kListConstruct:
    case Opcode::kDictConstruct: return {n, 1};
    case Opcode::kTupleConstruct:
    case Opcode::kFormat: return {x, 1};
    case Opcode::kListUnpack: return {1, x};
    case Opcode::kSetAttr:
    case Opcode::kRaiseException:
    case Opcode::kWarn: return {2, 0};
    case Opcode::kTupleIndex:
    case Opcode::kDictIndex:
    case Opcode::kIs:
    case Opcode::kIsNot: return {2, 1};
    case Opcode::kToList: return {3, 1};
    case Opcode::kGetAttr:
    case Opcode::kIsInstance:
    case Opcode::kTupleSlice:
    case Opcode::kDevice:
    case Opcode::kDtype:
    case Opcode::kDim:
    case Opcode::kNot:
    case Opcode::kNumToTensor:
    case Opcode::kIsCuda: return {1, 1};
    default: return {};
  }
}

StackEffect operator_effect(const Function& function, size_t index,
                            const std::optional<OperatorArity>& arity) noexcept {
  const Instruction& instruction = function.instructions[index];
  StackEffect effect{function.operators[static_cast<size_t>(instruction.x)].arguments,
                     OperatorArity::kAny};
  if (instruction.opcode == Opcode::kOpN) {
    effect.pops = instruction.n;
  } else if (effect.pops < 0) {
    effect.pops = arity ? arity->inputs : OperatorArity::kAny;
  }
  if (!arity) return effect;
  effect.pushes = arity->outputs;
  if (effect.pushes < 0 && index + 1 < function.instructions.size()) {
    const Instruction& next = function.instructions[index + 1];
    if (next.opcode == Opcode::kStoreN) effect.pushes = next.n;
  }
  return effect;
}

Result<std::vector<TypeShape>> parse_types(const Function& function) {
  std::vector<TypeShape> types;
  types.reserve(function.types.size());
  for (size_t i = 0; i < function.types.size(); ++i) {
    const std::string& text = function.types[i];
    Result<TypeShape> shape = parse_type_text(text);
    if (!shape.is_ok()) {
      return function_fault(
          shape.status().code(), function,
          format("type %zu, '%.100s': %s", i, text.c_str(), shape.status().message().c_str()));
    }
    types.push_back(shape.value());
  }
  return types;
}

Status check_operands(const Function& function, std::span<const TypeShape> types, size_t index) {
  const Instruction& instruction = function.instructions[index];
  if (!runs_in_lite(instruction.opcode)) {
    return instruction_fault(Code::kUnsupported, function, index,
                             "the lite interpreter does not run this opcode");
  }
  const std::string wrong = find_operand_fault(function, types, index);
  if (wrong.empty()) return Status::ok();
  return instruction_fault(Code::kCorrupt, function, index, wrong);
}

Status function_fault(Code code, const Function& function, const std::string& what) {
  return Status(code,
                format("bytecode.pkl: function %.300s: %s", function.name.c_str(), what.c_str()))
      .with("record", "bytecode.pkl");
}

Status instruction_fault(Code code, const Function& function, size_t index,
                         const std::string& what) {
  const Instruction& instruction = function.instructions[index];
  const std::string_view opcode = opcode_name(instruction.opcode);
  return Status(code, format("bytecode.pkl: function %.300s, instruction %zu (%.*s %lld %lld): %s",
                             function.name.c_str(), index, static_cast<int>(opcode.size()),
                             opcode.data(), static_cast<long long>(instruction.x),
                             static_cast<long long>(instruction.n), what.c_str()))
      .with("record", "bytecode.pkl");
}

}  // namespace tenon::bytecode
