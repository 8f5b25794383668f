#include "tensor/composite_rules.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"

namespace tenon::tensor {
namespace {

using Dims = std::span<const int64_t>;

constexpr uint8_t kIntCode = 0;
constexpr uint8_t kUIntCode = 1;
constexpr uint8_t kFloatCode = 2;

constexpr std::array kPartsOfCoo = {Part::kValues, Part::kIndices};
constexpr std::array kPartsOfCompressed = {Part::kValues, Part::kIndices, Part::kPlainIndices};
constexpr std::array kPartsOfJagged = {Part::kValues, Part::kOffsets, Part::kLengths};
constexpr std::array kPartsOfNested = {Part::kValues, Part::kComponentSizes,
                                       Part::kComponentStrides, Part::kOffsets};
constexpr std::array kPartsOfQuantized = {Part::kValues, Part::kScales, Part::kZeroPoints};

Status wrong_part(Part part, std::string message) {
  return invalid(format("the %s %s", part_name(part), message.c_str()))
      .with("part", std::string(part_key(part)));
}

bool same_dims(Dims a, Dims b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool is_index(DType dtype) noexcept {
  return dtype.code == kIntCode && dtype.lanes == 1 && (dtype.bits == 64 || dtype.bits == 32);
}
bool is_int64(DType dtype) noexcept { return is_index(dtype) && dtype.bits == 64; }

Status mismatch(const char* what, Part part, const SparseShape& shape) {
  std::string indices = dims_text(shape.indices);
  if (shape.layout != TensorLayout::kSparseCoo) indices += ", " + dims_text(shape.plain_indices);
  return invalid(format("a %s tensor of sizes %s with indices %s and values %s: %s",
                        tensor_layout_name(shape.layout), dims_text(shape.sizes).c_str(),
                        indices.c_str(), dims_text(shape.values).c_str(), what))
      .with("part", std::string(part_key(part)));
}

// Checks the shapes of COO. Indices: sparse dimensions by elements. Values: elements by dense
// dimensions.
Status check_coo(const SparseShape& shape) {
  const auto wrong = [&](const char* what, Part part) { return mismatch(what, part, shape); };
  if (shape.indices.size() != 2) return wrong("the indices have not 2 dimensions", Part::kIndices);
  if (shape.values.empty() || shape.values[0] != shape.indices[1])
    return wrong("not as many values as indices", Part::kValues);
  const auto sparse = static_cast<uint64_t>(shape.indices[0]);
  if (sparse > shape.sizes.size() || shape.sizes.size() - sparse != shape.values.size() - 1) {
    return wrong("the dimensions do not add up", Part::kIndices);
  }
  if (!same_dims(shape.sizes.subspan(sparse), shape.values.subspan(1)))
    return wrong("the dense sizes differ", Part::kValues);
  return Status::ok();
}

// Checks the shapes of the compressed layouts. Indices (rows of CSR and BSR, columns of CSC and
// BSC): batch by the compressed dimension + 1. Plain indices: batch by elements. Values: batch by
// elements, by the two dimensions of a block if there are blocks, by dense dimensions.
Status check_compressed(const SparseShape& shape) {
  const auto wrong = [&](const char* what, Part part) { return mismatch(what, part, shape); };
  const Dims sizes = shape.sizes;
  const Dims values = shape.values;
  if (shape.indices.empty() || shape.plain_indices.size() != shape.indices.size()) {
    return wrong("the indices' dimensions do not agree", Part::kPlainIndices);
  }
  const size_t batch = shape.indices.size() - 1;
  const bool blocks =
      shape.layout == TensorLayout::kSparseBsr || shape.layout == TensorLayout::kSparseBsc;
  const size_t block_dims = blocks ? 2 : 0;
  if (sizes.size() < batch + 2) return wrong("the sizes have too few dimensions", Part::kIndices);
  const size_t dense = sizes.size() - batch - 2;
  if (values.size() != batch + 1 + block_dims + dense)
    return wrong("the values' dimensions do not agree", Part::kValues);
  if (!same_dims(shape.indices.first(batch), sizes.first(batch)))
    return wrong("the batch sizes differ", Part::kIndices);
  if (!same_dims(shape.plain_indices.first(batch), sizes.first(batch)))
    return wrong("the batch sizes differ", Part::kPlainIndices);
  if (!same_dims(values.first(batch), sizes.first(batch)))
    return wrong("the batch sizes differ", Part::kValues);
  if (shape.plain_indices[batch] != values[batch])
    return wrong("not as many values as indices", Part::kValues);
  if (!same_dims(values.subspan(batch + 1 + block_dims), sizes.subspan(batch + 2)))
    return wrong("the dense sizes differ", Part::kValues);
  const bool by_row =
      shape.layout == TensorLayout::kSparseCsr || shape.layout == TensorLayout::kSparseBsr;
  const size_t compressed_dim = batch + (by_row ? 0 : 1);
  int64_t lines = sizes[compressed_dim];
  if (blocks) {
    for (size_t i = 0; i < 2; ++i) {
      const int64_t block = values[batch + 1 + i];
      if (block <= 0 || sizes[batch + i] % block != 0)
        return wrong("the blocks do not divide the sizes", Part::kValues);
    }
    lines /= values[batch + 1 + (by_row ? 0 : 1)];
  }
  if (shape.indices[batch] < 1 || shape.indices[batch] - 1 != lines) {
    return wrong("the compressed indices are not one more than there are lines", Part::kIndices);
  }
  return Status::ok();
}

Status check_sparse(const CompositeShape& shape) {
  TENON_TRY(check_sizes(shape.sizes));
  const bool coo = shape.layout == TensorLayout::kSparseCoo;
  for (size_t i = 1; i < shape.parts.size(); ++i) {
    const Part part = parts_of(shape.layout, shape.quantizer)[i];
    if (!is_index(shape.parts[i].dtype)) {
      return wrong_part(part, format("are of type %s, not int64 or int32",
                                     dtype_name(shape.parts[i].dtype).text));
    }
    if (shape.parts[i].dtype != shape.parts[1].dtype)
      return wrong_part(part, "have not the type of the compressed indices");
  }
  return check_sparse_shape({shape.layout, shape.sizes, shape.parts[1].sizes,
                             coo ? Dims() : shape.parts[2].sizes, shape.parts[0].sizes});
}

Status check_jagged(const CompositeShape& shape) {
  const Dims values = shape.parts[0].sizes;
  const Dims offsets = shape.parts[1].sizes;
  if (values.empty() || values.size() >= static_cast<size_t>(kMaxNdim)) {
    return wrong_part(Part::kValues, format("have %zu dimensions", values.size()));
  }
  if (shape.dim < 1 || static_cast<size_t>(shape.dim) > values.size()) {
    return invalid(
        format("the ragged dimension %d of a jagged tensor of %zu dimensions is not from 1 to %zu",
               shape.dim, values.size() + 1, values.size()));
  }
  if (offsets.size() != 1 || offsets[0] < 1) {
    return wrong_part(Part::kOffsets,
                      format("have sizes %s, not one more than there are components",
                             dims_text(offsets).c_str()));
  }
  if (!is_index(shape.parts[1].dtype)) {
    return wrong_part(Part::kOffsets, format("are of type %s, not int64 or int32",
                                             dtype_name(shape.parts[1].dtype).text));
  }
  if (shape.parts.size() < 3) return Status::ok();
  const Dims lengths = shape.parts[2].sizes;
  if (lengths.size() != 1 || lengths[0] != offsets[0] - 1) {
    return wrong_part(Part::kLengths,
                      format("have sizes %s, and there are %lld components",
                             dims_text(lengths).c_str(), static_cast<long long>(offsets[0] - 1)));
  }
  if (shape.parts[2].dtype != shape.parts[1].dtype)
    return wrong_part(Part::kLengths, "have not the type of the offsets");
  return Status::ok();
}

Status check_nested(const CompositeShape& shape) {
  const PartShape& values = shape.parts[0];
  const Dims sizes = shape.parts[1].sizes;
  const Dims offsets = shape.parts[3].sizes;
  if (values.sizes.size() != 1 || !is_contiguous(values.sizes, values.strides)) {
    return wrong_part(Part::kValues, format("have sizes %s, not one contiguous dimension",
                                            dims_text(values.sizes).c_str()));
  }
  for (size_t i = 1; i < shape.parts.size(); ++i) {
    const Part part = kPartsOfNested[i];
    if (!is_int64(shape.parts[i].dtype)) {
      return wrong_part(part,
                        format("are of type %s, not int64", dtype_name(shape.parts[i].dtype).text));
    }
  }
  if (offsets.size() != 1)
    return wrong_part(Part::kOffsets,
                      format("have sizes %s, not one dimension", dims_text(offsets).c_str()));
  if (sizes.size() != 2 || sizes[0] != offsets[0] || sizes[1] >= kMaxNdim) {
    return wrong_part(Part::kComponentSizes,
                      format("have sizes %s, not %lld by the dimensions of a component",
                             dims_text(sizes).c_str(), static_cast<long long>(offsets[0])));
  }
  if (!same_dims(shape.parts[2].sizes, sizes)) {
    return wrong_part(Part::kComponentStrides,
                      format("have sizes %s, and the component sizes %s",
                             dims_text(shape.parts[2].sizes).c_str(), dims_text(sizes).c_str()));
  }
  return Status::ok();
}

Status check_meta(const CompositeShape& shape) {
  // The layout is checked against the largest possible storage, because a tensor on meta has none.
  return check_layout({shape.dtype, shape.sizes, shape.strides, shape.offset},
                      uint64_t{std::numeric_limits<int64_t>::max()});
}

Status check_quantized(const CompositeShape& shape) {
  const DType dtype = shape.parts[0].dtype;
  const bool is_quantised = dtype == DType{kIntCode, 8, 1} || dtype == DType{kUIntCode, 8, 1} ||
                            dtype == DType{kIntCode, 32, 1} || dtype == DType{kUIntCode, 4, 1} ||
                            dtype == DType{kUIntCode, 2, 1};
  if (!is_quantised) {
    return wrong_part(
        Part::kValues,
        format("are of type %s, not int8, uint8, int32, uint4 or uint2", dtype_name(dtype).text));
  }
  if (shape.quantizer == QScheme::kPerTensorAffine) return Status::ok();
  const bool by_float = shape.quantizer == QScheme::kPerChannelAffineFloatQParams;
  for (size_t i = 1; i < shape.parts.size(); ++i) {
    TENON_TRY(check_channels(kPartsOfQuantized[i], shape.parts[i].sizes, shape.parts[0].sizes,
                             shape.dim));
    const DType wanted = by_float ? DType{kFloatCode, 32, 1}
                         : i == 1 ? DType{kFloatCode, 64, 1}
                                  : DType{kIntCode, 64, 1};
    if (shape.parts[i].dtype != wanted) {
      return wrong_part(kPartsOfQuantized[i],
                        format("are of type %s, not %s", dtype_name(shape.parts[i].dtype).text,
                               dtype_name(wanted).text));
    }
  }
  return Status::ok();
}

bool is_zero_bits(double value) noexcept {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits == 0;
}

// Checks that fields which a layout does not use are 0, so that each composite has one form.
Status check_unused(const CompositeShape& shape) {
  const TensorLayout layout = shape.layout;
  const bool quantised = layout == TensorLayout::kQuantized;
  const bool per_tensor = quantised && shape.quantizer == QScheme::kPerTensorAffine;
  const auto unused = [&](const char* what) {
    return invalid(format("%s is set in a %s tensor", what, tensor_layout_name(layout)));
  };
  if (shape.coalesced != Coalesced::kUnknown && layout != TensorLayout::kSparseCoo)
    return unused("coalesced");
  if (shape.quantizer != QScheme::kNone && !quantised) return unused("a quantizer");
  if (shape.dim != 0 && layout != TensorLayout::kJagged && (!quantised || per_tensor))
    return unused("a ragged dimension or an axis");
  if (!per_tensor && (!is_zero_bits(shape.scale) || shape.zero_point != 0))
    return unused("a scale or a zero point");
  if (layout != TensorLayout::kMeta) {
    if (shape.offset != 0 || !shape.strides.empty()) return unused("an offset or a stride");
    if (shape.dtype != DType()) return unused("a dtype");
    if (!is_sparse(layout) && !shape.sizes.empty()) return unused("a size");
  }
  const uint32_t known =
      layout == TensorLayout::kMeta ? kTensorFlags : kFlagRequiresGrad | kFlagIsParameter;
  if ((shape.flags & ~known) != 0) {
    return {Code::kUnsupported, format("flags 0x%x of a %s tensor are not known",
                                       shape.flags & ~known, tensor_layout_name(layout))};
  }
  return Status::ok();
}

}  // namespace

const char* tensor_layout_name(TensorLayout layout) noexcept {
  switch (layout) {
    case TensorLayout::kStrided: return "strided";
    case TensorLayout::kSparseCoo: return "sparse_coo";
    case TensorLayout::kSparseCsr: return "sparse_csr";
    case TensorLayout::kSparseCsc: return "sparse_csc";
    case TensorLayout::kSparseBsr: return "sparse_bsr";
    case TensorLayout::kSparseBsc: return "sparse_bsc";
    case TensorLayout::kJagged: return "jagged";
    case TensorLayout::kNested: return "nested";
    case TensorLayout::kMeta: return "meta";
    case TensorLayout::kQuantized: return "quantized";
  }
  return nullptr;
}

bool is_sparse(TensorLayout layout) noexcept {
  return layout >= TensorLayout::kSparseCoo && layout <= TensorLayout::kSparseBsc &&
         tensor_layout_name(layout) != nullptr;
}

const char* part_name(Part part) noexcept {
  constexpr std::array kNames = {"values",     "indices",         "plain indices",     "offsets",
                                 "lengths",    "component sizes", "component strides", "scales",
                                 "zero points"};
  return kNames[static_cast<size_t>(part)];
}

const char* part_key(Part part) noexcept {
  constexpr std::array kKeys = {"values",     "indices",         "plain_indices",     "offsets",
                                "lengths",    "component_sizes", "component_strides", "scales",
                                "zero_points"};
  return kKeys[static_cast<size_t>(part)];
}

std::span<const Part> parts_of(TensorLayout layout, QScheme quantizer) noexcept {
  switch (layout) {
    case TensorLayout::kSparseCoo: return kPartsOfCoo;
    case TensorLayout::kSparseCsr:
    case TensorLayout::kSparseCsc:
    case TensorLayout::kSparseBsr:
    case TensorLayout::kSparseBsc: return kPartsOfCompressed;
    case TensorLayout::kJagged: return kPartsOfJagged;
    case TensorLayout::kNested: return kPartsOfNested;
    case TensorLayout::kQuantized:
      return std::span(kPartsOfQuantized).first(quantizer == QScheme::kPerTensorAffine ? 1 : 3);
    case TensorLayout::kStrided:
    case TensorLayout::kMeta: break;
  }
  return {};
}

Status check_composite(const CompositeShape& shape) {
  if (shape.layout == TensorLayout::kStrided || tensor_layout_name(shape.layout) == nullptr) {
    return invalid(
        format("no tensor of parts has the layout %u", static_cast<unsigned>(shape.layout)));
  }
  const bool quantised = shape.layout == TensorLayout::kQuantized;
  if (shape.coalesced > Coalesced::kYes)
    return invalid(format("coalesced is %u", static_cast<unsigned>(shape.coalesced)));
  if (shape.quantizer > QScheme::kPerChannelAffineFloatQParams ||
      (quantised && shape.quantizer == QScheme::kNone)) {
    return invalid(
        format("no quantizer has the number %u", static_cast<unsigned>(shape.quantizer)));
  }
  const size_t count = shape.parts.size();
  const size_t most = parts_of(shape.layout, shape.quantizer).size();
  const size_t least = shape.layout == TensorLayout::kJagged ? most - 1 : most;
  if (count < least || count > most) {
    return invalid(format("a %s tensor of %zu parts", tensor_layout_name(shape.layout), count));
  }
  TENON_TRY(check_unused(shape));
  switch (shape.layout) {
    case TensorLayout::kJagged: return check_jagged(shape);
    case TensorLayout::kNested: return check_nested(shape);
    case TensorLayout::kMeta: return check_meta(shape);
    case TensorLayout::kQuantized: return check_quantized(shape);
    default: return check_sparse(shape);
  }
}

std::vector<int64_t> sizes_from_parts(const CompositeShape& shape) {
  const Dims values = shape.parts[0].sizes;
  std::vector<int64_t> sizes;
  if (shape.layout == TensorLayout::kJagged) {
    sizes.push_back(shape.parts[1].sizes[0] - 1);
    sizes.insert(sizes.end(), values.begin(), values.end());
    sizes[static_cast<size_t>(shape.dim)] = -1;
  } else if (shape.layout == TensorLayout::kNested) {
    sizes.assign(static_cast<size_t>(shape.parts[1].sizes[1]) + 1, -1);
    sizes[0] = shape.parts[1].sizes[0];
  } else {
    sizes.assign(values.begin(), values.end());
  }
  return sizes;
}

Status check_sparse_shape(const SparseShape& shape) {
  return shape.layout == TensorLayout::kSparseCoo ? check_coo(shape) : check_compressed(shape);
}

Status check_channels(Part which, std::span<const int64_t> part, std::span<const int64_t> sizes,
                      int64_t axis) {
  if (axis < 0 || static_cast<uint64_t>(axis) >= sizes.size()) {
    return invalid(format("the quantizer's axis %lld of a tensor of %zu dimensions",
                          static_cast<long long>(axis), sizes.size()));
  }
  const int64_t channels = sizes[static_cast<size_t>(axis)];
  if (part.size() == 1 && part[0] == channels) return Status::ok();
  return wrong_part(which, format("have sizes %s, and there are %lld channels",
                                  dims_text(part).c_str(), static_cast<long long>(channels)));
}

Status check_sizes(std::span<const int64_t> sizes) {
  if (sizes.size() > static_cast<size_t>(kMaxNdim))
    return invalid(format("%zu dimensions are more than %d", sizes.size(), kMaxNdim));
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return invalid(format("negative sizes %s", dims_text(sizes).c_str()));
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return Status::ok();
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (!checked_mul(count, size, &count))
      return invalid(format("sizes %s overflow 64 bits", dims_text(sizes).c_str()));
  }
  return Status::ok();
}

}  // namespace tenon::tensor
