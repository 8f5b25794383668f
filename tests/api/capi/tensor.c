/* Tests tenon/tensor.h: layouts that fit their storage, layouts that do not, and views. */
#include "check.h"

static tenon_tensor *const kNothing = PATTERN;

static tenon_tensor_spec spec_of(uint8_t code, uint8_t bits, uint16_t lanes, int32_t ndim,
                                 const int64_t *sizes, const int64_t *strides, uint64_t offset) {
  tenon_tensor_spec spec;
  SIZED(spec);
  spec.dtype.code = code;
  spec.dtype.bits = bits;
  spec.dtype.lanes = lanes;
  spec.ndim = ndim;
  spec.sizes = sizes;
  spec.strides = strides;
  spec.offset = offset;
  return spec;
}

static void dtypes(void) {
  static const tenon_dtype types[] = {{TENON_DTYPE_INT, 8, 1},
                                      {TENON_DTYPE_INT, 16, 1},
                                      {TENON_DTYPE_INT, 32, 1},
                                      {TENON_DTYPE_INT, 64, 1},
                                      {TENON_DTYPE_UINT, 8, 1},
                                      {TENON_DTYPE_UINT, 64, 1},
                                      {TENON_DTYPE_FLOAT, 16, 1},
                                      {TENON_DTYPE_FLOAT, 32, 1},
                                      {TENON_DTYPE_FLOAT, 64, 1},
                                      {TENON_DTYPE_BFLOAT, 16, 1},
                                      {TENON_DTYPE_COMPLEX, 32, 1},
                                      {TENON_DTYPE_COMPLEX, 64, 1},
                                      {TENON_DTYPE_COMPLEX, 128, 1},
                                      {TENON_DTYPE_BOOL, 8, 1},
                                      {TENON_DTYPE_FLOAT, 32, 4},
                                      {TENON_DTYPE_FLOAT8_E3M4, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E4M3, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E4M3B11FNUZ, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E4M3FN, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E4M3FNUZ, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E5M2, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E5M2FNUZ, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E8M0FNU, 8, 1},
                                      {TENON_DTYPE_FLOAT6_E2M3FN, 6, 1},
                                      {TENON_DTYPE_FLOAT6_E3M2FN, 6, 1},
                                      {TENON_DTYPE_FLOAT4_E2M1FN, 4, 1},
                                      {TENON_DTYPE_FLOAT4_E2M1FN, 4, 2},
                                      {TENON_DTYPE_INT, 4, 1}};
  static const int64_t sizes[] = {3, 5};
  size_t i;
  for (i = 0; i < COUNT_OF(types); i++) {
    uint64_t bits = (uint64_t)types[i].bits * types[i].lanes, nbytes = (15 * bits + 7) / 8;
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, nbytes, 1),
                  *small = check_storage(TENON_MODE_SHARED, 0, nbytes - 1, 1);
    tenon_tensor_spec spec =
                          spec_of(types[i].code, types[i].bits, types[i].lanes, 2, sizes, NULL, 0),
                      got = spec;
    tenon_tensor *tensor = NULL, *out = kNothing;
    SIZED(got);
    OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
    OK(tenon_tensor_get_spec(tensor, &got, ERR));
    CHECK(memcmp(&got.dtype, &types[i], sizeof(types[i])) == 0);
    CHECK(got.ndim == 2 && got.sizes[0] == 3 && got.sizes[1] == 5 && got.strides[0] == 5 &&
          got.strides[1] == 1 && got.offset == 0 && got.flags == 0);
    CHECK(tenon_tensor_numel(tensor) == 15 && tenon_tensor_nbytes(tensor) == nbytes &&
          tenon_tensor_is_contiguous(tensor) == 1);
    INVALID_KEEPING(out, tenon_tensor_new(small, &spec, &out, ERR));
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
    tenon_storage_release(small);
  }
}

