// tenon/tensor.h: tensors and views of them (impl/tensor/tensor.h, impl/tensor/view_layout.h).
#include <tenon/tensor.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "share/storage_at.h"
#include "tensor/view_layout.h"
#include "tensor_view.h"

using namespace tenon::capi;
using tenon::Ref;
using tenon::Status;
using tenon::storage::Storage;
using tenon::tensor::IndexItem;
using tenon::tensor::Layout;
using tenon::tensor::Tensor;
using tenon::tensor::ViewLayout;

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

namespace {

// Makes the view of `tensor` whose layout `compute` writes.
template <typename Compute>
tenon_status make_tensor_view(const tenon_tensor* tensor, tenon_tensor** out, tenon_error** err,
                              Compute&& compute) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const Tensor& from = *object(tensor);
    ViewLayout view;
    TENON_TRY(compute(from.layout(), &view));
    TENON_ASSIGN(Ref<Tensor> made, Tensor::create(from.storage(), view.layout(), from.flags()));
    *out = handle<tenon_tensor>(made.detach());
    return Status::ok();
  });
}

Status read_index_item(const void* at, IndexItem* out) {
  tenon_index item{};
  TENON_TRY(read_struct(static_cast<const tenon_index*>(at), "tenon_index", &item));
  TENON_TRY(check_flags(item.reserved, 0, "tenon_index"));
  TENON_TRY(check_argument(item.kind >= TENON_INDEX_NUMBER && item.kind <= TENON_INDEX_ELLIPSIS,
                           "the kind of an item of the index is not one of TENON_INDEX_*"));
  *out = {static_cast<IndexItem::Kind>(item.kind), item.start, item.stop, item.step};
  return Status::ok();
}

}  // namespace

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

tenon_status tenon_tensor_reshape(const tenon_tensor* tensor, const int64_t* sizes, int32_t ndim,
                                  tenon_tensor** out, tenon_error** err) noexcept {
  return make_tensor_view(tensor, out, err, [&](const Layout& from, ViewLayout* view) -> Status {
    TENON_TRY(
        check_argument(ndim >= 0 && ndim <= TENON_TENSOR_MAX_NDIM, "ndim is not from 0 to 64"));
    TENON_TRY(check_argument(ndim == 0 || sizes != nullptr, "sizes is NULL"));
    return tenon::tensor::reshape_layout(from, {sizes, static_cast<size_t>(ndim)}, view);
  });
}

tenon_status tenon_tensor_view_dtype(const tenon_tensor* tensor, tenon_dtype dtype,
                                     tenon_tensor** out, tenon_error** err) noexcept {
  return make_tensor_view(tensor, out, err, [&](const Layout& from, ViewLayout* view) {
    return tenon::tensor::dtype_layout(from, {dtype.code, dtype.bits, dtype.lanes}, view);
  });
}

tenon_status tenon_tensor_index(const tenon_tensor* tensor, const tenon_index* items, size_t n,
                                tenon_tensor** out, tenon_error** err) noexcept {
  return make_tensor_view(tensor, out, err, [&](const Layout& from, ViewLayout* view) -> Status {
    TENON_TRY(check_argument(n == 0 || items != nullptr, "items is NULL"));
    // Each dimension of the tensor and of the view has at most one item, and there is one ellipsis.
    TENON_TRY(check_argument(n <= 2 * TENON_TENSOR_MAX_NDIM + 1,
                             "the index has more items than two tensors of 64 dimensions need"));
    std::array<IndexItem, 2 * TENON_TENSOR_MAX_NDIM + 1> read;
    const size_t size = n == 0 ? 0 : items->struct_size;
    const auto* at = reinterpret_cast<const std::byte*>(items);
    for (size_t i = 0; i < n; ++i, at += size) {
      size_t given = 0;
      std::memcpy(&given, at, sizeof given);
      TENON_TRY(check_argument(given == size, "the items of the index differ in struct_size"));
      TENON_TRY(read_index_item(at, &read[i]));
    }
    return tenon::tensor::index_layout(from, {read.data(), n}, view);
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
