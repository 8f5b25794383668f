/* Tests tenon/deposit.h: messages whose receivers are not known yet. Receivers are child processes.
 * So is each lender that ends, because a process remembers what it knows about a lender. */
#include "check.h"
#include "support/become_user.h"

#include <sys/file.h>

enum { kSmall = 5000, kMostBytes = 4096 };

static tenon_message *const kNothing = PATTERN;

struct bytes {
  size_t n;
  unsigned char data[kMostBytes];
};

static void give(int to, const void *data, size_t n) {
  check_send(to, &n, sizeof(n), NULL, 0);
  check_send(to, data, n, NULL, 0);
}

static struct bytes take(int from) {
  struct bytes bytes;
  (void)check_recv(from, &bytes.n, sizeof(bytes.n), NULL, 0);
  CHECK(bytes.n > 0 && bytes.n <= sizeof(bytes.data));
  (void)check_recv(from, bytes.data, bytes.n, NULL, 0);
  return bytes;
}

static struct bytes ticket_bytes(tenon_ticket *ticket) {
  struct bytes bytes;
  const void *data = tenon_ticket_bytes(ticket, &bytes.n);
  CHECK(data != NULL && bytes.n > 0 && bytes.n <= sizeof(bytes.data));
  CHECK(tenon_ticket_bytes(ticket, NULL) == data);
  memcpy(bytes.data, data, bytes.n);
  return bytes;
}

/* Takes over the storage's reference. */
static tenon_message *message_of(tenon_storage *storage) {
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_message *message = NULL;
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return message;
}

/* Returns the ticket of a deposited message. This process releases the objects of the message. */
static struct bytes deposit_of(tenon_storage *storage) {
  tenon_message *message = message_of(storage);
  tenon_ticket *ticket = NULL;
  struct bytes bytes;
  OK(tenon_message_deposit(message, &ticket, ERR));
  tenon_message_release(message);
  bytes = ticket_bytes(ticket);
  tenon_ticket_release(ticket);
  return bytes;
}

static struct bytes deposit_filled(uint64_t nbytes, uint64_t seed) {
  return deposit_of(check_storage(TENON_MODE_SHARED, 0, nbytes, seed));
}

static tenon_message *fetch(const struct bytes *ticket) {
  tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  OK(tenon_message_fetch(ticket->data, ticket->n, NULL, &wait, &message, ERR));
  return message;
}

#define FETCH_FAILS(code, ticket)                                                                 \
  do {                                                                                            \
    tenon_message *check_out = kNothing;                                                          \
    FAILS_KEEPING(code, check_out,                                                                \
                  tenon_message_fetch((ticket)->data, (ticket)->n, NULL, NULL, &check_out, ERR)); \
  } while (0)

static int message_is_filled(const tenon_message *message, uint64_t nbytes, uint64_t seed) {
  const tenon_tensor *tensor = tenon_message_tensor(message, 0);
  return tenon_message_count(message) == 1 &&
         tenon_storage_nbytes(tenon_tensor_storage(tensor)) == nbytes &&
         check_filled(tenon_tensor_data(tensor), nbytes, seed);
}

static tenon_deposit_stats stats(void) {
  tenon_deposit_stats figures;
  SIZED(figures);
  OK(tenon_deposit_stats_get(&figures, ERR));
  CHECK(figures.struct_size == sizeof(figures));
  return figures;
}

/* Counts the leases that receivers hold. */
static uint64_t held_leases(void) {
  tenon_lease_holder holders[16];
  uint64_t sum = 0;
  size_t n = 0, i;
  memset(holders, 0, sizeof(holders));
  holders[0].struct_size = sizeof(holders[0]);
  OK(tenon_lease_holders(holders, COUNT_OF(holders), &n, ERR));
  CHECK(n <= COUNT_OF(holders));
  for (i = 0; i < n; i++) sum += holders[i].leases;
  return sum;
}

static void await_leases(uint64_t wanted) {
  int tries;
  for (tries = 0; tries < 10000 && held_leases() != wanted; tries++) usleep(1000);
  CHECK_EQ(held_leases(), wanted);
}

/* ---- whole messages */

static void fetch_everything(int sock) {
  struct bytes ticket = take(sock);
  tenon_message *message = fetch(&ticket);
  tenon_tensor *tensor;
  size_t i, n = 0;
  CHECK(tenon_message_count(message) == 5);
  CHECK(memcmp(tenon_message_user_bytes(message, &n), "hello", 5) == 0 && n == 5);
  for (i = 0; i < 3; i++) {
    tenon_storage *storage = tenon_tensor_storage(tenon_message_tensor(message, i));
    CHECK(tenon_storage_nbytes(storage) == kSmall + i &&
          check_filled(tenon_storage_data(storage), kSmall + i, i));
    CHECK(tenon_storage_is_read_only(storage) == (i == 0 ? 0 : 1));
  }
  CHECK(strcmp(tenon_message_name(message, 0), "shared") == 0 &&
        tenon_message_name(message, 2) == NULL);
  CHECK(tenon_tensor_storage(tenon_message_tensor(message, 3)) ==
        tenon_tensor_storage(tenon_message_tensor(message, 0)));
  CHECK(tenon_tensor_numel(tenon_message_tensor(message, 4)) == 0);
  FETCH_FAILS(TENON_NOT_FOUND, &ticket);
  tensor = tenon_tensor_retain(tenon_message_tensor(message, 1));
  tenon_message_release(message);
  check_signal(sock); /* the child holds one storage now */
  check_await(sock);
  CHECK(check_filled(tenon_tensor_data(tensor), kSmall + 1, 1));
  tenon_tensor_release(tensor);
  check_signal(sock);
  check_await(sock);
}

static void whole_messages(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  static const char *const names[] = {"shared", "lender writes", NULL, "again", "empty"};
  tenon_storage *storages[4];
  tenon_tensor *tensors[5];
  tenon_message *message = NULL;
  tenon_ticket *ticket = NULL;
  struct bytes bytes;
  int sock, withdrawn = 7;
  size_t i;
  pid_t child = check_spawn(SOCK_STREAM, fetch_everything, &sock);
  for (i = 0; i < 3; i++) storages[i] = check_storage(modes[i], 0, kSmall + i, i);
  storages[3] = check_storage(TENON_MODE_SHARED, 0, 0, 0);
  for (i = 0; i < 3; i++) tensors[i] = check_bytes_tensor(storages[i]);
  tensors[3] = check_bytes_tensor(storages[0]);
  tensors[4] = check_bytes_tensor(storages[3]);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, tensors, names, 5, NULL, ERR));
  OK(tenon_message_set_user_bytes(message, "hello", 5, ERR));
  OK(tenon_message_deposit(message, &ticket, ERR));
  bytes = ticket_bytes(ticket);
  tenon_message_release(message);
  for (i = 0; i < 5; i++) tenon_tensor_release(tensors[i]);
  for (i = 0; i < 4; i++) tenon_storage_release(storages[i]);
  CHECK(stats().messages == 1 && stats().segments >= 1);
  tenon_ticket_release(ticket); /* the message stays deposited */
  CHECK(stats().messages == 1);
  give(sock, bytes.data, bytes.n);
  check_await(sock);
  CHECK(stats().messages == 0 && stats().segments == 0);
  OK(tenon_ticket_withdraw(bytes.data, bytes.n, &withdrawn, ERR));
  CHECK(withdrawn == 0);
  await_leases(1);
  check_signal(sock);
  check_await(sock);
  await_leases(0);
  check_signal(sock);
  check_join(child);
  close(sock);
}

