// The agent of bytecode_test.py, which works on archives with bytecode. A line of stdin is a task,
// with tabs between its words:
//
//   rewrite <in> <out> <keep or drop> <debug or plain> imports and exports again
//   add <in> <out> <number>                            adds the number to every float parameter;
//                                                      <out> is a flatbuffer if it ends in .ff
//   attribute <in> <out>                               gives the root one more attribute
//   method <in> <out>                                  gives the root one more method
//   version <in> <out> <version>                       exports as that version of the operators
//   reorder <in> <out>                                 reverses the order of the attributes
//
// The agent prints what the reports say about bytecode and debug tables, and ends every task with a
// line "ok", or "error <code> <message>".
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "agent_kit.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/kept_bytecode.h"

namespace {

using namespace tenon;
using namespace tenon::module;
using value::Value;

using Words = std::vector<std::string>;

Result<Ref<Module>> load(const std::string& path) {
  ImportOptions options;
  options.debug_tables = true;
  TENON_ASSIGN(Ref<Module> module, import_module(path, options));
  const Package& package = module->package();
  for (const std::string& warning : package.import_warnings())
    std::cout << "warning " << warning << "\n";
  for (const std::string& name : package.report.dropped) std::cout << "dropped " << name << "\n";
  if (package.bytecode() != nullptr) {
    const BytecodeFacts& facts = package.bytecode()->facts();
    std::cout << "bytecode version " << facts.version << " functions " << facts.functions.size()
              << " instructions " << facts.instructions << " operators " << facts.operators.size()
              << "\n";
  }
  return module;
}

Status save(const Module& module, const std::string& path, const ExportOptions& options = {}) {
  ExportReport report;
  ExportOptions of_form = options;
  if (path.ends_with(".ff")) of_form.form = Form::kFlatbuffer;
  TENON_TRY(export_module(module, path, archive::Durability::kNone, of_form, &report));
  std::cout << "exported bytecode " << report.has_bytecode << " debug tables "
            << report.debug_tables << "\n";
  if (!report.why_no_bytecode.empty())
    std::cout << "no bytecode: " << report.why_no_bytecode << "\n";
  if (!report.why_no_debug_tables.empty())
    std::cout << "no debug tables: " << report.why_no_debug_tables << "\n";
  return Status::ok();
}

void reverse_attributes(Value& object) {
  std::vector<value::Attribute> all(object.attributes().all().begin(),
                                    object.attributes().all().end());
  for (const value::Attribute& attribute : all) object.attributes().remove(attribute.name);
  std::reverse(all.begin(), all.end());
  for (value::Attribute& attribute : all) {
    if (!object.attributes().add(std::move(attribute.name), std::move(attribute.value)).is_ok())
      std::abort();
  }
}

Status run(const Words& words) {
  if (words.size() < 3) return Status(Code::kInvalidArgument, "a task has three words or more");
  const std::string& task = words[0];
  TENON_ASSIGN(const Ref<Module> module, load(words[1]));
  ExportOptions options;
  if (task == "rewrite" && words.size() >= 5) {
    if (words[3] == "drop") options.bytecode = Bytecode::kDrop;
    options.debug_tables = words[4] == "debug";
  } else if (task == "add" && words.size() >= 4) {
    TENON_TRY(add_to_parameters(*module, std::stof(words[3])));
  } else if (task == "attribute") {
    TENON_ASSIGN(const value::TypeRef type, value::Type::parse("int"));
    TENON_TRY(module->add_attribute("one_more", type, Value::of_int(1)));
    options.debug_tables = true;
  } else if (task == "method") {
    TENON_TRY(module->define("def one_more(self) -> int:\n  return 1\n"));
  } else if (task == "version" && words.size() >= 4) {
    options.file_version = std::stoi(words[3]);
  } else if (task == "reorder") {
    reverse_attributes(*module->object());
  } else {
    return Status(Code::kInvalidArgument, "no such task: " + task);
  }
  return save(*module, words[2], options);
}

}  // namespace

int main() { return tenon::test::run_tasks(run); }
