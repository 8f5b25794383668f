// SourceTable is the record `.debug_pkl` of a code file. It says from which source each place of
// the file was made. Each range of a source has a number, its tag, by which the call stacks of
// bytecode name it. Layout: docs/format/bytecode.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "modules/script/source.h"
#include "modules/value/value.h"

namespace tenon::module {

class SourceTable {
 public:
  // The record's name is the code file's name followed by this.
  static constexpr std::string_view kEnd = ".debug_pkl";

  // Reads the table that an archive has beside a code file. CORRUPT unless every range lies in its
  // source, because PyTorch 1.13 trusts a table and reads foreign memory.
  static Result<SourceTable> read(const std::string& record, std::string_view content);
  // Makes a table in which the ranges of a code file point to the file itself. Its tags begin at
  // `first_tag`.
  static Result<SourceTable> make(const script::Source& code, std::vector<script::Range> ranges,
                                  int64_t first_tag);

  const std::string& content() const noexcept { return content_; }
  // The tag of the source from which a range of the file was made. After make(), `range` must be
  // one of its `ranges`.
  int64_t tag_of(script::Range range) const;
  // All tags are less than this.
  int64_t end_of_tags() const noexcept { return end_of_tags_; }

 private:
  class Reader;
  struct Record {
    uint64_t offset = 0;
    int64_t tag = 0;
    bool has_source = false;
  };
  using RangeKey = std::pair<uint32_t, uint32_t>;

  std::string content_;
  std::vector<Record> records_;         // after read(): sorted by offset, at least one
  std::map<RangeKey, int64_t> ranges_;  // after make()
  int64_t end_of_tags_ = 0;
};

}  // namespace tenon::module
