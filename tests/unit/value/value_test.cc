// These tests check values: their kinds, dicts, attributes, ownership and walks.
#include "modules/value/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "modules/value/walk.h"
#include "unit/value/value_kit.h"

namespace tenon::value {
namespace {

TEST(Value, HoldsWhatItWasGiven) {
  EXPECT_TRUE(Value::none()->is(ValueKind::kNone));
  EXPECT_TRUE(Value::of_bool(true)->as_bool());
  EXPECT_EQ(num(INT64_MIN)->as_int(), INT64_MIN);
  EXPECT_EQ(Value::of_float(2.5)->as_float(), 2.5);
  EXPECT_EQ(Value::of_complex({1, -2})->as_complex(), std::complex<double>(1, -2));
  EXPECT_EQ(Value::of_str(std::string("a\0b", 3))->as_str().size(), 3u);
  EXPECT_EQ(Value::of_device("cuda:0")->as_device(), "cuda:0");
  const TensorValueRef tensor = tensor_of(ScalarType::kFloat, 2);
  EXPECT_EQ(Value::of_tensor(tensor)->as_tensor().get(), tensor.get());
  const ValueRef one = num(1);
  const ValueRef tuple = Value::tuple({one, one}, "__torch__.P");
  EXPECT_EQ(tuple->items().size(), 2u);
  EXPECT_EQ(tuple->items()[0].get(), tuple->items()[1].get());
  EXPECT_EQ(tuple->class_name(), "__torch__.P");
  EXPECT_FALSE(Value::list(nullptr, {})->declared_type());
  EXPECT_EQ(list("List[int]", {one})->declared_type()->print(), "List[int]");
  const ValueRef colour = Value::enumeration("__torch__.C", str("r"));
  EXPECT_EQ(colour->enum_value()->as_str(), "r");
  const ValueRef opaque = Value::object_with_state("__torch__.torch.classes.a.B", num(3));
  EXPECT_TRUE(opaque->is_opaque());
  EXPECT_EQ(opaque->state()->as_int(), 3);
  EXPECT_FALSE(Value::object("__torch__.M")->is_opaque());
}

TEST(Value, KindsHaveNames) {
  for (size_t kind = 0; kind < kValueKindCount; ++kind)
    EXPECT_STRNE(value_kind_name(static_cast<ValueKind>(kind)), "?");
  EXPECT_STREQ(value_kind_name(ValueKind::kObject), "object");
  EXPECT_FALSE(has_identity(ValueKind::kStr));
  EXPECT_TRUE(has_identity(ValueKind::kComplex));
}

TEST(Value, ChildrenInOrder) {
  const ValueRef dict = must(Value::dict(nullptr, {{str("b"), num(1)}, {str("a"), num(2)}}));
  ASSERT_EQ(dict->child_count(), 4u);
  EXPECT_EQ(dict->child(0).as_str(), "b");
  EXPECT_EQ(dict->child(3).as_int(), 2);
  EXPECT_EQ(num(1)->child_count(), 0u);
  EXPECT_EQ(Value::enumeration("E", num(7))->child(0).as_int(), 7);
  EXPECT_EQ(Value::object_with_state("C", num(8))->child(0).as_int(), 8);
  const ValueRef object = Value::object("C");
  ASSERT_TRUE(object->attributes().add("x", num(9)).is_ok());
  EXPECT_EQ(object->child(0).as_int(), 9);
}

TEST(Dict, KeepsItsOrderAndFindsKeys) {
  std::vector<DictEntry> entries;
  for (int64_t i = 0; i < 1000; ++i)
    entries.push_back({Value::of_str("k" + std::to_string(i * 7 % 1000)), num(i)});
  const ValueRef dict = must(Value::dict(type("Dict[str, int]"), entries));
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(dict->entries()[static_cast<size_t>(i)].value->as_int(), i);
    const ValueRef* found = dict->find("k" + std::to_string(i * 7 % 1000));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ((*found)->as_int(), i);
  }
  EXPECT_EQ(dict->find("k1000"), nullptr);
  EXPECT_EQ(dict->find(""), nullptr);
  EXPECT_EQ(dict->find(*num(1)), nullptr);
  EXPECT_EQ(must(Value::dict(nullptr, {}))->find("k"), nullptr);
}

TEST(Dict, KeysOfAllKinds) {
  const ValueRef tensor = Value::of_tensor(tensor_of(ScalarType::kFloat, 1));
  const ValueRef same_tensor = Value::of_tensor(tensor->as_tensor());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<ValueRef> keys = {Value::none(),
                                Value::of_bool(true),
                                Value::of_bool(false),
                                num(1),
                                num(0),
                                Value::of_float(1),
                                Value::of_float(0),
                                Value::of_float(nan),
                                Value::of_complex({1, 0}),
                                Value::of_complex({0, 1}),
                                str("1"),
                                Value::of_device("1"),
                                tensor,
                                same_tensor,
                                Value::tuple({}),
                                Value::tuple({num(1), str("a")}),
                                Value::tuple({num(1), str("b")}),
                                Value::tuple({num(1)}, "N"),
                                Value::enumeration("C", num(1)),
                                Value::enumeration("D", num(1))};
  std::vector<DictEntry> entries;
  for (size_t i = 0; i < keys.size(); ++i)
    entries.push_back({keys[i], num(static_cast<int64_t>(i))});
  const ValueRef dict = must(Value::dict(nullptr, entries));
  for (size_t i = 0; i < keys.size(); ++i) {
    const ValueRef* found = dict->find(*keys[i]);
    if (keys[i]->is(ValueKind::kFloat) && std::isnan(keys[i]->as_float())) {
      EXPECT_EQ(found, nullptr);
      continue;
    }
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ((*found)->as_int(), static_cast<int64_t>(i));
  }
  EXPECT_NE(dict->find(*Value::of_float(-0.0)), nullptr);
}

TEST(Dict, RefusesDuplicatesByName) {
  const auto message = [](ValueRef a, ValueRef b) {
    const Result<ValueRef> dict = Value::dict(
        nullptr, {{std::move(a), num(1)}, {str("other"), num(2)}, {std::move(b), num(3)}});
    return dict.is_ok() ? std::string() : dict.status().message();
  };
  EXPECT_EQ(message(str("w"), str("w")), "the key 'w' stands in a dict twice");
  EXPECT_EQ(message(num(3), num(3)), "the key 3 stands in a dict twice");
  EXPECT_NE(message(Value::of_float(0.0), Value::of_float(-0.0)), "");
  EXPECT_NE(message(Value::none(), Value::none()), "");
  EXPECT_NE(message(Value::tuple({num(1)}), Value::tuple({num(1)})), "");
  EXPECT_EQ(message(num(1), Value::of_float(1)), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(message(Value::of_float(nan), Value::of_float(nan)), "");
}

TEST(Dict, RefusesWhatCannotBeAKey) {
  const auto good = [](ValueRef key) {
    return Value::dict(nullptr, {{std::move(key), num(1)}}).is_ok();
  };
  EXPECT_FALSE(good(Value::list(nullptr, {})));
  EXPECT_FALSE(good(must(Value::dict(nullptr, {}))));
  EXPECT_FALSE(good(Value::object("C")));
  EXPECT_FALSE(good(Value::tuple({Value::list(nullptr, {})})));
  ValueRef deep = num(1);
  for (int i = 0; i < 100; ++i) deep = Value::tuple({deep});
  EXPECT_FALSE(good(deep));
  ValueRef wide = num(1);
  for (int i = 0; i < 8; ++i) wide = Value::tuple({wide, wide, wide, wide});
  EXPECT_FALSE(good(wide));
  const ValueRef dict = must(Value::dict(nullptr, {{str("a"), num(1)}}));
  EXPECT_EQ(dict->find(*deep), nullptr);
  EXPECT_EQ(dict->find(*Value::object("C")), nullptr);
}

TEST(Attributes, AddReplaceRemove) {
  const ValueRef object = Value::object("C");
  Attributes& attributes = object->attributes();
  for (const char* name : {"m", "z", "a", "k"})
    ASSERT_TRUE(attributes.add(name, str(name)).is_ok());
  const Status twice = attributes.add("z", num(1));
  EXPECT_EQ(twice.message(), "there is an attribute 'z' already");
  EXPECT_EQ(attributes.size(), 4u);
  EXPECT_EQ(attributes.index_of("a"), 2u);
  EXPECT_TRUE(attributes.replace("a", num(5)));
  EXPECT_EQ((*attributes.find("a"))->as_int(), 5);
  EXPECT_FALSE(attributes.replace("b", num(5)));
  EXPECT_TRUE(attributes.remove("z"));
  EXPECT_FALSE(attributes.remove("z"));
  EXPECT_EQ(attributes.find("z"), nullptr);
  std::string order;
  for (const Attribute& attribute : attributes.all()) order += attribute.name;
  EXPECT_EQ(order, "mak");
  for (size_t i = 0; i < attributes.size(); ++i)
    EXPECT_EQ(attributes.index_of(attributes.all()[i].name), i);
  EXPECT_EQ(attributes.index_of("z"), attributes.size());
  ASSERT_TRUE(attributes.add("z", num(1)).is_ok());
  EXPECT_EQ(attributes.index_of("z"), 3u);
  attributes.replace_at(3, num(2));
  EXPECT_EQ((*attributes.find("z"))->as_int(), 2);
}

TEST(Attributes, ManyAtOnce) {
  std::vector<Attribute> attributes;
  for (int i = 0; i < 1000; ++i) attributes.push_back({"a" + std::to_string(i * 7 % 1000), num(i)});
  const ValueRef object = must(Value::object("C", attributes));
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ((*object->attributes().find("a" + std::to_string(i * 7 % 1000)))->as_int(), i);
  attributes.push_back({"a500", num(1)});
  const Result<ValueRef> twice = Value::object("C", attributes);
  ASSERT_FALSE(twice.is_ok());
  EXPECT_EQ(twice.status().message(), "the attribute 'a500' stands there twice");
}

constexpr size_t kDeep = 1'000'000;

// Runs `body` in a thread with 256 KiB of stack, which code that recurses would overflow.
void on_a_small_stack(void* (*body)(void*)) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, body, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(Value, DeepTreesEndWithoutRecursion) {
  on_a_small_stack([](void*) -> void* {
    ValueRef deep = num(1);
    for (size_t i = 0; i < kDeep; ++i) {
      switch (i % 4) {
        case 0: deep = Value::tuple({deep}); break;
        case 1: deep = Value::enumeration("E", deep); break;
        case 2: deep = Value::object_with_state("C", deep); break;
        default: deep = must(Value::dict(nullptr, {{num(1), deep}}));
      }
    }
    const ValueRef shared = deep;
    deep = nullptr;
    EXPECT_EQ(shared->strong_count(), 1u);
    return nullptr;
  });
}

TEST(Value, SharedPartsOutliveTheirOwners) {
  const TensorValueRef tensor = tensor_of(ScalarType::kFloat, 1);
  ValueRef part = Value::tuple({Value::of_tensor(tensor)});
  EXPECT_EQ(tensor->strong_count(), 2u);
  ValueRef owner = Value::tuple({part, part, list("List[Tensor]", {part->items()[0]})});
  EXPECT_EQ(part->strong_count(), 3u);
  owner = nullptr;
  EXPECT_EQ(part->strong_count(), 1u);
  EXPECT_EQ(part->items()[0]->strong_count(), 1u);
  part = nullptr;
  EXPECT_EQ(tensor->strong_count(), 1u);
}

TEST(Value, OwnersOnManyThreads) {
  ValueRef tree = num(1);
  for (int i = 0; i < 1000; ++i) tree = Value::tuple({tree, num(i)});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([tree] {
      for (int round = 0; round < 100; ++round) {
        const ValueRef mine = Value::tuple({tree, tree->items()[0]});
        EXPECT_EQ(mine->child_count(), 2u);
      }
    });
  }
  tree = nullptr;
  for (std::thread& thread : threads) thread.join();
}

TEST(Walk, ParentsFirstAndSharedOnce) {
  const ValueRef shared = Value::tuple({num(7)});
  const ValueRef root =
      Value::tuple({shared, num(7), shared, must(Value::dict(nullptr, {{str("k"), shared}}))});
  std::string visited;
  const Status status = for_each(*root, [&](Value& value, size_t depth) {
    visited += std::to_string(depth) + value_kind_name(value.kind()) + " ";
    return Status::ok();
  });
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(visited, "0tuple 1tuple 2int 1int 1dict 2str ");
}

TEST(Walk, StopsWhereItIsTold) {
  const ValueRef root = Value::tuple({num(1), num(2), num(3)});
  size_t visits = 0;
  const Status status = for_each(*root, [&](Value& value, size_t) {
    ++visits;
    return value.is(ValueKind::kInt) && value.as_int() == 2 ? Status(Code::kNotFound, "two")
                                                            : Status::ok();
  });
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(visits, 3u);
}

TEST(Walk, DepthIsLimited) {
  ValueRef deep = num(1);
  for (size_t i = 0; i < 10; ++i) deep = Value::tuple({deep});
  const auto nothing = [](Value&, size_t) { return Status::ok(); };
  EXPECT_TRUE(for_each(*deep, nothing, 10).is_ok());
  EXPECT_EQ(for_each(*deep, nothing, 9).code(), Code::kInvalidArgument);
}

TEST(Walk, ExponentialSharingIsWalkedOnce) {
  ValueRef root = num(1);
  for (int i = 0; i < 200; ++i) root = Value::tuple({root, root});
  size_t visits = 0;
  EXPECT_TRUE(for_each(*root, [&](Value&, size_t) {
                ++visits;
                return Status::ok();
              }).is_ok());
  EXPECT_LE(visits, 202u);
}

TEST(Walk, Reaches) {
  const ValueRef inner = Value::object("C");
  ValueRef outer = Value::tuple({inner});
  EXPECT_TRUE(reaches(*outer, *inner));
  EXPECT_TRUE(reaches(*inner, *inner));
  EXPECT_FALSE(reaches(*inner, *outer));
  for (size_t i = 0; i < 10'000; ++i) outer = Value::tuple({outer});
  EXPECT_TRUE(reaches(*outer, *inner));
}

}  // namespace
}  // namespace tenon::value
