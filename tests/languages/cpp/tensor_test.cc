// Tests of storages, tensors and typed views, and of every kind of view that is refused.
#include <array>
#include <complex>
#include <cstring>
#include <numeric>

#include "kit.h"

namespace my {
struct half {
  std::uint16_t bits;
};
}  // namespace my
template <>
struct tenon::Element<my::half> {
  static constexpr tenon::Dtype kDtype{TENON_DTYPE_FLOAT, 16};
};

namespace {

using Tensors = kit::Leaves;
using Storages = kit::Leaves;

static_assert(tenon::kDtypeOf<float> == tenon::Dtype(TENON_DTYPE_FLOAT, 32));
static_assert(tenon::kDtypeOf<long long> == tenon::kDtypeOf<long> &&
              tenon::kDtypeOf<unsigned char> == tenon::Dtype(TENON_DTYPE_UINT, 8));
static_assert(tenon::kDtypeOf<std::complex<double>> == tenon::Dtype(TENON_DTYPE_COMPLEX, 128));
static_assert(tenon::IsElement<my::half> && tenon::IsElement<tenon::Bool>);
// bool is not an element type, because a peer's byte need not be 0 or 1. char and pointers are not,
// because their meaning is unknown.
static_assert(!tenon::IsElement<bool> && !tenon::IsElement<char> && !tenon::IsElement<void*> &&
              !tenon::IsElement<const float>);
static_assert(!tenon::IsElement<std::string> && !tenon::IsElement<long double>);

TEST_F(Storages, BytesModesAndOptions) {
  tenon::Storage storage =
      tenon::Storage::make(100, {.isolated = true, .zeroed = true, .alignment = 4096});
  EXPECT_EQ(storage.nbytes(), 100U);
  EXPECT_EQ(storage.mode(), tenon::Mode::kShared);
  EXPECT_TRUE(storage.is_shared() && storage.is_sealed() && !storage.is_read_only());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % 4096, 0U);
  EXPECT_EQ(storage.bytes()[99], std::byte{0});
  storage.bytes_mut()[99] = std::byte{9};
  std::byte room[2] = {};
  storage.read(room, 98);
  EXPECT_EQ(room[1], std::byte{9});
  kit::thrown_by<tenon::InvalidArgument>([&] { storage.read(room, 99); });

  tenon::Storage frozen = tenon::Storage::make(8, {.mode = tenon::Mode::kFrozen});
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)frozen.bytes_mut(); });
  frozen.write(std::as_bytes(std::span("1234567", 8)));
  frozen.freeze();
  kit::thrown_by<tenon::PermissionDenied>([&] { frozen.write(room); });
  EXPECT_EQ(std::memcmp(frozen.bytes().data(), "1234567", 8), 0);
  EXPECT_EQ(frozen.mode(), tenon::Mode::kFrozen);

  const tenon::Storage copy =
      tenon::Storage::make_from(frozen.bytes(), {.mode = tenon::Mode::kFrozen});
  EXPECT_TRUE(copy.is_read_only());
  EXPECT_FALSE(copy.same_memory(frozen));
  const tenon::Storage none = tenon::Storage::make(0);
  EXPECT_EQ(none.bytes().size(), 0U);
  tenon::Storage filled = tenon::Storage::make(8, {.will_fill = true});
  filled.write(std::as_bytes(std::span("1234567", 8)));
  EXPECT_EQ(std::memcmp(filled.bytes().data(), "1234567", 8), 0);
  kit::thrown_by<tenon::InvalidArgument>(
      [] { (void)tenon::Storage::make(8, {.zeroed = true, .will_fill = true}); });

  std::array<float, 4> outside{1, 2, 3, 4};
  tenon::Storage read_only =
      tenon::Storage::wrap_read_only(std::as_bytes(std::span(outside)), [] {});
  EXPECT_TRUE(read_only.is_read_only() && !read_only.is_shared());
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)read_only.bytes_mut(); });
  kit::thrown_by<tenon::Unsupported>([&] { (void)tenon::share_fd(read_only); });
}

template <class T>
std::vector<std::remove_const_t<T>> items_of(std::span<T> from) {
  return {from.begin(), from.end()};
}