static void its_own_lender(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kSmall, 3);
  struct bytes ticket = deposit_of(tenon_storage_retain(storage));
  tenon_message *message = fetch(&ticket);
  CHECK(tenon_tensor_storage(tenon_message_tensor(message, 0)) == storage);
  CHECK(stats().messages == 0);
  FETCH_FAILS(TENON_NOT_FOUND, &ticket);
  tenon_message_release(message);
  tenon_storage_release(storage);
}

static void only_bytes(void) {
  tenon_message *message = NULL, *got;
  tenon_ticket *ticket = NULL;
  struct bytes bytes;
  size_t n = 9;
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_deposit(message, &ticket, ERR));
  tenon_message_release(message);
  bytes = ticket_bytes(ticket);
  tenon_ticket_release(ticket);
  got = fetch(&bytes);
  CHECK(tenon_message_count(got) == 0 && tenon_message_user_bytes(got, &n) == NULL && n == 0);
  tenon_message_release(got);
}

static void await_messages(uint64_t n) {
  int i;
  for (i = 0; i < 5000 && stats().messages != n; i++) usleep(1000);
  CHECK(stats().messages == n);
}

/* A message is removed before it is counted as expired. */
static void await_expired(uint64_t n) {
  int i;
  for (i = 0; i < 5000 && stats().expired != n; i++) usleep(1000);
  CHECK(stats().expired == n);
}

static void await_closed(int fd) {
  int i;
  for (i = 0; i < 5000 && fcntl(fd, F_GETFD) != -1; i++) usleep(1000);
  CHECK(fcntl(fd, F_GETFD) == -1);
}

