// Tests of the C++ wrapper's shared weights: a name that is loaded, attached and left.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kit.h"

namespace {

using SharedWeightsFile = kit::Leaves;
using tenon::SharedWeights;
using tenon::SharedWeightsOptions;

static_assert(std::is_nothrow_copy_constructible_v<SharedWeights> &&
              std::is_nothrow_move_constructible_v<SharedWeights>);

const std::string kSharedFile = std::string(CPP_TEST_GOLDEN) + "/../weights/torch-2.8.0.pt2";

struct SharedFolder {
  SharedFolder() { std::filesystem::create_directory(path); }
  ~SharedFolder() { std::filesystem::remove_all(path); }
  const std::string path =
      std::filesystem::temp_directory_path() / ("tenon-shared-" + std::to_string(getpid()));
};

TEST_F(SharedWeightsFile, AreLoadedOnce) {
  const SharedFolder folder;
  SharedWeightsOptions options;
  options.directory = folder.path;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  SharedWeightsOptions told = options;
  told.progress = [&](std::uint64_t done, std::uint64_t total) { seen.emplace_back(done, total); };
  tenon::Wait wait;
  wait.timeout = std::chrono::seconds(30);
  tenon::Tensor kept = [&] {
    const SharedWeights first = SharedWeights::open(kSharedFile, "net", told, wait);
    const SharedWeights second = SharedWeights::open(std::nullopt, "net", options, wait);
    EXPECT_EQ(first.info().loaded, 1U);
    EXPECT_EQ(first.info().serves, 1U);
    EXPECT_EQ(second.info().loaded, 0U);
    EXPECT_EQ(second.info().server_pid, getpid());
    EXPECT_TRUE(second.value_names().empty());
    EXPECT_EQ(second.try_value("weight").code(), tenon::Code::kNotFound);
    EXPECT_EQ(first.names(), (std::vector<std::string>{"weight", "tied", "columns", "shift"}));
    const tenon::Tensor here = first.tensor("weight").as<tenon::Tensor>();
    tenon::Tensor there = second.tensor("weight").as<tenon::Tensor>();
    EXPECT_EQ(&here.view<float>()[0], &there.view<float>()[0]);
    EXPECT_EQ(there.view<float>()[5], 5.0F);
    return there;
  }();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen.back().first, seen.back().second);
  // The tensor is enough to hand the weights on.
  EXPECT_EQ(SharedWeights::open(std::nullopt, "net", options).info().loaded, 0U);
  kept = tenon::zeros<float>({1});
  EXPECT_EQ(SharedWeights::try_open(std::nullopt, "net", options).code(), tenon::Code::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST_F(SharedWeightsFile, HaveVersions) {
  const SharedFolder folder;
  SharedWeightsOptions options;
  options.directory = folder.path;
  tenon::Wait now;
  now.timeout = std::chrono::nanoseconds(0);
  tenon::Wait wait;
  wait.timeout = std::chrono::seconds(30);
  const SharedWeights first = SharedWeights::publish(kSharedFile, "net", options);
  EXPECT_EQ(first.info().version, 1U);
  EXPECT_EQ(first.try_changed(now).code(), tenon::Code::kWouldBlock);
  SharedWeightsOptions reusing = options;
  reusing.reuse = true;
  const SharedWeights second =
      SharedWeights::publish_values({{"step", tenon::zeros<float>({2})}}, "net", reusing);
  EXPECT_EQ(second.info().version, 2U);
  EXPECT_EQ(first.changed(wait), 2U);
  EXPECT_GE(first.changed_fd(), 0);
  const SharedWeights newest = SharedWeights::open(std::nullopt, "net", options);
  EXPECT_EQ(newest.names(), std::vector<std::string>{"step"});
}

TEST_F(SharedWeightsFile, OfAWrongNameAreRefused) {
  const SharedFolder folder;
  SharedWeightsOptions options;
  options.directory = folder.path;
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("a\0b", 3)}) {
    EXPECT_EQ(SharedWeights::try_open(kSharedFile, name, options).code(),
              tenon::Code::kInvalidArgument);
  }
  options.device = "gpu";
  EXPECT_EQ(SharedWeights::try_open(kSharedFile, "net", options).code(),
            tenon::Code::kInvalidArgument);
  options.device = "cpu";
  options.max_nbytes = 10;
  EXPECT_EQ(SharedWeights::try_open(kSharedFile, "net", options).code(),
            tenon::Code::kResourceExhausted);
}

}  // namespace
