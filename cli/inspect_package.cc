// `tenon inspect` of a package of torch.package.
#include <string>
#include <utility>
#include <vector>

#include "archive_print.h"
#include "commands.h"
#include "inspect.h"
#include "output.h"
#include "package_facts.h"

namespace tenon::cli {
namespace {

std::string externs_text(const PackageFacts& facts) {
  std::string text;
  for (const std::string& name : facts.package->externs())
    text += (text.empty() ? "" : ", ") + safe_text(name);
  return text.empty() ? "none" : text;
}

void print_package_head(const std::string& path, const PackageFacts& facts) {
  print_text(safe_text(path) + ": package \"" + safe_text(facts.container->prefix()) + "\", " +
             plural_text(facts.container->records().size(), "record", "records") + ", " +
             plural_text(facts.modules.size(), "script module", "script modules") + ", " +
             size_text(facts.container->source()->nbytes()) + "\n");
  const std::string version = format("operators of version %d", facts.package->version());
  print_text(version + (facts.modules.empty() ? "" : ", " + runs_with_text(facts.oldest_pytorch)) +
             "\n");
  print_text("extern modules of Python: ");
  print_wrapped(externs_text(facts), 4);
}

void print_modules(const PackageFacts& facts) {
  if (facts.modules.empty()) return;
  print_title("script modules");
  Table table({{"NAME"}, {"ID"}, {"CLASS"}, {"MODULES", true}, {"TENSORS", true}, {"BYTES", true}});
  for (const PackagedModule& each : facts.modules) {
    const bool is_read = !each.class_name.empty();
    table.add({{safe_text(each.name())},
               {safe_text(each.id)},
               is_read ? Table::Cell{safe_text(each.class_name)}
                       : Table::Cell{"cannot be read", Colour::kRed},
               {is_read ? std::to_string(each.modules) : ""},
               {is_read ? std::to_string(each.tensors) : ""},
               {is_read ? std::to_string(each.nbytes) : ""}});
  }
  table.print();
  print_text(plural_text(facts.storages, "storage", "storages") + ", " +
             size_text(facts.storage_nbytes) + ", " + count_text(facts.shared_storages) +
             " of them shared by several modules\n");
}

Json modules_json(const PackageFacts& facts) {
  Json modules = Json::array();
  for (const PackagedModule& each : facts.modules) {
    modules.push_back({{"name", each.name()},
                       {"id", each.id},
                       {"resource", text_json(each.resource)},
                       {"class", text_json(each.class_name)},
                       {"modules", each.modules},
                       {"tensors", each.tensors},
                       {"nbytes", each.nbytes},
                       {"oldest_pytorch", text_json(each.oldest_pytorch)},
                       {"error", error_json(each.wrong)}});
  }
  return modules;
}

Json package_json(const std::string& path, const PackageFacts& facts) {
  return {{"kind", "package"},
          {"path", path},
          {"name", std::string(facts.container->prefix())},
          {"nbytes", facts.container->source()->nbytes()},
          {"records", records_json(*facts.container)},
          {"warnings", facts.warnings},
          {"error", error_json(facts.wrong())},
          {"version", facts.package->version()},
          {"oldest_pytorch", text_json(facts.oldest_pytorch)},
          {"externs", facts.package->externs()},
          {"modules", modules_json(facts)},
          {"storages", facts.storages},
          {"storage_nbytes", facts.storage_nbytes},
          {"shared_storages", facts.shared_storages},
          {"code", code_json(facts.code)}};
}

int show_package(const std::string& path, const PackageFacts& facts,
                 const InspectOptions& options) {
  const int code = facts.wrong().is_ok() ? kExitOk : kExitProblem;
  if (options.json) {
    print_json(package_json(path, facts));
    return code;
  }
  print_package_head(path, facts);
  print_warnings(facts.warnings);
  print_modules(facts);
  print_code(facts.code, options.code);
  print_records(*facts.container, "records");
  for (const PackagedModule& each : facts.modules) {
    if (!each.wrong.is_ok()) print_error(each.wrong);
  }
  return code;
}

}  // namespace

int inspect_package(const ArchiveInput& input, const InspectOptions& options) {
  if (options.module.empty()) {
    Result<PackageFacts> facts = gather_package(input, archive::Check::kStructure);
    if (facts.is_ok()) return show_package(input.shown, facts.value(), options);
    print_error(facts.status());
    return kExitProblem;
  }
  Result<ArchiveFacts> facts = gather_packaged_module(input, options.module);
  if (facts.is_ok()) return show_archive(input.shown, facts.value(), options);
  print_error(facts.status());
  return kExitProblem;
}

}  // namespace tenon::cli
