/* Tests the fds of tenon/queue.h by which event loops wait: when they are readable, and that no
 * wake is lost. */
#include "queue_kit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "tenon/lease.h"

static int recv_fd_of(tenon_queue *queue) {
  int fd = -1;
  OK(tenon_queue_recv_fd(queue, &fd, ERR));
  return fd;
}

/* The same for a thread beside others, which must not share an error. */
static int recv_fd_in_thread(tenon_queue *queue) {
  int fd = -1;
  CHECK(tenon_queue_recv_fd(queue, &fd, NULL) == TENON_OK);
  return fd;
}

static int send_fd_of(tenon_queue *queue) {
  int fd = -1;
  OK(tenon_queue_send_fd(queue, &fd, ERR));
  return fd;
}

/* Whether the fd becomes readable in time. */
static int is_readable(int fd, int timeout_ms) {
  struct pollfd poll_fd;
  poll_fd.fd = fd;
  poll_fd.events = POLLIN;
  for (;;) {
    const int n = poll(&poll_fd, 1, timeout_ms);
    if (n >= 0) return n;
    CHECK(errno == EINTR);
  }
}

/* A wake takes microseconds. If the machine is busy it takes longer. */
enum { kAtOnce = 0, kSoonMs = 5000 };

/* The queue's calls with timeout 0. They return NULL and 0 for TENON_WOULD_BLOCK. */
static tenon_message *try_receive(tenon_queue *queue) {
  const tenon_wait wait = check_wait_ns(0);
  tenon_message *message = NULL;
  const tenon_status status = tenon_queue_recv(queue, &wait, &message, NULL);
  CHECK(status == TENON_OK || status == TENON_WOULD_BLOCK);
  return message;
}

static int try_send(tenon_queue *queue, const tenon_message *message) {
  const tenon_wait wait = check_wait_ns(0);
  const tenon_status status = tenon_queue_send(queue, message, &wait, NULL);
  CHECK(status == TENON_OK || status == TENON_WOULD_BLOCK);
  return status == TENON_OK;
}

/* Receives nothing until the fd is not readable. A thread of the library may still be about to make
 * it readable for a wake that came before. */
static void await_nothing(tenon_queue *queue, int fd) {
  do CHECK(try_receive(queue) == NULL);
  while (is_readable(fd, 20));
}

static uint64_t try_seed(tenon_queue *queue) {
  tenon_message *message = try_receive(queue);
  CHECK(message != NULL);
  return check_message(message, 0, 0);
}

/* ---- one process ----------------------------------------------------------------------------- */

static void a_message_makes_the_fd_readable(void) {
  tenon_queue *queue = queue_of(2, 4, 1024);
  const int fd = recv_fd_of(queue);
  int i;
  CHECK(is_readable(fd, kSoonMs)); /* the program has not looked yet */
  for (i = 0; i < 50; i++) {
    await_nothing(queue, fd);
    send_filled(queue, 0, 0, 1);
    CHECK(is_readable(fd, kSoonMs));
    send_filled(queue, 0, 0, 2);
    CHECK_EQ(try_seed(queue), 1);
    CHECK(is_readable(fd, kSoonMs));
    CHECK_EQ(try_seed(queue), 2);
    CHECK(is_readable(fd, kSoonMs)); /* until a receive has found nothing */
  }
  CHECK_EQ(recv_fd_of(queue), fd);
  tenon_queue_release(queue);
}

/* The program looks although the fd is not readable, and finds a message. */
static void the_fd_is_readable_after_a_look_of_its_own(void) {
  tenon_queue *queue = queue_of(2, 4, 1024);
  const int fd = recv_fd_of(queue);
  int i;
  for (i = 0; i < 200; i++) {
    CHECK(try_receive(queue) == NULL);
    send_filled(queue, 0, 0, 1);
    send_filled(queue, 0, 0, 2);
    CHECK_EQ(try_seed(queue), 1);
    CHECK(is_readable(fd, kSoonMs));
    CHECK_EQ(try_seed(queue), 2);
    CHECK(is_readable(fd, kSoonMs));
  }
  tenon_queue_release(queue);
}

