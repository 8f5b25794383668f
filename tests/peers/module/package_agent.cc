// The agent of package_test.py, which works on packages. A line of stdin is a task, with tabs
// between its words:
//
//   add <in> <out> <number>       adds the number to every float parameter of every module
//   pick <in> <out> <name>...     writes a package of some of the modules, each under its name
//
// The agent ends every task with a line "ok", or "error <code> <message>".
#include <iostream>
#include <string>
#include <vector>

#include "agent_kit.h"
#include "modules/module/export_package.h"

namespace {

using namespace tenon;
using namespace tenon::module;

using Words = std::vector<std::string>;

Status save(const std::vector<PackageEntry>& entries, const std::string& path,
            const PackageOptions& options = {}) {
  ExportReport report;
  TENON_TRY(export_package(entries, path, archive::Durability::kNone, options, &report));
  std::cout << "version " << report.version << " records " << report.records << "\n";
  return Status::ok();
}

Status run(const Words& words) {
  if (words.size() < 3) return Status(Code::kInvalidArgument, "a task has three words or more");
  PackageOptions options;
  std::vector<PackageEntry> entries;
  TENON_ASSIGN(options.base, PackageArchive::open(words[1], {}));
  if (words[0] == "add" && words.size() == 4) {
    for (const PackageArchive::Entry& entry : options.base->entries()) {
      TENON_ASSIGN(const Ref<Module> module, options.base->module(entry.id));
      TENON_TRY(add_to_parameters(*module, std::stof(words[3])));
    }
  } else if (words[0] == "pick") {
    for (size_t i = 3; i < words.size(); ++i) {
      TENON_ASSIGN(Ref<Module> module, options.base->module(words[i]));
      entries.push_back({words[i], std::move(module), {}});
    }
    options.base = nullptr;
  } else {
    return Status(Code::kInvalidArgument, "no such task: " + words[0]);
  }
  return save(entries, words[2], options);
}

}  // namespace

int main() { return tenon::test::run_tasks(run); }
