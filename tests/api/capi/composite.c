/* Tests tenon/composite.h: composites are made, sent to another process and checked there. It also
 * tests what is refused. */
#include "composite_kit.h"

static tenon_composite *new_meta(void) {
  static const int64_t sizes[] = {1 << 20, 1 << 20};
  tenon_composite_spec spec = empty_spec(TENON_TENSOR_LAYOUT_META);
  tenon_composite *composite = NULL;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.dtype = kFloat;
  OK(tenon_composite_new(&spec, &composite, ERR));
  return composite;
}

static void made_and_read(void) {
  tenon_composite *csr = new_csr(TENON_MODE_SHARED, 1), *again = NULL, *meta = new_meta(),
                  *checked = NULL;
  tenon_composite_spec spec = spec_of(csr);
  CHECK(spec.layout == TENON_TENSOR_LAYOUT_SPARSE_CSR && spec.ndim == 2 && spec.sizes[0] == 3 &&
        spec.sizes[1] == 4);
  CHECK(spec.strides == NULL && spec.flags == TENON_TENSOR_REQUIRES_GRAD &&
        memcmp(&spec.dtype, &kFloat, sizeof(kFloat)) == 0);
  CHECK(tenon_tensor_numel(spec.values) == 3 && tenon_tensor_numel(spec.indices) == 4 &&
        tenon_tensor_numel(spec.plain_indices) == 3);
  CHECK(spec.offsets == NULL && spec.lengths == NULL && spec.component_sizes == NULL &&
        spec.scales == NULL);
  OK(tenon_composite_new(&spec, &again, ERR)); /* a spec that was read makes the composite again */
  CHECK(spec_of(again).values == spec.values);
  tenon_composite_release(again);
  again = tenon_composite_retain(csr);
  CHECK(again == csr && tenon_composite_retain(NULL) == NULL);
  tenon_composite_release(again);
  tenon_composite_release(NULL);

  spec = spec_of(meta);
  CHECK(spec.ndim == 2 && spec.strides[0] == 1 << 20 && spec.strides[1] == 1 &&
        spec.values == NULL);
  OK(tenon_composite_check(meta, &checked, ERR));
  CHECK(checked == meta);
  tenon_composite_release(checked);
  tenon_composite_release(meta);
  tenon_composite_release(csr);
}

