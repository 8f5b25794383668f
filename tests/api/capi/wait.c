/* Tests tenon/wait.h through tenon_recv: time-outs, signals and cancels end a wait, and nothing
 * else does. */
#include "check.h"

#include <pthread.h>

static int ends[2];
static tenon_connection *receiver;

static void open_ends(void) {
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  OK(tenon_connection_new(ends[0], NULL, &receiver, ERR));
}

static void close_ends(void) {
  tenon_connection_release(receiver);
  close(ends[0]);
  close(ends[1]);
}

static tenon_message *const kNothing = PATTERN;

static void timeouts(void) {
  tenon_wait wait = check_wait_ns(0);
  tenon_message *out = kNothing;
  int64_t start;
  open_ends();
  FAILS_KEEPING(TENON_WOULD_BLOCK, out, tenon_recv(receiver, &wait, &out, ERR));
  wait.timeout_ns = 20 * 1000 * 1000;
  start = check_now_ns();
  CHECK(tenon_recv(receiver, &wait, &out, NULL) == TENON_TIMEOUT);
  CHECK(check_now_ns() - start >= wait.timeout_ns);
  wait.timeout_ns = 1;
  FAILS_KEEPING(TENON_TIMEOUT, out, tenon_recv(receiver, &wait, &out, ERR));
  close_ends();
}

static void bad_input(void) {
  struct {
    tenon_wait wait;
    unsigned char tail[16];
  } larger;
  tenon_wait wait = check_wait_ns(0);
  tenon_message *out = kNothing;
  tenon_cancel *cancel = PATTERN;
  open_ends();
  wait.struct_size = 0;
  INVALID_KEEPING(out, tenon_recv(receiver, &wait, &out, ERR));
  wait.struct_size = sizeof(wait) - 1;
  INVALID_KEEPING(out, tenon_recv(receiver, &wait, &out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.wait.struct_size = sizeof(larger);
  FAILS_KEEPING(TENON_WOULD_BLOCK, out, tenon_recv(receiver, &larger.wait, &out, ERR));
  larger.tail[15] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_recv(receiver, &larger.wait, &out, ERR));
  wait = check_wait_ns(0);
  wait.flags = 1U << 31;
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_recv(receiver, &wait, &out, ERR));
  wait = check_wait_ns(0);
  wait.reserved = 1;
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT, out,
                       tenon_recv(receiver, &wait, &out, ERR));
  INVALID(tenon_cancel_new(NULL, ERR));
  CHECK(cancel == PATTERN);
  tenon_cancel_trigger(NULL);
  tenon_cancel_reset(NULL);
  tenon_cancel_release(NULL);
  close_ends();
}

static void *trigger_soon(void *cancel) {
  usleep(20000);
  tenon_cancel_trigger(cancel);
  return NULL;
}

static void cancelled_by_a_thread(void) {
  pthread_t thread;
  tenon_wait wait = check_wait_ns(-1);
  tenon_message *out = kNothing;
  open_ends();
  OK(tenon_cancel_new(&wait.cancel, ERR));
  CHECK(pthread_create(&thread, NULL, trigger_soon, wait.cancel) == 0);
  FAILS_KEEPING(
      TENON_CANCELLED, out,
      tenon_recv(receiver, &wait, &out, ERR)); /* the second call finds it triggered already */
  CHECK(pthread_join(thread, NULL) == 0);
  wait.timeout_ns = 1000000;
  FAILS_KEEPING(TENON_CANCELLED, out, tenon_recv(receiver, &wait, &out, ERR));
  tenon_cancel_reset(wait.cancel);
  FAILS_KEEPING(TENON_TIMEOUT, out, tenon_recv(receiver, &wait, &out, ERR));
  tenon_cancel_trigger(wait.cancel);
  tenon_cancel_trigger(wait.cancel);
  FAILS_KEEPING(TENON_CANCELLED, out, tenon_recv(receiver, &wait, &out, ERR));
  tenon_cancel_reset(wait.cancel);
  FAILS_KEEPING(TENON_TIMEOUT, out, tenon_recv(receiver, &wait, &out, ERR));
  tenon_cancel_release(wait.cancel);
  close_ends();
}

