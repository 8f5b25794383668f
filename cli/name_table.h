// Names and the facts about each, as `ls`, `gc` and `inspect` show them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "names/liveness.h"
#include "os/process.h"
#include "output.h"

namespace tenon::cli {

const char* kind_name(names::NameKind kind) noexcept;     // "file", "torch", "socket", "other"
const char* state_name(names::NameState state) noexcept;  // "live", "in flight", "dead", "unsure"
Colour state_colour(names::NameState state) noexcept;

struct Listed {
  names::NameReport report;
  // The processes that hold the name, as far as /proc tells. For a live socket, its lender.
  std::vector<os::ProcessFacts> holders;
  uint64_t unreadable = 0;  // processes that could not be asked whether they hold the name
};

// Gives a name as a handle has it: "/leaf" in /dev/shm, and otherwise the path.
std::string name_text(const std::string& directory, const std::string& leaf);
Json name_json(const std::string& directory, const names::NameReport& report);
Json holders_json(const Listed& listed);

// Gives every name of Tenon and PyTorch in the directory, sorted by name. `others`: also the files
// of other programs.
Result<std::vector<names::NameReport>> collect_names(const std::string& directory,
                                                     const names::LookOptions& options,
                                                     bool others);
// Adds the processes that hold each name, as far as /proc tells. Does not fail.
std::vector<Listed> add_holders(const std::string& directory,
                                std::vector<names::NameReport> reports);

}  // namespace tenon::cli
