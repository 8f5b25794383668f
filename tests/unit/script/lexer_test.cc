// These tests check the tokens that the lexer makes of lines, indents and words.
#include "modules/script/lexer.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

// Prints the tokens with spaces between them. `>` and `<` stand for indents and dedents, and `;`
// for the end of a line.
std::string tokens(const std::string& text) {
  const Source source("t", text);
  Lexer lexer(source);
  std::string all;
  for (;;) {
    const Token token = lexer.next();
    if (token.kind == TokenKind::kEnd) return all;
    if (!all.empty()) all += ' ';
    switch (token.kind) {
      case TokenKind::kError: return all + "error: " + lexer.error().message();
      case TokenKind::kNewline: all += ';'; break;
      case TokenKind::kIndent: all += '>'; break;
      case TokenKind::kDedent: all += '<'; break;
      default: all += source.text(token.range);
    }
  }
}

TEST(Lexer, Lines) {
  EXPECT_EQ(tokens("a\nb\n"), "a ; b ;");
  EXPECT_EQ(tokens("a\n\n\n# c\n   \nb"), "a ; b");
  EXPECT_EQ(tokens("a # c\nb # d"), "a ; b");
  EXPECT_EQ(tokens("a\r\nb\r\n"), "a ; b ;");
  EXPECT_EQ(tokens(""), "");
  EXPECT_EQ(tokens("# only"), "");
}

TEST(Lexer, Indents) {
  EXPECT_EQ(tokens("a\n  b\n  c\nd\n"), "a > b ; c ; < d ;");
  EXPECT_EQ(tokens("a\n  b\n    c\nd\n"), "a > b > c ; < < d ;");
  EXPECT_EQ(tokens("a\n  b\n    c\n"), "a > b > c ; < <");
  EXPECT_EQ(tokens("  a\n    b\n  c\n"), "a > b ; < c ;");
  EXPECT_EQ(tokens("a\n\tb\n c\n"), "a > b ; c ; <");  // every blank counts as one column
  EXPECT_EQ(tokens("a\n  b\n # odd\n  c\n"), "a > b ; c ; <");
  EXPECT_EQ(tokens("a\n  b\n      "), "a > b ; <");
  EXPECT_EQ(tokens("a\n    b\n  c\n"), "a > b ; error: t:3:1: no line above is indented by 2");
  EXPECT_EQ(tokens("  a\n b\n"), "a ; error: t:2:1: no line above is indented by 1");
}

TEST(Lexer, JoinedLines) {
  EXPECT_EQ(tokens("a = (1,\n   2 # c\n\n)\nb"), "a = ( 1 , 2 ) ; b");
  EXPECT_EQ(tokens("a = \\\n  b\nc"), "a = b ; c");
  EXPECT_EQ(tokens("a \\ \nb"), "a error: t:1:3: only a line end may follow '\\'");
  EXPECT_EQ(tokens("a)\nb\n"), "a ) ; b ;");
}

TEST(Lexer, Words) {
  EXPECT_EQ(tokens("a not in b"), "a not in b");
  const Source source("t", "x is nothing");
  Lexer lexer(source);
  lexer.next();
  EXPECT_EQ(lexer.next().kind, TokenKind::kIsNot);  // then comes the name `hing`, as in PyTorch
  EXPECT_EQ(source.text(lexer.next().range), "hing");
  EXPECT_EQ(tokens("a**=b//c<<=d->e...f..g"), "a **= b // c <<= d -> e ... f . . g");
  EXPECT_EQ(tokens("1if x"), "1 if x");
  EXPECT_EQ(tokens("x = 'a' \"b\""), "x = 'a' \"b\"");
  EXPECT_EQ(tokens("# type: (int) -> int # more"), "# type: ( int ) -> int");
  EXPECT_EQ(tokens("#type: x"), "");
}

TEST(Lexer, WhatItRefuses) {
  EXPECT_EQ(tokens("a; b"), "a error: t:1:2: ';' is not read: a statement has its own line");
  EXPECT_EQ(tokens("a = 'x\n'"), "a = error: t:1:5: this string does not end");
  EXPECT_EQ(tokens("a $"), "a error: t:1:3: '$' has no meaning");
  EXPECT_EQ(tokens(std::string("a\0", 2)), "a error: t:1:2: byte 0x00 has no meaning");
  EXPECT_EQ(tokens("a\xc3\xa9"),
            "a error: t:1:2: letters beyond ASCII are read in strings and comments only");
  const Source source("t", "$ a");
  Lexer lexer(source);
  EXPECT_EQ(lexer.next().kind, TokenKind::kError);
  EXPECT_EQ(lexer.next().kind, TokenKind::kError);
}

}  // namespace
}  // namespace tenon::script
