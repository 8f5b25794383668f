// Implements check_contents() (composite.h), which checks the numbers in the parts of a composite.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/composite.h"
#include "tensor/layout.h"

namespace tenon::tensor {
namespace {

Status wrong_number(Part part, size_t at, std::string message) {
  return Status(Code::kCorrupt, format("the %s at %zu: %s", part_name(part), at, message.c_str()))
      .with("part", std::string(part_key(part)))
      .with("index", static_cast<uint64_t>(at));
}

template <typename Int>
Status check_inside(std::span<const Int> numbers, int64_t size, Part part) {
  // As unsigned numbers, negative numbers are large. One pass without a branch for each number is
  // several times as fast.
  using Unsigned = std::make_unsigned_t<Int>;
  const auto end = static_cast<uint64_t>(size);
  Unsigned largest = 0;
  for (const Int number : numbers) largest = std::max(largest, static_cast<Unsigned>(number));
  if (numbers.empty() || largest < end) return Status::ok();
  const auto found = std::ranges::find_if(
      numbers, [end](Int number) { return static_cast<Unsigned>(number) >= end; });
  return wrong_number(part, static_cast<size_t>(found - numbers.begin()),
                      format("%lld is outside the size %lld", static_cast<long long>(*found),
                             static_cast<long long>(size)));
}

// The numbers of an index part, contiguous, and in memory that no other process can change.
struct Numbers {
  Ref<Tensor> tensor;
  size_t count = 0;

