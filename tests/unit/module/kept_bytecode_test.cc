// These tests export the bytecode of imported archives again (tests/peers/golden/lite, by PyTorch).
// The bytes stay the same as long as the bytecode fits the module.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "module_kit.h"
#include "modules/module/kept_bytecode.h"

namespace tenon::module {
namespace {

std::vector<std::byte> lite_archive(const std::string& name) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  const auto path =
      std::filesystem::path(source == nullptr ? "." : source) / "tests/peers/golden/lite" / name;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path << " (TENON_SOURCE_DIR says where the sources are)";
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* const first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

struct Exported {
  std::map<std::string, std::string> records;
  ExportReport report;
};

Exported export_of(const Module& module, const ExportOptions& options = {}) {
  Exported done;
  done.records = records_of(exported(module, options, &done.report));
  return done;
}

Ref<Module> import_lite(const std::vector<std::byte>& bytes, bool debug_tables = false) {
  ImportOptions options;
  options.debug_tables = debug_tables;
  return must(import_module(bytes, nullptr, nullptr, options));
}

TEST(KeptBytecode, comes_back_byte_for_byte) {
  for (const char* const name :
       {"mlp-1.13.1.ptl", "mlp-2.15.ptl", "constant-1.13.1.ptl", "constant-2.15.ptl"}) {
    SCOPED_TRACE(name);
    const std::vector<std::byte> bytes = lite_archive(name);
    const std::map<std::string, std::string> old = records_of(bytes);
    const Ref<Module> module = import_lite(bytes);
    ASSERT_NE(module->package().bytecode(), nullptr);
    EXPECT_EQ(module->package().bytecode()->facts().version, 8);
    EXPECT_EQ(must(module->package().bytecode()->program()).functions.size(), 1U);
    const std::vector<std::string>& dropped = module->package().report.dropped;
    EXPECT_EQ(std::count(dropped.begin(), dropped.end(), "bytecode.pkl"), 0);
    Exported done = export_of(*module);
    EXPECT_TRUE(done.report.has_bytecode) << done.report.why_no_bytecode;
    for (const auto& [record, content] : old) {
      const bool is_kept = record == "bytecode.pkl" || record.starts_with("constants/");
      if (is_kept) EXPECT_EQ(done.records[record], content) << record;
    }
    EXPECT_EQ(done.report.debug_tables, 0U);
    ExportOptions dropping;
    dropping.bytecode = Bytecode::kDrop;
    done = export_of(*module, dropping);
    EXPECT_FALSE(done.report.has_bytecode);
    EXPECT_EQ(done.records.count("bytecode.pkl"), 0U);
  }
}

TEST(KeptBytecode, new_values_leave_it_and_new_code_drops_it) {
  const std::vector<std::byte> bytes = lite_archive("constant-2.15.ptl");
  const Ref<Module> module = import_lite(bytes);
  ok(module->set("w", floats({1, 2, 3})));
  EXPECT_TRUE(export_of(*module).report.has_bytecode);
  ok(module->define("def one_more(self) -> int:\n  return 1\n"));
  const Exported done = export_of(*module);
  EXPECT_FALSE(done.report.has_bytecode);
  EXPECT_NE(done.report.why_no_bytecode.find("was changed"), std::string::npos)
      << done.report.why_no_bytecode;
  EXPECT_EQ(done.records.count("bytecode.pkl"), 0U);
}

TEST(KeptBytecode, debug_tables_are_carried_on_request) {
  const std::vector<std::byte> bytes = lite_archive("mlp-2.15.ptl");
  std::map<std::string, std::string> old = records_of(bytes);
  ExportOptions options;
  options.debug_tables = true;
  EXPECT_EQ(export_of(*import_lite(bytes), options).report.debug_tables, 0U);
  const Ref<Module> module = import_lite(bytes, true);
  EXPECT_EQ(export_of(*module).report.debug_tables, 0U);
  Exported done = export_of(*module, options);
  EXPECT_EQ(done.report.debug_tables, 6U);
  for (const ExtraFile& table : module->package().debug_tables)
    EXPECT_EQ(done.records[table.name], old[table.name]) << table.name;
}

// Imports the archive with another record bytecode.pkl.
Result<Ref<Module>> imported_with(const std::string& bytecode) {
  const std::vector<std::byte> bytes = lite_archive("mlp-2.15.ptl");
  std::vector<std::pair<std::string, std::string>> records;
  for (const auto& [record, content] : records_of(bytes))
    records.emplace_back(record, record == "bytecode.pkl" ? bytecode : content);
  static std::vector<std::vector<std::byte>> kept;  // the module has views of these bytes
  kept.push_back(archive_of(records));
  return import_module(kept.back(), nullptr, nullptr, {});
}

TEST(KeptBytecode, bad_bytecode_leaves_the_module_good) {
  for (const char* const bad :
       {"", "no pickle", "\x80\x02N.", "\x80\x02K\x08\x85.", "\x80\x02K\x03\x85."}) {
    SCOPED_TRACE(bad);
    const Ref<Module> module = must(imported_with(bad));
    const Package& package = module->package();
    EXPECT_EQ(package.bytecode(), nullptr);
    EXPECT_FALSE(package.why_no_bytecode().is_ok());
    const std::vector<std::string> warnings = package.import_warnings();
    ASSERT_FALSE(warnings.empty());
    EXPECT_TRUE(warnings.back().starts_with("bytecode is not kept: bytecode.pkl"))
        << warnings.back();
    EXPECT_EQ(package.report.dropped.back(), "bytecode.pkl");
    const Exported done = export_of(*module);
    EXPECT_FALSE(done.report.has_bytecode);
    EXPECT_EQ(done.report.why_no_bytecode, package.why_no_bytecode().message());
  }
}

}  // namespace
}  // namespace tenon::module
