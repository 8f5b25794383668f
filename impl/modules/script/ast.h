// The syntax tree of a parsed code file. The parser (parser.h) makes it.
//
// Nodes live in the file's NodeMemory, and never change. So any thread may read them. They point to
// other nodes there and to the text of the source, so no node and no text outlives its File or
// ParsedExpr. Every node knows the range of bytes that it was parsed from. The tree has the
// meaning that PyTorch's importer gives to the text, which can differ from Python's: see
// docs/format/script.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "modules/script/source.h"

namespace tenon::script {

struct Expr;
struct Stmt;
struct Function;
struct Class;

using ExprList = std::span<const Expr* const>;
using StmtList = std::span<const Stmt* const>;

// The comment of a kind names the fields of Expr that it uses.
enum class ExprKind : uint8_t {
  kName,         // text: the name
  kAttribute,    // children: value; text: the attribute's name
  kCall,         // children: callee, positional arguments (kStarred among them); keywords
  kSubscript,    // children: value, indices (kSlice, kNone, kEllipsis among them); none for `x[]`
  kSlice,        // children: start, stop, step; null where one is left out
  kInt,          // text: as written, with a '-' before it where one was folded in
  kFloat,        // like kInt
  kComplex,      // like kInt; the last letter is 'j'
  kString,       // text: its value, adjacent literals joined
  kTrue,         //
  kFalse,        //
  kNone,         //
  kNoneType,     // the keyword `NoneType`
  kEllipsis,     // `...` or `Ellipsis`
  kUnary,        // op; children: operand
  kBinary,       // op, also a comparison, `and` or `or`; children: left, right
  kConditional,  // children: condition, value if true, value if false
  kTuple,        // children: items
  kList,         // children: items
  kDict,         // children: key, value, key, value, ...
  kListComp,     // children: element, target, iterable
  kDictComp,     // children: key, value, target, iterable
  kStarred,      // children: value
};

enum class Operator : uint8_t {
  kNothing,
  // Unary.
  kMinus,
  kInvert,
  kNot,
  // Arithmetic. An augmented assignment has one of these too.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kMatMul,
  kPow,
  kLeftShift,
  kRightShift,
  kBitAnd,
  kBitOr,
  kBitXor,
  // Comparisons.
  kLess,
  kGreater,
  kLessEqual,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kIs,
  kIsNot,
  kIn,
  kNotIn,
  // Logical.
  kAnd,
  kOr,
};

// The operator as code writes it: "+", "not in", …
std::string_view operator_text(Operator op) noexcept;

struct Keyword {
  std::string_view name;
  Range name_range;
  const Expr* value = nullptr;
};

struct Expr {
  ExprKind kind = ExprKind::kNone;
  Operator op = Operator::kNothing;
  // The number of nodes on the longest path down from this node, this node included. The parser
  // limits it.
  uint16_t height = 1;
  // The bytes of the expression. Parentheses around the whole expression are outside the range, and
  // parentheses around a part of it are inside.
  Range range;
  std::string_view text;
  // The bytes of one word of the expression. kName and kAttribute: `text` itself. kUnary, kBinary
  // and kStarred: the operator. kConditional: the `if`. Comprehensions: the `for`.
  Range text_range;
  ExprList children;
  std::span<const Keyword> keywords;

