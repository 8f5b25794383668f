#include "tensor/layout.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"

namespace tenon::tensor {
namespace {

Status overflow() { return invalid("sizes, strides and offset overflow 64 bits"); }

constexpr const char* kFit =
    "give a smaller shape or offset, a dtype of fewer bits, or a larger storage";

Status outside(uint64_t needed_nbytes, uint64_t storage_nbytes) {
  return invalid(format("the elements need %llu bytes, and the storage has %llu: %s",
                        as_llu(needed_nbytes), as_llu(storage_nbytes), kFit));
}

// The error for layouts whose last byte has an offset of more than 64 bits, or whose first element
// lies before the storage.
Status outside(uint64_t storage_nbytes) {
  return invalid(
      format("the elements leave the storage of %llu bytes: %s", as_llu(storage_nbytes), kFit));
}

Status negative(size_t dimension, int64_t size) {
  return invalid(format("the size of dimension %zu is %lld: give 0 or more", dimension,
                        static_cast<long long>(size)));
}

// This is also right for the lowest int64_t, whose negative does not fit into an int64_t.
uint64_t magnitude(int64_t value) noexcept {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// The distance, in elements, that a layout reaches below and above the element with index 0, 0, …
struct Extent {
  uint64_t below = 0;
  uint64_t above = 0;
};

bool compute_extent(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                    Extent* out) noexcept {
  for (size_t i = 0; i < sizes.size(); ++i) {
    uint64_t distance = 0;
    if (!checked_mul(static_cast<uint64_t>(sizes[i]) - 1, magnitude(strides[i]), &distance))
      return false;
    uint64_t* side = strides[i] < 0 ? &out->below : &out->above;
    if (!checked_add(*side, distance, side)) return false;
  }
  return true;
}

// The product of the sizes, at most INT64_MAX. Strides may be 0, so no storage limits it. But
// callers get counts as int64_t too (DLPack, Python).
Result<uint64_t> checked_count(std::span<const int64_t> sizes) {
  bool has_elements = true;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return negative(i, sizes[i]);
    if (sizes[i] == 0) has_elements = false;
  }
  if (!has_elements) return uint64_t{0};
  uint64_t count = 1;
  for (const int64_t size : sizes) {
    if (!checked_mul(count, static_cast<uint64_t>(size), &count)) return overflow();
  }
  if (count > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return overflow();
  return count;
}

}  // namespace

Result<uint64_t> packed_nbytes(DType dtype, std::span<const int64_t> sizes) {
  TENON_TRY(check_dtype(dtype));
  TENON_ASSIGN(const uint64_t count, checked_count(sizes));
  uint64_t bits = 0;
  if (!checked_mul(count, uint64_t{dtype.element_bits()}, &bits)) {
    // If the number of bits overflows, the number of bytes may still fit. For elements that are no
    // whole bytes this is refused, as in check_layout().
    const uint64_t nbytes = dtype.element_bits() / 8;
    if (dtype.element_bits() % 8 != 0 || !checked_mul(count, nbytes, &bits) ||
        bits > uint64_t{INT64_MAX})
      return overflow();
    return bits;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

Status check_layout(const Layout& layout, uint64_t storage_nbytes) {
  TENON_TRY(check_dtype(layout.dtype));
  const std::span<const int64_t> sizes = layout.sizes;
  if (sizes.size() > static_cast<size_t>(kMaxNdim))
    return invalid(format("%zu dimensions are more than %d", sizes.size(), kMaxNdim));
  if (layout.strides.size() != sizes.size())
    return invalid(format("%zu strides for %zu sizes", layout.strides.size(), sizes.size()));
  TENON_ASSIGN(const uint64_t count, checked_count(sizes));
  const bool has_elements = count > 0;

  const uint64_t bits = layout.dtype.element_bits();
  if (bits % 8 != 0) {
    if (!is_contiguous(sizes, layout.strides)) {
      return invalid(format("elements of %llu bits must be contiguous",
                            static_cast<unsigned long long>(bits)));
    }
    uint64_t first_bit = 0;
    uint64_t end = 0;
    uint64_t end_bit = 0;
    if (!checked_mul(layout.offset, bits, &first_bit)) return overflow();
    if (first_bit % 8 != 0)
      return invalid("a tensor of elements that are no whole bytes must begin on a byte");
    if (!checked_add(layout.offset, count, &end) || !checked_mul(end, bits, &end_bit))
      return overflow();
    const uint64_t end_nbytes = end_bit / 8 + (end_bit % 8 != 0 ? 1 : 0);
    return end_nbytes <= storage_nbytes ? Status::ok() : outside(end_nbytes, storage_nbytes);
  }

  // The number of whole elements that fit. A comparison with this number needs no multiplication,
  // which could overflow.
  const uint64_t room = storage_nbytes / (bits / 8);
  if (!has_elements) return layout.offset <= room ? Status::ok() : outside(storage_nbytes);
  Extent extent;
  uint64_t last = 0;
  if (!compute_extent(sizes, layout.strides, &extent) ||
      !checked_add(layout.offset, extent.above, &last))
    return overflow();
  if (extent.below <= layout.offset && last < room) return Status::ok();
  uint64_t end = 0;
  uint64_t end_nbytes = 0;
  const bool has_end =
      checked_add(last, uint64_t{1}, &end) && checked_mul(end, bits / 8, &end_nbytes);
  return last >= room && has_end ? outside(end_nbytes, storage_nbytes) : outside(storage_nbytes);
}

Result<std::vector<int64_t>> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  TENON_TRY(write_contiguous_strides(sizes, strides.data()));
  return strides;
}

Status write_contiguous_strides(std::span<const int64_t> sizes, int64_t* strides) {
  int64_t next = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    if (sizes[i - 1] < 0) return negative(i - 1, sizes[i - 1]);
    strides[i - 1] = next;
    // A size of 0 counts as 1, as in PyTorch, so that strides are meaningful without elements.
    if (i > 1 && !checked_mul(next, std::max<int64_t>(sizes[i - 1], 1), &next)) return overflow();
  }
  return Status::ok();
}

uint64_t element_count(std::span<const int64_t> sizes) noexcept {
  uint64_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
  return count;
}

bool is_contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides) noexcept {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  uint64_t expected = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    const int64_t size = sizes[i - 1];
    if (size == 1) continue;
    if (strides[i - 1] < 0 || static_cast<uint64_t>(strides[i - 1]) != expected) return false;
    if (!checked_mul(expected, static_cast<uint64_t>(size), &expected)) return false;
  }
  return true;
}

std::string dims_text(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += format(i == 0 ? "%lld" : ", %lld", static_cast<long long>(dims[i]));
  return text + "]";
}

}  // namespace tenon::tensor
