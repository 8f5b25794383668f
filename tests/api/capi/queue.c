/* Tests tenon/queue.h: messages of many processes to many processes. Each receiver is a child
 * process that joins the queue in its inherited storage, unless the case says otherwise. */
#include "queue_kit.h"

#include <pthread.h>

enum { kSoonNs = 100000000, kLongNs = 20000000 };

/* ---- one process ----------------------------------------------------------------------------- */

static void one_process_sends_to_itself(void) {
  tenon_queue *queue = queue_of(0, 0, 0);
  uint64_t i;
  RECV_FAILS(TENON_WOULD_BLOCK, queue, 0);
  RECV_FAILS(TENON_TIMEOUT, queue, kLongNs);
  for (i = 0; i < 1000; i++) {
    send_filled(queue, 1, 4096, i);
    send_filled(queue, 0, 0, i + 5000);
    CHECK_EQ(stats_of(queue).waiting, 2);
    CHECK_EQ(receive_filled(queue, 1, 4096), i);
    CHECK_EQ(receive_filled(queue, 0, 0), i + 5000);
  }
  CHECK_EQ(stats_of(queue).sent, 2000);
  CHECK_EQ(stats_of(queue).received, 2000);
  CHECK_EQ(stats_of(queue).lost, 0);
  tenon_queue_release(queue);
}

static void a_full_lane_waits_for_room(void) {
  tenon_queue *queue = queue_of(2, 4, 1024);
  tenon_wait wait = check_wait_ns(0);
  tenon_message *message = message_of(0, 1, 100, 99);
  uint64_t i;
  for (i = 0; i < 4; i++) send_filled(queue, 1, 100, i);
  FAILS(TENON_WOULD_BLOCK, tenon_queue_send(queue, message, &wait, ERR));
  wait = check_wait_ns(kLongNs);
  FAILS(TENON_TIMEOUT, tenon_queue_send(queue, message, &wait, ERR));
  CHECK_EQ(receive_filled(queue, 1, 100), 0);
  OK(tenon_queue_send(queue, message, NULL, ERR));
  for (i = 1; i < 4; i++) CHECK_EQ(receive_filled(queue, 1, 100), i);
  CHECK_EQ(receive_filled(queue, 1, 100), 99);
  tenon_message_release(message);
  tenon_queue_release(queue);
}

/* The ticket of 100 tensors is longer than a slot. No ticket fits into a slot of 64 bytes. */
static void messages_larger_than_a_slot_travel_too(void) {
  tenon_queue *queue = queue_of(1, 2, 1024), *narrow = queue_of(1, 2, 64);
  tenon_message *message = message_of(0, 1, 100, 1);
  uint64_t i;
  for (i = 0; i < 10; i++) {
    send_filled(queue, 100, 256, i);
    CHECK_EQ(receive_filled(queue, 100, 256), i);
  }
  INVALID(tenon_queue_send(narrow, message, NULL, ERR));
  CHECK_EQ(stats_of(narrow).waiting, 0);
  tenon_message_release(message);
  tenon_queue_release(narrow);
  tenon_queue_release(queue);
}

/* A message beyond the limits of a receiver is lost there, and does not keep it from the next one.
 */
static void a_message_beyond_a_limit_is_lost_alone(void) {
  tenon_queue_options options;
  tenon_queue *sender = queue_of(2, 4, 1024), *receiver = NULL;
  const tenon_wait wait = check_wait_ns(kLongNs);
  tenon_message *out = NULL;
  SIZED(options);
  options.max_tensors = 2;
  OK(tenon_queue_join(tenon_queue_storage(sender), &options, &receiver, ERR));
  send_filled(sender, 3, 64, 1);
  send_filled(sender, 2, 64, 2);
  check_error = NULL;
  CHECK_EQ(tenon_queue_recv(receiver, &wait, &out, &check_error), TENON_RESOURCE_EXHAUSTED);
  check_error_shape(__FILE__, __LINE__, TENON_RESOURCE_EXHAUSTED, check_error);
  CHECK(strcmp(tenon_error_detail(check_error, "limit"), "max_tensors") == 0);
  CHECK(strcmp(tenon_error_detail(check_error, "lost"), "1") == 0);
  tenon_error_release(check_error);
  CHECK_EQ(receive_filled(receiver, 2, 64), 2);
  tenon_queue_release(receiver);
  tenon_queue_release(sender);
}

static void *trigger_soon(void *cancel) {
  usleep(20000);
  tenon_cancel_trigger(cancel);
  return NULL;
}

