/* Tests tenon/message.h: the contents of a message, and what is refused before a send. */
#include "check.h"

static void filling(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 256, 1);
  tenon_tensor *tensors[3];
  static const char *const names[] = {"weight", NULL, "bias \xc3\xa4"};
  static const char *const again[] = {"weight"};
  static unsigned char bytes[TENON_MESSAGE_MAX_USER_NBYTES];
  tenon_message *message = NULL;
  size_t i, n = 99;
  OK(tenon_message_new(&message, ERR));
  CHECK(tenon_message_count(message) == 0 && tenon_message_tensor(message, 0) == NULL &&
        tenon_message_name(message, 0) == NULL);
  CHECK(tenon_message_user_bytes(message, &n) == NULL && n == 0);
  CHECK(tenon_message_find(message, "weight") == NULL);
  for (i = 0; i < 3; i++) tensors[i] = check_bytes_tensor(storage);
  OK(tenon_message_add(message, tensors, names, 3, NULL, ERR));
  OK(tenon_message_add(message, &tensors[1], again, 1, NULL, ERR));
  OK(tenon_message_add(message, &tensors[1], NULL, 1, NULL, ERR));
  OK(tenon_message_add(message, NULL, NULL, 0, NULL, ERR));
  CHECK(tenon_message_count(message) == 5);
  for (i = 0; i < 3; i++) CHECK(tenon_message_tensor(message, i) == tensors[i]);
  CHECK(tenon_message_tensor(message, 3) == tensors[1] &&
        tenon_message_tensor(message, 5) == NULL &&
        tenon_message_tensor(message, SIZE_MAX) == NULL);
  CHECK(strcmp(tenon_message_name(message, 0), "weight") == 0 &&
        tenon_message_name(message, 1) == NULL);
  CHECK(strcmp(tenon_message_name(message, 2), names[2]) == 0 &&
        tenon_message_name(message, 4) == NULL && tenon_message_name(message, 5) == NULL);
  CHECK(tenon_message_find(message, "weight") == tensors[0]); /* the first of that name */
  CHECK(tenon_message_find(message, names[2]) == tensors[2]);
  CHECK(tenon_message_find(message, "") == NULL && tenon_message_find(message, NULL) == NULL &&
        tenon_message_find(message, "weigh") == NULL);
  for (i = 0; i < 3; i++) tenon_tensor_release(tensors[i]);
  tenon_storage_release(storage);
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(message, 0)), 256,
                     1)); /* the message holds what it holds */

  check_fill(bytes, sizeof(bytes), 9);
  OK(tenon_message_set_user_bytes(message, bytes, sizeof(bytes), ERR));
  CHECK(memcmp(tenon_message_user_bytes(message, &n), bytes, sizeof(bytes)) == 0 &&
        n == sizeof(bytes));
  OK(tenon_message_set_user_bytes(message, "short", 5, ERR));
  CHECK(memcmp(tenon_message_user_bytes(message, &n), "short", 5) == 0 && n == 5);
  CHECK(tenon_message_user_bytes(message, NULL) != NULL);
  OK(tenon_message_set_user_bytes(message, NULL, 0, ERR));
  CHECK(tenon_message_user_bytes(message, &n) == NULL && n == 0);
  tenon_message_release(message);
}