TEST_F(Tensors, Views) {
  std::array<std::int32_t, 12> numbers{};
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto tensor = tenon::Tensor::make_from<std::int32_t>(numbers, {12});
  const tenon::Tensor matrix = tensor.reshape({3, -1});
  EXPECT_EQ(items_of(matrix.view().sizes()), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(matrix.storage().id(), tensor.storage().id());
  const tenon::Tensor bytes = matrix.view_as(tenon::kDtypeOf<std::uint8_t>);
  EXPECT_EQ(items_of(bytes.view().sizes()), (std::vector<std::int64_t>{3, 16}));
  const tenon::Tensor row = matrix.index({-2});
  EXPECT_EQ(items_of(row.view<std::int32_t>()), (std::vector<std::int32_t>{4, 5, 6, 7}));
  using tenon::Index;
  const tenon::Tensor picked =
      matrix.index({Index::ellipsis(), Index::new_axis(), Index::slice({}, {}, -2)});
  EXPECT_EQ(items_of(picked.view().sizes()), (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(items_of(picked.view().strides()), (std::vector<std::int64_t>{4, 0, -2}));
  EXPECT_EQ(picked.view().offset(), 3U);
  EXPECT_EQ(matrix.index({Index::slice(1), Index::slice(0, -1)}).numel(), 6U);
  EXPECT_EQ(matrix.index(std::span<const Index>()).numel(), 12U);
  EXPECT_EQ(matrix.try_reshape({5, -1}).error().code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(matrix.try_view_as({200, 8}).error().code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(matrix.try_reshape(std::vector<std::int64_t>(65, 1)).error().code(),
            tenon::Code::kInvalidArgument);
  const tenon::Result<tenon::Tensor> outside = matrix.try_index({0, 4});
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().detail("item"), "1");
  EXPECT_EQ(outside.error().detail("size"), "4");
}

TEST_F(Tensors, TypedViews) {
  tenon::Tensor tensor = tenon::zeros<float>({2, 3});
  const std::span<float> values = tensor.view_mut<float>();
  std::iota(values.begin(), values.end(), 1.0F);
  const std::span<const float> read = tensor.view<float>();
  EXPECT_EQ(kit::copy_of(read), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read.data(), values.data());
  const tenon::TensorView view = tensor.view();
  EXPECT_EQ(kit::copy_of(view.sizes()), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(kit::copy_of(view.strides()), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(view.numel(), 6U);
  EXPECT_EQ(view.nbytes(), 24U);
  EXPECT_EQ(view.dtype(), tenon::kDtypeOf<float>);
  EXPECT_TRUE(view.is_contiguous() && !view.is_read_only());
  EXPECT_EQ(view.name().data(), nullptr);
  EXPECT_EQ(view.get(), tensor.get());

  const std::vector<std::int64_t> sizes{3};
  const std::vector<tenon::Bool> flags{tenon::Bool::kTrue, tenon::Bool::kFalse,
                                       static_cast<tenon::Bool>(7)};
  const tenon::Tensor bools = tenon::Tensor::make_from<tenon::Bool>(flags, sizes);
  EXPECT_TRUE(tenon::is_true(bools.view<tenon::Bool>()[2]));
  const tenon::Tensor complex =
      tenon::zeros<std::complex<float>>(std::array<std::int64_t, 2>{1, 1});
  EXPECT_EQ(complex.view<std::complex<float>>()[0], std::complex<float>());
  const tenon::Tensor halves = tenon::empty<my::half>({4}, {.private_memory = true});
  EXPECT_EQ(halves.view<my::half>().size(), 4U);
  EXPECT_FALSE(halves.storage().is_shared());
}

TEST_F(Tensors, Scalars_AndEmptyOnes) {
  tenon::Tensor scalar = tenon::zeros<double>({});
  scalar.view_mut<double>()[0] = 2.5;
  EXPECT_EQ(scalar.view<double>().size(), 1U);
  EXPECT_EQ(scalar.view().sizes().size(), 0U);
  tenon::Tensor nothing = tenon::zeros<double>({3, 0});
  EXPECT_EQ(nothing.view<double>().size(), 0U);
  EXPECT_EQ(nothing.view_mut<double>().size(), 0U);
  EXPECT_FALSE(nothing.view().is_read_only());
}

TEST_F(Tensors, WrongElementType) {
  tenon::Tensor tensor = tenon::zeros<float>({4});
  EXPECT_EQ(kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view<std::int32_t>(); }),
            "the tensor is of float32, not of int32");
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view<double>(); });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view_mut<std::uint32_t>(); });
  // A vector of lanes cannot be viewed as its lanes.
  const tenon::Tensor lanes = tenon::Tensor::make({4}, tenon::Dtype(TENON_DTYPE_FLOAT, 32, 2));
  EXPECT_EQ(kit::thrown_by<tenon::InvalidArgument>([&] { (void)lanes.view<float>(); }),
            "the tensor is of float32x2, not of float32");
}

