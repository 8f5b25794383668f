#include "modules/script/signature.h"

#include <utility>

namespace tenon::script {
namespace {

// This is larger than any type that value::Type takes. The limit guards against an annotation that
// is a whole file.
constexpr uint32_t kMaxTypeNbytes = 1 << 20;

class TypeText {
 public:
  explicit TypeText(const Source& source) : source_(source) {}

  bool append(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kName:
      case ExprKind::kAttribute: {
        const std::string name = dotted_name(expr);
        if (name.empty()) return refuse(expr);
        text += name;
        return true;
      }
      case ExprKind::kNone:
      case ExprKind::kNoneType: text += "NoneType"; return true;
      case ExprKind::kTuple:
        if (!expr.children.empty()) return refuse(expr);
        text += "()";
        return true;
      case ExprKind::kSubscript: {
        if (!append(expr.child(0))) return false;
        return list(expr.arguments());
      }
      case ExprKind::kBinary:
        if (expr.op != Operator::kBitOr) return refuse(expr);
        text += "Union[";
        if (!members(expr)) return false;
        text += ']';
        return true;
      default: return refuse(expr);
    }
  }

  std::string text;
  Status status;

 private:
  bool list(ExprList items) {
    text += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text += ", ";
      if (!append(*items[i])) return false;
    }
    text += ']';
    return true;
  }

  bool members(const Expr& expr) {
    if (expr.kind != ExprKind::kBinary || expr.op != Operator::kBitOr) return append(expr);
    if (!members(expr.child(0))) return false;
    text += ", ";
    return members(expr.child(1));
  }

  bool refuse(const Expr& expr) {
    if (status.is_ok()) status = source_.error(Code::kCorrupt, expr.range, "this is no type");
    return false;
  }

  const Source& source_;
};

}  // namespace

Result<value::TypeRef> annotation_type(const Source& source, const Expr& annotation) {
  if (annotation.range.nbytes() > kMaxTypeNbytes)
    return source.error(Code::kResourceExhausted, annotation.range, "this type is too long");
  TypeText made(source);
  if (!made.append(annotation)) return std::move(made.status);
  Result<value::TypeRef> parsed = value::Type::parse(made.text);
  if (parsed.is_ok()) return parsed;
  return source.error(Code::kCorrupt, annotation.range, parsed.status().message())
      .caused_by(parsed.status());
}

Result<Signature> signature(const Source& source, const Function& function, bool is_method) {
  Signature made;
  const TypeComment* const comment = function.type_comment;
  const size_t receivers = is_method ? 1 : 0;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Param& param = function.params[i];
    const bool in_comment =
        comment != nullptr && i >= receivers && i - receivers < comment->params.size();
    const Expr* const annotation = in_comment ? comment->params[i - receivers] : param.annotation;
    Parameter parameter{std::string(param.name), {}, param.default_value, param.keyword_only};
    if (annotation != nullptr) {
      TENON_ASSIGN(parameter.type, annotation_type(source, *annotation));
    }
    made.parameters.push_back(std::move(parameter));
  }
  const Expr* const returns = comment != nullptr ? comment->returns : function.returns;
  if (returns != nullptr) {
    TENON_ASSIGN(made.returns, annotation_type(source, *returns));
  }
  return made;
}

}  // namespace tenon::script
