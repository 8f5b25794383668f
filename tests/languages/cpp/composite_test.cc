// Tests of composites that are made, read, sent to a child and checked there.
#include <algorithm>

#include "kit.h"

namespace {

using Composites = kit::Leaves;

template <class T>
tenon::Tensor filled(std::vector<T> numbers, tenon::Sizes sizes) {
  tenon::Tensor tensor = tenon::zeros<T>(sizes);
  std::copy(numbers.begin(), numbers.end(), tensor.template view_mut<T>().begin());
  return tensor;
}

// Returns [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]] if `last`, the column of the 3, is 1.
tenon::Composite csr(std::int64_t last) {
  tenon::CompositeSpec spec;
  spec.layout = tenon::TensorLayout::kSparseCsr;
  spec.sizes = {3, 4};
  spec.flags = TENON_TENSOR_REQUIRES_GRAD;
  spec.values = filled<float>({1, 2, 3}, {3});
  spec.indices = filled<std::int64_t>({0, 2, 2, 3}, {4});
  spec.plain_indices = filled<std::int64_t>({0, 3, last}, {3});
  return tenon::Composite::make(spec);
}

TEST_F(Composites, SpecsComeBackAsTheyWere) {
  const tenon::CompositeSpec sparse = csr(1).spec();
  EXPECT_EQ(sparse.layout, tenon::TensorLayout::kSparseCsr);
  EXPECT_EQ(sparse.sizes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(sparse.flags, std::uint32_t{TENON_TENSOR_REQUIRES_GRAD});
  EXPECT_EQ(sparse.plain_indices.view<std::int64_t>()[1], 3);
  EXPECT_FALSE(sparse.offsets);

  tenon::CompositeSpec spec;
  spec.layout = tenon::TensorLayout::kJagged;
  spec.ragged_dim = 1;
  spec.values = tenon::zeros<float>({9, 2});
  spec.offsets = filled<std::int64_t>({0, 4, 9}, {3});
  EXPECT_EQ(tenon::Composite::make(spec).spec().sizes, (std::vector<std::int64_t>{2, -1, 2}));

  spec = {};
  spec.layout = tenon::TensorLayout::kMeta;
  spec.sizes = {1 << 20, 1 << 20};
  spec.dtype = tenon::kDtypeOf<float>;
  EXPECT_EQ(tenon::Composite::make(spec).spec().strides, (std::vector<std::int64_t>{1 << 20, 1}));

  spec = {};
  spec.layout = tenon::TensorLayout::kQuantized;
  spec.quantizer = tenon::Quantizer::kPerTensorAffine;
  spec.scale = 0.5;
  spec.zero_point = -3;
  spec.values = tenon::zeros<std::uint8_t>({2, 3});
  const tenon::CompositeSpec quantised = tenon::Composite::make(spec).spec();
  EXPECT_EQ(quantised.sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(quantised.scale, 0.5);
  EXPECT_EQ(quantised.zero_point, -3);

  spec.offsets = spec.values;
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::Composite::make(spec); });
}

TEST_F(Composites, AChildChecksWhatItIsSent) {
  kit::Sockets sockets;
  kit::Child child([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
    const tenon::Message message = connection.recv();
    const tenon::Composite good = message.find_composite("features");
    const auto [first, count] = message.composite_parts(1);
    if (message.composite_count() != 2 || message.size() != 7 || first != 4 || count != 3 ||
        message.composite_name(1))
      return false;
    const tenon::CompositeSpec checked = good.check().spec();
    if (checked.values.view<float>()[2] != 3) return false;
    try {
      (void)message.composite(1).check();
    } catch (const tenon::Corrupt& error) {
      return error.detail("part") == "plain_indices" && error.detail("index") == "2";
    }
    return false;
  });
  tenon::Message message = tenon::Message::of({{"labels", tenon::zeros<float>({3})}});
  message.add(csr(1), "features");
  message.add(csr(1 << 20));
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  connection.send(message);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
