// `tenon inspect` of a module archive, a flatbuffer and a file of torch.save, and `tenon verify`.
#include <algorithm>
#include <cinttypes>
#include <string>
#include <utility>

#include "archive_facts.h"
#include "commands.h"
#include "inspect.h"
#include "module/import.h"
#include "module/kept_bytecode.h"
#include "output.h"

namespace tenon::cli {
namespace {

template <typename Numbers>
std::string list_text(const Numbers& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

void title(const char* text) { print_text("\n" + paint(Colour::kBold, text) + "\n"); }

std::string shown_path(const std::string& path) { return path.empty() ? "(root)" : safe_text(path); }

void print_records(const ArchiveFacts& facts) {
  title(facts.is_flatbuffer ? "storages in the file" : "records");
  Table table({{"OFFSET", true}, {"BYTES", true}, {"IN FILE", true}, {"CRC-32"}, {"NAME"}});
  for (const archive::ZipRecord& record : facts.container->records()) {
    table.add({{std::to_string(record.data_offset)},
               {std::to_string(record.nbytes)},
               {record.deflated ? std::to_string(record.stored_nbytes) : "stored"},
               {record.has_crc() ? format("%08x", record.crc) : "none"},
               {safe_text(record.name)}});
  }
  table.print();
}

void print_tree(const ArchiveFacts& facts) {
  title("modules");
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
  title("tensors");
  Table table({{"PATH"}, {"KIND"}, {"TYPE"}, {"SIZES"}, {"BYTES", true}, {"STRIDES"}, {"OFFSET", true}, {"STORAGE", true}, {"DETAILS"}});
  for (const TensorFact& tensor : facts.tensors) {
    const bool is_none = tensor.dtype.empty();
    const bool is_strided = tensor.storage != SIZE_MAX;
    table.add({{shown_path(tensor.path)},
               {tensor.kind},
               {is_none ? "None" : tensor.dtype},
               {is_none ? "" : list_text(tensor.sizes)},
               {is_none ? "" : std::to_string(tensor.nbytes)},
               {is_strided ? list_text(tensor.strides) : ""},
               {is_strided ? std::to_string(tensor.offset) : ""},
               {is_strided ? std::to_string(tensor.storage) : ""},
               {safe_text(tensor.details)}});
  }
  table.print();
  const auto shared = std::count_if(facts.storages.begin(), facts.storages.end(), [](const StorageFact& each) { return each.tensors > 1; });
  uint64_t nbytes = 0;
  for (const StorageFact& storage : facts.storages) nbytes += storage.nbytes;
  print_text(plural_text(facts.storages.size(), "storage", "storages") + ", " + size_text(nbytes) + ", " +
             plural_text(static_cast<uint64_t>(shared), "of them shared by several tensors", "of them shared by several tensors") + "\n");
}

void print_members(const ArchiveFacts& facts) {
  if (!facts.members.empty()) {
    title("attributes and constants");
    Table table({{"PATH"}, {"KIND"}, {"TYPE"}, {"VALUE"}});
    for (const MemberFact& member : facts.members)
      table.add({{safe_text(member.path)}, {member.kind}, {safe_text(member.type)}, {member.value}});
    table.print();
  }
  if (facts.methods.empty()) return;
  title("methods");
  for (const MethodFact& method : facts.methods) print_wrapped(safe_text(method.path) + ": " + safe_text(method.head), 4);
}

void print_others(const ArchiveFacts& facts) {
  if (facts.others.empty()) return;
  title("other values");
  for (const std::string& name : facts.others) print_text("    " + safe_text(name) + "\n");
  if (facts.n_others > facts.others.size()) {
    print_text("    and " + plural_text(facts.n_others - facts.others.size(), "more", "more") + "\n");
  }
}

uint64_t line_count(const std::string& text) { return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')); }

void print_code(const ArchiveFacts& facts, bool with_text) {
  if (facts.code.empty()) return;
  title("code");
  for (const CodeFact& file : facts.code) {
    print_text(safe_text(file.name) + ": " + plural_text(line_count(file.text), "line", "lines") + "\n");
    if (!with_text) continue;
    // Line by line: a line break is what the text has, not what hides something.
    for (size_t at = 0; at < file.text.size();) {
      const size_t end = std::min(file.text.find('\n', at), file.text.size());
      print_text("    " + safe_text(std::string_view(file.text).substr(at, end - at)) + "\n");
      at = end + 1;
    }
  }
}

std::string part_count_text(const ArchiveFacts& facts) {
  const uint64_t count = facts.container->records().size();
  return facts.is_flatbuffer ? plural_text(count, "storage", "storages") : plural_text(count, "record", "records");
}

void print_head(const std::string& path, const ArchiveFacts& facts) {
  const std::string what = facts.is_flatbuffer ? "flatbuffer" : "archive \"" + safe_text(facts.container->prefix()) + "\"";
  print_text(safe_text(path) + ": " + what + ", " + part_count_text(facts) + ", " + size_text(facts.container->source()->nbytes()) + "\n");
  if (facts.is_checkpoint) {
    if (!facts.why_not_taken.is_ok()) return;
    print_text("a file of torch.save: " + plural_text(facts.tensors.size(), "tensor", "tensors") + ", " +
               plural_text(facts.n_others, "other value", "other values") + "\n");
    return;
  }
  if (!facts.why_no_module.is_ok()) return;
  const module::ImportReport& report = facts.root->package().report;
  const std::string runs_with = !facts.why_not_taken.is_ok()   ? "no PyTorch that is known takes its code"
                                : facts.oldest_pytorch.empty() ? "which PyTorch it needs is not known"
                                                               : "runs with PyTorch " + facts.oldest_pytorch + " or newer";
  print_text(format("operators of version %d, %s\n", report.version, runs_with.c_str()));
  print_text(plural_text(report.mapped_tensors, "storage", "storages") + " can be mapped, " + std::to_string(report.filled_tensors) +
             format(" have to be copied (%" PRIu64 " compressed, %" PRIu64 " misaligned, %" PRIu64 " of the other byte order)\n",
                    report.compressed, report.misaligned, report.foreign_endian));
  if (const module::KeptBytecode* const bytecode = facts.root->package().bytecode.get()) {
    const module::BytecodeFacts& found = bytecode->facts();
    print_text(format("bytecode of version %lld: ", static_cast<long long>(found.version)) +
               plural_text(found.functions.size(), "function", "functions") + ", " +
               plural_text(found.instructions, "instruction", "instructions") + ", " +
               plural_text(found.operators.size(), "operator", "operators") + "\n");
  }
}

void print_warnings(const ArchiveFacts& facts) {
  for (const std::string& warning : facts.warnings) {
    print_text(paint(Colour::kYellow, "warning: "));
    print_wrapped(safe_text(warning), 9);
  }
}

Json sizes_json(const std::vector<int64_t>& numbers) { return Json(numbers); }

Json container_json(const std::string& path, const ArchiveFacts& facts) {
  Json json = {{"kind", facts.is_checkpoint   ? "checkpoint"
                        : facts.is_flatbuffer ? "flatbuffer"
                                              : "archive"},
               {"path", path},
               {"name", std::string(facts.container->prefix())},
               {"nbytes", facts.container->source()->nbytes()}};
  Json records = Json::array();
  for (const archive::ZipRecord& record : facts.container->records()) {
    records.push_back({{"name", std::string(record.name)},
                       {"offset", record.data_offset},
                       {"nbytes", record.nbytes},
                       {"nbytes_in_file", record.deflated ? record.stored_nbytes : record.nbytes},
                       {"deflated", record.deflated},
                       {"crc32", record.has_crc() ? Json(format("%08x", record.crc)) : Json(nullptr)}});
  }
  json["records"] = std::move(records);
  json["warnings"] = facts.warnings;
  const Status& wrong = facts.why_no_module.is_ok() ? facts.why_not_taken : facts.why_no_module;
  json["error"] = wrong.is_ok() ? Json(nullptr) : status_json(wrong);
  return json;
}

void add_tensors_json(const ArchiveFacts& facts, Json* json) {
  Json tensors = Json::array();
  for (const TensorFact& tensor : facts.tensors) {
    const bool is_strided = tensor.storage != SIZE_MAX;
    tensors.push_back({{"path", tensor.path},
                       {"kind", tensor.kind},
                       {"dtype", tensor.dtype.empty() ? Json(nullptr) : Json(tensor.dtype)},
                       {"sizes", sizes_json(tensor.sizes)},
                       {"nbytes", tensor.nbytes},
                       {"strides", is_strided ? sizes_json(tensor.strides) : Json(nullptr)},
                       {"offset", tensor.offset},
                       {"storage", is_strided ? Json(tensor.storage) : Json(nullptr)},
                       {"details", tensor.details}});
  }
  (*json)["tensors"] = std::move(tensors);
  Json storages = Json::array();
  for (const StorageFact& storage : facts.storages)
    storages.push_back({{"dtype", storage.dtype}, {"numel", storage.numel}, {"nbytes", storage.nbytes}, {"tensors", storage.tensors}});
  (*json)["storages"] = std::move(storages);
}

// Null: the archive has no bytecode, or none that can be run, of which a warning tells.
Json bytecode_json(const module::KeptBytecode* bytecode) {
  if (bytecode == nullptr) return nullptr;
  const module::BytecodeFacts& facts = bytecode->facts();
  return {{"version", facts.version}, {"functions", facts.functions}, {"instructions", facts.instructions}, {"operators", facts.operators}};
}

void add_module_json(const ArchiveFacts& facts, Json* json) {
  const module::ImportReport& report = facts.root->package().report;
  (*json)["version"] = report.version;
  (*json)["oldest_pytorch"] = facts.oldest_pytorch.empty() ? Json(nullptr) : Json(facts.oldest_pytorch);
  (*json)["mapped_storages"] = report.mapped_tensors;
  (*json)["filled_storages"] = report.filled_tensors;
  (*json)["bytecode"] = bytecode_json(facts.root->package().bytecode.get());
  Json modules = Json::array();
  for (const ModuleFact& module : facts.modules) {
    modules.push_back({{"path", module.path},
                       {"class", module.class_name},
                       {"same_as", module.is_shared && !module.same_as.empty() ? Json(module.same_as) : Json(nullptr)}});
  }
  (*json)["modules"] = std::move(modules);
  add_tensors_json(facts, json);
  Json members = Json::array();
  for (const MemberFact& member : facts.members)
    members.push_back({{"path", member.path}, {"kind", member.kind}, {"type", member.type}, {"value", member.value}});
  (*json)["members"] = std::move(members);
  Json methods = Json::array();
  for (const MethodFact& method : facts.methods) methods.push_back({{"path", method.path}, {"head", method.head}});
  (*json)["methods"] = std::move(methods);
  Json code = Json::array();
  for (const CodeFact& file : facts.code) code.push_back({{"name", file.name}, {"text", file.text}});
  (*json)["code"] = std::move(code);
}

}  // namespace

int inspect_archive(const ArchiveInput& input, bool with_code, bool json) {
  Result<ArchiveFacts> gathered = gather_archive(input, archive::Check::kStructure);
  if (!gathered.is_ok()) {
    print_error(gathered.status());
    return kExitProblem;
  }
  const ArchiveFacts& facts = gathered.value();
  const bool is_module = !facts.is_checkpoint && facts.why_no_module.is_ok();
  const Status& wrong = facts.why_no_module.is_ok() ? facts.why_not_taken : facts.why_no_module;
  if (json) {
    Json all = container_json(input.shown, facts);
    if (is_module) add_module_json(facts, &all);
    if (facts.is_checkpoint) {
      add_tensors_json(facts, &all);
      all["others"] = facts.others;
      all["other_count"] = facts.n_others;
    }
    print_json(all);
    return wrong.is_ok() ? kExitOk : kExitProblem;
  }
  print_head(input.shown, facts);
  print_warnings(facts);
  if (is_module) {
    print_tree(facts);
    print_tensors(facts);
    print_members(facts);
    print_code(facts, with_code);
  }
  if (facts.is_checkpoint) {
    print_tensors(facts);
    print_others(facts);
  }
  print_records(facts);
  if (wrong.is_ok()) return kExitOk;
  print_error(wrong);
  return kExitProblem;
}

int inspect_operators(const std::string& path, const std::string& methods, bool json) {
  const auto list = [&]() -> Result<std::vector<std::string>> {
    TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(path));
    TENON_ASSIGN(const Ref<module::Module> module, import_archive(input, {}));
    Result<std::vector<std::string>> names = module->operator_names(split_methods(methods));
    if (!names.is_ok()) return of_file(input, names.status());
    return names;
  };
  Result<std::vector<std::string>> found = list();
  const int code = found.is_ok() ? kExitOk : kExitProblem;
  if (json) {
    Json all = {{"path", path}, {"operators", found.is_ok() ? Json(found.value()) : Json(nullptr)}};
    all["error"] = found.is_ok() ? Json(nullptr) : status_json(found.status());
    print_json(all);
    return code;
  }
  if (!found.is_ok()) {
    print_error(found.status());
    return code;
  }
  for (const std::string& name : found.value()) print_text(safe_text(name) + "\n");
  return code;
}

namespace {

// What is wrong with it, or nothing. `all`, if it is not null, gets the report.
int verify(const std::string& path, Json* all) {
  const auto gather = [&path]() -> Result<ArchiveFacts> {
    TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(path));
    return gather_archive(input, archive::Check::kAll);
  };
  Result<ArchiveFacts> gathered = gather();
  Status status = gathered.is_ok() ? gathered.value().why_no_module : gathered.status();
  if (status.is_ok()) status = gathered.value().why_not_taken;
  if (status.is_ok()) status = gathered.value().why_no_bytecode;
  const int code = status.is_ok() ? kExitOk : kExitProblem;
  if (all != nullptr) {
    *all = {{"path", path}, {"ok", status.is_ok()}};
    (*all)["error"] = status.is_ok() ? Json(nullptr) : status_json(status);
    (*all)["warnings"] = gathered.is_ok() ? Json(gathered.value().warnings) : Json::array();
    return code;
  }
  if (gathered.is_ok()) print_warnings(gathered.value());
  if (!status.is_ok()) {
    print_error(status);
    return code;
  }
  const ArchiveFacts& facts = gathered.value();
  print_text(safe_text(path == "-" ? "standard input" : path) + ": " + paint(Colour::kGreen, "good") + ": " + part_count_text(facts) +
             ", " + plural_text(facts.tensors.size(), "tensor", "tensors") + ", " + size_text(facts.container->source()->nbytes()) + "\n");
  return code;
}

}  // namespace

// With --json one object for one file, and a list for several.
int run_verify(const VerifyOptions& options) {
  int code = kExitOk;
  Json list = Json::array();
  for (const std::string& path : options.paths) {
    Json one;
    code = std::max(code, verify(path, options.json ? &one : nullptr));
    list.push_back(std::move(one));
  }
  if (options.json) print_json(list.size() == 1 ? list[0] : list);
  return code;
}

}  // namespace tenon::cli
