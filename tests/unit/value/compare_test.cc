// These tests compare trees of values, and check that each difference is named.
#include "modules/value/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

std::string text(const std::optional<std::string>& found) { return found.value_or("equal"); }

ValueRef object_of(std::vector<Attribute> attributes) {
  return must(Value::object("__torch__.M", std::move(attributes)));
}

ValueRef everything() {
  const StorageValueRef storage = storage_of(ScalarType::kFloat, 6, 1);
  const ValueRef weight =
      Value::of_tensor(must(TensorValue::create(spec_of(storage, {2, 3}, {3, 1}))));
  const ValueRef view = Value::of_tensor(must(TensorValue::create(spec_of(storage, {3}, {1}, 3))));
  StridedSpec spec = spec_of(storage_of(ScalarType::kQInt8, 2), {2}, {1});
  spec.quantizer = Quantizer();
  spec.quantizer->scheme = QScheme::kPerChannelAffine;
  spec.quantizer->scales = tensor_of(ScalarType::kDouble, 2);
  spec.quantizer->zero_points = tensor_of(ScalarType::kLong, 2);
  SparseSpec sparse;
  sparse.sizes = {4};
  sparse.indices =
      must(TensorValue::create(spec_of(storage_of(ScalarType::kLong, 2), {1, 2}, {2, 1})));
  sparse.values = tensor_of(ScalarType::kFloat, 2);
  const ValueRef shared = Value::tuple({num(1), Value::of_float(std::nan(""))});
  return object_of(
      {{"weight", weight},
       {"tied", weight},
       {"view", view},
       {"quantized", Value::of_tensor(must(TensorValue::create(spec)))},
       {"sparse", Value::of_tensor(must(TensorValue::create_sparse(sparse)))},
       {"pair", Value::tuple({shared, shared})},
       {"names", list("List[str]", {str("a"), str("b")})},
       {"map", must(Value::dict(type("Dict[str, int]"), {{str("k"), num(1)}, {str("l"), num(2)}}))},
       {"colour", Value::enumeration("__torch__.C", num(1))},
       {"packed", Value::object_with_state("__torch__.torch.classes.q.P", Value::none())},
       {"others", Value::tuple({Value::of_bool(false), Value::of_complex({1, 2}),
                                Value::of_device("cpu"), Value::none()})}});
}

TEST(Compare, EqualTrees) {
  const ValueRef a = everything();
  const ValueRef b = everything();
  EXPECT_EQ(text(difference(*a, *b)), "equal");
  EXPECT_EQ(text(difference(*a, *a)), "equal");
  EXPECT_EQ(text(difference(*a, *b, {.sharing = false})), "equal");
}

