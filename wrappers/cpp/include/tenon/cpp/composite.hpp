/// @file
/// Composites: sparse, nested and quantised tensors, which consist of several tensors, and tensors
/// on the device meta. tenon/composite.h has the details.
#ifndef TENON_CPP_COMPOSITE_HPP
#define TENON_CPP_COMPOSITE_HPP

#include <tenon/composite.h>
#include <tenon/cpp/dtype.hpp>
#include <tenon/cpp/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

TENON_CPP_BEGIN

/// How the elements of a tensor are stored.
enum class TensorLayout : std::int32_t {
  kStrided = TENON_TENSOR_LAYOUT_STRIDED,
  /// The coordinates are in `indices`, the elements in `values`.
  kSparseCoo = TENON_TENSOR_LAYOUT_SPARSE_COO,
  /// Compressed rows: `indices` holds the row pointers, `plain_indices` the columns.
  kSparseCsr = TENON_TENSOR_LAYOUT_SPARSE_CSR,
  /// Compressed columns: `indices` holds the column pointers, `plain_indices` the rows.
  kSparseCsc = TENON_TENSOR_LAYOUT_SPARSE_CSC,
  /// CSR with blocks as elements.
  kSparseBsr = TENON_TENSOR_LAYOUT_SPARSE_BSR,
  /// CSC with blocks as elements.
  kSparseBsc = TENON_TENSOR_LAYOUT_SPARSE_BSC,
  /// Components that differ in one dimension. Only a Composite has this layout and the next three.
  kJagged = TENON_TENSOR_LAYOUT_JAGGED,
  /// Components that differ in any dimension.
  kNested = TENON_TENSOR_LAYOUT_NESTED,
  /// Sizes and an element type without memory.
  kMeta = TENON_TENSOR_LAYOUT_META,
  /// Integers that represent numbers, as the quantizer says.
  kQuantized = TENON_TENSOR_LAYOUT_QUANTIZED
};

/// How quantised elements represent numbers.
enum class Quantizer : std::int32_t {
  /// The elements are not quantised.
  kNone = TENON_QUANTIZER_NONE,
  /// All elements have one `scale` and one `zero_point`.
  kPerTensorAffine = TENON_QUANTIZER_PER_TENSOR_AFFINE,
  /// Each channel along `axis` has its own scale and zero point, in `scales` and `zero_points`.
  kPerChannelAffine = TENON_QUANTIZER_PER_CHANNEL_AFFINE,
  /// As kPerChannelAffine, with scales and zero points of type float32.
  kPerChannelAffineFloatQparams = TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS
};

/// The layout and the parts of a composite. Sizes, strides and offset are in elements. A field that
/// the layout does not have is empty or 0. tenon_composite_spec explains each part.
struct CompositeSpec {
  TensorLayout layout = TensorLayout::kSparseCoo;
  /// The sizes of a sparse or meta tensor. For other layouts the sizes follow from the parts, and
  /// they are ignored when the composite is made. -1 stands for a size that can differ from
  /// component to component.
  std::vector<std::int64_t> sizes = {};
  /// For meta. When the composite is made, an empty vector means contiguous elements.
  std::vector<std::int64_t> strides = {};
  /// For meta.
  std::uint64_t offset = 0;
  /// For meta. For other layouts it is the type of `values`, and it is ignored when the composite
  /// is made.
  Dtype dtype = {};
  /// TENON_TENSOR_*.
  std::uint32_t flags = 0;
  /// For all layouts but meta.
  Tensor values = {};
  /// For sparse layouts: the indices of COO, otherwise the row or column pointers.
  Tensor indices = {};
  /// For CSR, CSC, BSR and BSC.
  Tensor plain_indices = {};
  /// For jagged and nested layouts.
  Tensor offsets = {};
  /// For a jagged layout with gaps between the components.
  Tensor lengths = {};
  /// For a nested layout.
  Tensor component_sizes = {};
  /// For a nested layout.
  Tensor component_strides = {};
  /// For a tensor that is quantised per channel.
  Tensor scales = {};
  /// For a tensor that is quantised per channel.
  Tensor zero_points = {};
  /// For a tensor that is quantised per tensor.
  double scale = 0;
  /// For a tensor that is quantised per tensor.
  std::int64_t zero_point = 0;
  /// For a tensor that is quantised per channel.
  std::int32_t axis = 0;
  /// For a jagged layout.
  std::int32_t ragged_dim = 0;
  Quantizer quantizer = Quantizer::kNone;
  /// For COO. It is empty if it is not known whether the tensor is coalesced.
  std::optional<bool> coalesced = std::nullopt;
};

