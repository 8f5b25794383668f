#include "modules/script/arguments.h"

#include <algorithm>

#include "base/status.h"
#include "modules/script/schema_text.h"

namespace tenon::script {
namespace {

bool stands_for(std::string_view keyword, const Formal& formal, bool is_aten) {
  return keyword == formal.name || (is_aten && keyword == "input" && formal.name == "self");
}

}  // namespace

Formals Formals::parse(std::string_view text) {
  Formals formals;
  bool keyword_only = false;
  for (SchemaWord word; next_schema_word(&text, &word);) {
    if (word.name == "*")
      keyword_only = true;
    else if (word.name == "...")
      formals.any_more = true;
    else
      formals.list.push_back({word.name, word.has_default, keyword_only, word.takes_rest});
  }
  return formals;
}

CallShape call_shape(const Expr& call, size_t skip) {
  CallShape shape;
  const ExprList arguments = call.arguments();
  for (size_t i = skip; i < arguments.size(); ++i) {
    if (arguments[i]->kind == ExprKind::kStarred)
      shape.open = true;
    else
      ++shape.positional;
  }
  shape.keywords.reserve(call.keywords.size());
  for (const Keyword& keyword : call.keywords) shape.keywords.push_back(keyword.name);
  return shape;
}

bool accepts(const Formals& formals, const CallShape& shape) {
  // No call with more keywords than parameters fits. This check also keeps the time of the search
  // below at most quadratic in the number of parameters.
  if (shape.keywords.size() > formals.list.size()) return false;
  std::vector<bool> used(shape.keywords.size());
  bool self = shape.has_self;
  size_t positional = shape.positional;
  for (size_t i = 0; i < formals.list.size(); ++i) {
    const Formal& formal = formals.list[i];
    if (self && formal.name == "self") {
      self = false;
      continue;
    }
    if (!formal.keyword_only && positional > 0) {
      const bool is_last = i + 1 == formals.list.size() || formals.list[i + 1].keyword_only;
      positional = formal.takes_rest && is_last ? 0 : positional - 1;
      continue;
    }
    bool found = false;
    for (size_t k = 0; k < shape.keywords.size() && !found; ++k) {
      if (!used[k] && stands_for(shape.keywords[k], formal, formals.is_aten))
        found = used[k] = true;
    }
    // An item of a `*x` may be the argument for this parameter.
    if (found || formal.has_default || (shape.open && !formal.keyword_only)) continue;
    return false;
  }
  if (self || (positional > 0 && !formals.any_more)) return false;
  return std::find(used.begin(), used.end(), false) == used.end();
}

std::string describe(const CallShape& shape) {
  std::string text = format("%s%zu positional argument%s", shape.open ? "at least " : "",
                            shape.positional, shape.positional == 1 ? "" : "s");
  for (size_t i = 0; i < shape.keywords.size() && i < 8; ++i) {
    text += i == 0 ? " and " : ", ";
    text.append(shape.keywords[i].substr(0, 40)).push_back('=');
  }
  if (shape.keywords.size() > 8) text += ", ...";
  return text;
}

}  // namespace tenon::script
