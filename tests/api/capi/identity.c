/* Tests that opening memory which this process already holds gives the same storage. */
#include "check.h"

#include <pthread.h>

static void lend_two(int sock) {
  tenon_storage *first = check_storage(TENON_MODE_SHARED, 0, 5000, 1),
                *second = check_storage(TENON_MODE_SHARED, 0, 5000, 2);
  tenon_fd_handle handles[2];
  int fds[2];
  handles[0] = check_handle();
  handles[1] = check_handle();
  OK(tenon_share_fd(first, NULL, &handles[0], ERR));
  OK(tenon_share_fd(second, NULL, &handles[1], ERR));
  fds[0] = handles[0].fd;
  fds[1] = handles[1].fd;
  check_send(sock, handles, sizeof(handles), fds, 2);
  check_await(sock);
}

static void same_and_other(void) {
  int sock, fds[2], copy;
  pid_t child = check_spawn(SOCK_STREAM, lend_two, &sock);
  tenon_fd_handle handles[2], part;
  tenon_storage *first = NULL, *again = NULL, *second = NULL, *read_only = NULL, *narrow = NULL,
                *late = NULL;
  tenon_open_options want_read = check_open_options(TENON_ACCESS_READ_ONLY, 0),
                     want_write = check_open_options(TENON_ACCESS_WRITABLE, 0);
  uint64_t id;
  long mappings;
  CHECK(check_recv(sock, handles, sizeof(handles), fds, 2) == 2);
  handles[0].fd = fds[0];
  handles[1].fd = fds[1];
  OK(tenon_open_fd(&handles[0], NULL, &first, ERR));
  mappings = count_memfd_mappings();
  OK(tenon_open_fd(&handles[0], NULL, &again, ERR));
  CHECK(again == first && tenon_storage_id(again) == tenon_storage_id(first));
  CHECK(tenon_storage_use_count(first) == 2);
  tenon_storage_release(again);
  OK(tenon_open_fd(&handles[0], &want_write, &again, ERR)); /* AUTO came to the same access */
  CHECK(again == first);
  tenon_storage_release(again);
  part = handles[0];
  copy = fcntl(fds[0], F_DUPFD_CLOEXEC, 0); /* the segment counts, not the number of the fd */
  part.fd = copy;
  part.segment_nbytes = 0;
  OK(tenon_open_fd(&part, NULL, &again, ERR));
  CHECK(again == first);
  tenon_storage_release(again);
  close(copy);

  OK(tenon_open_fd(&handles[1], NULL, &second, ERR)); /* same segment, other range */
  CHECK(second != first && tenon_storage_same_memory(first, second) == 0);
  CHECK(tenon_storage_id(second) != tenon_storage_id(first));
  part = handles[0];
  part.nbytes = 100;
  OK(tenon_open_fd(&part, NULL, &narrow, ERR));
  CHECK(narrow != first && tenon_storage_nbytes(narrow) == 100 &&
        tenon_storage_data(narrow) == tenon_storage_data(first));
  CHECK(count_memfd_mappings() == mappings);

  OK(tenon_open_fd(&handles[0], &want_read, &read_only, ERR)); /* same range, other access */
  CHECK(read_only != first && tenon_storage_id(read_only) != tenon_storage_id(first));
  CHECK(tenon_storage_same_memory(read_only, first) == 1);
  CHECK(tenon_storage_is_read_only(read_only) == 1 && tenon_storage_is_read_only(first) == 0);
  OK(tenon_storage_write(first, 0, "seen", 4, ERR));
  CHECK(memcmp(tenon_storage_data(read_only), "seen", 4) == 0);
  OK(tenon_open_fd(&handles[0], &want_read, &again, ERR));
  CHECK(again == read_only);
  tenon_storage_release(again);

  id = tenon_storage_id(first); /* released and opened again: a new id over the same bytes */
  tenon_storage_release(first);
  OK(tenon_open_fd(&handles[0], NULL, &late, ERR));
  CHECK(tenon_storage_id(late) != id);
  CHECK(memcmp(tenon_storage_data(late), "seen", 4) == 0);
  tenon_storage_release(late);
  tenon_storage_release(read_only);
  tenon_storage_release(second);
  tenon_storage_release(narrow);
  close(fds[0]);
  close(fds[1]);
  check_signal(sock);
  check_join(child);
  close(sock);
}

