// `tenon inspect` of a module archive, a flatbuffer and a file of torch.save, and of one module of
// a package.
#include <cinttypes>
#include <string>
#include <utility>

#include "archive_facts.h"
#include "archive_print.h"
#include "commands.h"
#include "inspect.h"
#include "module_input.h"
#include "modules/module/kept_bytecode.h"
#include "output.h"

namespace tenon::cli {
namespace {

std::string shown_path(const std::string& path) {
  return path.empty() ? "(root)" : safe_text(path);
}

void print_tree(const ArchiveFacts& facts) {
  print_title("modules");
  Table table({{"PATH"}, {"CLASS"}, {"SHARED"}});
  for (const ModuleFact& module : facts.modules) {
    table.add({{shown_path(module.path)},
               {safe_text(module.class_name)},
               {!module.is_shared        ? ""
                : module.same_as.empty() ? "yes"
                                         : "the same as " + shown_path(module.same_as)}});
  }
  table.print();
}

void print_tensors(const ArchiveFacts& facts) {
  if (facts.tensors.empty()) return;
  print_title("tensors");
  Table table({{"PATH"},
               {"KIND"},
               {"TYPE"},
               {"SIZES"},
               {"BYTES", true},
               {"STRIDES"},
               {"OFFSET", true},
               {"STORAGE", true},
               {"DETAILS"}});
  for (const TensorFact& tensor : facts.tensors) {
    const bool is_none = tensor.dtype.empty();
    const bool is_strided = tensor.storage != SIZE_MAX;
    table.add({{shown_path(tensor.path)},
               {tensor.kind},
               {is_none ? "None" : tensor.dtype},
               {is_none ? "" : numbers_text(tensor.sizes)},
               {is_none ? "" : std::to_string(tensor.nbytes)},
               {is_strided ? numbers_text(tensor.strides) : ""},
               {is_strided ? std::to_string(tensor.offset) : ""},
               {is_strided ? std::to_string(tensor.storage) : ""},
               {safe_text(tensor.details)}});
  }
  table.print();
  print_text(storages_text(facts.storages, "tensors") + "\n");
}

void print_members(const ArchiveFacts& facts) {
  if (!facts.members.empty()) {
    print_title("attributes and constants");
    Table table({{"PATH"}, {"KIND"}, {"TYPE"}, {"VALUE"}});
    for (const MemberFact& member : facts.members)
      table.add(
          {{safe_text(member.path)}, {member.kind}, {safe_text(member.type)}, {member.value}});
    table.print();
  }
  if (facts.methods.empty()) return;
  print_title("methods");
  for (const MethodFact& method : facts.methods)
    print_wrapped(safe_text(method.path) + ": " + safe_text(method.head), 4);
}

void print_others(const ArchiveFacts& facts) {
  if (facts.others.empty()) return;
  print_title("other values");
  for (const std::string& name : facts.others) print_text("    " + safe_text(name) + "\n");
  if (facts.n_others > facts.others.size()) {
    print_text("    and " + plural_text(facts.n_others - facts.others.size(), "more", "more") +
               "\n");
  }
}

void print_head(const std::string& path, const ArchiveFacts& facts) {
  const std::string name = "\"" + safe_text(facts.container->prefix()) + "\"";
  const std::string what = facts.is_flatbuffer         ? "flatbuffer"
                           : facts.module_name.empty() ? "archive " + name
                                                       : "module " + safe_text(facts.module_name) +
                                                             " of the package " + name;
  print_text(safe_text(path) + ": " + what + ", " + part_count_text(facts) + ", " +
             size_text(facts.container->source()->nbytes()) + "\n");
  if (facts.is_checkpoint) {
    if (!facts.why_not_taken.is_ok()) return;
    print_text("a file of torch.save: " + plural_text(facts.tensors.size(), "tensor", "tensors") +
               ", " + plural_text(facts.n_others, "other value", "other values") + "\n");
    return;
  }
  if (!facts.why_no_module.is_ok()) return;
  const module::ImportReport& report = facts.root->package().report;
  const std::string runs_with = !facts.why_not_taken.is_ok()
                                    ? "no PyTorch that is known takes its code"
                                    : runs_with_text(facts.oldest_pytorch);
  print_text(format("operators of version %d, %s\n", report.version, runs_with.c_str()));
  print_text(plural_text(report.mapped_tensors, "storage", "storages") + " can be mapped, " +
             std::to_string(report.filled_tensors) +
             format(" have to be copied (%" PRIu64 " compressed, %" PRIu64 " misaligned, %" PRIu64
                    " of the other byte order)\n",
                    report.compressed, report.misaligned, report.foreign_endian));
  if (const module::KeptBytecode* const bytecode = facts.root->package().bytecode()) {
    const module::BytecodeFacts& found = bytecode->facts();
    print_text(format("bytecode of version %lld: ", static_cast<long long>(found.version)) +
               plural_text(found.functions.size(), "function", "functions") + ", " +
               plural_text(found.instructions, "instruction", "instructions") + ", " +
               plural_text(found.operators.size(), "operator", "operators") + "\n");
  }
}

Json sizes_json(const std::vector<int64_t>& numbers) { return Json(numbers); }

const Status& wrong_of(const ArchiveFacts& facts) {
  return facts.why_no_module.is_ok() ? facts.why_not_taken : facts.why_no_module;
}

Json container_json(const std::string& path, const ArchiveFacts& facts) {
  Json json = {{"kind", !facts.module_name.empty() ? "module"
                        : facts.is_checkpoint      ? "checkpoint"
                        : facts.is_flatbuffer      ? "flatbuffer"
                                                   : "archive"},
               {"path", path},
               {"name", std::string(facts.container->prefix())}};
  if (!facts.module_name.empty()) json["module"] = facts.module_name;
  json["nbytes"] = facts.container->source()->nbytes();
  if (facts.module_name.empty()) json["records"] = records_json(*facts.container);
  json["warnings"] = facts.warnings;
  json["error"] = error_json(wrong_of(facts));
  return json;
}

void add_tensors_json(const ArchiveFacts& facts, Json* json) {
  Json tensors = Json::array();
  for (const TensorFact& tensor : facts.tensors) {
    const bool is_strided = tensor.storage != SIZE_MAX;
    tensors.push_back({{"path", tensor.path},
                       {"kind", tensor.kind},
                       {"dtype", text_json(tensor.dtype)},
                       {"sizes", sizes_json(tensor.sizes)},
                       {"nbytes", tensor.nbytes},
                       {"strides", is_strided ? sizes_json(tensor.strides) : Json(nullptr)},
                       {"offset", tensor.offset},
                       {"storage", is_strided ? Json(tensor.storage) : Json(nullptr)},
                       {"details", tensor.details}});
  }
  (*json)["tensors"] = std::move(tensors);
  (*json)["storages"] = storages_json(facts.storages);
}

// Gives null if the archive has no bytecode, or none that can be run. A warning tells of the
// latter.
Json bytecode_json(const module::KeptBytecode* bytecode) {
  if (bytecode == nullptr) return nullptr;
  const module::BytecodeFacts& facts = bytecode->facts();
  return {{"version", facts.version},
          {"functions", facts.functions},
          {"instructions", facts.instructions},
          {"operators", facts.operators}};
}

void add_module_json(const ArchiveFacts& facts, Json* json) {
  const module::ImportReport& report = facts.root->package().report;
  (*json)["version"] = report.version;
  (*json)["oldest_pytorch"] = text_json(facts.oldest_pytorch);
  (*json)["mapped_storages"] = report.mapped_tensors;
  (*json)["filled_storages"] = report.filled_tensors;
  (*json)["bytecode"] = bytecode_json(facts.root->package().bytecode());
  Json modules = Json::array();
  for (const ModuleFact& module : facts.modules) {
    modules.push_back(
        {{"path", module.path},
         {"class", module.class_name},
         {"same_as",
          module.is_shared && !module.same_as.empty() ? Json(module.same_as) : Json(nullptr)}});
  }
  (*json)["modules"] = std::move(modules);
  add_tensors_json(facts, json);
  Json members = Json::array();
  for (const MemberFact& member : facts.members)
    members.push_back({{"path", member.path},
                       {"kind", member.kind},
                       {"type", member.type},
                       {"value", member.value}});
  (*json)["members"] = std::move(members);
  Json methods = Json::array();
  for (const MethodFact& method : facts.methods)
    methods.push_back({{"path", method.path}, {"head", method.head}});
  (*json)["methods"] = std::move(methods);
  (*json)["code"] = code_json(facts.code);
}

}  // namespace

int show_archive(const std::string& path, const ArchiveFacts& facts,
                 const InspectOptions& options) {
  const bool is_module = !facts.is_checkpoint && facts.why_no_module.is_ok();
  const Status& wrong = wrong_of(facts);
  if (options.json) {
    Json all = container_json(path, facts);
    if (is_module) add_module_json(facts, &all);
    if (facts.is_checkpoint) {
      add_tensors_json(facts, &all);
      all["others"] = facts.others;
      all["other_count"] = facts.n_others;
    }
    print_json(all);
    return wrong.is_ok() ? kExitOk : kExitProblem;
  }
  print_head(path, facts);
  print_warnings(facts.warnings);
  if (is_module) {
    print_tree(facts);
    print_tensors(facts);
    print_members(facts);
    print_code(facts.code, options.code);
  }
  if (facts.is_checkpoint) {
    print_tensors(facts);
    print_others(facts);
  }
  // The records of a package do not belong to this module alone.
  if (facts.module_name.empty())
    print_records(*facts.container, facts.is_flatbuffer ? "storages in the file" : "records");
  if (wrong.is_ok()) return kExitOk;
  print_error(wrong);
  return kExitProblem;
}

int inspect_archive(const ArchiveInput& input, const InspectOptions& options) {
  const ContainerKind kind = container_kind(input);
  if (kind == ContainerKind::kPackage) return inspect_package(input, options);
  if (kind == ContainerKind::kWeights) return inspect_weights(input, options);
  Result<ArchiveFacts> gathered = options.module.empty()
                                      ? gather_archive(input, archive::Check::kStructure)
                                      : Result<ArchiveFacts>(refuse_module_name(input));
  if (gathered.is_ok()) return show_archive(input.shown, gathered.value(), options);
  print_error(gathered.status());
  return kExitProblem;
}

}  // namespace tenon::cli
