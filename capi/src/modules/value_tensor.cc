// tenon/value.h: tensors in values, including those that no tenon_tensor can describe.
#include <tenon/value.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary.h"
#include "handles.h"
#include "modules/value/tensor_checks.h"
#include "tensor/layout.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Ref;
using tenon::Result;
using tenon::Status;
using tenon::storage::Storage;
using tenon::tensor::ScalarType;
using tenon::tensor::Tensor;
using tenon::value::QScheme;
using tenon::value::Quantizer;
using tenon::value::SparseSpec;
using tenon::value::StorageValue;
using tenon::value::StorageValueRef;
using tenon::value::StridedSpec;
using tenon::value::TensorLayout;
using tenon::value::TensorValue;
using tenon::value::TensorValueRef;
using tenon::value::Value;
using tenon::value::ValueKind;
using tenon::value::ValueRef;

namespace {

constexpr uint32_t kSpecFlags = TENON_TENSOR_REQUIRES_GRAD | TENON_TENSOR_CONJ | TENON_TENSOR_NEG;

Status check_tensor(const tenon_value* value, bool has_out) {
  TENON_TRY(check_argument(value != nullptr, "value is NULL"));
  TENON_TRY(check_argument(has_out, "out is NULL"));
  if (object(value)->is(ValueKind::kTensor)) return Status::ok();
  return {Code::kInvalidArgument,
          tenon::format("the value is a %s and no Tensor",
                        tenon::value::value_kind_name(object(value)->kind()))};
}

// Gives null for NULL.
Result<TensorValueRef> part_of(const tenon_value* value, const char* name) {
  if (value == nullptr) return TensorValueRef();
  if (!object(value)->is(ValueKind::kTensor))
    return Status(Code::kInvalidArgument, tenon::format("%s is no value of a tensor", name));
  return object(value)->as_tensor();
}

Result<StorageValueRef> storage_of(const tenon_value_tensor_spec& spec, const StridedSpec& strided,
                                   ScalarType type) {
  const auto device =
      spec.device != nullptr ? std::optional<std::string_view>(spec.device) : std::nullopt;
  uint64_t numel = spec.storage_numel;
  Ref<Storage> bytes;
  if (spec.storage == nullptr && numel == 0 && device == "meta") {
    // PyTorch 2.15 refuses a tensor on meta whose storage is too short, although there are no
    // bytes.
    numel = tenon::value::needed_numel(type, strided).value_or(0);
  } else if (spec.storage != nullptr) {
    bytes = Ref<Storage>::share(object(spec.storage));
    if (numel == 0 && spec.storage_offset <= bytes->nbytes()) {
      numel =
          (bytes->nbytes() - spec.storage_offset) / tenon::tensor::scalar_type_info(type).nbytes;
    }
  }
  return StorageValue::create(type, numel, std::move(bytes), spec.storage_offset, device);
}

Result<std::optional<Quantizer>> quantizer_of(const tenon_value_tensor_spec& spec) {
  if (spec.quantizer == TENON_QUANTIZER_NONE) return std::optional<Quantizer>();
  if (spec.quantizer < 0 || spec.quantizer > TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    return Status(Code::kInvalidArgument,
                  tenon::format("there is no quantizer %d", spec.quantizer));
  }
  Quantizer quantizer;
  quantizer.scheme = static_cast<QScheme>(spec.quantizer);
  quantizer.scale = spec.scale;
  quantizer.zero_point = spec.zero_point;
  quantizer.axis = spec.axis;
  TENON_ASSIGN(quantizer.scales, part_of(spec.scales, "scales"));
  TENON_ASSIGN(quantizer.zero_points, part_of(spec.zero_points, "zero_points"));
  return std::optional<Quantizer>(std::move(quantizer));
}

Result<TensorValueRef> strided_of(const tenon_value_tensor_spec& spec) {
  const std::optional<ScalarType> type = tenon::tensor::scalar_type_from_number(spec.scalar_type);
  if (!type)
    return Status(Code::kInvalidArgument,
                  tenon::format("PyTorch has no element type of number %d", spec.scalar_type));
  const bool has_parts =
      spec.indices != nullptr || spec.plain_indices != nullptr || spec.values != nullptr;
  if (has_parts || spec.coalesced != TENON_COALESCED_UNKNOWN)
    return Status(Code::kInvalidArgument, "a strided tensor with sparse parts");
  StridedSpec strided;
  strided.sizes.assign(spec.sizes, spec.sizes + spec.ndim);
  if (spec.strides != nullptr) {
    strided.strides.assign(spec.strides, spec.strides + spec.ndim);
  } else {
    TENON_ASSIGN(strided.strides, tenon::tensor::contiguous_strides(strided.sizes));
  }
  strided.offset = spec.offset;
  strided.requires_grad = (spec.flags & TENON_TENSOR_REQUIRES_GRAD) != 0;
  strided.is_conj = (spec.flags & TENON_TENSOR_CONJ) != 0;
  strided.is_neg = (spec.flags & TENON_TENSOR_NEG) != 0;
  TENON_ASSIGN(strided.quantizer, quantizer_of(spec));
  TENON_ASSIGN(strided.storage, storage_of(spec, strided, *type));
  return TensorValue::create(strided);
}

Result<TensorValueRef> sparse_of(const tenon_value_tensor_spec& spec, TensorLayout layout) {
  if (spec.storage != nullptr || spec.strides != nullptr ||
      spec.quantizer != TENON_QUANTIZER_NONE) {
    return Status(Code::kInvalidArgument,
                  "a sparse tensor with a storage, strides or a quantizer of its own");
  }
  if ((spec.flags & ~uint32_t{TENON_TENSOR_REQUIRES_GRAD}) != 0)
    return Status(Code::kInvalidArgument, "a sparse tensor with math bits");
  SparseSpec sparse;
  sparse.layout = layout;
  sparse.sizes.assign(spec.sizes, spec.sizes + spec.ndim);
  sparse.requires_grad = (spec.flags & TENON_TENSOR_REQUIRES_GRAD) != 0;
  TENON_ASSIGN(sparse.indices, part_of(spec.indices, "indices"));
  TENON_ASSIGN(sparse.plain_indices, part_of(spec.plain_indices, "plain_indices"));
  TENON_ASSIGN(sparse.values, part_of(spec.values, "values"));
  switch (spec.coalesced) {
    case TENON_COALESCED_UNKNOWN: break;
    case TENON_COALESCED_NO: sparse.is_coalesced = false; break;
    case TENON_COALESCED_YES: sparse.is_coalesced = true; break;
    default:
      return Status(Code::kInvalidArgument, tenon::format("coalesced is %d", spec.coalesced));
  }
  return TensorValue::create_sparse(sparse);
}

tenon_value_tensor_spec spec_of(const TensorValue& tensor) noexcept {
  tenon_value_tensor_spec spec{};
  spec.scalar_type = static_cast<tenon_scalar_type>(tensor.type());
  spec.layout = static_cast<int32_t>(tensor.layout());
  spec.ndim = static_cast<int32_t>(tensor.sizes().size());
  if (tensor.requires_grad()) spec.flags |= TENON_TENSOR_REQUIRES_GRAD;
  if (tensor.is_conj()) spec.flags |= TENON_TENSOR_CONJ;
  if (tensor.is_neg()) spec.flags |= TENON_TENSOR_NEG;
  spec.sizes = spec.ndim > 0 ? tensor.sizes().data() : nullptr;
  spec.device = tensor.device().c_str();
  if (tensor.is_coalesced())
    spec.coalesced = *tensor.is_coalesced() ? TENON_COALESCED_YES : TENON_COALESCED_NO;
  if (tensor.layout() != TensorLayout::kStrided) return spec;
  spec.strides = spec.ndim > 0 ? tensor.strides().data() : nullptr;
  spec.offset = tensor.offset();
  spec.storage = handle<tenon_storage>(tensor.storage()->bytes().get());
  spec.storage_offset = tensor.storage()->byte_offset();
  spec.storage_numel = tensor.storage()->numel();
  if (!tensor.quantizer()) return spec;
  const Quantizer& quantizer = *tensor.quantizer();
  spec.quantizer = static_cast<int32_t>(quantizer.scheme);
  if (quantizer.scheme == QScheme::kPerTensorAffine) {
    spec.scale = quantizer.scale;
    spec.zero_point = quantizer.zero_point;
  } else {
    spec.axis = quantizer.axis;
  }
  return spec;
}

}  // namespace