static void a_cancel_ends_a_wait(void) {
  tenon_queue *queue = queue_of(0, 2, 0);
  tenon_wait wait = check_wait_ns(-1);
  tenon_message *out = kNothing;
  pthread_t thread;
  OK(tenon_cancel_new(&wait.cancel, ERR));
  CHECK(pthread_create(&thread, NULL, trigger_soon, wait.cancel) == 0);
  FAILS_KEEPING(TENON_CANCELLED, out, tenon_queue_recv(queue, &wait, &out, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  tenon_cancel_release(wait.cancel);
  tenon_queue_release(queue);
}

static void *leave_soon(void *queue) {
  usleep(20000);
  tenon_queue_leave(queue);
  return NULL;
}

static void *receive_anything(void *queue) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  CHECK(tenon_queue_recv(queue, &wait, &message, NULL) == TENON_OK);
  return message;
}

/* Threads of one process receive one after another, and those that wait take no processor time. */
static void threads_of_one_process_wait_for_each_other(void) {
  tenon_queue *queue = queue_of(0, 0, 0);
  pthread_t threads[3];
  clock_t begin;
  uint64_t sum = 0;
  size_t i;
  for (i = 0; i < COUNT_OF(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, receive_anything, queue) == 0);
  usleep(20000);
  begin = clock();
  usleep(300000);
  CHECK(clock() - begin < CLOCKS_PER_SEC / 100);
  RECV_FAILS(TENON_WOULD_BLOCK, queue, 0);
  RECV_FAILS(TENON_TIMEOUT, queue, kLongNs);
  for (i = 0; i < COUNT_OF(threads); i++) send_filled(queue, 1, 64, i + 1);
  for (i = 0; i < COUNT_OF(threads); i++) {
    void *message = NULL;
    CHECK(pthread_join(threads[i], &message) == 0);
    sum += check_message(message, 1, 64);
  }
  CHECK_EQ(sum, 6);
  tenon_queue_release(queue);
}

/* Several messages in one call: all that fit, and those that are there. */
static void many_messages_in_one_call(void) {
  enum { kAll = 7, kRoom = 4 };
  tenon_queue *queue = queue_of(2, kRoom, 1024);
  const tenon_wait at_once = check_wait_ns(0), soon = check_wait_ns(kLongNs);
  tenon_message *messages[kAll], *got[kAll] = {NULL}, *out[2] = {kNothing, kNothing};
  size_t n = 99, i;
  for (i = 0; i < kAll; i++) messages[i] = message_of(0, 1, 64, i);
  OK(tenon_queue_send_many(queue, NULL, 0, NULL, &n, ERR));
  CHECK_EQ(n, 0);
  OK(tenon_queue_recv_many(queue, NULL, NULL, 0, &n, ERR));
  CHECK_EQ(n, 0);
  n = 99;
  FAILS(TENON_WOULD_BLOCK, tenon_queue_recv_many(queue, &at_once, out, 2, &n, ERR));
  FAILS(TENON_TIMEOUT, tenon_queue_recv_many(queue, &soon, out, 2, &n, ERR));
  CHECK(n == 99 && out[0] == kNothing);
  OK(tenon_queue_send_many(queue, (const tenon_message *const *)messages, kAll, &at_once, &n, ERR));
  CHECK_EQ(n, kRoom);
  n = 99;
  FAILS(TENON_WOULD_BLOCK,
        tenon_queue_send_many(queue, (const tenon_message *const *)messages + kRoom, kAll - kRoom,
                              &at_once, &n, ERR));
  CHECK_EQ(n, 99);
  OK(tenon_queue_recv_many(queue, NULL, got, 3, &n, ERR));
  CHECK_EQ(n, 3);
  OK(tenon_queue_send_many(queue, (const tenon_message *const *)messages + kRoom, kAll - kRoom,
                           NULL, &n, ERR));
  CHECK_EQ(n, kAll - kRoom);
  OK(tenon_queue_recv_many(queue, NULL, got + 3, kAll, &n, ERR));
  CHECK_EQ(n, kAll - 3);
  for (i = 0; i < kAll; i++) {
    CHECK_EQ(check_message(got[i], 1, 64), i);
    tenon_message_release(messages[i]);
  }
  CHECK_EQ(stats_of(queue).received, kAll);
  INVALID(tenon_queue_send_many(NULL, NULL, 0, NULL, &n, ERR));
  INVALID(tenon_queue_send_many(queue, NULL, 1, NULL, &n, ERR));
  INVALID(tenon_queue_send_many(queue, NULL, 0, NULL, NULL, ERR));
  INVALID(tenon_queue_recv_many(NULL, NULL, out, 1, &n, ERR));
  INVALID(tenon_queue_recv_many(queue, NULL, NULL, 1, &n, ERR));
  INVALID(tenon_queue_recv_many(queue, NULL, out, 1, NULL, ERR));
  messages[0] = NULL;
  INVALID(tenon_queue_send_many(queue, (const tenon_message *const *)messages, 1, NULL, &n, ERR));
  tenon_queue_release(queue);
}

/* A message that is lost after the first one is the result of the next call. */
static void a_failure_behind_a_message_comes_next(void) {
  tenon_queue_options options;
  tenon_queue *sender = queue_of(2, 4, 1024), *receiver = NULL;
  const tenon_wait wait = check_wait_ns(kLongNs);
  tenon_message *out[4] = {NULL};
  size_t n = 0;
  SIZED(options);
  options.max_tensors = 2;
  OK(tenon_queue_join(tenon_queue_storage(sender), &options, &receiver, ERR));
  send_filled(sender, 1, 64, 1);
  send_filled(sender, 3, 64, 2);
  send_filled(sender, 2, 64, 3);
  OK(tenon_queue_recv_many(receiver, &wait, out, 4, &n, ERR));
  CHECK_EQ(n, 1);
  CHECK_EQ(check_message(out[0], 1, 64), 1);
  CHECK_EQ(tenon_queue_recv_many(receiver, &wait, out, 4, &n, NULL), TENON_RESOURCE_EXHAUSTED);
  OK(tenon_queue_recv_many(receiver, &wait, out, 4, &n, ERR));
  CHECK_EQ(n, 1);
  CHECK_EQ(check_message(out[0], 2, 64), 3);
  tenon_queue_release(receiver);
  tenon_queue_release(sender);
}

static void leaving_ends_the_waits_of_this_process(void) {
  tenon_queue *queue = queue_of(0, 0, 0);
  tenon_message *out = kNothing, *message = message_of(0, 0, 0, 1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, leave_soon, queue) == 0);
  INVALID_KEEPING(out, tenon_queue_recv(queue, NULL, &out, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  INVALID(tenon_queue_send(queue, message, NULL, ERR));
  tenon_queue_leave(queue);
  tenon_queue_leave(NULL);
  tenon_queue_release(NULL);
  tenon_message_release(message);
  tenon_queue_release(queue);
}

static void two_memberships_of_one_process(void) {
  tenon_queue *a = queue_of(3, 0, 0), *b = NULL;
  tenon_queue_member members[4];
  size_t total = 0;
  tenon_queue_options options;
  uint64_t nbytes = 0;
  OK(tenon_queue_join(tenon_queue_storage(a), NULL, &b, ERR));
  SIZED(options);
  OK(tenon_queue_options_get(b, &options, ERR));
  CHECK(options.members == 3 && options.capacity == 128 && options.slot_nbytes == 1024);
  OK(tenon_queue_nbytes(&options, &nbytes, ERR));
  CHECK_EQ(nbytes, tenon_storage_nbytes(tenon_queue_storage(a)));
  send_filled(a, 1, 64, 1);
  send_filled(b, 1, 64, 2);
  SIZED(members[0]);
  OK(tenon_queue_members(b, members, 4, &total, ERR));
  CHECK_EQ(total, 2);
  CHECK(members[0].pid == getpid() && members[1].pid == getpid());
  CHECK(members[0].waiting == 1 && members[1].waiting == 1);
  CHECK(members[0].self == 0 && members[1].self == 1);
  CHECK(members[0].state == TENON_QUEUE_MEMBER_HERE && members[0].uid == geteuid());
  OK(tenon_queue_members(b, NULL, 0, &total, ERR));
  CHECK_EQ(total, 2);
  CHECK_EQ(receive_filled(b, 1, 64) + receive_filled(a, 1, 64), 3);
  tenon_queue_release(a);
  OK(tenon_queue_members(b, members, 4, &total, ERR));
  CHECK(total == 2 && members[0].state == TENON_QUEUE_MEMBER_LEFT);
  tenon_queue_release(b);
}

static size_t asleep_in(const tenon_queue *queue) {
  tenon_queue_member members[8];
  size_t total = 0, asleep = 0, i;
  SIZED(members[0]);
  OK(tenon_queue_members(queue, members, 8, &total, ERR));
  for (i = 0; i < total; i++) asleep += members[i].asleep;
  return asleep;
}

/* A receiver that was not woken would find its message only when its wait ends. */
static void *receive_one(void *queue) {
  const int64_t begin = check_now_ns();
  tenon_message_release(receive_anything(queue));
  CHECK(check_now_ns() - begin < 10000000000);
  return NULL;
}

/* Both senders may wake the same receiver. That one takes one message, and then does not receive
 * again, so it must wake the other one. */
static void two_messages_wake_two_receivers(void) {
  tenon_queue *senders[2], *receivers[2];
  uint64_t round;
  size_t i;
  senders[0] = queue_of(4, 0, 0);
  OK(tenon_queue_join(tenon_queue_storage(senders[0]), NULL, &senders[1], ERR));
  for (i = 0; i < 2; i++)
    OK(tenon_queue_join(tenon_queue_storage(senders[0]), NULL, &receivers[i], ERR));
  for (round = 0; round < 200; round++) {
    pthread_t threads[2];
    for (i = 0; i < 2; i++)
      CHECK(pthread_create(&threads[i], NULL, receive_one, receivers[i]) == 0);
    while (asleep_in(senders[0]) < 2) usleep(10);
    for (i = 0; i < 2; i++) send_filled(senders[i], 0, 0, round);
    for (i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  }
  for (i = 0; i < 2; i++) {
    tenon_queue_release(receivers[i]);
    tenon_queue_release(senders[i]);
  }
}

static void wrong_arguments(void) {
  static const uint32_t kWrong[][3] = {{257, 2, 64}, {1, 3, 64},      {1, 1, 64},
                                       {1, 2, 65},   {1, 131072, 64}, {1, 2, 131072}};
  tenon_queue_options options;
  tenon_queue *queue = queue_of(2, 4, 128), *out = PATTERN;
  tenon_message *message = message_of(0, 0, 0, 0), *received = kNothing;
  tenon_storage *private_one = check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 9000, 1);
  tenon_storage *frozen = check_storage(TENON_MODE_FROZEN, 0, 9000, 1);
  tenon_storage *other = check_storage(TENON_MODE_SHARED, 0, 9000, 1);
  tenon_storage *tiny = check_storage(TENON_MODE_SHARED, 0, 10, 1);
  tenon_queue_stats stats;
  tenon_queue_member member;
  size_t i, total = 0;
  uint64_t nbytes = 7;
  SIZED(options);
  for (i = 0; i < COUNT_OF(kWrong); i++) {
    options.members = kWrong[i][0];
    options.capacity = kWrong[i][1];
    options.slot_nbytes = kWrong[i][2];
    INVALID_KEEPING(out, tenon_queue_new(&options, &out, ERR));
  }
  SIZED(options);
  options.flags = 4;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_queue_new(&options, &out, ERR));
  INVALID(tenon_queue_new(NULL, NULL, ERR));
  SIZED(options);
  options.capacity = 8;
  INVALID_KEEPING(out, tenon_queue_join(tenon_queue_storage(queue), &options, &out, ERR));
  INVALID_KEEPING(out, tenon_queue_join(NULL, NULL, &out, ERR));
  INVALID(tenon_queue_join(other, NULL, NULL, ERR));
  INVALID_KEEPING(out, tenon_queue_join(private_one, NULL, &out, ERR));
  INVALID_KEEPING(out, tenon_queue_join(frozen, NULL, &out, ERR));
  FAILS_SAYING(TENON_CORRUPT, "field", "queue", tenon_queue_join(other, NULL, &out, ERR));
  FAILS_SAYING(TENON_CORRUPT, "field", "queue", tenon_queue_join(tiny, NULL, &out, ERR));
  INVALID(tenon_queue_send(NULL, message, NULL, ERR));
  INVALID(tenon_queue_send(queue, NULL, NULL, ERR));
  INVALID_KEEPING(received, tenon_queue_recv(NULL, NULL, &received, ERR));
  INVALID(tenon_queue_recv(queue, NULL, NULL, ERR));
  SIZED(stats);
  INVALID(tenon_queue_stats_get(NULL, &stats, ERR));
  INVALID(tenon_queue_stats_get(queue, NULL, ERR));
  SIZED(options);
  INVALID(tenon_queue_options_get(NULL, &options, ERR));
  INVALID(tenon_queue_options_get(queue, NULL, ERR));
  options.capacity = 3;
  INVALID_KEEPING(nbytes, tenon_queue_nbytes(&options, &nbytes, ERR));
  INVALID(tenon_queue_nbytes(NULL, NULL, ERR));
  SIZED(member);
  INVALID(tenon_queue_members(NULL, &member, 1, &total, ERR));
  INVALID(tenon_queue_members(queue, NULL, 1, &total, ERR));
  INVALID(tenon_queue_members(queue, &member, 1, NULL, ERR));
  CHECK(tenon_queue_storage(NULL) == NULL);
  tenon_storage_release(tiny);
  tenon_storage_release(other);
  tenon_storage_release(frozen);
  tenon_storage_release(private_one);
  tenon_message_release(message);
  tenon_queue_release(queue);
}

static void as_many_members_as_it_was_made_for(void) {
  tenon_queue_options options;
  tenon_queue *queue = queue_of(2, 4, 1024), *second = NULL, *third = PATTERN;
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &second, ERR));
  SIZED(options);
  options.capacity = 8;
  INVALID_KEEPING(third, tenon_queue_join(tenon_queue_storage(queue), &options, &third, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "members",
               tenon_queue_join(tenon_queue_storage(queue), NULL, &third, ERR));
  /* The place of a member that left is free once its messages are received. */
  send_filled(second, 1, 64, 7);
  tenon_queue_release(second);
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "members",
               tenon_queue_join(tenon_queue_storage(queue), NULL, &third, ERR));
  CHECK_EQ(receive_filled(queue, 1, 64), 7);
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &third, ERR));
  send_filled(third, 1, 64, 8);
  CHECK_EQ(receive_filled(queue, 1, 64), 8);
  tenon_queue_release(third);
  tenon_queue_release(queue);
}