/// A tensor that consists of several tensors, its parts. A composite never changes.
class Composite : public detail::Counted<Composite, tenon_composite, tenon_composite_retain,
                                         tenon_composite_release> {
 public:
  /// Makes a composite, which takes a reference to each part. The shapes, the element types and the
  /// devices of the parts must fit each other. check() checks the indices.
  static Result<Composite> try_make(const CompositeSpec& spec) {
    if (spec.sizes.size() > TENON_TENSOR_MAX_NDIM)
      return detail::wrong(std::to_string(spec.sizes.size()) + " dimensions are more than 64");
    if (!spec.strides.empty() && spec.strides.size() != spec.sizes.size()) {
      return detail::wrong(std::to_string(spec.strides.size()) + " strides for " +
                           std::to_string(spec.sizes.size()) + " sizes");
    }
    tenon_composite_spec c{};
    c.struct_size = sizeof c;
    c.layout = static_cast<std::int32_t>(spec.layout);
    c.ndim = static_cast<std::int32_t>(spec.sizes.size());
    c.sizes = spec.sizes.data();
    c.strides = spec.strides.empty() ? nullptr : spec.strides.data();
    c.offset = spec.offset;
    c.dtype = spec.dtype;
    c.flags = spec.flags;
    for (const auto& part : kParts) c.*part.in_c = (spec.*part.here).get();
    c.scale = spec.scale;
    c.zero_point = spec.zero_point;
    c.axis = spec.axis;
    c.ragged_dim = spec.ragged_dim;
    c.quantizer = static_cast<std::int32_t>(spec.quantizer);
    c.coalesced = !spec.coalesced   ? TENON_COALESCED_UNKNOWN
                  : *spec.coalesced ? TENON_COALESCED_YES
                                    : TENON_COALESCED_NO;
    return detail::make<Composite>([&](tenon_composite** out, tenon_error** err) {
      return tenon_composite_new(&c, out, err);
    });
  }

  /// Gives the layout, the sizes and the parts.
  Result<CompositeSpec> try_spec() const {
    const Result<tenon_composite_spec> found =
        detail::fill<tenon_composite_spec>([&](tenon_composite_spec* out, tenon_error** err) {
          return tenon_composite_get_spec(get(), out, err);
        });
    if (!found) return found.error();
    const tenon_composite_spec& c = *found;
    const auto ndim = static_cast<std::size_t>(c.ndim);
    CompositeSpec spec;
    spec.layout = static_cast<TensorLayout>(c.layout);
    if (c.sizes != nullptr) spec.sizes.assign(c.sizes, c.sizes + ndim);
    if (c.strides != nullptr) spec.strides.assign(c.strides, c.strides + ndim);
    spec.offset = c.offset;
    spec.dtype = c.dtype;
    spec.flags = c.flags;
    for (const auto& part : kParts) spec.*part.here = Tensor::retain(c.*part.in_c);
    spec.scale = c.scale;
    spec.zero_point = c.zero_point;
    spec.axis = c.axis;
    spec.ragged_dim = c.ragged_dim;
    spec.quantizer = static_cast<Quantizer>(c.quantizer);
    if (c.coalesced != TENON_COALESCED_UNKNOWN) spec.coalesced = c.coalesced == TENON_COALESCED_YES;
    return spec;
  }

  /// Checks the numbers in the indices, offsets and component sizes, and gives a composite whose
  /// numbers no other process can change: this one, or one with copies of these parts. A reader
  /// that follows the numbers stays inside the parts. The call fails with kCorrupt if a number is
  /// wrong, and the details "part" and "index" name the place.
  Result<Composite> try_check() const {
    return detail::make<Composite>([&](tenon_composite** out, tenon_error** err) {
      return tenon_composite_check(get(), out, err);
    });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Composite make(const CompositeSpec& spec) { return try_make(spec).value(); }
  CompositeSpec spec() const { return try_spec().value(); }
  Composite check() const { return try_check().value(); }
#endif

 private:
  struct PartField {
    tenon_tensor* tenon_composite_spec::* in_c;
    Tensor CompositeSpec::* here;
  };
  static constexpr PartField kParts[] = {
      {&tenon_composite_spec::values, &CompositeSpec::values},
      {&tenon_composite_spec::indices, &CompositeSpec::indices},
      {&tenon_composite_spec::plain_indices, &CompositeSpec::plain_indices},
      {&tenon_composite_spec::offsets, &CompositeSpec::offsets},
      {&tenon_composite_spec::lengths, &CompositeSpec::lengths},
      {&tenon_composite_spec::component_sizes, &CompositeSpec::component_sizes},
      {&tenon_composite_spec::component_strides, &CompositeSpec::component_strides},
      {&tenon_composite_spec::scales, &CompositeSpec::scales},
      {&tenon_composite_spec::zero_points, &CompositeSpec::zero_points}};
};

TENON_CPP_END

#endif
