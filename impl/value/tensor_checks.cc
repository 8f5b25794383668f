#include "value/tensor_checks.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/checked.h"
#include "tensor/layout.h"

namespace tenon::value {
namespace {

using Dims = std::span<const int64_t>;

Status check_sizes(Dims sizes, uint64_t* numel) {
  if (sizes.size() > static_cast<size_t>(tensor::kMaxNdim)) {
    return invalid(format("%zu dimensions are more than %d", sizes.size(), tensor::kMaxNdim));
  }
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return invalid(format("negative sizes %s", dims_text(sizes).c_str()));
  }
  *numel = 0;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return Status::ok();
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (!checked_mul(count, size, &count)) return invalid(format("sizes %s overflow 64 bits", dims_text(sizes).c_str()));
  }
  *numel = static_cast<uint64_t>(count);
  return Status::ok();
}

// One behind the last element, counted from the start of the storage. All sizes are at least 1.
bool find_end(const StridedSpec& spec, uint64_t* end) noexcept {
  uint64_t last = static_cast<uint64_t>(spec.offset);
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    uint64_t distance = 0;
    if (!checked_mul(static_cast<uint64_t>(spec.sizes[i]) - 1, static_cast<uint64_t>(spec.strides[i]), &distance)) return false;
    if (!checked_add(last, distance, &last)) return false;
  }
  return checked_add(last, uint64_t{1}, end);
}

uint64_t ceil_divide(uint64_t a, uint64_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }

// The elements that a storage needs. Of types that several elements share a byte of, each row of a packed tensor begins on a byte.
bool find_needed(ScalarType type, const StridedSpec& spec, uint64_t* needed) noexcept {
  uint64_t end = 0;
  if (!find_end(spec, &end)) return false;
  const uint64_t packed = scalar_type_info(type).packed;
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
  if (quantizer.axis < 0 || static_cast<uint64_t>(quantizer.axis) >= sizes.size()) {
    return invalid(format("the quantizer's axis %lld of a tensor of %zu dimensions", static_cast<long long>(quantizer.axis), sizes.size()));
  }
  const int64_t channels = sizes[static_cast<size_t>(quantizer.axis)];
  for (const TensorValueRef* given : {&quantizer.scales, &quantizer.zero_points}) {
    const char* const name = given == &quantizer.scales ? "scales" : "zero points";
    if (!*given) return invalid(format("a quantizer per channel without %s", name));
    const TensorValue& tensor = **given;
    if (tensor.layout() != TensorLayout::kStrided || tensor.quantizer())
      return invalid(format("the quantizer's %s are no plain tensor", name));
    if (tensor.sizes().size() != 1 || tensor.sizes()[0] != channels) {
      return invalid(format("the quantizer's %s have sizes %s, and there are %lld channels", name, dims_text(tensor.sizes()).c_str(),
                            static_cast<long long>(channels)));
    }
    if (tensor.device() != device) return invalid(format("the quantizer's %s are on another device", name));
    const bool is_number = is_floating_point(tensor.type()) || (given == &quantizer.zero_points && is_integral(tensor.type()));
    if (!is_number) return invalid(format("the quantizer's %s are of type %s", name, scalar_type_info(tensor.type()).name));
  }
  return Status::ok();
}

Status check_quantizer(const StridedSpec& spec) {
  const ScalarType type = spec.storage->type();
  if (is_quantized(type) != spec.quantizer.has_value()) {
    return invalid(format(spec.quantizer ? "a quantizer on elements of type %s" : "elements of type %s without a quantizer",
                          scalar_type_info(type).name));
  }
  if (!spec.quantizer || spec.quantizer->scheme == QScheme::kPerTensorAffine) return Status::ok();
  return check_channels(*spec.quantizer, spec.sizes, spec.storage->device());
}

