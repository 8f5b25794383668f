#include "modules/value/tensor_value.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/immortal.h"
#include "modules/value/tensor_checks.h"
#include "tensor/layout.h"

namespace tenon::value {
namespace {

Status unsupported(std::string message) { return {Code::kUnsupported, std::move(message)}; }

constexpr std::array kLayouts = {TensorLayout::kStrided,   TensorLayout::kSparseCoo,
                                 TensorLayout::kSparseCsr, TensorLayout::kSparseCsc,
                                 TensorLayout::kSparseBsr, TensorLayout::kSparseBsc};

struct QSchemeName {
  QScheme scheme;
  const char* name;
};
constexpr std::array kQSchemes = {
    QSchemeName{QScheme::kPerTensorAffine, "per_tensor_affine"},
    QSchemeName{QScheme::kPerChannelAffine, "per_channel_affine"},
    QSchemeName{QScheme::kPerChannelAffineFloatQParams, "per_channel_affine_float_qparams"},
};

}  // namespace

std::optional<TensorLayout> tensor_layout_from_number(int64_t number) noexcept {
  const auto found = std::ranges::find_if(
      kLayouts, [number](TensorLayout layout) { return static_cast<int64_t>(layout) == number; });
  if (found == kLayouts.end()) return std::nullopt;
  return *found;
}

std::optional<TensorLayout> tensor_layout_from_name(std::string_view name) noexcept {
  const auto found = std::ranges::find_if(
      kLayouts, [name](TensorLayout layout) { return tensor_layout_name(layout) == name; });
  if (found == kLayouts.end()) return std::nullopt;
  return *found;
}

const char* qscheme_name(QScheme scheme) noexcept {
  const auto found =
      std::find_if(kQSchemes.begin(), kQSchemes.end(),
                   [scheme](const QSchemeName& entry) { return entry.scheme == scheme; });
  return found != kQSchemes.end() ? found->name : "";
}

std::optional<QScheme> qscheme_from_name(std::string_view name) noexcept {
  const auto found = std::find_if(kQSchemes.begin(), kQSchemes.end(),
                                  [name](const QSchemeName& entry) { return entry.name == name; });
  if (found == kQSchemes.end()) return std::nullopt;
  return found->scheme;
}

static_assert(tensor::kMaxNdim <= UINT8_MAX);

Ref<TensorValue> TensorValue::make(std::span<const int64_t> sizes,
                                   std::span<const int64_t> strides) {
  auto made = Ref<TensorValue>::adopt(new (DimCount{sizes.size(), strides.size()}) TensorValue());
  made->sizes_count_ = static_cast<uint8_t>(sizes.size());
  made->strides_count_ = static_cast<uint8_t>(strides.size());
  std::ranges::copy(strides, std::ranges::copy(sizes, made->dims()).out);
  return made;
}

const TensorValue::Rare& TensorValue::rare() const noexcept {
  return rare_ ? *rare_ : immortal<Rare>();
}

Result<TensorValueRef> TensorValue::create(const StridedSpec& spec) {
  TENON_TRY(check_strided(spec));
  Ref<TensorValue> made = make(spec.sizes, spec.strides);
  made->type_ = spec.storage->type();
  made->requires_grad_ = spec.requires_grad;
  made->is_conj_ = spec.is_conj;
  made->is_neg_ = spec.is_neg;
  made->offset_ = spec.offset;
  made->storage_ = spec.storage;
  if (spec.quantizer) made->rare_ = std::make_unique<Rare>(Rare{spec.quantizer, {}, {}, {}, {}});
  return TensorValueRef::adopt(made.detach());
}

Result<TensorValueRef> TensorValue::create_sparse(const SparseSpec& spec) {
  TENON_TRY(check_sparse(spec));
  Ref<TensorValue> made = make(spec.sizes, {});
  made->layout_ = spec.layout;
  made->type_ = spec.values->type();
  made->requires_grad_ = spec.requires_grad;
  made->rare_ = std::make_unique<Rare>(
      Rare{{}, spec.indices, spec.plain_indices, spec.values, spec.is_coalesced});
  return TensorValueRef::adopt(made.detach());
}

Result<TensorValueRef> TensorValue::from_tensor(const tensor::Tensor& tensor) {
  const std::optional<tensor::ScalarType> type = tensor::scalar_type_from_dtype(tensor.dtype());
  if (!type)
    return unsupported(
        format("PyTorch has no element type %s", tensor::dtype_name(tensor.dtype()).text));
  TENON_ASSIGN(StorageValueRef storage, StorageValue::whole(*type, tensor.storage()));
  return from_tensor(tensor, std::move(storage));
}

Result<TensorValueRef> TensorValue::from_tensor(const tensor::Tensor& tensor,
                                                StorageValueRef storage) {
  if (storage->bytes().get() != tensor.storage().get() || storage->byte_offset() != 0)
    return invalid("the storage is not the tensor's");
  const std::optional<tensor::ScalarType> type = tensor::scalar_type_from_dtype(tensor.dtype());
  if (!type || *type != storage->type()) {
    return invalid(format("a tensor of %s over a storage of type %s",
                          tensor::dtype_name(tensor.dtype()).text,
                          tensor::scalar_type_info(storage->type()).name));
  }
  StridedSpec spec;
  spec.storage = std::move(storage);
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  // The offset of a tensor without elements is not limited by its storage.
  if (tensor.offset() > uint64_t{std::numeric_limits<int64_t>::max()})
    return invalid("the tensor begins beyond 2^63 elements");
  spec.offset = static_cast<int64_t>(tensor.offset());
  spec.requires_grad = (tensor.flags() & tensor::kFlagRequiresGrad) != 0;
  spec.is_conj = (tensor.flags() & tensor::kFlagConj) != 0;
  spec.is_neg = (tensor.flags() & tensor::kFlagNeg) != 0;
  return create(spec);
}

Result<Ref<tensor::Tensor>> TensorValue::to_tensor() const {
  const tensor::ScalarTypeInfo& info = tensor::scalar_type_info(type_);
  if (layout_ != TensorLayout::kStrided)
    return unsupported(format("a tensor of layout %s", tensor_layout_name(layout_)));
  if (quantizer())
    return unsupported(format("a quantised tensor (%s)", qscheme_name(quantizer()->scheme)));
  if (!info.has_dtype()) return unsupported(format("DLPack has no element type for %s", info.name));
  if (storage_->is_meta()) return unsupported("a tensor on meta has no bytes");
  if (storage_->byte_offset() % info.nbytes != 0) {
    return unsupported(
        format("a storage of type %s begins at byte %llu of its bytes, which is no whole element",
               info.name, static_cast<unsigned long long>(storage_->byte_offset())));
  }
  const uint64_t storage_offset = storage_->byte_offset() / info.nbytes;
  // A tensor without elements may have any offset as a TensorValue, but not as a tensor::Tensor.
  const uint64_t offset =
      numel() > 0 ? storage_offset + static_cast<uint64_t>(offset_) : storage_offset;
  uint32_t flags = 0;
  if (requires_grad_) flags |= tensor::kFlagRequiresGrad;
  if (is_conj_) flags |= tensor::kFlagConj;
  if (is_neg_) flags |= tensor::kFlagNeg;
  return tensor::Tensor::create(storage_->bytes(), {info.dtype, sizes(), strides(), offset}, flags);
}

const std::string& TensorValue::device() const noexcept {
  return layout_ == TensorLayout::kStrided ? storage_->device() : values()->storage_->device();
}

uint64_t TensorValue::numel() const noexcept { return tensor::element_count(sizes()); }

bool TensorValue::is_contiguous() const noexcept {
  return layout_ == TensorLayout::kStrided && tensor::is_contiguous(sizes(), strides());
}

}  // namespace tenon::value