static size_t discard(tenon_queue *queue) {
  size_t discarded = 99;
  OK(tenon_queue_discard(queue, &discarded, ERR));
  return discarded;
}

static uint64_t unfetched(void) {
  tenon_deposit_stats stats;
  SIZED(stats);
  OK(tenon_deposit_stats_get(&stats, ERR));
  return stats.messages;
}

/* OK() keeps the error in a variable of the other thread, so this thread does without. */
static void *discard_soon(void *queue) {
  size_t discarded = 99;
  usleep(20000);
  CHECK(tenon_queue_discard(queue, &discarded, NULL) == TENON_OK && discarded == 4);
  return NULL;
}

/* Messages of each form: one tensor, bytes alone, and a ticket that is longer than a slot. */
static void a_sender_takes_back_what_nobody_received(void) {
  tenon_queue *queue = queue_of(2, 4, 1024), *other = NULL;
  tenon_message *message = message_of(0, 1, 64, 9);
  pthread_t thread;
  size_t n = 99;
  CHECK_EQ(discard(queue), 0);
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &other, ERR));
  send_filled(other, 1, 64, 7);
  send_filled(queue, 1, 64, 0);
  CHECK_EQ(receive_filled(other, 1, 64) + receive_filled(other, 1, 64), 7);
  send_filled(other, 1, 64, 8);
  send_filled(queue, 1, 64, 1);
  send_filled(queue, 0, 0, 2);
  send_filled(queue, 100, 256, 3);
  CHECK_EQ(unfetched(), 4); /* the long ticket is a message too */
  CHECK_EQ(discard(queue), 3);
  CHECK(discard(queue) == 0 && unfetched() == 1 && stats_of(queue).waiting == 1);
  CHECK_EQ(receive_filled(queue, 1, 64), 8);
  RECV_FAILS(TENON_WOULD_BLOCK, queue, 0);
  /* A send that waits for room goes on. */
  for (n = 0; n < 4; n++) send_filled(queue, 1, 64, n);
  CHECK(pthread_create(&thread, NULL, discard_soon, queue) == 0);
  OK(tenon_queue_send(queue, message, NULL, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_EQ(receive_filled(other, 1, 64), 9);
  /* A member that has left takes back its own messages, and none of the next one in its place. */
  send_filled(queue, 1, 64, 4);
  tenon_queue_leave(queue);
  CHECK_EQ(discard(queue), 1);
  tenon_queue_release(other);
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &other, ERR));
  send_filled(other, 1, 64, 5);
  CHECK_EQ(discard(queue), 0);
  CHECK_EQ(receive_filled(other, 1, 64), 5);
  n = 99;
  INVALID_KEEPING(n, tenon_queue_discard(NULL, &n, ERR));
  INVALID(tenon_queue_discard(queue, NULL, ERR));
  tenon_message_release(message);
  tenon_queue_release(other);
  tenon_queue_release(queue);
}

