// These tests check the embedded table of operators. Many threads may inflate it at once, and it is
// looked up by name. They also match calls with an overload's arguments.
#include "modules/script/schema_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "modules/script/arguments.h"

namespace tenon::script {
namespace {

size_t count(Overloads overloads) {
  size_t n = 0;
  for (Overload overload; overloads.next(&overload);) ++n;
  return n;
}

TEST(SchemaTable, FromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<const SchemaTable*> tables(8);
  for (const SchemaTable*& table : tables)
    threads.emplace_back([&table] { table = &SchemaTable::get(); });
  for (std::thread& thread : threads) thread.join();
  for (const SchemaTable* table : tables) EXPECT_EQ(table, &SchemaTable::get());
}

TEST(SchemaTable, Lookup) {
  const SchemaTable& table = SchemaTable::get();
  ASSERT_GE(table.versions().size(), 2U);
  EXPECT_EQ(table.versions().front(), "1.4");
  EXPECT_GT(count(table.find("aten::add")), 4U);
  EXPECT_TRUE(table.find("aten::reluu").empty());
  EXPECT_TRUE(table.find("aten::").empty());
  EXPECT_TRUE(table.find("").empty());
  EXPECT_TRUE(table.find(".quantized.LinearPackedParamsBase").empty());
  EXPECT_TRUE(table.knows_namespace("aten"));
  EXPECT_TRUE(table.knows_namespace("prim"));
  EXPECT_FALSE(table.knows_namespace("ate"));
  EXPECT_FALSE(table.knows_namespace("torchvision"));
  EXPECT_EQ(table.nearest("aten::conv2"), "conv2d");
  EXPECT_EQ(table.nearest("aten::nothing_like_that_at_all"), "");
}

TEST(SchemaTable, EveryLineCanBeRead) {
  const SchemaTable& table = SchemaTable::get();
  Overloads overloads = table.find("aten::gelu");
  bool old_form = false;
  for (Overload overload; overloads.next(&overload);) {
    EXPECT_LE(overload.versions.first, overload.versions.last);
    EXPECT_LT(overload.versions.last, table.versions().size());
    const Formals formals = Formals::parse(overload.arguments);
    old_form = old_form ||
               (formals.list.size() == 1 && overload.versions.last < table.all_versions().last);
  }
  EXPECT_TRUE(old_form);
}

TEST(SchemaTable, CustomClasses) {
  const SchemaTable& table = SchemaTable::get();
  EXPECT_FALSE(
      table.find_class("__torch__.torch.classes.quantized.LinearPackedParamsBase").empty());
  EXPECT_TRUE(table.find_class("__torch__.torch.classes.mine.Params").empty());
  EXPECT_TRUE(table.find_class("__torch__.M").empty());
  EXPECT_TRUE(table.any_class_has("unpack"));
  EXPECT_FALSE(table.any_class_has("unpak"));
}

bool takes(const char* formals, size_t positional, std::vector<std::string_view> keywords,
           bool has_self = false, bool open = false) {
  Formals parsed = Formals::parse(formals);
  parsed.is_aten = true;
  return accepts(parsed, {has_self, positional, open, std::move(keywords)});
}

TEST(Arguments, NumberAndKeywords) {
  EXPECT_TRUE(takes("", 0, {}));
  EXPECT_FALSE(takes("", 1, {}));
  EXPECT_TRUE(takes("self,other,*,alpha=", 2, {}));
  EXPECT_TRUE(takes("self,other,*,alpha=", 1, {"alpha", "other"}));
  EXPECT_TRUE(takes("self,other,*,alpha=", 0, {"input", "other"}));
  EXPECT_FALSE(takes("self,other,*,alpha=", 3, {}));
  EXPECT_FALSE(takes("self,other,*,alpha=", 2, {"other"}));
  EXPECT_FALSE(takes("self,other,*,alpha=", 2, {"alpha", "alpha"}));
  EXPECT_FALSE(takes("self,other,*,alpha", 2, {}));
  EXPECT_TRUE(takes("self,...", 5, {}));
  EXPECT_FALSE(takes("self,...", 5, {"x"}));
}

TEST(Arguments, OfALineWithTypes) {
  EXPECT_TRUE(takes("Tensor self,Tensor other,*,Scalar alpha=1>Tensor", 2, {"alpha"}));
  EXPECT_FALSE(takes("Tensor self,Tensor other,*,Scalar alpha=1>Tensor", 3, {}));
  EXPECT_TRUE(takes("int[] size,*,ScalarType? dtype=None>Tensor", 4, {"dtype"}));
  EXPECT_FALSE(takes("int[2] size,*,ScalarType? dtype=None>Tensor", 4, {}));
  EXPECT_FALSE(takes("int[]? size>Tensor", 2, {}));
  EXPECT_FALSE(takes("t[](a!) list>", 2, {}));
  EXPECT_TRUE(takes("Tensor(a!)[] list>", 2, {}));
  EXPECT_TRUE(takes("(str,tVal)[] inputs>Dict(str,tVal)", 3, {}));
  EXPECT_TRUE(takes("str self,str chars=\" \\n>,\\\"\">str", 1, {"chars"}));
  EXPECT_TRUE(takes("Dict(str,t)(a!) self,str(b->*) key,t(c->*) default_value>t(*)", 3, {}));
  EXPECT_TRUE(takes("...>...", 3, {}));
}

TEST(Arguments, ReceiverListsAndStars) {
  EXPECT_TRUE(takes("self,other", 1, {}, true));
  EXPECT_FALSE(takes("input,other", 1, {}, true));
  EXPECT_TRUE(takes("cond,self,other", 2, {}, true));
  EXPECT_TRUE(takes("size[,*,dtype=", 4, {"dtype"}));
  EXPECT_FALSE(takes("size[,fill,*,dtype=", 4, {}));
  EXPECT_TRUE(takes("self,other,third", 1, {}, false, true));
  EXPECT_FALSE(takes("self,other,*,third", 1, {}, false, true));
}

}  // namespace
}  // namespace tenon::script
