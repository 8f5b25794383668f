// `tenon gc`: lists the names that nobody holds, and removes them if --yes is given.
#include <cstdint>
#include <string>
#include <vector>

#include "commands.h"
#include "name_table.h"
#include "names/filename.h"
#include "names/manager.h"
#include "output.h"

namespace tenon::cli {
namespace {

using names::NameKind;
using names::NameReport;
using names::NameState;

struct Found {
  std::vector<NameReport> dead;   // names that this call may remove
  uint64_t torch_left = 0;        // PyTorch's dead names, which need --torch
  uint64_t kept = 0;              // names that are live or in flight
  uint64_t unsure = 0;            // names of which it is not known whether anybody holds them
  uint64_t not_removed = 0;       // names in `dead` that --yes could not remove
  uint64_t allocated_nbytes = 0;  // of `dead`; after the removal, of the removed names
};

// Sorts the names by what this call may do with them.
Found sort_out(const std::vector<NameReport>& reports, const GcOptions& options) {
  Found found;
  for (const NameReport& report : reports) {
    if (report.state == NameState::kUnsure) {
      ++found.unsure;
    } else if (report.state != NameState::kDead) {
      ++found.kept;
    } else if (report.kind == NameKind::kTorchFile && !options.torch) {
      ++found.torch_left;
    } else {
      found.dead.push_back(report);
      if (options.yes && !report.removed) {
        ++found.not_removed;
      } else {
        found.allocated_nbytes += report.allocated_nbytes;
      }
    }
  }
  return found;
}

void print_found(const GcOptions& options, const Found& found) {
  Table table({{"NAME"},
               {"KIND"},
               {"SIZE", true},
               {"MEMORY", true},
               {"AGE", true},
               {options.yes ? "DONE" : "WOULD"},
               {"WHY IT IS SURE"}});
  for (const NameReport& report : found.dead) {
    const bool has_bytes = report.kind != NameKind::kSocket;
    Table::Cell done{"remove", Colour::kYellow};
    if (options.yes)
      done = report.removed ? Table::Cell{"removed", Colour::kGreen}
                            : Table::Cell{"failed", Colour::kRed};
    table.add({{safe_text(name_text(options.directory, report.leaf))},
               {kind_name(report.kind)},
               {has_bytes ? size_text(report.nbytes) : "-"},
               {has_bytes ? size_text(report.allocated_nbytes) : "-"},
               {age_text(report.age_ns)},
               done,
               {safe_text(report.why)}});
  }
  if (!table.is_empty()) table.print();
  const uint64_t count = found.dead.size() - found.not_removed;
  std::string text =
      (options.yes ? "removed " : "would remove ") + plural_text(count, "name", "names") + ", " +
      size_text(found.allocated_nbytes) + "; " + count_text(found.kept) + " held or in flight, " +
      count_text(found.unsure) + " unsure or of other users: left alone";
  if (!options.yes && count != 0) text += " (dry run: --yes removes)";
  print_text(text + "\n");
  if (found.torch_left != 0)
    print_text(plural_text(found.torch_left, "dead file", "dead files") +
               " of PyTorch left alone (--torch)\n");
  if (found.not_removed != 0)
    print_error(plural_text(found.not_removed, "name", "names") + " in " + options.directory +
                " could not be removed");
}

void print_found_json(const GcOptions& options, const Found& found) {
  Json list = Json::array();
  for (const NameReport& report : found.dead) {
    Json name = name_json(options.directory, report);
    name["removed"] = report.removed;
    list.push_back(std::move(name));
  }
  print_json({{"directory", options.directory},
              {"dry_run", !options.yes},
              {"names", std::move(list)},
              {"allocated_nbytes", found.allocated_nbytes},
              {"kept", found.kept},
              {"unsure", found.unsure},
              {"torch_left", found.torch_left},
              {"not_removed", found.not_removed}});
}

}  // namespace

int run_gc(const GcOptions& options) {
  names::LookOptions look;
  look.remove = options.yes;
  look.torch = options.torch;
  look.min_age_ns = static_cast<int64_t>(options.min_age * 1e9);
  look.patience = kPatience;
  // A killed manager leaves a folder with a socket and a lock. They are no names, so
  // collect_names() does not see them, and the output does not count them.
  if (options.yes && options.directory == names::kSharedMemory) names::remove_dead_managers();
  Result<std::vector<NameReport>> collected = collect_names(options.directory, look, false);
  if (!collected.is_ok()) {
    print_error(collected.status());
    return kExitProblem;
  }
  const Found found = sort_out(collected.value(), options);
  if (options.json) {
    print_found_json(options, found);
  } else {
    print_found(options, found);
  }
  return found.not_removed == 0 ? kExitOk : kExitProblem;
}

}  // namespace tenon::cli
