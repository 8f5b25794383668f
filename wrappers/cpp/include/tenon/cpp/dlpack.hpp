/// @file
/// These functions exchange tensors with other frameworks in the same process through DLPack. This
/// header does not include dlpack.h: include any version of it.
#ifndef TENON_CPP_DLPACK_HPP
#define TENON_CPP_DLPACK_HPP

#include <tenon/dlpack.h>
#include <tenon/cpp/tensor.hpp>

#include <concepts>
#include <memory>
#include <utility>

TENON_CPP_BEGIN

/// Calls the deleter of a DLPack tensor.
template <class Managed>
struct DlpackDeleter {
  void operator()(Managed* managed) const noexcept {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
/// Owns a DLPack tensor. release() passes it to the next consumer.
template <class Managed>
using DlpackPtr = std::unique_ptr<Managed, DlpackDeleter<Managed>>;

/// Takes a tensor from another framework, without a copy. In host memory the tensor's storage is
/// private, so it cannot be lent. On a CUDA device it can be lent. `managed` is consumed on
/// success: its deleter is called once, when the last reference to the storage is released. After a
/// failure `managed` is still the caller's.
inline Result<Tensor> try_from_dlpack(DLManagedTensorVersioned* managed) {
  return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
    return tenon_tensor_from_dlpack(managed, out, err);
  });
}

/// Takes a tensor in DLPack's older form, which has no version and cannot say that a tensor is
/// read-only.
inline Result<Tensor> try_from_dlpack(DLManagedTensor* managed) {
  return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) {
    return tenon_tensor_from_dlpack_legacy(managed, out, err);
  });
}

/// Takes a tensor of either form from its owner. If the call succeeds, the owner is empty
/// afterwards.
template <class Managed>
Result<Tensor> try_from_dlpack(DlpackPtr<Managed>&& managed) {
  Result<Tensor> tensor = try_from_dlpack(managed.get());
  if (tensor) (void)managed.release();
  return tensor;
}

/// Gives a tensor to another framework, without a copy. The result takes a reference of its own.
/// DLPack's flag READ_ONLY is set if the storage is read-only. try_to_dlpack<DLManagedTensor> gives
/// DLPack's older form, which has no version; it refuses a read-only tensor.
template <class Managed = DLManagedTensorVersioned>
  requires(std::same_as<Managed, DLManagedTensorVersioned> ||
           std::same_as<Managed, DLManagedTensor>)
Result<DlpackPtr<Managed>> try_to_dlpack(const Tensor& tensor) {
  Managed* out = nullptr;
  const Result<void> called = detail::call([&](tenon_error** err) {
    if constexpr (std::same_as<Managed, DLManagedTensor>) {
      return tenon_tensor_to_dlpack_legacy(tensor.get(), &out, err);
    } else {
      return tenon_tensor_to_dlpack(tensor.get(), &out, err);
    }
  });
  if (!called) return called.error();
  return DlpackPtr<Managed>(out);
}

#ifndef TENON_NO_EXCEPTIONS
// Each function throws the error that its try_ form returns.
inline Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  return try_from_dlpack(managed).value();
}
inline Tensor from_dlpack(DLManagedTensor* managed) { return try_from_dlpack(managed).value(); }
template <class Managed>
Tensor from_dlpack(DlpackPtr<Managed>&& managed) {
  return try_from_dlpack(std::move(managed)).value();
}
template <class Managed = DLManagedTensorVersioned>
DlpackPtr<Managed> to_dlpack(const Tensor& tensor) {
  return try_to_dlpack<Managed>(tensor).value();
}
#endif

TENON_CPP_END

#endif