static void the_lenders_own(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 1000, 1), *opened = NULL;
  tenon_storage *quiet = check_storage(TENON_MODE_LENDER_WRITES, 0, 1000, 2);
  tenon_open_options want_read = check_open_options(TENON_ACCESS_READ_ONLY, 0);
  tenon_fd_handle handle = check_handle();
  OK(tenon_share_fd(storage, NULL, &handle, ERR));
  OK(tenon_open_fd(&handle, NULL, &opened, ERR));
  CHECK(opened == storage && tenon_storage_use_count(storage) == 2);
  tenon_storage_release(opened);
  OK(tenon_open_fd(&handle, &want_read, &opened, ERR));
  CHECK(opened != storage && tenon_storage_same_memory(opened, storage) == 1 &&
        tenon_storage_is_read_only(opened) == 1);
  tenon_storage_release(opened);
  tenon_fd_handle_close(&handle);
  OK(tenon_share_fd(quiet, NULL, &handle,
                    ERR)); /* the lender writes, the handle reads: two accesses, two storages */
  OK(tenon_open_fd(&handle, NULL, &opened, ERR));
  CHECK(opened != quiet && tenon_storage_same_memory(opened, quiet) == 1 &&
        tenon_storage_is_read_only(opened) == 1);
  OK(tenon_storage_write(quiet, 0, "seen", 4, ERR));
  CHECK(memcmp(tenon_storage_data(opened), "seen", 4) == 0);
  tenon_storage_release(opened);
  tenon_fd_handle_close(&handle);
  tenon_storage_release(quiet);
  tenon_storage_release(storage);
}

static void shared_in_one_message(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 1024, 1),
                *other = check_storage(TENON_MODE_SHARED, 0, 1024, 2);
  tenon_tensor *tensors[3], *got[3];
  tenon_message *message = NULL, *arrived = NULL;
  tenon_descriptor *descriptor = NULL;
  tenon_open_options copy = check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY);
  const int32_t *fds;
  const void *bytes;
  size_t n_fds, nbytes, i;
  tensors[0] = check_bytes_tensor(storage);
  tensors[1] = check_bytes_tensor(storage);
  tensors[2] = check_bytes_tensor(other);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, tensors, NULL, 3, NULL, ERR));
  OK(tenon_descriptor_new(message, NULL, &descriptor, ERR));
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  fds = tenon_descriptor_fds(descriptor, &n_fds);
  OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, NULL, &arrived, ERR));
  for (i = 0; i < 3; i++) got[i] = tenon_message_tensor(arrived, i);
  CHECK(tenon_tensor_storage(got[0]) == storage && tenon_tensor_storage(got[1]) == storage &&
        tenon_tensor_storage(got[2]) == other);
  tenon_message_release(arrived);
  OK(tenon_descriptor_open(bytes, nbytes, fds, n_fds, &copy, &arrived,
                           ERR)); /* a copy is new, but within one message still one */
  for (i = 0; i < 3; i++) got[i] = tenon_message_tensor(arrived, i);
  CHECK(tenon_tensor_storage(got[0]) != storage &&
        tenon_tensor_storage(got[0]) == tenon_tensor_storage(got[1]));
  CHECK(tenon_tensor_storage(got[0]) != tenon_tensor_storage(got[2]));
  tenon_message_release(arrived);
  tenon_descriptor_release(descriptor);
  tenon_message_release(message);
  for (i = 0; i < 3; i++) tenon_tensor_release(tensors[i]);
  tenon_storage_release(storage);
  tenon_storage_release(other);
}

/* Many threads open, read and release the same handle. Each gets a live storage, and while it is
 * held every thread gets that one. */
static tenon_fd_handle stress_handle;
static tenon_storage *stress_held;

static void *open_and_release(void *argument) {
  int i;
  (void)argument;
  for (i = 0; i < 3000; i++) {
    tenon_storage *storage = NULL;
    CHECK(tenon_open_fd(&stress_handle, NULL, &storage, NULL) == TENON_OK);
    if (stress_held != NULL) CHECK(storage == stress_held);
    CHECK(tenon_storage_nbytes(storage) == 4096 &&
          check_filled(tenon_storage_data(storage), 64, 8));
    tenon_storage_release(storage);
  }
  return NULL;
}

static void many_openers(void) {
  pthread_t threads[8];
  size_t i;
  int round;
  for (round = 0; round < 2; round++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 4096, 8);
    stress_handle = check_handle();
    OK(tenon_share_fd(storage, NULL, &stress_handle, ERR));
    stress_held = round == 0 ? storage : NULL;
    if (round == 1)
      tenon_storage_release(storage); /* not held here, so opens race with last releases */
    for (i = 0; i < COUNT_OF(threads); i++)
      CHECK(pthread_create(&threads[i], NULL, open_and_release, NULL) == 0);
    for (i = 0; i < COUNT_OF(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
    if (round == 0) tenon_storage_release(storage);
    tenon_fd_handle_close(&stress_handle);
  }
}

int main(void) {
  check_begin(60);
  RUN(same_and_other);
  RUN(the_lenders_own);
  RUN(shared_in_one_message);
  RUN_ONCE(many_openers);
  return 0;
}
