// From text to tree: the language that PyTorch's importer reads (docs/format/script.md). Time and
// memory are linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "script/arena.h"
#include "script/ast.h"
#include "script/source.h"

namespace tenon::script {

struct ParseLimits {
  uint32_t max_nbytes = uint32_t{64} << 20;
  // Of expressions in one another, and of statements in one another; a long chain of operators is
  // deep too. Parentheses may be twice as deep. At 500 the parser takes up to 0.8 MiB of stack.
  uint16_t max_depth = 500;
  size_t max_tree_nbytes = size_t{1} << 30;
};

// A code file: its text, its tree, its items. Shared and never changed.
class File {
 public:
  const Source& source() const noexcept { return source_; }
  std::span<const Item> items() const noexcept { return items_; }
  // The class or function of that name, the last one written as with PyTorch; null: none.
  const Item* find(std::string_view name) const noexcept;
  // Comments and blanks after the last item: the items' extents and this are the text.
  Range tail() const noexcept { return tail_; }
  // Columns of the items' first lines. Not 0: their extents fit into no other file as they stand.
  uint32_t indent() const noexcept { return indent_; }

 private:
  friend class Parser;
  explicit File(Source source) : source_(std::move(source)) {}

  Source source_;
  Arena arena_;
  std::span<const Item> items_;
  std::map<std::string_view, size_t> index_;
  Range tail_;
  uint32_t indent_ = 0;
};

// A whole file. Errors are CORRUPT for bad syntax, UNSUPPORTED for what Python knows and PyTorch's
// importer does not, and RESOURCE_EXHAUSTED for a limit, with the details of Source::error.
// `first_line` is the number of the text's first line in errors.
Result<std::shared_ptr<const File>> parse_file(std::string name, std::string text,
                                               const ParseLimits& limits = {},
                                               uint32_t first_line = 1);

// One expression alone, such as an annotation.
class ParsedExpr {
 public:
  const Source& source() const noexcept { return source_; }
  const Expr& expr() const noexcept { return *expr_; }

 private:
  friend class Parser;
  explicit ParsedExpr(Source source) : source_(std::move(source)) {}

  Source source_;
  Arena arena_;
  const Expr* expr_ = nullptr;
};
Result<std::shared_ptr<const ParsedExpr>> parse_expression(std::string name, std::string text,
                                                           const ParseLimits& limits = {});

}  // namespace tenon::script