/* ---- several processes ----------------------------------------------------------------------- */

static void echo(int socket) {
  tenon_queue *queue = join_inherited(there);
  uint64_t seed;
  check_signal(socket);
  do {
    seed = receive_filled(queue, 1, 4096);
    check_send(socket, &seed, sizeof(seed), NULL, 0);
  } while (seed != 0);
  tenon_queue_release(queue);
}

/* The child receives while it is awake and while it is asleep. */
static void a_child_receives_in_order(void) {
  int socket;
  pid_t child;
  uint64_t sent = 300, seed, answered = 300;
  there = queue_of(0, 8, 0);
  child = check_spawn(SOCK_STREAM, echo, &socket);
  check_await(socket);
  while (answered > 0) {
    for (; sent > 0 && answered - sent < 30; sent--) {
      if (sent % 50 == 0) usleep(3000);
      send_filled(there, 1, 4096, sent - 1);
    }
    (void)check_recv(socket, &seed, sizeof(seed), NULL, 0);
    CHECK_EQ(seed, --answered);
  }
  check_join(child);
  close(socket);
  tenon_queue_release(there);
}

static void use_inherited(int socket) {
  tenon_message *message = message_of(0, 0, 0, 1), *out = kNothing;
  size_t n = 99;
  FAILS(TENON_UNSUPPORTED, tenon_queue_send(there, message, NULL, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_queue_recv(there, NULL, &out, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, n, tenon_queue_discard(there, &n, ERR));
  tenon_queue_leave(there);
  tenon_queue_release(there);
  tenon_message_release(message);
  check_signal(socket);
}

static void a_child_of_fork_is_no_member(void) {
  int socket;
  pid_t child;
  there = queue_of(0, 0, 0);
  child = check_spawn(SOCK_STREAM, use_inherited, &socket);
  check_await(socket);
  check_join(child);
  close(socket);
  send_filled(there, 1, 64, 1);
  CHECK_EQ(receive_filled(there, 1, 64), 1);
  tenon_queue_release(there);
}

static void receive_and_hold(int socket) {
  tenon_queue *queue = join_inherited(there);
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  check_signal(socket);
  OK(tenon_queue_recv(queue, &wait, &message, ERR));
  check_signal(socket);
  check_await(socket);
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(message, 0)), 8192, 3));
  tenon_message_release(message);
  tenon_queue_release(queue);
}

