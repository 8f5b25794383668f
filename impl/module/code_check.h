// The checker, asked about what an export writes.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "module/resolve.h"
#include "script/declarations.h"

namespace tenon::module {

// The code of an export, parsed. Its error says where a file cannot be.
Result<script::Declarations> declarations_of(const Resolved& resolved);

// Makes `oldest` at least `wanted`. Both are releases of PyTorch, such as "1.9"; "" is before all.
void at_least(std::string_view wanted, std::string* oldest);

// Refuses what PyTorch would refuse (script/check.h), with line and caret, if `check`. Refuses in any case
// objects with attributes whose class reads a state. The oldest PyTorch that runs the code and reads the
// tensors; empty if nobody can tell.
Result<std::string> check_resolved(const Resolved& resolved, bool check);
// The same of code that is parsed already.
Result<std::string> check_resolved(const Resolved& resolved, Result<script::Declarations>* code, bool check);

}  // namespace tenon::module
