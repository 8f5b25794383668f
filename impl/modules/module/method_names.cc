#include "modules/module/method_names.h"

namespace tenon::module {

Result<std::vector<std::string>> split_method_names(std::string_view list) {
  std::vector<std::string> names;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    more = comma != std::string_view::npos;
    names.emplace_back(list.substr(0, comma));
    if (names.back().empty()) return Status(Code::kInvalidArgument, "methods has an empty name");
    if (more) list.remove_prefix(comma + 1);
  }
  return names;
}

}  // namespace tenon::module
