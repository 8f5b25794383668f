// libFuzzer target: it reads any bytes as a record `.debug_pkl`. This must end in a typed error, or
// in a table whose every answer is one of its tags. The reader must accept a table that is made for
// ranges of any text.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "modules/module/source_table.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using module::SourceTable;
using script::Range;

void check_answers(const SourceTable& table, int64_t first_tag) {
  for (const uint32_t offset : {0U, 1U, 100U, 1000U, UINT32_MAX}) {
    for (const uint32_t nbytes : {0U, 50U}) {
      const int64_t tag = table.tag_of({offset, offset + std::min(nbytes, UINT32_MAX - offset)});
      require(tag >= first_tag && tag < table.end_of_tags(), "an answer is no tag",
              std::to_string(tag));
    }
  }
}

void check_record(std::string_view content) {
  Result<SourceTable> table = SourceTable::read("m.debug_pkl", content);
  if (table.is_ok()) {
    require(table.value().content() == content, "a table that was read has other bytes");
    return check_answers(table.value(), 0);
  }
  fuzz::require_refusal(table.status(),
                        {Code::kCorrupt, Code::kUnsupported, Code::kResourceExhausted});
}

// Each two bytes of the input are one range of the input as a text.
void check_made(std::string_view text) {
  const script::Source source("code/m.py", std::string(text));
  std::vector<Range> ranges;
  for (size_t i = 0; i + 1 < text.size() && i < 200; i += 2) {
    const auto begin = static_cast<uint32_t>(static_cast<uint8_t>(text[i]) % text.size());
    const auto nbytes =
        static_cast<uint32_t>(static_cast<uint8_t>(text[i + 1]) % (text.size() - begin));
    ranges.push_back({begin, begin + nbytes});
  }
  constexpr int64_t kFirstTag = 5;
  Result<SourceTable> made = SourceTable::make(source, ranges, kFirstTag);
  require(made.is_ok(), "a table is not made", made.status().message());
  for (const Range range : ranges)
    require(made.value().tag_of(range) > kFirstTag, "a range has no tag");
  Result<SourceTable> again = SourceTable::read("m.debug_pkl", made.value().content());
  require(again.is_ok(), "a table that was made is not read", again.status().message());
  check_answers(again.value(), kFirstTag);
  require(again.value().end_of_tags() <= made.value().end_of_tags(), "a round adds tags");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_record(bytes);
  // Values of a pickle are valid UTF-8, as the code of an archive is.
  const bool is_ascii = std::all_of(data, data + size, [](uint8_t byte) { return byte < 0x80; });
  if (is_ascii && size > 0) check_made(bytes);
  return 0;
}
