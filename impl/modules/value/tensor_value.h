// Tensors and storages as archives describe them, with PyTorch's element types, layouts, quantizers
// and devices. A value of kind tensor (value.h) holds a TensorValue. All of these objects are
// checked when they are made, and never change afterwards. So any thread may use them.
//
// They keep their storages alive. The elements are not protected: another process may change them,
// and a load from bytes whose is_sealed() is false raises SIGBUS if their file was cut short.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "storage/storage.h"
#include "tensor/composite_rules.h"
#include "tensor/scalar_type.h"
#include "tensor/tensor.h"

namespace tenon::value {

class StorageValue;
class TensorValue;
using StorageValueRef = Ref<const StorageValue>;
using TensorValueRef = Ref<const TensorValue>;

// OK for "cpu" and "meta". UNSUPPORTED for every other device, which the message names.
Status check_device(std::string_view device);
// Whether the text is a device as PyTorch writes it: "mps", "cuda:<number>", "privateuseone:0".
// "cpu" and "meta" have no number.
bool is_device_name(std::string_view device) noexcept;

// Storages with equal keys are the same storage. An archive contains one storage per key.
struct StorageKey {
  const void* object = nullptr;  // the storage::Storage, or the StorageValue itself if it has no
                                 // bytes
  uint64_t byte_offset = 0;
  uint64_t numel = 0;
  tensor::ScalarType type = tensor::ScalarType::kByte;
  auto operator<=>(const StorageKey&) const = default;
};

// The elements behind tensors: an element type, a number of elements, and the bytes, which are a
// storage::Storage or a range of one. In an archive a storage has one element type, and every
// tensor over the storage has that type.
class StorageValue : public Counted {
 public:
  // INVALID_ARGUMENT unless [byte_offset, byte_offset + numel * size) lies in `bytes`. `device` is
  // the device of `bytes` ("cpu" or "cuda:<number>"), or "meta", on which a storage has no bytes.
  // Without `device` it is taken from `bytes`. INVALID_ARGUMENT if `bytes` are on another device,
  // and UNSUPPORTED if that `device` is neither "cpu" nor "meta". A storage on "cpu" with no
  // elements needs no bytes either.
  static Result<StorageValueRef> create(tensor::ScalarType type, uint64_t numel,
                                        Ref<storage::Storage> bytes, uint64_t byte_offset = 0,
                                        std::optional<std::string_view> device = std::nullopt);
  // A storage of all whole elements of `bytes`. The errors are those of create().
  static Result<StorageValueRef> whole(tensor::ScalarType type, Ref<storage::Storage> bytes);

  tensor::ScalarType type() const noexcept { return type_; }
  uint64_t numel() const noexcept { return numel_; }
  uint64_t nbytes() const noexcept { return numel_ * tensor::scalar_type_info(type_).nbytes; }
  const std::string& device() const noexcept;
  bool is_meta() const noexcept { return is_meta_; }
  // Null on meta, and only there.
  const Ref<storage::Storage>& bytes() const noexcept { return bytes_; }
  uint64_t byte_offset() const noexcept { return byte_offset_; }
  bool is_on_device() const noexcept { return bytes_ && bytes_->device_memory() != nullptr; }
  // The first element. Null on meta, for a storage on a device, whose bytes the host cannot read,
  // and for a storage without elements.
  const std::byte* data() const noexcept;
  // Compare storages by this key and not by the pointer: if two tensors of the caller share one
  // storage::Storage, two StorageValue objects may stand for it.
  StorageKey key() const noexcept;

 private:
  StorageValue() = default;
  ~StorageValue() override = default;
  void dispose() noexcept override { bytes_ = nullptr; }

  tensor::ScalarType type_ = tensor::ScalarType::kByte;
  bool is_meta_ = false;
  uint64_t numel_ = 0;
  uint64_t byte_offset_ = 0;
  Ref<storage::Storage> bytes_;
};

using tensor::QScheme;
using tensor::tensor_layout_name;  // "torch.sparse_coo" without the "torch."
using tensor::TensorLayout;

// Only for layouts that archives can contain. Nothing for others (3 is MKLDNN, 7 is jagged).
std::optional<TensorLayout> tensor_layout_from_number(int64_t number) noexcept;
std::optional<TensorLayout> tensor_layout_from_name(std::string_view name) noexcept;

// The name as in "per_tensor_affine", which is the global `torch.per_tensor_affine`.
const char* qscheme_name(QScheme scheme) noexcept;
std::optional<QScheme> qscheme_from_name(std::string_view name) noexcept;

// How quantised elements stand for numbers: (element - zero_point) * scale. The scale and the zero
// point hold for the whole tensor, or for each index along `axis`.
struct Quantizer {
  QScheme scheme = QScheme::kPerTensorAffine;
  double scale = 1;
  int64_t zero_point = 0;
  TensorValueRef scales;       // per channel
  TensorValueRef zero_points;  // per channel
  int64_t axis = 0;            // per channel
};

struct StridedSpec {
  StorageValueRef storage;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // as many as sizes; in elements, none negative
  int64_t offset = 0;            // in elements
  bool requires_grad = false;
  bool is_conj = false;
  bool is_neg = false;
  std::optional<Quantizer> quantizer;  // for quantised element types, and only for these
};

struct SparseSpec {
  TensorLayout layout = TensorLayout::kSparseCoo;
  std::vector<int64_t> sizes;
  bool requires_grad = false;
  // The index tensors are: for COO indices and null, for CSR and BSR crow_indices and col_indices,
  // for CSC and BSC ccol_indices and row_indices.
  TensorValueRef indices;
  TensorValueRef plain_indices;
  TensorValueRef values;
  std::optional<bool> is_coalesced;  // COO only, if the file says it
};

class TensorValue final : public Counted {
 public:
  // INVALID_ARGUMENT for elements outside the storage (on meta only for sizes that overflow),
  // negative sizes or strides, more than 64 dimensions, a quantizer that does not fit, and flags
  // that the element type cannot have.
  static Result<TensorValueRef> create(const StridedSpec& spec);
  // Checks that the shapes of the parts fit each other. It does not read the indices.
  static Result<TensorValueRef> create_sparse(const SparseSpec& spec);

