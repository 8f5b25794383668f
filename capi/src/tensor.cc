#include <tenon/tensor.h>

#include <vector>

#include "boundary.h"
#include "handles.h"
#include "share/storage_at.h"
#include "tensor_view.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::storage::Storage;
using tenon::tensor::Layout;
using tenon::tensor::Tensor;

namespace tenon::capi {

tenon_tensor_view view_of(Tensor* tensor) noexcept {
  tenon_tensor_view view{};
  view.tensor = handle<tenon_tensor>(tensor);
  view.data = tensor->storage()->is_dropped() ? nullptr : tensor->data();
  view.data_mut = tensor->storage()->is_read_only() ? nullptr : const_cast<void*>(view.data);
  view.sizes = tensor->sizes().data();
  view.strides = tensor->strides().data();
  view.offset = tensor->offset();
  view.numel = tensor->numel();
  view.nbytes = tensor->nbytes();
  view.dtype = {tensor->dtype().code, tensor->dtype().bits, tensor->dtype().lanes};
  view.ndim = static_cast<int32_t>(tensor->sizes().size());
  view.flags = tensor->flags();
  view.is_contiguous = tenon::tensor::is_contiguous(tensor->sizes(), tensor->strides()) ? 1 : 0;
  view.device = {tensor->storage()->device().type, tensor->storage()->device().id};
  return view;
}

}  // namespace tenon::capi

extern "C" {

tenon_status tenon_tensor_new(tenon_storage* storage, const tenon_tensor_spec* spec,
                              tenon_tensor** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(storage != nullptr, "storage is NULL"));
    TENON_TRY(check_argument(spec != nullptr, "spec is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_tensor_spec given{};
    TENON_TRY(read_struct(spec, "tenon_tensor_spec", &given));
    TENON_TRY(check_flags(given.reserved, 0, "tenon_tensor_spec"));
    TENON_TRY(check_argument(given.ndim >= 0 && given.ndim <= TENON_TENSOR_MAX_NDIM,
                             "ndim is not from 0 to 64"));
    TENON_TRY(check_argument(given.ndim == 0 || given.sizes != nullptr, "sizes is NULL"));
    const auto ndim = static_cast<size_t>(given.ndim);
    Layout layout;
    layout.dtype = {given.dtype.code, given.dtype.bits, given.dtype.lanes};
    layout.sizes = {given.sizes, ndim};
    layout.offset = given.offset;
    std::vector<int64_t> packed;
    if (given.strides == nullptr) {
      TENON_ASSIGN(packed, tenon::tensor::contiguous_strides(layout.sizes));
      layout.strides = packed;
    } else {
      layout.strides = {given.strides, ndim};
    }
    TENON_ASSIGN(Ref<Tensor> tensor,
                 Tensor::create(Ref<Storage>::share(object(storage)), layout, given.flags));
    *out = handle<tenon_tensor>(tensor.detach());
    return Status::ok();
  });
}

tenon_tensor* tenon_tensor_retain(tenon_tensor* tensor) noexcept {
  if (tensor != nullptr) object(tensor)->retain();
  return tensor;
}

void tenon_tensor_release(tenon_tensor* tensor) noexcept {
  if (tensor != nullptr) object(tensor)->release();
}

tenon_status tenon_tensor_get_spec(const tenon_tensor* tensor, tenon_tensor_spec* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_output(out, "tenon_tensor_spec"));
    const Tensor& from = *object(tensor);
    tenon_tensor_spec spec{};
    spec.dtype = {from.dtype().code, from.dtype().bits, from.dtype().lanes};
    spec.ndim = static_cast<int32_t>(from.sizes().size());
    spec.sizes = from.sizes().data();
    spec.strides = from.strides().data();
    spec.offset = from.offset();
    spec.flags = from.flags();
    write_struct(out, spec);
    return Status::ok();
  });
}

tenon_storage* tenon_tensor_storage(const tenon_tensor* tensor) noexcept {
  return tensor == nullptr ? nullptr : handle<tenon_storage>(object(tensor)->storage().get());
}

const void* tenon_tensor_data(const tenon_tensor* tensor) noexcept {
  if (tensor == nullptr || object(tensor)->storage()->is_dropped()) return nullptr;
  tenon::share::remember_address(object(tensor)->storage().get());
  return object(tensor)->data();
}

tenon_status tenon_tensor_data_mut(tenon_tensor* tensor, void** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(std::byte * base, object(tensor)->storage()->data_mut());
    tenon::share::remember_address(object(tensor)->storage().get());
    *out = base == nullptr ? nullptr : base + object(tensor)->offset_nbytes();
    return Status::ok();
  });
}

uint64_t tenon_tensor_numel(const tenon_tensor* tensor) noexcept {
  return tensor == nullptr ? 0 : object(tensor)->numel();
}

uint64_t tenon_tensor_nbytes(const tenon_tensor* tensor) noexcept {
  return tensor == nullptr ? 0 : object(tensor)->nbytes();
}

int tenon_tensor_is_contiguous(const tenon_tensor* tensor) noexcept {
  return tensor != nullptr &&
                 tenon::tensor::is_contiguous(object(tensor)->sizes(), object(tensor)->strides())
             ? 1
             : 0;
}

tenon_status tenon_tensor_get_view(tenon_tensor* tensor, tenon_tensor_view* out,
                                   tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_output(out, "tenon_tensor_view"));
    write_struct(out, view_of(object(tensor)));
    return Status::ok();
  });
}
}
