// libFuzzer target: it checks any bytes as a code file. This must end in an error with a place, or
// the file is accepted.
#include <cstdint>
#include <string>
#include <utility>

#include "modules/script/check.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"
#include "modules/script/requirements.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::script;

void require_place(const Status& status) {
  require(!status.message().empty(), "refused without a message");
  bool line = false;
  for (const Detail& detail : status.info()->details) line = line || detail.key == "line";
  require(line, "refused without a line");
}

void check(std::string text) {
  auto parsed = parse_file("__torch__", std::move(text));
  if (!parsed.is_ok()) return;
  Declarations declarations;
  const Status declared = declarations.add("__torch__", parsed.value());
  if (!declared.is_ok()) return require_place(declared);
  Uses uses;
  const Status status = check_file(declarations, "__torch__", *parsed.value(), {}, &uses);
  if (!status.is_ok()) return require_place(status);
  const Requirements needs = requirements(uses);
  require(needs.because_of.empty() || uses.operators.contains(needs.because_of),
          "needed for an operator that is not used");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