  // Makes a tensor over the whole storage of `tensor`, to which it keeps a reference. UNSUPPORTED
  // for an element type that PyTorch does not have.
  static Result<TensorValueRef> from_tensor(const tensor::Tensor& tensor);
  // Does the same over a StorageValue that another tensor already has. INVALID_ARGUMENT unless its
  // bytes are the storage of `tensor` and its type is the type of `tensor`.
  static Result<TensorValueRef> from_tensor(const tensor::Tensor& tensor, StorageValueRef storage);
  // Makes a tensor over the same bytes. UNSUPPORTED for a tensor that is sparse, on meta or
  // quantised, whose element type DLPack does not have, or whose storage begins in the middle of an
  // element.
  Result<Ref<tensor::Tensor>> to_tensor() const;

  TensorLayout layout() const noexcept { return layout_; }
  tensor::ScalarType type() const noexcept { return type_; }
  std::span<const int64_t> sizes() const noexcept { return {dims(), sizes_count_}; }
  bool requires_grad() const noexcept { return requires_grad_; }
  const std::string& device() const noexcept;
  // The product of the sizes.
  uint64_t numel() const noexcept;

  // For strided tensors.
  const StorageValueRef& storage() const noexcept { return storage_; }
  std::span<const int64_t> strides() const noexcept {
    return {dims() + sizes_count_, strides_count_};
  }
  int64_t offset() const noexcept { return offset_; }
  bool is_conj() const noexcept { return is_conj_; }
  bool is_neg() const noexcept { return is_neg_; }
  const std::optional<Quantizer>& quantizer() const noexcept { return rare().quantizer; }
  bool is_contiguous() const noexcept;

  // For sparse tensors: the parts, as in SparseSpec. All parts are strided.
  const TensorValueRef& indices() const noexcept { return rare().indices; }
  const TensorValueRef& plain_indices() const noexcept { return rare().plain_indices; }
  const TensorValueRef& values() const noexcept { return rare().values; }
  const std::optional<bool>& is_coalesced() const noexcept { return rare().is_coalesced; }

 private:
  // Fields that most tensors do not need.
  struct Rare {
    std::optional<Quantizer> quantizer;
    TensorValueRef indices;
    TensorValueRef plain_indices;
    TensorValueRef values;
    std::optional<bool> is_coalesced;
  };
  struct DimCount {
    size_t sizes;
    size_t strides;
  };

  // The sizes and then the strides are stored right behind the object. A module has many tensors,
  // and this takes one allocation for each.
  static Ref<TensorValue> make(std::span<const int64_t> sizes, std::span<const int64_t> strides);
  static void* operator new(size_t nbytes, DimCount count) {
    return ::operator new(nbytes + (count.sizes + count.strides) * sizeof(int64_t));
  }
  static void operator delete(void* at, DimCount) { ::operator delete(at); }
  static void operator delete(void* at) { ::operator delete(at); }
  TensorValue() = default;
  ~TensorValue() override = default;
  int64_t* dims() noexcept { return reinterpret_cast<int64_t*>(this + 1); }
  const int64_t* dims() const noexcept { return reinterpret_cast<const int64_t*>(this + 1); }
  const Rare& rare() const noexcept;

  TensorLayout layout_ = TensorLayout::kStrided;
  tensor::ScalarType type_ = tensor::ScalarType::kByte;
  bool requires_grad_ = false;
  bool is_conj_ = false;
  bool is_neg_ = false;
  uint8_t sizes_count_ = 0;
  uint8_t strides_count_ = 0;
  int64_t offset_ = 0;
  StorageValueRef storage_;
  std::unique_ptr<const Rare> rare_;
};

}  // namespace tenon::value
