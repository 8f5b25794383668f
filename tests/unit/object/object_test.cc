// These tests check which nodes an object may have, and that a pickle keeps everything in an
// object.
#include "object/object.h"

#include <gtest/gtest.h>
#include <tenon/dtype.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "object/object_from_pickle.h"
#include "object/object_message.h"
#include "object/one_tensor.h"
#include "support/must.h"
#include "support/seed.h"
#include "unit/object/object_kit.h"

namespace tenon::object {
namespace {

using storage::Storage;
using tensor::Composite;
using tensor::CompositeSpec;
using tensor::DType;
using tensor::Tensor;
using tensor::TensorLayout;

using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr DType kU8{TENON_DTYPE_UINT, 8, 1};
constexpr DType kF32{TENON_DTYPE_FLOAT, 32, 1};
constexpr DType kF64{TENON_DTYPE_FLOAT, 64, 1};
constexpr DType kI64{TENON_DTYPE_INT, 64, 1};
constexpr DType kC64{TENON_DTYPE_COMPLEX, 64, 1};
constexpr size_t kBeyondMaxDepth = kMaxDepth + 1;

using Sizes = std::vector<int64_t>;

// Writes the nodes of an object one after another.
class Builder {
 public:
  Builder& container(Kind kind, uint32_t count) {
    node(kind).count = count;
    return *this;
  }
  Builder& none() {
    node(Kind::kNone);
    return *this;
  }
  Builder& boolean(bool value) {
    node(Kind::kBool).content.integer = value ? 1 : 0;
    return *this;
  }
  Builder& integer(int64_t value) {
    node(Kind::kInt).content.integer = value;
    return *this;
  }
  Builder& real(double value) {
    node(Kind::kFloat).content.real = value;
    return *this;
  }
  Builder& complex(double value, double imaginary) {
    node(Kind::kComplex).content.complex = {value, imaginary};
    return *this;
  }
  Builder& text(Kind kind, std::string_view content) {
    node(kind).content.text = {contents_.bytes.size(), content.size()};
    const auto* begin = reinterpret_cast<const std::byte*>(content.data());
    contents_.bytes.insert(contents_.bytes.end(), begin, begin + content.size());
    return *this;
  }
  Builder& str(std::string_view content) { return text(Kind::kStr, content); }
  Builder& tensor(Ref<Tensor> value) {
    node(Kind::kTensor).content.index = contents_.tensors.size();
    contents_.tensors.push_back(std::move(value));
    return *this;
  }
  Builder& composite(Ref<Composite> value) {
    node(Kind::kComposite).content.index = contents_.composites.size();
    contents_.composites.push_back(std::move(value));
    return *this;
  }
  Result<Ref<Object>> make() { return Object::create(std::move(contents_)); }

 private:
  Node& node(Kind kind) {
    Node& made = contents_.nodes.emplace_back();
    made.kind = kind;
    return made;
  }

