// Tensors and storages as archives know them: with PyTorch's element types, layouts, quantizers and
// devices. What a value of kind tensor holds. Everything is checked when it is made; afterwards it
// never changes.
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
#include "tensor/tensor.h"
#include "value/scalar_type.h"

namespace tenon::value {

class StorageValue;
class TensorValue;
using StorageValueRef = Ref<const StorageValue>;
using TensorValueRef = Ref<const TensorValue>;

// OK for "cpu" and "meta". UNSUPPORTED, by name, for every other device.
Status check_device(std::string_view device);
// What PyTorch writes for a device: "mps", "cuda:<number>", "privateuseone:0".
bool is_device_name(std::string_view device) noexcept;

// Which storages are one: equal keys. A storage of an archive is written once per key.
struct StorageKey {
  const void* object = nullptr;  // the storage::Storage, or the StorageValue if it has no bytes
  uint64_t byte_offset = 0;
  uint64_t numel = 0;
  ScalarType type = ScalarType::kByte;
  auto operator<=>(const StorageKey&) const = default;
};

// The elements behind tensors: a type, how many, and the bytes (all of a storage::Storage, or a
// range of one). In an archive a storage has one element type, which is that of every tensor over
// it.
class StorageValue : public Counted {
 public:
  // INVALID_ARGUMENT unless [byte_offset, byte_offset + numel * size) lies in `bytes`. `device` is
  // where these are ("cpu" or "cuda:<number>"; nothing says the same), or "meta", which has no
  // bytes. A storage of "cpu" without elements needs no bytes either.
  static Result<StorageValueRef> create(ScalarType type, uint64_t numel,
                                        Ref<storage::Storage> bytes, uint64_t byte_offset = 0,
                                        std::optional<std::string_view> device = std::nullopt);
  // All whole elements of `bytes`.
  static Result<StorageValueRef> whole(ScalarType type, Ref<storage::Storage> bytes);

  ScalarType type() const noexcept { return type_; }
  uint64_t numel() const noexcept { return numel_; }
  uint64_t nbytes() const noexcept { return numel_ * scalar_type_info(type_).nbytes; }
  const std::string& device() const noexcept;
  bool is_meta() const noexcept { return is_meta_; }
  // Null for meta, and only then.
  const Ref<storage::Storage>& bytes() const noexcept { return bytes_; }
  uint64_t byte_offset() const noexcept { return byte_offset_; }
  bool is_on_device() const noexcept { return bytes_ && bytes_->device_memory() != nullptr; }
  // The first element; null for meta, for a storage on a device, whose bytes the host cannot read,
  // and for one without elements.
  const std::byte* data() const noexcept;
  // Use this and not the pointer to tell storages apart: what two tensors of the caller's share is
  // one storage::Storage under two of these.
  StorageKey key() const noexcept;

 private:
  StorageValue() = default;
  ~StorageValue() override = default;
  void dispose() noexcept override { bytes_ = nullptr; }

  ScalarType type_ = ScalarType::kByte;
  bool is_meta_ = false;
  uint64_t numel_ = 0;
  uint64_t byte_offset_ = 0;
  Ref<storage::Storage> bytes_;
};

using tensor::QScheme;
using tensor::tensor_layout_name;  // "torch.sparse_coo" without the "torch."
using tensor::TensorLayout;

// Of those that archives have; nothing for others (3 is MKLDNN, 7 jagged).
std::optional<TensorLayout> tensor_layout_from_number(int64_t number) noexcept;
std::optional<TensorLayout> tensor_layout_from_name(std::string_view name) noexcept;

// "per_tensor_affine": the global `torch per_tensor_affine`.
const char* qscheme_name(QScheme scheme) noexcept;
std::optional<QScheme> qscheme_from_name(std::string_view name) noexcept;

// How quantised elements stand for numbers: (element - zero_point) * scale, per tensor or per index
// along `axis`.
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
  std::optional<Quantizer> quantizer;  // of quantised element types, and only of these
};

struct SparseSpec {
  TensorLayout layout = TensorLayout::kSparseCoo;
  std::vector<int64_t> sizes;
  bool requires_grad = false;
  // COO: indices, null. CSR and BSR: crow_indices, col_indices. CSC and BSC: ccol_indices,
  // row_indices.
  TensorValueRef indices;
  TensorValueRef plain_indices;
  TensorValueRef values;
  std::optional<bool> is_coalesced;  // COO, where the file says
};

class TensorValue final : public Counted {
 public:
  // INVALID_ARGUMENT for a layout that leaves the storage (of meta only for sizes that overflow),
  // negative sizes or strides, more than 64 dimensions, a quantizer that does not fit, and flags
  // that the element type cannot have.
  static Result<TensorValueRef> create(const StridedSpec& spec);
  // The parts fit each other as their shapes go; what the indices say is not looked at.
  static Result<TensorValueRef> create_sparse(const SparseSpec& spec);

  // Over the whole storage of the tensor, which is kept. UNSUPPORTED for an element type that
  // PyTorch has not.
  static Result<TensorValueRef> from_tensor(const tensor::Tensor& tensor);
  // Likewise over a storage that a tensor before had already; its bytes are the tensor's storage
  // and its type the tensor's, else INVALID_ARGUMENT.
  static Result<TensorValueRef> from_tensor(const tensor::Tensor& tensor, StorageValueRef storage);
  // Over the same bytes. UNSUPPORTED for what is sparse, meta, quantised, or of an element type
  // that DLPack has not.
  Result<Ref<tensor::Tensor>> to_tensor() const;

  TensorLayout layout() const noexcept { return layout_; }
  ScalarType type() const noexcept { return type_; }
  std::span<const int64_t> sizes() const noexcept { return {dims(), sizes_count_}; }
  bool requires_grad() const noexcept { return requires_grad_; }
  const std::string& device() const noexcept;
  // The product of the sizes.
  uint64_t numel() const noexcept;

  // Strided.
  const StorageValueRef& storage() const noexcept { return storage_; }
  std::span<const int64_t> strides() const noexcept {
    return {dims() + sizes_count_, strides_count_};
  }
  int64_t offset() const noexcept { return offset_; }
  bool is_conj() const noexcept { return is_conj_; }
  bool is_neg() const noexcept { return is_neg_; }
  const std::optional<Quantizer>& quantizer() const noexcept { return rare().quantizer; }
  bool is_contiguous() const noexcept;

  // Sparse: as in SparseSpec, all strided.
  const TensorValueRef& indices() const noexcept { return rare().indices; }
  const TensorValueRef& plain_indices() const noexcept { return rare().plain_indices; }
  const TensorValueRef& values() const noexcept { return rare().values; }
  const std::optional<bool>& is_coalesced() const noexcept { return rare().is_coalesced; }

 private:
  // What most tensors do not have.
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

  // Its sizes and then its strides lie behind it: a module has many tensors, and this is one piece
  // of memory for each.
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
  ScalarType type_ = ScalarType::kByte;
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