  template <typename Int>
  std::span<const Int> as() const noexcept {
    return {reinterpret_cast<const Int*>(tensor->data()), count};
  }
};

// Copies the elements row by row, whatever the strides are.
template <typename Int>
void copy_elements(const Tensor& from, Int* target) noexcept {
  const std::byte* const base = from.data();
  const size_t ndim = from.sizes().size();
  std::array<int64_t, kMaxNdim> at{};
  int64_t offset = 0;
  for (uint64_t left = from.numel(); left > 0; --left) {
    std::memcpy(target++, base + offset * static_cast<int64_t>(sizeof(Int)), sizeof(Int));
    for (size_t i = ndim; i-- > 0;) {
      offset += from.strides()[i];
      if (++at[i] < from.sizes()[i]) break;
      offset -= from.strides()[i] * from.sizes()[i];
      at[i] = 0;
    }
  }
}

Result<Numbers> settle(Part part, Ref<Tensor> tensor) {
  TENON_TRY(tensor->storage()->check_lender());
  if (tensor->storage()->device_memory() != nullptr) {
    return Status(Code::kUnsupported, format("the %s are on a device, where the host cannot read "
                                             "them: copy them to the host, or use the "
                                             "tensor without this check if you trust its sender",
                                             part_name(part)))
        .with("part", std::string(part_key(part)));
  }
  const auto count = static_cast<size_t>(tensor->numel());
  const bool contiguous = is_contiguous(tensor->sizes(), tensor->strides());
  const bool aligned =
      reinterpret_cast<uintptr_t>(tensor->data()) % (tensor->dtype().bits / 8) == 0;
  if (contiguous && aligned && !tensor->storage()->is_writable_elsewhere())
    return Numbers{std::move(tensor), count};
  TENON_ASSIGN(Ref<Storage> copy, Storage::create({.is_private = true}, tensor->nbytes()));
  TENON_ASSIGN(std::byte* const target, copy->data_mut());
  if (contiguous) {
    if (count > 0) std::memcpy(target, tensor->data(), tensor->nbytes());
  } else if (tensor->dtype().bits == 64) {
    copy_elements(*tensor, reinterpret_cast<int64_t*>(target));
  } else {
    copy_elements(*tensor, reinterpret_cast<int32_t*>(target));
  }
  TENON_ASSIGN(const std::vector<int64_t> strides, contiguous_strides(tensor->sizes()));
  return Numbers{
      Tensor::create_checked(std::move(copy), {tensor->dtype(), tensor->sizes(), strides, 0},
                             tensor->flags()),
      count};
}

template <typename Int>
Status check_coo_numbers(const CompositeSpec& spec, const Numbers& indices) {
  const auto sparse = static_cast<size_t>(indices.tensor->sizes()[0]);
  const auto nnz = static_cast<size_t>(indices.tensor->sizes()[1]);
  const std::span<const Int> all = indices.as<Int>();
  for (size_t dim = 0; dim < sparse; ++dim) {
    TENON_TRY(check_inside(all.subspan(dim * nnz, nnz), spec.sizes[dim], Part::kIndices));
  }
  if (spec.coalesced != Coalesced::kYes) return Status::ok();
  for (size_t i = 1; i < nnz; ++i) {
    size_t dim = 0;
    while (dim < sparse && all[dim * nnz + i] == all[dim * nnz + i - 1]) ++dim;
    if (dim < sparse && all[dim * nnz + i] > all[dim * nnz + i - 1]) continue;
    return wrong_number(Part::kIndices, i, "not after the one before, as in a coalesced tensor");
  }
  return Status::ok();
}

// Checks one matrix. `compressed` gives the beginning of each line's elements, and `plain` the
// column (or row) of each element.
template <typename Int>
Status check_lines(std::span<const Int> compressed, std::span<const Int> plain, int64_t plain_end,
                   size_t batch) {
  const auto nnz = static_cast<int64_t>(plain.size());
  const size_t first = batch * compressed.size();
  if (compressed.front() != 0) return wrong_number(Part::kIndices, first, "does not begin with 0");
  for (size_t line = 1; line < compressed.size(); ++line) {
    if (compressed[line] < compressed[line - 1] || int64_t{compressed[line]} > nnz) {
      return wrong_number(
          Part::kIndices, first + line,
          format("%lld is not from the one before to the number of elements, %lld",
                 static_cast<long long>(compressed[line]), static_cast<long long>(nnz)));
    }
  }
  if (compressed.back() != nnz) {
    return wrong_number(Part::kIndices, first + compressed.size() - 1,
                        format("is not the number of elements, %lld", static_cast<long long>(nnz)));
  }
  TENON_TRY(check_inside(plain, plain_end, Part::kPlainIndices));
  for (size_t line = 1; line < compressed.size(); ++line) {
    const auto begin = static_cast<size_t>(compressed[line - 1]);
    const auto end = static_cast<size_t>(compressed[line]);
    for (size_t i = begin + 1; i < end; ++i) {
      if (plain[i] <= plain[i - 1]) {
        return wrong_number(Part::kPlainIndices, batch * plain.size() + i,
                            "not after the one before in its line");
      }
    }
  }
  return Status::ok();
}

template <typename Int>
Status check_compressed_numbers(const CompositeSpec& spec, const Numbers& compressed,
                                const Numbers& plain) {
  const size_t batch_dims = compressed.tensor->sizes().size() - 1;
  const bool by_row =
      spec.layout == TensorLayout::kSparseCsr || spec.layout == TensorLayout::kSparseBsr;
  const bool blocks =
      spec.layout == TensorLayout::kSparseBsr || spec.layout == TensorLayout::kSparseBsc;
  const size_t plain_dim = by_row ? 1 : 0;
  int64_t plain_end = spec.sizes[batch_dims + plain_dim];
  if (blocks) plain_end /= spec.parts[0]->sizes()[batch_dims + 1 + plain_dim];
  const auto lines = static_cast<size_t>(compressed.tensor->sizes()[batch_dims]);
  const auto nnz = static_cast<size_t>(plain.tensor->sizes()[batch_dims]);
  const size_t batches = compressed.count / lines;  // `lines` is at least 1
  for (size_t i = 0; i < batches; ++i) {
    TENON_TRY(check_lines(compressed.as<Int>().subspan(i * lines, lines),
                          plain.as<Int>().subspan(i * nnz, nnz), plain_end, i));
  }
  return Status::ok();
}

template <typename Int>
Status check_jagged_numbers(const CompositeSpec& spec, const Numbers& offsets,
                            const Numbers* lengths) {
  const std::span<const Int> begins = offsets.as<Int>();
  const int64_t end = spec.parts[0]->sizes()[static_cast<size_t>(spec.dim) - 1];
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t least = i == 0 ? 0 : int64_t{begins[i - 1]};
    if (begins[i] >= least && begins[i] <= end) continue;
    return wrong_number(Part::kOffsets, i,
                        format("%lld is not from %lld to the size of the values, %lld",
                               static_cast<long long>(begins[i]), static_cast<long long>(least),
                               static_cast<long long>(end)));
  }
  if (lengths == nullptr) return Status::ok();
  for (size_t i = 0; i < lengths->count; ++i) {
    const int64_t length = lengths->as<Int>()[i];
    if (length >= 0 && length <= end - begins[i]) continue;
    return wrong_number(
        Part::kLengths, i,
        format("%lld is not from 0 to what is left of the values", static_cast<long long>(length)));
  }
  return Status::ok();
}

Status check_nested_numbers(const CompositeSpec& spec, const Numbers& sizes, const Numbers& strides,
                            const Numbers& offsets) {
  const auto ndim = static_cast<size_t>(sizes.tensor->sizes()[1]);
  for (size_t i = 0; i < offsets.count; ++i) {
    const int64_t offset = offsets.as<int64_t>()[i];
    if (offset < 0)
      return wrong_number(Part::kOffsets, i,
                          format("%lld is negative", static_cast<long long>(offset)));
    // The layout is checked as if the values were a storage of their own.
    const Layout layout{spec.parts[0]->dtype(), sizes.as<int64_t>().subspan(i * ndim, ndim),
                        strides.as<int64_t>().subspan(i * ndim, ndim),
                        static_cast<uint64_t>(offset)};
    const Status status = check_layout(layout, spec.parts[0]->nbytes());
    if (!status.is_ok()) return wrong_number(Part::kComponentSizes, i, status.message());
  }
  return Status::ok();
}

bool is_wide(const Numbers& numbers) noexcept { return numbers.tensor->dtype().bits == 64; }

Status check_numbers(const CompositeSpec& spec, std::span<const Numbers> numbers) {
  switch (spec.layout) {
    case TensorLayout::kSparseCoo:
      return is_wide(numbers[1]) ? check_coo_numbers<int64_t>(spec, numbers[1])
                                 : check_coo_numbers<int32_t>(spec, numbers[1]);
    case TensorLayout::kJagged: {
      const Numbers* const lengths = numbers.size() > 2 ? &numbers[2] : nullptr;
      return is_wide(numbers[1]) ? check_jagged_numbers<int64_t>(spec, numbers[1], lengths)
                                 : check_jagged_numbers<int32_t>(spec, numbers[1], lengths);
    }
    case TensorLayout::kNested:
      return check_nested_numbers(spec, numbers[1], numbers[2], numbers[3]);
    default:
      return is_wide(numbers[1]) ? check_compressed_numbers<int64_t>(spec, numbers[1], numbers[2])
                                 : check_compressed_numbers<int32_t>(spec, numbers[1], numbers[2]);
  }
}

}  // namespace

Result<Ref<Composite>> check_contents(Composite* composite) {
  const CompositeSpec& spec = composite->spec();
  if (spec.layout == TensorLayout::kMeta || spec.layout == TensorLayout::kQuantized)
    return Ref<Composite>::share(composite);
  const std::span<const Part> names = parts_of(spec.layout, spec.quantizer);
  std::vector<Numbers> numbers(spec.parts.size());
  bool same = true;
  for (size_t i = 1; i < spec.parts.size(); ++i) {
    TENON_ASSIGN(numbers[i], settle(names[i], spec.parts[i]));
    same = same && numbers[i].tensor.get() == spec.parts[i].get();
  }
  TENON_TRY(check_numbers(spec, numbers));
  if (same) return Ref<Composite>::share(composite);
  CompositeSpec checked = spec;
  for (size_t i = 1; i < checked.parts.size(); ++i) checked.parts[i] = numbers[i].tensor;
  checked.dtype = DType();
  if (!is_sparse(checked.layout)) checked.sizes.clear();
  return Composite::create(std::move(checked));
}

}  // namespace tenon::tensor