  Contents contents_;
};

Ref<Tensor> tensor_over(Ref<Storage> storage, DType dtype, const Sizes& sizes, uint64_t offset = 0,
                        uint32_t flags = 0) {
  return Tensor::create(std::move(storage),
                        {dtype, sizes, tensor::contiguous_strides(sizes).value(), offset}, flags)
      .value();
}

Ref<Tensor> tensor_of(DType dtype, const Sizes& sizes) {
  return tensor_over(
      Storage::create({.zeroed = true}, tensor::packed_nbytes(dtype, sizes).value()).value(), dtype,
      sizes);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Result<Ref<Object>> read(std::string_view pickle, std::span<const Ref<Tensor>> storages = {}) {
  return object_from_pickle(bytes_of(pickle), storages);
}

// Writes the object as a pickle, and returns the object that a reader makes of it.
Ref<Object> again(const Object& object) {
  const SplitPickle pickle = object_to_pickle(object);
  Result<Ref<Object>> read = object_from_pickle(pickle.bytes, test::whole(pickle.storages));
  EXPECT_TRUE(read.is_ok()) << read.status().message();
  return read.is_ok() ? read.value() : Builder().none().make().value();
}

void expect_round(const Object& object) {
  const Ref<Object> got = again(object);
  EXPECT_EQ(test::difference(object, *got), std::nullopt);
  EXPECT_EQ(object_to_pickle(object).bytes, object_to_pickle(*got).bytes);
}

// ---- random objects

class RandomObjects {
 public:
  explicit RandomObjects(uint64_t seed) : random_(seed) {
    for (const uint64_t nbytes : {0, 64, 4096})
      storages_.push_back(Storage::create({.zeroed = true}, nbytes).value());
  }

  Ref<Object> next() {
    Builder builder;
    left_ = 200;
    container(&builder, Kind::kList, 0);
    Result<Ref<Object>> made = builder.make();
    EXPECT_TRUE(made.is_ok()) << made.status().message();
    return made.is_ok() ? made.value() : Builder().none().make().value();
  }

 private:
  uint64_t below(uint64_t end) {
    return std::uniform_int_distribution<uint64_t>(0, end - 1)(random_);
  }

  int64_t integer() {
    static constexpr int64_t kEdges[] = {0,         255,
                                         256,       -1,
                                         INT32_MAX, int64_t{INT32_MAX} + 1,
                                         INT32_MIN, int64_t{INT32_MIN} - 1,
                                         INT64_MAX, INT64_MIN};
    return below(2) == 0 ? kEdges[below(std::size(kEdges))] : static_cast<int64_t>(random_());
  }

  double real() { return std::bit_cast<double>(random_()); }

  std::string text() {
    static constexpr size_t kLengths[] = {0, 1, 7, 255, 256, 70'000};
    std::string made(kLengths[below(std::size(kLengths) - (below(20) == 0 ? 0 : 1))], 'x');
    for (char& each : made) each = static_cast<char>(below(128));
    return made + (below(2) == 0 ? "\xc3\xa4\xf0\x9f\x98\x80" : "");
  }

  std::string bytes() {
    std::string made = text();
    for (char& each : made) each = static_cast<char>(random_());
    return made;
  }

  Ref<Tensor> tensor() {
    static constexpr DType kTypes[] = {kU8,
                                       kF32,
                                       kI64,
                                       kC64,
                                       {TENON_DTYPE_BOOL, 8, 1},
                                       {TENON_DTYPE_BFLOAT, 16, 1},
                                       {TENON_DTYPE_FLOAT, 32, 4}};
    const DType dtype = kTypes[below(std::size(kTypes))];
    const uint32_t flags = static_cast<uint32_t>(below(16));
    if (below(4) == 0) return tensor_over(storages_[0], dtype, {3, 0}, 0, flags);
    const Ref<Storage>& storage = storages_[1 + below(2)];
    const auto elements = static_cast<int64_t>(storage->nbytes() / (dtype.element_bits() / 8));
    const auto offset = static_cast<int64_t>(below(static_cast<uint64_t>(elements)));
    switch (below(4)) {
      case 0: return tensor_over(storage, dtype, {}, static_cast<uint64_t>(offset), flags);
      case 1:
        return tensor_over(storage, dtype, {1, elements - offset, 1}, static_cast<uint64_t>(offset),
                           flags);
      case 2:
        return Tensor::create(storage, {dtype, Sizes{5}, Sizes{0}, static_cast<uint64_t>(offset)},
                              flags)
            .value();
      default:
        return Tensor::create(storage,
                              {dtype, Sizes{offset + 1}, Sizes{-1}, static_cast<uint64_t>(offset)},
                              flags)
            .value();
    }
  }

  CompositeSpec composite() {
    CompositeSpec spec;
    spec.flags = static_cast<uint32_t>(below(4));
    switch (below(8)) {
      case 0:
        spec.layout = TensorLayout::kSparseCoo;
        spec.coalesced = static_cast<tensor::Coalesced>(below(3));
        spec.sizes = {3, 4};
        spec.parts = {tensor_of(kF32, {5}), tensor_of(kI64, {2, 5})};
        break;
      case 1:
        spec.layout = below(2) == 0 ? TensorLayout::kSparseCsr : TensorLayout::kSparseCsc;
        spec.sizes = {3, 3};
        spec.parts = {tensor_of(kF32, {2}), tensor_of(kI64, {4}), tensor_of(kI64, {2})};
        break;
      case 2:
        spec.layout = below(2) == 0 ? TensorLayout::kSparseBsr : TensorLayout::kSparseBsc;
        spec.sizes = {6, 6};
        spec.parts = {tensor_of(kF32, {2, 2, 2}), tensor_of(kI64, {4}), tensor_of(kI64, {2})};
        break;
      case 3:
        spec.layout = TensorLayout::kJagged;
        spec.dim = static_cast<int32_t>(1 + below(2));
        spec.parts = {tensor_of(kF32, {9, 2}), tensor_of(kI64, {4})};
        if (below(2) == 0) spec.parts.push_back(tensor_of(kI64, {3}));
        break;
      case 4:
        spec.layout = TensorLayout::kNested;
        spec.parts = {tensor_of(kF32, {10}), tensor_of(kI64, {2, 2}), tensor_of(kI64, {2, 2}),
                      tensor_of(kI64, {2})};
        break;
      case 5:
        spec.layout = TensorLayout::kMeta;
        spec.flags = static_cast<uint32_t>(below(16));
        spec.dtype = below(2) == 0 ? kF32 : kC64;
        spec.sizes = {1 << 20, 1 << 20};
        spec.strides = {1, 1 << 20};
        spec.offset = below(1000);
        break;
      case 6:
        spec.layout = TensorLayout::kQuantized;
        spec.quantizer = tensor::QScheme::kPerTensorAffine;
        spec.scale = real();
        spec.zero_point = integer();
        spec.parts = {tensor_of(kU8, {2, 3})};
        break;
      default:
        spec.layout = TensorLayout::kQuantized;
        spec.quantizer = tensor::QScheme::kPerChannelAffine;
        spec.dim = 1;
        spec.parts = {tensor_of(kU8, {2, 3}), tensor_of(kF64, {3}), tensor_of(kI64, {3})};
        break;
    }
    return spec;
  }

  // Keys with different numbers are never equal.
  void key(Builder* builder, size_t number) {
    const auto integer = static_cast<int64_t>(number);
    switch (below(number == 0 ? 6 : 5)) {
      case 0: builder->integer(integer); break;
      case 1: builder->real(static_cast<double>(integer) + 0.5); break;
      case 2: builder->complex(static_cast<double>(integer), real()); break;
      case 3:
        builder->text(below(2) == 0 ? Kind::kStr : Kind::kBytes, std::to_string(number));
        break;
      case 4:
        builder->container(Kind::kTuple, 3).none().integer(integer).boolean(below(2) == 0);
        break;
      default: builder->none(); break;
    }
  }

  void value(Builder* builder, size_t depth) {
    if (left_ > 0) --left_;
    const auto kind = static_cast<Kind>(below(left_ == 0 || depth > 20 ? 9 : kKindCount));
    switch (kind) {
      case Kind::kNone: builder->none(); break;
      case Kind::kBool: builder->boolean(below(2) == 0); break;
      case Kind::kInt: builder->integer(integer()); break;
      case Kind::kFloat: builder->real(real()); break;
      case Kind::kComplex: builder->complex(real(), real()); break;
      case Kind::kStr: builder->str(text()); break;
      case Kind::kBytes: builder->text(kind, bytes()); break;
      case Kind::kTensor: builder->tensor(tensor()); break;
      case Kind::kComposite: builder->composite(Composite::create(composite()).value()); break;
      default: container(builder, kind, depth); break;
    }
  }

  void container(Builder* builder, Kind kind, size_t depth) {
    const size_t count = below(8);
    builder->container(kind, static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) {
      if (kind == Kind::kDict || kind == Kind::kSet) key(builder, i);
      if (kind != Kind::kSet) value(builder, depth + 1);
    }
  }

  std::mt19937_64 random_;
  std::vector<Ref<Storage>> storages_;
  size_t left_ = 0;
};

TEST(Object, ObjectsAtRandomSurviveTheirPickles) {
  RandomObjects objects(test_seed());
  std::map<Kind, size_t> seen;
  for (int i = 0; i < 300; ++i) {
    const Ref<Object> object = objects.next();
    for (const Node& node : object->nodes()) ++seen[node.kind];
    expect_round(*object);
    ASSERT_FALSE(HasFailure()) << "object " << i;
  }
  EXPECT_EQ(seen.size(), kKindCount);
}

TEST(Object, ObjectsAtRandomSurviveTheirMessages) {
  RandomObjects objects(test_seed());
  for (int i = 0; i < 50; ++i) {
    const Ref<Object> object = objects.next();
    const std::unique_ptr<tensor::Message> message =
        message_of(*object, memory::Access::kAuto).value();
    Ref<Object> got = must(object_of(*message));
    ASSERT_EQ(test::difference(*object, *got), std::nullopt) << "object " << i;
  }
}

// ---- pickles

TEST(Object, EqualObjectsGiveEqualBytes) {
  const auto make = [] {
    return Builder()
        .container(Kind::kDict, 1)
        .str("a")
        .container(Kind::kList, 2)
        .integer(1)
        .none()
        .make()
        .value();
  };
  const std::vector<std::byte> bytes = object_to_pickle(*make()).bytes;
  EXPECT_EQ(bytes, object_to_pickle(*make()).bytes);
  // Python's pickle.dumps({"a": [1, None]}, 4) without its frame and its memo.
  EXPECT_EQ(bytes, bytes_of("\x80\x04}(\x8c\001a](K\x01Neu."sv));
}

TEST(Object, TensorsOverOneStorageShareItsNumber) {
  const Ref<Storage> storage = Storage::create({.zeroed = true}, 64).value();
  const Ref<Object> object = Builder()
                                 .container(Kind::kList, 3)
                                 .tensor(tensor_over(storage, kU8, {64}))
                                 .tensor(tensor_of(kU8, {8}))
                                 .tensor(tensor_over(storage, kF32, {4}, 12))
                                 .make()
                                 .value();
  EXPECT_EQ(object_to_pickle(*object).storages.size(), 2U);
  expect_round(*object);
}

// Many storages are found by a table, and few of them without one.
TEST(Object, EachOfManyStoragesKeepsItsNumber) {
  constexpr uint32_t kStorages = 20;
  std::vector<Ref<Storage>> storages;
  Builder builder;
  builder.container(Kind::kList, 3 * kStorages);
  for (uint32_t i = 0; i < kStorages; ++i) {
    storages.push_back(must(Storage::create({.zeroed = true}, 64)));
    builder.tensor(tensor_over(storages[i], kU8, {64}));
    builder.tensor(tensor_over(storages[i / 2], kU8, {32}));
  }
  for (const Ref<Storage>& each : storages) builder.tensor(tensor_over(each, kF32, {16}));
  const Ref<Object> object = must(builder.make());
  const SplitPickle pickle = object_to_pickle(*object);
  ASSERT_EQ(pickle.storages.size(), kStorages);
  for (uint32_t i = 0; i < kStorages; ++i) EXPECT_EQ(pickle.storages[i].get(), storages[i].get());
  expect_round(*object);
}

// The reader of one tensor knows its pickle, and accepts no bytes that the reader of all pickles
// refuses or reads as another tensor.
TEST(Object, BothReadersOfOneTensorAgree) {
  const Ref<Storage> storage = must(Storage::create({.zeroed = true}, 4096));
  const std::vector<Ref<Tensor>> tensors = {
      tensor_over(storage, kU8, {4096}),
      tensor_over(storage, kF32, {2, 3, 4}, 1000),
      tensor_over(storage, kI64, {}, 3, tensor::kFlagRequiresGrad),
      tensor_over(storage, kC64, {1, 2, 1, 2, 1, 2, 1, 2}),
      tensor_over(storage, kF64, {0, 70000}),
  };
  size_t read_by_both = 0;
  for (const Ref<Tensor>& tensor : tensors) {
    const SplitPickle pickle = object_to_pickle(*must(Builder().tensor(tensor).make()));
    const test::Tensors storages = test::whole(pickle.storages);
    const Ref<Object> one = read_one_tensor(pickle.bytes, storages);
    ASSERT_TRUE(one);
    EXPECT_EQ(test::difference(*one, *must(object_from_pickle(pickle.bytes, storages))),
              std::nullopt);
    for (size_t at = 0; at <= pickle.bytes.size(); ++at) {
      EXPECT_FALSE(at < pickle.bytes.size() &&
                   read_one_tensor(std::span(pickle.bytes).first(at), storages));
      for (int value = 0; value < 256 && at < pickle.bytes.size(); ++value) {
        std::vector<std::byte> wrong = pickle.bytes;
        wrong[at] = static_cast<std::byte>(value);
        const Ref<Object> quick = read_one_tensor(wrong, storages);
        if (!quick) continue;
        const Result<Ref<Object>> slow = object_from_pickle(wrong, storages);
        ASSERT_TRUE(slow.is_ok()) << "byte " << at << " is " << value;
        EXPECT_EQ(test::difference(*quick, *Result(slow).value()), std::nullopt);
        ++read_by_both;
      }
    }
    std::vector<std::byte> longer = pickle.bytes;
    longer.push_back({});
    EXPECT_FALSE(read_one_tensor(longer, storages));
    EXPECT_FALSE(read_one_tensor(pickle.bytes, {}));
  }
  EXPECT_GT(read_by_both, 100U);
}

// A message can carry a storage as a part of a larger one. Offsets in the pickle count from the
// start of that part.
TEST(Object, LayoutsCountFromWhereTheStorageBegins) {
  const Ref<Object> object = Builder().tensor(tensor_of(kF32, {4})).make().value();
  const SplitPickle pickle = object_to_pickle(*object);
  const Ref<Storage> larger = Storage::create({.zeroed = true}, 64).value();
  const auto read_at = [&](uint64_t begin, int64_t nbytes) {
    const test::Tensors storages = {tensor_over(larger, kU8, {nbytes}, begin)};
    return object_from_pickle(pickle.bytes, storages);
  };
  const Ref<Object> got = read_at(32, 16).value();
  EXPECT_EQ(got->tensor(got->nodes()[0])->offset(), 8U);
  EXPECT_EQ(got->tensor(got->nodes()[0])->storage().get(), larger.get());
  EXPECT_EQ(read_at(32, 15).status().code(), Code::kCorrupt);  // the larger storage would have room
  EXPECT_EQ(read_at(30, 16).status().code(), Code::kUnsupported);
}

TEST(Object, ValuesThatAPickleUsesTwiceBecomeTwo) {
  const test::Tensors storages = {tensor_of(kU8, {64})};
  // x = [1]; t = a storage; (x, x, t, t)
  constexpr std::string_view kPickle =
      "\x80\x04(]\x94K\001ah\x00\x8c\x0ctenon.pickle\x8c\x08_storage\x93"
      "K\x00\x85R\x94h\x01t."sv;
  const Ref<Object> object = read(kPickle, storages).value();
  EXPECT_EQ(object->nodes().size(), 7U);
  EXPECT_EQ(object->nodes()[0].count, 4U);
  EXPECT_EQ(object->tensor(object->nodes()[5]), object->tensor(object->nodes()[6]));
}

TEST(Object, TypesOfPythonBecomePlainData) {
  const auto kinds = [](std::string_view pickle) {
    Result<Ref<Object>> got = read(pickle);
    EXPECT_TRUE(got.is_ok()) << got.status().message();
    std::string text;
    if (!got.is_ok()) return text;
    for (const Node& node : got.value()->nodes())
      text += std::string(text.empty() ? "" : " ") + kind_name(node.kind);
    return text;
  };
  EXPECT_EQ(kinds("\x80\x05\x96\x02\x00\x00\x00\x00\x00\x00\000ab."sv),
            "bytes");  // bytearray(b"ab")
  // Protocol 4 writes the same bytearray like this.
  EXPECT_EQ(kinds("\x80\x04\x8c\010builtins\x8c\x09"
                  "bytearray\x93"
                  "C\002ab\x85R."sv),
            "bytes");
  EXPECT_EQ(kinds("\x80\x04(K\x01K\x02\x91."sv), "set int int");  // frozenset({1, 2})
  EXPECT_EQ(kinds("\x80\x04\x8c\013collections\x8c\x0bOrderedDict\x93)R(K\x01Nu."sv),
            "dict int None");  // with an entry
  EXPECT_EQ(kinds("\x80\x04\x8c\013collections\x8c\x0bOrderedDict\x93)R}K\x01K\x02sb."sv),
            "dict");  // the state is left out
  EXPECT_EQ(kinds("\x80\x04\x8c\010builtins\x8c\007complex\x93"
                  "G\x3f\xf0\0\0\0\0\0\0G\0\0\0\0\0\0\0\0\x86R."sv),
            "complex");
}

// ---- limits

TEST(Object, DepthIsBounded) {
  Builder deepest;
  Builder deeper;
  std::string pickle = "\x80\x04";
  for (size_t i = 0; i < kBeyondMaxDepth; ++i) {
    if (i < kMaxDepth) deepest.container(Kind::kList, 1);
    deeper.container(Kind::kTuple, 1);
    pickle += ']';
  }
  expect_round(*deepest.none().make().value());
  const Status refused = deeper.none().make().status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.detail("index"), "200");

  pickle += std::string(kMaxDepth, 'a') + '.';
  const Status unread = read(pickle).status();
  EXPECT_EQ(unread.code(), Code::kResourceExhausted);
  EXPECT_EQ(unread.detail("limit"), "depth");
  EXPECT_EQ(unread.detail("offset"), "202");
}

TEST(Object, CopiesAreBounded) {
  // Returns the pickle of a list that holds a list of 1,000 None as often as `uses` says.
  const auto pickle = [](size_t uses) {
    std::string text = "\x80\x04]](" + std::string(1000, 'N') + "e\x94";
    text += "a(";
    for (size_t i = 1; i < uses; ++i) text += "h\0"sv;
    return text + "e.";
  };
  Ref<Object> few = must(read(pickle(60)));
  EXPECT_EQ(few->nodes().size(), 1U + 60 * 1001);
  expect_round(*few);
  const Status many = read(pickle(80)).status();
  EXPECT_EQ(many.code(), Code::kResourceExhausted);
  EXPECT_EQ(many.detail("limit"), "nodes");
}

TEST(Object, KeysThatUseOneTextAreBounded) {
  // Returns the pickle of {(text, 0): None, (text, 1): None, …}, where the text has 40,000 bytes.
  const auto pickle = [](int64_t keys) {
    std::string text = "\x80\x04}(X\x40\x9c\0\0"s + std::string(40'000, 'x') + "\x94";
    for (int64_t i = 0; i < keys; ++i) {
      if (i > 0) text += "h\0"s;
      text += "M"s + static_cast<char>(i) + static_cast<char>(i >> 8) + "\x86N";
    }
    return text + "u.";
  };
  EXPECT_TRUE(read(pickle(4)).is_ok());
  const Status many = read(pickle(1000)).status();
  EXPECT_EQ(many.code(), Code::kResourceExhausted);
  EXPECT_EQ(many.detail("limit"), "keys");
  EXPECT_NE(many.detail("offset"), "");
}

TEST(Object, WhatNoPickleOfAnObjectHasIsRefused) {
  const auto code_of = [](std::string_view pickle) {
    const Status status = read(pickle).status();
    EXPECT_NE(status.detail("offset"), "") << status.message();
    return status.code();
  };
  EXPECT_EQ(code_of(""), Code::kCorrupt);
  EXPECT_EQ(code_of("\x80\x04N"), Code::kCorrupt);
  EXPECT_EQ(code_of("\x80\x04K\x01Q."), Code::kCorrupt);
  EXPECT_EQ(code_of("\x80\x04]\x94h\0a."sv), Code::kUnsupported);
  EXPECT_EQ(code_of("\x80\x04\x8a\x09\0\0\0\0\0\0\0\0\x01."sv), Code::kUnsupported);
  EXPECT_EQ(code_of("\x80\x04\x8c\010builtins\x8c\007complex\x93K\x01K\x02\x86R."), Code::kCorrupt);
  EXPECT_EQ(code_of("\x80\x04\x8c\013collections\x8c\007Counter\x93)R."), Code::kUnsupported);
  EXPECT_EQ(code_of("\x80\x04\x8c\x0c"
                    "tenon.pickle\x8c\x08_storage\x93K\0\x85R."sv),
            Code::kCorrupt);
  EXPECT_EQ(code_of("\x80\x04\x8c\x0c"
                    "tenon.pickle\x8c\x08_storage\x93]R."),
            Code::kCorrupt);
}

// ---- keys

using Write = void (*)(Builder*);

Status set_of(Write first, Write second) {
  Builder builder;
  builder.container(Kind::kSet, 2);
  first(&builder);
  second(&builder);
  return builder.make().status();
}

TEST(Object, EqualKeysAreRefused) {
  const std::pair<Write, Write> pairs[] = {
      {[](Builder* b) { b->integer(1); }, [](Builder* b) { b->boolean(true); }},
      {[](Builder* b) { b->integer(-3); }, [](Builder* b) { b->real(-3); }},
      {[](Builder* b) { b->real(0.5); }, [](Builder* b) { b->complex(0.5, 0); }},
      {[](Builder* b) { b->real(0.0); }, [](Builder* b) { b->complex(-0.0, -0.0); }},
      {[](Builder* b) { b->complex(0, 2); }, [](Builder* b) { b->complex(-0.0, 2); }},
      {[](Builder* b) { b->integer(INT64_MIN); }, [](Builder* b) { b->real(-0x1p63); }},
      {[](Builder* b) { b->real(std::numeric_limits<double>::infinity()); },
       [](Builder* b) { b->real(std::numeric_limits<double>::infinity()); }},
      {[](Builder* b) { b->container(Kind::kTuple, 2).integer(0).str("a"); },
       [](Builder* b) { b->container(Kind::kTuple, 2).boolean(false).str("a"); }},
  };
  for (const auto& [first, second] : pairs) {
    const Status status = set_of(first, second);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << "pair " << &first - &pairs[0].first;
    EXPECT_NE(status.detail("index"), "");
  }
}

TEST(Object, KeysThatDifferInTypeOrByLittleAreTwo) {
  const std::pair<Write, Write> pairs[] = {
      {[](Builder* b) { b->integer(INT64_MAX); }, [](Builder* b) { b->real(0x1p63); }},
      {[](Builder* b) { b->integer((int64_t{1} << 53) + 1); }, [](Builder* b) { b->real(0x1p53); }},
      {[](Builder* b) { b->complex(1, 2); }, [](Builder* b) { b->complex(2, 1); }},
      {[](Builder* b) { b->real(NAN); }, [](Builder* b) { b->real(NAN); }},
      {[](Builder* b) { b->str("1"); }, [](Builder* b) { b->integer(1); }},
      {[](Builder* b) { b->str("1"); }, [](Builder* b) { b->text(Kind::kBytes, "1"); }},
      {[](Builder* b) { b->none(); }, [](Builder* b) { b->boolean(false); }},
      {[](Builder* b) { b->container(Kind::kTuple, 1).integer(1); },
       [](Builder* b) { b->integer(1); }},
      {[](Builder* b) {
         b->container(Kind::kTuple, 2).container(Kind::kTuple, 1).integer(1).integer(2);
       },
       [](Builder* b) {
         b->container(Kind::kTuple, 1).container(Kind::kTuple, 2).integer(1).integer(2);
       }},
      {[](Builder* b) { b->integer(INT64_MIN); }, [](Builder* b) { b->real(0x1p63); }},
      {[](Builder* b) { b->container(Kind::kTuple, 2).str("a").str("b"); },
       [](Builder* b) { b->container(Kind::kTuple, 2).str("").str("ab"); }},
  };
  for (const auto& [first, second] : pairs) {
    const Status status = set_of(first, second);
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
}

TEST(Object, WhatCannotBeHashedIsNoKey) {
  const auto refused_at = [](Builder&& builder) {
    const Status status = builder.make().status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return std::string(status.detail("index"));
  };
  EXPECT_EQ(refused_at(std::move(Builder().container(Kind::kSet, 1).container(Kind::kList, 0))),
            "1");
  EXPECT_EQ(refused_at(std::move(Builder().container(Kind::kSet, 1).tensor(tensor_of(kU8, {1})))),
            "1");
  EXPECT_EQ(
      refused_at(std::move(Builder().container(Kind::kDict, 1).container(Kind::kDict, 0).none())),
      "1");
  EXPECT_EQ(refused_at(std::move(Builder()
                                     .container(Kind::kDict, 1)
                                     .container(Kind::kTuple, 2)
                                     .none()
                                     .container(Kind::kSet, 0)
                                     .none())),
            "3");
  // A pickle must obey the same rules. This one is {1: None, True: None}.
  const Status status = read("\x80\x04}(K\x01N\x88Nu."sv).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.detail("index"), "3");
}

TEST(Object, FindsAValueByItsKey) {
  const Ref<Object> object = Builder()
                                 .container(Kind::kList, 2)
                                 .str("a")
                                 .container(Kind::kDict, 3)
                                 .text(Kind::kBytes, "a")
                                 .integer(1)
                                 .str("b")
                                 .container(Kind::kDict, 1)
                                 .str("c")
                                 .integer(2)
                                 .str("a")
                                 .integer(3)
                                 .make()
                                 .value();
  EXPECT_EQ(object->find(2, "a"), 10U);
  EXPECT_EQ(object->find(2, "b"), 6U);
  EXPECT_EQ(object->find(2, "c"), std::nullopt);
  EXPECT_EQ(object->find(6, "c"), 8U);
}

}  // namespace
}  // namespace tenon::object