static void bad_dtypes(void) {
  static const tenon_dtype types[] = {{TENON_DTYPE_INT, 0, 1},
                                      {TENON_DTYPE_INT, 32, 0},
                                      {TENON_DTYPE_FLOAT, 7, 1},
                                      {3 /* opaque handle */, 64, 1},
                                      {18, 8, 1},
                                      {200, 8, 1},
                                      {255, 255, 65535},
                                      {TENON_DTYPE_BOOL, 0, 0},
                                      {TENON_DTYPE_FLOAT, 8, 1},
                                      {TENON_DTYPE_FLOAT8_E5M2, 16, 1}};
  static const int64_t sizes[] = {1};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 1 << 20, 1);
  size_t i;
  for (i = 0; i < COUNT_OF(types); i++) {
    tenon_tensor_spec spec =
        spec_of(types[i].code, types[i].bits, types[i].lanes, 1, sizes, NULL, 0);
    tenon_tensor *out = kNothing;
    FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                         tenon_tensor_new(storage, &spec, &out, ERR));
  }
  tenon_storage_release(storage);
}

static void views(void) {
  static const int64_t sizes[] = {4, 6}, transposed[] = {6, 4}, transposed_strides[] = {1, 6};
  static const int64_t reversed_strides[] = {-6, -1}, wide[] = {1000}, zero_stride[] = {0},
                       part[] = {2, 3}, part_strides[] = {12, 2};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 24 * 4, 1);
  tenon_tensor *tensor = NULL;
  tenon_tensor_spec spec;
  const char *base = tenon_storage_data(storage);
  void *data = NULL;

  spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, 2, transposed, transposed_strides, 0);
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_is_contiguous(tensor) == 0 && tenon_tensor_numel(tensor) == 24 &&
        tenon_tensor_nbytes(tensor) == 96);
  CHECK(tenon_tensor_data(tensor) == base && tenon_tensor_storage(tensor) == storage);
  tenon_tensor_release(tensor);

  spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, 2, sizes, reversed_strides, 23);
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == base + 23 * 4 && tenon_tensor_is_contiguous(tensor) == 0);
  OK(tenon_tensor_data_mut(tensor, &data, ERR));
  CHECK(data == base + 23 * 4);
  tenon_tensor_release(tensor);

  spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, 1, wide, zero_stride, 23);
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 1000);
  tenon_tensor_release(tensor);

  spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, 2, part, part_strides,
                 7); /* the last element has the index 23 */
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  tenon_tensor_release(tensor);
  spec.offset = 8;
  tensor = kNothing;
  INVALID_KEEPING(tensor, tenon_tensor_new(storage, &spec, &tensor, ERR));

  spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, 0, NULL, NULL, 23); /* a scalar */
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 1 && tenon_tensor_nbytes(tensor) == 4 &&
        tenon_tensor_is_contiguous(tensor) == 1);
  CHECK(tenon_storage_use_count(storage) == 2);
  CHECK(tenon_tensor_retain(tensor) == tensor);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  CHECK(check_filled(tenon_storage_data(tenon_tensor_storage(tensor)), 96,
                     1)); /* a view keeps its storage alive */
  tenon_tensor_release(tensor);
}

