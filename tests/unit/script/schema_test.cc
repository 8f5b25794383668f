// These tests check the types in the table of operators. Every line with types can be read, some
// schemas equal those of PyTorch, and each PyTorch has its own order of overloads.
#include "modules/script/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "modules/script/schema_parse.h"
#include "modules/script/schema_show.h"
#include "modules/script/schema_table.h"

namespace tenon::script {
namespace {

using value::TypeKind;
using value::ValueKind;

std::vector<std::string> overloads_of(const char* name, Torch torch) {
  std::vector<std::string> found;
  for (const Schema* schema : SchemaTable::get().schemas(name, torch))
    found.push_back(schema->overload);
  return found;
}

// Prints a schema as the other program of tests/peers/script/schema_test.py does.
std::string text_of(const char* name, const char* overload, Torch torch = Torch::kNewest) {
  for (const Schema* schema : SchemaTable::get().schemas(name, torch)) {
    if (schema->overload == overload) return show(*schema);
  }
  return "none";
}

TEST(Schema, EveryLineWithTypesCanBeRead) {
  const SchemaTable& table = SchemaTable::get();
  size_t lines = 0;
  size_t others = 0;
  for (const std::string_view name : table.operators()) {
    Overloads overloads = table.find(name);
    for (Overload overload; overloads.next(&overload);) {
      const bool has_types = overload.arguments.find('>') != std::string_view::npos;
      Schema schema;
      EXPECT_EQ(parse_schema(name, overload.name, overload.arguments, &schema), has_types)
          << name << " " << overload.arguments;
      EXPECT_EQ(schema.arguments.size(),
                has_types ? Formals::parse(overload.arguments).list.size() : 0)
          << name;
      lines += has_types ? 1 : 0;
      for (const SchemaArgument& argument : schema.arguments) {
        if (argument.type.kind != SchemaType::Kind::kOther) continue;
        EXPECT_EQ(argument.type.name, "Storage") << name;
        ++others;
      }
    }
  }
  EXPECT_GT(lines, 4000U);
  EXPECT_LT(others, 20U);
}

TEST(Schema, EveryVersionThatIsAnEndHasTypes) {
  const SchemaTable& table = SchemaTable::get();
  const auto& versions = table.versions();
  const auto oldest =
      static_cast<uint8_t>(std::find(versions.begin(), versions.end(), "1.13") - versions.begin());
  ASSERT_LT(oldest, versions.size());
  for (const std::string_view name : table.operators()) {
    size_t old_count = 0;
    size_t new_count = 0;
    Overloads overloads = table.find(name);
    for (Overload overload; overloads.next(&overload);) {
      old_count += overload.versions.first <= oldest && oldest <= overload.versions.last ? 1 : 0;
      new_count += overload.versions.last == table.all_versions().last ? 1 : 0;
    }
    EXPECT_EQ(table.schemas(name, Torch::kOldest).size(), old_count) << name;
    EXPECT_EQ(table.schemas(name, Torch::kNewest).size(), new_count) << name;
  }
}

TEST(Schema, NothingOfWhatIsNotThere) {
  const SchemaTable& table = SchemaTable::get();
  EXPECT_TRUE(table.schemas("aten::reluu", Torch::kNewest).empty());
  EXPECT_TRUE(table.schemas("", Torch::kNewest).empty());
  EXPECT_TRUE(table.schemas(".quantized.LinearPackedParamsBase", Torch::kNewest).empty());
}

TEST(Schema, TheOrderIsTheOneInWhichPyTorchTriesThem) {
  const std::vector<std::string> add = overloads_of("aten::add", Torch::kNewest);
  ASSERT_GE(add.size(), 8U);
  EXPECT_EQ(add[0], "Tensor");
  EXPECT_EQ(add[1], "Scalar");
  EXPECT_EQ(add[2], "out");
  EXPECT_EQ(add[3], "Scalar_out");
  EXPECT_EQ(add[4], "t");
  EXPECT_EQ(add[5], "str");
  size_t differ = 0;
  for (const std::string_view name : SchemaTable::get().operators()) {
    std::vector<std::string> old_order;
    std::vector<std::string> new_order;
    for (const Schema* schema : SchemaTable::get().schemas(name, Torch::kOldest))
      old_order.push_back(schema->overload);
    for (const Schema* schema : SchemaTable::get().schemas(name, Torch::kNewest))
      new_order.push_back(schema->overload);
    std::erase_if(old_order, [&](const std::string& one) {
      return std::find(new_order.begin(), new_order.end(), one) == new_order.end();
    });
    std::erase_if(new_order, [&](const std::string& one) {
      return std::find(old_order.begin(), old_order.end(), one) == old_order.end();
    });
    differ += old_order != new_order ? 1 : 0;
  }
  EXPECT_GT(differ, 50U);
}

TEST(Schema, ByContent) {
  EXPECT_EQ(text_of("aten::add", "Tensor"),
            "aten::add.Tensor(Tensor self, Tensor other, *, number alpha=1) -> (Tensor)");
  EXPECT_EQ(text_of("aten::relu", ""), "aten::relu(Tensor self) -> (Tensor)");
  EXPECT_EQ(text_of("aten::add", "out"),
            "aten::add.out(Tensor self, Tensor other, *, number alpha=1, Tensor out!) -> (Tensor)");
  EXPECT_EQ(text_of("aten::relu_", ""), "aten::relu_(Tensor self!) -> (Tensor)");
  EXPECT_EQ(text_of("aten::max_pool2d", ""),
            "aten::max_pool2d(Tensor self, List[int]:2 kernel_size, List[int]:2 stride=[], "
            "List[int]:2 padding=[0, 0], List[int]:2 "
            "dilation=[1, 1], bool ceil_mode=False) -> (Tensor)");
  EXPECT_EQ(text_of("aten::gelu", ""),
            "aten::gelu(Tensor self, *, str approximate=\"none\") -> (Tensor)");
  EXPECT_EQ(text_of("aten::layer_norm", ""),
            "aten::layer_norm(Tensor input, List[int] normalized_shape, Optional[Tensor] "
            "weight=None, Optional[Tensor] bias=None, float "
            "eps=1e-05, bool cudnn_enable=True) -> (Tensor)");
  EXPECT_EQ(text_of("aten::append", "t"), "aten::append.t(List[t] self!, t el) -> (List[t])");
  EXPECT_EQ(text_of("aten::popitem", "str"),
            "aten::popitem.str(Dict[str, t] self!) -> (Tuple[str, t])");
  EXPECT_EQ(text_of("aten::strip", ""), "aten::strip(str self, str chars=\" \n\t\f\v\") -> (str)");
  EXPECT_EQ(text_of("aten::dict", "str"),
            "aten::dict.str(List[Tuple[str, tVal]] inputs) -> (Dict[str, tVal])");
  EXPECT_EQ(text_of("aten::has_torch_function", ""), "aten::has_torch_function(...) -> (bool)");
  EXPECT_EQ(text_of("prim::profile", ""), "prim::profile(...) -> (...)");
  EXPECT_EQ(text_of("aten::index", "Tensor"),
            "aten::index.Tensor(Tensor self, List[Optional[Tensor]] indices) -> (Tensor)");
  EXPECT_EQ(text_of("prim::id", ""), "prim::id(Optional[AnyClassType] x) -> (int)");
  EXPECT_EQ(text_of("aten::mean", "dim", Torch::kOldest),
            "aten::mean.dim(Tensor self, Optional[List[int]]:1 dim, bool keepdim=False, *, "
            "Optional[int] dtype=None) -> (Tensor)");
  EXPECT_EQ(text_of("quantized::linear", ""),
            "quantized::linear(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase "
            "W_prepack, float Y_scale_i, int "
            "Y_zero_point_i) -> (Tensor)");
}

TEST(Schema, DefaultsAreValuesOfTheirType) {
  const Schema& pool = *SchemaTable::get().schemas("aten::max_pool2d", Torch::kNewest)[0];
  ASSERT_EQ(pool.arguments[3].default_value->kind(), ValueKind::kList);
  EXPECT_EQ(pool.arguments[3].default_value->items().size(), 2U);
  EXPECT_EQ(pool.arguments[3].default_value->declared_type()->print(), "List[int]");
  EXPECT_EQ(pool.arguments[2].default_value->items().size(), 0U);
  EXPECT_EQ(pool.arguments[5].default_value->kind(), ValueKind::kBool);
  EXPECT_FALSE(pool.arguments[0].default_value);
}

TEST(Schema, FromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<const Schema*> found(8);
  for (const Schema*& one : found)
    threads.emplace_back(
        [&one] { one = SchemaTable::get().schemas("aten::softmax", Torch::kNewest).front(); });
  for (std::thread& thread : threads) thread.join();
  for (const Schema* one : found) EXPECT_EQ(one, found.front());
}

}  // namespace
}  // namespace tenon::script
