#include "modules/value/tensor_checks.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/checked.h"
#include "tensor/layout.h"

namespace tenon::value {
namespace {

using Dims = std::span<const int64_t>;

// The index of the element behind the last one, counted from the start of the storage. All sizes
// must be at least 1. False if it overflows.
bool find_end(const StridedSpec& spec, uint64_t* end) noexcept {
  uint64_t last = static_cast<uint64_t>(spec.offset);
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    uint64_t distance = 0;
    if (!checked_mul(static_cast<uint64_t>(spec.sizes[i]) - 1,
                     static_cast<uint64_t>(spec.strides[i]), &distance))
      return false;
    if (!checked_add(last, distance, &last)) return false;
  }
  return checked_add(last, uint64_t{1}, end);
}

uint64_t ceil_divide(uint64_t a, uint64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }

// The number of elements that a storage needs. If several elements share a byte, each row of a
// contiguous packed tensor begins at a byte.
bool find_needed(tensor::ScalarType type, const StridedSpec& spec, uint64_t* needed) noexcept {
  uint64_t end = 0;
  if (!find_end(spec, &end)) return false;
  const uint64_t packed = tensor::scalar_type_info(type).packed;
  if (packed == 1) {
    *needed = end;
    return true;
  }
  *needed = ceil_divide(end, packed);
  if (spec.sizes.empty() || !tensor::is_contiguous(spec.sizes, spec.strides)) return true;
  uint64_t rows = ceil_divide(static_cast<uint64_t>(spec.sizes.back()), packed);
  for (size_t i = 0; i + 1 < spec.sizes.size(); ++i) {
    if (!checked_mul(rows, static_cast<uint64_t>(spec.sizes[i]), &rows)) return false;
  }
  *needed = std::max(*needed, rows);
  return true;
}

Status check_channels(const Quantizer& quantizer, Dims sizes, std::string_view device) {
  for (const TensorValueRef* given : {&quantizer.scales, &quantizer.zero_points}) {
    const char* const name = given == &quantizer.scales ? "scales" : "zero points";
    if (!*given) return invalid(format("a quantizer per channel without %s", name));
    const TensorValue& tensor = **given;
    if (tensor.layout() != TensorLayout::kStrided || tensor.quantizer())
      return invalid(format("the quantizer's %s are no plain tensor", name));
    const tensor::Part part =
        given == &quantizer.scales ? tensor::Part::kScales : tensor::Part::kZeroPoints;
    TENON_TRY(tensor::check_channels(part, tensor.sizes(), sizes, quantizer.axis));
    if (tensor.device() != device)
      return invalid(format("the quantizer's %s are on another device", name));
    const bool is_number = tensor::is_floating_point(tensor.type()) ||
                           (given == &quantizer.zero_points && tensor::is_integral(tensor.type()));
    if (!is_number)
      return invalid(format("the quantizer's %s are of type %s", name,
                            tensor::scalar_type_info(tensor.type()).name));
  }
  return Status::ok();
}

Status check_quantizer(const StridedSpec& spec) {
  const tensor::ScalarType type = spec.storage->type();
  if (tensor::is_quantized(type) != spec.quantizer.has_value()) {
    return invalid(format(spec.quantizer ? "a quantizer on elements of type %s"
                                         : "elements of type %s without a quantizer",
                          tensor::scalar_type_info(type).name));
  }
  if (!spec.quantizer || spec.quantizer->scheme == QScheme::kPerTensorAffine) return Status::ok();
  return check_channels(*spec.quantizer, spec.sizes, spec.storage->device());
}

Status check_gradient(bool requires_grad, tensor::ScalarType type) {
  if (!requires_grad || tensor::is_floating_point(type) || tensor::is_complex(type))
    return Status::ok();
  return invalid(format("a gradient is required of elements of type %s, which have none",
                        tensor::scalar_type_info(type).name));
}

Status check_part(const TensorValueRef& part, const char* name, bool is_index,
                  std::string_view device) {
  if (!part) return invalid(format("a sparse tensor without %s", name));
  if (part->layout() != TensorLayout::kStrided || part->quantizer())
    return invalid(format("the %s of a sparse tensor are no plain tensor", name));
  if (part->device() != device)
    return invalid(format("the %s of a sparse tensor are on another device", name));
  if (is_index && part->type() != tensor::ScalarType::kLong &&
      part->type() != tensor::ScalarType::kInt) {
    return invalid(format("the %s of a sparse tensor are of type %s", name,
                          tensor::scalar_type_info(part->type()).name));
  }
  return Status::ok();
}

}  // namespace