static void watched_messages(void) {
  struct bytes unread = deposit_filled(kSmall, 1), fetched = deposit_filled(kSmall, 2),
               late = deposit_filled(kSmall, 3);
  int markers[3][2], files[2], i;
  struct bytes all[3];
  uint64_t expired = stats().expired;
  all[0] = unread, all[1] = fetched, all[2] = late;
  for (i = 0; i < 3; i++) {
    CHECK(pipe2(markers[i], O_CLOEXEC) == 0);
    OK(tenon_ticket_watch(all[i].data, all[i].n, markers[i][0], i == 0 ? 0 : 50000000, ERR));
  }
  CHECK(pipe2(files, O_CLOEXEC) == 0);
  close(files[0]);
  INVALID(tenon_ticket_watch(unread.data, unread.n, files[0], 0, ERR));
  FAILS(TENON_CORRUPT, tenon_ticket_watch(unread.data, 10, files[1], 0, ERR));
  close(files[1]); /* still the caller's */
  files[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  INVALID(tenon_ticket_watch(unread.data, unread.n, files[0], 0, ERR));
  close(files[0]);
  CHECK(stats().messages == 3);

  close(markers[0][1]);
  await_messages(2);
  FETCH_FAILS(TENON_NOT_FOUND, &unread);
  /* The carrier of both tickets is closed. The grace period is for a process that has read a ticket
   * and has not fetched the message yet.
   */
  close(markers[1][1]);
  close(markers[2][1]);
  tenon_message_release(fetch(&fetched));
  await_messages(0);
  FETCH_FAILS(TENON_NOT_FOUND, &late);
  await_expired(expired + 2);
  for (i = 0; i < 3; i++) await_closed(markers[i][0]); /* the library closes them */
}

/* Two tickets travel in a pipe. One message is fetched. The other ticket is still in the pipe when
 * the last read end is closed.
 */
static void watched_messages_of_a_pipe(void) {
  struct bytes fetched = deposit_filled(kSmall, 1), unread = deposit_filled(kSmall, 2);
  int carrier[2], watched[2];
  uint64_t expired = stats().expired;
  CHECK(pipe2(carrier, O_CLOEXEC) == 0);
  watched[0] = fcntl(carrier[1], F_DUPFD_CLOEXEC, 0);
  OK(tenon_ticket_watch(fetched.data, fetched.n, watched[0], 0, ERR));
  watched[1] = fcntl(carrier[1], F_DUPFD_CLOEXEC, 0);
  OK(tenon_ticket_watch(unread.data, unread.n, watched[1], 0, ERR));
  tenon_message_release(fetch(&fetched));
  await_closed(watched[0]); /* the pipe still exists */
  CHECK(stats().messages == 1 && fcntl(watched[1], F_GETFD) != -1);
  close(carrier[0]);
  await_messages(0);
  await_closed(watched[1]);
  FETCH_FAILS(TENON_NOT_FOUND, &unread);
  await_expired(expired + 1);
  close(carrier[1]);
}

static void too_many_watched_messages(void) {
  struct bytes ticket = deposit_filled(kSmall, 1);
  struct rlimit limit, lower;
  int markers[20][2], i;
  tenon_status status = TENON_OK;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  lower = limit;
  lower.rlim_cur = 128; /* an eighth is 16 */
  CHECK(setrlimit(RLIMIT_NOFILE, &lower) == 0);
  for (i = 0; i < 16; i++) {
    CHECK(pipe2(markers[i], O_CLOEXEC) == 0);
    OK(tenon_ticket_watch(ticket.data, ticket.n, markers[i][0], 0, ERR));
  }
  CHECK(pipe2(markers[16], O_CLOEXEC) == 0);
  FAILS(TENON_RESOURCE_EXHAUSTED,
        tenon_ticket_watch(ticket.data, ticket.n, markers[16][0], 0, ERR));
  close(markers[3][1]); /* a watch that is over makes room */
  status = tenon_ticket_watch(ticket.data, ticket.n, markers[16][0], INT64_MAX, NULL);
  CHECK(status == TENON_OK);
  OK(tenon_ticket_withdraw(ticket.data, ticket.n, NULL, ERR));
  for (i = 0; i < 17; i++) await_closed(markers[i][0]); /* a withdrawn message is not watched */
  for (i = 0; i < 17; i++) {
    if (i != 3) close(markers[i][1]);
  }
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void find_nothing(int sock) {
  struct bytes ticket = take(sock);
  FETCH_FAILS(TENON_NOT_FOUND, &ticket);
}

static void withdrawn_messages(void) {
  struct bytes first = deposit_filled(kSmall, 1), second = deposit_filled(kSmall, 2);
  int sock, withdrawn = 7;
  pid_t child = check_spawn(SOCK_STREAM, find_nothing, &sock);
  CHECK(stats().messages == 2);
  OK(tenon_ticket_withdraw(first.data, first.n, NULL, ERR));
  OK(tenon_ticket_withdraw(second.data, second.n, &withdrawn, ERR));
  CHECK(withdrawn == 1 && stats().messages == 0);
  OK(tenon_ticket_withdraw(second.data, second.n, &withdrawn, ERR));
  CHECK(withdrawn == 0);
  FETCH_FAILS(TENON_NOT_FOUND, &first);
  give(sock, second.data, second.n);
  check_join(child);
  close(sock);
}

/* ---- receivers and lenders that die */

static void hold_until_killed(int sock) {
  struct bytes ticket = take(sock);
  (void)fetch(&ticket);
  check_signal(sock);
  for (;;) pause();
}

static void a_killed_receiver(void) {
  struct bytes ticket;
  int sock, status = 0;
  pid_t child = check_spawn(SOCK_STREAM, hold_until_killed, &sock);
  ticket = deposit_filled(kSmall, 1);
  give(sock, ticket.data, ticket.n);
  check_await(sock);
  CHECK_EQ(held_leases(), 1);
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  await_leases(0);
  FETCH_FAILS(TENON_NOT_FOUND, &ticket);
  close(sock);
}

static void lend_two_and_wait(int sock) {
  int i;
  for (i = 1; i <= 2; i++) {
    struct bytes ticket = deposit_filled(kSmall, (uint64_t)i);
    give(sock, ticket.data, ticket.n);
  }
  for (;;) pause();
}

/* One lender is killed before this process contacts it, the other one afterwards. */
static void outlive_lenders(int sock) {
  int met;
  for (met = 0; met < 2; met++) {
    int line;
    pid_t lender = check_spawn(SOCK_STREAM, lend_two_and_wait, &line);
    struct bytes first = take(line), second = take(line);
    tenon_message *one = met ? fetch(&first) : NULL, *two;
    CHECK(kill(lender, SIGKILL) == 0 && waitpid(lender, NULL, 0) == lender);
    if (met) {
      two = fetch(&second);
      CHECK(message_is_filled(one, kSmall, 1) && message_is_filled(two, kSmall, 2));
      tenon_message_release(one);
      tenon_message_release(two);
    } else {
      FETCH_FAILS(TENON_PEER_GONE, &second);
    }
    close(line);
  }
  check_signal(sock);
}

static void killed_lenders(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, outlive_lenders, &sock);
  check_await(sock);
  check_join(child);
  close(sock);
}

/* ---- waits */

static void wait_for_a_stopped_lender(int sock) {
  struct bytes ticket = take(sock);
  tenon_message *out = kNothing, *message;
  tenon_wait wait = check_wait_ns(30000000);
  FAILS_KEEPING(TENON_TIMEOUT, out,
                tenon_message_fetch(ticket.data, ticket.n, NULL, &wait, &out, ERR));
  wait = check_wait_ns(0);
  FAILS_KEEPING(TENON_WOULD_BLOCK, out,
                tenon_message_fetch(ticket.data, ticket.n, NULL, &wait, &out, ERR));
  wait = check_wait_ns(-1);
  OK(tenon_cancel_new(&wait.cancel, ERR));
  tenon_cancel_trigger(wait.cancel);
  FAILS_KEEPING(TENON_CANCELLED, out,
                tenon_message_fetch(ticket.data, ticket.n, NULL, &wait, &out, ERR));
  tenon_cancel_release(wait.cancel);
  wait = check_wait_ns(0);
  wait.struct_size = 1;
  INVALID_KEEPING(out, tenon_message_fetch(ticket.data, ticket.n, NULL, &wait, &out, ERR));
  check_signal(sock);
  check_await(sock);
  message = fetch(&ticket); /* the message stayed where it was */
  CHECK(message_is_filled(message, kSmall, 4));
  tenon_message_release(message);
  check_signal(sock);
}

static void lend_one_and_wait(int sock) {
  struct bytes ticket = deposit_filled(kSmall, 4);
  give(sock, ticket.data, ticket.n);
  check_await(sock);
}

static void waits_that_end(void) {
  int to_lender, to_receiver, status = 0;
  pid_t receiver = check_spawn(SOCK_STREAM, wait_for_a_stopped_lender, &to_receiver);
  pid_t lender = check_spawn(SOCK_STREAM, lend_one_and_wait, &to_lender);
  struct bytes ticket = take(to_lender);
  CHECK(kill(lender, SIGSTOP) == 0 && waitpid(lender, &status, WUNTRACED) == lender &&
        WIFSTOPPED(status));
  give(to_receiver, ticket.data, ticket.n);
  check_await(to_receiver);
  CHECK(kill(lender, SIGCONT) == 0);
  check_signal(to_receiver);
  check_await(to_receiver);
  check_join(receiver);
  check_signal(to_lender);
  check_join(lender);
  close(to_receiver);
  close(to_lender);
}

/* ---- what is refused */

static tenon_deposit *new_deposit(void) {
  tenon_deposit *deposit = NULL;
  OK(tenon_deposit_new(&deposit, ERR));
  return deposit;
}

static void bad_arguments(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kSmall, 1), *opened = PATTERN;
  tenon_message *message = message_of(tenon_storage_retain(storage)), *out = kNothing;
  tenon_deposit *deposit = new_deposit(), *no_deposit = PATTERN;
  tenon_fetched *fetched = NULL, *no_fetched = PATTERN;
  tenon_ticket *ticket = PATTERN;
  unsigned char record[TENON_DEPOSIT_RECORD_NBYTES] = {0x5a};
  size_t n = 77, kept = 77;
  int withdrawn = 77;
  INVALID_KEEPING(ticket, tenon_message_deposit(NULL, &ticket, ERR));
  INVALID(tenon_message_deposit(message, NULL, ERR));
  CHECK(tenon_ticket_bytes(NULL, &n) == NULL && n == 0);
  CHECK(tenon_ticket_bytes(NULL, NULL) == NULL);
  tenon_ticket_release(NULL);
  INVALID_KEEPING(withdrawn, tenon_ticket_withdraw(NULL, 8, &withdrawn, ERR));
  FAILS_KEEPING(TENON_CORRUPT, withdrawn, tenon_ticket_withdraw(NULL, 0, &withdrawn, ERR));
  INVALID_KEEPING(withdrawn, tenon_ticket_withdraw(record, SIZE_MAX, &withdrawn, ERR));
  INVALID(tenon_ticket_watch(NULL, 8, 0, 0, ERR));
  INVALID(tenon_ticket_watch(record, sizeof(record), -1, 0, ERR));
  INVALID(tenon_ticket_watch(record, sizeof(record), 0, -1, ERR));
  INVALID_KEEPING(out, tenon_message_fetch(NULL, 8, NULL, NULL, &out, ERR));
  FAILS_KEEPING(TENON_CORRUPT, out, tenon_message_fetch(NULL, 0, NULL, NULL, &out, ERR));
  INVALID_KEEPING(out, tenon_message_fetch(record, SIZE_MAX, NULL, NULL, &out, ERR));
  INVALID(tenon_message_fetch(record, sizeof(record), NULL, NULL, NULL, ERR));

  INVALID(tenon_deposit_new(NULL, ERR));
  n = 77;
  CHECK(tenon_deposit_head(NULL, &n) == NULL && n == 0 && tenon_deposit_head(NULL, NULL) == NULL);
  n = 77;
  INVALID_KEEPING(record, tenon_deposit_add(NULL, storage, TENON_ACCESS_AUTO, record, &n, ERR));
  INVALID_KEEPING(record, tenon_deposit_add(deposit, NULL, TENON_ACCESS_AUTO, record, &n, ERR));
  INVALID_KEEPING(record,
                  tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, record, NULL, ERR));
  INVALID(tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, NULL, &n, ERR));
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, record,
                       tenon_deposit_add(deposit, storage, 3, record, &n, ERR));
  CHECK(n == 77);
  CHECK(tenon_deposit_withdraw(NULL) == 0);
  tenon_deposit_release(NULL);

  INVALID_KEEPING(no_fetched, tenon_fetched_new(NULL, 8, NULL, NULL, &no_fetched, ERR));
  FAILS_KEEPING(TENON_CORRUPT, no_fetched,
                tenon_fetched_new(NULL, 0, NULL, NULL, &no_fetched, ERR));
  INVALID(tenon_fetched_new(record, sizeof(record), NULL, NULL, NULL, ERR));
  INVALID_KEEPING(opened, tenon_fetched_storage(NULL, record, sizeof(record), NULL, &opened, ERR));
  OK(tenon_fetched_new(tenon_deposit_head(deposit, NULL), (tenon_deposit_head(deposit, &n), n),
                       NULL, NULL, &fetched, ERR));
  INVALID(tenon_fetched_storage(fetched, record, sizeof(record), NULL, NULL, ERR));
  INVALID_KEEPING(opened, tenon_fetched_storage(fetched, NULL, 8, NULL, &opened, ERR));
  FAILS_KEEPING(TENON_CORRUPT, opened, tenon_fetched_storage(fetched, NULL, 0, NULL, &opened, ERR));
  tenon_fetched_release(fetched);
  tenon_fetched_release(NULL);
  CHECK(tenon_deposit_withdraw(deposit) == 0);
  tenon_deposit_release(deposit);
  CHECK(no_deposit == PATTERN);

  INVALID(tenon_deposit_limits_set(NULL, ERR));
  INVALID(tenon_deposit_stats_get(NULL, ERR));
  {
    tenon_keep_options options;
    memset(&options, 0, sizeof(options));
    INVALID_KEEPING(kept, tenon_deposit_hand_over(&options, &kept, ERR));
    options.struct_size = sizeof(options);
    options.timeout_ns = -1;
    INVALID_KEEPING(kept, tenon_deposit_hand_over(&options, &kept, ERR));
    options.timeout_ns = 0;
    options.n_pidfds = 1;
    INVALID_KEEPING(kept, tenon_deposit_hand_over(&options, &kept, ERR));
    options.pidfds = &withdrawn;
    options.n_pidfds = 1025;
    INVALID_KEEPING(kept, tenon_deposit_hand_over(&options, &kept, ERR));
  }
  tenon_message_release(message);
  tenon_storage_release(storage);
}

