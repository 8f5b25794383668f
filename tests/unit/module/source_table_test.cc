// These tests check the records `.debug_pkl`. Records of PyTorch are read, new records point into
// the code, and bad records are refused.
#include "modules/module/source_table.h"

#include <algorithm>
#include <span>

#include "module_kit.h"
#include "modules/archive/pickle_from_values.h"

namespace tenon::module::source_table_test {
namespace {

using script::Range;
using script::Source;

ValueRef number(int64_t value) { return Value::of_int(value); }
ValueRef text(const char* value) { return Value::of_str(value); }

std::string pickled(const ValueRef& root) {
  const std::vector<std::byte> bytes = must(archive::values_to_pickle(root, {}));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<SourceTable> read(const ValueRef& root) {
  return SourceTable::read("m.debug_pkl", pickled(root));
}

ValueRef lines(const std::vector<int64_t>& numbers) {
  std::vector<ValueRef> items;
  items.reserve(numbers.size());
  for (const int64_t each : numbers) items.push_back(number(each));
  return Value::list(must(Type::list(Type::integer())), std::move(items));
}

ValueRef source(const std::vector<int64_t>& numbers = {1, 2}, int64_t name = 3,
                int64_t first = 10) {
  return Value::tuple({lines(numbers), number(name), number(first)});
}

ValueRef record(int64_t offset, const ValueRef& of, int64_t begin, int64_t end, int64_t tag) {
  return Value::tuple(
      {number(offset), Value::tuple({of, number(begin), number(end)}), number(tag)});
}

// Returns a table over a source of two lines of 6 bytes each.
ValueRef table(std::vector<ValueRef> records) {
  return Value::tuple({text("FORMAT_WITH_STRING_TABLE"),
                       Value::tuple({text(""), text("x = 1\n"), text("y = 2\n"), text("m.py")}),
                       Value::tuple(std::move(records))});
}

TEST(SourceTable, a_made_table_says_of_every_place_which_range_it_is_in) {
  const std::string code = "def f(x):\n  y = g(h(x))\n  return y\n";
  const Source of("code/m.py", code);
  const auto range = [&](const char* part) {
    const auto begin = static_cast<uint32_t>(code.find(part));
    return Range{begin, begin + static_cast<uint32_t>(std::string_view(part).size())};
  };
  const Range name = range("f(x)");
  const Range outer = range("g(h(x))");
  const Range inner = range("h(x)");
  const SourceTable made = must(SourceTable::make(of, {inner, outer, name, inner, outer}, 7));
  EXPECT_EQ(made.end_of_tags(), 11);
  EXPECT_EQ(made.tag_of(name), 8);
  EXPECT_EQ(made.tag_of(outer), 9);
  EXPECT_EQ(made.tag_of(inner), 10);

  const SourceTable again = must(SourceTable::read("code/m.py.debug_pkl", made.content()));
  EXPECT_EQ(again.end_of_tags(), 11);
  const auto at = [&](uint32_t offset) { return again.tag_of({offset, offset}); };
  EXPECT_EQ(at(0), 7);  // the tag of no source
  EXPECT_EQ(at(name.begin), 8);
  EXPECT_EQ(at(name.end), 7);
  EXPECT_EQ(at(outer.begin), 9);
  EXPECT_EQ(at(inner.begin), 10);
  EXPECT_EQ(at(inner.end - 1), 10);
  EXPECT_EQ(at(inner.end), 9);
  EXPECT_EQ(at(outer.end), 7);
  EXPECT_EQ(at(1000), 7);
}

TEST(SourceTable, ranges_that_begin_together_have_their_own_tags) {
  const Source of("code/m.py", "a.b.c\nd\n");
  const SourceTable made = must(SourceTable::make(of, {{0, 1}, {0, 3}, {0, 5}, {6, 7}}, 0));
  EXPECT_EQ(made.tag_of({0, 5}), 1);
  EXPECT_EQ(made.tag_of({0, 3}), 2);
  EXPECT_EQ(made.tag_of({0, 1}), 3);
  EXPECT_EQ(made.tag_of({6, 7}), 4);
  EXPECT_TRUE(SourceTable::read("m", made.content()).is_ok());
}

TEST(SourceTable, a_range_begins_in_the_last_record_before_it) {
  const ValueRef none = source({}, 0, 0);
  const SourceTable read_back = must(read(table({
      record(4, none, 0, 1, 0),  // PyTorch writes this range of no source
      record(8, source(), 0, 6, 3),
      record(12, none, 0, 0, 0),
      record(20, source(), 6, 12, 5),
  })));
  EXPECT_EQ(read_back.end_of_tags(), 6);
  EXPECT_EQ(read_back.tag_of({0, 2}), 0);  // before the first range
  EXPECT_EQ(read_back.tag_of({9, 11}), 3);
  EXPECT_EQ(read_back.tag_of({12, 15}), 0);
  // The range of a call begins before the place where PyTorch records its source.
  EXPECT_EQ(read_back.tag_of({12, 30}), 5);
  EXPECT_EQ(read_back.tag_of({30, 31}), 5);
}

TEST(SourceTable, the_older_form_is_read) {
  const ValueRef old = Value::tuple({text("x = 1\ny = 2\n"), text("m.py"), number(10)});
  const ValueRef nameless = Value::tuple({text("x = 1\n"), Value::none(), number(0)});
  const SourceTable read_back =
      must(read(Value::tuple({record(0, old, 6, 12, 1), record(5, nameless, 0, 6, 2)})));
  EXPECT_EQ(read_back.tag_of({3, 4}), 1);
  EXPECT_EQ(read_back.tag_of({5, 6}), 2);
}

TEST(SourceTable, a_table_that_would_mislead_pytorch_is_refused) {
  const ValueRef good = record(0, source(), 0, 6, 0);
  ASSERT_TRUE(read(table({good})).is_ok());
  const ValueRef bad_tables[] = {
      number(1),
      Value::tuple({}),
      table({}),
      Value::tuple({text("FORMAT_WITH_STRING_TABLE"), text("x"), Value::tuple({good})}),
      Value::tuple({text("FORMAT_WITH_STRING_TABLE"),
                    Value::tuple({number(1), number(2), number(3), number(4)}),
                    Value::tuple({good})}),
      table({number(1)}),
      table({Value::tuple({good->items()[0], good->items()[1]})}),  // the record has no tag
      table({record(-1, source(), 0, 6, 0)}),
      table({record(0, source(), 0, 6, -1)}),
      table({record(0, source(), 0, 6, int64_t{1} << 40)}),
      table({record(0, source(), 0, 13, 0)}),
      table({record(0, source(), 7, 6, 0)}),
      table({record(0, source(), -1, 6, 0)}),
      table({record(0, source({1, 4}), 0, 6, 0)}),
      table({record(0, source({-1}), 0, 1, 0)}),
      table({record(0, source({1}, 4), 0, 6, 0)}),
      table({record(0, source({1}, -1), 0, 6, 0)}),
      table({record(0, source({1}, 3, -1), 0, 6, 0)}),
      table({record(0, Value::tuple({text("x"), number(0), number(0)}), 0, 1, 0)}),
      table({record(0, Value::tuple({lines({1}), text("m.py"), number(0)}), 0, 1, 0)}),
      table({record(0, lines({1, 2}), 0, 1, 0)}),
      table({record(0, Value::tuple({Value::tuple({number(1)}), number(3), number(0)}), 0, 1, 0)}),
      table({record(5, source(), 0, 6, 0), record(4, source(), 0, 6, 1)}),
      Value::tuple({record(0, source(), 0, 6, 0)}),  // the table has no texts for these numbers
  };
  for (const ValueRef& bad : bad_tables) {
    const Result<SourceTable> result = read(bad);
    EXPECT_FALSE(result.is_ok()) << &bad - bad_tables;
    if (result.is_ok()) continue;
    EXPECT_EQ(result.status().code(), Code::kCorrupt);
    EXPECT_TRUE(result.status().message().starts_with("m.debug_pkl ")) << result.status().message();
  }
  EXPECT_FALSE(SourceTable::read("m.debug_pkl", "no pickle").is_ok());
  EXPECT_FALSE(SourceTable::read("m.debug_pkl", "").is_ok());
}

// If every range counted the lines of its source again, this test would take minutes.
TEST(SourceTable, a_source_that_many_ranges_share_is_looked_at_once) {
  constexpr size_t kMany = 20'000;
  const ValueRef shared = lines(std::vector<int64_t>(kMany, 1));
  std::vector<ValueRef> records;
  for (size_t i = 0; i < kMany; ++i) {
    const ValueRef of = Value::tuple({shared, number(3), number(1)});
    records.push_back(record(static_cast<int64_t>(i), of, 0, 6, static_cast<int64_t>(i)));
  }
  EXPECT_EQ(must(read(table(std::move(records)))).end_of_tags(), static_cast<int64_t>(kMany));
}

}  // namespace
}  // namespace tenon::module::source_table_test
