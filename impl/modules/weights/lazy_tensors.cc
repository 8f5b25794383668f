#include "modules/weights/lazy_tensors.h"

#include <utility>

#include "modules/module/import_storages.h"
#include "tensor/layout.h"

namespace tenon::weights {

using value::StorageValue;
using value::TensorValue;
using value::TensorValueRef;

void LazyTensors::set(size_t record, tensor::ScalarType type, std::span<const int64_t> sizes) {
  shapes_[record] = {sizes_.size(), static_cast<uint32_t>(sizes.size()), type, true};
  sizes_.insert(sizes_.end(), sizes.begin(), sizes.end());
}

Result<TensorValueRef> LazyTensors::make(size_t record) const {
  const Shape& shape = shapes_[record];
  const archive::ZipRecord& bytes = reader_->records()[record];
  value::StridedSpec spec;
  const std::span<const int64_t> sizes = std::span(sizes_).subspan(shape.first_size, shape.dims);
  spec.sizes.assign(sizes.begin(), sizes.end());
  TENON_ASSIGN(spec.strides, tensor::contiguous_strides(spec.sizes));
  TENON_ASSIGN(Ref<storage::Storage> view, module::view_of(*reader_, bytes));
  TENON_ASSIGN(spec.storage, StorageValue::whole(shape.type, std::move(view)));
  return TensorValue::create(spec);
}

Result<TensorValueRef> LazyTensors::get(size_t record) const {
  std::atomic<const TensorValue*>& made = made_[record];
  // acquire pairs with the exchange of the thread that made the tensor.
  if (const TensorValue* const known = made.load(std::memory_order_acquire))
    return TensorValueRef::share(known);
  TENON_ASSIGN(TensorValueRef own, make(record));
  const TensorValue* known = nullptr;
  // If another thread was faster, its tensor stays, or a weight would have two storages.
  if (!made.compare_exchange_strong(known, own.get(), std::memory_order_acq_rel,
                                    std::memory_order_acquire))
    return TensorValueRef::share(known);
  own->retain();
  return own;
}

void LazyTensors::dispose() noexcept {
  for (std::atomic<const TensorValue*>& each : made_) {
    if (const TensorValue* const made = each.load(std::memory_order_acquire)) made->release();
  }
  reader_ = nullptr;
}

}  // namespace tenon::weights
