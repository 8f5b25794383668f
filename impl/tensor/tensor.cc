#include "tensor/tensor.h"

#include <algorithm>

namespace tenon::tensor {

Ref<Tensor> Tensor::create_checked(Ref<Storage> storage, const Layout& layout, uint32_t flags) {
  auto tensor = Ref<Tensor>::adopt(new Tensor());
  const size_t ndim = layout.sizes.size();
  int64_t* dims = tensor->few_dims_;
  if (2 * ndim > std::size(tensor->few_dims_)) {
    tensor->many_dims_ = std::make_unique<int64_t[]>(2 * ndim);
    dims = tensor->many_dims_.get();
  }
  std::copy(layout.sizes.begin(), layout.sizes.end(), dims);
  std::copy(layout.strides.begin(), layout.strides.end(), dims + ndim);
  tensor->ndim_ = static_cast<uint32_t>(ndim);
  tensor->dtype_ = layout.dtype;
  tensor->offset_ = layout.offset;
  tensor->flags_ = flags;
  tensor->storage_ = std::move(storage);
  return tensor;
}

Result<Ref<Tensor>> Tensor::create(Ref<Storage> storage, const Layout& layout, uint32_t flags) {
  if ((flags & ~kTensorFlags) != 0) return Status(Code::kUnsupported, format("tensor flags 0x%x are not known", flags & ~kTensorFlags));
  TENON_TRY(check_layout(layout, storage->nbytes()));
  return create_checked(std::move(storage), layout, flags);
}

const std::byte* Tensor::data() const noexcept {
  const std::byte* base = storage_->data();
  return base == nullptr ? nullptr : base + offset_nbytes();
}

}  // namespace tenon::tensor
