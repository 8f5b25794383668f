// Computes the layouts of views: the same elements in another shape, the same bytes as another
// element type, and the part that an index picks. The C API calls these functions for the wrappers
// of all languages. All arithmetic is checked for overflow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

namespace tenon::tensor {

// The layout of a view. It has room for every tensor, so that a view needs no allocation for it.
// Only the first ndim sizes and strides are initialised.
struct ViewLayout {
  DType dtype;
  size_t ndim = 0;
  uint64_t offset = 0;
  std::array<int64_t, kMaxNdim> sizes;
  std::array<int64_t, kMaxNdim> strides;

  Layout layout() const noexcept {
    return {dtype, {sizes.data(), ndim}, {strides.data(), ndim}, offset};
  }
};

// One item of an index, as numpy has them: TENON_INDEX_* and the numbers of a tenon_index. A caller
// has room for many items and fills in few, so the fields have no defaults.
struct IndexItem {
  enum class Kind { kNumber, kSlice, kNewAxis, kEllipsis };
  Kind kind;
  int64_t start;  // of a number: the index itself
  int64_t stop;
  int64_t step;
};

// Each function takes the layout of an existing tensor, which check_layout() has accepted, and
// fills in `out`, which may hold anything after a failure. The failures are INVALID_ARGUMENT. The
// caller checks the result with check_layout(), which has the rules for elements that are no whole
// bytes.

// The same elements with the sizes `wanted`. One of these may be -1, which stands for the size that
// the number of elements leaves. Fails if the strides do not allow that without a copy.
Status reshape_layout(const Layout& from, std::span<const int64_t> wanted, ViewLayout* out);

// The same bytes as elements of another type. If the types have different numbers of bits, the last
// dimension takes up the difference, so the tensor must have one, and must be contiguous.
Status dtype_layout(const Layout& from, DType dtype, ViewLayout* out);

// The part that an index picks. An error about one of the items has the detail "item", its place in
// `items`. An error about an index outside of its dimension has "dimension" and "size" too.
Status index_layout(const Layout& from, std::span<const IndexItem> items, ViewLayout* out);

}  // namespace tenon::tensor