static void without_elements(void) {
  static const int64_t none[] = {0}, mixed[] = {INT64_MAX, 0, INT64_MAX}, strides[] = {1, 1, 1};
  tenon_storage *empty = NULL, *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = NULL;
  tenon_tensor_spec spec = spec_of(TENON_DTYPE_FLOAT, 64, 1, 1, none, NULL, 0);
  static const int64_t one[] = {1};
  OK(tenon_storage_new(NULL, 0, &empty, ERR));
  OK(tenon_tensor_new(empty, &spec, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 0 && tenon_tensor_nbytes(tensor) == 0 &&
        tenon_tensor_data(tensor) == NULL && tenon_tensor_is_contiguous(tensor) == 1);
  tenon_tensor_release(tensor);
  spec = spec_of(TENON_DTYPE_FLOAT, 64, 1, 3, mixed, strides,
                 0); /* a size of 0 makes it empty, whatever would overflow */
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 0);
  tenon_tensor_release(tensor);
  tensor = kNothing;
  spec = spec_of(TENON_DTYPE_FLOAT, 64, 1, 1, one, NULL, 0);
  INVALID_KEEPING(tensor, tenon_tensor_new(empty, &spec, &tensor, ERR));
  spec = spec_of(TENON_DTYPE_FLOAT, 64, 1, 0, NULL, NULL, 0);
  INVALID_KEEPING(tensor, tenon_tensor_new(empty, &spec, &tensor, ERR));
  tenon_storage_release(empty);
  tenon_storage_release(storage);
}

static void overflows(void) {
  static const struct {
    int32_t ndim;
    int64_t sizes[3], strides[3];
    int with_strides;
    uint64_t offset;
  } bad[] = {{1, {-1, 0, 0}, {0}, 0, 0},
             {2, {0, -1, 0}, {0}, 0, 0},
             {1, {INT64_MIN, 0, 0}, {0}, 0, 0},
             {1, {INT64_MAX, 0, 0}, {0}, 0, 0},
             {2, {1LL << 32, 1LL << 32, 0}, {0}, 0, 0},
             {3, {1LL << 31, 1LL << 31, 4}, {0}, 0, 0},
             {2, {1LL << 62, 2, 0}, {0}, 0, 0},
             {1, {1LL << 60, 0, 0}, {0}, 0, 0},
             {1, {2, 0, 0}, {INT64_MAX, 0, 0}, 1, 0},
             {1, {2, 0, 0}, {INT64_MIN, 0, 0}, 1, 0},
             {1, {2, 0, 0}, {-1, 0, 0}, 1, 0},
             {1, {17, 0, 0}, {-1, 0, 0}, 1, 15},
             {2, {2, 2, 0}, {INT64_MAX, INT64_MAX, 0}, 1, 0},
             {2, {2, 2, 0}, {INT64_MIN, INT64_MIN, 0}, 1, UINT64_MAX},
             {2, {2, 2, 0}, {INT64_MAX, INT64_MIN, 0}, 1, 1},
             {2, {1LL << 40, 2, 0}, {1LL << 40, 1, 0}, 1, 0},
             {1, {1, 0, 0}, {1, 0, 0}, 1, 16},
             {1, {1, 0, 0}, {1, 0, 0}, 1, UINT64_MAX},
             {1, {1, 0, 0}, {1, 0, 0}, 1, 1ULL << 61},
             {1, {1, 0, 0}, {1, 0, 0}, 1, (1ULL << 62) + 1},
             {0, {0}, {0}, 0, 16},
             {0, {0}, {0}, 0, UINT64_MAX},
             {1, {17, 0, 0}, {0}, 0, 0},
             {1, {16, 0, 0}, {0}, 0, 1},
             {1, {9, 0, 0}, {2, 0, 0}, 1, 0}};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1); /* 16 floats */
  size_t i;
  for (i = 0; i < COUNT_OF(bad); i++) {
    tenon_tensor_spec spec = spec_of(TENON_DTYPE_FLOAT, 32, 1, bad[i].ndim, bad[i].sizes,
                                     bad[i].with_strides ? bad[i].strides : NULL, bad[i].offset);
    tenon_tensor *out = kNothing;
    INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  }
  CHECK(tenon_storage_use_count(storage) == 1);
  tenon_storage_release(storage);
}

