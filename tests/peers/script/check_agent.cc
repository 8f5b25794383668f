// The agent of check_test.py. It checks programs: it reads cases from stdin, and writes a line for
// each.
//
//   case <version> <constants> <files> <roots>
//
// For each file follow <qualifier> <nbytes>, a newline, the bytes and a newline. For each root
// follows its name.
//
// An answer has tabs between its fields: "taken <oldest> <newest or -> <because of, or ->
// <versioned operators> <foreign namespaces>", where lists are joined by commas. Then comes a line
// that begins with "~" for each sentence about calls that one of two PyTorch versions refuses. Or
// the answer is "refused <one-line message>", followed by the excerpt in lines that begin with "|".
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "modules/script/check.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"
#include "modules/script/requirements.h"

namespace {

using namespace tenon::script;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? "-" : text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

struct Head {
  int64_t version = 0;
  size_t constants = 0;
  size_t files = 0;
  size_t roots = 0;
};

tenon::Status check(std::istream& in, const Head& head, Uses* uses) {
  Declarations declarations;
  declarations.set_constants(head.constants);
  tenon::Status status;
  for (size_t i = 0; i < head.files; ++i) {
    std::string qualifier;
    size_t nbytes = 0;
    in >> qualifier >> nbytes;
    in.get();
    std::string text(nbytes, '\0');
    in.read(text.data(), static_cast<std::streamsize>(nbytes));
    if (!status.is_ok()) continue;
    auto parsed = parse_file(qualifier, std::move(text));
    status =
        parsed.is_ok() ? declarations.add(qualifier, parsed.value()) : std::move(parsed).status();
  }
  std::vector<std::string> names(head.roots);
  for (std::string& name : names) in >> name;
  if (!status.is_ok()) return status;
  CheckOptions options;
  options.archive_version = head.version;
  return check_reachable(declarations, names, options, uses);
}

void print_refusal(const tenon::Status& status) {
  std::cout << "refused\t" << status.message() << '\n';
  for (const auto& detail : status.info()->details) {
    if (detail.key != "excerpt") continue;
    std::istringstream lines(detail.value);
    for (std::string line; std::getline(lines, line);) std::cout << '|' << line << '\n';
  }
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string word;
  Head head;
  while (std::cin >> word >> head.version >> head.constants >> head.files >> head.roots) {
    Uses uses;
    const tenon::Status status = check(std::cin, head, &uses);
    if (!status.is_ok()) {
      print_refusal(status);
      continue;
    }
    const Requirements needs = requirements(uses);
    std::cout << "taken\t" << or_dash(needs.oldest_torch) << '\t' << or_dash(needs.newest_torch)
              << '\t' << or_dash(needs.because_of) << '\t' << joined(needs.versioned_operators)
              << '\t' << joined(needs.foreign_namespaces) << '\n';
    for (const std::string& line : partly_refused_lines(uses)) std::cout << '~' << line << '\n';
  }
  return 0;
}