static uint64_t living_storages(const tenon_arena *arena) {
  tenon_arena_stats arena_stats;
  tenon_stats stats;
  SIZED(arena_stats);
  SIZED(stats);
  OK(tenon_arena_stats_get(arena, &arena_stats, ERR)); /* ends the leases that were given back */
  OK(tenon_stats_get(&stats, ERR));
  return stats.storages;
}

/* Frozen memory needs no lease. The message keeps its storage until the receiver has opened it, and
 * not for as long as the receiver uses it. */
static void frozen_memory_is_kept_until_it_is_opened(void) {
  int socket;
  pid_t child;
  uint64_t before;
  tenon_arena_options options;
  tenon_arena *arena = NULL;
  tenon_storage *storage;
  tenon_tensor *tensor;
  tenon_message *message = NULL;
  SIZED(options);
  options.capacity_nbytes = 65536;
  there = queue_of(0, 0, 0);
  child = check_spawn(SOCK_STREAM, receive_and_hold, &socket);
  check_await(socket);
  OK(tenon_arena_new(&options, &arena, ERR));
  before = living_storages(arena);
  storage = check_storage(TENON_MODE_FROZEN, 0, 8192, 3);
  tensor = check_bytes_tensor(storage);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  OK(tenon_queue_send(there, message, NULL, ERR));
  tenon_message_release(message);
  check_await(socket); /* the child has it */
  while (living_storages(arena) > before) usleep(1000);
  check_signal(socket);
  check_join(child);
  close(socket);
  tenon_arena_release(arena);
  tenon_queue_release(there);
}

enum { kProducers = 3, kConsumers = 3, kEach = 400 };

static void produce(int socket) {
  tenon_queue *queue = join_inherited(there);
  uint64_t number = 0, i;
  (void)check_recv(socket, &number, sizeof(number), NULL, 0);
  for (i = 0; i < kEach; i++) send_filled(queue, 1, 512, number * kEach + i);
  check_signal(socket);
  check_await(socket); /* the messages need their sender */
  tenon_queue_release(queue);
}

static void consume(int socket) {
  tenon_queue *queue = join_inherited(there);
  const tenon_wait wait = check_wait_ns(20000000000);
  static uint64_t seeds[kProducers * kEach + 1];
  size_t n = 0;
  for (;;) {
    tenon_message *message = NULL;
    OK(tenon_queue_recv(queue, &wait, &message, ERR));
    seeds[n] = seed_of(message);
    if (seeds[n++] == UINT64_MAX) {
      tenon_message_release(message);
      break;
    }
    CHECK_EQ(check_message(message, 1, 512), seeds[n - 1]);
  }
  tenon_queue_release(queue);
  check_send(socket, seeds, n * sizeof(seeds[0]), NULL, 0);
}

static void each_message_has_one_receiver(void) {
  static unsigned char seen[kProducers * kEach];
  int producers[kProducers], consumers[kConsumers];
  pid_t children[kProducers + kConsumers];
  uint64_t last[kProducers];
  size_t i;
  memset(seen, 0, sizeof(seen));
  there = queue_of(0, 16, 0);
  for (i = 0; i < kConsumers; i++) children[i] = check_spawn(SOCK_STREAM, consume, &consumers[i]);
  for (i = 0; i < kProducers; i++) {
    const uint64_t number = i;
    children[kConsumers + i] = check_spawn(SOCK_STREAM, produce, &producers[i]);
    check_send(producers[i], &number, sizeof(number), NULL, 0);
  }
  for (i = 0; i < kProducers; i++) check_await(producers[i]);
  /* Messages of different senders have no order, so the last ones go when all others are taken. */
  while (stats_of(there).waiting > 0) usleep(100);
  for (i = 0; i < kConsumers; i++) send_filled(there, 0, 0, UINT64_MAX);
  for (i = 0; i < kConsumers; i++) {
    uint64_t seed = 0;
    memset(last, 0xff, sizeof(last));
    for (;;) {
      (void)check_recv(consumers[i], &seed, sizeof(seed), NULL, 0);
      if (seed == UINT64_MAX) break;
      CHECK(seed < sizeof(seen) && !seen[seed]);
      seen[seed] = 1;
      /* One receiver gets the messages of one sender in order. */
      CHECK(last[seed / kEach] == UINT64_MAX || last[seed / kEach] < seed);
      last[seed / kEach] = seed;
    }
    close(consumers[i]);
  }
  for (i = 0; i < kProducers; i++) check_signal(producers[i]);
  for (i = 0; i < kProducers + kConsumers; i++) check_join(children[i]);
  for (i = 0; i < kProducers; i++) close(producers[i]);
  for (i = 0; i < sizeof(seen); i++) CHECK(seen[i]);
  tenon_queue_release(there);
}

enum { kBatch = 16 };

static void send_batch(uint64_t *sent) {
  tenon_message *messages[kBatch];
  size_t i, n = 0;
  for (i = 0; i < kBatch; i++) messages[i] = message_of(0, 1, 512, (*sent)++);
  OK(tenon_queue_send_many(there, (const tenon_message *const *)messages, kBatch, NULL, &n, ERR));
  CHECK_EQ(n, kBatch);
  for (i = 0; i < kBatch; i++) tenon_message_release(messages[i]);
}

