#include "tensor/view_layout.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace tenon::tensor {
namespace {

Status view_overflow() { return invalid("the sizes, strides and offset of the view overflow"); }

Status too_many_dimensions(size_t ndim) {
  return invalid(format("a view of %zu dimensions is asked for: %d are the most", ndim, kMaxNdim));
}

Status does_not_fit(uint64_t count, std::span<const int64_t> wanted) {
  return invalid(
      format("%llu elements do not fit the shape %s", as_llu(count), dims_text(wanted).c_str()));
}

// The product of two strides and sizes of a layout. An overflow means that no element lies that far
// away, so that any stride is right: the result is `otherwise`.
int64_t product_or(int64_t a, int64_t b, int64_t otherwise) noexcept {
  int64_t product = 0;
  return checked_mul(a, b, &product) ? product : otherwise;
}

// Replaces the -1 in `sizes`, which are the sizes wanted for `count` elements, and checks that the
// sizes have that many elements.
Status resolve_sizes(uint64_t count, std::span<int64_t> sizes) {
  int64_t* open = nullptr;
  uint64_t known = 1;
  bool fits = true;
  bool has_zero = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && open == nullptr) {
      open = &sizes[i];
    } else if (sizes[i] < 0) {
      return invalid(format("the size of dimension %zu is %lld: give 0 or more, or -1 for one size",
                            i, static_cast<long long>(sizes[i])));
    } else if (sizes[i] == 0) {
      has_zero = true;
    } else {
      fits = fits && checked_mul(known, static_cast<uint64_t>(sizes[i]), &known);
    }
  }
  if (has_zero && open != nullptr) {
    return invalid(
        format("any size fits in place of the -1 in the shape %s, because another size "
               "is 0: give that size",
               dims_text(sizes).c_str()));
  }
  if (has_zero) return count == 0 ? Status::ok() : does_not_fit(count, sizes);
  if (open == nullptr) return fits && known == count ? Status::ok() : does_not_fit(count, sizes);
  if (!fits || count % known != 0) return does_not_fit(count, sizes);
  *open = static_cast<int64_t>(count / known);
  return Status::ok();
}

// Neighbouring dimensions whose elements have one distance, as if they were one dimension.
struct Run {
  uint64_t count;
  int64_t stride;
};

// The runs of a layout that has elements, the outermost first. Returns how many there are.
size_t runs_of(const Layout& from, std::array<Run, kMaxNdim>* out) noexcept {
  size_t n = 0;
  for (size_t i = 0; i < from.sizes.size(); ++i) {
    const int64_t size = from.sizes[i];
    const int64_t stride = from.strides[i];
    if (size == 1) continue;
    int64_t reach = 0;
    if (n > 0 && checked_mul(stride, size, &reach) && (*out)[n - 1].stride == reach) {
      (*out)[n - 1] = {(*out)[n - 1].count * static_cast<uint64_t>(size), stride};
    } else {
      (*out)[n++] = {static_cast<uint64_t>(size), stride};
    }
  }
  return n;
}

// Writes the strides that the elements of `from` have in the shape `sizes`. Both have the same
// number of elements, which is not 0. Returns false if no strides are right.
bool strides_in_shape(const Layout& from, std::span<const int64_t> sizes, int64_t* strides) {
  std::array<Run, kMaxNdim> runs;
  size_t n = runs_of(from, &runs);
  uint64_t left = 1;
  int64_t step = 1;
  for (size_t i = sizes.size(); i > 0; --i) {
    const auto size = static_cast<uint64_t>(sizes[i - 1]);
    if (size > 1 && left == 1) {
      left = runs[--n].count;
      step = runs[n].stride;
    }
    if (left % size != 0) return false;
    strides[i - 1] = step;
    step = product_or(step, sizes[i - 1], step);
    left /= size;
  }
  return true;
}

// The first index that a slice picks in a dimension, and how many it picks.
struct Picked {
  int64_t first;
  int64_t count;
};