static void *recv_until_cancelled(void *cancel) {
  int pair[2];
  tenon_connection *connection = NULL;
  tenon_message *out = NULL;
  tenon_wait wait = check_wait_ns(-1);
  wait.cancel = cancel;
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  CHECK(tenon_connection_new(pair[0], NULL, &connection, NULL) == TENON_OK);
  CHECK(tenon_recv(connection, &wait, &out, NULL) == TENON_CANCELLED);
  tenon_connection_release(connection);
  close(pair[0]);
  close(pair[1]);
  return NULL;
}

static void one_cancel_many_waits(void) {
  pthread_t threads[4];
  size_t i;
  tenon_cancel *cancel = NULL;
  OK(tenon_cancel_new(&cancel, ERR));
  for (i = 0; i < COUNT_OF(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, recv_until_cancelled, cancel) == 0);
  usleep(20000);
  tenon_cancel_trigger(cancel);
  for (i = 0; i < COUNT_OF(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
  tenon_cancel_release(cancel);
}

static tenon_cancel *cancel_in_handler;
static volatile sig_atomic_t handled;

static void handler(int number) {
  (void)number;
  handled = handled + 1;
  if (cancel_in_handler != NULL) tenon_cancel_trigger(cancel_in_handler);
}

static void handle_signal(int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  handled = 0;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void *ring_thread(void *main_thread) {
  int i;
  for (i = 0; i < 5; i++) {
    usleep(5000);
    pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
  }
  return NULL;
}

static void signals(void) {
  static const int handler_flags[] = {0, SA_RESTART};
  size_t i;
  open_ends();
  for (i = 0; i < COUNT_OF(handler_flags); i++) {
    pthread_t self = pthread_self(), thread;
    tenon_wait wait = check_wait_ns(-1);
    tenon_message *out = kNothing;
    handle_signal(handler_flags[i]);
    wait.flags = TENON_WAIT_INTERRUPTIBLE;
    CHECK(pthread_create(&thread, NULL, ring_thread, &self) == 0);
    CHECK(tenon_recv(receiver, &wait, &out, NULL) == TENON_INTERRUPTED);
    CHECK(out == kNothing && handled >= 1);
    CHECK(pthread_join(thread, NULL) == 0);

    handled = 0; /* not interruptible: five signals do not shorten the wait */
    wait.flags = 0;
    wait.timeout_ns = 100 * 1000 * 1000;
    CHECK(pthread_create(&thread, NULL, ring_thread, &self) == 0);
    CHECK(tenon_recv(receiver, &wait, &out, NULL) == TENON_TIMEOUT);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(handled >= 1);
  }
  close_ends();
}

static void cancelled_by_a_handler(void) {
  pthread_t self = pthread_self(), thread;
  tenon_wait wait = check_wait_ns(-1);
  tenon_message *out = kNothing;
  open_ends();
  OK(tenon_cancel_new(&cancel_in_handler, ERR));
  handle_signal(0);
  wait.cancel = cancel_in_handler;
  CHECK(pthread_create(&thread, NULL, ring_thread, &self) == 0);
  CHECK(tenon_recv(receiver, &wait, &out, NULL) == TENON_CANCELLED);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(handled >= 1 && out == kNothing);
  wait.cancel = NULL;
  tenon_cancel_release(cancel_in_handler);
  cancel_in_handler = NULL;
  close_ends();
}

static void parent_and_child_share_a_cancel(void) {
  tenon_wait wait = check_wait_ns(-1);
  tenon_message *out = kNothing;
  pid_t child;
  open_ends();
  OK(tenon_cancel_new(&wait.cancel, ERR));
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    tenon_cancel_trigger(wait.cancel);
    _exit(0);
  }
  FAILS_KEEPING(TENON_CANCELLED, out, tenon_recv(receiver, &wait, &out, ERR));
  check_join(child);
  tenon_cancel_release(wait.cancel);
  close_ends();
}

int main(void) {
  check_begin(60);
  RUN(timeouts);
  RUN(bad_input);
  RUN(cancelled_by_a_thread);
  RUN(one_cancel_many_waits);
  RUN(signals);
  RUN(cancelled_by_a_handler);
  RUN(parent_and_child_share_a_cancel);
  return 0;
}