/* The parent takes messages back while two children receive. Each message goes one of the ways. */
static void each_message_is_received_or_taken_back(void) {
  enum { kLeast = 100, kMost = 2 * kEach };
  static unsigned char seen[kMost + 2 * kBatch];
  int consumers[2];
  pid_t children[2];
  uint64_t sent = 0, discarded = 0, received = 0, last, seed;
  size_t i;
  memset(seen, 0, sizeof(seen));
  there = queue_of(0, kBatch, 0);
  for (i = 0; i < 2; i++) children[i] = check_spawn(SOCK_STREAM, consume, &consumers[i]);
  while (sent < kMost && (discarded < kLeast || received < kLeast)) {
    send_batch(&sent);
    while (stats_of(there).waiting > sent / kBatch % kBatch) sched_yield();
    discarded += discard(there);
    received = sent - discarded;
  }
  /* Whatever the scheduler did: nobody receives the next batch, and all of the last one goes. */
  for (i = 0; i < 2; i++) {
    int status = 0;
    CHECK(kill(children[i], SIGSTOP) == 0);
    CHECK(waitpid(children[i], &status, WUNTRACED) == children[i] && WIFSTOPPED(status));
  }
  send_batch(&sent);
  CHECK_EQ(discard(there), kBatch);
  for (i = 0; i < 2; i++) CHECK(kill(children[i], SIGCONT) == 0);
  send_batch(&sent);
  while (stats_of(there).waiting > 0) sched_yield();
  received = sent - discarded - kBatch;
  for (i = 0; i < 2; i++) send_filled(there, 0, 0, UINT64_MAX);
  for (i = 0; i < 2; i++) {
    for (last = 0;; last = seed) {
      (void)check_recv(consumers[i], &seed, sizeof(seed), NULL, 0);
      if (seed == UINT64_MAX) break;
      CHECK(seed >= last && seed < sent && !seen[seed]);
      seen[seed] = 1;
      received--;
    }
    check_join(children[i]);
    close(consumers[i]);
  }
  CHECK(received == 0 && unfetched() == 0);
  tenon_queue_release(there);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

static void join_and_wait(int socket) {
  tenon_queue *queue = join_inherited(there);
  tenon_message *message = NULL;
  send_filled(queue, 1, 4096, 5);
  check_signal(socket);
  check_await(socket);
  OK(tenon_queue_recv(queue, NULL, &message, ERR));
  check_signal(socket);
  pause();
}

/* The receiver is asleep when the other member is killed, and is told by its name. */
static void a_death_ends_a_wait_and_names_who_died(void) {
  int socket;
  char pid[16];
  tenon_message *out = NULL;
  pid_t child;
  there = queue_of(0, 0, 0);
  child = check_spawn(SOCK_STREAM, join_and_wait, &socket);
  check_await(socket);
  CHECK_EQ(receive_filled(there, 1, 4096), 5);
  send_filled(there, 1, 4096, 6);
  check_signal(socket);
  check_await(socket);
  kill_and_wait(child, socket);
  snprintf(pid, sizeof(pid), "%d", (int)child);
  check_error_place = &check_error;
  check_error = NULL;
  {
    const tenon_wait wait = check_wait_ns(20000000000);
    const int64_t begin = check_now_ns();
    CHECK_EQ(tenon_queue_recv(there, &wait, &out, &check_error), TENON_PEER_GONE);
    CHECK(check_now_ns() - begin < 5000000000);
  }
  check_error_shape(__FILE__, __LINE__, TENON_PEER_GONE, check_error);
  CHECK(strcmp(tenon_error_detail(check_error, "pid"), pid) == 0);
  tenon_error_release(check_error);
  /* The death is told once, and the queue goes on. The lease of the dead process has ended. */
  RECV_FAILS(TENON_WOULD_BLOCK, there, 0);
  send_filled(there, 1, 4096, 9);
  CHECK_EQ(receive_filled(there, 1, 4096), 9);
  CHECK_EQ(stats_of(there).lost, 0);
  tenon_queue_release(there);
}

static void send_and_stay(int socket) {
  tenon_queue *queue = join_inherited(there);
  send_filled(queue, 1, 4096, 5);
  check_signal(socket);
  pause();
}

static void send_two_and_stay(int socket) {
  tenon_queue *queue = join_inherited(there);
  send_filled(queue, 1, 4096, 5);
  send_filled(queue, 0, 0, 6);
  check_signal(socket);
  pause();
}

/* The parent has never met the sender, so the message with a tensor goes with it. The other message
 * lies in the queue itself. */
static void messages_of_a_dead_sender_are_reported(void) {
  int socket;
  pid_t child;
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *out = NULL;
  int lost = 0, deaths = 0, received = 0;
  there = queue_of(0, 0, 0);
  child = check_spawn(SOCK_STREAM, send_two_and_stay, &socket);
  check_await(socket);
  kill_and_wait(child, socket);
  while (deaths == 0) {
    check_error = NULL;
    if (tenon_queue_recv(there, &wait, &out, &check_error) == TENON_OK) {
      CHECK_EQ(check_message(out, 0, 0), 6);
      received++;
      continue;
    }
    check_error_shape(__FILE__, __LINE__, TENON_PEER_GONE, check_error);
    if (tenon_error_detail(check_error, "lost") != NULL)
      lost++;
    else
      deaths++;
    tenon_error_release(check_error);
  }
  CHECK_EQ(lost, 1);
  CHECK_EQ(received, 1);
  RECV_FAILS(TENON_WOULD_BLOCK, there, 0);
  tenon_queue_release(there);
}

/* A sender that is stopped before anybody met it delays its own message alone. */
static void a_stopped_sender_delays_only_its_own_messages(void) {
  int socket;
  char pid[16];
  pid_t child;
  there = queue_of(0, 0, 0);
  child = check_spawn(SOCK_STREAM, send_and_stay, &socket);
  check_await(socket);
  CHECK(kill(child, SIGSTOP) == 0);
  CHECK(waitpid(child, NULL, WUNTRACED) == child);
  send_filled(there, 1, 4096, 7);
  CHECK_EQ(receive_filled(there, 1, 4096), 7);
  snprintf(pid, sizeof(pid), "%d", (int)child);
  {
    const tenon_wait wait = check_wait_ns(kSoonNs);
    tenon_message *out = kNothing;
    FAILS_SAYING(TENON_TIMEOUT, "pid", pid, tenon_queue_recv(there, &wait, &out, ERR));
  }
  CHECK(kill(child, SIGCONT) == 0);
  CHECK_EQ(receive_filled(there, 1, 4096), 5);
  kill_and_wait(child, socket);
  tenon_queue_release(there);
}

/* A process of another family joins by the fd of the storage. */
static void join_by_fd(int socket) {
  tenon_fd_handle handle = check_handle();
  tenon_storage *storage = NULL;
  tenon_queue *queue = NULL;
  int fd = -1;
  CHECK_EQ(check_recv(socket, &handle, sizeof(handle), &fd, 1), 1);
  handle.fd = fd;
  OK(tenon_open_fd(&handle, NULL, &storage, ERR));
  close(fd);
  OK(tenon_queue_join(storage, NULL, &queue, ERR));
  tenon_storage_release(storage);
  CHECK_EQ(receive_filled(queue, 1, 4096), 20);
  check_await(socket);
  send_filled(queue, 1, 4096, 21);
  check_signal(socket);
  check_await(socket);
  tenon_queue_release(queue);
}

static void a_queue_travels_as_its_storage(void) {
  tenon_fd_handle handle = check_handle();
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, join_by_fd, &socket);
  tenon_queue *queue = queue_of(0, 0, 0);
  OK(tenon_share_fd(tenon_queue_storage(queue), NULL, &handle, ERR));
  send_filled(queue, 1, 4096, 20);
  check_send(socket, &handle, sizeof(handle), &handle.fd, 1);
  tenon_fd_handle_close(&handle);
  while (stats_of(queue).waiting > 0) usleep(100);
  check_signal(socket);
  check_await(socket);
  CHECK_EQ(receive_filled(queue, 1, 4096), 21);
  check_signal(socket);
  check_join(child);
  close(socket);
  tenon_queue_release(queue);
}

