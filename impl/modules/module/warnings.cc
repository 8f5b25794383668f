#include "modules/module/warnings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "modules/module/code_check.h"
#include "modules/module/resolve.h"
#include "modules/module/version.h"
#include "modules/script/ast_walk.h"
#include "modules/value/tensor_value.h"

namespace tenon::module {

namespace {

constexpr char kDebugTable[] = ".debug_pkl";

void add_dropped(const std::vector<std::string>& dropped, std::vector<std::string>* warnings) {
  size_t n_tables = 0;
  for (const std::string& record : dropped) {
    if (record.ends_with(kDebugTable))
      ++n_tables;
    else
      warnings->push_back(format("the record %.300s is not written again", record.c_str()));
  }
  if (n_tables != 0)
    warnings->push_back(
        format("%zu tables of source positions (%s) are not written again", n_tables, kDebugTable));
}

// Searches code that is as it was read for devices that it names and for versioned operators.
class Search {
 public:
  explicit Search(const CodeSet& code, int version) noexcept
      : environment_(code), version_(version) {}

  Status look_at(const CodeFile& file) {
    TENON_ASSIGN(const std::vector<CodeFile::Piece>* pieces, file.pieces());
    for (const CodeFile::Piece& piece : *pieces) {
      if (piece.definition == nullptr || piece.definition->is_new()) continue;
      const std::string& name = piece.definition->name();
      const script::Source& source = piece.file->source();
      if (piece.item->function != nullptr)
        look_at({{}, name, version_, &source, piece.item->function});
      if (piece.item->class_def == nullptr) continue;
      for (const script::Stmt* statement : piece.item->class_def->body) {
        if (statement->kind != script::StmtKind::kDef) continue;
        look_at({name, name + "." + std::string(statement->function->name), version_, &source,
                 statement->function});
      }
    }
    return Status::ok();
  }

  void add_found(std::vector<std::string>* warnings) const {
    for (const auto& [device, found] : devices_) {
      warnings->push_back(
          format("the code names the device %s, in %s: it runs only where PyTorch has one, "
                 "wherever the tensors are",
                 device.c_str(), places_text(found).c_str()));
    }
    for (const auto& [name, found] : found_) {
      warnings->push_back(format("%s means what it meant at version %d, in %s", name.c_str(),
                                 version_, places_text(found).c_str()));
    }
  }

 private:
  struct Found {
    std::string first;
    size_t n = 0;
  };

  static std::string places_text(const Found& found) {
    std::string text = format("%.300s", found.first.c_str());
    if (found.n > 1) text += format(" and %zu more", found.n - 1);
    return text;
  }

  static void note(const CodePart& part, Found* found) {
    if (found->n++ == 0) found->first = part.name;
  }

  // Looks for `torch.device("cuda:0")`, which PyTorch prints for a device in a trace or a script.
  void look_for_devices(const CodePart& part) {
    std::set<std::string> here;
    script::AstVisitor visitor;
    visitor.expression = [&here](const script::Expr& expr) {
      if (expr.kind != script::ExprKind::kCall ||
          script::dotted_name(expr.child(0)) != "torch.device" || expr.arguments().empty())
        return;
      const script::Expr& name = *expr.arguments()[0];
      const bool is_other = name.kind == script::ExprKind::kString &&
                            !name.text.starts_with("cpu") && name.text != "meta";
      if (is_other && value::is_device_name(name.text)) here.emplace(name.text);
    };
    walk(*part.function, visitor);
    for (const std::string& device : here) note(part, &devices_[device]);
  }

  void look_at(const CodePart& part) {
    look_for_devices(part);
    for (const VersionedOperator& op : versioned_operators(environment_, part)) {
      if (op.changed <= version_) continue;
      note(part, &found_[std::string(op.name)]);
    }
  }

  CodeEnvironment environment_;
  int version_;
  std::map<std::string, Found> found_;
  std::map<std::string, Found> devices_;
};

void add_import_warnings(const Module& module, std::vector<std::string>* warnings) {
  const ImportReport& report = module.package().report;
  *warnings = module.package().import_warnings();
  add_dropped(report.dropped, warnings);
  Search search(*module.object_class().code, report.version);
  for (const std::unique_ptr<CodeFile>& file : module.object_class().code->files()) {
    if (const Status status = search.look_at(*file); !status.is_ok())
      warnings->push_back(status.message());
  }
  search.add_found(warnings);
}

}  // namespace

std::vector<std::string> module_warnings(const Module& module) {
  std::vector<std::string> warnings;
  if (module.package().report.version != 0) add_import_warnings(module, &warnings);
  // The error of Module::check() has the reason why a module cannot be written, or why no PyTorch
  // accepts its code.
  Result<Resolved> resolved = resolve(module, 0);
  if (!resolved.is_ok()) return warnings;
  Result<CodeNeeds> needs = check_resolved(resolved.value(), CodeCheck::kNone);
  if (needs.is_ok())
    warnings.insert(warnings.end(), needs.value().partly_refused.begin(),
                    needs.value().partly_refused.end());
  return warnings;
}

}  // namespace tenon::module