static void views(void) {
  const int64_t sizes[] = {2, 3}, strides[] = {1, 2};
  struct {
    tenon_tensor_view view;
    unsigned char newer[24]; /* fields that a later header may add */
  } larger[2];
  tenon_tensor_view out[3], untouched;
  tenon_tensor_spec spec;
  tenon_storage *storages[2];
  tenon_tensor *tensors[2];
  static const char *const names[] = {"read", NULL};
  tenon_message *message = NULL;
  size_t i;
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_INT;
  spec.dtype.bits = 16;
  spec.dtype.lanes = 1;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.strides = strides;
  spec.offset = 5;
  spec.flags = TENON_TENSOR_IS_PARAMETER;
  storages[0] = check_storage(TENON_MODE_FROZEN, 0, 256, 1);
  storages[1] = check_storage(TENON_MODE_SHARED, 0, 256, 2);
  OK(tenon_tensor_new(storages[0], &spec, &tensors[0], ERR));
  tensors[1] = check_bytes_tensor(storages[1]);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, tensors, names, 2, NULL, ERR));

  memset(out, 0x5a, sizeof(out));
  out[0].struct_size = sizeof(out[0]);
  OK(tenon_message_get_views(message, out, 2, ERR));
  CHECK(out[0].struct_size == sizeof(out[0]) && out[1].struct_size == sizeof(out[0]));
  CHECK(out[0].tensor == tensors[0] && strcmp(out[0].name, "read") == 0 &&
        out[0].data == tenon_tensor_data(tensors[0]));
  CHECK(out[0].data_mut == NULL && out[0].ndim == 2 && out[0].sizes[1] == 3 &&
        out[0].strides[1] == 2 && out[0].offset == 5);
  CHECK(out[0].numel == 6 && out[0].nbytes == 12 && out[0].dtype.code == TENON_DTYPE_INT &&
        out[0].dtype.bits == 16);
  CHECK(out[0].dtype.lanes == 1 && out[0].flags == TENON_TENSOR_IS_PARAMETER &&
        out[0].is_contiguous == 0);
  CHECK(out[1].tensor == tensors[1] && out[1].name == NULL &&
        out[1].data_mut == tenon_storage_data(storages[1]));
  CHECK(out[1].data == out[1].data_mut && out[1].numel == 256 && out[1].is_contiguous == 1 &&
        out[1].flags == 0);
  memset(&untouched, 0x5a, sizeof(untouched));
  CHECK(memcmp(&out[2], &untouched, sizeof(untouched)) == 0);

  out[2].struct_size = sizeof(out[2]);
  OK(tenon_tensor_get_view(tensors[0], &out[2], ERR));
  out[0].name = NULL; /* an unnamed tensor has no name */
  CHECK(memcmp(&out[0], &out[2], sizeof(out[0])) == 0);

  memset(larger, 0x5a, sizeof(larger));
  larger[0].view.struct_size = sizeof(larger[0]);
  OK(tenon_message_get_views(message, &larger[0].view, 2, ERR));
  CHECK(larger[1].view.struct_size == sizeof(larger[0]) && larger[1].view.tensor == tensors[1]);
  for (i = 0; i < sizeof(larger[0].newer); i++)
    CHECK(larger[0].newer[i] == 0x5a && larger[1].newer[i] == 0x5a);

  OK(tenon_message_get_views(message, NULL, 0, ERR));
  INVALID(tenon_message_get_views(message, out, 3, ERR));
  INVALID(tenon_message_get_views(message, NULL, 1, ERR));
  INVALID(tenon_message_get_views(NULL, out, 0, ERR));
  out[0].struct_size = sizeof(out[0]) - 1;
  INVALID(tenon_message_get_views(message, out, 1, ERR));
  INVALID(tenon_tensor_get_view(tensors[0], out, ERR));
  INVALID(tenon_tensor_get_view(tensors[0], NULL, ERR));
  INVALID(tenon_tensor_get_view(NULL, &out[2], ERR));
  tenon_message_release(message);
  for (i = 0; i < 2; i++) {
    tenon_tensor_release(tensors[i]);
    tenon_storage_release(storages[i]);
  }
}

static void names_and_bytes_refused(void) {
  static char longest[TENON_MESSAGE_MAX_NAME_NBYTES + 2];
  static unsigned char bytes[TENON_MESSAGE_MAX_USER_NBYTES + 1];
  static const char *const bad[] = {"\x80",
                                    "\xc3",
                                    "\xc0\x80",
                                    "\xed\xa0\x80",
                                    "\xf4\x90\x80\x80",
                                    "\xff",
                                    "ok\xe2\x82",
                                    "\xf8\x88\x80\x80\x80"};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 256, 1);
  tenon_tensor *tensors[2];
  const char *names[2];
  tenon_message *message = NULL;
  size_t i;
  tensors[0] = tensors[1] = check_bytes_tensor(storage);
  OK(tenon_message_new(&message, ERR));
  names[0] = "good";
  for (i = 0; i < COUNT_OF(bad); i++) {
    names[1] = bad[i];
    INVALID(tenon_message_add(message, tensors, names, 2, NULL, ERR));
    CHECK(tenon_message_count(message) == 0 &&
          tenon_storage_use_count(storage) == 2); /* none of them */
  }
  memset(longest, 'n', sizeof(longest) - 1);
  names[1] = longest;
  INVALID(tenon_message_add(message, tensors, names, 2, NULL, ERR));
  longest[TENON_MESSAGE_MAX_NAME_NBYTES] = '\0';
  OK(tenon_message_add(message, tensors, names, 2, NULL, ERR));
  CHECK(strcmp(tenon_message_name(message, 1), longest) == 0);
  OK(tenon_message_set_user_bytes(message, "kept", 4, ERR));
  INVALID(tenon_message_set_user_bytes(message, bytes, sizeof(bytes), ERR));
  INVALID(tenon_message_set_user_bytes(message, bytes, SIZE_MAX, ERR));
  INVALID(tenon_message_set_user_bytes(message, NULL, 1, ERR));
  CHECK(memcmp(tenon_message_user_bytes(message, NULL), "kept", 4) == 0);
  tenon_message_release(message);
  tenon_tensor_release(tensors[0]);
  tenon_storage_release(storage);
}