/* ---- messages that are delivered again ------------------------------------------------------- */

static tenon_queue *redelivering(uint32_t members, uint32_t capacity) {
  tenon_queue_options options;
  tenon_queue *queue = NULL;
  SIZED(options);
  options.flags = TENON_QUEUE_REDELIVER | TENON_QUEUE_IGNORE_DEATHS;
  options.members = members;
  options.capacity = capacity;
  OK(tenon_queue_new(&options, &queue, ERR));
  return queue;
}

/* Receives a message and does not acknowledge it. */
static tenon_message *take(tenon_queue *queue) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  OK(tenon_queue_recv(queue, &wait, &message, ERR));
  return message;
}

static void *release_soon(void *message) {
  usleep(20000);
  tenon_message_release(message);
  return NULL;
}

static void a_release_acknowledges(void) {
  tenon_queue *queue = redelivering(2, 2), *plain = queue_of(2, 2, 0), *out = PATTERN;
  tenon_message *message = message_of(0, 1, 64, 3), *first, *second;
  const tenon_wait at_once = check_wait_ns(0);
  tenon_queue_options options;
  pthread_t thread;
  SIZED(options);
  OK(tenon_queue_options_get(queue, &options, ERR));
  CHECK_EQ(options.flags, TENON_QUEUE_REDELIVER | TENON_QUEUE_IGNORE_DEATHS);
  INVALID_KEEPING(out, tenon_queue_join(tenon_queue_storage(plain), &options, &out, ERR));
  OK(tenon_queue_join(tenon_queue_storage(queue), &options, &out, ERR));
  tenon_queue_release(out);
  send_filled(queue, 1, 64, 1);
  send_filled(queue, 0, 0, 2);
  first = take(queue);
  second = take(queue);
  CHECK(tenon_queue_redelivered(first) == 0 && tenon_queue_redelivered(NULL) == 0);
  CHECK_EQ(tenon_queue_redelivered(message), 0);
  FAILS(TENON_WOULD_BLOCK, tenon_queue_send(queue, message, &at_once, ERR));
  tenon_message_release(second); /* the slot of the first one is the next */
  FAILS(TENON_WOULD_BLOCK, tenon_queue_send(queue, message, &at_once, ERR));
  CHECK(pthread_create(&thread, NULL, release_soon, first) == 0);
  OK(tenon_queue_send(queue, message, NULL, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  first = take(queue);
  RECV_FAILS(TENON_WOULD_BLOCK, queue, 0);
  /* A message outlives the membership of its receiver. */
  tenon_queue_release(queue);
  CHECK_EQ(check_message(first, 1, 64), 3);
  tenon_message_release(message);
  tenon_queue_release(plain);
}

/* A member that leaves gives back what it has not acknowledged. */
static void a_member_that_leaves_acknowledges_nothing(void) {
  tenon_queue *queue = redelivering(3, 4), *other = NULL;
  tenon_message *message, *again;
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &other, ERR));
  send_filled(queue, 1, 64, 1);
  message = take(other);
  RECV_FAILS(TENON_WOULD_BLOCK, queue, 0);
  tenon_queue_leave(other);
  again = take(queue);
  CHECK_EQ(tenon_queue_redelivered(again), 1);
  CHECK_EQ(check_message(message, 1, 64), 1); /* too late */
  tenon_queue_release(other);
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &other, ERR));
  CHECK_EQ(check_message(again, 1, 64), 1);
  RECV_FAILS(TENON_TIMEOUT, other, 600000000);
  /* What was put back is taken back as any message. */
  send_filled(queue, 1, 64, 2);
  message = take(other);
  tenon_queue_leave(other);
  while (stats_of(queue).waiting == 0) usleep(1000);
  CHECK(discard(queue) == 1 && unfetched() == 0);
  tenon_message_release(message);
  tenon_queue_release(other);
  tenon_queue_release(queue);
}

/* Takes as many messages as it is told, acknowledges the first, and waits to be killed. */
static void take_and_stay(int socket) {
  tenon_queue *queue = join_inherited(there);
  size_t n = 0, i;
  check_signal(socket);
  (void)check_recv(socket, &n, sizeof(n), NULL, 0);
  for (i = 0; i < n; i++) {
    tenon_message *message = take(queue);
    if (i == 0) tenon_message_release(message);
  }
  check_signal(socket);
  pause();
}

