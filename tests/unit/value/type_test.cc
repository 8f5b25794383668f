// These tests parse, print and compare types as PyTorch does.
#include "modules/value/type.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

struct TypeRow {
  const char* text;
  const char* printed;
};

// PyTorch 1.13.1 and 2.15 print each type in this way. Only 2.15 knows `|`, Await and Generator.
constexpr TypeRow kRows[] = {
    {"Tensor", "Tensor"},
    {"int", "int"},
    {"float", "float"},
    {"bool", "bool"},
    {"complex", "complex"},
    {"str", "str"},
    {"Device", "Device"},
    {"NoneType", "NoneType"},
    {"None", "NoneType"},
    {"number", "number"},
    {"Any", "Any"},
    {"Generator", "Generator"},
    {"Stream", "Stream"},
    {"Capsule", "Capsule"},
    {"list", "list"},
    {"tuple", "tuple"},
    {"torch.Tensor", "Tensor"},
    {"FloatTensor", "Tensor"},
    {"torch.FloatTensor", "Tensor"},
    {" int ", "int"},
    {"(int)", "int"},
    {"List[int]", "List[int]"},
    {"List [int]", "List[int]"},
    {"List[ int ]", "List[int]"},
    {"List[int,]", "List[int]"},
    {"list[int]", "List[int]"},
    {"List[\n  int,\n]", "List[int]"},
    {"BroadcastingList2[int]", "List[int]"},
    {"List[Optional[int]]", "List[Optional[int]]"},
    {"List[List[Tensor]]", "List[List[Tensor]]"},
    {"List[Any]", "List[Any]"},
    {"Dict[str, int]", "Dict[str, int]"},
    {"Dict[str,int]", "Dict[str, int]"},
    {"Dict[str, int,]", "Dict[str, int]"},
    {"dict[str, int]", "Dict[str, int]"},
    {"Dict[int, Dict[str, Tensor]]", "Dict[int, Dict[str, Tensor]]"},
    {"Dict[bool, int]", "Dict[bool, int]"},
    {"Dict[float, int]", "Dict[float, int]"},
    {"Dict[complex, int]", "Dict[complex, int]"},
    {"Dict[Tensor, int]", "Dict[Tensor, int]"},
    {"Dict[Device, int]", "Dict[Device, int]"},
    {"Dict[Any, int]", "Dict[Any, int]"},
    {"Dict[str, Any]", "Dict[str, Any]"},
    {"Tuple[()]", "Tuple[()]"},
    {"Tuple[]", "Tuple[()]"},
    {"Tuple[ ( ) ]", "Tuple[()]"},
    {"Tuple[int]", "Tuple[int]"},
    {"Tuple[(int)]", "Tuple[int]"},
    {"Tuple[int, str]", "Tuple[int, str]"},
    {"Tuple[int, str,]", "Tuple[int, str]"},
    {"tuple[int, str]", "Tuple[int, str]"},
    {"Tuple[Tuple[int], Tuple[()]]", "Tuple[Tuple[int], Tuple[()]]"},
    {"Optional[int]", "Optional[int]"},
    {"Optional[Any]", "Optional[Any]"},
    {"Optional[Tensor]", "Optional[Tensor]"},
    {"Optional[number]", "Optional[number]"},
    {"Optional[Optional[int]]", "Optional[int]"},
    {"Optional[Tuple[()]]", "Optional[Tuple[()]]"},
    {"Optional[Union[int, str]]", "Optional[Union[int, str]]"},
    {"Optional[Union[int, None]]", "Optional[int]"},
    {"Optional[Union[int, str, None]]", "Optional[Union[int, str]]"},
    {"Optional[Future[int]]", "Optional[Future[int]]"},
    {"Union[int, str]", "Union[int, str]"},
    {"Union[str, int]", "Union[int, str]"},
    {"Union[int, str,]", "Union[int, str]"},
    {"Union[int, None]", "Optional[int]"},
    {"Union[None, int]", "Optional[int]"},
    {"Union[Any, None]", "Optional[Any]"},
    {"Union[str, Any, Optional[int]]", "Optional[Any]"},
    {"Union[int, str, None]", "Union[int, NoneType, str]"},
    {"Union[Optional[int], str]", "Union[int, NoneType, str]"},
    {"Union[int, Union[str, float]]", "Union[float, int, str]"},
    {"Union[int, float]", "Union[float, int]"},
    {"Union[int, float, None]", "Union[float, int, NoneType]"},
    {"Union[int, float, complex]", "Union[number]"},
    {"Union[number]", "Union[number]"},
    {"Union[number, int]", "Union[number]"},
    {"Union[number, List[int], Tensor, None]", "Union[Tensor, List[int], NoneType, number]"},
    {"Union[int, float, complex, None]", "Optional[number]"},
    {"Union[number, None, int]", "Optional[number]"},
    {"Union[bool, int]", "Union[int, bool]"},
    {"Union[Tensor, None, int]", "Union[Tensor, int, NoneType]"},
    {"Union[List[int], int]", "Union[List[int], int]"},
    {"Union[List[str], List[int]]", "Union[List[int], List[str]]"},
    {"Union[List[Optional[int]], List[int]]", "Union[List[Optional[int]], List[int]]"},
    {"Union[Dict[str, str], Dict[int, int]]", "Union[Dict[int, int], Dict[str, str]]"},
    {"Union[Tuple[str], Tuple[int, str], Tuple[()]]",
     "Union[Tuple[()], Tuple[int, str], Tuple[str]]"},
    {"Union[List[Dict[str, int]], List[Optional[str]], List[Tuple[int]]]",
     "Union[List[Tuple[int]], List[Dict[str, int]], List[Optional[str]]]"},
    {"Union[Future[int], RRef[int], RRef[Tensor]]", "Union[Future[int], RRef[Tensor], RRef[int]]"},
    {"Union[Optional[List[int]], Optional[List[str]]]", "Union[List[int], List[str], NoneType]"},
    {"Union[Dict[str, int], List[int], Tuple[int], Device, Stream, Future[int], bool, complex, "
     "Tensor, str, __torch__.Q]",
     "Union[Tensor, Tuple[int], List[int], Dict[str, int], complex, Future[int], str, bool, "
     "Device, Stream, __torch__.Q]"},
    {"Union[__torch__.C, int, __torch__.Q]", "Union[__torch__.C, int, __torch__.Q]"},
    {"Union[str, __torch__.Q, __torch__.I]", "Union[str, __torch__.Q, __torch__.I]"},
    {"int | str", "Union[int, str]"},
    {"int | None", "Optional[int]"},
    {"None | int | List[str]", "Union[List[str], int, NoneType]"},
    {"List[int|str]", "List[Union[int, str]]"},
    {"Future[int]", "Future[int]"},
    {"Future[List[Tensor]]", "Future[List[Tensor]]"},
    {"RRef[Tensor]", "RRef[Tensor]"},
    {"Await[int]", "Await[int]"},
    {"List[Future[Tensor]]", "List[Future[Tensor]]"},
    {"__torch__.Q", "__torch__.Q"},
    {"__torch__ . Q", "__torch__.Q"},
    {"foo.Net", "foo.Net"},
    {"__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear",
     "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear"},
    {"List[__torch__.a.B]", "List[__torch__.a.B]"},
    {"Dict[str, __torch__.a.B]", "Dict[str, __torch__.a.B]"},
};