TEST_F(Tensors, NotContiguous) {
  const tenon::Tensor tensor = tenon::zeros<float>({4, 4});
  tenon::Tensor column = tenon::Tensor::over(tensor.storage(), {4}, tenon::kDtypeOf<float>,
                                             {.strides = {4}, .offset = 1});
  EXPECT_NE(kit::thrown_by<tenon::InvalidArgument>([&] {
              (void)column.view<float>();
            }).find("not contiguous"),
            std::string::npos);
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)column.view_mut<float>(); });
  EXPECT_EQ(column.view().strides()[0], 4);
  EXPECT_EQ(column.view().offset(), 1U);
  tenon::TensorView view = column.view();
  EXPECT_NE(view.data(), nullptr);
  EXPECT_EQ(view.data_mut(), view.data());
}

TEST_F(Tensors, Misaligned) {
  alignas(8) std::byte room[64] = {};
  const tenon::Storage storage = tenon::Storage::wrap(std::span(room).subspan(1), [] {});
  tenon::Tensor tensor = tenon::Tensor::over(storage, {4}, tenon::kDtypeOf<float>);
  EXPECT_NE(kit::thrown_by<tenon::InvalidArgument>([&] {
              (void)tensor.view<float>();
            }).find("multiple of 4"),
            std::string::npos);
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tensor.view_mut<float>(); });
  const tenon::Tensor bytes = tenon::Tensor::over(storage, {4}, tenon::kDtypeOf<std::uint8_t>);
  EXPECT_EQ(bytes.view<std::uint8_t>().size(), 4U);
}

TEST_F(Tensors, ReadOnlyAndConjugated) {
  const std::vector<float> values{1, 2};
  tenon::Tensor frozen =
      tenon::Tensor::make_from<float>(values, {2}, {.mode = tenon::Mode::kFrozen});
  EXPECT_TRUE(frozen.is_read_only());
  EXPECT_EQ(frozen.view<float>()[1], 2.0F);
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)frozen.view_mut<float>(); });
  kit::thrown_by<tenon::PermissionDenied>([&] { (void)frozen.view().data_mut(); });
  const tenon::Tensor plain = tenon::zeros<std::complex<float>>({2});
  const tenon::Tensor conjugated =
      tenon::Tensor::over(plain.storage(), {2}, tenon::kDtypeOf<std::complex<float>>,
                          {.flags = std::uint32_t{TENON_TENSOR_CONJ}});
  kit::thrown_by<tenon::Unsupported>([&] { (void)conjugated.view<std::complex<float>>(); });
  EXPECT_EQ(conjugated.view().flags(), std::uint32_t{TENON_TENSOR_CONJ});
}

TEST_F(Tensors, BadSizes) {
  const std::vector<float> values{1, 2, 3};
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::zeros<float>({-1}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::zeros<float>({std::int64_t{1} << 62, 4}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::zeros<double>({(std::int64_t{1} << 62) + 1}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::Tensor::make_from<float>(values, {4}); });
  const tenon::Storage storage = tenon::Storage::make(16);
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::Tensor::over(storage, {5}, tenon::kDtypeOf<float>); });
  kit::thrown_by<tenon::InvalidArgument>([&] {
    (void)tenon::Tensor::over(storage, {4}, tenon::kDtypeOf<float>, {.strides = {1, 1}});
  });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::Tensor::over(storage, {4}, tenon::Dtype(200, 8)); });
  const std::vector<std::int64_t> many(65, 1);
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::Tensor::over(storage, many, tenon::kDtypeOf<float>); });
  // The product of the sizes may overflow if the tensor has no elements.
  EXPECT_EQ(tenon::zeros<float>({std::int64_t{1} << 62, 4, 0}).numel(), 0U);
}

TEST_F(Tensors, NamesOfElementTypes) {
  const std::pair<tenon::Dtype, const char*> known[] = {
      {{TENON_DTYPE_BOOL, 8}, "bool"},
      {{TENON_DTYPE_FLOAT, 32}, "float32"},
      {{TENON_DTYPE_COMPLEX, 64}, "complex64"},
      {{TENON_DTYPE_FLOAT8_E4M3B11FNUZ, 8}, "float8_e4m3b11fnuz"},
      {{TENON_DTYPE_UINT, 8, 4}, "uint8x4"},
      {{99, 7}, "dtype_99_7"}};
  for (const auto& [dtype, name] : known) {
    EXPECT_EQ(tenon::name_of(dtype), name);
    EXPECT_EQ(tenon::dtype_of(name), dtype);
  }
  EXPECT_EQ(tenon::dtype_of(std::string_view("float32\0x", 9)), std::nullopt);
  for (const char* wrong :
       {"", "x", "x4", "float33", "uint8x", "uint8x0", "uint8x65536", "uint8x4x4", "complex"}) {
    EXPECT_EQ(tenon::dtype_of(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(tenon::dtype_of("uint8x65535"), tenon::Dtype(TENON_DTYPE_UINT, 8, 65535));
}

}  // namespace
