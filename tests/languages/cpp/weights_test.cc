// Tests of the weights of torch.export programs: they are read, replaced and written again.
#include <filesystem>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "kit.h"

namespace {

using WeightsFile = kit::Leaves;
using tenon::Value;
using tenon::Weights;

static_assert(std::is_nothrow_copy_constructible_v<Weights> &&
              std::is_nothrow_move_constructible_v<Weights>);

std::string golden_weights(const std::string& file) {
  return std::string(CPP_TEST_GOLDEN) + "/../weights/" + file;
}

float first_element(const Weights& weights, const std::string& name) {
  const tenon::Tensor tensor = weights.tensor(name).as<tenon::Tensor>();
  return tensor.view<float>()[0];
}

TEST_F(WeightsFile, AreReplacedAndWrittenAgain) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("tenon-weights-" + std::to_string(getpid()) + ".pt2");
  for (const char* const file : {"torch-2.15.0.pt2", "torch-2.6.0.pt2"}) {
    Weights weights = Weights::open(golden_weights(file));
    EXPECT_EQ(weights.names(), (std::vector<std::string>{"weight", "tied", "columns", "shift"}));
    EXPECT_EQ(first_element(weights, "shift"), 0.5F);
    tenon::Tensor sevens = tenon::zeros<float>({2, 3});
    sevens.view_mut<float>()[0] = 7;
    weights.replace("tied", sevens);
    weights.rewrite(path, tenon::Durability::kFile);
    const Weights again = Weights::open(path);
    EXPECT_EQ(first_element(again, "weight"), 7);
    EXPECT_EQ(first_element(again, "shift"), 0.5F);
    EXPECT_EQ(std::filesystem::file_size(path), std::filesystem::file_size(golden_weights(file)));
  }
  std::filesystem::remove(path);
}

TEST_F(WeightsFile, HaveValues) {
  const Weights weights = Weights::open(golden_weights("../checkpoint/1.13.1/checkpoint.pt"));
  EXPECT_EQ(weights.value_names().front(), "optimizer.param_groups.0.lr");
  EXPECT_EQ(weights.value("epoch").as<std::int64_t>(), 3);
  EXPECT_EQ(weights.skipped(), std::vector<std::string>{});
  EXPECT_CODE(kNotFound, weights.try_value("model.0.weight").error());
}

TEST_F(WeightsFile, AreSaved) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("tenon-saved-" + std::to_string(getpid()));
  tenon::Tensor sevens = tenon::zeros<float>({2, 3});
  sevens.view_mut<float>()[0] = 7;
  std::uint64_t told = 0;
  tenon::SaveWeightsOptions options;
  options.metadata = {{"format", "pt"}};
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    told = done;
  };
  tenon::save_weights(path, {{"one", sevens}}, options);
  EXPECT_EQ(told, 24U);
  EXPECT_EQ(first_element(Weights::open(path), "one"), 7);
  EXPECT_EQ(Weights::open(path).value("__metadata__.format").as<std::string>(), "pt");

  const std::map<std::string, Value> shared = {{"one", sevens}, {"two", sevens}};
  const tenon::Error error = tenon::try_save_weights(path, shared).error();
  EXPECT_CODE(kInvalidArgument, error);
  EXPECT_EQ(error.detail("other"), "two");
  tenon::save_weights(path, shared, {.duplicate_shared = true});
  EXPECT_EQ(std::filesystem::file_size(path) % 8, 0U);
  for (const tenon::WeightsForm form : {tenon::WeightsForm::kTorchSave, tenon::WeightsForm::kNpz}) {
    tenon::save_weights(path, shared, {.form = form, .duplicate_shared = true});
    EXPECT_EQ(Weights::open(path).names(), (std::vector<std::string>{"one", "two"}));
  }
  EXPECT_CODE(kInvalidArgument, tenon::try_save_weights(std::string("a\0b", 3), shared).error());
  std::filesystem::remove(path);
}

TEST_F(WeightsFile, AreRefusedByName) {
  Weights weights = Weights::open(golden_weights("executorch-1.5.1.ptd"));
  EXPECT_EQ(first_element(weights, "linear.weight"), 0);
  EXPECT_CODE(kNotFound, weights.try_tensor("linear.wait").error());
  EXPECT_CODE(kInvalidArgument, weights.try_replace("table", Value(1)).error());
  EXPECT_CODE(kUnsupported, weights.try_rewrite("/nowhere/x.ptd").error());
  EXPECT_CODE(kNotFound, Weights::try_open("/nowhere/x.pt2").error());
  EXPECT_CODE(kInvalidArgument, Weights::try_open(std::string("a\0b", 3)).error());
}

}  // namespace