Status check_gradient(bool requires_grad, ScalarType type) {
  if (!requires_grad || is_floating_point(type) || is_complex(type)) return Status::ok();
  return invalid(format("a gradient is required of elements of type %s, which have none", scalar_type_info(type).name));
}

Status mismatch(const char* what, const SparseSpec& spec, Dims indices, Dims plain, Dims values) {
  return invalid(format("a %s tensor of sizes %s with indices %s, %s and values %s: %s", tensor_layout_name(spec.layout),
                        dims_text(spec.sizes).c_str(), dims_text(indices).c_str(), dims_text(plain).c_str(), dims_text(values).c_str(),
                        what));
}

bool same_dims(Dims a, Dims b) noexcept { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// indices: sparse dimensions by elements. values: elements by dense dimensions.
Status check_coo(const SparseSpec& spec) {
  const Dims sizes = spec.sizes;
  const Dims indices = spec.indices->sizes();
  const Dims values = spec.values->sizes();
  const auto wrong = [&](const char* what) { return mismatch(what, spec, indices, {}, values); };
  if (indices.size() != 2) return wrong("the indices have not 2 dimensions");
  if (values.empty() || values[0] != indices[1]) return wrong("not as many values as indices");
  const auto sparse = static_cast<uint64_t>(indices[0]);
  if (sparse > sizes.size() || sizes.size() - sparse != values.size() - 1) return wrong("the dimensions do not add up");
  if (!same_dims(sizes.subspan(sparse), values.subspan(1))) return wrong("the dense sizes differ");
  return Status::ok();
}

// Compressed (rows of CSR and BSR, columns of CSC and BSC): batch by compressed dimension + 1. Plain: batch by elements. Values: batch by
// elements, by block if there are any, by dense dimensions.
Status check_compressed(const SparseSpec& spec) {
  const Dims sizes = spec.sizes;
  const Dims compressed = spec.indices->sizes();
  const Dims plain = spec.plain_indices->sizes();
  const Dims values = spec.values->sizes();
  const auto wrong = [&](const char* what) { return mismatch(what, spec, compressed, plain, values); };
  if (compressed.empty() || plain.size() != compressed.size()) return wrong("the indices' dimensions do not agree");
  const size_t batch = compressed.size() - 1;
  const bool blocks = spec.layout == TensorLayout::kSparseBsr || spec.layout == TensorLayout::kSparseBsc;
  const size_t block_dims = blocks ? 2 : 0;
  if (sizes.size() < batch + 2) return wrong("the sizes have too few dimensions");
  const size_t dense = sizes.size() - batch - 2;
  if (values.size() != batch + 1 + block_dims + dense) return wrong("the values' dimensions do not agree");
  if (!same_dims(compressed.first(batch), sizes.first(batch)) || !same_dims(plain.first(batch), sizes.first(batch)) ||
      !same_dims(values.first(batch), sizes.first(batch))) {
    return wrong("the batch sizes differ");
  }
  if (plain[batch] != values[batch]) return wrong("not as many values as indices");
  if (!same_dims(values.subspan(batch + 1 + block_dims), sizes.subspan(batch + 2))) return wrong("the dense sizes differ");
  const bool by_row = spec.layout == TensorLayout::kSparseCsr || spec.layout == TensorLayout::kSparseBsr;
  const size_t compressed_dim = batch + (by_row ? 0 : 1);
  int64_t lines = sizes[compressed_dim];
  if (blocks) {
    for (size_t i = 0; i < 2; ++i) {
      const int64_t block = values[batch + 1 + i];
      if (block <= 0 || sizes[batch + i] % block != 0) return wrong("the blocks do not divide the sizes");
    }
    lines /= values[batch + 1 + (by_row ? 0 : 1)];
  }
  if (compressed[batch] < 1 || compressed[batch] - 1 != lines) return wrong("the compressed indices are not one more than there are lines");
  return Status::ok();
}

Status check_part(const TensorValueRef& part, const char* name, bool is_index, std::string_view device) {
  if (!part) return invalid(format("a sparse tensor without %s", name));
  if (part->layout() != TensorLayout::kStrided || part->quantizer())
    return invalid(format("the %s of a sparse tensor are no plain tensor", name));
  if (part->device() != device) return invalid(format("the %s of a sparse tensor are on another device", name));
  if (is_index && part->type() != ScalarType::kLong && part->type() != ScalarType::kInt) {
    return invalid(format("the %s of a sparse tensor are of type %s", name, scalar_type_info(part->type()).name));
  }
  return Status::ok();
}

}  // namespace

