/// @file
/// Tensors that only a Value can hold: quantised and sparse tensors, tensors on the device meta,
/// and tensors of element types that DLPack does not have.
#ifndef TENON_CPP_VALUE_TENSOR_HPP
#define TENON_CPP_VALUE_TENSOR_HPP

#include <tenon/cpp/composite.hpp>
#include <tenon/cpp/scalar_type.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// The full description of a tensor in PyTorch's terms. Sizes, strides and offset are in elements.
/// A field that a kind of tensor does not have is empty or 0.
struct ValueTensorSpec {
  /// The element type. For a sparse tensor it is the type of its values, and it is ignored when the
  /// tensor is made.
  ScalarType scalar_type = ScalarType::kFloat;
  TensorLayout layout = TensorLayout::kStrided;
  /// TENON_TENSOR_*.
  std::uint32_t flags = 0;
  std::vector<std::int64_t> sizes = {};
  /// As many strides as there are sizes. An empty vector means a contiguous or a sparse tensor.
  std::vector<std::int64_t> strides = {};
  /// The distance from the first element of the storage to the element with index 0, 0, …
  std::int64_t offset = 0;
  /// The memory of the elements. It is empty for a sparse tensor and for a tensor on the device
  /// meta.
  Storage storage = {};
  /// Where PyTorch's storage of the tensor begins, in bytes from the start of `storage`. PyTorch's
  /// storage can be a part of `storage`.
  std::uint64_t storage_offset = 0;
  /// The size of PyTorch's storage in elements. When a tensor is made, 0 means the rest of
  /// `storage`, or on the device meta as many elements as the tensor needs.
  std::uint64_t storage_numel = 0;
  /// "cpu", "cuda:0" or "meta". When a tensor is made, "" means the device of `storage`.
  std::string device = {};
  Quantizer quantizer = Quantizer::kNone;
  /// For a tensor that is quantised per tensor.
  double scale = 0;
  /// For a tensor that is quantised per tensor.
  std::int64_t zero_point = 0;
  /// For a tensor that is quantised per channel.
  std::int64_t axis = 0;
  /// For a COO tensor. It is empty if it is not known whether the tensor is coalesced.
  std::optional<bool> coalesced = std::nullopt;
  /// For a sparse tensor. This field and the next four are values of kind kTensor.
  Value indices = {};
  /// For a compressed sparse tensor.
  Value plain_indices = {};
  /// For a sparse tensor.
  Value values = {};
  /// For a tensor that is quantised per channel.
  Value scales = {};
  /// For a tensor that is quantised per channel.
  Value zero_points = {};
};

namespace detail {

// Gives one of the parts of a tensor. The result is empty if the tensor has no such part.
inline Result<Value> tensor_part(const Value& value, std::int32_t part) {
  Result<Value> found = make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_tensor_part(value.get(), part, out, err);
  });
  return found.code() == Code::kNotFound ? Result<Value>(Value()) : found;
}

}  // namespace detail

inline Result<Value> Value::try_tensor_from_spec(const ValueTensorSpec& spec) {
  if (spec.sizes.size() > TENON_TENSOR_MAX_NDIM)
    return detail::wrong(std::to_string(spec.sizes.size()) + " dimensions are more than 64");
  if (!spec.strides.empty() && spec.strides.size() != spec.sizes.size()) {
    return detail::wrong(std::to_string(spec.strides.size()) + " strides for " +
                         std::to_string(spec.sizes.size()) + " sizes");
  }
  if (!detail::is_c_text(spec.device)) return detail::has_nul("the device");
  tenon_value_tensor_spec c{};
  c.struct_size = sizeof c;
  c.scalar_type = static_cast<tenon_scalar_type>(spec.scalar_type);
  c.layout = static_cast<std::int32_t>(spec.layout);
  c.ndim = static_cast<std::int32_t>(spec.sizes.size());
  c.flags = spec.flags;
  c.sizes = spec.sizes.data();
  c.strides = spec.strides.empty() ? nullptr : spec.strides.data();
  c.offset = spec.offset;
  c.storage = spec.storage.get();
  c.storage_offset = spec.storage_offset;
  c.storage_numel = spec.storage_numel;
  c.device = spec.device.empty() ? nullptr : spec.device.c_str();
  c.scale = spec.scale;
  c.zero_point = spec.zero_point;
  c.axis = spec.axis;
  c.quantizer = static_cast<std::int32_t>(spec.quantizer);
  c.coalesced = !spec.coalesced   ? TENON_COALESCED_UNKNOWN
                : *spec.coalesced ? TENON_COALESCED_YES
                                  : TENON_COALESCED_NO;
  c.indices = spec.indices.get();
  c.plain_indices = spec.plain_indices.get();
  c.values = spec.values.get();
  c.scales = spec.scales.get();
  c.zero_points = spec.zero_points.get();
  return detail::make<Value>([&](tenon_value** out, tenon_error** err) {
    return tenon_value_new_tensor_from_spec(&c, out, err);
  });
}

inline Result<ValueTensorSpec> Value::try_tensor_spec() const {
  const Result<tenon_value_tensor_spec> found =
      detail::fill<tenon_value_tensor_spec>([&](tenon_value_tensor_spec* out, tenon_error** err) {
        return tenon_value_get_tensor_spec(get(), out, err);
      });
  if (!found) return found.error();
  const tenon_value_tensor_spec& c = *found;
  const auto ndim = static_cast<std::size_t>(c.ndim);
  ValueTensorSpec spec;
  spec.scalar_type = static_cast<ScalarType>(c.scalar_type);
  spec.layout = static_cast<TensorLayout>(c.layout);
  spec.flags = c.flags;
  if (c.sizes != nullptr) spec.sizes.assign(c.sizes, c.sizes + ndim);
  if (c.strides != nullptr) spec.strides.assign(c.strides, c.strides + ndim);
  spec.offset = c.offset;
  spec.storage = Storage::retain(c.storage);
  spec.storage_offset = c.storage_offset;
  spec.storage_numel = c.storage_numel;
  spec.device = detail::view_of(c.device);
  spec.quantizer = static_cast<Quantizer>(c.quantizer);
  spec.scale = c.scale;
  spec.zero_point = c.zero_point;
  spec.axis = c.axis;
  if (c.coalesced != TENON_COALESCED_UNKNOWN) spec.coalesced = c.coalesced == TENON_COALESCED_YES;
  const struct {
    std::int32_t number;
    Value& value;
  } parts[] = {{TENON_TENSOR_PART_INDICES, spec.indices},
               {TENON_TENSOR_PART_PLAIN_INDICES, spec.plain_indices},
               {TENON_TENSOR_PART_VALUES, spec.values},
               {TENON_TENSOR_PART_SCALES, spec.scales},
               {TENON_TENSOR_PART_ZERO_POINTS, spec.zero_points}};
  for (const auto& part : parts) {
    Result<Value> value = detail::tensor_part(*this, part.number);
    if (!value) return value.error();
    part.value = *std::move(value);
  }
  return spec;
}

#ifndef TENON_NO_EXCEPTIONS
inline ValueTensorSpec Value::tensor_spec() const { return try_tensor_spec().value(); }
#endif

TENON_CPP_END

#endif
