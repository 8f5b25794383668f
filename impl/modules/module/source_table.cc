#include "modules/module/source_table.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>

#include "modules/archive/pickle_from_values.h"
#include "modules/archive/pickle_to_values.h"
#include "pickle/reader.h"

namespace tenon::module {

using script::Range;
using value::Type;
using value::TypeRef;
using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

// The first item of a table that keeps its lines of text in a separate list. Older tables have no
// such list.
constexpr std::string_view kWithTexts = "FORMAT_WITH_STRING_TABLE";
// The most nodes of a table. Each takes about 100 bytes while the table is read.
constexpr uint32_t kMaxNodes = uint32_t{2} << 20;
constexpr int64_t kMaxTag = std::numeric_limits<int32_t>::max();

bool is_number(const Value& value, int64_t limit) {
  return value.is(ValueKind::kInt) && value.as_int() >= 0 && value.as_int() <= limit;
}

bool is_tuple(const Value& value, size_t size) {
  return value.is(ValueKind::kTuple) && value.items().size() == size;
}

}  // namespace

// Reader checks the values of a table. It looks at each value once, however often the pickle shares
// it.
class SourceTable::Reader {
 public:
  explicit Reader(const std::string& record) : record_(record) {}

  Status run(const ValueRef& root, SourceTable* out) {
    if (!root->is(ValueKind::kTuple)) return fault("is no tuple");
    std::span<const ValueRef> records = root->items();
    if (is_tuple(*root, 3) && records[0]->is(ValueKind::kStr) &&
        records[0]->as_str() == kWithTexts) {
      if (!records[1]->is(ValueKind::kTuple) || !records[2]->is(ValueKind::kTuple))
        return fault("has no tuples of texts and ranges");
      texts_ = records[1]->items();
      has_texts_ = true;
      if (std::any_of(texts_.begin(), texts_.end(),
                      [](const ValueRef& each) { return !each->is(ValueKind::kStr); }))
        return fault("has a text that is none");
      records = records[2]->items();
    }
    if (records.empty()) return fault("has no ranges");
    for (const ValueRef& record : records) TENON_TRY(add(*record, out));
    return {};
  }

 private:
  Status fault(const char* what) const {
    return Status(Code::kCorrupt, format("%.300s %s", record_.c_str(), what))
        .with("record", record_);
  }

  Status add(const Value& record, SourceTable* out) {
    if (!is_tuple(record, 3)) return fault("has a range without a tag");
    const std::span<const ValueRef> parts = record.items();
    if (!is_number(*parts[0], std::numeric_limits<int64_t>::max()) || !is_tuple(*parts[1], 3) ||
        !is_number(*parts[2], kMaxTag))
      return fault("has a range that is none");
    const auto offset = static_cast<uint64_t>(parts[0]->as_int());
    if (!out->records_.empty() && offset < out->records_.back().offset)
      return fault("does not have its ranges in order");
    const std::span<const ValueRef> range = parts[1]->items();
    uint64_t nbytes = 0;
    TENON_TRY(check_source(*range[0], &nbytes));
    // PyTorch writes the range from 0 to 1 for nodes that have no source.
    const auto limit =
        static_cast<int64_t>(std::clamp<uint64_t>(nbytes, 1, std::numeric_limits<int64_t>::max()));
    if (!is_number(*range[2], limit) || !is_number(*range[1], range[2]->as_int()))
      return fault("has a range outside of its source");
    out->records_.push_back({offset, parts[2]->as_int(), nbytes > 0});
    out->end_of_tags_ = std::max(out->end_of_tags_, parts[2]->as_int() + 1);
    return {};
  }

  // Checks a source: text, file name and number of the first line. *nbytes is the size of the text.
  Status check_source(const Value& source, uint64_t* nbytes) {
    if (!is_tuple(source, 3) || !is_number(*source.items()[2], std::numeric_limits<int32_t>::max()))
      return fault("has a bad source");
    const Value& text = *source.items()[0];
    const Value& name = *source.items()[1];
    if (!has_texts_) {
      if (!text.is(ValueKind::kStr) || !(name.is(ValueKind::kStr) || name.is(ValueKind::kNone)))
        return fault("has a source without a text");
      *nbytes = text.as_str().size();
      return {};
    }
    if (!is_text(name)) return fault("names a text that is not there");
    if (!text.is(ValueKind::kList) || !text.declared_type() ||
        text.declared_type()->element()->kind() != value::TypeKind::kInt)
      return fault("has a source without lines");
    const auto [found, is_new] = lengths_.try_emplace(&text, 0);
    for (size_t i = 0; is_new && i < text.items().size(); ++i) {
      const Value& line = *text.items()[i];
      if (!is_text(line)) return fault("names a text that is not there");
      found->second += texts_[static_cast<size_t>(line.as_int())]->as_str().size();
    }
    *nbytes = found->second;
    return {};
  }

