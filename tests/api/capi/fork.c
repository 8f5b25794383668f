/* Tests rule 9 of tenon.h: what a forked child may do, and that nothing it does touches the
 * parent's memory. */
#include "check.h"

#include <pthread.h>

enum { kCount = 50, kBytes = 3000 };

static pid_t fork_flushed(void) {
  pid_t child;
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) alarm(60 * (TENON_TEST_SANITIZED ? 4 : 1));
  return child;
}

static void all_filled(tenon_storage *const *storages, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) CHECK(check_filled(tenon_storage_data(storages[i]), kBytes, i));
}

static void child_uses_and_releases(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  size_t m, i;
  for (m = 0; m < COUNT_OF(modes); m++) {
    tenon_storage *storages[kCount];
    tenon_weak *weak = NULL;
    pid_t child;
    for (i = 0; i < kCount; i++) storages[i] = check_storage(modes[m], 0, kBytes, i);
    OK(tenon_weak_ref(storages[0], &weak, ERR));
    child = fork_flushed();
    if (child == 0) {
      tenon_storage *mine[200], *locked;
      all_filled(storages, kCount);
      locked = tenon_weak_lock(weak);
      CHECK(locked == storages[0]);
      tenon_storage_release(locked);
      for (i = 0; i < kCount; i++) tenon_storage_release(storages[i]);
      CHECK(tenon_weak_expired(weak) == 1);
      for (i = 0; i < COUNT_OF(mine); i++)
        mine[i] = check_storage(modes[m], 0, kBytes,
                                1000 + i); /* never over what was released here but lives there */
      for (i = 0; i < COUNT_OF(mine); i++)
        CHECK(check_filled(tenon_storage_data(mine[i]), kBytes, 1000 + i));
      for (i = 0; i < COUNT_OF(mine); i++) tenon_storage_release(mine[i]);
      tenon_weak_release(weak);
      (void)tenon_storage_trim();
      _exit(0);
    }
    check_join(child);
    all_filled(storages, kCount);
    CHECK(tenon_storage_use_count(storages[0]) == 1 && tenon_weak_expired(weak) == 0);
    for (i = 0; i < kCount; i++) tenon_storage_release(storages[i]);
    tenon_weak_release(weak);
  }
}

static void both_allocate_at_once(void) {
  tenon_storage *kept[kCount], *mine[kCount];
  size_t i;
  int ends[2], round;
  pid_t child;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  for (i = 0; i < kCount; i++) kept[i] = check_storage(TENON_MODE_SHARED, 0, kBytes, i);
  for (i = 0; i < kCount; i += 2)
    tenon_storage_release(kept[i]); /* free blocks that both processes could take */
  child = fork_flushed();
  for (round = 0; round < 20; round++) {
    uint64_t seed = child == 0 ? 5000 : 9000;
    for (i = 0; i < kCount; i++) mine[i] = check_storage(TENON_MODE_SHARED, 0, kBytes, seed + i);
    if (child == 0) {
      check_signal(ends[1]);
      check_await(ends[1]);
    } else {
      check_signal(ends[0]);
      check_await(ends[0]);
    }
    for (i = 0; i < kCount; i++) CHECK(check_filled(tenon_storage_data(mine[i]), kBytes, seed + i));
    for (i = 1; i < kCount; i += 2) CHECK(check_filled(tenon_storage_data(kept[i]), kBytes, i));
    for (i = 0; i < kCount; i++) tenon_storage_release(mine[i]);
  }
  if (child == 0) _exit(0);
  check_join(child);
  for (i = 1; i < kCount; i += 2) tenon_storage_release(kept[i]);
  close(ends[0]);
  close(ends[1]);
}

static void written_by_the_child_seen_by_the_parent(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kBytes, 1);
  void *data = NULL;
  pid_t child;
  OK(tenon_storage_data_mut(storage, &data, ERR));
  child = fork_flushed();
  if (child == 0) {
    memcpy(data, "child", 5);
    OK(tenon_storage_write(storage, 5, " wrote", 6, ERR));
    _exit(0);
  }
  check_join(child);
  CHECK(memcmp(data, "child wrote", 11) == 0);
  tenon_storage_release(storage);
}

static void child_lends_on(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kBytes, 1), *opened = NULL;
  tenon_fd_handle handle = check_handle();
  int ends[2], fd;
  pid_t child;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  child = fork_flushed();
  if (child == 0) {
    tenon_storage *mine = check_storage(TENON_MODE_SHARED, 0, kBytes, 77);
    OK(tenon_share_fd(mine, NULL, &handle, ERR));
    check_send(ends[1], &handle, sizeof(handle), &handle.fd, 1);
    tenon_fd_handle_close(&handle);
    OK(tenon_share_fd(storage, NULL, &handle, ERR)); /* the child lends inherited memory */
    check_send(ends[1], &handle, sizeof(handle), &handle.fd, 1);
    check_await(ends[1]);
    _exit(0);
  }
  CHECK(check_recv(ends[0], &handle, sizeof(handle), &fd, 1) == 1);
  handle.fd = fd;
  OK(tenon_open_fd(&handle, NULL, &opened, ERR));
  CHECK(opened != storage && tenon_storage_same_memory(opened, storage) == 0 &&
        check_filled(tenon_storage_data(opened), kBytes, 77));
  tenon_storage_release(opened);
  close(fd);
  CHECK(check_recv(ends[0], &handle, sizeof(handle), &fd, 1) == 1);
  handle.fd = fd;
  OK(tenon_open_fd(&handle, NULL, &opened, ERR));
  CHECK(tenon_storage_same_memory(opened, storage) == 1); /* the parent knows the memory */
  tenon_storage_release(opened);
  close(fd);
  check_signal(ends[0]);
  check_join(child);
  tenon_storage_release(storage);
  close(ends[0]);
  close(ends[1]);
}

