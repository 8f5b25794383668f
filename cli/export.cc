// `tenon export`: reads a module archive and writes it again. The new archive has bytecode for
// PyTorch's lite interpreter, or none. Or it writes the flatbuffer form.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_facts.h"
#include "commands.h"
#include "module/code_check.h"
#include "module/export.h"
#include "module/import.h"
#include "module/resolve.h"
#include "output.h"

namespace tenon::cli {
namespace {

struct Written {
  module::ExportReport report;
  std::vector<std::string> warnings;
};

module::ExportOptions export_options(const ExportCommandOptions& options) {
  module::ExportOptions out;
  if (options.flatbuffer) out.form = module::Form::kFlatbuffer;
  out.bytecode = options.bytecode ? module::Bytecode::kCompile : options.no_bytecode ? module::Bytecode::kDrop : module::Bytecode::kKeep;
  out.methods = split_methods(options.methods);
  out.bytecode_version = options.lower;
  out.forks_at_once = options.forks_at_once;
  out.debug_tables = options.debug_tables;
  return out;
}

// The warnings of the import, and the reasons why the export left something out.
std::vector<std::string> warnings_of(const module::Package& package, const module::ExportReport& report, bool keeps_bytecode) {
  constexpr std::string_view kNotKept = "bytecode is not kept: ";
  std::vector<std::string> warnings;
  for (const std::string& warning : package.report.warnings) {
    // The old bytecode does not matter when new bytecode is made or none is wanted.
    if (keeps_bytecode || !warning.starts_with(kNotKept)) warnings.push_back(warning);
  }
  // A warning of the import has already told why bad bytecode was not read.
  if (!report.why_no_bytecode.empty() && package.why_no_bytecode.is_ok()) {
    warnings.push_back(std::string(kNotKept) + report.why_no_bytecode);
  }
  if (!report.why_no_debug_tables.empty()) warnings.push_back("the debug tables are not written: " + report.why_no_debug_tables);
  return warnings;
}

bool has_place(const Status& status) {
  const std::vector<Detail>& details = status.info()->details;
  return std::any_of(details.begin(), details.end(), [](const Detail& detail) { return detail.key == "file"; });
}

Result<Written> write_again(const ExportCommandOptions& options) {
  TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(options.from));
  module::ImportOptions reading;
  // The new file gets new checksums, so damage in the old one must be found here.
  reading.check = archive::Check::kAll;
  reading.debug_tables = options.debug_tables;
  TENON_ASSIGN(const Ref<module::Module> module, import_archive(input, reading));
  const module::ExportOptions writing = export_options(options);
  Written written;
  const Status status = module::export_module(*module, options.to, archive::Durability::kNone, writing, &written.report);
  // An error with a place in the code is about the old file, but its message does not name the file.
  if (!status.is_ok()) return has_place(status) ? of_file(input, status) : status;
  written.warnings = warnings_of(module->package(), written.report, writing.bytecode == module::Bytecode::kKeep);
  if (written.report.oldest_pytorch.empty()) {
    // An export writes code that was not changed as it was read, with what PyTorch refuses in it.
    TENON_ASSIGN(const module::Resolved resolved, module::resolve(*module, 0));
    const Status taken = module::check_resolved(resolved, true).status();
    if (!taken.is_ok()) written.warnings.push_back("PyTorch does not take this code, which is as it was: " + taken.message());
  }
  return written;
}

void print_written(const std::string& path, const Written& written) {
  const module::ExportReport& report = written.report;
  for (const std::string& warning : written.warnings) {
    print_text(paint(Colour::kYellow, "warning: "));
    print_wrapped(safe_text(warning), 9);
  }
  print_text(safe_text(path) + ": " + paint(Colour::kGreen, "written") + ": " +
             (report.records > 0 ? plural_text(report.records, "record", "records") + ", " : "") +
             plural_text(report.nbytes, "byte", "bytes") + "\n");
  const std::string runs_with =
      report.oldest_pytorch.empty() ? "which PyTorch it needs is not known" : "runs with PyTorch " + report.oldest_pytorch + " or newer";
  print_text(format("operators of version %d, %s\n", report.version, runs_with.c_str()));
  print_text(report.has_bytecode ? "bytecode: " + plural_text(report.bytecode_functions, "function", "functions") + "\n" : "no bytecode\n");
  if (report.debug_tables > 0) print_text(plural_text(report.debug_tables, "debug table", "debug tables") + "\n");
}

Json written_json(const std::string& path, const Written& written) {
  const module::ExportReport& report = written.report;
  Json json = {{"path", path}, {"ok", true}, {"error", nullptr}, {"warnings", written.warnings}};
  json["nbytes"] = report.nbytes;
  json["records"] = report.records;
  json["version"] = report.version;
  json["oldest_pytorch"] = report.oldest_pytorch.empty() ? Json(nullptr) : Json(report.oldest_pytorch);
  json["bytecode_functions"] = report.bytecode_functions;
  json["debug_tables"] = report.debug_tables;
  return json;
}

}  // namespace

int run_export(const ExportCommandOptions& options) {
  Result<Written> written = write_again(options);
  const int code = written.is_ok() ? kExitOk : kExitProblem;
  if (options.json && written.is_ok()) {
    print_json(written_json(options.to, written.value()));
  } else if (options.json) {
    print_json({{"path", options.to}, {"ok", false}, {"error", status_json(written.status())}, {"warnings", Json::array()}});
  } else if (written.is_ok()) {
    print_written(options.to, written.value());
  } else {
    print_error(written.status());
  }
  return code;
}

}  // namespace tenon::cli
