// The result of `tenon export`, before anything is printed. export.cc prints it, and
// export_package.cc makes it for a package.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "commands.h"
#include "modules/module/export.h"

namespace tenon::cli {

// A resource of a package, and the file from which its module comes.
struct WrittenResource {
  std::string name;
  std::string from;
};

struct Written {
  module::ExportReport report;
  std::vector<std::string> warnings;
  std::vector<WrittenResource> resources;  // for a package
};

// Does the work of `tenon export --package`. After an error, INTERRUPTED among them, an old file
// is as it was.
Result<Written> write_package(const ExportCommandOptions& options);

}  // namespace tenon::cli
