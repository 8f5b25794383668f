// The part of Printer (printer_impl.h) that prints statements, functions and classes.
#include "modules/script/printer.h"
#include "modules/script/printer_impl.h"

namespace tenon::script {

void Printer::block(StmtList body, unsigned level) {
  out += ":\n";
  for (const Stmt* inner : body) stmt(*inner, level + 1);
}

void Printer::stmt(const Stmt& stmt, unsigned level) {
  if (stmt.kind == StmtKind::kDef) return function(*stmt.function, level);
  if (stmt.kind == StmtKind::kIf) return if_stmt(stmt, level);
  begin(level);
  switch (stmt.kind) {
    case StmtKind::kWhile:
      out += "while ";
      expr(*stmt.value);
      return block(stmt.body, level);
    case StmtKind::kFor:
      out += "for ";
      target_list(stmt.targets);
      out += stmt.targets.empty() ? "in " : " in ";
      list(stmt.iterables);
      return block(stmt.body, level);
    case StmtKind::kWith:
      out += "with";
      for (size_t i = 0; i < stmt.with_items.size(); ++i) {
        out += i > 0 ? ", " : " ";
        expr(*stmt.with_items[i].value);
        if (stmt.with_items[i].name != nullptr)
          out.append(" as ").append(stmt.with_items[i].name->text);
      }
      return block(stmt.body, level);
    default: simple_stmt(stmt); out += '\n';
  }
}

void Printer::simple_stmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kExpr: return expr(*stmt.value);
    case StmtKind::kAssign:
    case StmtKind::kAugAssign: return assign(stmt);
    case StmtKind::kReturn:
      out += "return";
      if (stmt.value == nullptr) return;
      out += ' ';
      return expr(*stmt.value);
    case StmtKind::kRaise: out += "raise "; return expr(*stmt.value);
    case StmtKind::kAssert:
      out += "assert ";
      expr(*stmt.value);
      if (stmt.message == nullptr) return;
      out += ", ";
      return expr(*stmt.message);
    case StmtKind::kDelete: out += "del "; return list(stmt.targets);
    case StmtKind::kGlobal: out += "global "; return list(stmt.targets);
    case StmtKind::kBreak: out += "break"; return;
    case StmtKind::kContinue: out += "continue"; return;
    default: out += "pass"; return;
  }
}

void Printer::assign(const Stmt& stmt) {
  // A single tuple as target has no parentheses and a comma at its end, as PyTorch prints it.
  const bool unpacks = stmt.targets.size() == 1 && stmt.targets[0]->kind == ExprKind::kTuple &&
                       !stmt.targets[0]->children.empty() && stmt.annotation == nullptr &&
                       stmt.op == Operator::kNothing;
  if (unpacks) {
    list(stmt.targets[0]->children);
    out += ',';
  } else {
    for (size_t i = 0; i < stmt.targets.size(); ++i) {
      if (i > 0) out += " = ";
      expr(*stmt.targets[i]);
    }
  }
  if (stmt.annotation != nullptr) {
    out += " : ";
    expr(*stmt.annotation);
  }
  if (stmt.value == nullptr) return;
  out.append(1, ' ').append(operator_text(stmt.op)).append("= ");
  expr(*stmt.value);
}

// Puts parentheses around targets with operators. Otherwise the `in` after them would be taken for
// an operator too.
void Printer::target_list(ExprList targets) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i > 0) out += ", ";
    operand(*targets[i]);
  }
}

void Printer::if_stmt(const Stmt& stmt, unsigned level) {
  begin(level);
  out += stmt.is_elif ? "elif " : "if ";
  expr(*stmt.value);
  block(stmt.body, level);
  if (stmt.else_body.empty()) return;
  if (stmt.else_body.size() == 1 && stmt.else_body[0]->is_elif)
    return if_stmt(*stmt.else_body[0], level);
  begin(level);
  out += "else";
  block(stmt.else_body, level);
}

void Printer::function(const Function& function, unsigned level) {
  begin(level);
  out.append("def ").append(function.name);
  params(function);
  if (function.returns != nullptr) {
    out += " -> ";
    expr(*function.returns);
  }
  out += ":\n";
  if (const TypeComment* const comment = function.type_comment; comment != nullptr) {
    begin(level + 1);
    out += "# type: (";
    list(comment->params);
    out += ')';
    if (comment->returns != nullptr) {
      out += " -> ";
      expr(*comment->returns);
    }
    out += '\n';
  }
  for (const Stmt* inner : function.body) stmt(*inner, level + 1);
}

// Every parameter but the first has a line of its own. PyTorch indents it by four at every level.
void Printer::params(const Function& function) {
  out += '(';
  bool keyword_only = false;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Param& param = function.params[i];
    if (i > 0) {
      out += ",\n    ";
    }
    if (param.keyword_only && !keyword_only) {
      out += "*, ";
      keyword_only = true;
    }
    out += param.name;
    if (param.annotation != nullptr) {
      out += ": ";
      expr(*param.annotation);
    }
    if (param.default_value != nullptr) {
      out += '=';
      expr(*param.default_value);
    }
  }
  out += ')';
}

void Printer::class_def(const Class& class_def) {
  out.append("class ").append(class_def.name);
  if (class_def.base != nullptr) {
    out += '(';
    expr(*class_def.base);
    out += ')';
  }
  block(class_def.body, 0);
}

std::string print(const Stmt& stmt, unsigned level) {
  Printer printer;
  printer.stmt(stmt, level);
  return std::move(printer.out);
}

std::string print(const Function& function, unsigned level) {
  Printer printer;
  printer.function(function, level);
  return std::move(printer.out);
}

std::string print(const Class& class_def) {
  Printer printer;
  printer.class_def(class_def);
  return std::move(printer.out);
}

std::string print(const Item& item) {
  switch (item.kind) {
    case ItemKind::kClass: return print(*item.class_def);
    case ItemKind::kFunction: return print(*item.function);
    case ItemKind::kVersion: return "op_version_set = " + std::to_string(item.version) + "\n";
    case ItemKind::kImport: break;
  }
  return item.import_name.empty() ? "import\n" : "import " + std::string(item.import_name) + "\n";
}

}  // namespace tenon::script