static void connections_stay_with_their_maker(void) {
  int ends[2];
  tenon_connection *connection = NULL, *other = NULL;
  tenon_message *message = NULL, *out = PATTERN;
  tenon_wait wait = check_wait_ns(0);
  pid_t child;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  OK(tenon_connection_new(ends[0], NULL, &connection, ERR));
  OK(tenon_connection_new(ends[1], NULL, &other, ERR));
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_set_user_bytes(message, "once", 4, ERR));
  child = fork_flushed();
  if (child == 0) {
    FAILS(TENON_UNSUPPORTED, tenon_send(connection, message, &wait, ERR));
    FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_recv(connection, &wait, &out, ERR));
    tenon_connection_release(connection);
    tenon_connection_release(other);
    tenon_message_release(message);
    _exit(0);
  }
  check_join(child);
  OK(tenon_send(connection, message, NULL,
                ERR)); /* what the child did and closed changed nothing here */
  OK(tenon_recv(other, &wait, &out, ERR));
  tenon_message_release(out);
  tenon_message_release(message);
  tenon_connection_release(connection);
  tenon_connection_release(other);
  close(ends[0]);
  close(ends[1]);
}

/* Forks at any moment while other threads are in the library. No lock stays taken in the child, and
 * no table is half changed. */
static int stop;
static void *busy(void *argument) {
  uint64_t seed = (uint64_t)(uintptr_t)argument, i;
  for (i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
    tenon_storage *storage = NULL, *opened = NULL;
    tenon_fd_handle handle = check_handle();
    tenon_weak *weak = NULL;
    tenon_error *error = NULL;
    CHECK(tenon_storage_new(NULL, 64 + (seed * 31 + i * 257) % 20000, &storage, NULL) == TENON_OK);
    CHECK(tenon_weak_ref(storage, &weak, NULL) == TENON_OK);
    if (i % 16 == 0) {
      CHECK(tenon_share_fd(storage, NULL, &handle, NULL) == TENON_OK);
      CHECK(tenon_open_fd(&handle, NULL, &opened, NULL) == TENON_OK);
      tenon_fd_handle_close(&handle);
      tenon_storage_release(opened);
    }
    CHECK(tenon_weak_ref(NULL, &weak, &error) == TENON_INVALID_ARGUMENT);
    tenon_error_release(error);
    tenon_storage_release(storage);
    tenon_weak_release(weak);
  }
  return NULL;
}

static void at_any_moment(void) {
  pthread_t threads[4];
  size_t i;
  int round, rounds = TENON_TEST_SANITIZED ? 20 : 100;
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kBytes, 3);
  __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
  for (i = 0; i < COUNT_OF(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, busy, (void *)(uintptr_t)(i + 1)) == 0);
  for (round = 0; round < rounds; round++) {
    pid_t child = fork_flushed();
    if (child == 0) {
      tenon_storage *mine[20], *opened = NULL;
      tenon_fd_handle handle = check_handle();
      CHECK(check_filled(tenon_storage_data(storage), kBytes, 3));
      for (i = 0; i < COUNT_OF(mine); i++) mine[i] = check_storage(TENON_MODE_SHARED, 0, kBytes, i);
      OK(tenon_share_fd(mine[0], NULL, &handle, ERR));
      OK(tenon_open_fd(&handle, NULL, &opened, ERR));
      CHECK(opened == mine[0]);
      tenon_storage_release(opened);
      tenon_fd_handle_close(&handle);
      all_filled(mine, COUNT_OF(mine));
      for (i = 0; i < COUNT_OF(mine); i++) tenon_storage_release(mine[i]);
      tenon_storage_release(storage);
      _exit(0);
    }
    check_join(child);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (i = 0; i < COUNT_OF(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(check_filled(tenon_storage_data(storage), kBytes, 3));
  tenon_storage_release(storage);
}

int main(void) {
  check_begin(120);
  RUN(child_uses_and_releases);
  RUN(both_allocate_at_once);
  RUN(written_by_the_child_seen_by_the_parent);
  RUN(child_lends_on);
  RUN(connections_stay_with_their_maker);
#if TENON_TEST_ASAN
  printf(
      "- at_any_moment: left out, gcc 12's ASan does not free its own allocator's locks in a child "
      "of fork\n");
  (void)at_any_moment;
#elif defined(CHECK_MALLOC_KEEPS_LOCKS)
  printf(
      "- at_any_moment: left out, this libc's malloc does not free its locks in a child of fork\n");
  (void)at_any_moment;
#else
  RUN_ONCE(at_any_moment);
#endif
  return 0;
}
