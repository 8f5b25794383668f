// These tests check the values that pickle_to_values.h makes of pickles. Wrong pickles are refused.
#include "modules/archive/pickle_to_values.h"

#include <gtest/gtest.h>

#include <string>

#include "support/must.h"
#include "unit/archive/pickle_support.h"

namespace tenon::archive {
namespace {

using namespace test;
using tensor::ScalarType;
using value::TensorLayout;
using value::ValueKind;
using value::ValueRef;

// Returns the value of a pickle that must be readable.
ValueRef good(const std::string& body, Storages* storages = nullptr) {
  Result<UnpickledValue> result = unpickle(proto2(body), storages);
  EXPECT_TRUE(result.is_ok()) << result.status().message();
  return result.is_ok() ? result.value().root : value::Value::none();
}

void expect_bad(const std::string& body, std::string_view part, Code code = Code::kCorrupt) {
  SCOPED_TRACE(part);
  expect_error(unpickle(proto2(body)).status(), code, part);
}

std::string build(const std::string& name, const std::string& list) {
  return "ctorch.jit._pickle\n" + name + "\n(" + list + "tR";
}
std::string tagged(const std::string& inner, const std::string& type) {
  return "ctorch.jit._pickle\nrestore_type_tag\n" + inner + str(type) + "\x86R";
}

TEST(PickleToValues, PlainValues) {
  const ValueRef root =
      good("(N\x88K\x05G\x3f\xf8" + std::string(6, '\0') + str("text") + "ctorch\ndevice\n" +
           str("cuda:1") + "\x85Rcbuiltins\ncomplex\nG\x3f\xf8" + std::string(6, '\0') +
           "G\xbf\xf8" + std::string(6, '\0') + "\x86Rt");
  ASSERT_TRUE(root->is(ValueKind::kTuple));
  ASSERT_EQ(root->items().size(), 7U);
  EXPECT_TRUE(root->items()[0]->is(ValueKind::kNone));
  EXPECT_TRUE(root->items()[1]->as_bool());
  EXPECT_EQ(root->items()[2]->as_int(), 5);
  EXPECT_EQ(root->items()[3]->as_float(), 1.5);
  EXPECT_EQ(root->items()[4]->as_str(), "text");
  EXPECT_EQ(root->items()[5]->as_device(), "cuda:1");
  EXPECT_EQ(root->items()[6]->as_complex(), std::complex<double>(1.5, -1.5));
}

TEST(PickleToValues, TypedLists) {
  const ValueRef ints = good(build("build_intlist",
                                   "](K\x01K\x02"
                                   "e"));
  EXPECT_EQ(ints->declared_type()->print(), "List[int]");
  EXPECT_EQ(ints->items().size(), 2U);
  EXPECT_EQ(good(build("build_doublelist", "]"))->declared_type()->print(), "List[float]");
  EXPECT_EQ(good(build("build_boollist",
                       "](\x88"
                       "e"))
                ->declared_type()
                ->print(),
            "List[bool]");
  EXPECT_EQ(good(build("build_tensorlist", "](" + tensor(storage("0", 1), 1) + "e"))
                ->declared_type()
                ->print(),
            "List[Tensor]");
  EXPECT_EQ(good(tagged("](" + str("a") + "e", "List[str]"))->declared_type()->print(),
            "List[str]");
  const ValueRef dict = good(tagged("}(" + str("a") + "K\x01u", "Dict[str, int]"));
  EXPECT_EQ(dict->declared_type()->print(), "Dict[str, int]");
  ASSERT_NE(dict->find("a"), nullptr);
  EXPECT_EQ((*dict->find("a"))->as_int(), 1);
}

// Versions 1 and 2 write lists of other types without a type, because the code knows the types.
TEST(PickleToValues, BareContainersHaveNoType) {
  const ValueRef root = good("](" + str("a") + "}(K\x01Nu" + "e");
  EXPECT_FALSE(root->declared_type());
  EXPECT_FALSE(root->items()[1]->declared_type());
}

TEST(PickleToValues, SharedNodesAreOneValue) {
  Storages storages;
  const std::string shared = storage("0", 6) + memo_put(0);
  const ValueRef root = good("(" + tensor(shared, 6) + memo_put(1) + memo_get(1) +
                                 tensor(memo_get(0), 3) + tensor(storage("0", 6), 6) +
                                 build("build_intlist", "]") + memo_put(2) + memo_get(2) + "t",
                             &storages);
  const auto items = root->items();
  EXPECT_EQ(items[0].get(), items[1].get());
  EXPECT_NE(items[0].get(), items[2].get());
  EXPECT_EQ(items[0]->as_tensor()->storage().get(), items[2]->as_tensor()->storage().get());
  // This tensor spells the same key out again. torch.jit.load makes a second storage of it.
  EXPECT_NE(items[0]->as_tensor()->storage().get(), items[3]->as_tensor()->storage().get());
  EXPECT_EQ(items[4].get(), items[5].get());
  EXPECT_EQ(storages.calls.size(), 2U);
}

TEST(PickleToValues, WhatIsInTheMemoIsTold) {
  UnpickledValue result =
      must(unpickle(proto2("(" + build("build_intlist", "]") + memo_put(0) +
                           build("build_intlist", "]") + str("a") + memo_put(1) + "t")));
  ASSERT_EQ(result.memoised.size(), 1U);
  EXPECT_EQ(result.memoised[0].get(), result.root->items()[0].get());
}

TEST(PickleToValues, ObjectsAndEnums) {
  const ValueRef module =
      good("c__torch__.a\nM\n)\x81}(" + str("x") + "K\x01" + str("e") +
           "c__torch__\nColor\nK\x02R" + str("s") + "c__torch__\nS\n)\x81K\x01N\x86" + "b" +
           str("q") + "c__torch__.torch.classes.quantized\nPacked\n)\x81}b" + "ub");
  EXPECT_EQ(module->class_name(), "__torch__.a.M");
  ASSERT_FALSE(module->is_opaque());
  ASSERT_EQ(module->attributes().size(), 4U);
  EXPECT_EQ((*module->attributes().find("x"))->as_int(), 1);
  const ValueRef& color = *module->attributes().find("e");
  ASSERT_TRUE(color->is(ValueKind::kEnum));
  EXPECT_EQ(color->class_name(), "__torch__.Color");
  EXPECT_EQ(color->enum_value()->as_int(), 2);
  const ValueRef& stateful = *module->attributes().find("s");
  ASSERT_TRUE(stateful->is_opaque());
  EXPECT_TRUE(stateful->state()->is(ValueKind::kTuple));
  // In an object of a custom C++ class a dict is the state, and does not hold the attributes.
  const ValueRef& packed = *module->attributes().find("q");
  ASSERT_TRUE(packed->is_opaque());
  EXPECT_TRUE(packed->state()->is(ValueKind::kDict));
  // A tagged dict is what __getstate__ returned.
  EXPECT_TRUE(good("c__torch__\nS\n)\x81" + tagged("}", "Dict[str, int]") + "b")->is_opaque());
}

TEST(PickleToValues, ClassesAreAskedFor) {
  std::vector<std::string> asked;
  ToValuesOptions options;
  options.check_class = [&](std::string_view name) {
    asked.emplace_back(name);
    return name == "__torch__.M" ? Status::ok() : Status(Code::kNotFound, "no such class");
  };
  EXPECT_TRUE(
      unpickle(proto2("(c__torch__\nM\n" + memo_put(0) + ")\x81}b" + memo_get(0) + ")\x81}bt"),
               nullptr, options)
          .is_ok());
  EXPECT_EQ(asked, std::vector<std::string>({"__torch__.M"}));
  expect_error(unpickle(proto2("cos\nsystem\nK\x01R"), nullptr, options).status(), Code::kNotFound,
               "no such class");
}

TEST(PickleToValues, Tensors) {
  const std::string bits = "}(" + str("conj") + "\x88" + str("neg") + "\x88u";
  const std::string of_complex = "ctorch._utils\n_rebuild_tensor_v2\n(" +
                                 storage("0", 6, "ComplexFloatStorage") +
                                 "K\x01(K\x02K\x02t(K\x02K\x01t\x88" + kHooks;
  const auto first = good(of_complex + bits + "tR")->as_tensor();
  EXPECT_EQ(first->type(), ScalarType::kComplexFloat);
  EXPECT_EQ(first->offset(), 1);
  EXPECT_EQ(std::vector<int64_t>(first->strides().begin(), first->strides().end()),
            std::vector<int64_t>({2, 1}));
  EXPECT_TRUE(first->requires_grad());
  EXPECT_TRUE(first->is_conj());
  EXPECT_TRUE(first->is_neg());
  EXPECT_FALSE(good(of_complex + "tR")->as_tensor()->is_conj());
  EXPECT_TRUE(good(of_complex + tagged(bits, "Dict[str, bool]") + "tR")->as_tensor()->is_conj());

  const std::string of_1_4 =
      "(" + str("storage") + "ctorch\nFloatStorage\n" + str("0") + str("cpu") + "K\x04NtQ";
  EXPECT_EQ(good(tensor(of_1_4, 4))->as_tensor()->numel(), 4U);
  EXPECT_EQ(
      good("ctorch._utils\n_rebuild_tensor\n(" + storage("0", 4) + "K" + kNul + "(K\x04t(K\x01ttR")
          ->as_tensor()
          ->numel(),
      4U);
  EXPECT_EQ(good(tensor(storage("0", 4, "FloatStorage", "meta"), 4))->as_tensor()->device(),
            "meta");
  EXPECT_EQ(
      good("ctorch._utils\n_rebuild_meta_tensor_no_storage\n(K\x06(K\x02K\x03t(K\x03K\x01t\x89tR")
          ->as_tensor()
          ->storage()
          ->numel(),
      6U);
  EXPECT_TRUE(good("ctorch._utils\n_rebuild_parameter\n(" + tensor(storage("0", 4), 4) + "\x88" +
                   kHooks + "tR")
                  ->as_tensor()
                  ->requires_grad());

  const std::string quantised = "ctorch._utils\n_rebuild_qtensor\n(" +
                                storage("0", 2, "QInt8Storage") + "K" + kNul + "(K\x02t(K\x01t";
  const auto per_tensor = good(quantised + "(ctorch\nper_tensor_affine\nG\x3f\xf8" +
                               std::string(6, '\0') + "K\x03t\x89" + kHooks + "tR")
                              ->as_tensor();
  ASSERT_TRUE(per_tensor->quantizer());
  EXPECT_EQ(per_tensor->quantizer()->scale, 1.5);
  EXPECT_EQ(per_tensor->quantizer()->zero_point, 3);
  const auto per_channel =
      good(quantised + "(ctorch\nper_channel_affine\n" +
           tensor(storage("1", 2, "DoubleStorage"), 2) + tensor(storage("2", 2, "LongStorage"), 2) +
           "K" + kNul + "t\x89" + kHooks + "tR")
          ->as_tensor();
  ASSERT_TRUE(per_channel->quantizer());
  EXPECT_EQ(per_channel->quantizer()->scales->type(), ScalarType::kDouble);

  const std::string indices = "ctorch._utils\n_rebuild_tensor_v2\n(" +
                              storage("0", 2, "LongStorage") + "K" + kNul +
                              "(K\x01K\x02t(K\x02K\x01t\x89" + kHooks + "tR";
  const auto coo = good("ctorch._utils\n_rebuild_sparse_tensor\n(K\x01(K\x04t\x88" + indices +
                        tensor(storage("1", 2), 2) + kHooks + "tR")
                       ->as_tensor();
  EXPECT_EQ(coo->layout(), TensorLayout::kSparseCoo);
  EXPECT_TRUE(coo->requires_grad());
  const std::string csr_parts = tensor(storage("0", 3, "LongStorage"), 3) +
                                tensor(storage("1", 2, "LongStorage"), 2) +
                                tensor(storage("2", 2), 2);
  EXPECT_EQ(good("ctorch._utils\n_rebuild_sparse_tensor\n(K\x02(K\x02K\x02t\x89" + csr_parts +
                 kHooks + "tR")
                ->as_tensor()
                ->layout(),
            TensorLayout::kSparseCsr);
}

TEST(PickleToValues, BadTensors) {
  const auto v2 = [](const std::string& storage_of, const std::string& rest) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage_of + rest + "tR";
  };
  const std::string rest = "K" + kNul + "(K\x04t(K\x01t\x89" + kHooks;
  EXPECT_TRUE(unpickle(proto2(v2(storage("0", 4), rest))).is_ok());
  expect_bad(v2(storage("0", 3), rest), "");  // more elements than the storage has
  // The finder decides where the storages of other devices go.
  for (const char* device : {"cuda:0", "cuda", "mps", "xpu:1", "hpu:0", "privateuseone:12"}) {
    EXPECT_TRUE(unpickle(proto2(v2(storage("0", 4, "FloatStorage", device), rest))).is_ok())
        << device;
  }
  for (const char* device : {"cuda:", "cuda:x", "cuda0", "no device", "cpu:0"}) {
    expect_bad(v2(storage("0", 4, "FloatStorage", device), rest), device, Code::kUnsupported);
  }
  expect_bad(v2(storage("0", 4, "NoStorage"), rest), "torch.NoStorage", Code::kUnsupported);
  expect_bad(v2("N", rest), "a persistent id");
  expect_bad(v2("(" + str("storage") + "tQ", rest), "a tuple of 5");
  expect_bad(
      v2("(" + str("module") + "ctorch\nFloatStorage\n" + str("0") + str("cpu") + "K\x04tQ", rest),
      "'storage'");
  expect_bad(v2("(" + str("storage") + "ctorch\nFloatStorage\n" + str("0") + str("cpu") +
                    "J\xff\xff\xff\xfftQ",
                rest),
             "none below 0");
  expect_bad(v2(storage("0", 4), "K" + kNul + "(K\x04t(K\x01t\x89"), "5 arguments");
  expect_bad(v2(storage("0", 4), "K" + kNul + "K\x04(K\x01t\x89" + kHooks), "a tuple of ints");
  expect_bad(v2(storage("0", 4), "N(K\x04t(K\x01t\x89" + kHooks), "the offset of a tensor is None");
  expect_bad(v2(storage("0", 4), "J\xff\xff\xff\xff(K\x04t(K\x01t\x89" + kHooks), "");
  expect_bad(v2(storage("0", 4),
                "K" + kNul + "(\x8a\x08" + u64(uint64_t{1} << 62) + "t(K\x04t\x89" + kHooks),
             "");
  expect_bad(v2(storage("0", 4), "K" + kNul + "(" + std::string(65 * 2, 'K') + "t(t\x89" + kHooks),
             "64 dimensions");
  expect_bad(v2(storage("0", 4), "K" + kNul + "(K\x04t(K\x01t\x89" + kHooks + "(NNu"), "hooks",
             Code::kUnsupported);
  expect_bad(v2(storage("0", 4), rest + "}(" + str("zero") + "\x88u"), "'zero'",
             Code::kUnsupported);
  expect_bad("ctorch._utils\n_rebuild_tensor_v2\nNR", "a tuple");
  expect_bad("ctorch._utils\n_rebuild_device_tensor\n)R", "_rebuild_device_tensor",
             Code::kUnsupported);
  expect_bad("ctorch._utils\n_rebuild_sparse_tensor\n(K\x03)\x89NNNtR", "layout",
             Code::kUnsupported);
  // A tensor may be wrapped only a limited number of times.
  std::string wrapped;
  std::string ends;
  for (int i = 0; i < 10; ++i) {
    wrapped += "ctorch._utils\n_rebuild_parameter\n(";
    ends += "\x88" + kHooks + "tR";
  }
  wrapped += tensor(storage("0", 1), 1) + ends;
  expect_bad(wrapped, "wrapped less often");
}

TEST(PickleToValues, Hostile) {
  expect_bad("cos\nsystem\n", "'os.system'", Code::kUnsupported);
  expect_bad("cbuiltins\neval\n(" + str("1") + "tR", "'builtins.eval'", Code::kUnsupported);
  expect_bad("ctorch\nload\n)R", "'torch.load'", Code::kUnsupported);
  expect_bad("ctorch\nTensor\n)\x81}b", "'torch.Tensor'", Code::kUnsupported);
  expect_bad("ca b\nc\n)\x81}b", "no name of a class");
  expect_bad("c\nc\n)\x81}b", "no name of a class");
  expect_bad("c__torch__\nM\n)\x81", "has no state");
  expect_bad("c__torch__\nM\nN\x85\x81}b", "more than a state");
  expect_bad("c__torch__\nM\n)\x81}(K\x01Nub", "an attribute has the name 1");
  expect_bad("c__torch__\nM\n)\x81}(" + str("a") + "N" + str("a") + "Nub", "");
  expect_bad("c__torch__\nE\nK\x01\x85R", "an enum has");
  expect_bad("c__torch__\nE\nK\x01R}b", "a state or items");
  expect_bad("(NtQ", "where a value is wanted");
  expect_bad(build("build_intlist", "K\x01"), "not given one list");
  expect_bad(build("build_intlist", "]]"), "not given one list");
  expect_bad(build("build_intlist", "]NaK\x01\x61"), "a List[int] holds a None");
  expect_bad(build("build_boollist", "]K\x01\x61"), "a List[bool] holds a int");
  expect_bad(tagged("]Na", "List[float]"), "a List[float] holds a None");
  expect_bad(build("build_other", "]"), "build_other", Code::kUnsupported);
  expect_bad(tagged("]", "List["), "");
  expect_bad(tagged("]", "Dict[str, int]"), "on a list");
  expect_bad(tagged("}", "int"), "on a dict");
  expect_bad(tagged("K\x01", "int"), "expected a list or a dict");
  expect_bad("}(" + str("a") + "N" + str("a") + "Nu", "");
  expect_bad("}(]Nu", "");
  // A node that was read as one thing cannot be read as another thing.
  expect_bad("(]" + memo_put(0) + build("build_intlist", memo_get(0)) + "t",
             "taken for two things");
  expect_bad(
      "(" + build("build_intlist", "]" + memo_put(0)) + tagged(memo_get(0), "List[str]") + "t",
      "taken for two things");
  expect_bad("(c__torch__\nM\n)\x81}" + memo_put(0) + "bc__torch__\nM\n)\x81" + memo_get(0) + "bt",
             "taken for two things");
}

TEST(PickleToValues, WhatContainsItselfIsRefused) {
  expect_bad("]" + memo_put(0) + memo_get(0) + "a", "contains itself");
  expect_bad("]" + memo_put(0) + "(" + memo_get(0) + "\x85\x85" + "e", "contains itself");
  expect_bad("}" + memo_put(0) + str("a") + memo_get(0) + "s", "contains itself");
  expect_bad("c__torch__\nM\n)\x81" + memo_put(0) + "}(" + str("me") + memo_get(0) + "ub",
             "contains itself");
  expect_bad("c__torch__\nM\n)\x81" + memo_put(0) + memo_get(0) + "\x85" + "b", "contains itself");
  expect_bad(tagged("]" + memo_put(0) + "(" + memo_get(0) + "e", "List[Any]"),
             "taken for two things");
}

TEST(PickleToValues, Depth) {
  const auto nested = [](size_t depth) { return "N" + std::string(depth, '\x85'); };
  ToValuesOptions options;
  options.limits.max_depth = 10;
  EXPECT_TRUE(unpickle(proto2(nested(9)), nullptr, options).is_ok());
  const Status deep = unpickle(proto2(nested(10)), nullptr, options).status();
  expect_error(deep, Code::kResourceExhausted, "max_depth");
  EXPECT_EQ(deep.detail("limit_value"), "10");
  // The shared value was first read at less depth. At its second place it is too deep.
  std::string shared = "(" + nested(6) + memo_put(0) + memo_get(0) + std::string(6, '\x85') + "t";
  expect_error(unpickle(proto2(shared), nullptr, options).status(), Code::kResourceExhausted,
               "max_depth");
  // So many levels use up no stack, and the values that were made are freed.
  expect_error(unpickle(proto2(nested(200'000))).status(), Code::kResourceExhausted, "max_depth");
  ToValuesOptions deeper;
  deeper.limits.max_depth = 400'000;
  EXPECT_TRUE(unpickle(proto2(nested(200'000)), nullptr, deeper).is_ok());
}

// This short pickle asks for much memory. The limit refuses it before the memory is taken.
TEST(PickleToValues, ManyNamesOfOne) {
  std::string body = "(c__torch__\n" + std::string(4000, 'M') + "\n" + memo_put(0) + "K\x01R";
  for (int i = 0; i < 200; ++i) body += memo_get(0) + "K\x01R";
  ToValuesOptions options;
  options.limits.max_names_nbytes = 100'000;
  expect_error(unpickle(proto2(body + "t"), nullptr, options).status(), Code::kResourceExhausted,
               "max_names_nbytes");
  EXPECT_TRUE(unpickle(proto2(body + "t")).is_ok());
}

TEST(PickleToValues, LongKeysOfManyDicts) {
  // The key of every dict is the text with number 0 of the memo.
  const std::string length("\xa0\x0f\x00\x00", 4);
  std::string body = "(}X" + length + std::string(4000, 'k') + memo_put(0) + "K\x01s";
  for (int i = 0; i < 200; ++i) body += "}" + memo_get(0) + "K\x01s";
  ToValuesOptions options;
  options.limits.max_names_nbytes = 100'000;
  expect_error(unpickle(proto2(body + "t"), nullptr, options).status(), Code::kResourceExhausted,
               "max_names_nbytes");
  EXPECT_TRUE(unpickle(proto2(body + "t")).is_ok());
}

TEST(PickleToValues, AMemoBombIsOneValueEach) {
  std::string body = ")" + memo_put(0);
  for (uint8_t i = 0; i < 60; ++i)
    body += memo_get(i) + "\x86" + memo_put(static_cast<uint8_t>(i + 1));
  UnpickledValue result = must(unpickle(proto2(body)));
  EXPECT_EQ(result.memoised.size(), 61U);
}

TEST(PickleToValues, NoStorageNoTensor) {
  const Bytes content = bytes_of(proto2(tensor(storage("0", 1), 1)));
  pickle::PickleTree tree = must(pickle::read_pickle(content, {}));
  expect_error(pickle_to_values(tree, {}).status(), Code::kUnsupported,
               "a tensor where none can be");
  ToValuesOptions failing;
  failing.find_storage = [](const PickledStorage& wanted) -> Result<value::StorageValueRef> {
    return Status(Code::kNotFound, "no record data/" + std::string(wanted.key));
  };
  EXPECT_EQ(pickle_to_values(tree, failing).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tenon::archive
