#include "modules/module/inline_constants.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "modules/script/ast_walk.h"

namespace tenon::module {

using script::Expr;
using script::ExprKind;

std::string inline_constants(const script::File& file, const script::Class& class_def,
                             const ClassBody& body) {
  if (body.constants.empty()) return {};
  std::map<uint32_t, std::pair<script::Range, const ConstantDecl*>> places;
  for (const script::Stmt* statement : class_def.body) {
    if (statement->kind != script::StmtKind::kDef || statement->function->params.empty()) continue;
    const std::string_view self = statement->function->params[0].name;
    script::AstVisitor visitor;
    visitor.expression = [&](const Expr& expr) {
      if (expr.kind != ExprKind::kAttribute || expr.child(0).kind != ExprKind::kName ||
          expr.child(0).text != self)
        return;
      const size_t constant = body.find_constant(expr.text);
      if (constant != SIZE_MAX) places[expr.range.begin] = {expr.range, &body.constants[constant]};
    };
    walk(*statement->function, visitor);
  }
  if (places.empty()) return {};
  const std::string_view text = file.source().text();
  std::string made;
  size_t copied = 0;
  for (const auto& [begin, place] : places) {
    made += text.substr(copied, begin - copied);
    // A sign binds less tightly than an operator that may follow the constant.
    const bool is_signed = place.second->text.starts_with('-');
    made += is_signed ? "(" + place.second->text + ")" : place.second->text;
    copied = place.first.end;
  }
  made += text.substr(copied);
  return made;
}

}  // namespace tenon::module
