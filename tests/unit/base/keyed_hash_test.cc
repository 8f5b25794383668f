// These tests check that the hash spreads keys which an attacker chose, and that it differs between
// processes.
#include "base/keyed_hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tenon {
namespace {

size_t largest_bucket(const std::unordered_set<uint64_t, KeyedHash>& set) {
  size_t most = 0;
  for (size_t i = 0; i < set.bucket_count(); ++i) most = std::max(most, set.bucket_size(i));
  return most;
}

TEST(KeyedHash, SpreadsKeysThatMeetInOneBucketByTheirValue) {
  constexpr uint64_t kPrime = 10273;  // a number of buckets of libstdc++
  std::unordered_set<uint64_t, KeyedHash> set;
  for (uint64_t i = 1; i <= 9000; ++i) set.insert(i * kPrime);
  EXPECT_LT(largest_bucket(set), 20U);
}

TEST(KeyedHash, TellsWordsAndTextsApart) {
  std::unordered_set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(keyed_hash({i})).second);
    EXPECT_TRUE(seen.insert(keyed_hash({i, 0})).second);
    EXPECT_TRUE(seen.insert(keyed_hash({0, i, 1})).second);
    EXPECT_TRUE(seen.insert(keyed_hash(std::string(i, 'a'))).second);
    EXPECT_TRUE(seen.insert(keyed_hash(std::string(i, '\0') + "b")).second);
  }
}

TEST(KeyedHash, IsTheSameForAStringAndItsView) {
  std::unordered_map<std::string, int, KeyedHash, std::equal_to<>> map;
  map["a name that is longer than a word"] = 1;
  map[""] = 2;
  EXPECT_EQ(map.find(std::string_view("a name that is longer than a word"))->second, 1);
  EXPECT_EQ(map.find(std::string_view())->second, 2);
  EXPECT_EQ(map.find(std::string_view("a name that is longer than a ward")), map.end());
}

// If the key were a constant of the program, an attacker could compute keys that collide.
TEST(KeyedHash, DependsOnTheProcess) {
  const std::string command = "exec '" + std::string("/proc/") + std::to_string(::getpid()) +
                              "/exe' --gtest_filter=KeyedHash.Prints";
  const auto answer = [&]() -> std::string {
    FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return "";
    std::string text;
    char line[256];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
      if (std::string_view(line).starts_with("hash ")) text = line;
    }
    ::pclose(pipe);
    return text;
  };
  const std::string one = answer();
  EXPECT_NE(one, "");
  EXPECT_NE(one, answer());
}

TEST(KeyedHash, Prints) {
  std::printf("hash %llu\n", static_cast<unsigned long long>(keyed_hash({1})));
}

}  // namespace
}  // namespace tenon
