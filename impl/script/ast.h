// The tree of a parsed code file. Nodes live in the file's arena, are never changed, and point into
// it or into the source's text; every node knows its bytes. A tree says what PyTorch's importer
// reads, which is not always what Python would: see docs/format/script.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "script/source.h"

namespace tenon::script {

struct Expr;
struct Stmt;
struct Function;
struct Class;

using ExprList = std::span<const Expr* const>;
using StmtList = std::span<const Stmt* const>;

enum class ExprKind : uint8_t {
  kName,         // text
  kAttribute,    // children: value; text: the attribute's name
  kCall,         // children: callee, positional arguments (kStarred among them); keywords
  kSubscript,    // children: value, indices (kSlice, kNone, kEllipsis among them); none for `x[]`
  kSlice,        // children: start, stop, step, each of them null where it is left out
  kInt,          // text: as written, with a '-' before it where one was folded in
  kFloat,        // likewise
  kComplex,      // likewise; the last letter is 'j'
  kString,       // text: its value, adjacent literals joined
  kTrue,         //
  kFalse,        //
  kNone,         //
  kNoneType,     // the keyword `NoneType`
  kEllipsis,     // `...` or `Ellipsis`
  kUnary,        // op; children: operand
  kBinary,       // op, comparisons and `and` / `or` among them; children: left, right
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
  // Arithmetic; also of an augmented assignment.
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

// As written: "+", "not in", …
std::string_view operator_text(Operator op) noexcept;

struct Keyword {
  std::string_view name;
  Range name_range;
  const Expr* value = nullptr;
};

struct Expr {
  ExprKind kind = ExprKind::kNone;
  Operator op = Operator::kNothing;
  // Number of nodes on the longest way down, this one counted: at most the parser's limit.
  uint16_t height = 1;
  // Without parentheses around it; those around a part of it are within.
  Range range;
  std::string_view text;
  // Of kName and kAttribute the bytes of `text` itself; of kUnary, kBinary and kStarred those of
  // the operator; of kConditional those of the `if`, of comprehensions those of the `for`.
  Range text_range;
  ExprList children;
  std::span<const Keyword> keywords;

  const Expr& child(size_t i) const noexcept { return *children[i]; }
  // Of kCall the positional arguments, of kSubscript the indices.
  ExprList arguments() const noexcept { return children.subspan(1); }
};

enum class StmtKind : uint8_t {
  kExpr,       // value; a docstring is one
  kAssign,     // targets (several: `a = b = value`), value, annotation; each may be a kTuple
  kAugAssign,  // targets[0], op, value; annotation, for PyTorch takes `x : int += 1`
  kReturn,     // value, null for a bare `return`
  kRaise,      // value
  kAssert,     // value, message (null: none)
  kIf,         // value: the condition; body, else_body. `elif` is a kIf alone in else_body
  kWhile,      // value, body
  kFor,   // targets (several: `for a, b in`), iterables (one, but for what PyTorch refuses later),
          // body
  kWith,  // with_items, body
  kDef,   // function: a nested one, in a class a method
  kDelete,    // targets
  kGlobal,    // targets, all kName; PyTorch's parser takes it, its compiler never does
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
  // Number of statements on the longest way down, this one counted.
  uint16_t height = 1;
  // From the first token to the end of the last one, a body's included.
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

// `# type: (Tensor, int) -> Tensor`, the first line of a function's body; of a method without the
// receiver's type. It has a type for every parameter, and it counts, whatever the annotations say.
struct TypeComment {
  Range range;
  ExprList params;
  const Expr* returns = nullptr;  // null: `# type: (int)`, which says nothing about it
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
  // As they stand: kAssign (fields, constants, `__parameters__` and the like), kDef (methods) and
  // whatever else is written there. class_parts.h sorts them.
  StmtList body;
};

enum class ItemKind : uint8_t { kClass, kFunction, kVersion, kImport };

struct Item {
  ItemKind kind = ItemKind::kFunction;
  // From the first token to the end of the last one.
  Range range;
  // The item with the comments and blank lines before it and the end of its last line: the extents
  // of a file's items and the file's tail, one after the other, are the file, byte for byte.
  Range extent;
  const Class* class_def = nullptr;
  const Function* function = nullptr;
  int64_t version = 0;           // kVersion: the N of `op_version_set = N`
  std::string_view import_name;  // kImport: what follows the keyword
  std::string_view name() const noexcept {
    return class_def != nullptr  ? class_def->name
           : function != nullptr ? function->name
                                 : std::string_view();
  }
};

// "a.b.c" of a kName or of kAttributes of one; empty for anything else.
std::string dotted_name(const Expr& expr);

// Structure and texts, not where they stand.
bool equal(const Expr* a, const Expr* b) noexcept;
bool equal(const Stmt* a, const Stmt* b) noexcept;
bool equal(const Function& a, const Function& b) noexcept;
bool equal(const Class& a, const Class& b) noexcept;

}  // namespace tenon::script
