#include "modules/script/printer.h"

#include "modules/script/printer_impl.h"

namespace tenon::script {
namespace {

bool is_number(const Expr& expr) {
  return expr.kind == ExprKind::kInt || expr.kind == ExprKind::kFloat ||
         expr.kind == ExprKind::kComplex;
}

// Whether an expression needs no parentheses anywhere, except if it is a number before a dot.
bool is_one_word(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kUnary:
    case ExprKind::kBinary:
    case ExprKind::kConditional:
    case ExprKind::kStarred: return false;
    default: return !(is_number(expr) && expr.text.starts_with('-'));
  }
}

}  // namespace

void Printer::operand(const Expr& expr, std::string_view not_after) {
  const size_t begin = out.size();
  const bool one_word = is_one_word(expr);
  if (!one_word) out += '(';
  this->expr(expr);
  if (!one_word) out += ')';
  // The lexer takes `not in` and `is not` for one word even if the letters after it belong to a
  // longer word, as in `not inside`.
  if (!not_after.empty() && std::string_view(out).substr(begin).starts_with(not_after)) {
    out.insert(begin, "(");
    out += ')';
  }
}

void Printer::base(const Expr& expr) {
  const bool in_parentheses = is_number(expr) || expr.kind == ExprKind::kEllipsis;
  if (!in_parentheses) return operand(expr);
  out += '(';
  this->expr(expr);
  out += ')';
}

void Printer::expr(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName:
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kComplex: out += expr.text; return;
    case ExprKind::kString: out += quoted(expr.text); return;
    case ExprKind::kTrue: out += "True"; return;
    case ExprKind::kFalse: out += "False"; return;
    case ExprKind::kNone: out += "None"; return;
    case ExprKind::kNoneType: out += "NoneType"; return;
    case ExprKind::kEllipsis: out += "..."; return;
    case ExprKind::kAttribute:
      base(expr.child(0));
      out.append(1, '.').append(expr.text);
      return;
    case ExprKind::kCall: return call(expr);
    case ExprKind::kSubscript:
      base(expr.child(0));
      out += '[';
      list(expr.arguments());
      out += ']';
      return;
    case ExprKind::kSlice:
      if (expr.children[0] != nullptr) this->expr(expr.child(0));
      out += ':';
      if (expr.children[1] != nullptr) this->expr(expr.child(1));
      if (expr.children[2] != nullptr) {
        out += ':';
        this->expr(expr.child(2));
      }
      return;
    case ExprKind::kUnary:
      out += operator_text(expr.op);
      if (expr.op == Operator::kNot) out += ' ';
      return operand(expr.child(0), expr.op == Operator::kNot ? "in" : "");
    case ExprKind::kBinary:
      operand(expr.child(0));
      out.append(1, ' ').append(operator_text(expr.op)).append(1, ' ');
      return operand(expr.child(1), expr.op == Operator::kIs ? "not" : "");
    case ExprKind::kConditional:
      operand(expr.child(1));
      out += " if ";
      operand(expr.child(0));
      out += " else ";
      return operand(expr.child(2));
    case ExprKind::kTuple:
      out += '(';
      list(expr.children);
      out += expr.children.size() == 1 ? ",)" : ")";
      return;
    case ExprKind::kList:
      out += '[';
      list(expr.children);
      out += ']';
      return;
    case ExprKind::kDict:
      out += '{';
      for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
        if (i > 0) out += ", ";
        this->expr(expr.child(i));
        out += ": ";
        this->expr(expr.child(i + 1));
      }
      out += '}';
      return;
    case ExprKind::kListComp:
      out += '[';
      operand(expr.child(0));
      comprehension(expr.child(1), expr.child(2));
      out += ']';
      return;
    case ExprKind::kDictComp:
      out += '{';
      operand(expr.child(0));
      out += ": ";
      operand(expr.child(1));
      comprehension(expr.child(2), expr.child(3));
      out += '}';
      return;
    case ExprKind::kStarred: out += '*'; return operand(expr.child(0));
  }
}

void Printer::comprehension(const Expr& target, const Expr& iterable) {
  out += " for ";
  operand(target);
  out += " in ";
  operand(iterable);
}

void Printer::list(ExprList items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    expr(*items[i]);
  }
}

void Printer::call(const Expr& expr) {
  base(expr.child(0));
  out += '(';
  list(expr.arguments());
  bool first = expr.arguments().empty();
  for (const Keyword& keyword : expr.keywords) {
    if (!first) out += ", ";
    first = false;
    out.append(keyword.name).append(1, '=');
    this->expr(*keyword.value);
  }
  out += ')';
}

std::string print(const Expr& expr) {
  Printer printer;
  printer.expr(expr);
  return std::move(printer.out);
}

std::string quoted(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    switch (c) {
      case '\\': made += "\\\\"; continue;
      case '"': made += "\\\""; continue;
      case '\a': made += "\\a"; continue;
      case '\b': made += "\\b"; continue;
      case '\f': made += "\\f"; continue;
      case '\n': made += "\\n"; continue;
      case '\t': made += "\\t"; continue;
      case '\v': made += "\\v"; continue;
      default: break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      made += c;
    } else {
      made += '\\';
      made += static_cast<char>('0' + (byte >> 6));
      made += static_cast<char>('0' + (byte >> 3 & 7));
      made += static_cast<char>('0' + (byte & 7));
    }
  }
  return made + '"';
}

}  // namespace tenon::script