static void bad_structs(void) {
  struct {
    tenon_deposit_limits limits;
    unsigned char tail[16];
  } larger_limits;
  struct {
    tenon_deposit_stats stats;
    unsigned char tail[16];
  } larger_stats;
  struct {
    tenon_keep_options options;
    unsigned char tail[16];
  } larger_options;
  tenon_deposit_limits limits;
  tenon_deposit_stats figures;
  memset(&limits, 0, sizeof(limits));
  INVALID(tenon_deposit_limits_set(&limits, ERR));
  limits.struct_size = sizeof(limits) - 1;
  INVALID(tenon_deposit_limits_set(&limits, ERR));
  limits.struct_size = sizeof(limits);
  limits.max_unfetched_ns = -1;
  INVALID(tenon_deposit_limits_set(&limits, ERR));
  memset(&larger_limits, 0, sizeof(larger_limits));
  larger_limits.limits.struct_size = sizeof(larger_limits);
  larger_limits.tail[15] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_deposit_limits_set(&larger_limits.limits, ERR));
  larger_limits.tail[15] = 0;
  OK(tenon_deposit_limits_set(&larger_limits.limits, ERR));

  memset(&figures, 0x5a, sizeof(figures));
  figures.struct_size = 0;
  INVALID_KEEPING(figures, tenon_deposit_stats_get(&figures, ERR));
  figures.struct_size = sizeof(figures) - 1;
  INVALID_KEEPING(figures, tenon_deposit_stats_get(&figures, ERR));
  memset(&larger_stats, 0x5a, sizeof(larger_stats));
  larger_stats.stats.struct_size = sizeof(larger_stats);
  OK(tenon_deposit_stats_get(&larger_stats.stats, ERR));
  CHECK(larger_stats.stats.messages == 0 && larger_stats.tail[0] == 0x5a &&
        larger_stats.tail[15] == 0x5a);

  memset(&larger_options, 0, sizeof(larger_options));
  larger_options.options.struct_size = sizeof(larger_options);
  larger_options.tail[3] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_deposit_hand_over(&larger_options.options, NULL, ERR));
}

