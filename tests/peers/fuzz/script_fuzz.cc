// libFuzzer target: it parses any bytes as source. This must end in a typed error with its place,
// or in a tree that its printed form gives again and whose extents are the bytes. Functions that
// read the tree may fail only with a typed error.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "modules/script/class_parts.h"
#include "modules/script/parser.h"
#include "modules/script/printer.h"
#include "modules/script/rename.h"
#include "modules/script/signature.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::script;

void check_refusal(const Status& status) {
  fuzz::require_refusal(status, {Code::kCorrupt, Code::kUnsupported, Code::kResourceExhausted},
                        {"line", "column", "excerpt"});
}

void look_at(const File& file, const Function& function, bool is_method) {
  if (const Result<Signature> made = signature(file.source(), function, is_method); !made.is_ok())
    check_refusal(made.status());
}

void look_at(const File& file, const Item& item) {
  if (item.function != nullptr) look_at(file, *item.function, false);
  if (item.class_def != nullptr) {
    Result<ClassParts> parts = class_parts(file.source(), *item.class_def);
    if (!parts.is_ok()) return check_refusal(parts.status());
    for (const Method& method : parts.value().methods) look_at(file, *method.function, true);
  }
}

// Renames each name that the item uses, and renames it back. The text must have the same tree.
void rename_and_back(const File& file, const Item& item) {
  std::string root = "q";
  while (file.source().text().find(root) != std::string_view::npos) root += 'q';
  NewNames there;
  NewNames back;
  for (const std::string& name : used_names(file, item.range)) {
    // These names tell a type from a variable.
    if (name == "annotate" || name == "unchecked_cast" || name == "uninitialized" ||
        name == "isinstance")
      continue;
    const std::string other = root + "." + name + "_";
    there[name] = other;
    back[other] = name;
  }
  const std::string text = renamed(file, item.range, there) + "\n";
  Result<std::shared_ptr<const File>> other = parse_file("renamed", text);
  // A name with one part more can exceed a limit.
  if (!other.is_ok())
    return require(other.status().code() == Code::kResourceExhausted, "renamed, it is refused",
                   text);
  const std::string same = renamed(*other.value(), {0, static_cast<uint32_t>(text.size())}, back);
  Result<std::shared_ptr<const File>> again = parse_file("again", same);
  require(again.is_ok() && again.value()->items().size() == 1, "renamed back, it is refused", same);
  require(print(again.value()->items()[0]) == print(item), "renamed back, it is another", same);
}

void parse_and_check(const std::string& text) {
  Result<std::shared_ptr<const File>> parsed = parse_file("fuzz", text);
  if (!parsed.is_ok()) return check_refusal(parsed.status());
  const File& file = *parsed.value();
  std::string extents;
  std::string printed;
  for (const Item& item : file.items()) {
    extents += file.source().text(item.extent);
    printed += print(item);
    look_at(file, item);
    if (item.kind == ItemKind::kFunction || item.kind == ItemKind::kClass) {
      if (file.indent() == 0) rename_and_back(file, item);
    }
  }
  extents += file.source().text(file.tail());
  require(extents == text, "the extents are not the text");
  Result<std::shared_ptr<const File>> again = parse_file("printed", printed);
  require(again.is_ok(), "what was printed is refused",
          again.is_ok() ? "" : again.status().message() + "\n" + printed);
  std::string twice;
  for (const Item& item : again.value()->items()) twice += print(item);
  require(twice == printed, "what was printed prints otherwise", printed + "\n" + twice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse_and_check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
