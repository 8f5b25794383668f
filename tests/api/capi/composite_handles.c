/* Tests composites by handles: one process lends each part by fd or by name, and another process
 * makes the composite from the parts. */
#include "composite_kit.h"

enum { kRows = 3, kColumns = 4, kElements = 3, kPointers = kRows + 1, kParts = 3 };

/* [[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]]. The row pointers and the column indices behind them
 * lie in one storage. */
static const float kDense[kRows][kColumns] = {{1, 0, 0, 2}, {0, 0, 0, 0}, {0, 3, 0, 0}};
static const float kValues[kElements] = {1, 2, 3};
static const int64_t kNumbers[kPointers + kElements] = {0, 2, 2, 3, 0, 3, 1};

enum kind { SEALED, FROZEN, NAMED_FILE };

struct lend {
  enum kind kind;
  int by_name[kParts]; /* values, row pointers, column indices */
};

/* The lender's message. The fds of the handles by fd go beside it, in the order of the parts. */
struct packet {
  struct lend lend;
  tenon_fd_handle by_fd[kParts];
  tenon_filename_handle by_name[kParts];
};

static tenon_composite *csr_over(tenon_storage *values, tenon_storage *pointers,
                                 tenon_storage *columns) {
  static const int64_t sizes[] = {kRows, kColumns}, n_elements[] = {kElements},
                       n_pointers[] = {kPointers};
  tenon_composite_spec spec = empty_spec(TENON_TENSOR_LAYOUT_SPARSE_CSR);
  tenon_composite *composite = NULL;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.values = part_over(values, kFloat, 0, 1, n_elements);
  spec.indices = part_over(pointers, kLong, 0, 1, n_pointers);
  spec.plain_indices = part_over(columns, kLong, kPointers, 1, n_elements);
  OK(tenon_composite_new(&spec, &composite, ERR));
  tenon_tensor_release(spec.values);
  tenon_tensor_release(spec.indices);
  tenon_tensor_release(spec.plain_indices);
  return composite;
}

static tenon_storage *storage_from(enum kind kind, const void *data, size_t nbytes) {
  const tenon_storage_options options =
      check_storage_options(kind == FROZEN ? TENON_MODE_FROZEN : TENON_MODE_SHARED, 0);
  tenon_storage *storage = NULL;
  if (kind == NAMED_FILE) {
    OK(tenon_storage_new_filename(NULL, nbytes, &storage, ERR));
    OK(tenon_storage_write(storage, 0, data, nbytes, ERR));
  } else {
    OK(tenon_storage_new_from(&options, data, nbytes, &storage, ERR));
  }
  return storage;
}

/* The borrower. */

static void open_parts(const struct packet *packet, tenon_storage **storages) {
  const tenon_open_options options = check_open_options(
      TENON_ACCESS_AUTO, packet->lend.kind == NAMED_FILE ? TENON_OPEN_ALLOW_UNSEALED : 0);
  size_t i;
  for (i = 0; i < kParts; i++) {
    if (packet->lend.by_name[i]) {
      OK(tenon_open_filename(&packet->by_name[i], &options, NULL, &storages[i], ERR));
    } else {
      OK(tenon_open_fd(&packet->by_fd[i], &options, &storages[i], ERR));
    }
  }
}

/* Follows the indices as a reader of CSR does, which is safe after tenon_composite_check. */
static void check_dense(const tenon_composite *checked) {
  const tenon_composite_spec spec = spec_of(checked);
  const float *values = (const float *)tenon_tensor_data(spec.values);
  const int64_t *pointers = (const int64_t *)tenon_tensor_data(spec.indices);
  const int64_t *columns = (const int64_t *)tenon_tensor_data(spec.plain_indices);
  float dense[kRows][kColumns] = {{0}};
  int64_t row, i;
  for (row = 0; row < kRows; row++) {
    for (i = pointers[row]; i < pointers[row + 1]; i++) dense[row][columns[i]] = values[i];
  }
  CHECK(memcmp(dense, kDense, sizeof(dense)) == 0);
}

