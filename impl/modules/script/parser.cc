#include "modules/script/parser.h"

#include "modules/script/parser_impl.h"

namespace tenon::script {
Parser::Parser(const Source& source, NodeMemory& nodes, const ParseLimits& limits)
    : source_(source), nodes_(nodes), limits_(limits), lexer_(source) {
  current_ = lexer_.next();
}

void Parser::advance() {
  if (current_.kind != TokenKind::kNewline && current_.kind != TokenKind::kIndent &&
      current_.kind != TokenKind::kDedent) {
    last_end_ = current_.range.end;
  }
  if (current_.kind == TokenKind::kNewline) line_end_ = current_.range.end + 1;
  if (has_ahead_) {
    current_ = ahead_;
    has_ahead_ = false;
  } else {
    current_ = lexer_.next();
  }
}

bool Parser::accept(TokenKind kind) {
  if (current_.kind != kind) return false;
  advance();
  return true;
}

bool Parser::expect(TokenKind kind) {
  if (accept(kind)) return true;
  expected(token_name(kind));
  return false;
}

TokenKind Parser::following() {
  if (!has_ahead_) {
    ahead_ = lexer_.next();
    has_ahead_ = true;
  }
  return ahead_.kind;
}

std::nullptr_t Parser::fail(Code code, Range range, const std::string& what) {
  if (status_.is_ok()) status_ = source_.error(code, range, what);
  return nullptr;
}

std::nullptr_t Parser::too_deep(Range range) {
  return fail(Code::kResourceExhausted, range,
              format("this is nested deeper than %u", static_cast<unsigned>(limits_.max_depth)));
}

bool Parser::enough_memory(Range range) {
  if (nodes_.nbytes() <= limits_.max_tree_nbytes) return true;
  fail(Code::kResourceExhausted, range,
       format("the tree of this file takes more than %zu bytes", limits_.max_tree_nbytes));
  return false;
}

Result<std::shared_ptr<const File>> Parser::file(Source source, const ParseLimits& limits) {
  const std::shared_ptr<File> made(new File(std::move(source)));
  Parser parser(made->source_, made->nodes_, limits);
  std::vector<Item> items;
  if (!parser.items(items, made->tail_)) return std::move(parser.status_);
  made->items_ = made->nodes_.copy(items);
  made->indent_ = parser.lexer_.indent();
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].name().empty()) made->index_[items[i].name()] = i;
  }
  return std::shared_ptr<const File>(made);
}

Result<std::shared_ptr<const ParsedExpr>> Parser::expression(Source source,
                                                             const ParseLimits& limits) {
  const std::shared_ptr<ParsedExpr> made(new ParsedExpr(std::move(source)));
  Parser parser(made->source_, made->nodes_, limits);
  made->expr_ = parser.expr_or_tuple();
  if (made->expr_ != nullptr) parser.accept(TokenKind::kNewline);
  if (made->expr_ == nullptr || !parser.expect(TokenKind::kEnd)) return std::move(parser.status_);
  return std::shared_ptr<const ParsedExpr>(made);
}

const Item* File::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found != index_.end() ? &items_[found->second] : nullptr;
}

namespace {

Status check_size(const std::string& name, const std::string& text, const ParseLimits& limits) {
  if (text.size() <= limits.max_nbytes) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("%s: the text has %zu bytes, and no more than %u are read", name.c_str(),
                       text.size(), limits.max_nbytes))
      .with("file", name);
}

}  // namespace

Result<std::shared_ptr<const File>> parse_file(std::string name, std::string text,
                                               const ParseLimits& limits, uint32_t first_line) {
  TENON_TRY(check_size(name, text, limits));
  return Parser::file(Source(std::move(name), std::move(text), first_line), limits);
}

Result<std::shared_ptr<const ParsedExpr>> parse_expression(std::string name, std::string text,
                                                           const ParseLimits& limits) {
  TENON_TRY(check_size(name, text, limits));
  return Parser::expression(Source(std::move(name), std::move(text)), limits);
}

}  // namespace tenon::script