static void every_layout(void) {
  static const int64_t two_three[] = {2, 3}, three_two[] = {3, 2}, two[] = {2}, three[] = {3},
                       four[] = {4}, twelve[] = {12}, one[] = {1};
  static const float numbers[12] = {0};
  static const double scales[] = {0.5, 0.25, 2};
  static const int64_t zeros[12] = {0}, starts[] = {0, 6, 0}, shapes[] = {2, 3, 3, 2},
                       steps[] = {3, 1, 2, 1}, coo[] = {0, 1, 1, 0, 2, 1};
  static const tenon_dtype kByte = {TENON_DTYPE_UINT, 8, 1}, kDouble = {TENON_DTYPE_FLOAT, 64, 1};
  tenon_composite_spec specs[5];
  size_t i;
  specs[0] = empty_spec(TENON_TENSOR_LAYOUT_SPARSE_COO);
  specs[0].ndim = 2;
  specs[0].sizes = two_three;
  specs[0].values = strided(TENON_MODE_FROZEN, kFloat, numbers, 1, three);
  specs[0].indices = strided(TENON_MODE_FROZEN, kLong, coo, 2, two_three);
  specs[0].coalesced = TENON_COALESCED_NO;
  specs[1] = empty_spec(TENON_TENSOR_LAYOUT_JAGGED);
  specs[1].ragged_dim = 1;
  specs[1].values = strided(TENON_MODE_FROZEN, kFloat, numbers, 2, three_two);
  specs[1].offsets = strided(TENON_MODE_FROZEN, kLong, zeros, 1, four);
  specs[2] = empty_spec(TENON_TENSOR_LAYOUT_NESTED);
  specs[2].values = strided(TENON_MODE_FROZEN, kFloat, numbers, 1, twelve);
  specs[2].component_sizes = strided(TENON_MODE_FROZEN, kLong, shapes, 2, (const int64_t[]){2, 2});
  specs[2].component_strides = strided(TENON_MODE_FROZEN, kLong, steps, 2, (const int64_t[]){2, 2});
  specs[2].offsets = strided(TENON_MODE_FROZEN, kLong, starts, 1, two);
  specs[3] = empty_spec(TENON_TENSOR_LAYOUT_QUANTIZED);
  specs[3].quantizer = TENON_QUANTIZER_PER_TENSOR_AFFINE;
  specs[3].scale = 0.5;
  specs[3].zero_point = -3;
  specs[3].values = strided(TENON_MODE_FROZEN, kByte, numbers, 1, one);
  specs[4] = empty_spec(TENON_TENSOR_LAYOUT_QUANTIZED);
  specs[4].quantizer = TENON_QUANTIZER_PER_CHANNEL_AFFINE;
  specs[4].axis = 1;
  specs[4].values = strided(TENON_MODE_FROZEN, kByte, numbers, 2, two_three);
  specs[4].scales = strided(TENON_MODE_FROZEN, kDouble, scales, 1, three);
  specs[4].zero_points = strided(TENON_MODE_FROZEN, kLong, zeros, 1, three);
  for (i = 0; i < COUNT_OF(specs); i++) {
    tenon_composite *composite = NULL, *checked = NULL;
    tenon_composite_spec got;
    OK(tenon_composite_new(&specs[i], &composite, ERR));
    got = spec_of(composite);
    CHECK(got.layout == specs[i].layout && got.values == specs[i].values &&
          got.indices == specs[i].indices);
    CHECK(got.offsets == specs[i].offsets && got.lengths == NULL &&
          got.component_sizes == specs[i].component_sizes);
    CHECK(got.component_strides == specs[i].component_strides && got.scales == specs[i].scales);
    CHECK(got.zero_points == specs[i].zero_points && got.scale == specs[i].scale &&
          got.zero_point == specs[i].zero_point);
    CHECK(got.axis == specs[i].axis && got.ragged_dim == specs[i].ragged_dim &&
          got.quantizer == specs[i].quantizer);
    CHECK(got.coalesced == specs[i].coalesced);
    (specs[i].layout == TENON_TENSOR_LAYOUT_JAGGED ? &specs[i].axis : &specs[i].ragged_dim)[0] =
        1; /* a field of other layouts */
    INVALID(tenon_composite_new(&specs[i], &checked, ERR));
    if (i == 1) {
      CHECK(got.ndim == 3 && got.sizes[0] == 3 && got.sizes[1] == -1 && got.sizes[2] == 2);
      CHECK_EQ(tenon_composite_check(composite, &checked, NULL), TENON_OK);
      CHECK(checked == composite); /* frozen: no process can write it */
      tenon_composite_release(checked);
    }
    if (i == 2) CHECK(got.ndim == 3 && got.sizes[0] == 2 && got.sizes[2] == -1);
    tenon_composite_release(composite);
    tenon_tensor_release(specs[i].values);
    tenon_tensor_release(specs[i].indices);
    tenon_tensor_release(specs[i].offsets);
    tenon_tensor_release(specs[i].component_sizes);
    tenon_tensor_release(specs[i].component_strides);
    tenon_tensor_release(specs[i].scales);
    tenon_tensor_release(specs[i].zero_points);
  }
}

/* The other process: it reads the composite that it received, and writes a column that does not
 * exist. */