static void bad_specs(void) {
  static int64_t sizes[80], strides[80];
  struct {
    tenon_tensor_spec spec;
    unsigned char tail[16];
  } larger;
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor_spec spec, good;
  tenon_tensor *out = kNothing, *tensor = NULL;
  size_t i;
  for (i = 0; i < COUNT_OF(sizes); i++) sizes[i] = 1;
  good = spec_of(TENON_DTYPE_UINT, 8, 1, 1, sizes, NULL, 0);
  INVALID_KEEPING(out, tenon_tensor_new(NULL, &good, &out, ERR));
  INVALID_KEEPING(out, tenon_tensor_new(storage, NULL, &out, ERR));
  INVALID(tenon_tensor_new(storage, &good, NULL, ERR));
  spec = good;
  spec.struct_size = 0;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec.struct_size = sizeof(spec) - 1;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec = good;
  spec.sizes = NULL;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec = good;
  spec.ndim = -1;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec.ndim = INT32_MIN;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec.ndim = INT32_MAX;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec.ndim = TENON_TENSOR_MAX_NDIM + 1;
  INVALID_KEEPING(out, tenon_tensor_new(storage, &spec, &out, ERR));
  spec = good;
  spec.flags = 1U << 31;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_tensor_new(storage, &spec, &out, ERR));
  spec = good;
  spec.reserved = 1;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_tensor_new(storage, &spec, &out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.spec = good;
  larger.spec.struct_size = sizeof(larger);
  larger.tail[15] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_tensor_new(storage, &larger.spec, &out, ERR));
  larger.tail[15] = 0;
  OK(tenon_tensor_new(storage, &larger.spec, &tensor, ERR));
  tenon_tensor_release(tensor);

  spec = spec_of(TENON_DTYPE_UINT, 8, 1, TENON_TENSOR_MAX_NDIM, sizes, NULL, 63);
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  spec = good;
  spec.struct_size = 0;
  INVALID_KEEPING(spec, tenon_tensor_get_spec(tensor, &spec, ERR));
  spec.struct_size = sizeof(spec) - 1;
  INVALID_KEEPING(spec, tenon_tensor_get_spec(tensor, &spec, ERR));
  spec.struct_size = sizeof(spec);
  INVALID_KEEPING(spec, tenon_tensor_get_spec(NULL, &spec, ERR));
  INVALID(tenon_tensor_get_spec(tensor, NULL, ERR));
  INVALID(tenon_tensor_data_mut(tensor, NULL, ERR));
  OK(tenon_tensor_get_spec(tensor, &spec, ERR));
  CHECK(spec.ndim == TENON_TENSOR_MAX_NDIM && spec.sizes[63] == 1);
  tenon_tensor_release(tensor);

  strides[0] = 2; /* elements under 8 bits: contiguous, from a whole byte on */
  sizes[0] = 4;
  spec = spec_of(TENON_DTYPE_FLOAT4_E2M1FN, 4, 1, 1, sizes, strides, 0);
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_tensor_new(storage, &spec, &out, ERR));
  strides[0] = 1;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  CHECK(tenon_tensor_nbytes(tensor) == 2);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