TEST(Type, PrintsAsPyTorchDoes) {
  for (const TypeRow& row : kRows) {
    Result<TypeRef> parsed = Type::parse(row.text);
    ASSERT_TRUE(parsed.is_ok()) << row.text << ": " << parsed.status().message();
    EXPECT_EQ(parsed.value()->print(), row.printed) << row.text;
  }
}

TEST(Type, WhatItPrintsIsTheSameTypeAgain) {
  for (const TypeRow& row : kRows) {
    const TypeRef once = type(row.text);
    const TypeRef again = type(once->print().c_str());
    EXPECT_TRUE(once->equals(*again)) << row.text;
    EXPECT_EQ(once->print(), again->print()) << row.text;
    EXPECT_EQ(once->depth(), again->depth());
    EXPECT_EQ(once->nodes(), again->nodes());
  }
}

TEST(Type, EqualIfAndOnlyIfThePrintsAre) {
  for (const TypeRow& a : kRows) {
    for (const TypeRow& b : kRows)
      EXPECT_EQ(*type(a.text) == *type(b.text), std::string(a.printed) == b.printed)
          << a.text << ", " << b.text;
  }
}

struct BadRow {
  const char* text;
  int column;
};

// PyTorch refuses each of these too.
constexpr BadRow kBad[] = {
    {"", 1},
    {"  ", 3},
    {"device", 1},
    {"dict", 1},
    {"dtype", 1},
    {"Layout", 1},
    {"Tuple", 1},
    {"List", 1},
    {"Optional", 1},
    {"Dict", 1},
    {"Future", 1},
    {"Q", 1},
    {"List[Q]", 6},
    {"Optional[None]", 1},
    {"Optional[NoneType]", 1},
    {"Union[int]", 1},
    {"Union[int, int]", 1},
    {"Union[None]", 1},
    {"Union[int, Any]", 1},
    {"Union[List[int], list]", 1},
    {"Union[Tuple[int], tuple]", 1},
    {"Dict[List[int], int]", 1},
    {"Dict[Optional[int], int]", 1},
    {"Dict[__torch__.Q, int]", 1},
    {"Dict[int]", 1},
    {"List[int, int]", 1},
    {"Optional[int, str]", 1},
    {"List[()]", 7},
    {"List[]", 6},
    {"Union[]", 7},
    {"Tuple[int, ...]", 12},
    {"Tuple[(),]", 8},
    {"Final[int]", 1},
    {"Callable[int]", 1},
    {"int[3]", 1},
    {"Tensor?", 7},
    {"Tensor[]", 1},
    {"()", 2},
    {"(int, str)", 5},
    {"(int", 5},
    {"\"int\"", 1},
    {"3", 1},
    {"3a.b", 1},
    {"a.3b", 3},
    {"a.", 3},
    {".a", 1},
    {"a..b", 3},
    {"torch.List[int]", 1},
    {"List[int", 9},
    {"List[int]]", 10},
    {"List[int] int", 11},
    {"List[,int]", 6},
    {"Dict[str, int,,]", 15},
    {"int |", 6},
    {"| int", 1},
    {"int | int", 5},
    {"int\x01", 4},
};