// Each change is noticed and named with its path.
TEST(Compare, EveryDifferenceIsNamed) {
  struct Row {
    const char* attribute;
    ValueRef value;
    const char* message;
  };
  const auto strided = [](ScalarType scalar_type, Dims sizes, Dims strides, int64_t offset) {
    return Value::of_tensor(must(TensorValue::create(
        spec_of(storage_of(scalar_type, 6, 1), std::move(sizes), std::move(strides), offset))));
  };
  StridedSpec grad = spec_of(storage_of(ScalarType::kFloat, 6, 1), {3}, {1}, 3);
  grad.requires_grad = true;
  const Row rows[] = {
      {"view", num(1), "root.view: kinds Tensor and int"},
      {"view", strided(ScalarType::kInt, {3}, {1}, 3), "root.view: element types Float and Int"},
      {"view", strided(ScalarType::kFloat, {2}, {1}, 3), "root.view: sizes [3] and [2]"},
      {"view", strided(ScalarType::kFloat, {3}, {2}, 0), "root.view: strides [1] and [2]"},
      {"view", strided(ScalarType::kFloat, {3}, {1}, 2), "root.view: offsets 3 and 2"},
      {"view", strided(ScalarType::kFloat, {3}, {1}, 3),
       "root.view: a storage shared in one and not in the other"},
      {"view", Value::of_tensor(must(TensorValue::create(grad))),
       "root.view: requires_grad false and true"},
      {"sparse", strided(ScalarType::kFloat, {3}, {1}, 3),
       "root.sparse: layouts sparse_coo and strided"},
      {"pair", Value::tuple({num(1)}), "root.pair: lengths 2 and 1"},
      {"pair",
       Value::tuple({Value::tuple({num(1), Value::of_float(std::nan(""))}),
                     Value::tuple({num(1), Value::of_float(std::nan(""))})}),
       "root.pair[1]: shared in one and not in the other"},
      {"names", list("List[str]", {str("a"), str("c")}), "root.names[1]: texts 'b' and 'c'"},
      {"names", list("List[int]", {str("a"), str("b")}),
       "root.names: types List[str] and List[int]"},
      {"names", Value::list(nullptr, {str("a"), str("b")}),
       "root.names: types List[str] and no type"},
      {"map", must(Value::dict(type("Dict[str, int]"), {{str("k"), num(1)}, {str("l"), num(3)}})),
       "root.map['l']: ints 2 and 3"},
      {"map", must(Value::dict(type("Dict[str, int]"), {{str("l"), num(2)}, {str("k"), num(1)}})),
       "root.map.key 0: texts 'k' and 'l'"},
      {"map", must(Value::dict(type("Dict[str, int]"), {})), "root.map: lengths 2 and 0"},
      {"colour", Value::enumeration("__torch__.D", num(1)),
       "root.colour: classes '__torch__.C' and '__torch__.D'"},
      {"colour", Value::enumeration("__torch__.C", num(2)), "root.colour.value: ints 1 and 2"},
      {"packed", Value::object("__torch__.torch.classes.q.P"),
       "root.packed: a state in one, attributes in the other"},
      {"packed", Value::object_with_state("__torch__.torch.classes.q.P", num(0)),
       "root.packed.state: kinds None and int"},
  };
  for (const Row& row : rows) {
    const ValueRef a = everything();
    const ValueRef b = everything();
    ASSERT_TRUE(b->attributes().replace(row.attribute, row.value));
    EXPECT_EQ(text(difference(*a, *b)), row.message);
    EXPECT_NE(text(difference(*b, *a)), "equal") << row.message;
  }
}

TEST(Compare, FloatsByTheirBits) {
  const auto differ = [](double a, double b) {
    return difference(*Value::of_float(a), *Value::of_float(b)).has_value();
  };
  EXPECT_TRUE(differ(0.0, -0.0));
  EXPECT_FALSE(differ(std::nan("1"), std::nan("1")));
  EXPECT_TRUE(differ(std::nan("1"), std::nan("2")));
  EXPECT_TRUE(difference(*Value::of_complex({0, 0}), *Value::of_complex({0, -0.0})).has_value());
}

TEST(Compare, BytesOfStorages) {
  const auto tensor = [](unsigned char fill) {
    return Value::of_tensor(tensor_of(ScalarType::kByte, 4, fill));
  };
  EXPECT_EQ(text(difference(*tensor(1), *tensor(2))), "root: storages differ from byte 0 on");
  EXPECT_EQ(text(difference(*tensor(1), *tensor(2), {.tensor_bytes = false})), "equal");
}