std::string dims_text(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += format(i == 0 ? "%lld" : ", %lld", static_cast<long long>(dims[i]));
  return text + "]";
}

std::optional<uint64_t> needed_numel(ScalarType type, const StridedSpec& spec) noexcept {
  if (spec.strides.size() != spec.sizes.size()) return std::nullopt;
  if (std::find(spec.sizes.begin(), spec.sizes.end(), 0) != spec.sizes.end()) return 0;
  uint64_t needed = 0;
  if (!find_needed(type, spec, &needed)) return std::nullopt;
  return needed;
}

Status check_strided(const StridedSpec& spec) {
  if (!spec.storage) return invalid("a tensor without a storage");
  uint64_t numel = 0;
  TENON_TRY(check_sizes(spec.sizes, &numel));
  if (spec.strides.size() != spec.sizes.size()) {
    return invalid(format("%zu strides for %zu sizes", spec.strides.size(), spec.sizes.size()));
  }
  if (std::any_of(spec.strides.begin(), spec.strides.end(), [](int64_t stride) { return stride < 0; })) {
    return invalid(format("negative strides %s", dims_text(spec.strides).c_str()));
  }
  if (spec.offset < 0) return invalid(format("the negative offset %lld", static_cast<long long>(spec.offset)));
  // Of a tensor without bytes nothing is ever read, and PyTorch writes storages of all kinds of lengths for it.
  if (numel > 0 && !spec.storage->is_meta()) {
    uint64_t needed = 0;
    if (!find_needed(spec.storage->type(), spec, &needed) || needed > spec.storage->numel()) {
      return invalid(format("sizes %s, strides %s and offset %lld leave a storage of %llu elements", dims_text(spec.sizes).c_str(),
                            dims_text(spec.strides).c_str(), static_cast<long long>(spec.offset),
                            static_cast<unsigned long long>(spec.storage->numel())));
    }
  }
  const ScalarType type = spec.storage->type();
  if (spec.is_conj && !is_complex(type)) return invalid(format("conjugated elements of type %s", scalar_type_info(type).name));
  if (spec.is_neg && (type == ScalarType::kBool || is_quantized(type))) {
    return invalid(format("negated elements of type %s", scalar_type_info(type).name));
  }
  TENON_TRY(check_gradient(spec.requires_grad, type));
  return check_quantizer(spec);
}

Status check_sparse(const SparseSpec& spec) {
  if (spec.layout == TensorLayout::kStrided) return invalid("a sparse tensor of layout strided");
  uint64_t numel = 0;
  TENON_TRY(check_sizes(spec.sizes, &numel));
  const bool coo = spec.layout == TensorLayout::kSparseCoo;
  TENON_TRY(check_part(spec.values, "values", false, spec.values ? spec.values->device() : ""));
  const std::string& device = spec.values->device();
  TENON_TRY(check_part(spec.indices, "indices", true, device));
  if (coo && spec.plain_indices) return invalid("a sparse_coo tensor with two tensors of indices");
  if (!coo) TENON_TRY(check_part(spec.plain_indices, "plain indices", true, device));
  if (!coo && spec.is_coalesced) return invalid("only a sparse_coo tensor can be coalesced");
  TENON_TRY(check_gradient(spec.requires_grad, spec.values->type()));
  return coo ? check_coo(spec) : check_compressed(spec);
}

}  // namespace tenon::value
