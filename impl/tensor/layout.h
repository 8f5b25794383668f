// Checks sizes, strides and offset of a tensor against the bytes of its storage, and computes
// strides and sizes in bytes. Tensors, descriptors and module archives use these functions. All
// arithmetic is checked for overflow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace tenon::tensor {

inline constexpr int kMaxNdim = 64;

struct Layout {
  DType dtype;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;  // one for each size
  uint64_t offset = 0;               // in elements
};

// Checks that every element of the layout lies inside [0, storage_nbytes). A tensor without
// elements only needs offset * element size <= storage_nbytes. A tensor whose elements are no whole
// bytes must be contiguous and begin on a byte. Otherwise INVALID_ARGUMENT.
Status check_layout(const Layout& layout, uint64_t storage_nbytes);

// The bytes that a storage needs to hold the elements packed. INVALID_ARGUMENT for an unknown type,
// a negative size, and more than INT64_MAX bytes.
Result<uint64_t> packed_nbytes(DType dtype, std::span<const int64_t> sizes);

// The strides of a packed tensor, whose last dimension varies fastest. INVALID_ARGUMENT if a size
// is negative or a stride overflows. The second form writes one stride for each size.
Result<std::vector<int64_t>> contiguous_strides(std::span<const int64_t> sizes);
Status write_contiguous_strides(std::span<const int64_t> sizes, int64_t* strides);

// The product of the sizes. Call this after check_layout(), which proves that the product fits.
uint64_t element_count(std::span<const int64_t> sizes) noexcept;

// Whether the elements are packed and the last dimension varies fastest. Dimensions of size 1 may
// have any stride, and so may a tensor without elements.
bool is_contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides) noexcept;

// Sizes or strides as text for error messages, such as "[2, 3]".
std::string dims_text(std::span<const int64_t> dims);

}  // namespace tenon::tensor