TEST(Compare, QuantizersAndSparseParts) {
  const auto quantized = [](double scale, int64_t zero_point) {
    StridedSpec spec = spec_of(storage_of(ScalarType::kQInt8, 2), {2}, {1});
    spec.quantizer = Quantizer();
    spec.quantizer->scale = scale;
    spec.quantizer->zero_point = zero_point;
    return Value::of_tensor(must(TensorValue::create(spec)));
  };
  EXPECT_EQ(text(difference(*quantized(1, 0), *quantized(1, 1))), "root: zero points 0 and 1");
  EXPECT_NE(text(difference(*quantized(1, 0), *quantized(2, 0))).find("root: scales 1 "),
            std::string::npos);
  const auto channels = [](unsigned char fill, QScheme scheme) {
    StridedSpec spec = spec_of(storage_of(ScalarType::kQInt8, 2), {2}, {1});
    spec.quantizer = Quantizer();
    spec.quantizer->scheme = scheme;
    spec.quantizer->scales = tensor_of(ScalarType::kDouble, 2, fill);
    spec.quantizer->zero_points = tensor_of(ScalarType::kLong, 2);
    return Value::of_tensor(must(TensorValue::create(spec)));
  };
  EXPECT_EQ(text(difference(*channels(0, QScheme::kPerChannelAffine),
                            *channels(1, QScheme::kPerChannelAffine))),
            "root: scales: storages differ from byte 0 on");
  EXPECT_NE(text(difference(*channels(0, QScheme::kPerChannelAffine),
                            *channels(0, QScheme::kPerChannelAffineFloatQParams))),
            "equal");
  const auto sparse = [](unsigned char index, std::optional<bool> coalesced) {
    SparseSpec spec;
    spec.sizes = {4};
    spec.indices =
        must(TensorValue::create(spec_of(storage_of(ScalarType::kLong, 2, index), {1, 2}, {2, 1})));
    spec.values = tensor_of(ScalarType::kFloat, 2);
    spec.is_coalesced = coalesced;
    return Value::of_tensor(must(TensorValue::create_sparse(spec)));
  };
  EXPECT_EQ(text(difference(*sparse(0, true), *sparse(1, true))),
            "root: indices: storages differ from byte 0 on");
  EXPECT_EQ(text(difference(*sparse(0, true), *sparse(0, std::nullopt))),
            "root: coalesced in one and not in the other");
}

TEST(Compare, SharingBothWays) {
  const ValueRef one = Value::tuple({});
  const ValueRef shared = Value::tuple({one, one});
  const ValueRef apart = Value::tuple({Value::tuple({}), Value::tuple({})});
  EXPECT_EQ(text(difference(*shared, *apart)), "root[1]: shared in one and not in the other");
  EXPECT_EQ(text(difference(*apart, *shared)), "root[1]: shared in one and not in the other");
  EXPECT_EQ(text(difference(*apart, *shared, {.sharing = false})), "equal");
  // Numbers and texts have no identity.
  const ValueRef number = num(1);
  EXPECT_EQ(text(difference(*Value::tuple({number, number}), *Value::tuple({num(1), num(1)}))),
            "equal");
}

TEST(Compare, AttributeOrder) {
  const ValueRef a = object_of({{"x", num(1)}, {"y", num(2)}});
  const ValueRef b = object_of({{"y", num(2)}, {"x", num(1)}});
  const ValueRef c = object_of({{"y", num(2)}, {"x", num(3)}});
  EXPECT_EQ(text(difference(*a, *b)), "root: attributes in another order: x and y");
  EXPECT_EQ(text(difference(*a, *b, {.attribute_order = false})), "equal");
  EXPECT_EQ(text(difference(*a, *c, {.attribute_order = false})), "root.x: ints 1 and 3");
  EXPECT_EQ(text(difference(*a, *object_of({{"x", num(1)}, {"z", num(2)}}))),
            "root: the attribute 'y' is in one only");
}

TEST(Compare, DeepAndManyTimesSharedTrees) {
  const auto deep = [](int64_t leaf) {
    ValueRef value = num(leaf);
    for (int i = 0; i < 100'000; ++i) value = Value::tuple({value});
    return value;
  };
  EXPECT_EQ(text(difference(*deep(1), *deep(1))), "equal");
  EXPECT_NE(text(difference(*deep(1), *deep(2))), "equal");
  const auto wide = [] {
    ValueRef value = num(1);
    for (int i = 0; i < 200; ++i) value = Value::tuple({value, value});
    return value;
  };
  EXPECT_EQ(text(difference(*wide(), *wide())), "equal");
  EXPECT_EQ(text(difference(*wide(), *wide(), {.sharing = false})), "equal");
}

}  // namespace
}  // namespace tenon::value
