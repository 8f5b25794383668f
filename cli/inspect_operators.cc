// `tenon inspect --ops`: lists the operators that bytecode of a module's code calls.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "archive_print.h"
#include "commands.h"
#include "inspect.h"
#include "module_input.h"
#include "modules/module/method_names.h"
#include "output.h"
#include "weights_facts.h"

namespace tenon::cli {
namespace {

using Names = std::vector<std::string>;

// Lists the operators of all modules of the package, each once and in order.
Result<Names> operators_of_package(const ArchiveInput& input) {
  TENON_ASSIGN(const Ref<module::PackageArchive> package, open_package(input, {}));
  std::set<std::string> all;
  for (const module::PackageArchive::Entry& entry : package->entries()) {
    const auto list = [&]() -> Result<Names> {
      TENON_ASSIGN(const Ref<module::Module> module, package->module(entry.id));
      return module->operator_names({});
    };
    Result<Names> names = list();
    if (!names.is_ok()) return of_module(input, entry, names.status());
    all.insert(names.value().begin(), names.value().end());
  }
  return Names(all.begin(), all.end());
}

Result<Names> operators_of(const ArchiveInput& input, const InspectOptions& options) {
  const ContainerKind kind = container_kind(input);
  if (kind == ContainerKind::kWeights) return refuse_weights_option(input, "--ops");
  // `methods` belong to one module, which must be named.
  if (options.module.empty() && options.methods.empty() && kind == ContainerKind::kPackage)
    return operators_of_package(input);
  TENON_ASSIGN(const Ref<module::Module> module, import_input(input, options.module, {}));
  Names methods;
  if (!options.methods.empty()) {
    TENON_ASSIGN(methods, module::split_method_names(options.methods));
  }
  return module->operator_names(methods);
}

Result<Names> list_operators(const InspectOptions& options) {
  TENON_ASSIGN(const ArchiveInput input, ArchiveInput::open(options.what));
  Result<Names> names = operators_of(input, options);
  if (!names.is_ok()) return of_file(input, names.status());
  return names;
}

}  // namespace

int inspect_operators(const InspectOptions& options) {
  Result<Names> found = list_operators(options);
  const int code = found.is_ok() ? kExitOk : kExitProblem;
  if (options.json) {
    print_json({{"path", options.what},
                {"operators", found.is_ok() ? Json(found.value()) : Json(nullptr)},
                {"error", error_json(found.status())}});
    return code;
  }
  if (!found.is_ok()) {
    print_error(found.status());
    return code;
  }
  for (const std::string& name : found.value()) print_text(safe_text(name) + "\n");
  return code;
}

}  // namespace tenon::cli
