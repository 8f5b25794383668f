// The rules that the shapes of a composite's parts must obey. Composites, descriptors and module
// archives all use these rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

namespace tenon::tensor {

// The numbers are those of TENON_TENSOR_LAYOUT_* and of the descriptor. Below 64 they are
// PyTorch's, from 64 on Tenon's own.
enum class TensorLayout : uint8_t {
  kStrided = 0,
  kSparseCoo = 1,
  kSparseCsr = 2,
  kSparseCsc = 4,
  kSparseBsr = 5,
  kSparseBsc = 6,
  kJagged = 7,
  kNested = 64,
  kMeta = 65,
  kQuantized = 66,
};
// The name, such as "sparse_coo". Null for a number that is no layout.
const char* tensor_layout_name(TensorLayout layout) noexcept;
bool is_sparse(TensorLayout layout) noexcept;

// The way in which quantised elements stand for numbers. The numbers are those of
// TENON_QUANTIZER_*.
enum class QScheme : uint8_t {
  kNone = 0,
  kPerTensorAffine = 1,
  kPerChannelAffine = 2,
  kPerChannelAffineFloatQParams = 3,
};

// The numbers are those of TENON_COALESCED_*.
enum class Coalesced : uint8_t { kUnknown = 0, kNo = 1, kYes = 2 };

enum class Part : uint8_t {
  kValues,  // every composite with parts has values
  // COO: an array of sparse dimensions by elements. CSR, CSC, BSR and BSC: the compressed indices,
  // which are the rows of CSR and BSR and the columns of CSC and BSC.
  kIndices,
  kPlainIndices,  // the other indices of CSR, CSC, BSR and BSC
  // Jagged: the beginning of each component, and the end of the last one. Nested: the beginning of
  // each component.
  kOffsets,
  kLengths,           // jagged, if components have gaps between them
  kComponentSizes,    // nested: components by dimensions
  kComponentStrides,  // nested: components by dimensions
  kScales,            // quantised per channel
  kZeroPoints,
};
// part_name() is for error messages ("plain indices"), and part_key() for programs
// ("plain_indices").
const char* part_name(Part part) noexcept;
const char* part_key(Part part) noexcept;

inline constexpr size_t kMaxParts = 4;
// The parts of a layout, in the order in which messages carry them. The lengths of a jagged tensor,
// which are last, may be missing.
std::span<const Part> parts_of(TensorLayout layout, QScheme quantizer) noexcept;

// A part without its storage.
struct PartShape {
  DType dtype;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// A composite without its storages.
struct CompositeShape {
  TensorLayout layout = TensorLayout::kStrided;
  Coalesced coalesced = Coalesced::kUnknown;  // COO
  QScheme quantizer = QScheme::kNone;         // quantised
  uint32_t flags = 0;                         // TENON_TENSOR_*
  // Jagged: the dimension whose size differs between components. Quantised per channel: the axis of
  // the channels.
  int32_t dim = 0;
  double scale = 0;                  // quantised per tensor
  int64_t zero_point = 0;            // quantised per tensor
  uint64_t offset = 0;               // meta, in elements
  DType dtype;                       // meta
  std::span<const int64_t> sizes;    // sparse and meta
  std::span<const int64_t> strides;  // meta
  std::span<const PartShape> parts;
};

// Checks the shape of a composite. INVALID_ARGUMENT, with the detail `part` if a part is wrong.
// UNSUPPORTED for unknown flags. Fields that the layout does not use must be 0.
Status check_composite(const CompositeShape& shape);

// The sizes of a nested, jagged or quantised tensor, as far as they follow from its parts. A size
// is -1 if it may differ between components. `shape` must have passed check_composite().
std::vector<int64_t> sizes_from_parts(const CompositeShape& shape);

// The same rules for callers that keep the parts in another form. The errors of these checks are
// INVALID_ARGUMENT.
struct SparseShape {
  TensorLayout layout = TensorLayout::kSparseCoo;
  std::span<const int64_t> sizes;
  std::span<const int64_t> indices;
  std::span<const int64_t> plain_indices;  // empty for COO
  std::span<const int64_t> values;
};
Status check_sparse_shape(const SparseShape& shape);
// `which` is kScales or kZeroPoints.
Status check_channels(Part which, std::span<const int64_t> part, std::span<const int64_t> sizes,
                      int64_t axis);
// Checks that there are at most 64 sizes, that none is negative, and that their product fits in 63
// bits unless one of them is 0.
Status check_sizes(std::span<const int64_t> sizes);

}  // namespace tenon::tensor