static void receiver(int sock) {
  tenon_connection *connection = NULL;
  tenon_message *message = NULL;
  tenon_composite *csr, *checked = NULL;
  tenon_composite_spec spec;
  void *data = NULL;
  size_t n_parts = 99;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_recv(connection, NULL, &message, ERR));
  CHECK_EQ(tenon_message_composite_count(message), 3);
  CHECK_EQ(tenon_message_count(message), 8);
  CHECK(strcmp(tenon_message_name(message, 0), "labels") == 0);
  CHECK(tenon_message_composite_parts(message, 0, &n_parts) == 1 && n_parts == 3);
  CHECK(tenon_message_composite_parts(message, 1, &n_parts) == 4 && n_parts == 0);
  CHECK(tenon_message_composite_parts(message, 2, NULL) == 4 &&
        tenon_message_composite_parts(message, 3, &n_parts) == 8 && n_parts == 0);
  CHECK(strcmp(tenon_message_composite_name(message, 0), "features") == 0 &&
        tenon_message_composite_name(message, 1) == NULL);
  csr = tenon_message_find_composite(message, "features");
  CHECK(csr == tenon_message_composite(message, 0));
  CHECK(tenon_message_find_composite(message, "labels") == NULL &&
        tenon_message_find_composite(message, "other") == NULL);
  spec = spec_of(csr);
  CHECK(spec.values == tenon_message_tensor(message, 1) &&
        ((const float *)tenon_tensor_data(spec.values))[2] == 3.0F);
  CHECK(spec_of(tenon_message_composite(message, 1)).dtype.bits == 32);
  OK(tenon_composite_check(csr, &checked, ERR));
  CHECK(checked != csr && spec_of(checked).plain_indices !=
                              spec.plain_indices); /* a copy that the sender cannot change */
  OK(tenon_tensor_data_mut(spec.plain_indices, &data, ERR));
  ((int64_t *)data)[2] = 1 << 20;
  CHECK(((const int64_t *)tenon_tensor_data(spec_of(checked).plain_indices))[2] == 1);
  tenon_composite_release(checked);
  checked = NULL;
  FAILS_SAYING(TENON_CORRUPT, "part", "plain_indices", tenon_composite_check(csr, &checked, ERR));
  FAILS_SAYING(TENON_CORRUPT, "index", "2", tenon_composite_check(csr, &checked, ERR));
  csr = tenon_message_composite(message, 2);
  OK(tenon_composite_check(csr, &checked, ERR));
  CHECK(checked == csr); /* frozen: no process can change it */
  tenon_composite_release(checked);
  tenon_message_release(message);
  tenon_connection_release(connection);
}

static void sent_to_another_process(void) {
  static const char *const label[] = {"labels"}, *const names[] = {"features", NULL, NULL};
  tenon_composite *composites[3];
  tenon_connection *connection = NULL;
  tenon_message *message = NULL;
  tenon_tensor *labels;
  int sock = -1;
  size_t i;
  const pid_t child = check_spawn(SOCK_SEQPACKET, receiver, &sock);
  composites[0] = new_csr(TENON_MODE_SHARED, 1);
  composites[1] = new_meta();
  composites[2] = new_csr(TENON_MODE_FROZEN, 2);
  labels = strided(TENON_MODE_FROZEN, kLong, NULL, 1, (const int64_t[]){0});
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &labels, label, 1, NULL, ERR));
  OK(tenon_message_add_composites(message, composites, names, 3, NULL, ERR));
  tenon_tensor_release(labels);
  labels = strided(TENON_MODE_SHARED, kLong, (const int64_t[]){7}, 1, (const int64_t[]){1});
  OK(tenon_message_add(message, &labels, NULL, 1, NULL, ERR));
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  OK(tenon_send(connection, message, NULL, ERR));
  check_join(child);
  for (i = 0; i < 3; i++) tenon_composite_release(composites[i]);
  tenon_tensor_release(labels);
  tenon_message_release(message);
  tenon_connection_release(connection);
  close(sock);
}

