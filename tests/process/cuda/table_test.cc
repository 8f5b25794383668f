// Tests how the table of the driver's functions is filled, by name and version, and what a missing
// entry means.
#include "cuda/table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "process/cuda/details.h"

namespace tenon::cuda {
namespace {

using cuda_test::says;

struct Wanted {
  std::string name;
  int version;
  Part part;
};

const std::vector<Wanted>& all() {
  static const std::vector<Wanted> list = {
#define FUNCTION(name, version, part) {#name, version, Part::part},
#include "cuda/functions.inc"
#undef FUNCTION
  };
  return list;
}

// Any address serves, because no function is called.
class Recorder final : public FunctionSource {
 public:
  void* find(const char* name, int version) const override {
    asked.emplace_back(name, version);
    return name == missing ? nullptr : const_cast<char*>(name);
  }
  std::string missing;
  mutable std::vector<std::pair<std::string, int>> asked;
};

Driver empty(int version) {
  Driver driver;
  driver.version = version;
  driver.path = "/a/driver";
  return driver;
}

TEST(Table, AsksForEachFunctionOnceAtItsVersion) {
  const Recorder source;
  Driver driver = empty(kOldestDriver);
  EXPECT_TRUE(fill(&driver, source).is_ok());
  std::map<std::string, int> wanted;
  for (const Wanted& each : all())
    EXPECT_TRUE(wanted.emplace(each.name, each.version).second) << each.name;
  EXPECT_EQ(source.asked.size(), wanted.size());
  for (const auto& [name, version] : source.asked) EXPECT_EQ(version, wanted.at(name)) << name;
  EXPECT_NE(driver.cuMemAlloc, nullptr);
  for (size_t part = 0; part < kParts; ++part)
    EXPECT_TRUE(driver.has(static_cast<Part>(part)).is_ok());
}

TEST(Table, AGapIsThatPartsAlone) {
  for (const Wanted& gone : all()) {
    Recorder source;
    source.missing = gone.name;
    Driver driver = empty(12020);
    const Status status = fill(&driver, source);
    EXPECT_EQ(status.is_ok(), gone.part != Part::kCore) << gone.name;
    for (size_t part = 0; part < kParts; ++part) {
      const Status has = driver.has(static_cast<Part>(part));
      EXPECT_EQ(has.is_ok(), static_cast<Part>(part) != gone.part) << gone.name;
      if (has.is_ok()) continue;
      EXPECT_EQ(has.code(), Code::kUnsupported);
      EXPECT_TRUE(says(has, "lacks " + gone.name) && says(has, "12.2")) << has.message();
      EXPECT_EQ(has.detail("path"), "/a/driver");
      EXPECT_EQ(has.detail("driver_version"), "12020");
    }
  }
}

TEST(Table, WhatIsNewerThanTheDriverIsNotAskedFor) {
  constexpr int kVersion = 11010;
  const Recorder source;
  Driver driver = empty(kVersion);
  EXPECT_FALSE(fill(&driver, source).is_ok());  // the second form of cuDeviceGetUuid is newer
  for (const auto& [name, version] : source.asked) EXPECT_LE(version, kVersion) << name;
  EXPECT_EQ(driver.cuMemPoolCreate, nullptr);
  EXPECT_FALSE(driver.has(Part::kPools).is_ok());
  EXPECT_NE(driver.cuMemCreate, nullptr);
  EXPECT_TRUE(driver.has(Part::kVmm).is_ok());
}

}  // namespace
}  // namespace tenon::cuda
