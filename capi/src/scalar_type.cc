// tenon/scalar_type.h: PyTorch's element types (impl/tensor/scalar_type.h).
#include <tenon/scalar_type.h>

#include <optional>
#include <string>
#include <string_view>

#include "boundary.h"
#include "tensor/scalar_type.h"

using namespace tenon::capi;
using tenon::Code;
using tenon::Status;
using tenon::tensor::ScalarType;
using tenon::tensor::ScalarTypeInfo;

namespace {

const ScalarTypeInfo* info_of(tenon_scalar_type type) noexcept {
  const std::optional<ScalarType> known = tenon::tensor::scalar_type_from_number(type);
  return known ? &tenon::tensor::scalar_type_info(*known) : nullptr;
}

constexpr size_t kMaxShownNbytes = 64;

}  // namespace

static_assert(static_cast<int>(ScalarType::kFloat) == TENON_SCALAR_TYPE_FLOAT &&
              static_cast<int>(ScalarType::kQUInt2x4) == TENON_SCALAR_TYPE_QUINT2X4 &&
              static_cast<int>(ScalarType::kUInt64) == TENON_SCALAR_TYPE_UINT64 &&
              static_cast<int>(ScalarType::kInt7) == TENON_SCALAR_TYPE_INT7 &&
              static_cast<int>(ScalarType::kBComplex32) == TENON_SCALAR_TYPE_BCOMPLEX32 &&
              tenon::tensor::kScalarTypeCount == TENON_SCALAR_TYPE_BCOMPLEX32 + 1);

extern "C" {

const char* tenon_scalar_type_name(tenon_scalar_type type) noexcept {
  const ScalarTypeInfo* const info = info_of(type);
  return info == nullptr ? nullptr : info->dtype_name;
}

const char* tenon_scalar_type_storage_name(tenon_scalar_type type) noexcept {
  const ScalarTypeInfo* const info = info_of(type);
  return info == nullptr ? nullptr : info->storage_name;
}

uint64_t tenon_scalar_type_nbytes(tenon_scalar_type type) noexcept {
  const ScalarTypeInfo* const info = info_of(type);
  return info == nullptr ? 0 : info->nbytes;
}

const char* tenon_scalar_type_since(tenon_scalar_type type) noexcept {
  const ScalarTypeInfo* const info = info_of(type);
  return info == nullptr ? nullptr : info->since;
}

tenon_status tenon_scalar_type_parse(const char* name, tenon_scalar_type* out,
                                     tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(name != nullptr, "name is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const std::string_view text = name;
    std::optional<ScalarType> type = tenon::tensor::scalar_type_from_dtype_name(text);
    if (!type) type = tenon::tensor::scalar_type_from_name(text);
    if (!type) type = tenon::tensor::scalar_type_from_storage_name(text);
    if (!type) {
      return {Code::kInvalidArgument,
              tenon::format("PyTorch has no element type '%s'",
                            std::string(text.substr(0, kMaxShownNbytes)).c_str())};
    }
    *out = static_cast<tenon_scalar_type>(*type);
    return Status::ok();
  });
}

tenon_status tenon_scalar_type_to_dtype(tenon_scalar_type type, tenon_dtype* out,
                                        tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const ScalarTypeInfo* const info = info_of(type);
    if (info == nullptr)
      return {Code::kInvalidArgument,
              tenon::format("PyTorch has no element type of number %d", type)};
    if (!info->has_dtype())
      return {Code::kUnsupported,
              tenon::format("DLPack has no element type for %s", info->dtype_name)};
    *out = {info->dtype.code, info->dtype.bits, info->dtype.lanes};
    return Status::ok();
  });
}

tenon_status tenon_scalar_type_from_dtype(tenon_dtype dtype, tenon_scalar_type* out,
                                          tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    const tenon::tensor::DType given{dtype.code, dtype.bits, dtype.lanes};
    const std::optional<ScalarType> type = tenon::tensor::scalar_type_from_dtype(given);
    if (!type)
      return {Code::kUnsupported, tenon::format("PyTorch has no element type %s",
                                                tenon::tensor::dtype_name(given).text)};
    *out = static_cast<tenon_scalar_type>(*type);
    return Status::ok();
  });
}
}
