// These tests check the names that safe_name() makes for records of an archive.
#include "modules/archive/zip_names.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::archive {
namespace {

TEST(SafeName, IsAlwaysOneThatAnArchiveMayHave) {
  EXPECT_EQ(safe_name("a/b.json"), "a/b.json");
  EXPECT_EQ(safe_name("/etc/model/conf.json"), "etc/model/conf.json");
  EXPECT_EQ(safe_name("meta\\conf.json"), "meta/conf.json");
  EXPECT_EQ(safe_name("C:\\x"), "C:/x");
  EXPECT_EQ(safe_name("../../x"), "_/_/x");
  EXPECT_EQ(safe_name("./a//b/."), "a/b");
  EXPECT_EQ(safe_name("a\n\x7f"), "a__");
  EXPECT_EQ(safe_name("a\xff\xc3\xa9"), "a___");
  EXPECT_EQ(safe_name("\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(safe_name(""), "_");
  EXPECT_EQ(safe_name("/"), "_");
  for (const std::string& name :
       {std::string(5000, 'x'), std::string("a\0b", 3), std::string("\\\\..\\")}) {
    EXPECT_EQ(find_name_fault(safe_name(name)), nullptr) << safe_name(name);
  }
}

}  // namespace
}  // namespace tenon::archive
