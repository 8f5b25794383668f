/* Tests tenon/publish.h: messages of one process to many processes, each message to each of them.
 */
#include "message_kit.h"

#include <poll.h>
#include <pthread.h>

enum { kLongNs = 20000000 };

static uint32_t slot_nbytes; /* of the publishers that publisher_of() makes. 0: the default */

static tenon_publisher *publisher_of(uint32_t capacity, tenon_publish_policy policy,
                                     uint32_t flags) {
  tenon_publisher_options options;
  tenon_publisher *publisher = NULL;
  SIZED(options);
  options.capacity = capacity;
  options.slot_nbytes = slot_nbytes;
  options.policy = policy;
  options.flags = flags;
  OK(tenon_publisher_new(&options, &publisher, ERR));
  return publisher;
}

static tenon_subscriber *subscriber_on(int socket) {
  tenon_connection_options options;
  tenon_subscriber *subscriber = NULL;
  SIZED(options);
  options.flags = TENON_CONNECTION_ADOPT_SOCKET;
  OK(tenon_subscriber_new(socket, &options, &subscriber, ERR));
  return subscriber;
}

/* A subscriber of this process. */
static tenon_subscriber *subscriber_of(tenon_publisher *publisher, int type) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  OK(tenon_publisher_add(publisher, ends[0], ERR));
  return subscriber_on(ends[1]);
}

static void publish_with(tenon_publisher *publisher, uint32_t flags, size_t count, uint64_t nbytes,
                         uint64_t seed) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = message_of(flags, count, nbytes, seed);
  OK(tenon_publish(publisher, message, &wait, ERR));
  tenon_message_release(message);
}

static void publish_filled(tenon_publisher *publisher, size_t count, uint64_t nbytes,
                           uint64_t seed) {
  publish_with(publisher, 0, count, nbytes, seed);
}

static uint64_t receive_filled(tenon_subscriber *subscriber, size_t count, uint64_t nbytes) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  OK(tenon_subscriber_recv(subscriber, &wait, &message, ERR));
  return check_message(message, count, nbytes);
}

#define RECV_FAILS(code, subscriber, timeout_ns)                                      \
  do {                                                                                \
    const tenon_wait check_wait = check_wait_ns(timeout_ns);                          \
    tenon_message *check_out = kNothing;                                              \
    FAILS_KEEPING(code, check_out,                                                    \
                  tenon_subscriber_recv((subscriber), &check_wait, &check_out, ERR)); \
  } while (0)

static tenon_publisher_stats stats_of(tenon_publisher *publisher) {
  tenon_publisher_stats stats;
  SIZED(stats);
  OK(tenon_publisher_stats_get(publisher, &stats, ERR));
  return stats;
}

static tenon_subscriber_stats seen_by(const tenon_subscriber *subscriber) {
  tenon_subscriber_stats stats;
  SIZED(stats);
  OK(tenon_subscriber_stats_get(subscriber, &stats, ERR));
  return stats;
}

static tenon_publisher_subscriber only_one_of(tenon_publisher *publisher) {
  tenon_publisher_subscriber one[2];
  size_t total = 0;
  SIZED(one[0]);
  OK(tenon_publisher_subscribers(publisher, one, 2, &total, ERR));
  CHECK_EQ(total, 1);
  return one[0];
}

static const char *text_of(int number) {
  static char text[16];
  snprintf(text, sizeof(text), "%d", number);
  return text;
}

/* How many leases this process has granted that stand. */
static uint64_t leases_granted(void) {
  tenon_lease_holder holders[64];
  size_t total = 0, i;
  uint64_t leases = 0;
  SIZED(holders[0]);
  OK(tenon_lease_holders(holders, COUNT_OF(holders), &total, ERR));
  CHECK(total <= COUNT_OF(holders));
  for (i = 0; i < total; i++) leases += holders[i].leases;
  return leases;
}

static void await_leases(uint64_t wanted) {
  int tries;
  for (tries = 0; tries < 5000 && leases_granted() != wanted; tries++) usleep(1000);
  CHECK_EQ(leases_granted(), wanted);
}

/* ---- one process ----------------------------------------------------------------------------- */

static void one_process_publishes_to_itself(void) {
  tenon_publisher *publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  tenon_subscriber *a = subscriber_of(publisher, SOCK_SEQPACKET);
  tenon_subscriber *b = subscriber_of(publisher, SOCK_STREAM);
  uint64_t i;
  RECV_FAILS(TENON_WOULD_BLOCK, a, 0);
  RECV_FAILS(TENON_TIMEOUT, b, kLongNs);
  for (i = 0; i < 300; i++) {
    publish_filled(publisher, 1, 4096, i);
    publish_with(publisher, TENON_STORAGE_ISOLATED, 1, 4096, i + 3000);
    publish_filled(publisher, 0, 0, i + 5000);
    CHECK_EQ(receive_filled(a, 1, 4096), i);
    CHECK_EQ(receive_filled(a, 1, 4096), i + 3000);
    CHECK_EQ(receive_filled(a, 0, 0), i + 5000);
    CHECK_EQ(receive_filled(b, 1, 4096), i);
    CHECK_EQ(receive_filled(b, 1, 4096), i + 3000);
    CHECK_EQ(receive_filled(b, 0, 0), i + 5000);
  }
  CHECK_EQ(stats_of(publisher).published, 900);
  CHECK_EQ(stats_of(publisher).subscribers, 2);
  CHECK_EQ(stats_of(publisher).dropped, 0);
  CHECK_EQ(seen_by(a).received, 900);
  CHECK_EQ(seen_by(b).dropped, 0);
  CHECK_EQ(seen_by(b).pid, getpid());
  tenon_subscriber_release(a);
  publish_filled(publisher, 1, 64, 1);
  CHECK_EQ(stats_of(publisher).subscribers, 1);
  CHECK_EQ(stats_of(publisher).gone, 0);
  tenon_publisher_release(publisher);
  CHECK_EQ(receive_filled(b, 1, 64), 1);
  FAILS_SAYING(TENON_PEER_GONE, "pid", text_of((int)getpid()),
               tenon_subscriber_recv(b, NULL, &(tenon_message *){NULL}, ERR));
  tenon_subscriber_release(b);
  tenon_subscriber_release(NULL);
  tenon_publisher_release(NULL);
}