static void room_makes_the_fd_readable(void) {
  tenon_queue *queue = queue_of(2, 2, 1024);
  tenon_message *message = message_of(0, 0, 0, 7);
  const int fd = send_fd_of(queue);
  int i;
  CHECK(is_readable(fd, kSoonMs));
  for (i = 0; i < 50; i++) {
    CHECK(try_send(queue, message));
    CHECK(is_readable(fd, kSoonMs));
    CHECK(try_send(queue, message));
    do CHECK(!try_send(queue, message));
    while (is_readable(fd, 20));
    CHECK_EQ(try_seed(queue), 7);
    CHECK(is_readable(fd, kSoonMs));
    CHECK_EQ(try_seed(queue), 7);
  }
  tenon_message_release(message);
  tenon_queue_release(queue);
}

static void leaving_makes_the_fds_readable(void) {
  tenon_queue *queue = queue_of(2, 2, 1024);
  tenon_message *message = message_of(0, 0, 0, 7), *out = kNothing;
  const int in = recv_fd_of(queue), room = send_fd_of(queue);
  int fd = -5;
  CHECK(try_receive(queue) == NULL);
  while (try_send(queue, message)) {
  }
  CHECK(is_readable(in, kSoonMs));
  CHECK_EQ(try_seed(queue), 7);
  CHECK_EQ(try_seed(queue), 7);
  CHECK(try_receive(queue) == NULL);
  tenon_queue_leave(queue);
  CHECK(is_readable(in, kAtOnce) && is_readable(room, kAtOnce));
  INVALID_KEEPING(out, tenon_queue_recv(queue, NULL, &out, ERR));
  INVALID(tenon_queue_send(queue, message, NULL, ERR));
  CHECK(is_readable(in, kAtOnce) && is_readable(room, kAtOnce));
  INVALID(tenon_queue_recv_fd(queue, &fd, ERR));
  INVALID(tenon_queue_send_fd(queue, &fd, ERR));
  CHECK_EQ(fd, -5);
  tenon_queue_pause_fds(queue);
  tenon_message_release(message);
  tenon_queue_release(queue);
}

static void wrong_arguments_for_an_fd(void) {
  tenon_queue *queue = queue_of(2, 2, 1024);
  int fd = -5;
  INVALID(tenon_queue_recv_fd(NULL, &fd, ERR));
  INVALID(tenon_queue_send_fd(NULL, &fd, ERR));
  INVALID(tenon_queue_recv_fd(queue, NULL, ERR));
  INVALID(tenon_queue_send_fd(queue, NULL, ERR));
  CHECK_EQ(fd, -5);
  tenon_queue_pause_fds(NULL);
  tenon_queue_pause_fds(queue); /* it has no fds */
  tenon_queue_release(queue);
}

/* Without an fd left the call fails, and the queue works as before. */
static void no_fd_is_left(void) {
  tenon_queue *queue = queue_of(2, 2, 1024);
  struct rlimit limit, lower;
  int fd = -5;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  lower = limit;
  lower.rlim_cur = 3;
  CHECK(setrlimit(RLIMIT_NOFILE, &lower) == 0);
  FAILS(TENON_RESOURCE_EXHAUSTED, tenon_queue_recv_fd(queue, &fd, ERR));
  CHECK_EQ(fd, -5);
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  send_filled(queue, 0, 0, 3);
  CHECK_EQ(try_seed(queue), 3);
  fd = recv_fd_of(queue);
  CHECK(is_readable(fd, kSoonMs));
  tenon_queue_release(queue);
}

static uint32_t is_member_asleep(const tenon_queue *queue, size_t index) {
  tenon_queue_member members[4];
  size_t total = 0;
  members[0].struct_size = sizeof(members[0]);
  OK(tenon_queue_members(queue, members, COUNT_OF(members), &total, ERR));
  CHECK(index < total);
  return members[index].asleep;
}

static void *receive_in_thread(void *queue) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *message = NULL;
  CHECK(tenon_queue_recv(queue, &wait, &message, NULL) == TENON_OK);
  return message;
}

/* A member that waits by its fd counts as asleep. When it says that it does not look at the fd any
 * more, it wakes another receiver for the message for which it was woken. */
