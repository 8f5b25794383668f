// Runs the checker of code (script/check.h) on the code that an export writes. The exporters,
// Module::check() and module_warnings() call this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/module/resolve.h"
#include "modules/script/declarations.h"

namespace tenon::module {

// Parses the code of an export. The error says where a file cannot be parsed.
Result<script::Declarations> declarations_of(const Resolved& resolved);

struct CodeNeeds {
  // The oldest PyTorch that runs the code and reads the tensors. Empty: unknown.
  std::string oldest_pytorch;
  // One line for each call that one of two versions of PyTorch refuses and the other takes
  // (script::partly_refused_lines()).
  std::vector<std::string> partly_refused;
};

// Sets `*oldest` to `wanted` if `wanted` is newer. Both are releases of PyTorch, such as "1.9". ""
// is older than all.
void at_least(std::string_view wanted, std::string* oldest);

// Says which code check_resolved() refuses.
enum class CodeCheck {
  kNone,
  kRefusedByAll,     // code that both PyTorch 1.13 and the newest refuse
  kRefusedByNewest,  // code that the newest refuses
};

// Checks the code, and reports a refusal with line and caret (script/check.h). Whatever `check`
// says, an object with attributes is refused if its class reads a state.
Result<CodeNeeds> check_resolved(const Resolved& resolved, CodeCheck check);
// Does the same for code that is parsed already. An error in `*code` is returned. With kNone it is
// not: then nothing is checked and nothing is known.
Result<CodeNeeds> check_resolved(const Resolved& resolved, Result<script::Declarations>* code,
                                 CodeCheck check);

}  // namespace tenon::module