static void a_late_subscriber_gets_the_latest_message(void) {
  tenon_publisher *publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  tenon_publisher *other = publisher_of(0, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  tenon_subscriber *subscriber;
  publish_filled(publisher, 2, 100, 1);
  publish_filled(publisher, 2, 100, 2);
  publish_filled(other, 2, 100, 2);
  subscriber = subscriber_of(publisher, SOCK_SEQPACKET);
  CHECK_EQ(receive_filled(subscriber, 2, 100), 2);
  RECV_FAILS(TENON_WOULD_BLOCK, subscriber, 0);
  publish_filled(publisher, 2, 100, 3);
  CHECK_EQ(receive_filled(subscriber, 2, 100), 3);
  tenon_subscriber_release(subscriber);
  subscriber = subscriber_of(other, SOCK_SEQPACKET);
  RECV_FAILS(TENON_WOULD_BLOCK, subscriber, 0);
  tenon_subscriber_release(subscriber);
  tenon_publisher_release(publisher);
  tenon_publisher_release(other);
}

/* 100 tensors are longer than a slot. 2,000 are longer than a frame, too. */
static void long_messages_keep_their_places(void) {
  static const size_t kCounts[] = {1, 100, 1, 2000, 0};
  tenon_publisher *publisher = publisher_of(4, TENON_PUBLISH_DROP_OLDEST, 0);
  tenon_subscriber *subscriber = subscriber_of(publisher, SOCK_STREAM);
  size_t i, round;
  for (round = 0; round < 3; round++) {
    for (i = 0; i < COUNT_OF(kCounts); i++) {
      publish_filled(publisher, kCounts[i], 16, i);
      CHECK_EQ(receive_filled(subscriber, kCounts[i], 16), i);
    }
    /* The first one of these is withdrawn. */
    for (i = 0; i < COUNT_OF(kCounts); i++) publish_filled(publisher, kCounts[i], 16, i);
    CHECK_EQ(only_one_of(publisher).waiting, 4);
    for (i = 1; i < COUNT_OF(kCounts); i++) CHECK_EQ(receive_filled(subscriber, kCounts[i], 16), i);
    /* Here long ones are. */
    for (i = 0; i < COUNT_OF(kCounts); i++) publish_filled(publisher, kCounts[i], 16, i);
    for (i = 0; i < 3; i++) publish_filled(publisher, 1, 16, 10 + i);
    CHECK_EQ(receive_filled(subscriber, 0, 16), 4);
    for (i = 0; i < 3; i++) CHECK_EQ(receive_filled(subscriber, 1, 16), 10 + i);
  }
  CHECK_EQ(seen_by(subscriber).dropped, 3 * 5);
  CHECK_EQ(stats_of(publisher).dropped, 3 * 5);
  tenon_subscriber_release(subscriber);
  tenon_publisher_release(publisher);
}

static void each_policy_has_its_way_with_a_full_ring(void) {
  tenon_publisher *block = publisher_of(4, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  tenon_publisher *error = publisher_of(4, TENON_PUBLISH_ERROR, TENON_PUBLISHER_FORGET_LATEST);
  tenon_publisher *drop = publisher_of(4, TENON_PUBLISH_DROP_OLDEST, TENON_PUBLISHER_FORGET_LATEST);
  tenon_subscriber *of_block = subscriber_of(block, SOCK_SEQPACKET);
  tenon_subscriber *other_of_block = subscriber_of(block, SOCK_SEQPACKET);
  tenon_subscriber *of_error = subscriber_of(error, SOCK_SEQPACKET);
  tenon_subscriber *of_drop = subscriber_of(drop, SOCK_SEQPACKET);
  tenon_message *message = message_of(0, 1, 100, 99);
  tenon_wait wait = check_wait_ns(0);
  const char *pid = text_of((int)getpid());
  const uint64_t leases = leases_granted();
  uint64_t i;
  for (i = 0; i < 4; i++) {
    publish_filled(block, 1, 100, i);
    CHECK_EQ(receive_filled(other_of_block, 1, 100), i);
    publish_filled(error, 1, 100, i);
  }
  for (i = 0; i < 10; i++) publish_filled(drop, 1, 100, i);
  FAILS_SAYING(TENON_WOULD_BLOCK, "pid", pid, tenon_publish(block, message, &wait, ERR));
  wait = check_wait_ns(kLongNs);
  FAILS_SAYING(TENON_TIMEOUT, "pid", pid, tenon_publish(block, message, &wait, ERR));
  RECV_FAILS(TENON_WOULD_BLOCK, other_of_block, 0);
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "capacity",
               tenon_publish(error, message, NULL, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "pid", pid, tenon_publish(error, message, NULL, ERR));
  /* Messages that wait for three subscribers, and those that `other_of_block` has released. */
  await_leases(leases + 12);
  CHECK_EQ(only_one_of(drop).dropped, 6);
  CHECK_EQ(only_one_of(drop).published, 10);
  CHECK_EQ(only_one_of(drop).state, TENON_SUBSCRIBER_JOINING);
  for (i = 6; i < 10; i++) CHECK_EQ(receive_filled(of_drop, 1, 100), i);
  CHECK_EQ(seen_by(of_drop).dropped, 6);
  CHECK_EQ(only_one_of(drop).state, TENON_SUBSCRIBER_HERE);
  CHECK_EQ(receive_filled(of_block, 1, 100), 0);
  CHECK_EQ(receive_filled(of_error, 1, 100), 0);
  OK(tenon_publish(block, message, NULL, ERR));
  OK(tenon_publish(error, message, NULL, ERR));
  tenon_message_release(message);
  for (i = 1; i < 4; i++) CHECK_EQ(receive_filled(of_block, 1, 100), i);
  CHECK_EQ(receive_filled(of_block, 1, 100), 99);
  CHECK_EQ(receive_filled(other_of_block, 1, 100), 99);
  tenon_subscriber_release(of_block);
  tenon_subscriber_release(other_of_block);
  tenon_subscriber_release(of_error);
  tenon_subscriber_release(of_drop);
  tenon_publisher_release(block);
  tenon_publisher_release(error);
  tenon_publisher_release(drop);
  await_leases(leases);
}

static int is_readable(int fd) {
  struct pollfd polled = {fd, POLLIN, 0};
  CHECK(poll(&polled, 1, 0) >= 0);
  return (polled.revents & POLLIN) != 0;
}

static void the_fd_is_readable_when_there_is_a_message(void) {
  tenon_publisher *publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  tenon_subscriber *subscriber = subscriber_of(publisher, SOCK_SEQPACKET);
  const int fd = tenon_subscriber_fd(subscriber);
  uint64_t i;
  CHECK_EQ(tenon_subscriber_fd(NULL), -1);
  for (i = 0; i < 100; i++) {
    RECV_FAILS(TENON_WOULD_BLOCK, subscriber, 0);
    CHECK(!is_readable(fd));
    publish_filled(publisher, 1, 64, i);
    publish_filled(publisher, 1, 64, i);
    CHECK(is_readable(fd));
    CHECK_EQ(receive_filled(subscriber, 1, 64), i);
    CHECK_EQ(receive_filled(subscriber, 1, 64), i);
  }
  RECV_FAILS(TENON_WOULD_BLOCK, subscriber, 0);
  tenon_publisher_release(publisher);
  CHECK(is_readable(fd));
  RECV_FAILS(TENON_PEER_GONE, subscriber, 0);
  tenon_subscriber_release(subscriber);
}

static void *cancel_soon(void *cancel) {
  usleep(20000);
  tenon_cancel_trigger(cancel);
  return NULL;
}

static void a_cancel_ends_a_wait(void) {
  tenon_publisher *publisher = publisher_of(1, TENON_PUBLISH_BLOCK, 0);
  tenon_subscriber *subscriber = subscriber_of(publisher, SOCK_SEQPACKET);
  tenon_message *message = message_of(0, 0, 0, 1), *out = kNothing;
  tenon_wait wait = check_wait_ns(-1);
  pthread_t thread;
  OK(tenon_cancel_new(&wait.cancel, ERR));
  CHECK(pthread_create(&thread, NULL, cancel_soon, wait.cancel) == 0);
  FAILS_KEEPING(TENON_CANCELLED, out, tenon_subscriber_recv(subscriber, &wait, &out, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  tenon_cancel_reset(wait.cancel);
  OK(tenon_publish(publisher, message, &wait, ERR));
  CHECK(pthread_create(&thread, NULL, cancel_soon, wait.cancel) == 0);
  FAILS(TENON_CANCELLED, tenon_publish(publisher, message, &wait, ERR));
  CHECK(pthread_join(thread, NULL) == 0);
  tenon_cancel_release(wait.cancel);
  CHECK_EQ(receive_filled(subscriber, 0, 0), 1);
  tenon_message_release(message);
  tenon_subscriber_release(subscriber);
  tenon_publisher_release(publisher);
}

static void *publish_until_cancelled(void *all) {
  void **const given = all;
  tenon_wait wait = check_wait_ns(-1);
  wait.cancel = given[2];
  CHECK(tenon_publish(given[0], given[1], &wait, NULL) == TENON_CANCELLED);
  return NULL;
}

/* The wait of a call ends on time while another thread waits for a subscriber. */
static void a_wait_for_another_thread_ends(void) {
  tenon_publisher *publisher = publisher_of(1, TENON_PUBLISH_BLOCK, 0);
  tenon_subscriber *subscriber = subscriber_of(publisher, SOCK_SEQPACKET);
  tenon_message *message = message_of(0, 0, 0, 1);
  tenon_wait wait = check_wait_ns(10000000);
  tenon_cancel *cancel = NULL;
  tenon_error *error;
  int names_subscriber;
  void *given[3];
  pthread_t thread;
  OK(tenon_cancel_new(&cancel, ERR));
  OK(tenon_publish(publisher, message, &wait, ERR));
  given[0] = publisher;
  given[1] = message;
  given[2] = cancel;
  CHECK(pthread_create(&thread, NULL, publish_until_cancelled, given) == 0);
  do { /* until the other thread publishes: the error has no subscriber's pid then */
    error = NULL;
    CHECK_EQ(tenon_publish(publisher, message, &wait, &error), TENON_TIMEOUT);
    names_subscriber = tenon_error_detail(error, "pid") != NULL;
    tenon_error_release(error);
  } while (names_subscriber);
  tenon_cancel_trigger(cancel);
  CHECK(pthread_join(thread, NULL) == 0);
  tenon_cancel_release(cancel);
  tenon_message_release(message);
  tenon_subscriber_release(subscriber);
  tenon_publisher_release(publisher);
}

static void wrong_arguments(void) {
  static const uint32_t kWrong[][2] = {{3, 64}, {131072, 64}, {4, 65}, {4, 131072}};
  tenon_publisher_options options;
  tenon_connection_options how;
  tenon_publisher *publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0), *out = PATTERN;
  tenon_subscriber *subscriber = PATTERN;
  tenon_publisher_subscriber one;
  tenon_publisher_stats stats;
  tenon_subscriber_stats seen;
  tenon_message *message = message_of(0, 0, 0, 0), *received = kNothing;
  int ends[2];
  size_t i, total = 0;
  for (i = 0; i < COUNT_OF(kWrong); i++) {
    SIZED(options);
    options.capacity = kWrong[i][0];
    options.slot_nbytes = kWrong[i][1];
    INVALID_KEEPING(out, tenon_publisher_new(&options, &out, ERR));
  }
  SIZED(options);
  options.policy = 3;
  INVALID_KEEPING(out, tenon_publisher_new(&options, &out, ERR));
  SIZED(options);
  options.group = 1;
  INVALID_KEEPING(out, tenon_publisher_new(&options, &out, ERR));
  SIZED(options);
  options.flags = 16;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_publisher_new(&options, &out, ERR));
  INVALID(tenon_publisher_new(NULL, NULL, ERR));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  INVALID(tenon_publisher_add(NULL, ends[0], ERR));
  INVALID(tenon_publisher_add(publisher, -1, ERR));
  INVALID(tenon_publisher_listen(NULL, "/tmp/x", 0, ERR));
  INVALID(tenon_publisher_listen(publisher, NULL, 0, ERR));
  INVALID(tenon_publisher_listen(publisher, "/tmp/x", 01000, ERR));
  INVALID_SAYING("path", "/tmp/.", tenon_publisher_listen(publisher, "/tmp/.", 0, ERR));
  FAILS_SAYING(TENON_NOT_FOUND, "path", "/nowhere/x",
               tenon_publisher_listen(publisher, "/nowhere/x", 0, ERR));
  INVALID(tenon_publish(NULL, message, NULL, ERR));
  INVALID(tenon_publish(publisher, NULL, NULL, ERR));
  SIZED(one);
  SIZED(stats);
  SIZED(seen);
  INVALID(tenon_publisher_subscribers(NULL, &one, 1, &total, ERR));
  INVALID(tenon_publisher_subscribers(publisher, NULL, 1, &total, ERR));
  INVALID(tenon_publisher_subscribers(publisher, &one, 1, NULL, ERR));
  INVALID(tenon_publisher_stats_get(NULL, &stats, ERR));
  INVALID(tenon_publisher_stats_get(publisher, NULL, ERR));
  SIZED(how);
  how.flags = TENON_CONNECTION_RING;
  FAILS_KEEPING(TENON_UNSUPPORTED, subscriber,
                tenon_subscriber_new(ends[0], &how, &subscriber, ERR));
  INVALID_KEEPING(subscriber, tenon_subscriber_new(-1, NULL, &subscriber, ERR));
  INVALID(tenon_subscriber_new(ends[0], NULL, NULL, ERR));
  INVALID_KEEPING(subscriber, tenon_subscriber_connect(NULL, NULL, NULL, &subscriber, ERR));
  FAILS_SAYING(TENON_NOT_FOUND, "path", "/nowhere/x",
               tenon_subscriber_connect("/nowhere/x", NULL, NULL, &subscriber, ERR));
  FAILS_RAW(TENON_NOT_FOUND, TENON_NOT_FOUND,
            tenon_subscriber_connect("/nowhere/x", NULL, NULL, &subscriber, ERR));
  CHECK(strstr(tenon_error_message(check_error), "start the publisher first") != NULL);
  tenon_error_release(check_error);
  check_error = NULL;
  FAILS_SAYING(TENON_CORRUPT, "path", "/dev/null",
               tenon_subscriber_connect("/dev/null", NULL, NULL, &subscriber, ERR));
  INVALID_KEEPING(received, tenon_subscriber_recv(NULL, NULL, &received, ERR));
  OK(tenon_subscriber_new(ends[0], NULL, &subscriber, ERR));
  INVALID(tenon_subscriber_recv(subscriber, NULL, NULL, ERR));
  INVALID(tenon_subscriber_stats_get(NULL, &seen, ERR));
  INVALID(tenon_subscriber_stats_get(subscriber, NULL, ERR));
  tenon_subscriber_release(subscriber);
  close(ends[0]);
  close(ends[1]);
  tenon_message_release(message);
  tenon_publisher_release(publisher);
}

static void no_more_subscribers_than_it_takes(void) {
  tenon_publisher_options options;
  tenon_publisher *publisher = NULL;
  tenon_subscriber *subscriber;
  int ends[2];
  SIZED(options);
  options.max_subscribers = 1;
  OK(tenon_publisher_new(&options, &publisher, ERR));
  subscriber = subscriber_of(publisher, SOCK_STREAM);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "subscribers",
               tenon_publisher_add(publisher, ends[0], ERR));
  RECV_FAILS(TENON_WOULD_BLOCK, subscriber, 0);
  /* A subscriber that is gone takes no place, even before the next publish removes it. */
  tenon_subscriber_release(subscriber);
  OK(tenon_publisher_add(publisher, ends[0], ERR));
  close(ends[1]);
  publish_filled(publisher, 0, 0, 1);
  tenon_publisher_release(publisher);
}

/* ---- a path ---------------------------------------------------------------------------------- */

static char folder[64];
static char path[96];

static void begin_path(void) {
  snprintf(folder, sizeof(folder), "/tmp/tenon-publish-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof(path), "%s/weights", folder);
}

static void end_path(void) {
  struct stat info;
  CHECK(stat(path, &info) != 0 && errno == ENOENT);
  CHECK(rmdir(folder) == 0);
}

static void connect_and_receive(int socket) {
  tenon_subscriber *subscriber = NULL;
  const tenon_wait wait = check_wait_ns(20000000000);
  uint64_t i;
  check_await(socket);
  OK(tenon_subscriber_connect(path, NULL, &wait, &subscriber, ERR));
  check_signal(socket);
  CHECK_EQ(receive_filled(subscriber, 1, 4096), 100);
  for (i = 0; i < 500; i++) CHECK_EQ(receive_filled(subscriber, 1, 4096), i);
  RECV_FAILS(TENON_PEER_GONE, subscriber, -1);
  tenon_subscriber_release(subscriber);
}

static void subscribers_come_by_a_path(void) {
  tenon_publisher *publisher;
  struct stat info;
  int sockets[3];
  pid_t children[3];
  uint64_t i;
  begin_path();
  for (i = 0; i < 3; i++) children[i] = check_spawn(SOCK_STREAM, connect_and_receive, &sockets[i]);
  publisher = publisher_of(8, TENON_PUBLISH_BLOCK, 0);
  OK(tenon_publisher_listen(publisher, path, 0, ERR));
  CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
  publish_filled(publisher, 1, 4096, 100);
  for (i = 0; i < 3; i++) check_signal(sockets[i]);
  for (i = 0; i < 3; i++) check_await(sockets[i]);
  CHECK_EQ(stats_of(publisher).subscribers, 3);
  for (i = 0; i < 500; i++) publish_filled(publisher, 1, 4096, i);
  tenon_publisher_release(publisher);
  for (i = 0; i < 3; i++) {
    check_join(children[i]);
    close(sockets[i]);
  }
  end_path();
}

static void listen_and_die(int socket) {
  tenon_publisher *publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  OK(tenon_publisher_listen(publisher, path, 0644, ERR));
  check_signal(socket);
}

/* The socket of a dead publisher is replaced, and that of a living one is not. */
static void a_path_belongs_to_one_living_publisher(void) {
  tenon_publisher *a, *b;
  tenon_subscriber *subscriber = NULL;
  tenon_subscriber *none = PATTERN;
  pid_t child;
  int socket;
  begin_path();
  child = check_spawn(SOCK_STREAM, listen_and_die, &socket);
  check_await(socket);
  check_join(child);
  close(socket);
  FAILS_SAYING(TENON_PEER_GONE, "path", path,
               tenon_subscriber_connect(path, NULL, NULL, &none, ERR));
  a = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  b = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  OK(tenon_publisher_listen(a, path, 0, ERR));
  FAILS_SAYING(TENON_PERMISSION, "path", path, tenon_publisher_listen(b, path, 0, ERR));
  FAILS_SAYING(TENON_PERMISSION, "path", folder, tenon_publisher_listen(b, folder, 0, ERR));
  OK(tenon_subscriber_connect(path, NULL, NULL, &subscriber, ERR));
  /* The looks of the two calls above were no subscribers, and nobody hears of their end. */
  publish_filled(a, 1, 10, 5);
  CHECK_EQ(receive_filled(subscriber, 1, 10), 5);
  CHECK_EQ(stats_of(a).gone, 0);
  CHECK_EQ(stats_of(a).subscribers, 1);
  /* Another socket at the path is not removed. */
  CHECK(unlink(path) == 0);
  OK(tenon_publisher_listen(b, path, 0, ERR));
  tenon_publisher_release(a);
  CHECK(access(path, F_OK) == 0);
  tenon_subscriber_release(subscriber);
  tenon_publisher_release(b);
  end_path();
}

/* ---- several processes ----------------------------------------------------------------------- */

enum { kSubscribers = 8, kMessages = 20000 };

/* What publisher_to_many() publishes: mostly memory that the subscribers know. */
static uint32_t flags_of(uint64_t i) { return i % 50 == 7 ? TENON_STORAGE_ISOLATED : 0; }

static void receive_all(int socket) {
  tenon_subscriber *subscriber = subscriber_on(socket);
  uint64_t i;
  for (i = 0; i < kMessages; i++) CHECK_EQ(receive_filled(subscriber, 1, 64), i);
  RECV_FAILS(TENON_PEER_GONE, subscriber, -1);
  CHECK_EQ(seen_by(subscriber).received, kMessages);
  CHECK_EQ(seen_by(subscriber).dropped, 0);
  tenon_subscriber_release(subscriber);
}

static void many_messages_reach_many_subscribers_in_order(void) {
  tenon_publisher *publisher;
  int sockets[kSubscribers];
  pid_t children[kSubscribers];
  uint64_t i;
  for (i = 0; i < kSubscribers; i++)
    children[i] = check_spawn(i % 2 ? SOCK_STREAM : SOCK_SEQPACKET, receive_all, &sockets[i]);
  publisher = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  for (i = 0; i < kSubscribers; i++) OK(tenon_publisher_add(publisher, sockets[i], ERR));
  for (i = 0; i < kMessages; i++) publish_with(publisher, flags_of(i), 1, 64, i);
  tenon_publisher_release(publisher);
  for (i = 0; i < kSubscribers; i++) check_join(children[i]);
  await_leases(0);
}

/* No message fits into a slot, so each crosses on the socket, and a marker keeps its place. */
static void so_do_messages_that_are_longer_than_a_slot(void) {
  slot_nbytes = 64;
  many_messages_reach_many_subscribers_in_order();
  slot_nbytes = 0;
}

/* Leaves while it still holds a message. */
static int control[2];

static void leave_with_one(int socket) {
  tenon_subscriber *subscriber = subscriber_on(socket);
  tenon_message *held = NULL;
  close(control[0]);
  check_await(control[1]);
  OK(tenon_subscriber_recv(subscriber, NULL, &held, ERR));
  tenon_subscriber_release(subscriber);
  check_signal(control[1]);
  check_await(control[1]);
  CHECK_EQ(check_message(held, 1, 100), 0);
}

/* The subscriber still holds a message, so its token stays, and the leases of the messages that it
 * has not taken must come back on their own. */
static void a_subscriber_that_leaves_gives_back_what_it_did_not_take(void) {
  tenon_publisher *publisher;
  int socket;
  pid_t child;
  uint64_t i;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) == 0);
  child = check_spawn(SOCK_STREAM, leave_with_one, &socket);
  close(control[1]);
  publisher = publisher_of(8, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  OK(tenon_publisher_add(publisher, socket, ERR));
  for (i = 0; i < 5; i++) publish_filled(publisher, 1, 100, i);
  check_signal(control[0]);
  check_await(control[0]);
  CHECK_EQ(only_one_of(publisher).state, TENON_SUBSCRIBER_LEFT);
  await_leases(5);
  publish_filled(publisher, 1, 100, 9);
  await_leases(1);
  CHECK_EQ(stats_of(publisher).subscribers, 0);
  CHECK_EQ(stats_of(publisher).gone, 0);
  check_signal(control[0]);
  check_join(child);
  await_leases(0);
  close(control[0]);
  tenon_publisher_release(publisher);
}

/* Takes two messages, and holds them. */
static void hold_two(int socket) {
  tenon_subscriber *subscriber = subscriber_on(socket);
  tenon_message *message = NULL;
  OK(tenon_subscriber_recv(subscriber, NULL, &message, ERR));
  OK(tenon_subscriber_recv(subscriber, NULL, &message, ERR));
  for (;;) pause();
}

static void await_taken(tenon_publisher *publisher) {
  while (only_one_of(publisher).waiting > 0) usleep(100);
}

static void a_killed_subscriber_is_reported_once(void) {
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, hold_two, &socket);
  tenon_publisher *publisher = publisher_of(4, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  tenon_message *message = message_of(0, 1, 100, 7);
  const uint64_t leases = leases_granted();
  int tries;
  OK(tenon_publisher_add(publisher, socket, ERR));
  publish_filled(publisher, 1, 100, 1);
  publish_filled(publisher, 1, 100, 2);
  await_taken(publisher);
  while (only_one_of(publisher).pid != child) usleep(100);
  publish_filled(publisher, 1, 100, 3);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  for (tries = 0; tries < 1000 && only_one_of(publisher).state != TENON_SUBSCRIBER_GONE; tries++)
    usleep(1000);
  check_error_place = NULL;
  CHECK_EQ(tenon_publish(publisher, message, NULL, NULL), TENON_PEER_GONE);
  check_error_place = &check_error;
  OK(tenon_publish(publisher, message, NULL, ERR));
  CHECK_EQ(stats_of(publisher).gone, 1);
  CHECK_EQ(stats_of(publisher).subscribers, 0);
  await_leases(leases);
  tenon_message_release(message);
  tenon_publisher_release(publisher);
}

/* The publisher waits for a subscriber that is then killed. */
static void *kill_soon(void *child) {
  usleep(50000);
  CHECK(kill(*(pid_t *)child, SIGKILL) == 0);
  return NULL;
}

static void a_death_ends_the_wait_for_room(void) {
  int socket;
  pid_t child = check_spawn(SOCK_STREAM, hold_two, &socket);
  tenon_publisher *publisher = publisher_of(1, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  tenon_message *message = message_of(0, 1, 100, 7);
  tenon_error *error = NULL;
  pthread_t thread;
  int i;
  OK(tenon_publisher_add(publisher, socket, ERR));
  for (i = 0; i < 3; i++) publish_filled(publisher, 1, 100, 1);
  while (only_one_of(publisher).pid != child) usleep(100);
  CHECK(pthread_create(&thread, NULL, kill_soon, &child) == 0);
  CHECK_EQ(tenon_publish(publisher, message, NULL, &error), TENON_PEER_GONE);
  CHECK_EQ(atoi(tenon_error_detail(error, "pid")), child);
  tenon_error_release(error);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  OK(tenon_publish(publisher, message, NULL, ERR));
  tenon_message_release(message);
  tenon_publisher_release(publisher);
}

static void *remove_soon(void *publisher) {
  usleep(50000);
  OK(tenon_publisher_remove(publisher, only_one_of(publisher).pid, ERR));
  return NULL;
}

/* A program that knows who is slow goes on without it. */
static void a_slow_subscriber_can_be_removed(void) {
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, hold_two, &socket);
  tenon_publisher *publisher = publisher_of(1, TENON_PUBLISH_BLOCK, TENON_PUBLISHER_FORGET_LATEST);
  tenon_message *message = message_of(0, 1, 100, 7);
  const int64_t begin = check_now_ns();
  pthread_t thread;
  int i;
  OK(tenon_publisher_add(publisher, socket, ERR));
  for (i = 0; i < 3; i++) publish_filled(publisher, 1, 100, 1);
  while (only_one_of(publisher).pid != child) usleep(100);
  FAILS_SAYING(TENON_NOT_FOUND, "pid", text_of((int)getpid()),
               tenon_publisher_remove(publisher, getpid(), ERR));
  INVALID(tenon_publisher_remove(NULL, child, ERR));
  CHECK(pthread_create(&thread, NULL, remove_soon, publisher) == 0);
  CHECK_EQ(tenon_publish(publisher, message, NULL, NULL), TENON_OK);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(check_now_ns() - begin < 10000000000);
  CHECK_EQ(stats_of(publisher).subscribers, 0);
  CHECK_EQ(stats_of(publisher).gone, 0);
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  tenon_message_release(message);
  tenon_publisher_release(publisher);
  await_leases(0);
}

static void receive_until_gone(int socket) {
  tenon_subscriber *subscriber = subscriber_on(socket);
  const tenon_wait wait = check_wait_ns(20000000000);
  uint64_t last = 0, received = 0;
  for (;;) {
    tenon_message *message = NULL;
    uint64_t seed;
    const tenon_status status = tenon_subscriber_recv(subscriber, &wait, &message, NULL);
    if (status == TENON_PEER_GONE) break;
    CHECK_EQ(status, TENON_OK);
    seed = check_message(message, 1, 64);
    CHECK(seed > last);
    last = seed;
    received++;
  }
  CHECK_EQ(last, 30000);
  CHECK_EQ(received, seen_by(subscriber).received);
  /* A message whose memory it does not know yet needs room on the socket, too. */
  CHECK(received + seen_by(subscriber).dropped <= last);
  CHECK(received + seen_by(subscriber).dropped + last / 50 >= last);
  tenon_subscriber_release(subscriber);
}

/* A stopped subscriber does not delay a publisher that drops, and then gets the latest messages. */
static void a_stopped_subscriber_costs_only_itself(void) {
  int sockets[2];
  pid_t children[2];
  tenon_publisher *publisher;
  int64_t begin;
  uint64_t i;
  children[0] = check_spawn(SOCK_STREAM, receive_until_gone, &sockets[0]);
  children[1] = check_spawn(SOCK_STREAM, receive_until_gone, &sockets[1]);
  publisher = publisher_of(16, TENON_PUBLISH_DROP_OLDEST, TENON_PUBLISHER_FORGET_LATEST);
  for (i = 0; i < 2; i++) OK(tenon_publisher_add(publisher, sockets[i], ERR));
  begin = check_now_ns();
  for (i = 1; i <= 30000; i++) {
    if (i % 10000 == 5000) CHECK(kill(children[0], SIGSTOP) == 0);
    if (i % 10000 == 9000) CHECK(kill(children[0], SIGCONT) == 0);
    publish_with(publisher, flags_of(i), 1, 64, i);
  }
  CHECK(check_now_ns() - begin < 60000000000);
  tenon_publisher_release(publisher);
  for (i = 0; i < 2; i++) check_join(children[i]);
  await_leases(0);
}

static void stopped_under(tenon_publish_policy policy, tenon_status code) {
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, hold_two, &socket);
  tenon_publisher *publisher = publisher_of(2, policy, TENON_PUBLISHER_FORGET_LATEST);
  tenon_message *message = message_of(0, 1, 100, 7);
  const tenon_wait wait = check_wait_ns(kLongNs);
  OK(tenon_publisher_add(publisher, socket, ERR));
  publish_filled(publisher, 1, 100, 1);
  publish_filled(publisher, 1, 100, 1);
  while (only_one_of(publisher).pid != child) usleep(100);
  await_taken(publisher);
  CHECK(kill(child, SIGSTOP) == 0);
  publish_filled(publisher, 1, 100, 1);
  publish_filled(publisher, 1, 100, 1);
  FAILS_SAYING(code, "pid", text_of((int)child), tenon_publish(publisher, message, &wait, ERR));
  CHECK(kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, NULL, 0) == child);
  tenon_message_release(message);
  tenon_publisher_release(publisher);
}