static void refused(void) {
  static const int64_t sizes[] = {3, 4};
  tenon_composite *csr = new_csr(TENON_MODE_SHARED, 1), *out = PATTERN;
  tenon_composite_spec good = spec_of(csr), spec;
  tenon_message *message = NULL;
  struct {
    tenon_composite_spec spec;
    unsigned char tail[8];
  } larger;
#define REFUSED(field, value)                                    \
  do {                                                           \
    spec = good;                                                 \
    spec.field = (value);                                        \
    INVALID_KEEPING(out, tenon_composite_new(&spec, &out, ERR)); \
  } while (0)
  REFUSED(struct_size, sizeof(good) - 1);
  REFUSED(layout, TENON_TENSOR_LAYOUT_STRIDED);
  REFUSED(layout, 3); /* mkldnn */
  REFUSED(layout, -1);
  REFUSED(layout, 256 + TENON_TENSOR_LAYOUT_SPARSE_CSR);
  REFUSED(layout, TENON_TENSOR_LAYOUT_SPARSE_COO);
  REFUSED(ndim, -1);
  REFUSED(ndim, 65);
  REFUSED(ndim, 1);
  REFUSED(sizes, NULL);
  REFUSED(strides, sizes);
  REFUSED(offset, 1);
  REFUSED(values, NULL);
  REFUSED(indices, NULL);
  REFUSED(plain_indices, good.values);
  REFUSED(offsets, good.indices);
  REFUSED(scales, good.values);
  REFUSED(scale, 1.0);
  REFUSED(zero_point, 1);
  REFUSED(axis, 1);
  REFUSED(ragged_dim, 1);
  REFUSED(quantizer, TENON_QUANTIZER_PER_TENSOR_AFFINE);
  REFUSED(quantizer, 4);
  REFUSED(coalesced, TENON_COALESCED_YES);
  REFUSED(coalesced, 3);
#undef REFUSED
  spec = good;
  spec.flags = TENON_TENSOR_CONJ;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_composite_new(&spec, &out, ERR));
  spec = good;
  spec.plain_indices = good.indices;
  INVALID_SAYING("part", "values", tenon_composite_new(&spec, &out, ERR));
  INVALID(tenon_composite_new(NULL, &out, ERR));
  INVALID(tenon_composite_new(&good, NULL, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.spec = good;
  larger.spec.struct_size = sizeof(larger);
  larger.tail[0] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_composite_new(&larger.spec, &out, ERR));
  larger.tail[0] = 0;
  OK(tenon_composite_new(&larger.spec, &out, ERR));
  tenon_composite_release(out);
  out = PATTERN;
  INVALID(tenon_composite_check(NULL, &out, ERR));
  INVALID(tenon_composite_check(csr, NULL, ERR));
  INVALID(tenon_composite_get_spec(NULL, &spec, ERR));
  INVALID(tenon_composite_get_spec(csr, NULL, ERR));

  OK(tenon_message_new(&message, ERR));
  INVALID(tenon_message_add_composites(NULL, &csr, NULL, 1, NULL, ERR));
  INVALID(tenon_message_add_composites(message, NULL, NULL, 1, NULL, ERR));
  INVALID(tenon_message_add_composites(message, &csr, NULL, SIZE_MAX, NULL, ERR));
  {
    tenon_composite *none = NULL;
    static const char *const bad[] = {"\xff"};
    INVALID(tenon_message_add_composites(message, &none, NULL, 1, NULL, ERR));
    INVALID(tenon_message_add_composites(message, &csr, bad, 1, NULL, ERR));
  }
  CHECK(tenon_message_count(message) == 0 && tenon_message_composite_count(message) == 0);
  CHECK(tenon_message_composite_count(NULL) == 0 && tenon_message_composite(NULL, 0) == NULL);
  CHECK(tenon_message_composite_name(NULL, 0) == NULL &&
        tenon_message_find_composite(NULL, "a") == NULL);
  CHECK(tenon_message_find_composite(message, NULL) == NULL &&
        tenon_message_composite_parts(NULL, 0, NULL) == 0);
  tenon_message_release(message);
  tenon_composite_release(csr);
}

/* An empty storage has no segment that would tell its mode. */
static void empty_storages_keep_their_mode(void) {
  int sockets[2];
  tenon_connection *a = NULL, *b = NULL;
  tenon_message *message = NULL, *got = NULL;
  tenon_tensor *tensor = strided(TENON_MODE_FROZEN, kFloat, NULL, 1, (const int64_t[]){0});
  tenon_storage *storage;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  OK(tenon_connection_new(sockets[0], NULL, &a, ERR));
  OK(tenon_connection_new(sockets[1], NULL, &b, ERR));
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  OK(tenon_send(a, message, NULL, ERR));
  OK(tenon_recv(b, NULL, &got, ERR));
  storage = tenon_tensor_storage(tenon_message_tensor(got, 0));
  CHECK(tenon_storage_mode(storage) == TENON_MODE_FROZEN && tenon_storage_is_read_only(storage));
  tenon_message_release(got);
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_connection_release(a);
  tenon_connection_release(b);
  close(sockets[0]);
  close(sockets[1]);
}

int main(void) {
  check_begin(60);
  RUN(made_and_read);
  RUN(every_layout);
  RUN(sent_to_another_process);
  RUN(refused);
  RUN(empty_storages_keep_their_mode);
  return 0;
}
