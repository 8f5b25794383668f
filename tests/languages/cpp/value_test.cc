// Tests of values of every kind, into a module and out of it.
#include <array>
#include <complex>
#include <map>
#include <optional>

#include "kit.h"

namespace {

using Values = kit::Leaves;
using tenon::Value;
using tenon::ValueKind;

static_assert(sizeof(Value) == sizeof(void*) && std::is_nothrow_move_constructible_v<Value>);
// Only types whose every value fits convert. Nothing is cut, rounded or guessed.
static_assert(std::is_convertible_v<int, Value> && std::is_convertible_v<std::int64_t, Value> &&
              std::is_convertible_v<std::uint32_t, Value>);
static_assert(!std::is_convertible_v<std::uint64_t, Value> &&
              !std::is_convertible_v<long double, Value> && !std::is_convertible_v<char, Value>);
static_assert(!std::is_convertible_v<std::nullptr_t, Value> &&
              !std::is_convertible_v<void*, Value>);
template <class T>
concept IsTarget = requires(const Value& value) { value.as<T>(); };
static_assert(IsTarget<std::string_view> && IsTarget<std::uint8_t> &&
              IsTarget<std::optional<std::vector<double>>>);
static_assert(!IsTarget<float> && !IsTarget<std::vector<std::string_view>> &&
              !IsTarget<const char*>);
static_assert(!std::is_convertible_v<std::vector<std::uint64_t>, Value> &&
              std::is_convertible_v<std::vector<std::vector<int>>, Value>);

std::vector<std::string> types_of(const std::vector<Value>& values) {
  std::vector<std::string> types;
  for (const Value& value : values) types.push_back(value.type_text());
  return types;
}

TEST_F(Values, PlainOnes) {
  using namespace std::complex_literals;
  const struct {
    Value value;
    ValueKind kind;
    const char* type;
  } known[] = {{Value::none(), ValueKind::kNone, "NoneType"},
               {std::nullopt, ValueKind::kNone, "NoneType"},
               {true, ValueKind::kBool, "bool"},
               {-3, ValueKind::kInt, "int"},
               {INT64_MIN, ValueKind::kInt, "int"},
               {std::uint8_t{255}, ValueKind::kInt, "int"},
               {0.5, ValueKind::kFloat, "float"},
               {0.5F, ValueKind::kFloat, "float"},
               {1.0 - 2.0i, ValueKind::kComplex, "complex"},
               {std::complex<float>(1, 2), ValueKind::kComplex, "complex"},
               {std::string("a\0\xc3\xa9", 4), ValueKind::kStr, "str"},
               {"text", ValueKind::kStr, "str"},
               {std::string_view(), ValueKind::kStr, "str"},
               {Value::device("cuda:1"), ValueKind::kDevice, "Device"},
               {std::optional<int>(), ValueKind::kNone, "NoneType"},
               {std::optional<int>(4), ValueKind::kInt, "int"}};
  for (const auto& [value, kind, type] : known) {
    EXPECT_EQ(value.kind(), kind) << type;
    EXPECT_EQ(value.type_text(), type);
    EXPECT_EQ(value.size(), 0U);
    EXPECT_EQ(value.class_name(), "");
    EXPECT_FALSE(value.is_opaque());
    EXPECT_TRUE(value.items().empty() && value.keys().empty() && value.attributes().empty());
    kit::thrown_by<tenon::InvalidArgument>([&item = value] { (void)item.item(0); });
  }
  EXPECT_TRUE(Value(true).as<bool>());
  EXPECT_FALSE(Value(false).as<bool>());
  EXPECT_EQ(Value(INT64_MIN).as<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(Value(-0.25).as<double>(), -0.25);
  EXPECT_EQ(Value(1.0 - 2.0i).as<std::complex<double>>(), 1.0 - 2.0i);
  EXPECT_EQ(Value(std::string("a\0b", 3)).as<std::string>(), std::string("a\0b", 3));
  const Value device = Value::device("cuda:1");
  EXPECT_EQ(device.as_device(), "cuda:1");
  EXPECT_EQ(tenon::name_of(ValueKind::kDict), "dict");
  EXPECT_EQ(tenon::name_of(ValueKind::kObject), "object");
  EXPECT_EQ(tenon::name_of(ValueKind::kEmpty), "");
}

TEST_F(Values, AnotherKindIsAnError) {
  const Value number = 1;
  const Value text = "1";
  for (const tenon::Code code :
       {number.try_as<bool>().code(), Value(true).try_as<int>().code(),
        number.try_as<double>().code(), Value(0.5).try_as<int>().code(),
        number.try_as<std::complex<double>>().code(), number.try_as<std::string>().code(),
        number.try_as<std::string_view>().code(), text.try_as_device().code(),
        text.try_as<tenon::Tensor>().code(), text.try_tensor_spec().code(),
        text.try_find("a").code(), text.try_as<std::vector<std::string>>().code(),
        (text.try_as<std::map<std::string, int>>().code()),
        Value(300).try_as<std::uint8_t>().code(), Value(-1).try_as<std::uint64_t>().code(),
        Value::try_device(std::string("a\0", 2)).code(), Value::try_enum_member("C", true).code(),
        Value::try_make("\xff").code()}) {
    EXPECT_EQ(code, tenon::Code::kInvalidArgument);
  }
  EXPECT_EQ(Value(255).as<std::uint8_t>(), 255);
  // A value that cannot be converted throws at the call that takes it.
  kit::thrown_by<tenon::InvalidArgument>([] { (void)Value::tuple({1, "\xff"}); });
}

TEST_F(Values, AnEmptyOneIsNoNone) {
  const Value empty;
  EXPECT_EQ(empty.kind(), ValueKind::kEmpty);
  EXPECT_EQ(empty.size(), 0U);
  EXPECT_EQ(empty.class_name(), "");
  EXPECT_TRUE(empty.items().empty());
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)empty.type_text(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)empty.as<std::optional<int>>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)empty.find("a"); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Value::tuple({empty}); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Value::dict(std::nullopt, {{"a", empty}}); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Value::opaque("C", empty); });
  kit::thrown_by<tenon::InvalidArgument>([&] { empty.check("int"); });
}

