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

std::vector<std::string> leaves(const StateDict& of) {
  std::vector<std::string> out;
  out.reserve(of.leaves.size());
  for (const StateDictLeaf& leaf : of.leaves) {
    out.push_back(leaf.value ? leaf.name + " = " + value::value_kind_name(leaf.value->kind())
                             : leaf.name + ": " + leaf.what);
  }
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
  EXPECT_EQ(leaves(result), std::vector<std::string>({"epoch = int", "list.1.0 = int",
                                                      "odd: a call of 'numpy.scalar'"}));
}

TEST(PickleStateDict, Leaves) {
  StateDict result = must(state_dict(
      "}(" + str("none") + "N" + str("yes") + "\x88" + str("half") + "G\x3f\xe0" +
      std::string(6, '\0') + str("text") + str("ab") + str("latin") + str("\xe4") + str("big") +
      "\x8a\x09" + std::string(8, '\0') + "\x01" + str("bytes") + "C\x01x" + str("set") + "\x8f" +
      str("z") + "cbuiltins\ncomplex\n(G" + std::string(8, '\0') + "G" + std::string(8, '\0') +
      "tR" + str("device") + "ctorch\ndevice\n" + str("cuda:0") + "\x85R" + str("size") +
      "ctorch\nSize\n(K\x02t\x85R" + str("class") + "cmine\nThing\n)\x81u"));
  EXPECT_EQ(leaves(result),
            std::vector<std::string>(
                {"none = None", "yes = bool", "half = float", "text = str", "latin: '\xe4'",
                 "big: int of more than 64 bits", "bytes: bytes", "set: a set of 0", "z = complex",
                 "device = Device", "size.0 = int", "class: an object of 'mine.Thing'"}));
  EXPECT_EQ(result.leaves[3].value->as_str(), "ab");
}

// Python 2 gives the entries of an OrderedDict as an argument, and not as items.
TEST(PickleStateDict, AnOrderedDictOfPython2) {
  StateDict result =
      must(state_dict("ccollections\nOrderedDict\n](](" + str("w") + kOne + "e(" + str("n") +
                      "K\x01tK\x05"
                      "e\x85R"));
  EXPECT_EQ(names(result), std::vector<std::string>({"w"}));
  EXPECT_EQ(leaves(result), std::vector<std::string>({"n = int", "2 = int"}));
}

// One object that cannot be read does not affect its neighbours.
TEST(PickleStateDict, WhatIsNotKnownIsSkipped) {
  const auto skipped = [](const std::string& odd) {
    StateDict result = must(state_dict("}(" + str("odd") + odd + str("w") + kOne + "u"));
    EXPECT_EQ(names(result), std::vector<std::string>({"w"}));
    EXPECT_EQ(result.leaves.size(), 1U);
    return leaves(result).at(0);
  };
  EXPECT_EQ(skipped("]q" + kNul + "h" + kNul + "a"), "odd.0: a list of 1 that contains itself");
  EXPECT_EQ(skipped("ccollections\nOrderedDict\n" + kOne + "\x85R"),
            "odd: a call of 'collections.OrderedDict'");
  // A class of a module, as torch.save before PyTorch 1.6 wrote it, and a class that a call makes.
  const std::string of_module = "(" + str("module") + "cmine\nNet\n" + str("") + str("") + "tQ";
  EXPECT_EQ(skipped(of_module + ")\x81}b"), "odd: an object of 'mine.Net'");
  EXPECT_EQ(skipped("cmine\nmake\n)R)\x81"), "odd: an object of '<unnamed>.class'");
}

TEST(PickleStateDict, ATensorThatIsNotKnownHasItsError) {
  StateDict result = must(state_dict("(ctorch._utils\n_rebuild_nested_tensor\n)R" + kOne + "t"));
  EXPECT_EQ(names(result), std::vector<std::string>({"0", "1"}));
  expect_error(result.tensors[0].why, Code::kUnsupported,
               "_rebuild_nested_tensor' makes no tensor");
  EXPECT_EQ(result.tensors[0].tensor.get(), nullptr);
  EXPECT_NE(result.tensors[1].tensor.get(), nullptr);
}

std::string with_state(const std::string& class_name, const std::string& state) {
  return "c__torch__\n" + class_name + "\n)\x81" + state + "b";
}

TEST(PickleStateDict, TheAttributesOfAModule) {
  const std::string list = "ctorch.jit._pickle\nbuild_tensorlist\n](" + kOne + "e\x85R";
  const std::string packed =
      "c__torch__.torch.classes.quantized\nLinearPackedParams\n)\x81}" + str("w") + kOne + "sb";
  const std::string body =
      with_state("Net", "}(" + str("training") + "\x88" + str("fc") +
                            with_state("Linear", "}" + str("weight") + kOne + "s") + str("all") +
                            list + str("packed") + packed + str("opaque") +
                            with_state("Odd", "(" + kOne + "K\x01t") + "u");
  const Bytes content = bytes_of(proto2(body));
  Storages storages;
  StateDictOptions options;
  options.is_module = true;
  options.find_storage = storages.finder();
  StateDict result = must(pickle_state_dict(must(pickle::read_pickle(content, {})), options));
  EXPECT_EQ(names(result),
            std::vector<std::string>({"fc.weight", "all.0", "packed.state.w", "opaque.state.0"}));
  EXPECT_EQ(leaves(result), std::vector<std::string>({"training = bool", "opaque.state.1 = int"}));
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
  StateDict differs = must(state_dict("(" + kOne + tensor(storage("0", 2), 2) + "t"));
  expect_error(differs.tensors.at(1).why, Code::kUnsupported, "is there twice, and differs");
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
  expect_error(must(state_dict(of_cuda)).tensors.at(0).why, Code::kUnsupported, "cuda:0");
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
  expect_error(state_dict("ctorch._utils\n_rebuild_nested_tensor\n)R").status(), Code::kUnsupported,
               "_rebuild_nested_tensor' makes no tensor");
  expect_error(state_dict("(ctorch._utils\n_rebuild_tensor_v2\n)Rt").status(), Code::kCorrupt,
               "0 arguments");
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