extern "C" {

tenon_status tenon_value_new_tensor(tenon_tensor* tensor, tenon_value** out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(tensor != nullptr, "tensor is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(TensorValueRef value, TensorValue::from_tensor(*object(tensor)));
    *out = handle<tenon_value>(Value::of_tensor(std::move(value)).detach());
    return Status::ok();
  });
}

tenon_status tenon_value_new_tensor_from_spec(const tenon_value_tensor_spec* spec,
                                              tenon_value** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(spec != nullptr, "spec is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    tenon_value_tensor_spec given{};
    TENON_TRY(read_struct(spec, "tenon_value_tensor_spec", &given));
    TENON_TRY(check_flags(given.flags, kSpecFlags, "tenon_value_tensor_spec"));
    TENON_TRY(check_argument(given.ndim >= 0 && given.ndim <= TENON_TENSOR_MAX_NDIM,
                             "ndim is not from 0 to 64"));
    TENON_TRY(check_argument(given.ndim == 0 || given.sizes != nullptr, "sizes is NULL"));
    const std::optional<TensorLayout> layout =
        tenon::value::tensor_layout_from_number(given.layout);
    if (!layout)
      return {Code::kInvalidArgument, tenon::format("there is no layout %d", given.layout)};
    TENON_ASSIGN(TensorValueRef tensor,
                 *layout == TensorLayout::kStrided ? strided_of(given) : sparse_of(given, *layout));
    *out = handle<tenon_value>(Value::of_tensor(std::move(tensor)).detach());
    return Status::ok();
  });
}

