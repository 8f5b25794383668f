// The tests of bytecode use these helpers to make functions, and to read records of bytecode.pkl as
// values.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_to_values.h"
#include "modules/bytecode/program.h"
#include "modules/bytecode/program_reader.h"
#include "modules/bytecode/program_writer.h"
#include "modules/bytecode/verify.h"
#include "pickle/reader.h"
#include "storage/storage.h"

namespace tenon::bytecode::test {

using value::Value;
using value::ValueRef;

inline void expect_error(const Status& status, std::string_view part, Code code = Code::kCorrupt) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

inline Argument argument(std::string name, std::string type) {
  return {std::move(name), std::move(type), {}};
}

// Makes the function `def forward(self, x): return relu(x)`.
inline Function relu() {
  Function function;
  function.name = "__torch__.M.forward";
  function.instructions = {{Opcode::kStoreN, 1, 2},
                           {Opcode::kDropR, 1, 0},
                           {Opcode::kMove, 2, 0},
                           {Opcode::kOp, 0, 0},
                           {Opcode::kRet, 0, 0}};
  function.operators = {{"aten::relu", "", 1}};
  function.register_count = 2;
  function.arguments = {argument("self", "__torch__.M"), argument("x", "Tensor")};
  function.returns = {argument("", "Tensor")};
  return function;
}

// Makes a function of these instructions, with two inputs, four registers, one operator, two
// constants and one type.
inline Function function_of(std::vector<Instruction> instructions) {
  Function function = relu();
  function.instructions = std::move(instructions);
  function.constants = {Value::of_int(7), Value::of_str("run")};
  function.types = {"List[int]"};
  function.register_count = 4;
  return function;
}

// Says how many inputs and outputs an operator has. Operators that are not listed here have one
// output.
inline std::optional<OperatorArity> find_arity(const std::string& name,
                                               const std::string& overload) {
  static const std::map<std::string, std::optional<OperatorArity>> kOthers = {
      {"aten::max.dim", OperatorArity{3, 2}},
      {"aten::lstm.input", OperatorArity{9, 3}},
      {"aten::_native_multi_head_attention.", OperatorArity{13, 2}},
      {"prim::RaiseException.", OperatorArity{2, 0}},
      {"prim::TupleUnpack.", OperatorArity{1, OperatorArity::kAny}},
      {"test::none.", OperatorArity{1, 0}},
      {"test::two.", OperatorArity{1, 2}},
      {"test::any.", OperatorArity{1, OperatorArity::kAny}},
      {"test::unknown.", std::nullopt},
  };
  const auto found = kOthers.find(name + "." + overload);
  return found == kOthers.end() ? OperatorArity{OperatorArity::kAny, 1} : found->second;
}

inline VerifyOptions with_arities() {
  VerifyOptions options;
  options.find_arity = find_arity;
  return options;
}

// Holds a record that PyTorch wrote, as values. The elements of its tensors are zero.
struct Record {
  archive::UnpickledValue pickled;
  std::map<const value::StorageValue*, std::string> keys;

  archive::FromValuesOptions writing() const {
    archive::FromValuesOptions options;
    options.record = "bytecode.pkl";
    options.memoised = &pickled.memoised;
    options.name_storage = [this](const value::StorageValueRef& storage) -> Result<std::string> {
      return keys.at(storage.get());
    };
    return options;
  }
};

inline Result<Record> read_record(std::span<const std::byte> bytes) {
  Record record;
  pickle::PickleReadOptions read;
  read.record = "bytecode.pkl";
  TENON_ASSIGN(const pickle::PickleTree tree, pickle::read_pickle(bytes, read));
  archive::ToValuesOptions options;
  options.find_storage =
      [&](const archive::PickledStorage& wanted) -> Result<value::StorageValueRef> {
    const std::vector<std::byte> zeros(wanted.numel * tensor::scalar_type_info(wanted.type).nbytes);
    TENON_ASSIGN(Ref<storage::Storage> made,
                 storage::Storage::create_from({}, zeros.data(), zeros.size()));
    TENON_ASSIGN(value::StorageValueRef storage,
                 value::StorageValue::create(wanted.type, wanted.numel, std::move(made)));
    record.keys[storage.get()] = wanted.key;
    return storage;
  };
  TENON_ASSIGN(record.pickled, archive::pickle_to_values(tree, options));
  return record;
}

}  // namespace tenon::bytecode::test
