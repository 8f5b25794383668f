// Tests of objects, plain data with tensors in it: they are made, read, sent to a child and back,
// and refused.
#include <algorithm>
#include <array>
#include <complex>

#include "kit.h"

namespace {

using namespace std::chrono_literals;
using tenon::Object;
using tenon::ObjectKind;

using Objects = kit::Leaves;

tenon::Tensor numbers(std::vector<float> values) {
  return tenon::Tensor::make_from<float>(values, {static_cast<std::int64_t>(values.size())});
}

tenon::Composite meta() {
  tenon::CompositeSpec spec;
  spec.layout = tenon::TensorLayout::kMeta;
  spec.sizes = {2, 3};
  spec.dtype = tenon::kDtypeOf<float>;
  return tenon::Composite::make(spec);
}

// Returns the object as a receiver of its message gets it.
Object through_a_message(const Object& object) { return Object::from(object.to_message()); }

TEST_F(Objects, EveryKindComesBack) {
  const std::array<std::byte, 3> bytes{std::byte{0}, std::byte{255}, std::byte{0}};
  const tenon::Tensor tensor = numbers({1, 2, 3});
  const Object object = Object::tuple({
      std::nullopt,
      true,
      std::int64_t{INT64_MIN},
      0.5F,
      std::complex<double>(1, -2),
      std::string_view("a\0\xc3\xa4", 4),
      Object::bytes(bytes),
      tensor,
      meta(),
      Object::list({1, "two"}),
      Object::set({1, 2.5}),
      Object::dict({{"a", Object::dict({})}, {Object::tuple({1, "b"}), Object::tuple({})}}),
      "",
      std::vector<std::byte>(),
  });
  for (const Object& got : {object, through_a_message(object)}) {
    ASSERT_EQ(got.kind(), ObjectKind::kTuple);
    const std::span<const Object> items = got.items();
    ASSERT_EQ(items.size(), 14U);
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(items[i].kind(), static_cast<ObjectKind>(i));
    EXPECT_EQ(items[1].as<bool>(), true);
    EXPECT_EQ(items[2].as<std::int64_t>(), INT64_MIN);
    EXPECT_EQ(items[3].as<double>(), 0.5);
    EXPECT_EQ(items[4].as<std::complex<double>>(), std::complex<double>(1, -2));
    EXPECT_EQ(items[5].as<std::string_view>(), std::string_view("a\0\xc3\xa4", 4));
    EXPECT_EQ(items[6].as<std::vector<std::byte>>(),
              (std::vector<std::byte>{bytes.begin(), bytes.end()}));
    EXPECT_EQ(items[6].as<std::span<const std::byte>>().size(), 3U);
    const auto got_tensor = items[7].as<tenon::Tensor>();
    EXPECT_EQ(kit::copy_of(got_tensor.view<float>()), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(got_tensor.storage().get(), tensor.storage().get());
    EXPECT_EQ(items[8].as<tenon::Composite>().spec().sizes, (std::vector<std::int64_t>{2, 3}));
    ASSERT_EQ(items[9].kind(), ObjectKind::kList);
    EXPECT_EQ(items[9].items()[0].as<int>(), 1);
    EXPECT_EQ(items[9].items()[1].as<std::string>(), "two");
    ASSERT_EQ(items[10].kind(), ObjectKind::kSet);
    EXPECT_EQ(items[10].size(), 2U);
    EXPECT_EQ(items[10].items()[1].as<double>(), 2.5);
    ASSERT_EQ(items[11].kind(), ObjectKind::kDict);
    EXPECT_EQ(items[11].size(), 2U);
    EXPECT_TRUE(items[11].items().empty());
    EXPECT_EQ(items[11].entries()[0].key.as<std::string>(), "a");
    EXPECT_EQ(items[11].entries()[0].value.kind(), ObjectKind::kDict);
    EXPECT_EQ(items[11].entries()[1].key.items()[1].as<std::string>(), "b");
    EXPECT_EQ(items[11].entries()[1].value.kind(), ObjectKind::kTuple);
    EXPECT_EQ(items[11].find("a").size(), 0U);
    EXPECT_EQ(items[12].as<std::string>(), "");
    EXPECT_EQ(items[13].as<std::vector<std::byte>>().size(), 0U);
  }
}

TEST_F(Objects, AccessorsDoNotGuess) {
  const Object one = 1;
  EXPECT_EQ(kit::thrown_by<tenon::InvalidArgument>([&] { (void)one.as<bool>(); }),
            "the object is of kind int and not of kind bool");
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)one.as<double>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)one.as<std::string_view>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)one.as<tenon::Tensor>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)one.find("a"); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Object(true).as<int>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Object("a").as<std::vector<std::byte>>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)Object().as<tenon::Composite>(); });
  EXPECT_CODE(kInvalidArgument, Object(300).try_as<std::uint8_t>());
  EXPECT_CODE(kInvalidArgument, Object(-1).try_as<std::uint64_t>());
  EXPECT_EQ(Object(255).as<std::uint8_t>(), 255);
  const Object dict = Object::dict({{1, "number"}, {"1", "text"}});
  EXPECT_EQ(dict.find("1").as<std::string>(), "text");
  EXPECT_EQ(kit::thrown_by<tenon::NotFound>([&] { (void)dict.find("2"); }),
            "the dict has no key '2'");
  EXPECT_TRUE(one.items().empty() && one.entries().empty() && one.size() == 0);
}

