// The agent of language_test.py. It parses programs. Each program on stdin is a line "<command>
// <nbytes>", then its bytes. The answer is a line:
//
//   parse     "taken": the text was parsed, its print parses to the same tree, and its extents are
//             its bytes
//   classes   the same, and class_parts also accepts every class
//   print     "printed <nbytes>", and then the bytes
//
// or "refused <code> <line> <column> <message>", or "broken <what>" for a bug of ours.
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "modules/script/class_parts.h"
#include "modules/script/parser.h"
#include "modules/script/printer.h"

namespace {

using namespace tenon;
using namespace tenon::script;

std::string detail(const Status& status, const std::string& key) {
  for (const Detail& entry : status.info()->details) {
    if (entry.key == key) return entry.value;
  }
  return "-";
}

std::string fault(const File& file) {
  std::string extents;
  std::string printed;
  for (const Item& item : file.items()) {
    extents += file.source().text(item.extent);
    printed += print(item);
  }
  extents += file.source().text(file.tail());
  if (extents != file.source().text()) return "the extents are not the text";
  Result<std::shared_ptr<const File>> again = parse_file("printed", printed);
  if (!again.is_ok()) return "what was printed is refused: " + again.status().message();
  const std::span<const Item> items = again.value()->items();
  if (items.size() != file.items().size()) return "what was printed has other items";
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& a = file.items()[i];
    const Item& b = items[i];
    if (a.kind != b.kind || a.version != b.version || a.import_name != b.import_name)
      return "what was printed has another item";
    if (a.class_def != nullptr && !equal(*a.class_def, *b.class_def))
      return "what was printed is another class: " + printed;
    if (a.function != nullptr && !equal(*a.function, *b.function))
      return "what was printed is another function: " + printed;
    if (print(a) != print(b)) return "what was printed prints otherwise";
  }
  return "";
}

std::string one_line(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text;
}

std::string refused(const Status& status) {
  return "refused " + std::string(code_name(status.code())) + " " + detail(status, "line") + " " +
         detail(status, "column") + " " + status.message();
}

std::string answer(const std::string& command, std::string text) {
  Result<std::shared_ptr<const File>> parsed = parse_file("code/__torch__.py", std::move(text));
  if (!parsed.is_ok()) return refused(parsed.status());
  const File& file = *parsed.value();
  if (command == "print") {
    std::string printed;
    for (const Item& item : file.items()) printed += print(item);
    return "printed " + std::to_string(printed.size()) + "\n" + printed;
  }
  if (command == "classes") {
    for (const Item& item : file.items()) {
      if (item.class_def == nullptr) continue;
      if (const Result<ClassParts> parts = class_parts(file.source(), *item.class_def);
          !parts.is_ok())
        return refused(parts.status());
    }
  }
  const std::string what = fault(file);
  return what.empty() ? "taken" : "broken " + one_line(what);
}

}  // namespace

int main() {
  std::string command;
  size_t nbytes = 0;
  while (std::cin >> command >> nbytes) {
    std::cin.get();
    std::string text(nbytes, '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(nbytes));
    const std::string said = answer(command, std::move(text));
    std::cout << said << (command == "print" && said.starts_with("printed") ? "" : "\n")
              << std::flush;
  }
}