  const Expr& child(size_t i) const noexcept { return *children[i]; }
  // kCall: the positional arguments. kSubscript: the indices.
  ExprList arguments() const noexcept { return children.subspan(1); }
};

// The comment of a kind names the fields of Stmt that it uses.
enum class StmtKind : uint8_t {
  kExpr,       // value; a docstring is one
  kAssign,     // targets (several: `a = b = value`), value, annotation; each may be a kTuple
  kAugAssign,  // targets[0], op, value, annotation (PyTorch takes `x : int += 1`)
  kReturn,     // value, null for a bare `return`
  kRaise,      // value
  kAssert,     // value, message (null: none)
  kIf,         // value: the condition; body, else_body. `elif` is a kIf alone in else_body
  kWhile,      // value, body
  // targets (several: `for a, b in`), iterables, body. PyTorch parses several iterables and refuses
  // them later.
  kFor,
  kWith,      // with_items, body
  kDef,       // function: a method in the body of a class, and elsewhere a nested function
  kDelete,    // targets
  kGlobal,    // targets, all kName. PyTorch's parser takes it, and its compiler refuses it
  kBreak,     //
  kContinue,  //
  kPass,      //
};

struct WithItem {
  const Expr* value = nullptr;
  const Expr* name = nullptr;  // kName; null: no `as`
};

struct Stmt {
  StmtKind kind = StmtKind::kPass;
  Operator op = Operator::kNothing;
  // kIf: it was written `elif`.
  bool is_elif = false;
  // The number of statements on the longest path down from this one, this one included.
  uint16_t height = 1;
  // The bytes from the first token to the end of the last one. Bodies are included.
  Range range;
  ExprList targets;
  ExprList iterables;
  // kAssign: null for `x : T` alone.
  const Expr* value = nullptr;
  // kAssign: the T of `x : T`.
  const Expr* annotation = nullptr;
  const Expr* message = nullptr;
  StmtList body;
  StmtList else_body;
  std::span<const WithItem> with_items;
  const Function* function = nullptr;
};

struct Param {
  std::string_view name;
  Range name_range;
  const Expr* annotation = nullptr;     // null: none
  const Expr* default_value = nullptr;  // null: none
  bool keyword_only = false;
};

// A type comment, `# type: (Tensor, int) -> Tensor`, is the first line of a function's body. It has
// a type for every parameter, except for the receiver of a method. PyTorch takes these types and
// ignores the annotations.
struct TypeComment {
  Range range;
  ExprList params;
  const Expr* returns = nullptr;  // null: the comment names no result, as in `# type: (int)`
};

struct Function {
  std::string_view name;
  Range name_range;
  Range range;
  std::span<const Param> params;
  const Expr* returns = nullptr;              // null: not annotated
  const TypeComment* type_comment = nullptr;  // null: none
  StmtList body;
};

struct Class {
  std::string_view name;
  Range name_range;
  Range range;
  const Expr* base = nullptr;  // `class A(base):`; null: none. PyTorch takes one at most
  // The statements in the order of the text: kAssign (fields, constants, `__parameters__` and the
  // like), kDef (methods) and any other kind that the text has. class_parts.h sorts them.
  StmtList body;
};

enum class ItemKind : uint8_t { kClass, kFunction, kVersion, kImport };

// One item of a file: a class, a function, `op_version_set = N`, or an import.
struct Item {
  ItemKind kind = ItemKind::kFunction;
  // The bytes from the first token to the end of the last one.
  Range range;
  // The bytes of the item with the comments and blank lines before it and the end of its last line.
  // The extents of all items and the file's tail, one after the other, are the whole file.
  Range extent;
  const Class* class_def = nullptr;
  const Function* function = nullptr;
  int64_t version = 0;           // kVersion: the N of `op_version_set = N`
  std::string_view import_name;  // kImport: the text after the keyword
  std::string_view name() const noexcept {
    return class_def != nullptr  ? class_def->name
           : function != nullptr ? function->name
                                 : std::string_view();
  }
};

// Returns "a.b.c" if `expr` is a kName, or a chain of kAttribute that begins with a kName. Empty
// for any other expression.
std::string dotted_name(const Expr& expr);

// Compares two trees by structure and texts. Ranges do not count.
bool equal(const Expr* a, const Expr* b) noexcept;
bool equal(const Stmt* a, const Stmt* b) noexcept;
bool equal(const Function& a, const Function& b) noexcept;
bool equal(const Class& a, const Class& b) noexcept;

}  // namespace tenon::script
