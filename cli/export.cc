// `tenon export`: reads a module and writes it again, as an archive with bytecode or without it, or
// in the flatbuffer form. export_package.cc writes packages.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive_print.h"
#include "commands.h"
#include "export_file.h"
#include "module_input.h"
#include "modules/module/export.h"
#include "modules/module/import.h"
#include "modules/module/method_names.h"
#include "output.h"
#include "written.h"

namespace tenon::cli {
namespace {

Result<module::ExportOptions> export_options(const ExportCommandOptions& options) {
  module::ExportOptions out;
  if (options.flatbuffer) out.form = module::Form::kFlatbuffer;
  out.bytecode = options.bytecode      ? module::Bytecode::kCompile
                 : options.no_bytecode ? module::Bytecode::kDrop
                                       : module::Bytecode::kKeep;
  if (!options.methods.empty()) {
    TENON_ASSIGN(out.methods, module::split_method_names(options.methods));
  }
  out.bytecode_version = options.lower;
  out.forks_at_once = options.forks_at_once;
  out.debug_tables = options.debug_tables;
  return out;
}

// The warnings of the import, and the reasons why the export left something out.
std::vector<std::string> warnings_of(const module::Package& package,
                                     const module::ExportReport& report, bool keeps_bytecode) {
  constexpr std::string_view kNotKept = "bytecode is not kept: ";
  // The old bytecode does not matter when new bytecode is made or none is wanted.
  std::vector<std::string> warnings =
      keeps_bytecode ? package.import_warnings() : package.report.warnings;
  // A warning of the import has already told why bad bytecode was not read.
  if (!report.why_no_bytecode.empty() && package.why_no_bytecode().is_ok()) {
    warnings.push_back(std::string(kNotKept) + report.why_no_bytecode);
  }
  if (!report.why_no_debug_tables.empty())
    warnings.push_back("the debug tables are not written: " + report.why_no_debug_tables);
  return warnings;
}

bool has_place(const Status& status) { return !status.detail("file").empty(); }

Status write_module(const module::Module& module, const ExportCommandOptions& options,
                    const module::ExportOptions& writing, const ExportFile::Options& filing,
                    module::ExportReport* report) {
  module::ExportOptions named = writing;
  TENON_ASSIGN(named.archive_name, module::archive_name_for({}, options.to));
  TENON_ASSIGN(const std::unique_ptr<ExportFile> file, ExportFile::create(options.to, filing));
  TENON_TRY(module::export_module(module, file.get(), named, report));
  return file->commit();
}

Result<Written> write_again(const ExportCommandOptions& options) {
  TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(options.from.front()));
  module::ImportOptions reading;
  // The new file gets new checksums, so damage in the old one must be found here.
  reading.check = archive::Check::kAll;
  reading.debug_tables = options.debug_tables;
  TENON_ASSIGN(const Ref<module::Module> module, import_input(input, options.module, reading));
  TENON_ASSIGN(const module::ExportOptions writing, export_options(options));
  // A module of a package is a part of its file. Any other is about as large as its file.
  const uint64_t expected_nbytes = options.module.empty() ? input.nbytes : storage_nbytes(*module);
  const ExportFile::Options filing = {.expected_nbytes = expected_nbytes,
                                      .shows_progress = !options.json};
  Written written;
  const Status status = write_module(*module, options, writing, filing, &written.report);
  // An error with a place in the code is about the old file, but its message does not name the
  // file.
  if (!status.is_ok()) return has_place(status) ? of_file(input, status) : status;
  written.warnings =
      warnings_of(module->package(), written.report, writing.bytecode == module::Bytecode::kKeep);
  if (written.report.oldest_pytorch.empty()) {
    // An export writes unchanged code as it was read, even if PyTorch refuses it.
    const Status taken = module->check();
    if (!taken.is_ok())
      written.warnings.push_back("PyTorch does not take this code, which is as it was: " +
                                 taken.message());
  }
  return written;
}

void print_written(const std::string& path, const Written& written, bool is_package) {
  const module::ExportReport& report = written.report;
  print_warnings(written.warnings);
  print_text(safe_text(path) + ": " + paint(Colour::kGreen, "written") + ": " +
             (report.records > 0 ? plural_text(report.records, "record", "records") + ", " : "") +
             plural_text(report.nbytes, "byte", "bytes") + "\n");
  print_text(format("operators of version %d, ", report.version) +
             runs_with_text(report.oldest_pytorch) + "\n");
  if (is_package) {
    for (const WrittenResource& each : written.resources)
      print_text(safe_text(each.name) + ": " + safe_text(each.from) + "\n");
    return;
  }
  print_text(report.has_bytecode
                 ? "bytecode: " + plural_text(report.bytecode_functions, "function", "functions") +
                       "\n"
                 : "no bytecode\n");
  if (report.debug_tables > 0)
    print_text(plural_text(report.debug_tables, "debug table", "debug tables") + "\n");
}

Json written_json(const std::string& path, const Written& written, bool is_package) {
  const module::ExportReport& report = written.report;
  Json json = {{"path", path}, {"ok", true}, {"error", nullptr}, {"warnings", written.warnings}};
  json["nbytes"] = report.nbytes;
  json["records"] = report.records;
  json["version"] = report.version;
  json["oldest_pytorch"] = text_json(report.oldest_pytorch);
  json["bytecode_functions"] = report.bytecode_functions;
  json["debug_tables"] = report.debug_tables;
  if (!is_package) return json;
  json["modules"] = Json::array();
  for (const WrittenResource& each : written.resources)
    json["modules"].push_back({{"name", each.name}, {"from", each.from}});
  return json;
}

}  // namespace

int run_export(const ExportCommandOptions& options) {
  Result<Written> written = options.package ? write_package(options) : write_again(options);
  const int code = written.is_ok() ? kExitOk : kExitProblem;
  if (options.json && written.is_ok()) {
    print_json(written_json(options.to, written.value(), options.package));
  } else if (options.json) {
    print_json({{"path", options.to},
                {"ok", false},
                {"error", status_json(written.status())},
                {"warnings", Json::array()}});
  } else if (written.is_ok()) {
    print_written(options.to, written.value(), options.package);
  } else {
    print_error(written.status());
  }
  return code;
}

}  // namespace tenon::cli