// Python's rule: a negative bound counts from the end, and a bound beyond an end means that end.
Picked pick_slice(const IndexItem& item, int64_t size) noexcept {
  const bool backwards = item.step < 0;
  const int64_t lowest = backwards ? -1 : 0;
  const int64_t highest = backwards ? size - 1 : size;
  const auto bound = [&](int64_t value) {
    // The sum cannot overflow, because the two have different signs.
    return std::clamp(value < 0 ? value + size : value, lowest, std::max(lowest, highest));
  };
  const int64_t start = bound(item.start);
  const int64_t stop = bound(item.stop);
  const int64_t distance = backwards ? start - stop : stop - start;
  if (distance <= 0) return {start, 0};
  // The magnitude is right for the lowest int64_t too.
  const uint64_t step =
      backwards ? uint64_t{0} - static_cast<uint64_t>(item.step) : static_cast<uint64_t>(item.step);
  return {start, static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / step + 1)};
}

Status wrong_item(size_t item, std::string message) {
  return invalid(std::move(message)).with("item", static_cast<uint64_t>(item));
}

// Checks the number of items against the dimensions of the tensor and of the view. Writes how many
// dimensions an ellipsis stands for.
Status count_items(std::span<const IndexItem> items, size_t ndim, size_t* skipped) {
  size_t taken = 0;
  size_t added = 0;
  bool has_ellipsis = false;
  for (size_t i = 0; i < items.size(); ++i) {
    switch (items[i].kind) {
      case IndexItem::Kind::kSlice:
        if (items[i].step == 0)
          return wrong_item(i, format("item %zu of the index is a slice of step 0", i));
        ++added;
        [[fallthrough]];
      case IndexItem::Kind::kNumber:
        if (++taken > ndim) {
          return wrong_item(
              i, format("the index has an item for dimension %zu, and the tensor has %zu "
                        "dimensions",
                        taken - 1, ndim));
        }
        break;
      case IndexItem::Kind::kNewAxis: ++added; break;
      case IndexItem::Kind::kEllipsis:
        if (has_ellipsis) return wrong_item(i, "the index has more than one ellipsis");
        has_ellipsis = true;
        break;
    }
  }
  *skipped = ndim - taken;
  const size_t view_ndim = *skipped + added;
  return view_ndim <= size_t{kMaxNdim} ? Status::ok() : too_many_dimensions(view_ndim);
}

}  // namespace

Status reshape_layout(const Layout& from, std::span<const int64_t> wanted, ViewLayout* out) {
  if (wanted.size() > size_t{kMaxNdim}) return too_many_dimensions(wanted.size());
  out->dtype = from.dtype;
  out->offset = from.offset;
  out->ndim = wanted.size();
  std::copy(wanted.begin(), wanted.end(), out->sizes.begin());
  const std::span<int64_t> sizes(out->sizes.data(), out->ndim);
  TENON_TRY(resolve_sizes(element_count(from.sizes), sizes));
  if (is_contiguous(from.sizes, from.strides))
    return write_contiguous_strides(sizes, out->strides.data());
  if (strides_in_shape(from, sizes, out->strides.data())) return Status::ok();
  return invalid(format(
      "a tensor of shape %s and strides %s cannot have the shape %s without a "
      "copy: copy it, and reshape the copy",
      dims_text(from.sizes).c_str(), dims_text(from.strides).c_str(), dims_text(sizes).c_str()));
}

