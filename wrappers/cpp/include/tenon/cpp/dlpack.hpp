// Tensors to and from other frameworks in this process. DLPack's own header is yours to include; any version of it will do.
#ifndef TENON_CPP_DLPACK_HPP
#define TENON_CPP_DLPACK_HPP

#include <tenon/dlpack.h>
#include <tenon/cpp/tensor.hpp>

#include <concepts>
#include <memory>
#include <utility>

TENON_CPP_BEGIN

/// Calls a managed tensor's deleter.
template <class Managed>
struct DlpackDeleter {
  void operator()(Managed* managed) const noexcept {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
/// Owns a managed tensor of DLPack's; release() hands it to the next consumer.
template <class Managed>
using DlpackPtr = std::unique_ptr<Managed, DlpackDeleter<Managed>>;

/// Take a tensor from another framework, without a copy. Its storage is private: it cannot be lent. `managed` is consumed on success, and
/// its deleter is called once, when the last reference to the storage goes; on failure it stays the caller's.
inline Result<Tensor> try_from_dlpack(DLManagedTensorVersioned* managed) {
  return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) { return tenon_tensor_from_dlpack(managed, out, err); });
}

/// The same for the form without a version, which cannot say read-only.
inline Result<Tensor> try_from_dlpack(DLManagedTensor* managed) {
  return detail::make<Tensor>([&](tenon_tensor** out, tenon_error** err) { return tenon_tensor_from_dlpack_legacy(managed, out, err); });
}

/// The same from an owner of either form, which is left empty on success.
template <class Managed>
Result<Tensor> try_from_dlpack(DlpackPtr<Managed>&& managed) {
  Result<Tensor> tensor = try_from_dlpack(managed.get());
  if (tensor) (void)managed.release();
  return tensor;
}

/// Hand a tensor to another framework, without a copy; the result takes a reference of its own. The flag READ_ONLY is set if the storage is
/// read-only. try_to_dlpack<DLManagedTensor>: the form without a version, refused for a read-only tensor.
template <class Managed = DLManagedTensorVersioned>
  requires(std::same_as<Managed, DLManagedTensorVersioned> || std::same_as<Managed, DLManagedTensor>)
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
// Each throws what its try_ form returns.
inline Tensor from_dlpack(DLManagedTensorVersioned* managed) { return try_from_dlpack(managed).value(); }
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