TEST_F(Values, InValues) {
  const Value shared = Value::list("List[int]", {1, 2});
  const Value pair = Value::tuple({shared, shared});
  EXPECT_EQ(pair.type_text(), "Tuple[List[int], List[int]]");
  EXPECT_TRUE(pair.item(0).is_same(pair.item(1)) && pair.item(0).is_same(shared) &&
              !pair.is_same(shared));
  EXPECT_EQ(pair.items()[1].item(1).as<int>(), 2);
  EXPECT_EQ(Value::tuple({}).type_text(), "Tuple[()]");
  const Value copy = shared;
  EXPECT_TRUE(copy.is_same(shared));

  const Value named = Value::named_tuple("__torch__.Point", {1, 2});
  EXPECT_EQ(named.kind(), ValueKind::kTuple);
  EXPECT_EQ(named.class_name(), "__torch__.Point");

  const Value dict = Value::dict("Dict[str, float]", {{"b", 1.0}, {"a", 2.0}});
  EXPECT_EQ(dict.keys()[0].as<std::string>(), "b");
  EXPECT_EQ(dict.find("a").as<double>(), 2.0);
  kit::thrown_by<tenon::NotFound>([&] { (void)dict.find("c"); });
  kit::thrown_by<tenon::InvalidArgument>(
      [] { (void)Value::dict(std::nullopt, {{"a", 1}, {"a", 2}}); });

  const tenon::Result<Value> unfit = Value::try_list("List[int]", {1, "x"});
  ASSERT_EQ(unfit.code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(unfit.error().detail("wanted"), "int");
  EXPECT_EQ(unfit.error().detail("found"), "str");
  EXPECT_TRUE(Value::try_list("List[", {1}).error().detail("column"));
  EXPECT_CODE(kInvalidArgument, Value::try_list(std::string("List[int]\0", 10), {1}));

  const Value colour = Value::enum_member("__torch__.Colour", "red");
  EXPECT_EQ(colour.kind(), ValueKind::kEnum);
  EXPECT_EQ(colour.item(0).as<std::string>(), "red");

  const Value object = Value::object("__torch__.Box", {{"width", 2}, {"name", "n"}});
  const std::vector<tenon::NamedValue> attributes = object.attributes();
  ASSERT_EQ(attributes.size(), 2U);
  EXPECT_EQ(attributes[0].name, "width");
  EXPECT_EQ(attributes[1].name, "name");
  EXPECT_EQ(attributes[1].value.as<std::string>(), "n");
  EXPECT_EQ(object.find("width").as<int>(), 2);
  EXPECT_EQ(object.type_text(), "__torch__.Box");

  const Value opaque = Value::opaque("__torch__.torch.classes.a.B", shared);
  EXPECT_TRUE(opaque.is_opaque() && opaque.item(0).is_same(shared) && opaque.attributes().empty());
}

TEST_F(Values, OfContainersAndBack) {
  const std::vector<std::string> words{"a", "b"};
  const std::map<std::string, std::vector<double>> table{{"x", {0.5}}, {"y", {}}};
  const std::vector<std::optional<int>> holes{1, std::nullopt};
  const std::vector<bool> flags{true, false};
  const std::vector<Value> mixed{1, "a"};
  EXPECT_EQ(
      types_of({words, table, holes, flags, mixed, std::vector<tenon::Tensor>(),
                std::map<int, Value>{{1, 2}}}),
      (std::vector<std::string>{"List[str]", "Dict[str, List[float]]", "List[Optional[int]]",
                                "List[bool]", "List[Any]", "List[Tensor]", "Dict[Any, Any]"}));
  EXPECT_EQ(Value(words).as<std::vector<std::string>>(), words);
  EXPECT_EQ((Value(table).as<std::map<std::string, std::vector<double>>>()), table);
  EXPECT_EQ(Value(holes).as<std::vector<std::optional<int>>>(), holes);
  EXPECT_EQ(Value(flags).as<std::vector<bool>>(), flags);
  EXPECT_EQ(Value(mixed).as<std::vector<Value>>()[1].as<std::string>(), "a");
  EXPECT_EQ(Value::tuple({1, 2}).as<std::vector<std::int64_t>>(),
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_CODE(kInvalidArgument, Value::try_make(words)->try_as<std::vector<int>>());
  EXPECT_CODE(kInvalidArgument, Value::try_make(holes)->try_as<std::vector<int>>());
}

TEST_F(Values, Types) {
  EXPECT_EQ(tenon::type_text("Union[str, None]"), "Optional[str]");
  EXPECT_EQ(tenon::try_type_text("List[").error().detail("column"), "6");
  std::string several = "Tuple[int";
  for (int i = 1; i < 200; ++i) several += ", int";
  // This text is longer than the buffer that is tried first.
  EXPECT_EQ(tenon::type_text(several + "]"), several + "]");
  Value(1).check("Optional[int]");
  const tenon::Result<void> unfit = Value(1).try_check("float");
  EXPECT_EQ(unfit.error().detail("wanted"), "float");
  EXPECT_EQ(unfit.error().detail("found"), "int");
}

TEST_F(Values, TensorsAreNotCopied) {
  tenon::Tensor tensor = tenon::zeros<float>({2, 2});
  Value value = tensor;
  tenon::Tensor back = value.as<tenon::Tensor>();
  tensor.view_mut<float>()[3] = 9;
  EXPECT_EQ(back.view<float>()[3], 9.0F);
  EXPECT_EQ(back.storage(), tensor.storage());
  const tenon::ValueTensorSpec spec = value.tensor_spec();
  EXPECT_EQ(spec.scalar_type, tenon::ScalarType::kFloat);
  EXPECT_EQ(spec.sizes, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(spec.strides, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(spec.device, "cpu");
  EXPECT_EQ(spec.storage_numel, 4U);
  EXPECT_EQ(spec.layout, tenon::TensorLayout::kStrided);
  EXPECT_FALSE(spec.values || spec.indices || spec.scales || spec.coalesced);
  tensor.close();
  value.close();
  back.close();
  EXPECT_EQ(spec.storage.use_count(), 1U);

  const tenon::Storage storage = tenon::Storage::make(8);
  const tenon::Tensor backwards = tenon::Tensor::over(storage, {8}, tenon::kDtypeOf<std::uint8_t>,
                                                      {.strides = {-1}, .offset = 7});
  EXPECT_CODE(kInvalidArgument, Value::try_make(backwards));
  kit::thrown_by<tenon::InvalidArgument>([] { (void)Value(tenon::Tensor()); });
}

TEST_F(Values, TensorsThatDlpackHasNot) {
  const tenon::Storage storage = tenon::Storage::make_from(std::as_bytes(std::span("\1\2\3\4", 4)));
  tenon::ValueTensorSpec spec{.scalar_type = tenon::ScalarType::kQint8,
                              .sizes = {4},
                              .storage = storage,
                              .quantizer = tenon::Quantizer::kPerTensorAffine,
                              .scale = 0.5,
                              .zero_point = 3};
  const Value quantised = Value::tensor_from_spec(spec);
  EXPECT_CODE(kUnsupported, quantised.try_as<tenon::Tensor>());
  const tenon::ValueTensorSpec back = quantised.tensor_spec();
  EXPECT_EQ(back.quantizer, tenon::Quantizer::kPerTensorAffine);
  EXPECT_EQ(back.scalar_type, tenon::ScalarType::kQint8);
  EXPECT_EQ(back.scale, 0.5);
  EXPECT_EQ(back.zero_point, 3);
  EXPECT_EQ(back.storage, storage);
  spec.sizes = {5};
  EXPECT_CODE(kInvalidArgument, Value::try_tensor_from_spec(spec));

  const std::vector<std::int64_t> indices{0, 2};
  const std::vector<float> elements{1, 2};
  const tenon::ValueTensorSpec sparse =
      Value::tensor_from_spec({.layout = tenon::TensorLayout::kSparseCoo,
                               .sizes = {3},
                               .coalesced = true,
                               .indices = tenon::Tensor::make_from<std::int64_t>(indices, {1, 2}),
                               .values = tenon::Tensor::make_from<float>(elements, {2})})
          .tensor_spec();
  EXPECT_EQ(sparse.layout, tenon::TensorLayout::kSparseCoo);
  EXPECT_EQ(sparse.scalar_type, tenon::ScalarType::kFloat);
  EXPECT_EQ(sparse.coalesced, true);
  EXPECT_TRUE(sparse.strides.empty() && !sparse.storage && !sparse.plain_indices);
  EXPECT_EQ(sparse.indices.tensor_spec().sizes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(sparse.values.as<tenon::Tensor>().numel(), 2U);

  const tenon::ValueTensorSpec meta =
      Value::tensor_from_spec(
          {.scalar_type = tenon::ScalarType::kHalf, .sizes = {2, 3}, .device = "meta"})
          .tensor_spec();
  EXPECT_EQ(meta.device, "meta");
  EXPECT_FALSE(meta.storage);
  EXPECT_EQ(meta.storage_numel, 6U);
  EXPECT_CODE(kInvalidArgument,
              Value::try_tensor_from_spec({.sizes = {2, 3}, .strides = {1}, .device = "meta"}));
  EXPECT_CODE(kInvalidArgument, Value::try_tensor_from_spec(
                                    {.sizes = std::vector<std::int64_t>(65, 1), .device = "meta"}));
}

}  // namespace
