#include "modules/compile/target.h"

#include <algorithm>
#include <array>

#include "modules/bytecode/program.h"

namespace tenon::compile {
namespace {

// No release of PyTorch has 6 as its highest version. The first release that reads version 6
// is 1.10, which reads version 7 too.
constexpr std::array<Target, 5> kTargets = {{
    {.version = 4,
     .torch = "1.8",
     .newest_archive = 5,
     .all_arguments = true,
     .defaults_before_out = false,
     .promoted_operators = false,
     .constants_apart = true,
     .reads_counts = false,
     .has_isinstance = false,
     .has_interface_calls = false,
     .has_named_tuples = false,
     .none_name = "None"},
    {.version = 5,
     .torch = "1.9",
     .newest_archive = 6,
     .all_arguments = true,
     .defaults_before_out = false,
     .promoted_operators = false,
     .has_interface_calls = false,
     .has_named_tuples = false},
    {.version = 6,
     .torch = "1.10",
     .newest_archive = 6,
     .defaults_before_out = false,
     .promoted_operators = false,
     .has_interface_calls = false,
     .has_named_tuples = false},
    {.version = 7,
     .torch = "1.10",
     .newest_archive = 6,
     .promoted_operators = false,
     .has_interface_calls = false,
     .has_named_tuples = false},
    {.version = bytecode::Program::kVersion, .newest_archive = 10},
}};

}  // namespace

Result<const Target*> target_of(int64_t version) {
  const auto* const found =
      std::find_if(kTargets.begin(), kTargets.end(),
                   [&](const Target& target) { return target.version == version; });
  if (found != kTargets.end()) return found;
  return invalid(
      format("code is not compiled to bytecode of version %lld: give a version from %lld to %lld",
             static_cast<long long>(version), static_cast<long long>(kTargets.front().version),
             static_cast<long long>(kTargets.back().version)));
}

}  // namespace tenon::compile
