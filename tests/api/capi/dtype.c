/* Tests tenon/dtype.h: names of element types, and the bytes of packed tensors. */
#include "check.h"

static tenon_dtype make(uint8_t code, uint8_t bits, uint16_t lanes) {
  tenon_dtype dtype;
  dtype.code = code;
  dtype.bits = bits;
  dtype.lanes = lanes;
  return dtype;
}

static void names(void) {
  char name[TENON_DTYPE_MAX_NAME_NBYTES], small[5] = "....";
  tenon_dtype dtype = make(1, 2, 3);
  CHECK(tenon_dtype_name(make(TENON_DTYPE_FLOAT, 32, 1), name, sizeof(name)) == 7 &&
        strcmp(name, "float32") == 0);
  CHECK(tenon_dtype_name(make(TENON_DTYPE_UINT, 8, 4), name, sizeof(name)) == 7 &&
        strcmp(name, "uint8x4") == 0);
  CHECK(tenon_dtype_name(make(3, 64, 1), name, sizeof(name)) == 10 &&
        strcmp(name, "dtype_3_64") == 0);
  CHECK(tenon_dtype_name(make(255, 255, 65535), name, sizeof(name)) < sizeof(name));
  CHECK(tenon_dtype_name(make(TENON_DTYPE_BFLOAT, 16, 1), small, sizeof(small)) == 8 &&
        strcmp(small, "bflo") == 0);
  CHECK(tenon_dtype_name(make(TENON_DTYPE_BFLOAT, 16, 1), NULL, 0) == 8);
  OK(tenon_dtype_parse("complex64", &dtype, ERR));
  CHECK(dtype.code == TENON_DTYPE_COMPLEX && dtype.bits == 64 && dtype.lanes == 1);
  OK(tenon_dtype_parse("float8_e4m3fnx2", &dtype, ERR));
  CHECK(dtype.code == TENON_DTYPE_FLOAT8_E4M3FN && dtype.bits == 8 && dtype.lanes == 2);
  INVALID(tenon_dtype_parse("float31", &dtype, ERR));
  INVALID(tenon_dtype_parse(NULL, &dtype, ERR));
  INVALID(tenon_dtype_parse("float32", NULL, ERR));
  CHECK(dtype.code == TENON_DTYPE_FLOAT8_E4M3FN && dtype.lanes == 2); /* untouched */
}

static void nbytes(void) {
  static const int64_t sizes[] = {3, 5, -1};
  uint64_t bytes = 99;
  OK(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), sizes, 2, &bytes, ERR));
  CHECK(bytes == 120);
  OK(tenon_dtype_nbytes(make(TENON_DTYPE_INT, 4, 1), sizes, 1, &bytes, ERR));
  CHECK(bytes == 2);
  OK(tenon_dtype_nbytes(make(TENON_DTYPE_BOOL, 8, 1), NULL, 0, &bytes, ERR));
  CHECK(bytes == 1);
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), sizes, 3, &bytes, ERR));
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 63, 1), sizes, 2, &bytes, ERR));
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), sizes, 65, &bytes, ERR));
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), sizes, -1, &bytes, ERR));
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), NULL, 1, &bytes, ERR));
  INVALID(tenon_dtype_nbytes(make(TENON_DTYPE_FLOAT, 64, 1), sizes, 2, NULL, ERR));
  CHECK(bytes == 1);
}

int main(void) {
  check_begin(60);
  RUN(names);
  RUN(nbytes);
  return 0;
}