tenon_status tenon_value_get_tensor(const tenon_value* value, tenon_tensor** out,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_tensor(value, out != nullptr));
    TENON_ASSIGN(Ref<Tensor> tensor, object(value)->as_tensor()->to_tensor());
    *out = handle<tenon_tensor>(tensor.detach());
    return Status::ok();
  });
}

tenon_status tenon_value_get_tensor_spec(const tenon_value* value, tenon_value_tensor_spec* out,
                                         tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_tensor(value, out != nullptr));
    TENON_TRY(check_output(out, "tenon_value_tensor_spec"));
    write_struct(out, spec_of(*object(value)->as_tensor()));
    return Status::ok();
  });
}

tenon_status tenon_value_tensor_part(const tenon_value* value, int32_t part, tenon_value** out,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_tensor(value, out != nullptr));
    const TensorValue& tensor = *object(value)->as_tensor();
    TensorValueRef found;
    switch (part) {
      case TENON_TENSOR_PART_INDICES: found = tensor.indices(); break;
      case TENON_TENSOR_PART_PLAIN_INDICES: found = tensor.plain_indices(); break;
      case TENON_TENSOR_PART_VALUES: found = tensor.values(); break;
      case TENON_TENSOR_PART_SCALES:
        found = tensor.quantizer() ? tensor.quantizer()->scales : nullptr;
        break;
      case TENON_TENSOR_PART_ZERO_POINTS:
        found = tensor.quantizer() ? tensor.quantizer()->zero_points : nullptr;
        break;
      default: return {Code::kInvalidArgument, tenon::format("tensors have no part %d", part)};
    }
    if (!found) return {Code::kNotFound, "the tensor has no such part"};
    *out = handle<tenon_value>(Value::of_tensor(std::move(found)).detach());
    return Status::ok();
  });
}
}
