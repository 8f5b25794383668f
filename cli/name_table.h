// Names and what is known of each, as `ls`, `gc` and `inspect` show them.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "os/process.h"
#include "output.h"
#include "share/liveness.h"

namespace tenon::cli {

const char* kind_name(share::NameKind kind) noexcept;     // "file", "torch", "socket", "other"
const char* state_name(share::NameState state) noexcept;  // "live", "in flight", "dead", "unsure"
Colour state_colour(share::NameState state) noexcept;

struct Listed {
  share::NameReport report;
  std::vector<os::ProcessFacts> holders;
  uint64_t unreadable = 0;  // processes that could not be asked whether they hold it
};

// As a handle would have it: "/leaf" in /dev/shm, else the path.
std::string name_text(const std::string& directory, const std::string& leaf);
Json name_json(const std::string& directory, const share::NameReport& report);
Json holders_json(const Listed& listed);

// Every name of Tenon and PyTorch in the directory, sorted by name. `others`: also what other
// programs have there.
Result<std::vector<share::NameReport>> collect_names(const std::string& directory,
                                                     const share::LookOptions& options,
                                                     bool others);
// Who holds them, as far as /proc tells.
std::vector<Listed> add_holders(const std::string& directory,
                                std::vector<share::NameReport> reports);

}  // namespace tenon::cli
