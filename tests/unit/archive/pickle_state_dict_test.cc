// These tests check the names and tensors that pickle_state_dict.h finds in a state dict.
#include "modules/archive/pickle_state_dict.h"

#include <gtest/gtest.h>

#include <string>

#include "support/must.h"
#include "unit/archive/pickle_support.h"

namespace tenon::archive {
namespace {

using namespace test;

Result<StateDict> state_dict(const std::string& body, StateDictOptions options = {},
                             Storages* storages = nullptr) {
  const Bytes content = bytes_of(proto2(body));
  TENON_ASSIGN(const pickle::PickleTree tree, pickle::read_pickle(content, general()));
  Storages own;
  options.find_storage = (storages != nullptr ? storages : &own)->finder();
  return pickle_state_dict(tree, options);
}

std::vector<std::string> names(const StateDict& of) {
  std::vector<std::string> out;
  out.reserve(of.tensors.size());
  for (const NamedTensor& named : of.tensors) out.push_back(named.name);
  return out;
}

const std::string kOne = tensor(storage("0", 1), 1);
const std::string kOrdered = "ccollections\nOrderedDict\n)R";

TEST(PickleStateDict, NamesOfWhatIsNested) {
  StateDict result =
      must(state_dict("}(" + str("a") + kOrdered + str("b") + kOne + "s" + str("epoch") + "K\x03" +
                      str("list") + "](" + kOne + "(K\x01" + kOne + "te" + "K\x05}K\x06" + kOne +
                      "s" + str("odd") + "cnumpy\nscalar\n)Ru"));
  EXPECT_EQ(names(result), std::vector<std::string>({"a.b", "list.0", "list.1.1", "5.6"}));
  EXPECT_EQ(result.others,
            std::vector<std::string>({"epoch", "list.1.0", "odd: a call of 'numpy.scalar'"}));
  EXPECT_EQ(result.n_others, 3U);
}

// torch.load makes one storage of equal keys, however often a pickle spells them out.
TEST(PickleStateDict, StoragesByKey) {
  Storages storages;
  StateDict result = must(state_dict(
      "}(" + str("a") + kOne + "q" + kNul + str("b") + "h" + kNul + str("c") + kOne + "u", {},
      &storages));
  const std::vector<NamedTensor>& tensors = result.tensors;
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].tensor.get(), tensors[1].tensor.get());
  EXPECT_NE(tensors[0].tensor.get(), tensors[2].tensor.get());
  EXPECT_EQ(tensors[0].tensor->storage().get(), tensors[2].tensor->storage().get());
  EXPECT_EQ(storages.calls.size(), 1U);
  const Status differs = state_dict("(" + kOne + tensor(storage("0", 2), 2) + "t").status();
  expect_error(differs, Code::kUnsupported, "is there twice, and differs");
}

TEST(PickleStateDict, ParametersAndSubclasses) {
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + kOne + "\x88" + kOrdered + "tR";
  const std::string arguments =
      "(" + storage("0", 1) + "K" + kNul + "(K\x01t(K\x01t\x89" + kOrdered + "t";
  const std::string subclass =
      "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\ncmine\nTensor\n" +
      arguments + "}tR";
  const std::string of_v3 = "ctorch._utils\n_rebuild_tensor_v3\n(" +
                            storage("1", 8, "UntypedStorage") + "K" + kNul + "(K\x04t(K\x01t\x89" +
                            kOrdered + "ctorch\nuint16\ntR";
  StateDict result = must(state_dict("(" + parameter + subclass + of_v3 + "t"));
  const std::vector<NamedTensor>& tensors = result.tensors;
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(tensors[0].is_parameter);
  EXPECT_TRUE(tensors[0].tensor->requires_grad());
  EXPECT_FALSE(tensors[1].is_parameter);
  EXPECT_EQ(tensors[2].tensor->type(), tensor::ScalarType::kUInt16);
  EXPECT_EQ(tensors[2].tensor->storage()->numel(), 4U);
}

TEST(PickleStateDict, Devices) {
  const std::string of_cuda = "(" + tensor(storage("0", 1, "FloatStorage", "cuda:0"), 1) + "t";
  expect_error(state_dict(of_cuda).status(), Code::kUnsupported, "cuda:0");
  StateDictOptions options;
  options.any_device = true;
  StateDict result = must(state_dict(of_cuda, options));
  EXPECT_EQ(result.tensors[0].tensor->device(), "cpu");
}

TEST(PickleStateDict, Refused) {
  expect_error(state_dict("K\x01").status(), Code::kUnsupported, "1 is no state dict");
  expect_error(state_dict("cos\nsystem\n)R").status(), Code::kUnsupported,
               "'os.system' is no state dict");
  expect_error(
      state_dict("}(" + str("a.b") + kOne + str("a") + "}" + str("b") + kOne + "su").status(),
      Code::kUnsupported, "two tensors have the name a.b");
  expect_error(state_dict("]q" + kNul + "h" + kNul + "a").status(), Code::kUnsupported,
               "contains itself");
  expect_error(state_dict("ccollections\nOrderedDict\n](" + kOne + "e\x85R").status(),
               Code::kUnsupported, "made of arguments");
  expect_error(state_dict("(ctorch._utils\n_rebuild_tensor_v2\n)Rt").status(), Code::kCorrupt,
               "0 arguments");
  expect_error(state_dict("(ctorch._utils\n_rebuild_nested_tensor\n)Rt").status(),
               Code::kUnsupported, "_rebuild_nested_tensor' makes no tensor");
  expect_error(state_dict("N" + std::string(600, '\x85')).status(), Code::kResourceExhausted,
               "max_depth");
}

// This pickle gives 2^40 names to one tensor.
TEST(PickleStateDict, AMemoBombHasALimit) {
  std::string body = "(" + kOne + "tq" + kNul;
  for (int i = 0; i < 40; ++i) {
    body += "h" + std::string(1, static_cast<char>(i)) + "\x86q" +
            std::string(1, static_cast<char>(i + 1));
  }
  StateDictOptions options;
  options.limits.max_nodes = 100'000;
  expect_error(state_dict(body, options).status(), Code::kResourceExhausted, "the limit max_nodes");
  options = {};
  options.limits.max_names_nbytes = 100'000;
  expect_error(state_dict(body, options).status(), Code::kResourceExhausted,
               "the limit max_names_nbytes");
}

}  // namespace
}  // namespace tenon::archive
