// The part of Parser that reads functions, classes and the items of a file.
#include "modules/script/parser_impl.h"
#include "modules/script/scan.h"

namespace tenon::script {

const Function* Parser::function(bool is_method) {
  if (!enough_memory(current_.range)) return nullptr;
  Function* const made = nodes_.make<Function>();
  made->range.begin = current_.range.begin;
  advance();
  if (kind() != TokenKind::kName) return expected("a function's name");
  made->name = text(current_);
  made->name_range = current_.range;
  advance();
  std::vector<Param> taken;
  if (!params(taken)) return nullptr;
  made->params = nodes_.copy(taken);
  if (accept(TokenKind::kArrow) && (made->returns = expr()) == nullptr) return nullptr;
  if (!expect(TokenKind::kColon)) return nullptr;
  const bool indented = accept(TokenKind::kIndent);
  if (kind() == TokenKind::kTypeComment) {
    made->type_comment = type_comment(*made, is_method);
    if (made->type_comment == nullptr || (indented && !expect(TokenKind::kNewline))) return nullptr;
  }
  if (indented) {
    if (!statements(made->body, false)) return nullptr;
  } else {
    if (kind() == TokenKind::kNewline) return expected("an indented block");
    const Stmt* const only = statement();
    if (only == nullptr) return nullptr;
    made->body = nodes_.copy(std::vector<const Stmt*>{only});
  }
  made->range.end = last_end_;
  return made;
}

bool Parser::params(std::vector<Param>& params) {
  if (!expect(TokenKind::kOpenParen)) return false;
  bool keyword_only = false;
  while (kind() != TokenKind::kCloseParen) {
    if (kind() == TokenKind::kStar && !keyword_only) {
      keyword_only = true;
      const Range star = current_.range;
      advance();
      if (kind() == TokenKind::kName) {
        fail(Code::kUnsupported, {star.begin, current_.range.end},
             "a parameter that takes any number of arguments is not read");
        return false;
      }
    } else if (kind() == TokenKind::kSlash) {
      fail(Code::kUnsupported, current_.range,
           "parameters without a name for the caller ('/') are not read");
      return false;
    } else {
      Param made;
      made.keyword_only = keyword_only;
      if (!param(made)) return false;
      params.push_back(made);
    }
    if (!accept(TokenKind::kComma)) break;
  }
  if (accept(TokenKind::kCloseParen)) return true;
  expected("',' or ')'");
  return false;
}

bool Parser::param(Param& made) {
  if (kind() != TokenKind::kName) {
    expected("a parameter's name");
    return false;
  }
  made.name = text(current_);
  made.name_range = current_.range;
  advance();
  if (accept(TokenKind::kColon) && (made.annotation = expr()) == nullptr) return false;
  if (accept(TokenKind::kAssign) && (made.default_value = expr()) == nullptr) return false;
  return true;
}

const TypeComment* Parser::type_comment(const Function& function, bool is_method) {
  if (!enough_memory(current_.range)) return nullptr;
  TypeComment* const made = nodes_.make<TypeComment>();
  made->range.begin = current_.range.begin;
  advance();
  if (!expect(TokenKind::kOpenParen)) return nullptr;
  std::vector<const Expr*> types;
  if (!expr_list(TokenKind::kCloseParen, types)) return nullptr;
  if (accept(TokenKind::kArrow) && (made->returns = expr()) == nullptr) return nullptr;
  made->params = nodes_.copy(types);
  made->range.end = last_end_;
  const size_t receivers = is_method ? 1 : 0;
  if (types.size() + receivers != function.params.size()) {
    return fail(Code::kCorrupt, made->range,
                format("%zu types for %zu parameters%s", types.size(), function.params.size(),
                       is_method ? ", the receiver, which has none here, among them" : ""));
  }
  return made;
}

const Class* Parser::class_definition() {
  if (!enough_memory(current_.range)) return nullptr;
  Class* const made = nodes_.make<Class>();
  made->range.begin = current_.range.begin;
  advance();
  if (kind() != TokenKind::kName) return expected("a class's name");
  made->name = text(current_);
  made->name_range = current_.range;
  advance();
  if (accept(TokenKind::kOpenParen)) {
    if (kind() == TokenKind::kCloseParen)
      return fail(Code::kUnsupported, current_.range,
                  "empty parentheses after a class's name are not read");
    if ((made->base = expr()) == nullptr) return nullptr;
    if (kind() == TokenKind::kComma)
      return fail(Code::kUnsupported, current_.range, "a class has one base at most");
    if (!expect(TokenKind::kCloseParen)) return nullptr;
  }
  if (!block(made->body, true)) return nullptr;
  made->range.end = last_end_;
  return made;
}

bool Parser::items(std::vector<Item>& items, Range& tail) {
  const auto end = static_cast<uint32_t>(source_.text().size());
  uint32_t extent_begin = 0;
  while (kind() != TokenKind::kEnd) {
    Item made;
    if (!item(made, items.empty())) return false;
    made.extent = {extent_begin, line_end_};
    extent_begin = line_end_;
    items.push_back(made);
  }
  // The importer wants another item after an import.
  if (!items.empty() && items.back().kind == ItemKind::kImport) {
    expected("a class or a function");
    return false;
  }
  tail = {extent_begin, end};
  return true;
}

bool Parser::item(Item& made, bool is_first) {
  made.range.begin = current_.range.begin;
  bool taken = false;
  switch (kind()) {
    case TokenKind::kClass:
      made.kind = ItemKind::kClass;
      made.class_def = class_definition();
      taken = made.class_def != nullptr;
      break;
    case TokenKind::kDef:
      made.kind = ItemKind::kFunction;
      made.function = function(false);
      taken = made.function != nullptr;
      break;
    case TokenKind::kImport: taken = import(made); break;
    case TokenKind::kName:
      if (is_first && text(current_) == "op_version_set") {
        taken = version(made);
        break;
      }
      [[fallthrough]];
    default: expected("a class or a function"); return false;
  }
  made.range.end = last_end_;
  return taken;
}

bool Parser::version(Item& made) {
  made.kind = ItemKind::kVersion;
  advance();
  if (!expect(TokenKind::kAssign)) return false;
  if (kind() != TokenKind::kNumber) {
    expected("a number");
    return false;
  }
  made.version = int_value(text(current_)).value_or(0);
  advance();
  return expect(TokenKind::kNewline);
}

// Reads to the end of the line without a check, as the importer does.
bool Parser::import(Item& made) {
  made.kind = ItemKind::kImport;
  advance();
  const uint32_t begin = current_.range.begin;
  while (kind() != TokenKind::kNewline) {
    if (kind() == TokenKind::kEnd || kind() == TokenKind::kError) {
      expected("the end of the line");
      return false;
    }
    advance();
  }
  if (last_end_ > begin) made.import_name = source_.text({begin, last_end_});
  advance();
  return true;
}

}  // namespace tenon::script
