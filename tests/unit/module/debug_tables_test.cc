// These tests check the debug tables that an export makes for new bytecode. PyTorch wrote the
// archives (tests/peers/golden/lite).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "module_kit.h"

namespace tenon::module::debug_tables_test {
namespace {

constexpr const char* kHandles = "mobile_debug_handles.pkl";
constexpr const char* kCalls = "callstack_debug_map.pkl";
constexpr const char* kTable = "code/__torch__/torch/nn/modules/linear.py.debug_pkl";

std::map<std::string, std::string> golden_records() {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  const auto path = std::filesystem::path(source == nullptr ? "." : source) /
                    "tests/peers/golden/lite/mlp-2.15.ptl";
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path << " (TENON_SOURCE_DIR says where the sources are)";
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return records_of({first, first + text.size()});
}

Ref<Module> import_of(const std::map<std::string, std::string>& records, bool debug_tables) {
  static std::vector<std::vector<std::byte>> kept;  // the modules have views of these bytes
  kept.push_back(archive_of({records.begin(), records.end()}));
  ImportOptions options;
  options.debug_tables = debug_tables;
  return must(import_module(kept.back(), nullptr, nullptr, options));
}

struct Made {
  std::map<std::string, std::string> records;
  ExportReport report;
};

Made compiled(const Module& module, bool debug_tables = true) {
  ExportOptions options;
  options.bytecode = Bytecode::kCompile;
  options.debug_tables = debug_tables;
  Made made;
  made.records = records_of(exported(module, options, &made.report));
  EXPECT_EQ(made.report.why_no_debug_tables, "");
  return made;
}

size_t tables_in(const std::map<std::string, std::string>& records) {
  size_t count = 0;
  for (const auto& [name, content] : records)
    count += name.find("debug_") != std::string::npos ? 1 : 0;
  return count;
}

TEST(DebugTables, new_ones_name_the_archives_code) {
  const Made made = compiled(*import_of(golden_records(), false));
  EXPECT_EQ(made.report.debug_tables, tables_in(made.records));
  ASSERT_TRUE(made.records.contains(kHandles) && made.records.contains(kCalls) &&
              made.records.contains(kTable));
  EXPECT_NE(made.records.at(kCalls).find("aten::linear"), std::string::npos);
  EXPECT_NE(made.records.at(kTable).find("code/__torch__/torch/nn/modules/linear.py"),
            std::string::npos);
  for (const auto& [name, content] : made.records) {
    if (name.find("debug_") == std::string::npos) continue;
    EXPECT_EQ(content.find("site-packages"), std::string::npos) << name;
    EXPECT_EQ(content.find(".py\", "), std::string::npos) << name;
  }
}

TEST(DebugTables, are_not_there_unasked) {
  const Made made = compiled(*import_of(golden_records(), true), false);
  EXPECT_EQ(made.report.debug_tables, 0U);
  EXPECT_EQ(tables_in(made.records), 0U);
}

TEST(DebugTables, those_of_unchanged_code_are_carried) {
  const std::map<std::string, std::string> old = golden_records();
  const Made made = compiled(*import_of(old, true));
  EXPECT_EQ(made.report.debug_tables, tables_in(made.records));
  size_t carried = 0;
  for (const auto& [name, content] : old) {
    if (!name.starts_with("code/") || !name.ends_with(".debug_pkl")) continue;
    ++carried;
    EXPECT_EQ(made.records.at(name), content) << name;
  }
  EXPECT_GT(carried, 1U);
  EXPECT_EQ(made.records.count("delegated_backends.debug_pkl"), 0U);  // of the old bytecode
}

TEST(DebugTables, a_bad_one_is_made_anew) {
  std::map<std::string, std::string> old = golden_records();
  const Made good = compiled(*import_of(old, true));
  old.at(kTable) = "no pickle";
  const Made made = compiled(*import_of(old, true));
  EXPECT_EQ(made.report.debug_tables, good.report.debug_tables);
  EXPECT_NE(made.records.at(kTable), old.at(kTable));
  EXPECT_NE(made.records.at(kTable).find("code/__torch__/torch/nn/modules/linear.py"),
            std::string::npos);
  EXPECT_EQ(made.records.at("code/__torch__.py.debug_pkl"), old.at("code/__torch__.py.debug_pkl"));
}

TEST(DebugTables, changed_code_has_new_ones) {
  const std::map<std::string, std::string> old = golden_records();
  const Ref<Module> module = import_of(old, true);
  ok(module->define("def more(self, x: Tensor) -> Tensor:\n  return torch.neg(self.forward(x))\n"));
  const Made made = compiled(*module);
  EXPECT_EQ(made.report.bytecode_functions, 2U);
  EXPECT_EQ(made.report.debug_tables, tables_in(made.records));
  EXPECT_NE(made.records.at(kCalls).find("aten::neg"), std::string::npos);
  EXPECT_NE(made.records.at(kTable), old.at(kTable));
}

TEST(DebugTables, a_module_that_was_built_has_them_too) {
  const Ref<Module> module = must(Module::create("M"));
  ok(module->define("def forward(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n"));
  const Made made = compiled(*module);
  EXPECT_EQ(made.report.debug_tables, 3U);
  EXPECT_TRUE(made.records.contains("code/__torch__.py.debug_pkl"));
}

}  // namespace
}  // namespace tenon::module::debug_tables_test