static void bad_openings(void) {
  struct bytes ticket = deposit_filled(kSmall, 1);
  tenon_deposit *deposit = new_deposit();
  size_t n = 0, i;
  const void *head = tenon_deposit_head(deposit, &n);
  tenon_open_options options[] = {
      check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY),
      check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COW),
      check_open_options(3, 0),
      check_open_options(TENON_ACCESS_AUTO, 1U << 31),
      check_open_options(TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY | TENON_OPEN_PRIVATE_COW),
      check_open_options(TENON_ACCESS_AUTO, 0)};
  options[5].struct_size = 3;
  for (i = 0; i < COUNT_OF(options); i++) {
    const tenon_status a = i < 2 ? TENON_UNSUPPORTED : TENON_INVALID_ARGUMENT,
                       b = i < 4 ? TENON_UNSUPPORTED : TENON_INVALID_ARGUMENT;
    tenon_message *out = kNothing;
    tenon_fetched *fetched = PATTERN;
    FAILS_EITHER_KEEPING(a, b, out,
                         tenon_message_fetch(ticket.data, ticket.n, &options[i], NULL, &out, ERR));
    FAILS_EITHER_KEEPING(a, b, fetched,
                         tenon_fetched_new(head, n, &options[i], NULL, &fetched, ERR));
  }
  CHECK(stats().messages == 2); /* both messages still wait */
  CHECK(tenon_deposit_withdraw(deposit) == 1);
  tenon_deposit_release(deposit);
  OK(tenon_ticket_withdraw(ticket.data, ticket.n, NULL, ERR));
}

static void bad_tickets(void) {
  struct bytes ticket = deposit_filled(kSmall, 1), bad;
  tenon_deposit *deposit = new_deposit();
  size_t head_n = 0, i;
  const unsigned char *head = tenon_deposit_head(deposit, &head_n);
  tenon_message *message;
  tenon_fetched *fetched = PATTERN;
  int withdrawn = 77;
  for (i = 0; i < ticket.n; i++) {
    bad = ticket;
    bad.n = i;
    FETCH_FAILS(TENON_CORRUPT, &bad);
    bad.n = ticket.n;
    bad.data[i] ^= 0x10;
    message = kNothing;
    FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, message,
                         tenon_message_fetch(bad.data, bad.n, NULL, NULL, &message, ERR));
  }
  bad = ticket;
  bad.data[bad.n++] = 0;
  FETCH_FAILS(TENON_CORRUPT, &bad);
  for (i = 0; i < head_n; i++) {
    memcpy(bad.data, head, head_n);
    FAILS_KEEPING(TENON_CORRUPT, fetched,
                  tenon_fetched_new(bad.data, i, NULL, NULL, &fetched, ERR));
    FAILS_KEEPING(TENON_CORRUPT, withdrawn, tenon_ticket_withdraw(bad.data, i, &withdrawn, ERR));
    bad.data[i] ^= 0x10;
    FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, fetched,
                         tenon_fetched_new(bad.data, head_n, NULL, NULL, &fetched, ERR));
    FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_INCOMPATIBLE, withdrawn,
                         tenon_ticket_withdraw(bad.data, head_n, &withdrawn, ERR));
  }
  /* A whole message's ticket is no head, and a head is no whole message's ticket. */
  FAILS_KEEPING(TENON_CORRUPT, fetched,
                tenon_fetched_new(ticket.data, ticket.n, NULL, NULL, &fetched, ERR));
  memcpy(bad.data, head, bad.n = head_n);
  FETCH_FAILS(TENON_CORRUPT, &bad);
  /* The ticket is of another version. */
  bad = ticket;
  bad.data[4] = 2;
  FETCH_FAILS(TENON_INCOMPATIBLE, &bad);
  FAILS_KEEPING(TENON_INCOMPATIBLE, withdrawn,
                tenon_ticket_withdraw(bad.data, bad.n, &withdrawn, ERR));
  CHECK(stats().messages == 2);
  message = fetch(&ticket);
  CHECK(message_is_filled(message, kSmall, 1));
  tenon_message_release(message);
  OK(tenon_ticket_withdraw(head, head_n, &withdrawn, ERR)); /* a head is a ticket */
  CHECK(withdrawn == 1);
  tenon_deposit_release(deposit);
}

static void a_foreign_ticket(void) {
  int sock, withdrawn = 77;
  pid_t child = check_spawn(SOCK_STREAM, lend_one_and_wait, &sock);
  struct bytes ticket = take(sock);
  char pid[16];
  snprintf(pid, sizeof(pid), "%d", (int)child);
  INVALID_KEEPING(withdrawn, tenon_ticket_withdraw(ticket.data, ticket.n, &withdrawn, ERR));
  INVALID_SAYING("pid", pid, tenon_ticket_withdraw(ticket.data, ticket.n, NULL, ERR));
  check_signal(sock);
  check_join(child);
  close(sock);
}

#define ADD_FAILS(code, deposit, storage)                                                     \
  do {                                                                                        \
    unsigned char check_record[TENON_DEPOSIT_RECORD_NBYTES] = {0x5a};                         \
    size_t check_n = 77;                                                                      \
    FAILS_KEEPING(                                                                            \
        code, check_record,                                                                   \
        tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, check_record, &check_n, ERR)); \
    CHECK(check_n == 77);                                                                     \
  } while (0)

static void refused_memory(void) {
  tenon_storage_options options = check_storage_options(TENON_MODE_FROZEN, 0);
  tenon_storage *storages[3] = {check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, kSmall, 1),
                                NULL, NULL};
  static const tenon_status wanted[] = {TENON_UNSUPPORTED, TENON_PERMISSION, TENON_UNSUPPORTED};
  size_t i;
  OK(tenon_storage_new(&options, kSmall, &storages[1], ERR)); /* the storage is being filled */
  if (tenon_cuda_available(NULL) == TENON_OK) {
    tenon_cuda_arena_options device;
    tenon_cuda_arena *arena = NULL;
    SIZED(device);
    device.capacity_nbytes = 2 << 20;
    OK(tenon_cuda_arena_new(&device, &arena, ERR));
    OK(tenon_cuda_arena_allocate(arena, kSmall, NULL, &storages[2], ERR));
    tenon_cuda_arena_release(arena);
  }
  for (i = 0; i < COUNT_OF(storages) && storages[i] != NULL; i++) {
    tenon_deposit *deposit = new_deposit();
    ADD_FAILS(wanted[i], deposit, storages[i]);
    if (i == 2) { /* tenon_message_add refuses the other two */
      tenon_message *message = message_of(tenon_storage_retain(storages[i]));
      tenon_ticket *ticket = PATTERN;
      FAILS_KEEPING(wanted[i], ticket, tenon_message_deposit(message, &ticket, ERR));
      tenon_message_release(message);
    }
    CHECK(tenon_deposit_withdraw(deposit) == 1);
    tenon_deposit_release(deposit);
    tenon_storage_release(storages[i]);
  }
  CHECK(stats().messages == 0);
}

