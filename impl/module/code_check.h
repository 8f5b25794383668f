// The checker, asked about what an export writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "module/resolve.h"
#include "script/declarations.h"

namespace tenon::module {

// The code of an export, parsed. Its error says where a file cannot be.
Result<script::Declarations> declarations_of(const Resolved& resolved);

struct CodeNeeds {
  // The oldest PyTorch that runs the code and reads the tensors. Empty: nobody can tell.
  std::string oldest_pytorch;
  // The calls that one of two versions of PyTorch refuses: script::partly_refused_lines() makes
  // these lines.
  std::vector<std::string> partly_refused;
};

// Makes `oldest` at least `wanted`. Both are releases of PyTorch, such as "1.9"; "" is before all.
void at_least(std::string_view wanted, std::string* oldest);

// Which code is refused.
enum class CodeCheck {
  kNone,
  kRefusedByAll,     // what both PyTorch 1.13 and the newest refuse
  kRefusedByNewest,  // what the newest refuses
};

// Refuses code with line and caret (script/check.h). Whatever `check` says, objects with attributes
// are refused if their class reads a state.
Result<CodeNeeds> check_resolved(const Resolved& resolved, CodeCheck check);
// The same of code that is parsed already.
Result<CodeNeeds> check_resolved(const Resolved& resolved, Result<script::Declarations>* code,
                                 CodeCheck check);

}  // namespace tenon::module
