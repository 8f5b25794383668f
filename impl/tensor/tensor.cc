#include "tensor/tensor.h"

#include <algorithm>

namespace tenon::tensor {

static_assert(kTensorFlags <= UINT16_MAX && kMaxNdim <= UINT16_MAX);

Tensor::Tensor(size_t ndim) : ndim_(static_cast<uint16_t>(ndim)) {
  if (ndim > kFewDims) {
    many_dims_ = new int64_t[2 * ndim];
  } else {
    few_dims_ = {};
  }
}

Tensor::~Tensor() {
  if (ndim_ > kFewDims) delete[] many_dims_;
}

Ref<Tensor> Tensor::create_checked(Ref<Storage> storage, const Layout& layout, uint32_t flags) {
  const size_t ndim = layout.sizes.size();
  auto tensor = Ref<Tensor>::adopt(new Tensor(ndim));
  std::copy(layout.sizes.begin(), layout.sizes.end(), tensor->dims());
  std::copy(layout.strides.begin(), layout.strides.end(), tensor->dims() + ndim);
  tensor->dtype_ = layout.dtype;
  tensor->offset_ = layout.offset;
  tensor->flags_ = static_cast<uint16_t>(flags);
  tensor->storage_ = std::move(storage);
  return tensor;
}

Result<Ref<Tensor>> Tensor::create(Ref<Storage> storage, const Layout& layout, uint32_t flags) {
  if ((flags & ~kTensorFlags) != 0)
    return Status(Code::kUnsupported,
                  format("tensor flags 0x%x are not known", flags & ~kTensorFlags));
  TENON_TRY(check_layout(layout, storage->nbytes()));
  return create_checked(std::move(storage), layout, flags);
}

const std::byte* Tensor::data() const noexcept {
  const std::byte* base = storage_->data();
  return base == nullptr ? nullptr : base + offset_nbytes();
}

}  // namespace tenon::tensor
