/* Tests that a lender never reuses a block that it lent without a lease, and that a loop of lend,
 * release and allocate still has bounded memory. */
#include "check.h"

/* The memory bound holds for a build without sanitizers. Sanitizers check every round and make it
 * slow.
 */
enum {
  kRounds = TENON_TEST_SANITIZED ? 2000 : 10000,
  kBytes = 64 * 1024,
  kRecent = 16,
  kOldest = 4
};

static const uint64_t kBound = 256ULL << 20; /* of 625 MiB that go over the wire: the segments in
                                                use and those that the receiver holds */

static uint64_t shared_memory_of(pid_t pid) {
  char path[64], line[256];
  FILE *rollup;
  uint64_t kib = 0;
  snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
  rollup = fopen(path, "re");
  CHECK(rollup != NULL);
  while (fgets(line, sizeof(line), rollup) != NULL) {
    unsigned long long value;
    if (sscanf(line, "Pss_Shmem: %llu kB", &value) == 1) kib = value;
  }
  fclose(rollup);
  return kib * 1024;
}

static void receiver(int sock) {
  tenon_connection *connection = NULL;
  tenon_message *recent[kRecent] = {NULL}, *oldest[kOldest] = {NULL};
  uint64_t i, k;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  for (i = 0; i < kRounds; i++) {
    tenon_message *got = NULL, **place;
    OK(tenon_recv(connection, NULL, &got, ERR));
    CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(got, 0)), kBytes, i));
    place = i < kOldest ? &oldest[i] : &recent[i % kRecent];
    if (*place != NULL) {
      uint64_t number =
          i -
          kRecent; /* kept for a while: the lender released it long ago and allocated after it */
      CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(*place, 0)), kBytes, number));
      tenon_message_release(*place);
    }
    *place = got;
    if (i % 1000 == 999) {
      for (k = 0; k < kOldest; k++)
        CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(oldest[k], 0)), kBytes, k));
    }
  }
  check_signal(sock);
  check_await(sock);
  for (k = 0; k < kOldest; k++)
    CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(oldest[k], 0)), kBytes, k));
  for (k = 0; k < kOldest; k++) tenon_message_release(oldest[k]);
  for (k = 0; k < kRecent; k++) tenon_message_release(recent[k]);
  tenon_connection_release(connection);
  {
    /* The library's thread may just be releasing a mapping. */
    struct check_held held = check_hold();
    int tries;
    for (tries = 0; held.mappings != 0 && tries < 1000; tries++) {
      usleep(5000);
      held = check_hold();
    }
    CHECK_EQ(held.mappings, 0);
  }
}

static void lend_release_allocate(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, receiver, &sock);
  tenon_connection *connection = NULL;
  uint64_t i, most = 0, most_shared = 0;
  tenon_stats stats;
  OK(tenon_connection_new(sock, NULL, &connection, ERR));
  SIZED(stats);
  for (i = 0; i < kRounds; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kBytes, i);
    tenon_tensor *tensor = check_bytes_tensor(storage);
    tenon_message *message = NULL;
    OK(tenon_message_new(&message, ERR));
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    OK(tenon_send(connection, message, NULL, ERR));
    tenon_message_release(message);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
    OK(tenon_stats_get(&stats, ERR));
    if (stats.bytes_reserved > most) most = stats.bytes_reserved;
    CHECK(stats.bytes_reserved <= kBound);
    if (i % 500 == 499) {
      uint64_t shared = shared_memory_of(getpid()) + shared_memory_of(child);
      if (shared > most_shared) most_shared = shared;
      CHECK(shared <= kBound);
    }
  }
  check_await(sock);
  printf("  reserved at most %llu MiB, shared memory of both at most %llu MiB\n",
         (unsigned long long)(most >> 20), (unsigned long long)(most_shared >> 20));
  CHECK(most_shared > 0);
  tenon_connection_release(connection);
  check_signal(sock);
  check_join(child);
  close(sock);
}

/* The same without a connection: a handle by fd alone makes a lent block. */
static void lent_by_handle(void) {
  enum { kKept = 64 };
  ino_t segments[kKept];
  tenon_fd_handle handles[kKept];
  struct stat info;
  size_t i, k;
  for (i = 0; i < kKept; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 1000, i);
    handles[i] = check_handle();
    OK(tenon_share_fd(storage, NULL, &handles[i], ERR));
    CHECK(fstat(handles[i].fd, &info) == 0);
    segments[i] = info.st_ino;
    for (k = 0; k < i; k++)
      CHECK(segments[k] != segments[i] || handles[k].offset != handles[i].offset);
    tenon_storage_release(storage);
  }
  for (i = 0; i < kKept; i++) {
    unsigned char bytes[1000];
    CHECK(pread(handles[i].fd, bytes, sizeof(bytes), (off_t)handles[i].offset) ==
          (ssize_t)sizeof(bytes));
    CHECK(check_filled(bytes, sizeof(bytes), i));
    tenon_fd_handle_close(&handles[i]);
  }
}

/* A block that was never lent is reused at once, so the loop uses one block. */
static void never_lent(void) {
  uint64_t i, reserved = 0;
  tenon_stats stats;
  SIZED(stats);
  for (i = 0; i < kRounds; i++) {
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 4096, i);
    CHECK(check_filled(tenon_storage_data(storage), 4096, i));
    tenon_storage_release(storage);
    OK(tenon_stats_get(&stats, ERR));
    if (i == 0) reserved = stats.bytes_reserved;
    CHECK_EQ(stats.bytes_reserved, reserved);
  }
}

int main(void) {
  check_begin(120);
  RUN_ONCE(lend_release_allocate);
  RUN(lent_by_handle);
  RUN_ONCE(never_lent);
  return 0;
}