/* ---- in pieces */

/* Sends the head and a record of each storage. Takes over the references to the storages. */
static void give_pieces(int to, tenon_storage *const *storages, size_t n) {
  tenon_deposit *deposit = new_deposit();
  unsigned char record[TENON_DEPOSIT_RECORD_NBYTES];
  size_t i, nbytes = 0;
  const void *head = tenon_deposit_head(deposit, &nbytes);
  CHECK(tenon_deposit_head(deposit, NULL) == head);
  give(to, head, nbytes);
  for (i = 0; i < n; i++) {
    OK(tenon_deposit_add(deposit, storages[i], TENON_ACCESS_AUTO, record, &nbytes, ERR));
    CHECK(nbytes > 0 && nbytes <= sizeof(record));
    give(to, record, nbytes);
    tenon_storage_release(storages[i]);
  }
  tenon_deposit_release(deposit); /* the message stays deposited */
}

#define STORAGE_FAILS(code, fetched, record)                                                 \
  do {                                                                                       \
    tenon_storage *check_out = PATTERN;                                                      \
    FAILS_KEEPING(                                                                           \
        code, check_out,                                                                     \
        tenon_fetched_storage(fetched, (record)->data, (record)->n, NULL, &check_out, ERR)); \
  } while (0)

static tenon_storage *open_piece(tenon_fetched *fetched, const struct bytes *record) {
  tenon_wait wait = check_wait_ns(20000000000);
  tenon_storage *storage = NULL;
  OK(tenon_fetched_storage(fetched, record->data, record->n, &wait, &storage, ERR));
  return storage;
}

static void fetch_some_pieces(int sock) {
  struct bytes head = take(sock), records[4], other_head, other_record, bad;
  tenon_fetched *fetched = NULL, *second = PATTERN;
  tenon_wait wait = check_wait_ns(20000000000);
  tenon_storage *kept, *empty;
  size_t i;
  for (i = 0; i < COUNT_OF(records); i++) records[i] = take(sock);
  other_head = take(sock);
  other_record = take(sock);
  OK(tenon_fetched_new(head.data, head.n, NULL, &wait, &fetched, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, second,
                tenon_fetched_new(head.data, head.n, NULL, &wait, &second, ERR));
  for (i = 0; i < records[1].n; i++) {
    bad = records[1];
    bad.n = i;
    STORAGE_FAILS(TENON_CORRUPT, fetched, &bad);
  }
  bad = records[1];
  memset(bad.data, 0xff, bad.n);
  STORAGE_FAILS(TENON_CORRUPT, fetched, &bad);
  STORAGE_FAILS(TENON_CORRUPT, fetched, &head);
  STORAGE_FAILS(TENON_CORRUPT, fetched, &other_record); /* that record belongs to another message */
  kept = open_piece(fetched, &records[1]);
  CHECK(tenon_storage_nbytes(kept) == kSmall + 1 &&
        check_filled(tenon_storage_data(kept), kSmall + 1, 1));
  STORAGE_FAILS(TENON_CORRUPT, fetched, &records[1]);
  empty = open_piece(fetched, &records[3]);
  CHECK(tenon_storage_nbytes(empty) == 0);
  tenon_storage_release(empty);
  tenon_fetched_release(fetched);
  OK(tenon_fetched_new(other_head.data, other_head.n, NULL, &wait, &fetched, ERR));
  STORAGE_FAILS(TENON_CORRUPT, fetched, &records[0]);
  tenon_fetched_release(fetched);
  check_signal(sock);
  check_await(sock);
  CHECK(check_filled(tenon_storage_data(kept), kSmall + 1, 1));
  tenon_storage_release(kept);
  check_signal(sock);
  check_await(sock);
}

static void pieces(void) {
  tenon_storage *storages[4];
  int sock;
  size_t i;
  pid_t child = check_spawn(SOCK_STREAM, fetch_some_pieces, &sock);
  for (i = 0; i < 3; i++) storages[i] = check_storage(TENON_MODE_SHARED, 0, kSmall + i, i);
  storages[3] = check_storage(TENON_MODE_SHARED, 0, 0, 0);
  give_pieces(sock, storages, COUNT_OF(storages));
  storages[0] = check_storage(TENON_MODE_SHARED, 0, kSmall, 9);
  give_pieces(sock, storages, 1);
  check_await(sock);
  await_leases(1); /* the receiver gave back the pieces that it did not open */
  check_signal(sock);
  check_await(sock);
  await_leases(0);
  check_signal(sock);
  check_join(child);
  close(sock);
}

static void pieces_of_its_own_lender(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kSmall, 5), *opened = NULL;
  tenon_deposit *deposit = new_deposit();
  unsigned char record[TENON_DEPOSIT_RECORD_NBYTES];
  size_t n = 0, head_n = 0;
  const void *head = tenon_deposit_head(deposit, &head_n);
  tenon_fetched *fetched = NULL;
  pid_t child;
  OK(tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, record, &n, ERR));
  OK(tenon_fetched_new(head, head_n, NULL, NULL, &fetched, ERR));
  child = fork();
  if (child == 0) {
    FAILS_KEEPING(TENON_UNSUPPORTED, opened,
                  tenon_fetched_storage(fetched, record, n, NULL, &opened, ERR));
    _exit(0);
  }
  check_join(child);
  OK(tenon_fetched_storage(fetched, record, n, NULL, &opened, ERR));
  CHECK(opened == storage);
  ADD_FAILS(TENON_INVALID_ARGUMENT, deposit, storage); /* a receiver already has the storage */
  tenon_fetched_release(fetched);
  ADD_FAILS(TENON_INVALID_ARGUMENT, deposit, storage); /* the message was fetched */
  CHECK(tenon_deposit_withdraw(deposit) == 0);
  tenon_deposit_release(deposit);
  tenon_storage_release(storage);
  tenon_storage_release(opened);
}

static void withdrawn_pieces(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kSmall, 5),
                *empty = check_storage(TENON_MODE_SHARED, 0, 0, 0);
  tenon_deposit *deposit = new_deposit();
  unsigned char record[TENON_DEPOSIT_RECORD_NBYTES];
  size_t n = 0, head_n = 0;
  tenon_fetched *fetched = PATTERN;
  const void *head = tenon_deposit_head(deposit, &head_n);
  OK(tenon_deposit_add(deposit, storage, TENON_ACCESS_AUTO, record, &n, ERR));
  CHECK(tenon_deposit_withdraw(deposit) == 1 && tenon_deposit_withdraw(deposit) == 0);
  ADD_FAILS(TENON_INVALID_ARGUMENT, deposit, storage);
  ADD_FAILS(TENON_INVALID_ARGUMENT, deposit, empty);
  tenon_storage_release(empty);
  FAILS_KEEPING(TENON_NOT_FOUND, fetched,
                tenon_fetched_new(head, head_n, NULL, NULL, &fetched, ERR));
  tenon_deposit_release(deposit);
  tenon_storage_release(storage);
}

