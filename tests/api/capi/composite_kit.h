/* Helpers of the tests of composites: element types, parts, specs, and a CSR tensor. */
#ifndef TENON_TESTS_CAPI_COMPOSITE_KIT_H
#define TENON_TESTS_CAPI_COMPOSITE_KIT_H

#include "check.h"

static const tenon_dtype kFloat = {TENON_DTYPE_FLOAT, 32, 1};
static const tenon_dtype kLong = {TENON_DTYPE_INT, 64, 1};

/* Returns a contiguous tensor that begins `offset` elements into the storage. */
CHECK_UNUSED static tenon_tensor *part_over(tenon_storage *storage, tenon_dtype dtype,
                                            uint64_t offset, int32_t ndim, const int64_t *sizes) {
  tenon_tensor_spec spec;
  tenon_tensor *tensor = NULL;
  SIZED(spec);
  spec.dtype = dtype;
  spec.ndim = ndim;
  spec.sizes = sizes;
  spec.offset = offset;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  return tensor;
}

/* Returns a contiguous tensor over a storage of its own. */
CHECK_UNUSED static tenon_tensor *strided(tenon_mode mode, tenon_dtype dtype, const void *data,
                                          int32_t ndim, const int64_t *sizes) {
  const tenon_storage_options options = check_storage_options(mode, 0);
  tenon_storage *storage = NULL;
  tenon_tensor *tensor;
  size_t nbytes = dtype.bits / 8;
  int32_t i;
  for (i = 0; i < ndim; i++) nbytes *= (size_t)sizes[i];
  OK(tenon_storage_new_from(&options, data, nbytes, &storage, ERR));
  tensor = part_over(storage, dtype, 0, ndim, sizes);
  tenon_storage_release(storage);
  return tensor;
}

CHECK_UNUSED static tenon_composite_spec empty_spec(int32_t layout) {
  tenon_composite_spec spec;
  SIZED(spec);
  spec.layout = layout;
  return spec;
}

CHECK_UNUSED static tenon_composite_spec spec_of(const tenon_composite *composite) {
  tenon_composite_spec spec = empty_spec(0);
  OK(tenon_composite_get_spec(composite, &spec, ERR));
  return spec;
}

/* Returns a CSR tensor: [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]] if `last`, the column of the 3,
 * is 1. Each part has a storage of its own. */
CHECK_UNUSED static tenon_composite *new_csr(tenon_mode mode, int64_t last) {
  static const int64_t sizes[] = {3, 4}, three[] = {3}, four[] = {4}, pointers[] = {0, 2, 2, 3};
  static const float values[] = {1, 2, 3};
  int64_t columns[] = {0, 3, 0};
  tenon_composite_spec spec = empty_spec(TENON_TENSOR_LAYOUT_SPARSE_CSR);
  tenon_composite *composite = NULL;
  columns[2] = last;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.flags = TENON_TENSOR_REQUIRES_GRAD;
  spec.values = strided(mode, kFloat, values, 1, three);
  spec.indices = strided(mode, kLong, pointers, 1, four);
  spec.plain_indices = strided(mode, kLong, columns, 1, three);
  OK(tenon_composite_new(&spec, &composite, ERR));
  tenon_tensor_release(spec.values);
  tenon_tensor_release(spec.indices);
  tenon_tensor_release(spec.plain_indices);
  return composite;
}

#endif
