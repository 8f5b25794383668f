#include "package_externs.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace tenon::cli {
namespace {

using module::PackageArchive;

// Whether a Python module is extern, either itself or through its parent.
bool is_extern(const PackageArchive& package, std::string_view module) {
  const std::vector<std::string>& externs = package.externs();
  return std::any_of(externs.begin(), externs.end(), [module](const std::string& name) {
    return module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
  });
}

// Gives "a.b" for "a/b/c.pkl".
std::string python_module_of(std::string_view record) {
  std::string name(record.substr(0, std::min(record.rfind('/'), record.size())));
  if (name.size() == record.size()) return {};
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

Status wrong(const std::string& record, const std::string& what) {
  return Status(Code::kCorrupt, "record " + record + " " + what).with("record", record);
}

}  // namespace

std::vector<Status> check_extern_modules(const PackageArchive& package) {
  std::vector<Status> found;
  for (const archive::ZipRecord& record : package.reader().records()) {
    const std::string name(record.name);
    if (name.starts_with(module::kPackageData) || !is_extern(package, python_module_of(name)))
      continue;
    found.push_back(wrong(name,
                          "lies in a Python module that is extern, and PyTorch opens no such "
                          "package. Save the package without "
                          "that extern module"));
  }
  const auto entries = package.entries();
  const bool has_resource = std::any_of(entries.begin(), entries.end(),
                                        [](const auto& entry) { return !entry.resource.empty(); });
  if (has_resource && !is_extern(package, module::kUnpackModule)) {
    found.push_back(
        wrong(std::string(module::kPackageExterns),
              "lacks " + std::string(module::kUnpackModule) +
                  ", without which PyTorch loads no script module of the package. Write "
                  "the package again with tenon export --package"));
  }
  return found;
}

}  // namespace tenon::cli