static void a_stopped_subscriber_is_named(void) {
  stopped_under(TENON_PUBLISH_BLOCK, TENON_TIMEOUT);
  stopped_under(TENON_PUBLISH_ERROR, TENON_RESOURCE_EXHAUSTED);
}

static void publish_and_die(int socket) {
  tenon_publisher *publisher = publisher_of(16, TENON_PUBLISH_BLOCK, 0);
  uint64_t i;
  OK(tenon_publisher_add(publisher, socket, ERR));
  for (i = 0; i < 10; i++) publish_with(publisher, i % 2 ? TENON_STORAGE_ISOLATED : 0, 1, 4096, i);
  kill(getpid(), SIGKILL);
}

static void what_a_killed_publisher_published_is_received(void) {
  int socket;
  const pid_t child = check_spawn(SOCK_STREAM, publish_and_die, &socket);
  tenon_subscriber *subscriber = subscriber_on(socket);
  uint64_t i;
  for (i = 0; i < 10; i++) CHECK_EQ(receive_filled(subscriber, 1, 4096), i);
  RECV_FAILS(TENON_PEER_GONE, subscriber, -1);
  CHECK(waitpid(child, NULL, 0) == child);
  tenon_subscriber_release(subscriber);
}

static tenon_publisher *inherited;
static tenon_subscriber *inherited_subscriber;