std::optional<uint64_t> needed_numel(tensor::ScalarType type, const StridedSpec& spec) noexcept {
  if (spec.strides.size() != spec.sizes.size()) return std::nullopt;
  if (std::find(spec.sizes.begin(), spec.sizes.end(), 0) != spec.sizes.end()) return 0;
  uint64_t needed = 0;
  if (!find_needed(type, spec, &needed)) return std::nullopt;
  return needed;
}

Status check_strided(const StridedSpec& spec) {
  if (!spec.storage) return invalid("a tensor without a storage");
  TENON_TRY(tensor::check_sizes(spec.sizes));
  if (spec.strides.size() != spec.sizes.size()) {
    return invalid(format("%zu strides for %zu sizes", spec.strides.size(), spec.sizes.size()));
  }
  if (std::any_of(spec.strides.begin(), spec.strides.end(),
                  [](int64_t stride) { return stride < 0; })) {
    return invalid(format("negative strides %s", dims_text(spec.strides).c_str()));
  }
  if (spec.offset < 0)
    return invalid(format("the negative offset %lld", static_cast<long long>(spec.offset)));
  // Nothing is ever read of a tensor without bytes, and PyTorch writes storages of various lengths
  // for it.
  if (std::ranges::find(spec.sizes, 0) == spec.sizes.end() && !spec.storage->is_meta()) {
    uint64_t needed = 0;
    if (!find_needed(spec.storage->type(), spec, &needed) || needed > spec.storage->numel()) {
      return invalid(format("sizes %s, strides %s and offset %lld leave a storage of %llu elements",
                            dims_text(spec.sizes).c_str(), dims_text(spec.strides).c_str(),
                            static_cast<long long>(spec.offset),
                            static_cast<unsigned long long>(spec.storage->numel())));
    }
  }
  const tensor::ScalarType type = spec.storage->type();
  if (spec.is_conj && !tensor::is_complex(type))
    return invalid(format("conjugated elements of type %s", tensor::scalar_type_info(type).name));
  if (spec.is_neg && (type == tensor::ScalarType::kBool || tensor::is_quantized(type))) {
    return invalid(format("negated elements of type %s", tensor::scalar_type_info(type).name));
  }
  TENON_TRY(check_gradient(spec.requires_grad, type));
  return check_quantizer(spec);
}

Status check_sparse(const SparseSpec& spec) {
  if (!tensor::is_sparse(spec.layout))
    return invalid(format("a sparse tensor of layout %s", tensor_layout_name(spec.layout)));
  TENON_TRY(tensor::check_sizes(spec.sizes));
  const bool coo = spec.layout == TensorLayout::kSparseCoo;
  TENON_TRY(check_part(spec.values, "values", false, spec.values ? spec.values->device() : ""));
  const std::string& device = spec.values->device();
  TENON_TRY(check_part(spec.indices, "indices", true, device));
  if (coo && spec.plain_indices) return invalid("a sparse_coo tensor with two tensors of indices");
  if (!coo) TENON_TRY(check_part(spec.plain_indices, "plain indices", true, device));
  if (!coo && spec.is_coalesced) return invalid("only a sparse_coo tensor can be coalesced");
  TENON_TRY(check_gradient(spec.requires_grad, spec.values->type()));
  const Dims plain = coo ? Dims() : spec.plain_indices->sizes();
  return tensor::check_sparse_shape(
      {spec.layout, spec.sizes, spec.indices->sizes(), plain, spec.values->sizes()});
}

}  // namespace tenon::value