  bool is_text(const Value& index) const {
    return is_number(index, static_cast<int64_t>(texts_.size()) - 1);
  }

  const std::string& record_;
  bool has_texts_ = false;
  std::span<const ValueRef> texts_;
  std::unordered_map<const Value*, uint64_t> lengths_;  // the total size of each list of lines
};

Result<SourceTable> SourceTable::read(const std::string& record, std::string_view content) {
  pickle::PickleReadOptions read;
  read.limits.max_nodes = kMaxNodes;
  read.record = record;
  TENON_ASSIGN(const pickle::PickleTree tree,
               pickle::read_pickle(std::as_bytes(std::span(content.data(), content.size())), read));
  archive::ToValuesOptions to_values;
  to_values.limits = read.limits;
  to_values.memoised = false;
  TENON_ASSIGN(const archive::UnpickledValue values, archive::pickle_to_values(tree, to_values));
  SourceTable made;
  TENON_TRY(Reader(record).run(values.root, &made));
  made.content_ = content;
  return made;
}

Result<SourceTable> SourceTable::make(const script::Source& code, std::vector<Range> ranges,
                                      int64_t first_tag) {
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  TENON_ASSIGN(const TypeRef numbers, Type::list(Type::integer()));
  // Text 0 is empty. It is the name of the source for ranges without a source.
  const ValueRef texts = Value::tuple(
      {Value::of_str(""), Value::of_str(std::string(code.text())), Value::of_str(code.name())});
  const ValueRef source =
      Value::tuple({Value::list(numbers, {Value::of_int(1)}), Value::of_int(2), Value::of_int(1)});
  const ValueRef no_source =
      Value::tuple({Value::list(numbers, {}), Value::of_int(0), Value::of_int(0)});

  SourceTable made;
  made.end_of_tags_ = first_tag + 1;  // `first_tag` is for ranges without a source
  std::vector<ValueRef> records;
  bool is_end = false;  // the last record only marks the end of a range
  const auto add = [&](uint32_t offset, const Range* range) {
    if (is_end && records.back()->items()[0]->as_int() == offset) records.pop_back();
    is_end = false;
    // PyTorch marks every line of a range, but the first line is enough.
    const uint32_t begin = range != nullptr ? range->begin : 0;
    const size_t end =
        range != nullptr ? std::min<size_t>(code.text().find('\n', begin), range->end) : 0;
    const ValueRef place =
        Value::tuple({range != nullptr ? source : no_source, Value::of_int(begin),
                      Value::of_int(static_cast<int64_t>(end))});
    const int64_t tag = range != nullptr ? made.ranges_.at({range->begin, range->end}) : first_tag;
    records.push_back(Value::tuple({Value::of_int(offset), place, Value::of_int(tag)}));
  };
  struct Open {
    const Range* range = nullptr;
    uint32_t end = 0;  // at most the end of the range around it
  };
  std::vector<Open> open;
  const auto close = [&](uint32_t up_to) {
    while (!open.empty() && open.back().end <= up_to) {
      const uint32_t end = open.back().end;
      open.pop_back();
      add(end, open.empty() ? nullptr : open.back().range);
      is_end = true;
    }
  };
  add(0, nullptr);
  for (const Range& range : ranges) {
    close(range.begin);
    made.ranges_.emplace(RangeKey(range.begin, range.end), made.end_of_tags_++);
    add(range.begin, &range);
    open.push_back({&range, open.empty() ? range.end : std::min(range.end, open.back().end)});
  }
  close(std::numeric_limits<uint32_t>::max());

  archive::FromValuesOptions options;
  options.record = code.name() + std::string(kEnd);
  const ValueRef root = Value::tuple(
      {Value::of_str(std::string(kWithTexts)), texts, Value::tuple(std::move(records))});
  TENON_ASSIGN(const std::vector<std::byte> bytes, archive::values_to_pickle(root, options));
  made.content_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return made;
}

int64_t SourceTable::tag_of(Range range) const {
  const auto made = ranges_.find({range.begin, range.end});
  if (made != ranges_.end()) return made->second;
  const auto after = std::upper_bound(
      records_.begin(), records_.end(), uint64_t{range.begin},
      [](uint64_t offset, const Record& record) { return offset < record.offset; });
  const auto found = after == records_.begin() ? after : std::prev(after);
  if (found->has_source) return found->tag;
  // PyTorch prints the name of a called function before it notes the source of the call.
  const auto inside =
      std::find_if(after, records_.end(), [](const Record& record) { return record.has_source; });
  return inside != records_.end() && inside->offset < range.end ? inside->tag : found->tag;
}

}  // namespace tenon::module