static void use_inherited(int socket) {
  tenon_message *message = message_of(0, 0, 0, 1), *out = kNothing;
  size_t total = 7;
  FAILS(TENON_UNSUPPORTED, tenon_publish(inherited, message, NULL, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_publisher_add(inherited, socket, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_publisher_listen(inherited, path, 0, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, out,
                tenon_subscriber_recv(inherited_subscriber, NULL, &out, ERR));
  OK(tenon_publisher_subscribers(inherited, NULL, 0, &total, ERR));
  CHECK_EQ(total, 0);
  tenon_publisher_release(inherited);
  tenon_subscriber_release(inherited_subscriber);
  tenon_message_release(message);
}

static void a_child_of_fork_has_no_part_in_it(void) {
  int socket;
  pid_t child;
  begin_path();
  inherited = publisher_of(0, TENON_PUBLISH_BLOCK, 0);
  OK(tenon_publisher_listen(inherited, path, 0, ERR));
  OK(tenon_subscriber_connect(path, NULL, NULL, &inherited_subscriber, ERR));
  publish_filled(inherited, 1, 10, 1);
  child = check_spawn(SOCK_STREAM, use_inherited, &socket);
  check_join(child);
  close(socket);
  CHECK_EQ(receive_filled(inherited_subscriber, 1, 10), 1);
  publish_filled(inherited, 1, 10, 2);
  CHECK_EQ(receive_filled(inherited_subscriber, 1, 10), 2);
  tenon_publisher_release(inherited);
  RECV_FAILS(TENON_PEER_GONE, inherited_subscriber, 0);
  tenon_subscriber_release(inherited_subscriber);
  end_path();
}

int main(void) {
  check_begin(120);
  check_warm_up();
  RUN(one_process_publishes_to_itself);
  RUN(a_late_subscriber_gets_the_latest_message);
  RUN(long_messages_keep_their_places);
  RUN(each_policy_has_its_way_with_a_full_ring);
  RUN(the_fd_is_readable_when_there_is_a_message);
  RUN(a_cancel_ends_a_wait);
  RUN(a_wait_for_another_thread_ends);
  RUN(wrong_arguments);
  RUN(no_more_subscribers_than_it_takes);
  RUN_ONCE(subscribers_come_by_a_path);
  RUN_ONCE(a_path_belongs_to_one_living_publisher);
  RUN_ONCE(many_messages_reach_many_subscribers_in_order);
  RUN_ONCE(so_do_messages_that_are_longer_than_a_slot);
  RUN_ONCE(a_subscriber_that_leaves_gives_back_what_it_did_not_take);
  RUN_ONCE(a_killed_subscriber_is_reported_once);
  RUN_ONCE(a_death_ends_the_wait_for_room);
  RUN_ONCE(a_slow_subscriber_can_be_removed);
  RUN_ONCE(a_stopped_subscriber_costs_only_itself);
  RUN_ONCE(a_stopped_subscriber_is_named);
  RUN_ONCE(what_a_killed_publisher_published_is_received);
  RUN_ONCE(a_child_of_fork_has_no_part_in_it);
  return 0;
}
