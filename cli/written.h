// What `tenon export` has written, before anything is printed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "commands.h"
#include "module/export.h"

namespace tenon::cli {

// A resource of a package, and the file that its module is from.
struct WrittenResource {
  std::string name;
  std::string from;
};

struct Written {
  module::ExportReport report;
  std::vector<std::string> warnings;
  std::vector<WrittenResource> resources;  // of a package
};

// `tenon export --package`.
Result<Written> write_package(const ExportCommandOptions& options);

}  // namespace tenon::cli
