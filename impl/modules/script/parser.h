// Parses code files and single expressions into the tree of ast.h. The parser reads the language
// that PyTorch's importer reads (docs/format/script.md). Its time and memory are linear in the
// text.
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
#include "modules/script/ast.h"
#include "modules/script/node_memory.h"
#include "modules/script/source.h"

namespace tenon::script {

struct ParseLimits {
  uint32_t max_nbytes = uint32_t{64} << 20;
  // The deepest nesting of expressions within expressions, and of statements within statements. A
  // long chain of operators counts as nesting too. Parentheses may be twice as deep. At 500 the
  // parser takes up to 0.8 MiB of stack.
  uint16_t max_depth = 500;
  size_t max_tree_nbytes = size_t{1} << 30;
};

// A parsed code file: its text, its tree and its items. It is shared and never changes.
class File {
 public:
  const Source& source() const noexcept { return source_; }
  std::span<const Item> items() const noexcept { return items_; }
  // The class or function of that name. If several have the name, the last one counts, as with
  // PyTorch. Null: none.
  const Item* find(std::string_view name) const noexcept;
  // The comments and blanks after the last item. The items' extents and the tail are the whole
  // text.
  Range tail() const noexcept { return tail_; }
  // The indentation of the items' first lines, in columns. If it is not 0, the items' extents
  // cannot be copied into another file unchanged.
  uint32_t indent() const noexcept { return indent_; }

 private:
  friend class Parser;
  explicit File(Source source) : source_(std::move(source)) {}

  Source source_;
  NodeMemory nodes_;
  std::span<const Item> items_;
  std::map<std::string_view, size_t> index_;
  Range tail_;
  uint32_t indent_ = 0;
};

// Parses a whole file. CORRUPT for bad syntax, UNSUPPORTED for syntax of Python that PyTorch's
// importer does not read, and RESOURCE_EXHAUSTED for a limit. The errors have the details of
// Source::error. `first_line` is the number of the text's first line in errors.
Result<std::shared_ptr<const File>> parse_file(std::string name, std::string text,
                                               const ParseLimits& limits = {},
                                               uint32_t first_line = 1);

// A single parsed expression, such as an annotation. It is shared and never changes.
class ParsedExpr {
 public:
  const Source& source() const noexcept { return source_; }
  const Expr& expr() const noexcept { return *expr_; }

 private:
  friend class Parser;
  explicit ParsedExpr(Source source) : source_(std::move(source)) {}

  Source source_;
  NodeMemory nodes_;
  const Expr* expr_ = nullptr;
};
// The errors are those of parse_file().
Result<std::shared_ptr<const ParsedExpr>> parse_expression(std::string name, std::string text,
                                                           const ParseLimits& limits = {});

}  // namespace tenon::script