/* Lets a child take n messages, and kills it. */
static void take_in_vain(size_t n) {
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, take_and_stay, &socket);
  check_await(socket);
  check_send(socket, &n, sizeof(n), NULL, 0);
  check_await(socket);
  kill_and_wait(child, socket);
}

/* Messages of each form: a ticket, one tensor, bytes alone, and a ticket longer than a slot. */
static void messages_of_a_dead_receiver_come_again(void) {
  static const size_t kCounts[] = {2, 2, 1, 0, 100};
  unsigned seen = 0;
  size_t i, round;
  there = redelivering(0, 8);
  for (round = 1; round <= 3; round++) {
    for (i = 0; i < COUNT_OF(kCounts) && round == 1; i++)
      send_filled(there, kCounts[i], kCounts[i] == 0 ? 0 : 64, i);
    if (round > 1) send_filled(there, 1, 64, 99); /* the child acknowledges one of them */
    take_in_vain(COUNT_OF(kCounts));
  }
  for (i = 0; i < COUNT_OF(kCounts) - 1; i++) {
    tenon_message *message = take(there);
    const uint64_t seed = seed_of(message);
    const size_t count = seed == 99 ? 1 : kCounts[seed];
    CHECK(seed == 99 || (seed < COUNT_OF(kCounts) && (seen >> seed & 1) == 0));
    if (seed != 99) seen |= 1U << seed;
    CHECK(tenon_queue_redelivered(message) >= 1 && tenon_queue_redelivered(message) <= 3);
    CHECK_EQ(check_message(message, count, count == 0 ? 0 : 64), seed);
  }
  RECV_FAILS(TENON_TIMEOUT, there, 100000000);
  CHECK(unfetched() == 0 && stats_of(there).lost == 0);
  /* The lane goes on behind the messages that were put back. */
  for (i = 0; i < 20; i++) {
    send_filled(there, 1, 64, i);
    CHECK_EQ(receive_filled(there, 1, 64), i);
  }
  tenon_queue_release(there);
}

/* A receiver that sleeps is woken for a message that is put back. */
static void a_message_that_is_put_back_wakes_a_receiver(void) {
  tenon_queue *sleeper = NULL;
  pthread_t thread;
  void *message = NULL;
  there = redelivering(4, 2);
  send_filled(there, 1, 64, 1);
  OK(tenon_queue_join(tenon_queue_storage(there), NULL, &sleeper, ERR));
  {
    int socket;
    size_t n = 2;
    const pid_t child = check_spawn(SOCK_STREAM, take_and_stay, &socket);
    check_await(socket);
    send_filled(there, 1, 64, 2);
    check_send(socket, &n, sizeof(n), NULL, 0);
    check_await(socket);
    CHECK(pthread_create(&thread, NULL, receive_anything, sleeper) == 0);
    while (asleep_in(there) == 0) usleep(1000);
    kill_and_wait(child, socket);
  }
  CHECK(pthread_join(thread, &message) == 0);
  CHECK_EQ(tenon_queue_redelivered(message), 1);
  CHECK_EQ(check_message(message, 1, 64), 2);
  tenon_queue_release(sleeper);
  tenon_queue_release(there);
}

/* A message whose sender and receiver are dead is lost, and its lane serves another member. */
static void a_message_of_a_dead_sender_is_not_put_back(void) {
  int sockets[2];
  pid_t children[2];
  size_t n = 2, i;
  there = redelivering(3, 2);
  children[0] = check_spawn(SOCK_STREAM, send_two_and_stay, &sockets[0]);
  check_await(sockets[0]);
  children[1] = check_spawn(SOCK_STREAM, take_and_stay, &sockets[1]);
  check_await(sockets[1]);
  check_send(sockets[1], &n, sizeof(n), NULL, 0);
  check_await(sockets[1]);
  kill_and_wait(children[0], sockets[0]);
  kill_and_wait(children[1], sockets[1]);
  RECV_FAILS(TENON_TIMEOUT, there, 100000000);
  for (i = 0; i < 2; i++) {
    tenon_queue *next = NULL;
    size_t sent;
    OK(tenon_queue_join(tenon_queue_storage(there), NULL, &next, ERR));
    for (sent = 0; sent < 3; sent++) {
      send_filled(next, 1, 64, sent);
      CHECK_EQ(receive_filled(there, 1, 64), sent);
    }
    tenon_queue_release(next);
  }
  tenon_queue_release(there);
}

int main(void) {
  check_begin(120);
  begin_depot();
  RUN(one_process_sends_to_itself);
  RUN(a_full_lane_waits_for_room);
  RUN(messages_larger_than_a_slot_travel_too);
  RUN(many_messages_in_one_call);
  RUN_APART(a_message_beyond_a_limit_is_lost_alone);
  RUN_APART(a_failure_behind_a_message_comes_next);
  RUN(a_cancel_ends_a_wait);
  RUN_ONCE(threads_of_one_process_wait_for_each_other);
  RUN(leaving_ends_the_waits_of_this_process);
  RUN(two_memberships_of_one_process);
  RUN(two_messages_wake_two_receivers);
  RUN(wrong_arguments);
  RUN(a_sender_takes_back_what_nobody_received);
  RUN(as_many_members_as_it_was_made_for);
  RUN_ONCE(a_child_receives_in_order);
  RUN_ONCE(a_child_of_fork_is_no_member);
  RUN_ONCE(frozen_memory_is_kept_until_it_is_opened);
  RUN_ONCE(each_message_has_one_receiver);
  RUN_ONCE(each_message_is_received_or_taken_back);
  RUN_APART(a_death_ends_a_wait_and_names_who_died);
  RUN_APART(messages_of_a_dead_sender_are_reported);
  RUN_APART(a_stopped_sender_delays_only_its_own_messages);
  RUN_APART(a_queue_travels_as_its_storage);
  RUN(a_release_acknowledges);
  RUN(a_member_that_leaves_acknowledges_nothing);
  RUN_APART(messages_of_a_dead_receiver_come_again);
  RUN_APART(a_message_that_is_put_back_wakes_a_receiver);
  RUN_APART(a_message_of_a_dead_sender_is_not_put_back);
  return 0;
}
