// The commands that read module archives and files of torch.save, in a build without modules
// (TENON_MODULES=OFF). Each prints the library's message that modules are not built in, and fails.
#include <tenon/archive.h>

#include <string>

#include "commands.h"
#include "inspect.h"
#include "output.h"

namespace tenon::cli {
namespace {

Status no_modules(const std::string& path) {
  tenon_module* module = nullptr;
  tenon_error* error = nullptr;
  (void)tenon_import_module(path.c_str(), nullptr, &module, &error);
  Status status(Code::kUnsupported, path + " was not read: " + tenon_error_message(error));
  tenon_error_release(error);
  return status;
}

int refuse(const std::string& path, bool json) {
  const Status status = no_modules(path);
  if (json) {
    print_json({{"path", path}, {"ok", false}, {"error", status_json(status)}});
  } else {
    print_error(status);
  }
  return kExitProblem;
}

}  // namespace

int inspect_archive(const ArchiveInput& input, const InspectOptions& options) {
  return refuse(input.shown, options.json);
}

int inspect_operators(const InspectOptions& options) { return refuse(options.what, options.json); }

int run_weights(const WeightsOptions& options) {
  return refuse(options.directory.empty() ? "shared weights" : options.directory, options.json);
}

int run_verify(const VerifyOptions& options) { return refuse(options.paths.front(), options.json); }

int run_export(const ExportCommandOptions& options) {
  return refuse(options.from.front(), options.json);
}

int run_convert(const ConvertOptions& options) { return refuse(options.from, options.json); }

}  // namespace tenon::cli