TEST(Type, RefusesWithTheColumn) {
  for (const BadRow& row : kBad) {
    const Result<TypeRef> parsed = Type::parse(row.text);
    ASSERT_FALSE(parsed.is_ok()) << row.text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << row.text;
    std::string column;
    for (const Detail& detail : parsed.status().info()->details) {
      if (detail.key == "column") column = detail.value;
    }
    EXPECT_EQ(column, std::to_string(row.column)) << row.text << ": " << parsed.status().message();
    EXPECT_NE(parsed.status().message().find("column " + column), std::string::npos)
        << parsed.status().message();
  }
}

TEST(Type, ShortClassNamesOnRequest) {
  EXPECT_FALSE(Type::parse("MyTuple").is_ok());
  const TypeRef parsed = must(Type::parse("List[MyTuple]", {.short_class_names = true}));
  EXPECT_EQ(parsed->print(), "List[MyTuple]");
  EXPECT_EQ(parsed->element()->kind(), TypeKind::kClass);
  EXPECT_EQ(must(Type::parse("int", {.short_class_names = true}))->kind(), TypeKind::kInt);
}

TEST(Type, UnionsAreSets) {
  EXPECT_TRUE(*type("Union[__torch__.A, __torch__.B]") == *type("Union[__torch__.B, __torch__.A]"));
  EXPECT_FALSE(*type("Union[__torch__.A, __torch__.B]") ==
               *type("Union[__torch__.A, __torch__.C]"));
  EXPECT_TRUE(*type("List[Union[int, __torch__.A, str]]") ==
              *type("List[Union[__torch__.A, str, int]]"));
}

