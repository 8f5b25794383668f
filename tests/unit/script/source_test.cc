// These tests check positions in source text, and the excerpts that errors show.
#include "modules/script/source.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

TEST(Source, PositionsCountFromOneInBytes) {
  const Source source("f", "ab\n\nc\xc3\xa9 d");
  EXPECT_EQ(source.position(0).line, 1U);
  EXPECT_EQ(source.position(0).column, 1U);
  EXPECT_EQ(source.position(2).line, 1U);
  EXPECT_EQ(source.position(2).column, 3U);
  EXPECT_EQ(source.position(3).line, 2U);
  EXPECT_EQ(source.position(4).line, 3U);
  EXPECT_EQ(source.position(8).line, 3U);
  EXPECT_EQ(source.position(8).column, 5U);
  EXPECT_EQ(source.position(9).column, 6U);
}

TEST(Source, FirstLineIsWhatItIsTold) {
  const Source source("f", "a\nb", 40);
  EXPECT_EQ(source.position(2).line, 41U);
  EXPECT_EQ(source.error(Code::kCorrupt, {2, 3}, "x").detail("line"), "41");
}

TEST(Source, AnErrorNamesFileLineColumnAndShowsCarets) {
  const Source source("code/a.py", "first\nx = f(y)\nlast");
  const Status status = source.error(Code::kCorrupt, {10, 14}, "no such function");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.message(), "code/a.py:2:5: no such function");
  EXPECT_EQ(status.detail("file"), "code/a.py");
  EXPECT_EQ(status.detail("line"), "2");
  EXPECT_EQ(status.detail("column"), "5");
  EXPECT_EQ(status.detail("excerpt"), "x = f(y)\n    ^^^^");
}

TEST(Source, ExcerptEdges) {
  // The carets of a range over several lines end with its first line. A range at the end of a line
  // is still shown. A tab counts as one column, and a letter has one caret.
  EXPECT_EQ(Source("f", "abc\ndef").error(Code::kCorrupt, {1, 6}, "x").detail("excerpt"),
            "abc\n ^^");
  EXPECT_EQ(Source("f", "abc\n").error(Code::kCorrupt, {3, 3}, "x").detail("excerpt"), "abc\n   ^");
  EXPECT_EQ(Source("f", "abc").error(Code::kCorrupt, {3, 3}, "x").detail("excerpt"), "abc\n   ^");
  EXPECT_EQ(Source("f", "").error(Code::kCorrupt, {0, 0}, "x").detail("excerpt"), "\n^");
  EXPECT_EQ(Source("f", "\tx").error(Code::kCorrupt, {1, 2}, "x").detail("excerpt"), " x\n ^");
  EXPECT_EQ(Source("f", "\xc3\xa9\xc3\xa9 x").error(Code::kCorrupt, {0, 4}, "x").detail("excerpt"),
            "\xc3\xa9\xc3\xa9 x\n^^");
}

TEST(Source, ALongLineIsCutAroundTheRange) {
  const std::string line = std::string(500, 'a') + "BAD" + std::string(500, 'c');
  const std::string excerpt(
      Source("f", line).error(Code::kCorrupt, {500, 503}, "x").detail("excerpt"));
  const size_t split = excerpt.find('\n');
  ASSERT_NE(split, std::string::npos);
  const std::string text = excerpt.substr(0, split);
  const std::string carets = excerpt.substr(split + 1);
  EXPECT_LT(text.size(), 140U);
  EXPECT_TRUE(text.starts_with("...a") && text.ends_with("c...")) << text;
  EXPECT_EQ(text.find("BAD"), carets.find("^^^"));
  EXPECT_EQ(carets.size(), carets.find("^^^") + 3);
}

}  // namespace
}  // namespace tenon::script