static void a_pause_passes_the_wake_on(void) {
  tenon_queue *queue = queue_of(3, 4, 1024), *other = NULL;
  const int fd = recv_fd_of(queue);
  int i;
  OK(tenon_queue_join(tenon_queue_storage(queue), NULL, &other, ERR));
  for (i = 0; i < 10; i++) {
    pthread_t thread;
    void *message = NULL;
    CHECK(try_receive(queue) == NULL);
    CHECK_EQ(is_member_asleep(queue, 0), 1);
    /* The first member is woken, and nobody else is there. */
    send_filled(queue, 0, 0, 5);
    CHECK(is_readable(fd, kSoonMs));
    CHECK(pthread_create(&thread, NULL, receive_in_thread, other) == 0);
    CHECK(pthread_join(thread, &message) == 0);
    CHECK_EQ(check_message(message, 0, 0), 5);
    /* Now another thread sleeps. */
    CHECK(try_receive(queue) == NULL);
    CHECK(pthread_create(&thread, NULL, receive_in_thread, other) == 0);
    while (!is_member_asleep(queue, 1)) usleep(1000);
    tenon_queue_pause_fds(queue);
    CHECK(is_readable(fd, kSoonMs));
    CHECK_EQ(is_member_asleep(queue, 0), 0);
    send_filled(queue, 0, 0, 6);
    CHECK(pthread_join(thread, &message) == 0);
    CHECK_EQ(check_message(message, 0, 0), 6);
  }
  tenon_queue_release(other);
  tenon_queue_release(queue);
}

enum { kForThreads = 4000 };

struct shared_queue {
  tenon_queue *queue;
  size_t received; /* by all threads */
};

static void *receive_by_waiting(void *argument) {
  struct shared_queue *const it = argument;
  for (;;) {
    tenon_message *message = NULL;
    uint64_t seed;
    CHECK(tenon_queue_recv(it->queue, NULL, &message, NULL) == TENON_OK);
    seed = seed_of(message);
    tenon_message_release(message);
    if (seed == UINT64_MAX) return NULL;
    __atomic_fetch_add(&it->received, 1, __ATOMIC_SEQ_CST);
  }
}

static void *receive_by_fd(void *argument) {
  struct shared_queue *const it = argument;
  const int fd = recv_fd_in_thread(it->queue);
  for (;;) {
    tenon_message *message;
    uint64_t seed;
    CHECK(is_readable(fd, 20000));
    message = try_receive(it->queue);
    if (message == NULL) continue;
    seed = seed_of(message);
    tenon_message_release(message);
    if (seed == UINT64_MAX) return NULL;
    __atomic_fetch_add(&it->received, 1, __ATOMIC_SEQ_CST);
  }
}

/* As event loops do that hear only of changes: this thread waits only after it has found nothing.
 */
static void *receive_by_edges(void *argument) {
  struct shared_queue *const it = argument;
  struct epoll_event event;
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  memset(&event, 0, sizeof(event));
  event.events = EPOLLIN | EPOLLET;
  CHECK(epoll >= 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, recv_fd_in_thread(it->queue), &event) == 0);
  for (;;) {
    tenon_message *message;
    uint64_t seed;
    while ((message = try_receive(it->queue)) == NULL)
      CHECK(epoll_wait(epoll, &event, 1, 20000) == 1);
    seed = seed_of(message);
    tenon_message_release(message);
    if (seed == UINT64_MAX) break;
    __atomic_fetch_add(&it->received, 1, __ATOMIC_SEQ_CST);
  }
  CHECK(close(epoll) == 0);
  return NULL;
}

/* Threads wait in tenon_queue_recv and by the fd. Each message goes to one of them, and none of
 * them takes processor time while there is none. */