static void flags_travel(void) {
  static const int64_t sizes[] = {8};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor_spec spec = spec_of(TENON_DTYPE_COMPLEX, 64, 1, 1, sizes, NULL, 0), got;
  tenon_tensor *tensor = NULL;
  spec.flags =
      TENON_TENSOR_REQUIRES_GRAD | TENON_TENSOR_IS_PARAMETER | TENON_TENSOR_CONJ | TENON_TENSOR_NEG;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  SIZED(got);
  OK(tenon_tensor_get_spec(tensor, &got, ERR));
  CHECK(got.flags == spec.flags);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

static void read_only_tensors(void) {
  tenon_storage *storage = check_storage(TENON_MODE_FROZEN, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  void *data = PATTERN;
  FAILS_KEEPING(TENON_PERMISSION, data, tenon_tensor_data_mut(tensor, &data, ERR));
  CHECK(tenon_tensor_data(tensor) == tenon_storage_data(storage));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

static tenon_index index_of(int32_t kind, int64_t start, int64_t stop, int64_t step) {
  tenon_index item;
  memset(&item, 0, sizeof(item));
  item.struct_size = sizeof(item);
  item.kind = kind;
  item.start = start;
  item.stop = stop;
  item.step = step;
  return item;
}

/* Checks that a view has this layout and the flags and the storage of `of`, and releases it. */
static void check_view(tenon_tensor *view, const tenon_tensor *of, int32_t ndim,
                       const int64_t *sizes, const int64_t *strides, uint64_t offset) {
  tenon_tensor_spec got, from;
  size_t nbytes = (size_t)ndim * sizeof(int64_t);
  memset(&got, 0, sizeof(got));
  got.struct_size = sizeof(got);
  from = got;
  OK(tenon_tensor_get_spec(view, &got, ERR));
  OK(tenon_tensor_get_spec(of, &from, ERR));
  CHECK(got.ndim == ndim && got.offset == offset && got.flags == from.flags);
  CHECK(ndim == 0 ||
        (memcmp(got.sizes, sizes, nbytes) == 0 && memcmp(got.strides, strides, nbytes) == 0));
  CHECK(tenon_tensor_storage(view) == tenon_tensor_storage(of));
  tenon_tensor_release(view);
}

static void views_of_a_tensor(void) {
  static const int64_t sizes[] = {4, 6}, strides[] = {6, 1}, flat[] = {-1}, all[] = {24},
                       one[] = {1}, three[] = {2, 2, 6}, three_strides[] = {12, 6, 1},
                       too_many[] = {5, 5}, bytes[] = {4, 24}, byte_strides[] = {24, 1},
                       part[] = {1, 3}, part_strides[] = {0, -2};
  static const tenon_dtype int8 = {TENON_DTYPE_INT, 8, 1}, int64 = {TENON_DTYPE_INT, 64, 1},
                           unknown = {200, 8, 1};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 32 * 4, 1);
  tenon_tensor_spec spec = spec_of(TENON_DTYPE_COMPLEX, 32, 1, 2, sizes, NULL, 1);
  tenon_tensor *tensor = NULL, *view = NULL, *out = kNothing;
  tenon_index items[] = {index_of(TENON_INDEX_NEW_AXIS, 0, 0, 0),
                         index_of(TENON_INDEX_NUMBER, -1, 0, 0),
                         index_of(TENON_INDEX_ELLIPSIS, 0, 0, 0),
                         index_of(TENON_INDEX_SLICE, INT64_MAX, INT64_MIN, -2)};
  spec.flags =
      TENON_TENSOR_CONJ | TENON_TENSOR_NEG | TENON_TENSOR_REQUIRES_GRAD | TENON_TENSOR_IS_PARAMETER;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  tenon_storage_release(storage);

  OK(tenon_tensor_reshape(tensor, flat, 1, &view, ERR));
  check_view(view, tensor, 1, all, one, 1);
  OK(tenon_tensor_reshape(tensor, three, 3, &view, ERR));
  check_view(view, tensor, 3, three, three_strides, 1);
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(tensor, too_many, 2, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(tensor, flat, -1, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(tensor, flat, 65, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(tensor, NULL, 1, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(tensor, NULL, 0, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_reshape(NULL, flat, 1, &out, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_tensor_reshape(tensor, flat, 1, NULL, ERR));

  OK(tenon_tensor_view_dtype(tensor, int8, &view, ERR));
  check_view(view, tensor, 2, bytes, byte_strides, 4);
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_view_dtype(tensor, int64, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_view_dtype(tensor, unknown, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_view_dtype(NULL, int8, &out, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_tensor_view_dtype(tensor, int8, NULL, ERR));

  OK(tenon_tensor_index(tensor, NULL, 0, &view, ERR));
  check_view(view, tensor, 2, sizes, strides, 1);
  OK(tenon_tensor_index(tensor, items, COUNT_OF(items), &view, ERR));
  check_view(view, tensor, 2, part, part_strides, 1 + 3 * 6 + 5);
  tenon_tensor_release(tensor);
}

static void wrong_indices(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 24, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage), *view = NULL, *out = kNothing;
  tenon_error *error = NULL;
  tenon_index item = index_of(TENON_INDEX_NUMBER, 24, 0, 0), many[130];
  struct {
    tenon_index item;
    int64_t tail;
  } larger[2];
  size_t i;
  tenon_storage_release(storage);
  CHECK(tenon_tensor_index(tensor, &item, 1, &out, &error) == TENON_INVALID_ARGUMENT);
  CHECK(out == kNothing && strcmp(tenon_error_detail(error, "item"), "0") == 0 &&
        strcmp(tenon_error_detail(error, "dimension"), "0") == 0 &&
        strcmp(tenon_error_detail(error, "size"), "24") == 0);
  tenon_error_release(error);
  item = index_of(TENON_INDEX_SLICE, 0, 1, 0); /* a step of 0 */
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, &item, 1, &out, ERR));
  item = index_of(4, 0, 0, 0);
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, &item, 1, &out, ERR));
  item = index_of(-1, 0, 0, 0);
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, &item, 1, &out, ERR));
  item = index_of(TENON_INDEX_NUMBER, 0, 0, 0);
  item.reserved = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_tensor_index(tensor, &item, 1, &out, ERR));
  item.reserved = 0;
  item.struct_size--;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, &item, 1, &out, ERR));
  item.struct_size++;
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, NULL, 1, &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(NULL, &item, 1, &out, ERR));
  FAILS(TENON_INVALID_ARGUMENT, tenon_tensor_index(tensor, &item, 1, NULL, ERR));
  for (i = 0; i < COUNT_OF(many); i++) many[i] = index_of(TENON_INDEX_NEW_AXIS, 0, 0, 0);
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out,
                tenon_tensor_index(tensor, many, COUNT_OF(many), &out, ERR));
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, many, SIZE_MAX, &out, ERR));
  many[1].struct_size += 8; /* the items must have one size */
  FAILS_KEEPING(TENON_INVALID_ARGUMENT, out, tenon_tensor_index(tensor, many, 2, &out, ERR));

  memset(larger, 0, sizeof(larger)); /* the items of a newer header */
  larger[0].item = index_of(TENON_INDEX_NEW_AXIS, 0, 0, 0);
  larger[1].item = index_of(TENON_INDEX_NUMBER, 7, 0, 0);
  larger[0].item.struct_size = larger[1].item.struct_size = sizeof(larger[0]);
  OK(tenon_tensor_index(tensor, &larger[0].item, 2, &view, ERR));
  CHECK(tenon_tensor_data(view) == (const char *)tenon_tensor_data(tensor) + 7);
  tenon_tensor_release(view);
  larger[1].tail = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_tensor_index(tensor, &larger[0].item, 2, &out, ERR));
  tenon_tensor_release(tensor);
}

static void null_is_allowed(void) {
  void *data = PATTERN;
  CHECK(tenon_tensor_retain(NULL) == NULL);
  tenon_tensor_release(NULL);
  CHECK(tenon_tensor_storage(NULL) == NULL);
  CHECK(tenon_tensor_data(NULL) == NULL);
  CHECK(tenon_tensor_numel(NULL) == 0);
  CHECK(tenon_tensor_nbytes(NULL) == 0);
  CHECK(tenon_tensor_is_contiguous(NULL) == 0);
  INVALID_KEEPING(data, tenon_tensor_data_mut(NULL, &data, ERR));
}

int main(void) {
  check_begin(60);
  RUN(dtypes);
  RUN(bad_dtypes);
  RUN(views);
  RUN(without_elements);
  RUN(overflows);
  RUN(bad_specs);
  RUN(flags_travel);
  RUN(read_only_tensors);
  RUN(views_of_a_tensor);
  RUN(wrong_indices);
  RUN(null_is_allowed);
  return 0;
}
