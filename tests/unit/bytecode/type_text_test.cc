// These tests check the texts in a table of types. The texts that PyTorch's exporters write are
// read. The texts that PyTorch's lite loader cannot read, or crashes on, are refused.
#include "modules/bytecode/type_text.h"

#include <gtest/gtest.h>

#include "support/must.h"
#include "unit/bytecode/bytecode_kit.h"

namespace tenon::bytecode::test {
namespace {

struct GoodText {
  std::string text;
  TypeForm form = TypeForm::kOther;
  size_t parts = 0;
};

struct BadText {
  std::string text;
  std::string part;  // a part of the message
  Code code = Code::kCorrupt;
};

constexpr const char* kPoint =
    "__torch__.a.Point[NamedTuple, [[x, Tensor],[n, int],[label, Optional[str]]]]";

std::string nested_list(size_t depth) {
  std::string text;
  for (size_t i = 1; i < depth; ++i) text += "List[";
  return text + "int" + std::string(depth - 1, ']');
}

TEST(BytecodeTypeText, what_exporters_write_is_read) {
  const std::string point = kPoint;
  const GoodText texts[] = {
      {"List[int]", TypeForm::kList},
      {"List[ int ]", TypeForm::kList},
      {"List[Tuple[float, List[int], Tensor]]", TypeForm::kList},
      {"List[__torch__.a.Point]", TypeForm::kList},
      {"List[__torch__.torch.classes.rnn.CellParamsBase]", TypeForm::kList},
      {"Dict[str,Dict[str, Tensor]]", TypeForm::kDict},
      {"Dict[str," + point + "]", TypeForm::kDict},
      {"Dict[" + point + ",int]", TypeForm::kDict},
      {"Tuple[int, Tensor]", TypeForm::kTuple, 2},
      {"Tuple[]", TypeForm::kTuple, 0},
      {point, TypeForm::kNamedTuple, 3},
      {"__torch__.a.Pair[NamedTuple, [[left, " + point + "],[right, Tensor]]]",
       TypeForm::kNamedTuple, 2},
      {"__torch__.a.Nothing[NamedTuple, []]", TypeForm::kNamedTuple, 0},
      {"__torch__.___torch_mangle_0.Point", TypeForm::kName},
      {"__torch__.torch.nn.Point", TypeForm::kName},
      {"__torch__.torch.classes.quantized.Conv2dPackedParamsBase", TypeForm::kCustomClass},
      {"Optional[List[Tensor]]"},
      {nested_list(kMaxTypeTextDepth), TypeForm::kList},
  };
  for (const GoodText& good : texts) {
    SCOPED_TRACE(good.text);
    TypeShape shape = must(parse_type_text(good.text));
    EXPECT_EQ(shape.form, good.form);
    EXPECT_EQ(shape.parts, good.parts);
  }
  for (const char* const simple :
       {"Tensor", "int", "float", "bool", "complex", "str", "Device", "Generator", "Stream",
        "number", "None", "NoneType", "Any", "Capsule", "list", "tuple"}) {
    EXPECT_TRUE(parse_type_text(simple).is_ok()) << simple;
  }
}

TEST(BytecodeTypeText, what_the_loader_does_not_read_is_refused) {
  const BadText texts[] = {
      {"Union[int,str]", "does not read the type Union", Code::kUnsupported},
      {"List[Union[int, str]]", "does not read the type Union", Code::kUnsupported},
      {"Optional[Future[int]]", "does not read the type Future", Code::kUnsupported},
      {"RRef[int]", "does not read the type RRef", Code::kUnsupported},
      {"List[Tuple[()]]", "the empty tuple", Code::kUnsupported},
      {"List[[[", "byte 5 is '[', and not a type"},
      {"List[", "byte 5 is its end, and not a type"},
      {"List[int", "byte 8 is its end, and not ']'"},
      {"List", "byte 4 is its end, and not '['"},
      {"List[int,]", "byte 8 is ',', and not ']'"},
      {"List[int]]", "byte 9 is ']', and not the end"},
      {"int[", "byte 3 is '[', and not the end"},
      {"Dict[str]", "byte 8 is ']', and not ','"},
      {"Tuple[int,]", "byte 10 is ']', and not a type"},
      {"Tuple[int int]", "byte 10 is 'int', and not ','"},
      {"", "byte 0 is its end, and not a type"},
      {"   ", "is its end, and not a type"},
      {"integer", "byte 0 is 'integer', and not a type"},
      {"__torch__", "is its end, and not '.'"},
      {"__torch__.", "is its end, and not a name"},
      {"__torch__.a-b", "byte 11 is '-', and not the end"},
      {"__torch__..a", "byte 10 is '.', and not a name"},
      {"__torch__.a\"b", "and not a name"},
      {"__torch__.torch.classes.ns", "a class of __torch__.torch.classes"},
      {"__torch__.torch.classes.ns.C.d", "a class of __torch__.torch.classes"},
      {"__torch__.P[Enum, [[x, int]]]", "byte 12 is 'Enum', and not 'NamedTuple'"},
      {"__torch__.P[NamedTuple, [[x]]]", "and not ','"},
      {"__torch__.P[NamedTuple, [[x, int],]]", "and not '['"},
      {"__torch__.P[NamedTuple, [[x, int]]", "its end, and not ']'"},
      {"__torch__.P[NamedTuple, [[3, int]]]", "and not the name of a field"},
      {nested_list(kMaxTypeTextDepth + 1), "deeper than 256 levels", Code::kResourceExhausted},
      {nested_list(100'000), "deeper than 256 levels", Code::kResourceExhausted},
  };
  for (const BadText& bad : texts) {
    SCOPED_TRACE(bad.text.substr(0, 100));
    expect_error(parse_type_text(bad.text).status(), bad.part, bad.code);
  }
}

Function that_makes(Opcode opcode, int32_t n, std::string type) {
  std::vector<Instruction> all = {{Opcode::kStoreN, 1, 2}};
  for (int32_t i = 0; i < n; ++i) all.push_back({Opcode::kLoad, 2});
  if (opcode == Opcode::kIsInstance) all.push_back({Opcode::kLoad, 2});
  all.push_back({opcode, 0, opcode == Opcode::kIsInstance ? 1 : n});
  all.push_back({Opcode::kRet});
  Function function = function_of(std::move(all));
  function.types = {std::move(type)};
  return function;
}

struct Making {
  Opcode opcode;
  int32_t n;
  std::string type;
  std::string fault;  // empty: the case is good
};

TEST(BytecodeTypeText, a_type_fits_the_instruction_that_names_it) {
  const std::string point = kPoint;
  const Making makings[] = {
      {Opcode::kListConstruct, 1, "List[Tensor]", ""},
      {Opcode::kListConstruct, 1, "int",
       "instruction 2 (LIST_CONSTRUCT 0 1): type 0 is 'int', and not a List"},
      {Opcode::kListConstruct, 1, "list", "type 0 is 'list', and not a List"},
      {Opcode::kListConstruct, 1, "Optional[List[int]]", "and not a List"},
      {Opcode::kListConstruct, 1, "Dict[str,int]", "and not a List"},
      {Opcode::kDictConstruct, 2, "Dict[str,int]", ""},
      {Opcode::kDictConstruct, 2, "List[int]",
       "instruction 3 (DICT_CONSTRUCT 0 2): type 0 is 'List[int]', and not a Dict"},
      {Opcode::kNamedTupleConstruct, 3, point, ""},
      {Opcode::kNamedTupleConstruct, 3, "__torch__.a.Point", ""},
      {Opcode::kNamedTupleConstruct, 2, "Tuple[int, Tensor]", ""},
      {Opcode::kNamedTupleConstruct, 2, point,
       "it makes a NamedTuple of 2 values, and type 0 has 3"},
      {Opcode::kNamedTupleConstruct, 1, "tuple", "type 0 is 'tuple', and not a NamedTuple"},
      {Opcode::kNamedTupleConstruct, 1, "__torch__.torch.classes.a.B", "and not a NamedTuple"},
      {Opcode::kCreateObject, 0, "__torch__.torch.classes.a.B", ""},
      {Opcode::kCreateObject, 0, "List[int]",
       "instruction 1 (CREATE_OBJECT 0 0): type 0 is 'List[int]', and not a class"},
      {Opcode::kCreateObject, 0, point, "and not a class"},
      {Opcode::kIsInstance, 0, "int", ""},
      {Opcode::kIsInstance, 0, "Optional[Tensor]", ""},
      {Opcode::kIsInstance, 0, point, ""},
  };
  for (const Making& making : makings) {
    SCOPED_TRACE(std::string(opcode_name(making.opcode)) + " " + making.type);
    const Status status = verify(that_makes(making.opcode, making.n, making.type), with_arities());
    if (!making.fault.empty()) {
      expect_error(status, making.fault);
    } else {
      EXPECT_TRUE(status.is_ok()) << status.message();
    }
  }
}

TEST(BytecodeTypeText, the_whole_table_is_read) {
  Function function = relu();
  function.types = {"List[int]", "Union[int,str]"};
  expect_error(verify(function, with_arities()),
               "bytecode.pkl: function __torch__.M.forward: type 1, 'Union[int,str]': the lite "
               "interpreter does not read",
               Code::kUnsupported);
  function.types = {"List[__torch__.P]", "__torch__.P[NamedTuple, [[x, Tensor]]]"};
  EXPECT_TRUE(verify(function, with_arities()).is_ok());
}

}  // namespace
}  // namespace tenon::bytecode::test