static void receive_by(void *(*const *bodies)(void *), size_t n) {
  struct shared_queue it;
  tenon_message *last = message_of(0, 0, 0, UINT64_MAX);
  pthread_t threads[4];
  clock_t begin;
  uint64_t i;
  it.queue = queue_of(0, 0, 0);
  it.received = 0;
  for (i = 0; i < n; i++) {
    CHECK(pthread_create(&threads[i], NULL, bodies[i], &it) == 0);
    usleep(20000);
  }
  for (i = 0; i < kForThreads; i++) {
    send_filled(it.queue, 0, 0, i);
    if (i % 500 == 0) {
      int tries;
      for (tries = 0; tries < 1000 && __atomic_load_n(&it.received, __ATOMIC_SEQ_CST) <= i; tries++)
        usleep(1000);
      CHECK_EQ(__atomic_load_n(&it.received, __ATOMIC_SEQ_CST), i + 1);
    }
  }
  while (__atomic_load_n(&it.received, __ATOMIC_SEQ_CST) < kForThreads) usleep(1000);
  /* On a busy machine the threads may still be about to wait. */
  for (i = 0; i < 5; i++) {
    usleep(20000);
    begin = clock();
    usleep(300000);
    if (clock() - begin < CLOCKS_PER_SEC / 100) break;
  }
  CHECK(i < 5);
  for (i = 0; i < n; i++) OK(tenon_queue_send(it.queue, last, NULL, ERR));
  for (i = 0; i < n; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK_EQ(it.received, kForThreads);
  tenon_message_release(last);
  tenon_queue_release(it.queue);
}

static void threads_wait_in_both_ways(void) {
  void *(*const bodies[])(void *) = {receive_by_waiting, receive_by_fd};
  receive_by(bodies, COUNT_OF(bodies));
}

static void threads_hear_of_changes(void) {
  void *(*const bodies[])(void *) = {receive_by_edges, receive_by_edges, receive_by_edges};
  receive_by(bodies, COUNT_OF(bodies));
}

static void threads_wait_in_all_ways(void) {
  void *(*const bodies[])(void *) = {receive_by_edges, receive_by_waiting, receive_by_fd,
                                     receive_by_edges};
  receive_by(bodies, COUNT_OF(bodies));
}

/* ---- several processes ----------------------------------------------------------------------- */

static void join_and_stay(int socket) {
  tenon_queue *queue = join_inherited(there);
  check_signal(socket);
  pause();
  tenon_queue_release(queue);
}

static void a_death_makes_the_fd_readable(void) {
  tenon_message *out = NULL;
  const tenon_wait wait = check_wait_ns(0);
  int socket, in;
  pid_t child;
  there = queue_of(2, 2, 1024);
  in = recv_fd_of(there);
  child = check_spawn(SOCK_STREAM, join_and_stay, &socket);
  check_await(socket);
  await_nothing(there, in);
  kill_and_wait(child, socket);
  CHECK(is_readable(in, kSoonMs));
  CHECK_EQ(tenon_queue_recv(there, &wait, &out, NULL), TENON_PEER_GONE);
  await_nothing(there, in);
  tenon_queue_release(there);
}

static void await_death(tenon_queue *queue) {
  const tenon_wait wait = check_wait_ns(20000000000);
  tenon_message *out = NULL;
  CHECK_EQ(tenon_queue_recv(queue, &wait, &out, NULL), TENON_PEER_GONE);
}

static void arm_and_stay(int socket) {
  tenon_queue *queue = join_inherited(there);
  (void)recv_fd_of(queue);
  CHECK(try_receive(queue) == NULL);
  check_signal(socket);
  pause();
  tenon_queue_release(queue);
}

/* A member that waits by its fd and is stopped, or killed, is as one that sleeps: the sender looks
 * again, and another receiver has the message soon. */
static void an_armed_member_is_stopped_and_killed(void) {
  tenon_queue_options options;
  tenon_queue *sender = NULL;
  pthread_t thread;
  void *message = NULL;
  int socket, turn;
  pid_t child;
  there = queue_of(3, 4, 1024);
  child = check_spawn(SOCK_STREAM, arm_and_stay, &socket);
  check_await(socket);
  SIZED(options);
  options.flags = TENON_QUEUE_IGNORE_DEATHS;
  OK(tenon_queue_join(tenon_queue_storage(there), &options, &sender, ERR));
  CHECK_EQ(is_member_asleep(there, 1), 1);
  CHECK(kill(child, SIGSTOP) == 0);
  CHECK(waitpid(child, NULL, WUNTRACED) == child);
  for (turn = 0; turn < 2; turn++) {
    const int64_t begin = check_now_ns();
    CHECK(pthread_create(&thread, NULL, receive_in_thread, there) == 0);
    while (!is_member_asleep(there, 0)) usleep(1000);
    send_filled(sender, 0, 0, 5);
    CHECK(pthread_join(thread, &message) == 0);
    CHECK_EQ(check_message(message, 0, 0), 5);
    CHECK(check_now_ns() - begin < 5000000000);
    if (turn > 0) break;
    kill_and_wait(child, socket);
    await_death(there);
  }
  tenon_queue_release(sender);
  tenon_queue_release(there);
}

static void use_inherited_fd(int socket) {
  int fd = -5;
  FAILS(TENON_UNSUPPORTED, tenon_queue_recv_fd(there, &fd, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_queue_send_fd(there, &fd, ERR));
  CHECK_EQ(fd, -5);
  tenon_queue_pause_fds(there);
  tenon_queue_leave(there);
  tenon_queue_release(there);
  check_signal(socket);
}

static void a_child_of_fork_leaves_the_fds_alone(void) {
  int socket, fd;
  pid_t child;
  there = queue_of(0, 0, 0);
  fd = recv_fd_of(there);
  await_nothing(there, fd);
  child = check_spawn(SOCK_STREAM, use_inherited_fd, &socket);
  check_await(socket);
  check_join(child);
  close(socket);
  CHECK(!is_readable(fd, kAtOnce));
  send_filled(there, 0, 0, 1);
  CHECK(is_readable(fd, kSoonMs));
  CHECK_EQ(try_seed(there), 1);
  tenon_queue_release(there);
}

/* A sender looks again 100 ms after it woke a receiver, on its service thread. That would hide a
 * lost wake, so the sender of this case has no such thread, and a lost wake is a wait without end.
 * Both sides wait by their fds, and pause for changing times, so that a message or room comes while
 * the other side is about to wait. */
enum { kStream = 60000, kMet = 3 };

static void pause_a_little(uint64_t *state) {
  uint64_t i;
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  for (i = *state >> 33 & 1023; i > 0; i--) __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* How long the longest wait was, and that no wait had no end. */
static void await_readable(int fd, int64_t *longest_ns) {
  const int64_t begin = check_now_ns();
  CHECK(is_readable(fd, kSoonMs));
  if (check_now_ns() - begin > *longest_ns) *longest_ns = check_now_ns() - begin;
}

static void stream_by_fd(int socket) {
  tenon_message *message;
  tenon_queue *queue;
  int64_t longest_ns = 0;
  uint64_t i, waits = 0, state = 1;
  int fd;
  OK(tenon_lease_use_no_thread(ERR));
  queue = join_inherited(there);
  fd = send_fd_of(queue);
  /* The receiver meets this process, which answers it here and never again. */
  for (i = 0; i < kMet; i++) {
    message = message_of(0, 0, 0, i);
    OK(tenon_queue_send(queue, message, NULL, ERR));
    tenon_message_release(message);
    while (!is_readable(socket, 1)) OK(tenon_lease_poll(ERR));
    check_await(socket);
  }
  for (i = kMet; i < kStream; i++) {
    message = message_of(0, 0, 0, i);
    while (!try_send(queue, message)) {
      await_readable(fd, &longest_ns);
      waits++;
    }
    tenon_message_release(message);
    pause_a_little(&state);
  }
  printf("  waits for room: %llu, the longest %.1f ms\n", (unsigned long long)waits,
         (double)longest_ns / 1e6);
  check_await(socket); /* the messages need their sender */
  tenon_queue_release(queue);
}

static void no_wake_is_lost_between_two_processes(void) {
  int64_t longest_ns = 0;
  uint64_t i, waits = 0, state = 2;
  int socket, fd;
  pid_t child;
  there = queue_of(2, 2, 1024);
  child = check_spawn(SOCK_STREAM, stream_by_fd, &socket);
  fd = recv_fd_of(there);
  for (i = 0; i < kStream; i++) {
    tenon_message *message;
    while ((message = try_receive(there)) == NULL) {
      await_readable(fd, &longest_ns);
      waits++;
    }
    CHECK_EQ(check_message(message, 0, 0), i);
    if (i < kMet) check_signal(socket);
    pause_a_little(&state);
  }
  printf("  waits for a message: %llu, the longest %.1f ms\n", (unsigned long long)waits,
         (double)longest_ns / 1e6);
  check_signal(socket);
  check_join(child);
  close(socket);
  tenon_queue_release(there);
}

/* Three receivers, of which one waits in tenon_queue_recv, and two senders. A wake that is lost
 * costs 100 ms here, until the sender looks again. */
enum { kSenders = 2, kReceivers = 3, kOfEach = 6000, kLongWaitMs = 80, kFewLongWaits = 5 };

static void send_many_by_fd(int socket) {
  tenon_queue *queue = join_inherited(there);
  const int fd = send_fd_of(queue);
  uint64_t i, number = 0, state;
  (void)check_recv(socket, &number, sizeof(number), NULL, 0);
  state = number;
  for (i = 0; i < kOfEach; i++) {
    tenon_message *message = message_of(0, 0, 0, number * kOfEach + i);
    while (!try_send(queue, message)) CHECK(is_readable(fd, 20000));
    tenon_message_release(message);
    pause_a_little(&state);
  }
  check_signal(socket);
  check_await(socket);
  tenon_queue_release(queue);
}

struct receiver_result {
  uint64_t received, sum, long_waits;
};

static void receive_many(int socket) {
  tenon_queue *queue = join_inherited(there);
  struct receiver_result result;
  uint64_t number = 0;
  int fd = -1;
  memset(&result, 0, sizeof(result));
  (void)check_recv(socket, &number, sizeof(number), NULL, 0);
  if (number > 0) fd = recv_fd_of(queue);
  for (;;) {
    const int64_t begin = check_now_ns();
    tenon_message *message = NULL;
    uint64_t seed;
    if (fd < 0) {
      OK(tenon_queue_recv(queue, NULL, &message, ERR));
    } else {
      while ((message = try_receive(queue)) == NULL) CHECK(is_readable(fd, 20000));
    }
    seed = seed_of(message);
    tenon_message_release(message);
    if (seed == UINT64_MAX) break;
    if (check_now_ns() - begin > kLongWaitMs * INT64_C(1000000)) result.long_waits++;
    result.received++;
    result.sum += seed;
  }
  check_send(socket, &result, sizeof(result), NULL, 0);
  tenon_queue_release(queue);
}

static void each_message_wakes_a_receiver(void) {
  int sockets[kSenders + kReceivers];
  pid_t children[kSenders + kReceivers];
  struct receiver_result all;
  const uint64_t total = (uint64_t)kSenders * kOfEach;
  uint64_t i;
  memset(&all, 0, sizeof(all));
  there = queue_of(kSenders + kReceivers + 1, 4, 1024);
  for (i = 0; i < COUNT_OF(children); i++)
    children[i] =
        check_spawn(SOCK_STREAM, i < kSenders ? send_many_by_fd : receive_many, &sockets[i]);
  for (i = 0; i < COUNT_OF(children); i++) {
    const uint64_t number = i < kSenders ? i : i - kSenders;
    check_send(sockets[i], &number, sizeof(number), NULL, 0);
  }
  for (i = 0; i < kSenders; i++) check_await(sockets[i]);
  while (stats_of(there).waiting > 0) usleep(1000);
  for (i = 0; i < kReceivers; i++) send_filled(there, 0, 0, UINT64_MAX);
  for (i = kSenders; i < COUNT_OF(children); i++) {
    struct receiver_result result;
    (void)check_recv(sockets[i], &result, sizeof(result), NULL, 0);
    all.received += result.received;
    all.sum += result.sum;
    all.long_waits += result.long_waits;
  }
  for (i = 0; i < kSenders; i++) check_signal(sockets[i]);
  for (i = 0; i < COUNT_OF(children); i++) {
    check_join(children[i]);
    close(sockets[i]);
  }
  printf("  waits of more than %d ms: %llu\n", kLongWaitMs, (unsigned long long)all.long_waits);
  CHECK_EQ(all.received, total);
  CHECK_EQ(all.sum, total * (total - 1) / 2);
  CHECK(all.long_waits <= kFewLongWaits);
  tenon_queue_release(there);
}

/* Makes the stacks of the two threads, which the C library keeps. */
static void begin_fds(void) {
  tenon_queue *queue = queue_of(0, 0, 0);
  (void)recv_fd_of(queue);
  (void)send_fd_of(queue);
  tenon_queue_release(queue);
}

int main(void) {
  check_begin(120);
  begin_depot();
  begin_fds();
  RUN(a_message_makes_the_fd_readable);
  RUN(the_fd_is_readable_after_a_look_of_its_own);
  RUN(room_makes_the_fd_readable);
  RUN(leaving_makes_the_fds_readable);
  RUN(wrong_arguments_for_an_fd);
  RUN(no_fd_is_left);
  RUN(a_pause_passes_the_wake_on);
  RUN_ONCE(threads_wait_in_both_ways);
  RUN_ONCE(threads_hear_of_changes);
  RUN_ONCE(threads_wait_in_all_ways);
  RUN_ONCE(a_child_of_fork_leaves_the_fds_alone);
  RUN_APART(no_wake_is_lost_between_two_processes);
  RUN_ONCE(each_message_wakes_a_receiver);
  RUN_APART(a_death_makes_the_fd_readable);
  RUN_APART(an_armed_member_is_stopped_and_killed);
  return 0;
}
