// Tensor is a view of a storage: a dtype, sizes, strides and an offset. A tenon_tensor of the C API
// is a Tensor. It never changes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counted.h"
#include "base/status.h"
#include "storage/storage.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

namespace tenon::tensor {

using storage::Storage;

// TENON_TENSOR_REQUIRES_GRAD | IS_PARAMETER | CONJ | NEG.
inline constexpr uint32_t kTensorFlags = 0xf;
inline constexpr uint32_t kFlagRequiresGrad = 1;
inline constexpr uint32_t kFlagIsParameter = 2;
inline constexpr uint32_t kFlagConj = 4;
inline constexpr uint32_t kFlagNeg = 8;

class Tensor : public Counted {
 public:
  // Checks the layout against the storage (check_layout()), and the flags. UNSUPPORTED for unknown
  // flags.
  static Result<Ref<Tensor>> create(Ref<Storage> storage, const Layout& layout, uint32_t flags);
  // Makes a tensor from a layout that decode_descriptor() or check_layout() has accepted.
  static Ref<Tensor> create_checked(Ref<Storage> storage, const Layout& layout, uint32_t flags);

  // Releases a reference as Counted does. If this is the only reference, it skips the atomic
  // subtraction, because no table takes references of a tensor.
  void release() const noexcept {
    if (!is_alone()) return Counted::release();
    const_cast<Tensor*>(this)->dispose();
    delete this;
  }

  const Ref<Storage>& storage() const noexcept { return storage_; }
  DType dtype() const noexcept { return dtype_; }
  std::span<const int64_t> sizes() const noexcept { return {dims(), ndim_}; }
  std::span<const int64_t> strides() const noexcept { return {dims() + ndim_, ndim_}; }
  uint64_t offset() const noexcept { return offset_; }
  uint32_t flags() const noexcept { return flags_; }
  Layout layout() const noexcept { return {dtype_, sizes(), strides(), offset_}; }
  uint64_t numel() const noexcept { return element_count(sizes()); }
  // The bytes of the elements when they are packed, whatever the strides are.
  uint64_t nbytes() const noexcept { return (numel() * dtype_.element_bits() + 7) / 8; }
  // The distance of data() from the storage's first byte.
  uint64_t offset_nbytes() const noexcept { return offset_ * dtype_.element_bits() / 8; }
  // The address of the element with index 0, 0, …, in the host's or the device's memory. Null if
  // the storage has no memory. Not to be used once the storage is dropped.
  const std::byte* data() const noexcept;

 private:
  // A tensor of up to this many dimensions is one allocation.
  static constexpr size_t kFewDims = 4;

  explicit Tensor(size_t ndim);
  ~Tensor() override;
  void dispose() noexcept override { storage_ = nullptr; }
  int64_t* dims() noexcept { return ndim_ > kFewDims ? many_dims_ : few_dims_.data(); }
  const int64_t* dims() const noexcept { return ndim_ > kFewDims ? many_dims_ : few_dims_.data(); }

  Ref<Storage> storage_;
  DType dtype_;
  uint16_t flags_ = 0;
  uint16_t ndim_;
  uint64_t offset_ = 0;
  union {
    std::array<int64_t, 2 * kFewDims> few_dims_;  // sizes, then strides
    int64_t* many_dims_;  // sizes, then strides, in an array that the tensor owns
  };
};
static_assert(sizeof(void*) != 8 || sizeof(Tensor) == 104);  // there can be millions

}  // namespace tenon::tensor
