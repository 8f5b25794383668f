#include "modules/weights/element_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "modules/weights/patched_file.h"
#include "os/limits.h"
#include "tensor/scalar_type.h"

namespace tenon::weights {

using value::TensorValue;

namespace {

// The number of elements from the first to the last one in the storage, both included. A
// TensorValue's layout does not overflow.
uint64_t extent_of(const TensorValue& tensor) noexcept {
  uint64_t last = 0;
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    if (tensor.sizes()[i] == 0) return 0;
    last +=
        static_cast<uint64_t>(tensor.sizes()[i] - 1) * static_cast<uint64_t>(tensor.strides()[i]);
  }
  return last + 1;
}

}  // namespace

bool elements_overlap(const TensorValue& tensor) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < tensor.sizes().size(); ++i) {
    if (tensor.sizes()[i] > 1) dims.push_back(i);
  }
  std::ranges::sort(dims, {}, [&](size_t dim) { return tensor.strides()[dim]; });
  // Each stride must be larger than the distance that all smaller strides together can reach.
  uint64_t reach = 0;
  for (const size_t dim : dims) {
    const auto stride = static_cast<uint64_t>(tensor.strides()[dim]);
    if (stride <= reach) return true;
    reach += static_cast<uint64_t>(tensor.sizes()[dim] - 1) * stride;
  }
  return false;
}

bool fills(const TensorValue& tensor, uint64_t nbytes) noexcept {
  const uint64_t numel = tensor.numel();
  return tensor.offset() == 0 && extent_of(tensor) == numel &&
         numel * tensor::scalar_type_info(tensor.type()).nbytes == nbytes;
}

bool have_same_order(const TensorValue& one, const TensorValue& other) noexcept {
  for (size_t i = 0; i < one.sizes().size(); ++i) {
    if (one.sizes()[i] > 1 && one.strides()[i] != other.strides()[i]) return false;
  }
  return true;
}

Status copy_elements(const TensorValue& from, const TensorValue& to, std::byte* data) {
  const size_t size = tensor::scalar_type_info(from.type()).nbytes;
  std::vector<std::byte> elements;
  TENON_TRY(os::ask_headroom(extent_of(from) * size));
  elements.resize(extent_of(from) * size);
  const uint64_t begin =
      from.storage()->byte_offset() + static_cast<uint64_t>(from.offset()) * size;
  TENON_TRY(from.storage()->bytes()->read(begin, elements.data(), elements.size()));
  data += static_cast<size_t>(to.offset()) * size;
  const std::span<const int64_t> sizes = from.sizes();
  std::vector<int64_t> index(sizes.size());
  size_t source = 0;
  size_t target = 0;
  for (uint64_t left = from.numel(); left != 0; --left) {
    std::memcpy(data + target * size, elements.data() + source * size, size);
    // Goes to the next index. The last dimension changes fastest.
    for (size_t dim = sizes.size(); dim-- > 0;) {
      const auto source_stride = static_cast<size_t>(from.strides()[dim]);
      const auto target_stride = static_cast<size_t>(to.strides()[dim]);
      source += source_stride;
      target += target_stride;
      if (++index[dim] < sizes[dim]) break;
      source -= source_stride * static_cast<size_t>(sizes[dim]);
      target -= target_stride * static_cast<size_t>(sizes[dim]);
      index[dim] = 0;
    }
  }
  return Status::ok();
}

}  // namespace tenon::weights
