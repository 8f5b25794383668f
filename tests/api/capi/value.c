/* Tests tenon/value.h: values of every kind that are made, read and refused. */
#include "check.h"

#include <math.h>

static tenon_value *const kNothing = PATTERN;

static tenon_value *new_int(int64_t number) {
  tenon_value *value = NULL;
  OK(tenon_value_new_int(number, &value, ERR));
  return value;
}

static tenon_value *new_str(const char *text) {
  tenon_value *value = NULL;
  OK(tenon_value_new_str(text, strlen(text), &value, ERR));
  return value;
}

static tenon_value *new_none(void) {
  tenon_value *value = NULL;
  OK(tenon_value_new_none(&value, ERR));
  return value;
}

/* Returns a value that takes over the references of the items. */
static tenon_value *new_tuple(tenon_value *const *items, size_t n) {
  tenon_value *value = NULL;
  size_t i;
  OK(tenon_value_new_tuple(NULL, items, n, &value, ERR));
  for (i = 0; i < n; i++) tenon_value_release(items[i]);
  return value;
}

static void has_type(const tenon_value *value, const char *want) {
  char text[128];
  size_t nbytes = 0;
  OK(tenon_value_type(value, text, sizeof(text), &nbytes, ERR));
  if (strcmp(text, want) != 0) {
    fprintf(stderr, "type %s, wanted %s\n", text, want);
    check_fail(__FILE__, __LINE__, want);
  }
  CHECK_EQ(nbytes, strlen(want));
}

static void numbers(void) {
  tenon_value *value = NULL;
  int flag = 5;
  int64_t number = 5;
  double real = 5, imaginary = 5;
  value = new_none();
  CHECK_EQ(tenon_value_kind(value), TENON_VALUE_NONE);
  has_type(value, "NoneType");
  CHECK_EQ(tenon_value_count(value), 0);
  tenon_value_release(value);
  OK(tenon_value_new_bool(7, &value, ERR));
  CHECK_EQ(tenon_value_kind(value), TENON_VALUE_BOOL);
  OK(tenon_value_get_bool(value, &flag, ERR));
  CHECK_EQ(flag, 1);
  INVALID(tenon_value_get_int(value, &number, ERR));
  CHECK_EQ(number, 5);
  tenon_value_release(value);
  value = new_int(INT64_MIN);
  OK(tenon_value_get_int(value, &number, ERR));
  CHECK(number == INT64_MIN);
  INVALID(tenon_value_get_float(value, &real, ERR));
  INVALID(tenon_value_get_bool(value, &flag, ERR));
  tenon_value_release(value);
  OK(tenon_value_new_float(-INFINITY, &value, ERR));
  OK(tenon_value_get_float(value, &real, ERR));
  CHECK(isinf(real) && real < 0);
  tenon_value_release(value);
  OK(tenon_value_new_complex(1.5, -2.5, &value, ERR));
  OK(tenon_value_get_complex(value, &real, &imaginary, ERR));
  CHECK(real == 1.5 && imaginary == -2.5);
  INVALID(tenon_value_get_complex(value, &real, NULL, ERR));
  INVALID(tenon_value_get_complex(value, NULL, &imaginary, ERR));
  has_type(value, "complex");
  tenon_value_release(value);
  INVALID(tenon_value_new_none(NULL, ERR));
  INVALID(tenon_value_get_int(NULL, &number, ERR));
  CHECK_EQ(tenon_value_kind(NULL), -1);
  CHECK_EQ(tenon_value_count(NULL), 0);
  CHECK(tenon_value_retain(NULL) == NULL);
  tenon_value_release(NULL);
}

