// The rules that tie the parts of a composite together, as far as their shapes go. For tensors in
// messages and in archives alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tenon::tensor {

// The numbers are those of TENON_TENSOR_LAYOUT_* and of the descriptor: PyTorch's, and from 64 on
// Tenon's own.
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
// "sparse_coo"; null for a number that is none of these.
const char* tensor_layout_name(TensorLayout layout) noexcept;
bool is_sparse(TensorLayout layout) noexcept;

// How quantised elements stand for numbers. TENON_QUANTIZER_*.
enum class QScheme : uint8_t {
  kNone = 0,
  kPerTensorAffine = 1,
  kPerChannelAffine = 2,
  kPerChannelAffineFloatQParams = 3,
};

// TENON_COALESCED_*.
enum class Coalesced : uint8_t { kUnknown = 0, kNo = 1, kYes = 2 };

enum class Part : uint8_t {
  kValues,   // of all that have parts
  kIndices,  // COO: sparse dimensions by elements. Else compressed: rows of CSR and BSR, columns of
             // CSC and BSC
  kPlainIndices,  // the other ones of CSR, CSC, BSR and BSC
  kOffsets,  // jagged: where each component begins and the last one ends. Nested: where each begins
  kLengths,  // jagged, if components have gaps between them
  kComponentSizes,    // nested: components by dimensions
  kComponentStrides,  // likewise
  kScales,            // quantised per channel
  kZeroPoints,        // likewise
};
// "plain indices", for messages, and "plain_indices", for programs.
const char* part_name(Part part) noexcept;
const char* part_key(Part part) noexcept;

inline constexpr size_t kMaxParts = 4;
// The parts of a layout, in the order in which messages carry them. The last one of a jagged tensor
// may be missing.
std::span<const Part> parts_of(TensorLayout layout, QScheme quantizer) noexcept;

struct PartShape {
  DType dtype;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};

// A composite without its storages.
struct CompositeShape {
  TensorLayout layout = TensorLayout::kStrided;
  Coalesced coalesced = Coalesced::kUnknown;
  QScheme quantizer = QScheme::kNone;
  uint32_t flags = 0;
  int32_t dim = 0;
  double scale = 0;
  int64_t zero_point = 0;
  uint64_t offset = 0;
  DType dtype;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  std::span<const PartShape> parts;
};

// INVALID_ARGUMENT, with the detail `part` where a part is to blame; UNSUPPORTED for unknown flags.
// What a layout does not use must be 0.
Status check_composite(const CompositeShape& shape);

// What is known of the sizes of a nested, jagged or quantised tensor from its parts; -1 where
// components may differ. `shape` was checked.
std::vector<int64_t> sizes_from_parts(const CompositeShape& shape);

// The same rules for whoever keeps the parts otherwise.
struct SparseShape {
  TensorLayout layout = TensorLayout::kSparseCoo;
  std::span<const int64_t> sizes;
  std::span<const int64_t> indices;
  std::span<const int64_t> plain_indices;  // not of COO
  std::span<const int64_t> values;
};
Status check_sparse_shape(const SparseShape& shape);
// `which` is kScales or kZeroPoints.
Status check_channels(Part which, std::span<const int64_t> part, std::span<const int64_t> sizes,
                      int64_t axis);
// Not negative, not more than 64 of them, and their product fits in 63 bits unless one of them is
// 0.
Status check_sizes(std::span<const int64_t> sizes);

// "[2, 3]", for messages.
std::string dims_text(std::span<const int64_t> dims);

}  // namespace tenon::tensor