TEST(Type, SimpleTypesAreOneObject) {
  EXPECT_EQ(type("int").get(), Type::integer().get());
  EXPECT_EQ(type("List[Tensor]")->element().get(), Type::tensor().get());
  for (size_t kind = 0; kind < kSimpleTypeCount; ++kind)
    EXPECT_EQ(Type::simple(static_cast<TypeKind>(kind))->kind(), static_cast<TypeKind>(kind));
}

std::string nested(const char* open, const char* inner, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += open;
  text += inner;
  for (size_t i = 0; i < times; ++i) text += open[0] == '(' ? ')' : ']';
  return text;
}

TEST(Type, DepthIsLimited) {
  EXPECT_TRUE(Type::parse(nested("List[", "int", Type::kMaxDepth - 1)).is_ok());
  EXPECT_FALSE(Type::parse(nested("List[", "int", Type::kMaxDepth)).is_ok());
  EXPECT_TRUE(Type::parse(nested("(", "int", Type::kMaxDepth - 1)).is_ok());
  EXPECT_FALSE(Type::parse(nested("(", "int", Type::kMaxDepth)).is_ok());
  EXPECT_FALSE(Type::parse(nested("List[", "int", 1'000'000)).is_ok());
  EXPECT_FALSE(Type::parse(nested("(", "int", 1'000'000)).is_ok());
  EXPECT_FALSE(Type::parse(std::string(1'000'000, '(')).is_ok());
}

TEST(Type, SharedPartsAreCountedEveryTime) {
  TypeRef pair = Type::integer();
  size_t levels = 0;
  for (; levels < Type::kMaxDepth; ++levels) {
    Result<TypeRef> next = Type::tuple({pair, pair});
    if (!next.is_ok()) break;
    pair = next.value();
  }
  EXPECT_EQ(levels, 13u);  // 2^14 - 1 parts
  EXPECT_LE(pair->print().size(), 200'000u);
  EXPECT_TRUE(pair->equals(*type(pair->print().c_str())));
}

TEST(Type, LongNamesCount) {
  const std::string name = "a." + std::string(100'000, 'b');
  const TypeRef once = must(Type::class_type(name));
  EXPECT_EQ(once->print(), name);
  EXPECT_TRUE(Type::tuple({once, once}).is_ok());
  EXPECT_FALSE(Type::tuple({once, once, once}).is_ok());
  EXPECT_FALSE(Type::class_type("a." + std::string(1'000'000, 'b')).is_ok());
}

TEST(Type, UnionsOfThousandsAreRefusedAtOnce) {
  std::string text = "Union[int";
  for (int i = 0; i < 100'000; ++i) text += ", a.c" + std::to_string(i);
  EXPECT_FALSE(Type::parse(text + "]").is_ok());
  std::string bars = "int";
  for (int i = 0; i < 100'000; ++i) bars += "|int";
  EXPECT_FALSE(Type::parse(bars).is_ok());
}

TEST(Type, QualifiedNames) {
  for (const char* name : {"a", "_", "__torch__.A", "a1.b2", "a.b.c", "\xc3\xa4.b"})
    EXPECT_TRUE(is_qualified_name(name)) << name;
  for (const char* name : {"", ".", "a.", ".a", "a..b", "1a", "a.1", "a b", "a-b", "a\n", "a[b]"}) {
    EXPECT_FALSE(is_qualified_name(name)) << name;
    EXPECT_FALSE(Type::class_type(name).is_ok()) << name;
  }
}

}  // namespace
}  // namespace tenon::value
