/* Tests tenon/scalar_type.h: PyTorch's element types by number and by name. */
#include "check.h"

static void every_type(void) {
  tenon_scalar_type type, out;
  size_t with_dtype = 0;
  for (type = 0; type <= TENON_SCALAR_TYPE_BCOMPLEX32; type++) {
    tenon_dtype dtype;
    memset(&dtype, 0, sizeof(dtype));
    CHECK(tenon_scalar_type_name(type) != NULL && tenon_scalar_type_storage_name(type) != NULL &&
          tenon_scalar_type_since(type) != NULL);
    CHECK(tenon_scalar_type_nbytes(type) >= 1 && tenon_scalar_type_nbytes(type) <= 16);
    out = -1;
    OK(tenon_scalar_type_parse(tenon_scalar_type_name(type), &out, ERR));
    CHECK_EQ(out, type);
    out = -1;
    OK(tenon_scalar_type_parse(tenon_scalar_type_storage_name(type), &out, ERR));
    CHECK_EQ(out, type);
    if (tenon_scalar_type_to_dtype(type, &dtype, NULL) == TENON_OK) {
      with_dtype++;
      out = -1;
      OK(tenon_scalar_type_from_dtype(dtype, &out, ERR));
      CHECK_EQ(out, type);
      CHECK_EQ(dtype.bits * dtype.lanes, 8 * tenon_scalar_type_nbytes(type));
    } else {
      FAILS(TENON_UNSUPPORTED, tenon_scalar_type_to_dtype(type, &dtype, ERR));
      CHECK(dtype.lanes == 0); /* untouched */
    }
  }
  CHECK_EQ(with_dtype, 22);
}

static void names(void) {
  tenon_scalar_type type = -5;
  CHECK(strcmp(tenon_scalar_type_name(TENON_SCALAR_TYPE_FLOAT), "float32") == 0);
  CHECK(strcmp(tenon_scalar_type_storage_name(TENON_SCALAR_TYPE_QUINT4X2), "QUInt4x2Storage") == 0);
  CHECK(strcmp(tenon_scalar_type_since(TENON_SCALAR_TYPE_FLOAT8_E5M2), "2.1") == 0);
  OK(tenon_scalar_type_parse("BFloat16", &type, ERR));
  CHECK_EQ(type, TENON_SCALAR_TYPE_BFLOAT16);
  INVALID(tenon_scalar_type_parse("float", &type, ERR));
  INVALID(tenon_scalar_type_parse("", &type, ERR));
  INVALID(tenon_scalar_type_parse(NULL, &type, ERR));
  INVALID(tenon_scalar_type_parse("float32", NULL, ERR));
  CHECK_EQ(type, TENON_SCALAR_TYPE_BFLOAT16); /* untouched */
}

static void no_types(void) {
  static const tenon_scalar_type numbers[] = {-1, 47, 255, INT32_MAX, INT32_MIN};
  tenon_scalar_type type = -5;
  tenon_dtype dtype;
  size_t i;
  memset(&dtype, 0, sizeof(dtype));
  for (i = 0; i < COUNT_OF(numbers); i++) {
    CHECK(tenon_scalar_type_name(numbers[i]) == NULL &&
          tenon_scalar_type_storage_name(numbers[i]) == NULL);
    CHECK(tenon_scalar_type_since(numbers[i]) == NULL && tenon_scalar_type_nbytes(numbers[i]) == 0);
    INVALID(tenon_scalar_type_to_dtype(numbers[i], &dtype, ERR));
  }
  INVALID(tenon_scalar_type_to_dtype(TENON_SCALAR_TYPE_FLOAT, NULL, ERR));
  INVALID(tenon_scalar_type_from_dtype(dtype, NULL, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_scalar_type_from_dtype(dtype, &type, ERR));
  dtype.code = TENON_DTYPE_FLOAT;
  dtype.bits = 128;
  dtype.lanes = 1;
  FAILS(TENON_UNSUPPORTED, tenon_scalar_type_from_dtype(dtype, &type, ERR));
  CHECK_EQ(type, -5);
}

int main(void) {
  check_begin(60);
  RUN(every_type);
  RUN(names);
  RUN(no_types);
  return 0;
}