static void use_a_parents_deposit(int sock) {
  struct bytes head = take(sock);
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, kSmall, 5);
  int withdrawn = 77;
  INVALID_KEEPING(withdrawn, tenon_ticket_withdraw(head.data, head.n, &withdrawn, ERR));
  CHECK(stats().messages == 0);
  tenon_storage_release(storage);
}

static void a_child_of_fork(void) {
  tenon_deposit *deposit = new_deposit();
  size_t n = 0;
  const void *head = tenon_deposit_head(deposit, &n);
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, use_a_parents_deposit, &sock);
  give(sock, head, n);
  check_join(child);
  close(sock);
  CHECK(tenon_deposit_withdraw(deposit) == 1);
  tenon_deposit_release(deposit);
}

/* ---- limits: they stay, so a child sets them */

static void set_limits(uint64_t segments, uint64_t nbytes, int64_t ns) {
  tenon_deposit_limits limits;
  SIZED(limits);
  limits.max_unfetched_segments = segments;
  limits.max_unfetched_nbytes = nbytes;
  limits.max_unfetched_ns = ns;
  OK(tenon_deposit_limits_set(&limits, ERR));
}

static void meet_limits(int sock) {
  tenon_storage *one, *two;
  tenon_message *message;
  tenon_deposit *deposit;
  tenon_ticket *ticket = PATTERN;
  struct bytes first, second, third;
  int tries;
  (void)sock;
  set_limits(1, 0, 0);
  one = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, kSmall, 1);
  two = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, kSmall, 2);
  first = deposit_of(tenon_storage_retain(one));
  message = message_of(tenon_storage_retain(two));
  FAILS_KEEPING(TENON_RESOURCE_EXHAUSTED, ticket, tenon_message_deposit(message, &ticket, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "max_unfetched_segments",
               tenon_message_deposit(message, &ticket, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit_value", "1",
               tenon_message_deposit(message, &ticket, ERR));
  deposit = new_deposit();
  ADD_FAILS(TENON_RESOURCE_EXHAUSTED, deposit, two);
  CHECK(tenon_deposit_withdraw(deposit) == 1);
  tenon_deposit_release(deposit);
  CHECK(stats().messages == 1 && stats().segments == 1);
  second = deposit_of(tenon_storage_retain(one)); /* its segment counts already */
  CHECK(stats().messages == 2 && stats().segments == 1);
  OK(tenon_ticket_withdraw(first.data, first.n, NULL, ERR));
  OK(tenon_ticket_withdraw(second.data, second.n, NULL, ERR));
  tenon_message_release(message);
  tenon_storage_release(one);
  tenon_storage_release(two);

  set_limits(0, 2 * kSmall, 0);
  first = deposit_filled(kSmall, 1);
  second = deposit_filled(kSmall, 2);
  third = deposit_filled(kSmall, 3);
  CHECK(stats().messages == 2 && stats().expired == 1);
  FETCH_FAILS(TENON_NOT_FOUND, &first);
  tenon_message_release(fetch(&second));
  tenon_message_release(fetch(&third));

  set_limits(0, 0, 20000000);
  first = deposit_filled(kSmall, 1);
  for (tries = 0; tries < 10000 && stats().expired != 2; tries++) usleep(1000);
  CHECK(stats().expired == 2 && stats().messages == 0);
  FETCH_FAILS(TENON_NOT_FOUND, &first);
}

static void limits(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, meet_limits, &sock);
  check_join(child);
  close(sock);
}

static void have_no_fds(int sock) {
  struct bytes ticket = take(sock);
  struct rlimit before, few;
  tenon_message *out = kNothing;
  int next = dup(sock);
  CHECK(next >= 0 && close(next) == 0);
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  few.rlim_cur = (rlim_t)next;
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0); /* no fd is left for the socket */
  FAILS_KEEPING(TENON_RESOURCE_EXHAUSTED, out,
                tenon_message_fetch(ticket.data, ticket.n, NULL, NULL, &out, ERR));
  few.rlim_cur = (rlim_t)next + 2;
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0); /* too few are left for the answer's fds */
  FAILS_KEEPING(TENON_RESOURCE_EXHAUSTED, out,
                tenon_message_fetch(ticket.data, ticket.n, NULL, NULL, &out, ERR));
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  out = fetch(&ticket); /* the message stayed where it was */
  CHECK(message_is_filled(out, kSmall, 6));
  tenon_message_release(out);
}

static void too_few_fds(void) {
  struct bytes ticket;
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, have_no_fds, &sock);
  ticket = deposit_filled(kSmall, 6);
  give(sock, ticket.data, ticket.n);
  check_join(child);
  await_leases(0);
  close(sock);
}

/* ---- other users, where this one may become another */

static void be_another_user(int sock) {
  struct bytes ticket = take(sock), own;
  CHECK(become_user(54321, 54321));
  FETCH_FAILS(TENON_PERMISSION, &ticket);
  own = deposit_filled(kSmall, 4);
  give(sock, own.data, own.n);
  check_await(sock);
}

static void meet_another_user(int sock) {
  struct bytes ticket, foreign;
  int line;
  pid_t child = check_spawn(SOCK_STREAM, be_another_user, &line);
  ticket = deposit_filled(kSmall, 6);
  give(line, ticket.data, ticket.n);
  foreign = take(line);
  FETCH_FAILS(TENON_PERMISSION, &foreign);
  OK(tenon_ticket_withdraw(ticket.data, ticket.n, NULL, ERR));
  check_signal(line);
  check_join(child);
  check_signal(sock);
}

static void other_users(void) {
  int sock;
  pid_t child;
  if (geteuid() != 0) return;
  child = check_spawn(SOCK_STREAM, meet_another_user, &sock);
  check_await(sock);
  check_join(child);
  close(sock);
}

/* ---- keepers */

static tenon_keep_options keep_options(void) {
  tenon_keep_options options;
  SIZED(options);
  options.timeout_ns = 20000000000;
  return options;
}