static void texts(void) {
  tenon_value *value = NULL, *out = kNothing;
  const char *text = NULL;
  size_t nbytes = 0;
  OK(tenon_value_new_str("a\0b", 3, &value, ERR));
  OK(tenon_value_get_str(value, &text, &nbytes, ERR));
  CHECK(nbytes == 3 && memcmp(text, "a\0b", 4) == 0);
  OK(tenon_value_get_str(value, &text, NULL, ERR));
  INVALID(tenon_value_get_device(value, &text, ERR));
  tenon_value_release(value);
  OK(tenon_value_new_str(NULL, 0, &value, ERR));
  OK(tenon_value_get_str(value, &text, &nbytes, ERR));
  CHECK(nbytes == 0 && text[0] == '\0');
  tenon_value_release(value);
  INVALID_KEEPING(out, tenon_value_new_str(NULL, 1, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_str("\xff", 1, &out, ERR));
  OK(tenon_value_new_device("cuda:0", &value, ERR));
  OK(tenon_value_get_device(value, &text, ERR));
  CHECK(strcmp(text, "cuda:0") == 0);
  has_type(value, "Device");
  tenon_value_release(value);
  INVALID_KEEPING(out, tenon_value_new_device("", &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_device(NULL, &out, ERR));
}

static void tuples(void) {
  tenon_value *items[3], *tuple = NULL, *item = NULL, *out = kNothing;
  items[0] = new_int(1);
  items[1] = new_str("a");
  items[2] = items[0];
  OK(tenon_value_new_tuple(NULL, items, 3, &tuple, ERR));
  CHECK_EQ(tenon_value_count(tuple), 3);
  has_type(tuple, "Tuple[int, str, int]");
  OK(tenon_value_item(tuple, 2, &item, ERR));
  CHECK(item == items[0]);
  tenon_value_release(item);
  INVALID_KEEPING(out, tenon_value_item(tuple, 3, &out, ERR));
  INVALID_KEEPING(out, tenon_value_key(tuple, 0, &out, ERR));
  INVALID_KEEPING(out, tenon_value_find(tuple, "a", &out, ERR));
  CHECK(strcmp(tenon_value_class_name(tuple), "") == 0);
  CHECK(tenon_value_attribute_name(tuple, 0) == NULL);
  tenon_value_release(tuple);
  OK(tenon_value_new_tuple("__torch__.P", items, 2, &tuple, ERR));
  CHECK(strcmp(tenon_value_class_name(tuple), "__torch__.P") == 0);
  has_type(tuple, "__torch__.P");
  tenon_value_release(tuple);
  OK(tenon_value_new_tuple(NULL, NULL, 0, &tuple, ERR));
  has_type(tuple, "Tuple[()]");
  tenon_value_release(tuple);
  INVALID_KEEPING(out, tenon_value_new_tuple("no name", items, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_tuple(NULL, NULL, 1, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_tuple(NULL, items, SIZE_MAX, &out, ERR));
  items[2] = NULL;
  INVALID_KEEPING(out, tenon_value_new_tuple(NULL, items, 3, &out, ERR));
  tenon_value_release(items[0]);
  tenon_value_release(items[1]);
}

static void lists(void) {
  tenon_value *items[2], *list = NULL, *out = kNothing;
  tenon_error *error = NULL;
  items[0] = new_int(1);
  items[1] = new_str("a");
  OK(tenon_value_new_list("List[int]", items, 1, &list, ERR));
  CHECK_EQ(tenon_value_kind(list), TENON_VALUE_LIST);
  has_type(list, "List[int]");
  OK(tenon_value_check(list, "List[int]", ERR));
  INVALID(tenon_value_check(list, "List[Optional[int]]", ERR));
  tenon_value_release(list);
  OK(tenon_value_new_list("list[str | int]", items, 2, &list, ERR));
  has_type(list, "List[Union[int, str]]");
  tenon_value_release(list);
  OK(tenon_value_new_list(NULL, items, 2, &list, ERR));
  has_type(list, "List[Any]");
  tenon_value_release(list);
  CHECK(tenon_value_new_list("List[int]", items, 2, &out, &error) == TENON_INVALID_ARGUMENT &&
        out == kNothing);
  CHECK(strcmp(tenon_error_detail(error, "where"), "list[1]") == 0 &&
        strcmp(tenon_error_detail(error, "wanted"), "int") == 0 &&
        strcmp(tenon_error_detail(error, "found"), "str") == 0);
  tenon_error_release(error);
  error = NULL;
  CHECK(tenon_value_new_list("List[itn]", items, 1, &out, &error) == TENON_INVALID_ARGUMENT &&
        out == kNothing);
  CHECK(strcmp(tenon_error_detail(error, "column"), "6") == 0);
  tenon_error_release(error);
  INVALID_KEEPING(out, tenon_value_new_list("int", items, 1, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_list("Dict[str, int]", items, 1, &out, ERR));
  tenon_value_release(items[0]);
  tenon_value_release(items[1]);
}

static void dicts(void) {
  tenon_value *keys[2], *values[2], *dict = NULL, *item = NULL, *out = kNothing;
  keys[0] = new_str("b");
  keys[1] = new_str("a");
  values[0] = new_int(1);
  values[1] = new_int(2);
  OK(tenon_value_new_dict("Dict[str, int]", keys, values, 2, &dict, ERR));
  CHECK_EQ(tenon_value_count(dict), 2);
  OK(tenon_value_key(dict, 1, &item, ERR));
  CHECK(item == keys[1]);
  tenon_value_release(item);
  OK(tenon_value_item(dict, 1, &item, ERR));
  CHECK(item == values[1]);
  tenon_value_release(item);
  OK(tenon_value_find(dict, "b", &item, ERR));
  CHECK(item == values[0]);
  tenon_value_release(item);
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_value_find(dict, "c", &out, ERR));
  INVALID_KEEPING(out, tenon_value_find(dict, NULL, &out, ERR));
  INVALID_KEEPING(out, tenon_value_item(dict, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_key(dict, 2, &out, ERR));
  tenon_value_release(dict);
  OK(tenon_value_new_dict(NULL, NULL, NULL, 0, &dict, ERR));
  has_type(dict, "Dict[Any, Any]");
  tenon_value_release(dict);
  INVALID_KEEPING(out, tenon_value_new_dict("Dict[int, int]", keys, values, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_dict("Dict[str, str]", keys, values, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_dict(NULL, NULL, values, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_dict(NULL, keys, NULL, 2, &out, ERR));
  tenon_value_release(keys[1]);
  keys[1] = new_str("b");
  INVALID_KEEPING(out, tenon_value_new_dict(NULL, keys, values, 2, &out, ERR));
  tenon_value_release(keys[0]);
  tenon_value_release(keys[1]);
  tenon_value_release(values[0]);
  tenon_value_release(values[1]);
}

static void objects(void) {
  static const char *const names[] = {"x", "y"};
  static const char *const twice[] = {"x", "x"};
  static const char *const empty[] = {"x", ""};
  tenon_value *values[2], *object = NULL, *item = NULL, *out = kNothing;
  values[0] = new_int(1);
  values[1] = new_str("a");
  OK(tenon_value_new_object("__torch__.C", names, values, 2, &object, ERR));
  CHECK_EQ(tenon_value_kind(object), TENON_VALUE_OBJECT);
  CHECK(strcmp(tenon_value_class_name(object), "__torch__.C") == 0);
  CHECK_EQ(tenon_value_count(object), 2);
  CHECK(tenon_value_is_opaque(object) == 0);
  CHECK(strcmp(tenon_value_attribute_name(object, 1), "y") == 0 &&
        tenon_value_attribute_name(object, 2) == NULL);
  OK(tenon_value_find(object, "y", &item, ERR));
  CHECK(item == values[1]);
  tenon_value_release(item);
  FAILS_KEEPING(TENON_NOT_FOUND, out, tenon_value_find(object, "z", &out, ERR));
  OK(tenon_value_check(object, "Optional[__torch__.C]", ERR));
  INVALID(tenon_value_check(object, "__torch__.D", ERR));
  INVALID(tenon_value_check(object, "C", ERR));
  tenon_value_release(object);
  INVALID_KEEPING(out, tenon_value_new_object("__torch__.C", twice, values, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_object("__torch__.C", empty, values, 2, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_object(NULL, names, values, 2, &out, ERR));
  OK(tenon_value_new_opaque("__torch__.torch.classes.a.B", values[0], &object, ERR));
  CHECK(tenon_value_is_opaque(object) == 1 && tenon_value_attribute_name(object, 0) == NULL);
  CHECK_EQ(tenon_value_count(object), 1);
  OK(tenon_value_item(object, 0, &item, ERR));
  CHECK(item == values[0]);
  tenon_value_release(item);
  INVALID_KEEPING(out, tenon_value_find(object, "x", &out, ERR));
  tenon_value_release(object);
  INVALID_KEEPING(out, tenon_value_new_opaque("a.B", NULL, &out, ERR));
  OK(tenon_value_new_enum("__torch__.Colour", values[1], &object, ERR));
  CHECK_EQ(tenon_value_kind(object), TENON_VALUE_ENUM);
  has_type(object, "__torch__.Colour");
  OK(tenon_value_item(object, 0, &item, ERR));
  CHECK(item == values[1]);
  tenon_value_release(item);
  INVALID_KEEPING(out, tenon_value_new_enum("__torch__.Colour", object, &out, ERR));
  tenon_value_release(object);
  tenon_value_release(values[0]);
  tenon_value_release(values[1]);
}

static void types(void) {
  char text[32], small[6];
  size_t nbytes = 0;
  tenon_value *tuple = NULL, *item;
  int i;
  OK(tenon_type_text("Union[None, str]", text, sizeof(text), &nbytes, ERR));
  CHECK(strcmp(text, "Optional[str]") == 0 && nbytes == 13);
  OK(tenon_type_text("Union[None, str]", small, sizeof(small), NULL, ERR));
  CHECK(strcmp(small, "Optio") == 0);
  OK(tenon_type_text("int", NULL, 0, &nbytes, ERR));
  CHECK_EQ(nbytes, 3);
  INVALID(tenon_type_text("List[", text, sizeof(text), &nbytes, ERR));
  INVALID(tenon_type_text(NULL, text, sizeof(text), &nbytes, ERR));
  INVALID(tenon_type_text("int", NULL, 1, &nbytes, ERR));
  CHECK_EQ(nbytes, 3);
  /* Nested tuples, each with the same tuple twice. The type has 2^40 parts, and is too deep. */
  tuple = new_int(1);
  for (i = 0; i < 40; i++) {
    tenon_value *two[2];
    two[0] = tuple;
    two[1] = tenon_value_retain(tuple);
    tuple = new_tuple(two, 2);
  }
  has_type(tuple, "tuple");
  for (i = 0; i < 100000; i++) {
    item = tuple;
    tuple = new_tuple(&item, 1);
  }
  has_type(tuple, "tuple");
  INVALID(tenon_value_check(tuple, "Any", ERR));
  tenon_value_release(tuple);
}

static void tensors(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage), *got = NULL, *nothing = PATTERN;
  tenon_value *value = NULL, *out = kNothing;
  tenon_value_tensor_spec spec;
  SIZED(spec);
  OK(tenon_value_new_tensor(tensor, &value, ERR));
  has_type(value, "Tensor");
  OK(tenon_value_get_tensor(value, &got, ERR));
  CHECK(tenon_tensor_storage(got) == storage && tenon_tensor_numel(got) == 64);
  tenon_tensor_release(got);
  OK(tenon_value_get_tensor_spec(value, &spec, ERR));
  CHECK(spec.scalar_type == TENON_SCALAR_TYPE_BYTE && spec.layout == TENON_TENSOR_LAYOUT_STRIDED &&
        spec.ndim == 1 && spec.flags == 0);
  CHECK(spec.sizes[0] == 64 && spec.strides[0] == 1 && spec.offset == 0);
  CHECK(spec.storage == storage && spec.storage_offset == 0 && spec.storage_numel == 64 &&
        strcmp(spec.device, "cpu") == 0);
  CHECK(spec.quantizer == TENON_QUANTIZER_NONE && spec.coalesced == TENON_COALESCED_UNKNOWN &&
        spec.indices == NULL);
  FAILS_KEEPING(TENON_NOT_FOUND, out,
                tenon_value_tensor_part(value, TENON_TENSOR_PART_SCALES, &out, ERR));
  INVALID_KEEPING(out, tenon_value_tensor_part(value, 0, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_tensor(NULL, &out, ERR));
  spec.struct_size = 8;
  INVALID(tenon_value_get_tensor_spec(value, &spec, ERR));
  tenon_value_release(value);
  value = new_int(1);
  INVALID_KEEPING(nothing, tenon_value_get_tensor(value, &nothing, ERR));
  tenon_value_release(value);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

static tenon_value_tensor_spec spec_of(tenon_scalar_type type, int32_t ndim, const int64_t *sizes,
                                       tenon_storage *storage) {
  tenon_value_tensor_spec spec;
  SIZED(spec);
  spec.scalar_type = type;
  spec.ndim = ndim;
  spec.sizes = sizes;
  spec.storage = storage;
  return spec;
}

static tenon_value *from_spec(const tenon_value_tensor_spec *spec) {
  tenon_value *value = NULL;
  OK(tenon_value_new_tensor_from_spec(spec, &value, ERR));
  return value;
}

static void quantized(void) {
  static const int64_t sizes[] = {2, 3}, channels[] = {3};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 24, 1);
  tenon_value_tensor_spec spec = spec_of(TENON_SCALAR_TYPE_QINT8, 2, sizes, storage), got, other;
  tenon_value *value, *scales, *zeros, *part = NULL, *out = kNothing;
  tenon_tensor *nothing = PATTERN;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR)); /* no quantizer */
  spec.quantizer = TENON_QUANTIZER_PER_TENSOR_AFFINE;
  spec.scale = 0.5;
  spec.zero_point = -3;
  value = from_spec(&spec);
  got = spec_of(0, 0, NULL, NULL);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(got.scalar_type == TENON_SCALAR_TYPE_QINT8 &&
        got.quantizer == TENON_QUANTIZER_PER_TENSOR_AFFINE && got.scale == 0.5 &&
        got.zero_point == -3 && got.strides[0] == 3 && got.storage_numel == 24);
  FAILS_KEEPING(TENON_UNSUPPORTED, nothing, tenon_value_get_tensor(value, &nothing, ERR));
  tenon_value_release(value);
  other = spec_of(TENON_SCALAR_TYPE_DOUBLE, 1, channels, storage);
  scales = from_spec(&other);
  other.scalar_type = TENON_SCALAR_TYPE_LONG;
  zeros = from_spec(&other);
  spec.quantizer = TENON_QUANTIZER_PER_CHANNEL_AFFINE;
  spec.axis = 1;
  spec.scales = scales;
  spec.zero_points = zeros;
  value = from_spec(&spec);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(got.quantizer == TENON_QUANTIZER_PER_CHANNEL_AFFINE && got.axis == 1 && got.scales == NULL);
  OK(tenon_value_tensor_part(value, TENON_TENSOR_PART_SCALES, &part, ERR));
  OK(tenon_value_get_tensor_spec(part, &got, ERR));
  CHECK(got.scalar_type == TENON_SCALAR_TYPE_DOUBLE && got.sizes[0] == 3);
  tenon_value_release(part);
  tenon_value_release(value);
  spec.axis = 0;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.quantizer = 9;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  tenon_value_release(scales);
  tenon_value_release(zeros);
  tenon_storage_release(storage);
}

static void sparse(void) {
  static const int64_t sizes[] = {4}, index_sizes[] = {1, 2}, value_sizes[] = {2};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 16, 1);
  tenon_value_tensor_spec spec = spec_of(TENON_SCALAR_TYPE_LONG, 2, index_sizes, storage), got;
  tenon_value *indices = from_spec(&spec), *values, *value, *part = NULL, *out = kNothing;
  spec = spec_of(TENON_SCALAR_TYPE_FLOAT, 1, value_sizes, storage);
  values = from_spec(&spec);
  spec = spec_of(0, 1, sizes, NULL);
  spec.layout = TENON_TENSOR_LAYOUT_SPARSE_COO;
  spec.flags = TENON_TENSOR_REQUIRES_GRAD;
  spec.coalesced = TENON_COALESCED_YES;
  spec.indices = indices;
  spec.values = values;
  value = from_spec(&spec);
  got = spec_of(0, 0, NULL, NULL);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(got.scalar_type == TENON_SCALAR_TYPE_FLOAT &&
        got.layout == TENON_TENSOR_LAYOUT_SPARSE_COO && got.ndim == 1 && got.sizes[0] == 4);
  CHECK(got.strides == NULL && got.storage == NULL && got.coalesced == TENON_COALESCED_YES &&
        got.flags == TENON_TENSOR_REQUIRES_GRAD);
  OK(tenon_value_tensor_part(value, TENON_TENSOR_PART_INDICES, &part, ERR));
  OK(tenon_value_get_tensor_spec(part, &got, ERR));
  CHECK(got.scalar_type == TENON_SCALAR_TYPE_LONG);
  tenon_value_release(part);
  FAILS_KEEPING(TENON_NOT_FOUND, out,
                tenon_value_tensor_part(value, TENON_TENSOR_PART_PLAIN_INDICES, &out, ERR));
  tenon_value_release(value);
  spec.coalesced = 3;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.coalesced = TENON_COALESCED_UNKNOWN;
  spec.layout = TENON_TENSOR_LAYOUT_SPARSE_CSR;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.layout = 3;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.layout = TENON_TENSOR_LAYOUT_SPARSE_COO;
  spec.storage = storage;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  tenon_value_release(indices);
  tenon_value_release(values);
  tenon_storage_release(storage);
}

static void meta_and_others(void) {
  static const int64_t sizes[] = {1000, 1000}, large[] = {INT64_MAX, 2}, four[] = {4};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 16, 1);
  tenon_value_tensor_spec spec = spec_of(TENON_SCALAR_TYPE_FLOAT, 2, sizes, NULL), got = spec;
  tenon_value *value, *out = kNothing;
  tenon_tensor *nothing = PATTERN;
  spec.device = "meta";
  spec.offset = 7;
  value = from_spec(&spec);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(got.storage_numel == 1000007);
  tenon_value_release(value);
  spec.offset = 0;
  spec.storage_numel = 1000000;
  value = from_spec(&spec);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(strcmp(got.device, "meta") == 0 && got.storage == NULL && got.storage_numel == 1000000);
  FAILS_KEEPING(TENON_UNSUPPORTED, nothing, tenon_value_get_tensor(value, &nothing, ERR));
  tenon_value_release(value);
  spec.sizes = large;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec = spec_of(TENON_SCALAR_TYPE_BITS8, 1, four, storage);
  spec.storage_offset = 12;
  value = from_spec(&spec);
  OK(tenon_value_get_tensor_spec(value, &got, ERR));
  CHECK(got.storage_offset == 12 && got.storage_numel == 4);
  tenon_value_release(value);
  spec.offset = 1;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.offset = 0;
  spec.storage_offset = 13;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.storage_offset = UINT64_MAX;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.storage_offset = 0;
  spec.device = "cuda:0";
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.device = NULL;
  spec.flags = TENON_TENSOR_IS_PARAMETER;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.flags = 0;
  spec.scalar_type = 47;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.scalar_type = TENON_SCALAR_TYPE_BITS8;
  spec.ndim = 65;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  spec.ndim = -1;
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(&spec, &out, ERR));
  INVALID_KEEPING(out, tenon_value_new_tensor_from_spec(NULL, &out, ERR));
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(120);
  RUN(numbers);
  RUN(texts);
  RUN(tuples);
  RUN(lists);
  RUN(dicts);
  RUN(objects);
  RUN(types);
  RUN(tensors);
  RUN(quantized);
  RUN(sparse);
  RUN(meta_and_others);
  return 0;
}
