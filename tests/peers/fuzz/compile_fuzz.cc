// libFuzzer target: it compiles the classes of any code/__torch__.py. This must end in errors with
// their places, or in bytecode that the verifier accepts and that can be read again from its own
// record.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "modules/bytecode/program_reader.h"
#include "modules/bytecode/program_writer.h"
#include "modules/bytecode/verify.h"
#include "modules/compile/compile.h"
#include "modules/compile/operator_arity.h"
#include "modules/script/class_parts.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using value::Type;
using value::Value;
using value::ValueRef;

void require_place(const Status& status) {
  require(!status.message().empty(), "refused without a message");
  const std::vector<Detail>& details = status.info()->details;
  const bool has_line = std::any_of(details.begin(), details.end(),
                                    [](const Detail& detail) { return detail.key == "line"; });
  require(has_line, "refused without a line", status.message());
}

void check_program(const bytecode::Program& program) {
  // If all methods were left out, there is no record, because a record needs a function.
  if (program.functions.empty()) return;
  bytecode::VerifyOptions options;
  options.find_arity = compile::find_operator_arity;
  const Status status = bytecode::verify(program, options);
  // The verifier refuses to check a function that is too large.
  if (status.code() != Code::kResourceExhausted)
    require(status.is_ok(), "the verifier refuses what was compiled", status.message());
  Result<ValueRef> record = bytecode::program_value(program);
  require(record.is_ok(), "what was compiled cannot be written", record.status().message());
  Result<bytecode::Program> again = bytecode::read_program(record.value(), {uint64_t{64} << 20});
  require(again.is_ok(), "what was written is refused", again.status().message());
  require(again.value().functions.size() == program.functions.size(),
          "a round changes the number of functions");
}

std::vector<ValueRef> constants() {
  return {Value::of_int(7), Value::of_float(0.5), Value::of_str("text"),
          Value::tuple({Value::of_int(1), Value::of_int(2)}),
          Value::list(Type::list(Type::integer()).value(), {Value::of_int(1), Value::of_int(2)})};
}

struct Method {
  std::string class_name;
  std::string name;
};

void compile_all(std::string text) {
  auto parsed = script::parse_file("__torch__", std::move(text));
  if (!parsed.is_ok()) return;
  const std::vector<ValueRef> given = constants();
  script::Declarations declarations;
  declarations.set_constants(given.size());
  if (!declarations.add("__torch__", parsed.value()).is_ok()) return;
  std::vector<std::string> classes;
  std::vector<Method> methods;
  for (const script::Item& item : parsed.value()->items()) {
    if (item.class_def == nullptr) continue;
    classes.push_back("__torch__." + std::string(item.class_def->name));
    Result<script::ClassParts> parts =
        script::class_parts(parsed.value()->source(), *item.class_def);
    if (!parts.is_ok()) continue;
    for (const script::Method& method : parts.value().methods)
      methods.push_back({classes.back(), std::string(method.function->name)});
  }
  // Each method also compiles the functions that it calls, so a few methods are enough.
  if (methods.size() > 16) methods.resize(16);
  for (const bool is_oldest : {false, true}) {
    compile::CompileOptions options;
    options.torch = is_oldest ? script::Torch::kOldest : script::Torch::kNewest;
    options.version = is_oldest ? 5 : bytecode::Program::kVersion;
    for (const Method& method : methods) {
      options.methods = {method.name};
      Result<bytecode::Program> program =
          compile::compile_program(declarations, given, method.class_name, classes, options);
      if (program.is_ok())
        check_program(program.value());
      else
        require_place(program.status());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  compile_all(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