TEST_F(Objects, CopiesShareAndMovedFromObjectsAreNone) {
  Object first = Object::list({"a", Object::list({2})});
  const Object copy = first;
  EXPECT_EQ(copy.items().data(), first.items().data());
  const Object moved = std::move(first);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(first.kind(), ObjectKind::kNone);
  EXPECT_EQ(moved.items().data(), copy.items().data());
  first = copy;
  first = first.items()[1];  // an item of itself
  EXPECT_EQ(first.items()[0].as<int>(), 2);
  first = first.items()[0];
  EXPECT_EQ(first.as<int>(), 2);
  EXPECT_EQ(Object::none().kind(), ObjectKind::kNone);
  EXPECT_EQ(tenon::name_of(ObjectKind::kComposite), "composite");
}

// An object of 200,000 lists within each other is made and freed without recursion. The C library
// refuses to send it.
TEST_F(Objects, DeepObjectsAreRefusedAndFreed) {
  const auto nested = [](std::size_t depth) {
    Object object = 1;
    for (std::size_t i = 0; i < depth; ++i) object = Object::list({object});
    return object;
  };
  const Object deepest = through_a_message(nested(TENON_OBJECT_MAX_DEPTH));
  EXPECT_EQ(deepest.size(), 1U);
  const Object deep = nested(200'000);
  const tenon::Result<tenon::Message> refused = deep.try_to_message();
  ASSERT_EQ(refused.code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(refused.error().detail("index"), "200");
}

TEST_F(Objects, TheCLibraryRefusesWhatIsWrong) {
  const auto index_of = [](const Object& object) {
    const tenon::Result<tenon::Message> message = object.try_to_message();
    if (message) return std::string("none");
    return std::string(message.error().detail("index").value_or(message.error().what()));
  };
  EXPECT_EQ(index_of(Object::list({1, "\xff"})), "2");
  EXPECT_EQ(index_of(Object::dict({{1, "a"}, {true, "b"}})), "3");
  EXPECT_EQ(index_of(Object::set({Object::list({})})), "1");
  EXPECT_EQ(index_of(Object::list({tenon::Tensor()})), "1");
  EXPECT_EQ(index_of(Object::list({tenon::Composite()})), "1");
  EXPECT_CODE(kUnsupported,
              Object(tenon::zeros<float>({2}, {.private_memory = true})).try_to_message());
  kit::thrown_by<tenon::Corrupt>([] { (void)Object::from(tenon::Message::make()); });
  kit::thrown_by<tenon::InvalidArgument>([] { (void)Object::from(tenon::Message()); });
}

// The kernel cannot keep a borrower from writing shared memory, so a read-only lend of it is
// refused.
TEST_F(Objects, AccessIsThatOfALend) {
  kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  const Object object = Object::list({numbers({1})});
  EXPECT_CODE(kPermission, object.try_to_message(tenon::Access::kReadOnly));
  EXPECT_CODE(kPermission, connection.try_send_object(object, {}, tenon::Access::kReadOnly));
  EXPECT_TRUE(connection.try_send_object(object, {}, tenon::Access::kWritable));
}

TEST_F(Objects, AChildAnswersWithAnObject) {
  kit::Sockets sockets;
  kit::Child child([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
    const Object object = connection.recv_object({.timeout = kit::kPatience});
    const Object weights = object.find("weights");
    auto weight = weights.items()[0].as<tenon::Tensor>();
    const auto bias = weights.items()[1].as<tenon::Tensor>();
    if (object.find("step").as<int>() != 1200 || weight.storage().get() != bias.storage().get())
      return false;
    weight.view_mut<float>()[3] = 42;
    if (bias.view<float>()[1] != 42) return false;
    connection.send_object(Object::dict({{"loss", 0.5}, {"gradient", weight}}));
    connection.send(tenon::Message::of({{"weight", weight}}));
    return true;
  });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  const tenon::Tensor weight = numbers({1, 2, 3, 4});
  const tenon::Tensor bias =
      tenon::Tensor::over(weight.storage(), {2}, tenon::kDtypeOf<float>, {.offset = 2});

  connection.send_object(tenon::Object::dict({
      {"step", 1200},
      {"weights", tenon::Object::list({weight, bias})},
      {"note", "the second run"},
  }));
  const tenon::Object reply = connection.recv_object();
  const auto loss = reply.find("loss").as<double>();
  const auto gradient = reply.find("gradient").as<tenon::Tensor>();

  EXPECT_EQ(loss, 0.5);
  EXPECT_EQ(gradient.view<float>()[3], 42);
  EXPECT_EQ(gradient.storage().get(), weight.storage().get());
  kit::thrown_by<tenon::Corrupt>([&] { (void)connection.recv_object(); });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Objects, AFullSocketLeavesTheObjectToFlush) {
  kit::Sockets sockets;
  tenon::Connection sender = tenon::Connection::make(sockets.here);
  tenon::Connection receiver = tenon::Connection::make(sockets.there);
  const Object object = Object::list({std::string(50'000, 'x')});
  int sent = 0;
  while (sender.try_send_object(object, {.timeout = 0s})) ASSERT_LT(++sent, 10'000);
  const Object first = receiver.recv_object();
  EXPECT_EQ(first.items()[0].as<std::string_view>().size(), 50'000U);
  for (int received = 1; received < sent + 1; ++received) {
    (void)sender.try_flush({.timeout = 0s});
    EXPECT_EQ(receiver.recv_object({.timeout = kit::kPatience}).size(), 1U);
  }
  EXPECT_CODE(kWouldBlock, receiver.try_recv_object({.timeout = 0s}));
}

}  // namespace
