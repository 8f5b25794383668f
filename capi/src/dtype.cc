// tenon/dtype.h: names and sizes of element types (impl/tensor/dtype.h, impl/tensor/layout.h).
#include <tenon/dtype.h>
#include <tenon/tensor.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "boundary.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::tensor::DType;
using tenon::tensor::DTypeName;

static_assert(tenon::tensor::kMaxDTypeNameNbytes == TENON_DTYPE_MAX_NAME_NBYTES);

extern "C" {

size_t tenon_dtype_name(tenon_dtype dtype, char* out, size_t capacity) noexcept {
  const DTypeName name = tenon::tensor::dtype_name(DType{dtype.code, dtype.bits, dtype.lanes});
  if (out != nullptr && capacity > 0) {
    const size_t count = std::min(name.nbytes, capacity - 1);
    std::memcpy(out, name.text, count);
    out[count] = '\0';
  }
  return name.nbytes;
}

tenon_status tenon_dtype_parse(const char* name, tenon_dtype* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(name != nullptr, "name is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const DType dtype, tenon::tensor::parse_dtype(name));
    *out = {dtype.code, dtype.bits, dtype.lanes};
    return Status::ok();
  });
}

tenon_status tenon_dtype_nbytes(tenon_dtype dtype, const int64_t* sizes, int32_t ndim,
                                uint64_t* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_TRY(
        check_argument(ndim >= 0 && ndim <= TENON_TENSOR_MAX_NDIM, "ndim is not from 0 to 64"));
    TENON_TRY(check_argument(ndim == 0 || sizes != nullptr, "sizes is NULL"));
    TENON_ASSIGN(*out, tenon::tensor::packed_nbytes({dtype.code, dtype.bits, dtype.lanes},
                                                    {sizes, static_cast<size_t>(ndim)}));
    return Status::ok();
  });
}
}
