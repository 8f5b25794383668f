/* What the tests of queues share: messages that say who they are, and processes that join. */
#ifndef TENON_TESTS_QUEUE_KIT_H
#define TENON_TESTS_QUEUE_KIT_H

#include "message_kit.h"

CHECK_UNUSED static tenon_queue *queue_of(uint32_t members, uint32_t capacity,
                                          uint32_t slot_nbytes) {
  tenon_queue_options options;
  tenon_queue *queue = NULL;
  SIZED(options);
  options.members = members;
  options.capacity = capacity;
  options.slot_nbytes = slot_nbytes;
  OK(tenon_queue_new(&options, &queue, ERR));
  return queue;
}

/* A child of fork joins the queue of its parent, and drops its copy of the parent's membership. */
CHECK_UNUSED static tenon_queue *join_inherited(tenon_queue *inherited) {
  tenon_queue *queue = NULL;
  OK(tenon_queue_join(tenon_queue_storage(inherited), NULL, &queue, ERR));
  tenon_queue_release(inherited);
  return queue;
}

CHECK_UNUSED static void send_filled(tenon_queue *queue, size_t count, uint64_t nbytes,
                                     uint64_t seed) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = message_of(0, count, nbytes, seed);
  OK(tenon_queue_send(queue, message, &wait, ERR));
  tenon_message_release(message);
}

CHECK_UNUSED static uint64_t receive_filled(tenon_queue *queue, size_t count, uint64_t nbytes) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  OK(tenon_queue_recv(queue, &wait, &message, ERR));
  return check_message(message, count, nbytes);
}

#define RECV_FAILS(code, queue, timeout_ns)                                                  \
  do {                                                                                       \
    const tenon_wait check_wait = check_wait_ns(timeout_ns);                                 \
    tenon_message *check_out = kNothing;                                                     \
    FAILS_KEEPING(code, check_out, tenon_queue_recv((queue), &check_wait, &check_out, ERR)); \
  } while (0)

CHECK_UNUSED static tenon_queue_stats stats_of(const tenon_queue *queue) {
  tenon_queue_stats stats;
  SIZED(stats);
  OK(tenon_queue_stats_get(queue, &stats, ERR));
  return stats;
}

/* ---- other processes ------------------------------------------------------------------------- */

/* The queue that a child of fork finds. */
static tenon_queue *there;

/* A process remembers what it knows about a lender that is gone, until it meets another one. So
 * these cases run in a process of their own. */
static void (*apart)(void);

CHECK_UNUSED static void run_apart(int socket) {
  apart();
  close(socket);
}

#define RUN_APART(test_case)                                          \
  do {                                                                \
    int check_socket;                                                 \
    pid_t check_child;                                                \
    printf("- %s\n", #test_case);                                     \
    apart = (test_case);                                              \
    check_child = check_spawn(SOCK_STREAM, run_apart, &check_socket); \
    check_join(check_child);                                          \
    close(check_socket);                                              \
  } while (0)

CHECK_UNUSED static void kill_and_wait(pid_t child, int socket) {
  int status = 0;
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  close(socket);
}

/* The depot of this process, which lives as long as the process. */
CHECK_UNUSED static void begin_depot(void) {
  tenon_queue *queue = queue_of(0, 0, 0);
  check_warm_up();
  send_filled(queue, 1, 1, 1);
  CHECK_EQ(receive_filled(queue, 1, 1), 1);
  tenon_queue_release(queue);
}

#endif