static void lends_refused(void) {
  tenon_share_options read_only = check_share_options(TENON_ACCESS_READ_ONLY),
                      writable = check_share_options(TENON_ACCESS_WRITABLE);
  tenon_storage_options frozen_options = check_storage_options(TENON_MODE_FROZEN, 0);
  tenon_storage *storages[5];
  tenon_tensor *tensors[5], *both[2];
  tenon_message *message = NULL;
  size_t i;
  storages[0] = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  storages[1] = check_storage(TENON_MODE_LENDER_WRITES, 0, 64, 1);
  storages[2] = check_storage(TENON_MODE_FROZEN, 0, 64, 1);
  storages[3] = check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 64, 1);
  OK(tenon_storage_new(&frozen_options, 64, &storages[4], ERR)); /* not frozen yet */
  for (i = 0; i < 5; i++) tensors[i] = check_bytes_tensor(storages[i]);
  OK(tenon_message_new(&message, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "LENDER_WRITES",
               tenon_message_add(message, &tensors[0], NULL, 1, &read_only, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "SHARED",
               tenon_message_add(message, &tensors[1], NULL, 1, &writable, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "SHARED",
               tenon_message_add(message, &tensors[2], NULL, 1, &writable, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_message_add(message, &tensors[3], NULL, 1, NULL, ERR));
  FAILS_SAYING(TENON_PERMISSION, "option", "tenon_storage_freeze",
               tenon_message_add(message, &tensors[4], NULL, 1, NULL, ERR));
  both[0] = tensors[0];
  both[1] = tensors[3];
  FAILS(TENON_UNSUPPORTED, tenon_message_add(message, both, NULL, 2, NULL, ERR));
  CHECK(tenon_message_count(message) == 0);
  for (i = 0; i < 5; i++) CHECK(tenon_storage_use_count(storages[i]) == 2);
  OK(tenon_message_add(message, tensors, NULL, 3, NULL, ERR));
  OK(tenon_message_add(message, &tensors[1], NULL, 2, &read_only, ERR));
  OK(tenon_message_add(message, &tensors[0], NULL, 1, &writable, ERR));
  CHECK(tenon_message_count(message) == 6);
  tenon_message_release(message);
  for (i = 0; i < 5; i++) {
    CHECK(tenon_storage_use_count(storages[i]) == 2);
    tenon_tensor_release(tensors[i]);
    tenon_storage_release(storages[i]);
  }
}

static void bad_input(void) {
  struct {
    tenon_share_options options;
    unsigned char tail[16];
  } larger;
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage), *with_null[3];
  tenon_message *message = NULL;
  tenon_share_options options = check_share_options(3);
  size_t n = 7;
  with_null[0] = tensor;
  with_null[1] = NULL;
  with_null[2] = tensor;
  INVALID(tenon_message_new(NULL, ERR));
  OK(tenon_message_new(&message, ERR));
  INVALID(tenon_message_add(NULL, &tensor, NULL, 1, NULL, ERR));
  INVALID(tenon_message_add(message, NULL, NULL, 1, NULL, ERR));
  INVALID(tenon_message_add(message, with_null, NULL, 3, NULL, ERR));
  FAILS_EITHER(TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED,
               tenon_message_add(message, with_null, NULL, SIZE_MAX, NULL, ERR));
  FAILS_EITHER(TENON_INVALID_ARGUMENT, TENON_RESOURCE_EXHAUSTED,
               tenon_message_add(message, with_null, NULL, SIZE_MAX / sizeof(void *), NULL, ERR));
  INVALID(tenon_message_set_user_bytes(NULL, "x", 1, ERR));
  FAILS_EITHER(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED,
               tenon_message_add(message, &tensor, NULL, 1, &options, ERR));
  options = check_share_options(0);
  options.flags = 1;
  FAILS_EITHER(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED,
               tenon_message_add(message, &tensor, NULL, 1, &options, ERR));
  options = check_share_options(0);
  options.struct_size = 0;
  INVALID(tenon_message_add(message, &tensor, NULL, 1, &options, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID(tenon_message_add(message, &tensor, NULL, 1, &options, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  larger.tail[0] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_message_add(message, &tensor, NULL, 1, &larger.options, ERR));
  larger.tail[0] = 0;
  CHECK(tenon_message_count(message) == 0);
  OK(tenon_message_add(message, &tensor, NULL, 1, &larger.options, ERR));
  CHECK(tenon_message_count(NULL) == 0 && tenon_message_tensor(NULL, 0) == NULL &&
        tenon_message_name(NULL, 0) == NULL);
  CHECK(tenon_message_find(NULL, "x") == NULL && tenon_message_user_bytes(NULL, &n) == NULL &&
        n == 0);
  tenon_message_release(NULL);
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(60);
  RUN(filling);
  RUN(views);
  RUN(names_and_bytes_refused);
  RUN(lends_refused);
  RUN(bad_input);
  return 0;
}