Status dtype_layout(const Layout& from, DType dtype, ViewLayout* out) {
  TENON_TRY(check_dtype(dtype));
  out->dtype = dtype;
  out->offset = from.offset;
  out->ndim = from.sizes.size();
  std::copy(from.sizes.begin(), from.sizes.end(), out->sizes.begin());
  std::copy(from.strides.begin(), from.strides.end(), out->strides.begin());
  const uint64_t old_bits = from.dtype.element_bits();
  const uint64_t bits = dtype.element_bits();
  if (bits == old_bits) return Status::ok();
  if (!is_contiguous(from.sizes, from.strides))
    return invalid("a tensor that is not contiguous cannot be read as a dtype of another size");
  if (out->ndim == 0)
    return invalid("a tensor without dimensions cannot be read as a dtype of another size");
  const auto convert = [&](const char* what, uint64_t old_count, uint64_t* count) -> Status {
    uint64_t total = 0;
    if (!checked_mul(old_count, old_bits, &total)) return view_overflow();
    *count = total / bits;
    if (*count > uint64_t{INT64_MAX}) return view_overflow();
    if (total % bits == 0) return Status::ok();
    return invalid(format("%s, %llu of %s, is no whole number of elements of %s", what,
                          as_llu(old_count), dtype_name(from.dtype).text, dtype_name(dtype).text));
  };
  uint64_t last = 0;
  TENON_TRY(convert("the offset", from.offset, &out->offset));
  TENON_TRY(convert("the last dimension", static_cast<uint64_t>(from.sizes.back()), &last));
  out->sizes[out->ndim - 1] = static_cast<int64_t>(last);
  return write_contiguous_strides({out->sizes.data(), out->ndim}, out->strides.data());
}

Status index_layout(const Layout& from, std::span<const IndexItem> items, ViewLayout* out) {
  size_t skipped = 0;
  TENON_TRY(count_items(items, from.sizes.size(), &skipped));
  out->dtype = from.dtype;
  out->ndim = 0;
  out->offset = from.offset;
  size_t dimension = 0;
  bool is_empty = false;
  bool overflows = false;
  int64_t distance = 0;  // from the element with index 0, 0, … to the first one of the view
  const auto add = [&](int64_t size, int64_t stride) {
    out->sizes[out->ndim] = size;
    out->strides[out->ndim++] = stride;
    is_empty = is_empty || size == 0;
  };
  const auto keep = [&](size_t count) {
    for (; count > 0; --count, ++dimension) add(from.sizes[dimension], from.strides[dimension]);
  };
  const auto advance = [&](int64_t first) {
    int64_t way = 0;
    overflows = overflows || !checked_mul(first, from.strides[dimension], &way) ||
                !checked_add(distance, way, &distance);
    ++dimension;
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const IndexItem& item = items[i];
    switch (item.kind) {
      case IndexItem::Kind::kNumber: {
        const int64_t size = from.sizes[dimension];
        if (item.start < -size || item.start >= size) {
          return wrong_item(i, format("index %lld is outside dimension %zu of size %lld",
                                      static_cast<long long>(item.start), dimension,
                                      static_cast<long long>(size)))
              .with("dimension", static_cast<uint64_t>(dimension))
              .with("size", size);
        }
        advance(item.start < 0 ? item.start + size : item.start);
        break;
      }
      case IndexItem::Kind::kSlice: {
        const Picked picked = pick_slice(item, from.sizes[dimension]);
        const int64_t stride = from.strides[dimension];
        add(picked.count, product_or(stride, item.step, stride));
        advance(picked.first);
        break;
      }
      case IndexItem::Kind::kNewAxis: add(1, 0); break;
      case IndexItem::Kind::kEllipsis: keep(skipped); break;
    }
  }
  keep(from.sizes.size() - dimension);
  // A view without elements begins where the tensor does, because the place of its first element
  // may lie outside of the storage.
  if (is_empty) return Status::ok();
  if (overflows) return view_overflow();
  out->offset += static_cast<uint64_t>(distance);
  const uint64_t bits = from.dtype.element_bits();
  uint64_t first_bit = 0;
  if (bits % 8 == 0) return Status::ok();
  if (!checked_mul(out->offset, bits, &first_bit)) return view_overflow();
  if (first_bit % 8 == 0) return Status::ok();
  return invalid(
      format("element %llu of %s begins inside a byte, and a tensor begins on one: read "
             "single elements through the tensor that has them all",
             as_llu(out->offset), dtype_name(from.dtype).text));
}

}  // namespace tenon::tensor
