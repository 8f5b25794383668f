// Sizes, strides and offset against the bytes they claim. All arithmetic is checked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tenon::tensor {

inline constexpr int kMaxNdim = 64;

struct Layout {
  DType dtype;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;  // as many as sizes
  uint64_t offset = 0;               // elements
};

// Every element that the layout names lies inside [0, storage_nbytes). A tensor without elements
// needs offset * size <= storage_nbytes only. Elements under 8 bits must be contiguous and begin on
// a byte.
Status check_layout(const Layout& layout, uint64_t storage_nbytes);

// What a storage needs to hold the elements packed. INVALID_ARGUMENT for an unknown type, a
// negative size, and more than INT64_MAX bytes.
Result<uint64_t> packed_nbytes(DType dtype, std::span<const int64_t> sizes);

// Last dimension fastest; fails if they overflow.
Result<std::vector<int64_t>> contiguous_strides(std::span<const int64_t> sizes);

// The product of the sizes. Call after check_layout, which proves that it fits.
uint64_t element_count(std::span<const int64_t> sizes) noexcept;

// Packed, last dimension fastest; dimensions of size 1 may have any stride, and so may a tensor
// without elements.
bool is_contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides) noexcept;

}  // namespace tenon::tensor
