// These tests check which source text, and which calls, the debug information gives for the
// instructions of a compiled program.
#include "unit/compile/compile_kit.h"

namespace tenon::compile::test {
namespace {

constexpr const char* kCode =
    "class Part(Module):\n"
    "  def helper(self, x: Tensor) -> Tensor:\n"
    "    return torch.relu(x)\n"
    "  def forward(self, x: Tensor) -> Tensor:\n"
    "    return self.helper(x)\n"
    "def scaled(x: Tensor) -> Tensor:\n"
    "  return torch.mul(x, 2)\n"
    "class M(Module):\n"
    "  part : __torch__.Part\n"
    "  def forward(self, x: Tensor, n: int) -> Tensor:\n"
    "    y = self.part.forward(x)\n"
    "    for i in range(n):\n"
    "      y = __torch__.scaled(y)\n"
    "    return 2 - y\n";

uint32_t line_of(const script::Source* source, script::Range range) {
  return source->position(range.begin).line;
}

// A compiled program, and the file to whose text its debug information refers.
struct WithDebugInfo {
  std::shared_ptr<const script::File> file;
  script::Declarations declarations;
  bytecode::Program program;
  DebugInfo debug_info;
};

WithDebugInfo with_debug_info(const std::string& code) {
  WithDebugInfo made;
  Result<std::shared_ptr<const script::File>> file = script::parse_file("code/__torch__.py", code);
  EXPECT_TRUE(file.is_ok());
  made.file = file.value();
  EXPECT_TRUE(made.declarations.add("__torch__", made.file).is_ok());
  const std::vector<std::string> modules = {"__torch__.M"};
  Result<bytecode::Program> program = compile_program(made.declarations, {}, modules[0], modules,
                                                      CompileOptions(), &made.debug_info);
  EXPECT_TRUE(program.is_ok()) << program.status().message();
  if (program.is_ok()) made.program = std::move(program).value();
  return made;
}

// Returns a line for each instruction: the opcode, the calls, the node and the line.
std::vector<std::string> origins_of(const bytecode::Program& program, const DebugInfo& info) {
  std::vector<std::string> lines;
  const std::vector<size_t>& numbers = info.functions.at(0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const DebugInfo::Origin& origin = info.origins.at(numbers[i]);
    std::string line(bytecode::opcode_name(program.functions[0].instructions[i].opcode));
    for (size_t at = origin.call; at != DebugInfo::kNoCall; at = info.calls.at(at).callee) {
      const DebugInfo::CallSite& call = info.calls[at];
      line += format(" %s(%s)::%s@%u", call.instance.c_str(), call.module.c_str(),
                     call.function.c_str(), line_of(call.source, call.range));
    }
    lines.push_back(line +
                    format(" %s@%u", origin.node.c_str(), line_of(origin.source, origin.range)));
  }
  return lines;
}

TEST(CompileDebugInfo, NamesTheNodeTheLineAndTheCallsOfEachInstruction) {
  const WithDebugInfo made = with_debug_info(kCode);
  ASSERT_EQ(made.debug_info.functions.size(), made.program.functions.size());
  const std::vector<std::string> expected = {
      "STOREN prim::Param@10",
      "MOVE prim::GetAttr@11",
      "GET_ATTR prim::GetAttr@11",
      "DROP prim::Drop@10",
      "LOADC prim::Loop@12",
      "MOVE prim::Loop@12",
      "LOADC prim::Loop@12",
      // The result stays on the stack during the loop.
      "MOVE part(__torch__.Part)::forward@11 SELF(__torch__.Part)::helper@5 aten::relu@3",
      "OP part(__torch__.Part)::forward@11 SELF(__torch__.Part)::helper@5 aten::relu@3",
      "LOOP prim::Loop@12",
      "STOREN prim::Param@10",
      "DROPR prim::Drop@10",
      "LOADC prim::Return@10",
      "MOVE ()::scaled@13 aten::mul@7",
      "LOADC ()::scaled@13 aten::mul@7",
      "OP ()::scaled@13 aten::mul@7",
      "JMP prim::Loop@12",
      "STORE prim::Loop@12",
      // The source of this operator is Tenon's own, so its nodes get the place of the call.
      "MOVE aten::neg@14",
      "OP aten::neg@14",
      "LOADC aten::add@14",
      "OP aten::add@14",
      "RET prim::Return@10",
  };
  EXPECT_EQ(origins_of(made.program, made.debug_info), expected);
}

}  // namespace
}  // namespace tenon::compile::test