static void borrow(int sock) {
  struct packet packet;
  tenon_storage *storages[kParts] = {NULL, NULL, NULL};
  tenon_composite *composite, *checked = NULL;
  tenon_composite_spec spec;
  int fds[kParts];
  size_t n_fds, next = 0, i;
  n_fds = check_recv(sock, &packet, sizeof(packet), fds, kParts);
  for (i = 0; i < kParts; i++) {
    if (!packet.lend.by_name[i]) packet.by_fd[i].fd = fds[next++];
  }
  CHECK_EQ(next, n_fds);
  open_parts(&packet, storages);
  for (i = 0; i < n_fds; i++) close(fds[i]);
  /* Two handles to one storage gave one storage, whichever way each of them came. */
  CHECK(storages[1] == storages[2] && storages[0] != storages[1]);
  composite = csr_over(storages[0], storages[1], storages[2]);
  for (i = 0; i < kParts; i++) tenon_storage_release(storages[i]);
  spec = spec_of(composite);
  CHECK(tenon_tensor_storage(spec.indices) == tenon_tensor_storage(spec.plain_indices));
  OK(tenon_composite_check(composite, &checked, ERR));
  check_dense(checked);
  /* No process can write a FROZEN part, so the check needs no copy. */
  CHECK((checked == composite) == (packet.lend.kind == FROZEN));
  CHECK(spec_of(checked).values == spec.values);
  tenon_composite_release(checked);
  if (packet.lend.kind != FROZEN) {
    const float seven = 7;
    const int64_t outside = kColumns;
    OK(tenon_storage_write(tenon_tensor_storage(spec.values), 0, &seven, sizeof(seven), ERR));
    OK(tenon_storage_write(tenon_tensor_storage(spec.indices), sizeof(kNumbers) - sizeof(outside),
                           &outside, sizeof(outside), ERR));
    FAILS_SAYING(TENON_CORRUPT, "part", "plain_indices",
                 tenon_composite_check(composite, &checked, ERR));
  }
  tenon_composite_release(composite);
}

/* The lender. */

static void lend_parts(const struct lend *lend, const tenon_composite *composite, int sock) {
  const tenon_composite_spec spec = spec_of(composite);
  struct packet packet;
  tenon_storage *storages[kParts];
  int fds[kParts];
  size_t n_fds = 0, i;
  storages[0] = tenon_tensor_storage(spec.values);
  storages[1] = tenon_tensor_storage(spec.indices);
  storages[2] = tenon_tensor_storage(spec.plain_indices);
  memset(&packet, 0, sizeof(packet));
  packet.lend = *lend;
  for (i = 0; i < kParts; i++) {
    packet.by_fd[i] = check_handle();
    packet.by_name[i].struct_size = sizeof(packet.by_name[i]);
    if (lend->by_name[i]) {
      OK(tenon_share_filename(storages[i], NULL, NULL, &packet.by_name[i], ERR));
    } else {
      OK(tenon_share_fd(storages[i], NULL, &packet.by_fd[i], ERR));
      fds[n_fds++] = packet.by_fd[i].fd;
    }
  }
  check_send(sock, &packet, sizeof(packet), fds, n_fds);
  for (i = 0; i < n_fds; i++) close(fds[i]);
}

static void lend_to_another_process(const struct lend *lend) {
  int sock = -1;
  const pid_t child = check_spawn(SOCK_STREAM, borrow, &sock);
  tenon_storage *values = storage_from(lend->kind, kValues, sizeof(kValues));
  tenon_storage *numbers = storage_from(lend->kind, kNumbers, sizeof(kNumbers));
  tenon_composite *composite = csr_over(values, numbers, numbers);
  tenon_composite *out = PATTERN;
  const float *data = (const float *)tenon_storage_data(values);
  lend_parts(lend, composite, sock);
  check_join(child);
  /* The borrower wrote into this process's memory. */
  CHECK(data[0] == (lend->kind == FROZEN ? 1.0F : 7.0F));
  if (lend->kind != FROZEN)
    FAILS_SAYING(TENON_CORRUPT, "part", "plain_indices",
                 tenon_composite_check(composite, &out, ERR));
  tenon_composite_release(composite);
  tenon_storage_release(values);
  tenon_storage_release(numbers);
  close(sock);
}

static void by_fd(void) {
  static const struct lend shared = {SEALED, {0, 0, 0}}, frozen = {FROZEN, {0, 0, 0}};
  lend_to_another_process(&shared);
  lend_to_another_process(&frozen);
}

static void by_name(void) {
  static const struct lend shared = {SEALED, {1, 1, 1}}, frozen = {FROZEN, {1, 1, 1}};
  lend_to_another_process(&shared);
  lend_to_another_process(&frozen);
}

static void by_the_name_of_a_file(void) {
  static const struct lend files = {NAMED_FILE, {1, 1, 1}};
  lend_to_another_process(&files);
}

static void by_fd_and_by_name(void) {
  static const struct lend values_by_name = {FROZEN, {1, 0, 0}},
                           columns_by_name = {SEALED, {0, 0, 1}},
                           pointers_by_name = {FROZEN, {0, 1, 0}};
  lend_to_another_process(&values_by_name);
  lend_to_another_process(&columns_by_name);
  lend_to_another_process(&pointers_by_name);
}

int main(void) {
  check_begin(60);
  by_name(); /* the first lend by name opens what the process keeps */
  RUN(by_fd);
  /* A lender by name forgets its borrowers after seconds, and RUN would wait for their heap. */
  RUN_ONCE(by_name);
  RUN_ONCE(by_the_name_of_a_file);
  RUN_ONCE(by_fd_and_by_name);
  return 0;
}
