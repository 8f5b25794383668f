// libFuzzer target: it parses any text as an annotation. This must end in an error with a column or
// in a type. The printed type must parse to the same type.
#include <cstdint>
#include <string>
#include <string_view>

#include "modules/value/type.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::value;

void check(std::string_view text, const TypeParseOptions& options) {
  const Result<TypeRef> parsed = Type::parse(text, options);
  if (!parsed.is_ok()) {
    require(parsed.status().code() == Code::kInvalidArgument,
            "another error than INVALID_ARGUMENT");
    require(!parsed.status().detail("column").empty(), "an error without a column");
    require(parsed.status().message().size() < 1000, "an endless error message");
    return;
  }
  Result<TypeRef> copy = parsed;
  const TypeRef type = std::move(copy).value();
  require(type->depth() <= Type::kMaxDepth && type->nodes() <= Type::kMaxNodes,
          "a type over the limits");
  const std::string printed = type->print();
  Result<TypeRef> again = Type::parse(printed, options);
  require(again.is_ok(), "what is printed does not parse");
  require(again.value()->equals(*type), "what is printed is another type");
  require(again.value()->print() == printed, "printed twice, and not the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, {});
  check(text, {.short_class_names = true});
  return 0;
}
