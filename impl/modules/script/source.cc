#include "modules/script/source.h"

#include <algorithm>
#include <utility>

namespace tenon::script {
namespace {

// If a line is longer than this, an excerpt shows only the part near the range.
constexpr size_t kExcerptWidth = 120;
constexpr size_t kExcerptBefore = 60;

// Tabs count as one column in positions, so they must look like one under the caret line.
char shown(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c; }

bool continues_utf8(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

Source::Source(std::string name, std::string text, uint32_t first_line)
    : name_(std::move(name)), text_(std::move(text)), first_line_(first_line) {
  line_begins_.push_back(0);
  for (size_t at = text_.find('\n'); at != std::string::npos; at = text_.find('\n', at + 1)) {
    line_begins_.push_back(static_cast<uint32_t>(at + 1));
  }
}

Position Source::position(uint32_t offset) const noexcept {
  const auto after = std::upper_bound(line_begins_.begin(), line_begins_.end(), offset);
  const auto line = static_cast<uint32_t>(after - line_begins_.begin()) - 1;
  return {first_line_ + line, offset - line_begins_[line] + 1};
}

Status Source::error(Code code, Range range, const std::string& what) const {
  const Position at = position(range.begin);
  return Status(code, format("%s:%u:%u: %s", name_.c_str(), at.line, at.column, what.c_str()))
      .with("file", name_)
      .with("line", static_cast<uint64_t>(at.line))
      .with("column", static_cast<uint64_t>(at.column))
      .with("excerpt", excerpt(range));
}

std::string Source::excerpt(Range range) const {
  const uint32_t line_begin =
      *std::prev(std::upper_bound(line_begins_.begin(), line_begins_.end(), range.begin));
  const auto line_end = static_cast<uint32_t>(std::min(text_.find('\n', line_begin), text_.size()));
  size_t begin = line_begin;
  size_t end = line_end;
  const char* before = "";
  const char* after = "";
  if (end - begin > kExcerptWidth) {
    if (range.begin - begin > kExcerptBefore) {
      begin = range.begin - kExcerptBefore;
      while (begin < range.begin && continues_utf8(text_[begin])) ++begin;
      before = "...";
    }
    if (end - begin > kExcerptWidth) {
      end = begin + kExcerptWidth;
      while (end > begin && continues_utf8(text_[end])) --end;
      after = "...";
    }
  }
  std::string lines = before;
  std::string carets(lines.size(), ' ');
  const size_t mark_end = std::clamp<size_t>(range.end, range.begin + size_t{1},
                                             std::max<size_t>(end, range.begin + size_t{1}));
  for (size_t i = begin; i < std::max(end, mark_end); ++i) {
    if (i < end) lines += shown(text_[i]);
    // One caret for a character, however many bytes it has.
    if (i < end && continues_utf8(text_[i])) continue;
    if (i < mark_end) carets += i < range.begin ? ' ' : '^';
  }
  return lines + after + "\n" + carets;
}

}  // namespace tenon::script