/* Gives a ticket and a message in pieces, hands over, and ends. */
static void lend_and_hand_over(int sock) {
  tenon_keep_options options = keep_options();
  struct bytes ticket, after, family = take(sock);
  tenon_storage *piece = check_storage(TENON_MODE_SHARED, 0, kSmall, 7),
                *more = check_storage(TENON_MODE_SHARED, 0, kSmall, 9);
  tenon_deposit *late = new_deposit();
  tenon_fetched *fetched = NULL;
  size_t kept = 0, n = 0;
  family.data[family.n] = '\0';
  options.family = family.data[0] == '-' ? NULL : (const char *)family.data;
  ticket = deposit_filled(kSmall, 6);
  give(sock, ticket.data, ticket.n);
  give_pieces(sock, &piece, 1);
  OK(tenon_deposit_hand_over(&options, &kept, ERR));
  CHECK_EQ(kept, 3);
  CHECK(stats().messages == 0);
  OK(tenon_deposit_hand_over(NULL, &kept, ERR)); /* no message is left */
  CHECK_EQ(kept, 0);
  ADD_FAILS(TENON_INVALID_ARGUMENT, late, more); /* the keeper has the message */
  after = deposit_filled(kSmall, 8);             /* this message goes to a new depot */
  tenon_message_release(fetch(&after));
  ADD_FAILS(TENON_INVALID_ARGUMENT, late, more);
  /* The keeper ends when all messages are fetched. */
  OK(tenon_fetched_new(tenon_deposit_head(late, NULL), (tenon_deposit_head(late, &n), n), NULL,
                       NULL, &fetched, ERR));
  tenon_fetched_release(fetched);
  tenon_deposit_release(late);
  tenon_storage_release(more);
}

static void fetch_from_a_keeper(int sock) {
  int line;
  pid_t lender = check_spawn(SOCK_STREAM, lend_and_hand_over, &line);
  struct bytes ticket, head, record;
  tenon_wait wait = check_wait_ns(20000000000);
  tenon_fetched *fetched = NULL;
  tenon_storage *storage;
  tenon_message *message;
  give(line, "-", 1);
  ticket = take(line);
  head = take(line);
  record = take(line);
  check_join(lender);
  message = fetch(&ticket);
  CHECK(message_is_filled(message, kSmall, 6));
  FETCH_FAILS(TENON_NOT_FOUND, &ticket);
  OK(tenon_fetched_new(head.data, head.n, NULL, &wait, &fetched, ERR));
  storage = open_piece(fetched, &record);
  CHECK(check_filled(tenon_storage_data(storage), kSmall, 7));
  tenon_fetched_release(fetched);
  tenon_storage_release(storage);
  tenon_message_release(message);
  close(line);
  check_signal(sock);
}

static void a_keeper(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, fetch_from_a_keeper, &sock);
  check_await(sock);
  check_join(child);
  close(sock);
}

/* The path of a ticket's socket (docs/format/deposit.md). */
static const char *socket_of(const struct bytes *ticket) {
  static char path[256];
  uint32_t n = 0;
  memcpy(&n, ticket->data + 56, sizeof(n));
  CHECK(n < sizeof(path) && 64 + n <= ticket->n);
  memcpy(path, ticket->data + 64, n);
  path[n] = '\0';
  return path;
}

static void a_keeper_without_a_family(void) {
  char path[] = "/tmp/tenon-family-XXXXXX";
  int sock, member = mkostemp(path, O_CLOEXEC), tries;
  pid_t child;
  struct bytes ticket;
  CHECK(member >= 0 && flock(member, LOCK_SH) == 0);
  child = check_spawn(SOCK_STREAM, lend_and_hand_over, &sock);
  give(sock, path, strlen(path));
  ticket = take(sock);
  (void)take(sock);
  (void)take(sock);
  check_join(child);
  CHECK(access(socket_of(&ticket), F_OK) == 0);
  /* The lock belongs to the open file, which the lender inherited. This is the last fd of that
   * file. */
  CHECK(close(member) == 0);
  for (tries = 0; tries < 10000 && access(socket_of(&ticket), F_OK) == 0; tries++) usleep(1000);
  CHECK(access(socket_of(&ticket), F_OK) != 0);
  CHECK(unlink(path) == 0);
  close(sock);
}

static void fail_to_hand_over(int sock) {
  tenon_keep_options options = keep_options();
  struct bytes ticket;
  size_t kept = 77;
  int pidfd = -1;
  (void)sock;
  OK(tenon_deposit_hand_over(NULL, NULL, ERR)); /* no message waits, so no program is started */
  OK(tenon_deposit_hand_over(NULL, &kept, ERR));
  CHECK_EQ(kept, 0);
  kept = 77;
  ticket = deposit_filled(kSmall, 6);
  options.program = "/nonexistent/tenon-manager";
  FAILS_KEEPING(TENON_NOT_FOUND, kept, tenon_deposit_hand_over(&options, &kept, ERR));
  options.program = "/bin/true";
  FAILS_KEEPING(TENON_PEER_GONE, kept, tenon_deposit_hand_over(&options, &kept, ERR));
  options.program = NULL;
  options.family = "/nonexistent/family";
  FAILS_KEEPING(TENON_NOT_FOUND, kept, tenon_deposit_hand_over(&options, &kept, ERR));
  options.family = NULL;
  options.pidfds = &pidfd;
  options.n_pidfds = 1;
  INVALID_KEEPING(kept, tenon_deposit_hand_over(&options, &kept, ERR));
  CHECK(kept == 77);
  tenon_message_release(fetch(&ticket)); /* this process still has the message */
}

static void no_keeper(void) {
  int sock;
  pid_t child = check_spawn(SOCK_STREAM, fail_to_hand_over, &sock);
  check_join(child);
  close(sock);
}

int main(void) {
  struct bytes ticket;
  check_begin(100);
  (void)tenon_cuda_available(NULL); /* loads the driver, so that its fds do not count as leaks */
  ticket = deposit_filled(1, 1);    /* the depot lives as long as the process */
  tenon_message_release(fetch(&ticket));
  RUN(whole_messages);
  RUN(its_own_lender);
  RUN(only_bytes);
  RUN(withdrawn_messages);
  RUN(watched_messages);
  RUN(watched_messages_of_a_pipe);
  RUN(too_many_watched_messages);
  RUN(a_killed_receiver);
  RUN(killed_lenders);
  RUN(waits_that_end);
  RUN(bad_arguments);
  RUN(bad_structs);
  RUN(bad_openings);
  RUN(bad_tickets);
  RUN(a_foreign_ticket);
  RUN(refused_memory);
  RUN(pieces);
  RUN(pieces_of_its_own_lender);
  RUN(withdrawn_pieces);
  RUN(a_child_of_fork);
  RUN(limits);
  RUN(too_few_fds);
  RUN(other_users);
  RUN(a_keeper);
  RUN(a_keeper_without_a_family);
  RUN(no_keeper);
  return 0;
}
