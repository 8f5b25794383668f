/* Tests tenon/connection.h: good and bad sockets, sends that stop half-way, and peers that leave or
 * lie. */
#include "check.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

static const int kTypes[] = {SOCK_STREAM, SOCK_SEQPACKET};
static tenon_message *const kNothing = PATTERN;

/* The cases run without a ring and with one in each direction. */
static tenon_connection_options g_options;

struct pair {
  int sockets[2];
  tenon_connection *a, *b;
};

static struct pair open_pair(int type) {
  struct pair pair;
  CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair.sockets) == 0);
  OK(tenon_connection_new(pair.sockets[0], &g_options, &pair.a, ERR));
  OK(tenon_connection_new(pair.sockets[1], &g_options, &pair.b, ERR));
  return pair;
}

static void close_pair(struct pair *pair) {
  tenon_connection_release(pair->a);
  tenon_connection_release(pair->b);
  close(pair->sockets[0]);
  close(pair->sockets[1]);
}

static tenon_message *numbered(uint64_t number, size_t padding) {
  unsigned char bytes[TENON_MESSAGE_MAX_USER_NBYTES];
  tenon_message *message = NULL;
  memcpy(bytes, &number, sizeof(number));
  check_fill(bytes + sizeof(number), padding, number);
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_set_user_bytes(message, bytes, sizeof(number) + padding, ERR));
  return message;
}

static uint64_t number_of(const tenon_message *message) {
  size_t n = 0;
  uint64_t number = 0;
  const unsigned char *bytes = tenon_message_user_bytes(message, &n);
  CHECK(bytes != NULL && n >= sizeof(number));
  memcpy(&number, bytes, sizeof(number));
  CHECK(check_filled(bytes + sizeof(number), n - sizeof(number), number));
  return number;
}

static void bad_sockets(void) {
  tenon_connection *out = PATTERN;
  int pipes[2], pair[2], fds[8], i, n = 0, closed;
  CHECK(pipe2(pipes, O_CLOEXEC) == 0 &&
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0);
  fds[n++] = pipes[0];
  fds[n++] = pipes[1];
  fds[n++] = pair[0];
  fds[n++] = pair[1];
  fds[n++] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fds[n++] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* not connected */
  fds[n++] = eventfd(0, EFD_CLOEXEC);
  fds[n++] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (i = 0; i < n; i++) {
    if (fds[i] < 0) continue; /* a machine without IPv4 */
    INVALID_KEEPING(out, tenon_connection_new(fds[i], &g_options, &out, ERR));
    CHECK(fcntl(fds[i], F_GETFD) >= 0);
  }
  closed = fds[0];
  for (i = 0; i < n; i++) close(fds[i]);
  INVALID_KEEPING(out, tenon_connection_new(closed, &g_options, &out, ERR));
  INVALID_KEEPING(out, tenon_connection_new(-1, &g_options, &out, ERR));
  INVALID_KEEPING(out, tenon_connection_new(900000, &g_options, &out, ERR));
}

static void bad_input(void) {
  struct {
    tenon_connection_options options;
    unsigned char tail[16];
  } larger;
  struct pair pair = open_pair(SOCK_STREAM);
  tenon_connection_options options;
  tenon_connection *out = PATTERN, *connection = NULL;
  tenon_message *message = numbered(1, 0), *got = kNothing;
  int extra[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, extra) == 0);
  INVALID(tenon_connection_new(extra[0], NULL, NULL, ERR));
  memset(&options, 0, sizeof(options));
  INVALID_KEEPING(out, tenon_connection_new(extra[0], &options, &out, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(out, tenon_connection_new(extra[0], &options, &out, ERR));
  options.struct_size = sizeof(options);
  options.flags = 1U << 31;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_connection_new(extra[0], &options, &out, ERR));
  options.flags = 0;
  options.open_access = 3;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_connection_new(extra[0], &options, &out, ERR));
  options.open_access = 0;
  options.open_flags = TENON_OPEN_ADOPT_FD;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_connection_new(extra[0], &options, &out, ERR));
  options.open_flags = 1U << 31;
  FAILS_EITHER_KEEPING(TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED, out,
                       tenon_connection_new(extra[0], &options, &out, ERR));
  options.open_flags = TENON_OPEN_PRIVATE_COPY | TENON_OPEN_PRIVATE_COW;
  INVALID_KEEPING(out, tenon_connection_new(extra[0], &options, &out, ERR));
  options.open_flags = 0;
  options.group = 1; /* without the flag TENON_CONNECTION_GROUP */
  INVALID_KEEPING(out, tenon_connection_new(extra[0], &options, &out, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  larger.tail[1] = 1;
  FAILS_KEEPING(TENON_UNSUPPORTED, out, tenon_connection_new(extra[0], &larger.options, &out, ERR));
  larger.tail[1] = 0;
  OK(tenon_connection_new(extra[0], &larger.options, &connection, ERR));
  tenon_connection_release(connection);

  INVALID(tenon_send(NULL, message, NULL, ERR));
  INVALID_KEEPING(got, tenon_recv(NULL, NULL, &got, ERR));
  INVALID(tenon_recv(pair.a, NULL, NULL, ERR));
  CHECK(tenon_connection_fd(NULL) == -1 && tenon_connection_fd(pair.a) == pair.sockets[0]);
  tenon_connection_release(NULL);
  tenon_message_release(message);
  close(extra[0]);
  close(extra[1]);
  close_pair(&pair);
}

static void sockets_stay_as_they_were(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    int flags, variant;
    for (variant = 0; variant < 2; variant++) {
      tenon_wait wait = check_wait_ns(1000000);
      tenon_message *message = numbered(5, 100), *got = NULL;
      struct pair pair;
      CHECK(socketpair(AF_UNIX, kTypes[t] | SOCK_CLOEXEC | (variant ? SOCK_NONBLOCK : 0), 0,
                       pair.sockets) == 0);
      flags = fcntl(pair.sockets[0], F_GETFL);
      OK(tenon_connection_new(pair.sockets[0], &g_options, &pair.a, ERR));
      OK(tenon_connection_new(pair.sockets[1], &g_options, &pair.b, ERR));
      got = kNothing;
      FAILS_KEEPING(TENON_TIMEOUT, got, tenon_recv(pair.b, &wait, &got, ERR));
      OK(tenon_send(pair.a, message, NULL, ERR));
      OK(tenon_recv(pair.b, NULL, &got, ERR));
      CHECK(number_of(got) == 5);
      CHECK(fcntl(pair.sockets[0], F_GETFL) == flags);
      tenon_message_release(got);
      tenon_message_release(message);
      tenon_connection_release(pair.a);
      tenon_connection_release(pair.b);
      CHECK(fcntl(pair.sockets[0], F_GETFD) >= 0); /* borrowed */
      close(pair.sockets[0]);
      close(pair.sockets[1]);
    }
  }
}

static void adopted_sockets(void) {
  tenon_connection_options options;
  tenon_connection *connection = NULL, *out = PATTERN;
  long fds = check_count_fds();
  int sockets[2], pipes[2];
  SIZED(options);
  options.flags = TENON_CONNECTION_ADOPT_SOCKET;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  OK(tenon_connection_new(sockets[0], &options, &connection, ERR));
  tenon_connection_release(connection);
  CHECK(fcntl(sockets[0], F_GETFD) < 0);
  close(sockets[1]);
  CHECK(pipe2(pipes, O_CLOEXEC) == 0);
  INVALID_KEEPING(out, tenon_connection_new(pipes[0], &options, &out, ERR));
  CHECK(fcntl(pipes[0], F_GETFD) >= 0); /* a failed call does not take the fd */
  close(pipes[0]);
  close(pipes[1]);
  CHECK_EQ(check_count_fds(), fds);
}

static tenon_peer blank_peer(void) {
  tenon_peer peer;
  SIZED(peer);
  return peer;
}

static void check_is_me(const tenon_connection *connection, pid_t pid) {
  tenon_peer peer = blank_peer();
  OK(tenon_connection_peer(connection, &peer, ERR));
  CHECK(peer.struct_size == sizeof(peer) && peer.pid == pid && peer.uid == geteuid() &&
        peer.gid == getegid() && peer.reserved == 0);
}

/* The peer of a socket pair is its maker, at both ends, even if another process holds the end.
 * tests/process/namespaces tests other users. */
static void peers(void) {
  static const uint32_t flags[] = {0, TENON_CONNECTION_SAME_USER, TENON_CONNECTION_GROUP,
                                   TENON_CONNECTION_SAME_USER | TENON_CONNECTION_GROUP};
  struct {
    tenon_peer peer;
    unsigned char tail[16];
  } larger;
  tenon_peer peer = blank_peer();
  size_t t, i;
  pid_t me = getpid(), child;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    struct pair pair = open_pair(kTypes[t]);
    int status = -1;
    check_is_me(pair.a, me);
    check_is_me(pair.b, me);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      check_is_me(pair.a, me);
      _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tenon_connection_release(pair.b);
    pair.b = NULL;
    CHECK(close(pair.sockets[1]) == 0);
    check_is_me(pair.a, me); /* the peer is known after it has gone */
    INVALID(tenon_connection_peer(NULL, &peer, ERR));
    INVALID(tenon_connection_peer(pair.a, NULL, ERR));
    peer.struct_size = sizeof(peer) - 1;
    INVALID(tenon_connection_peer(pair.a, &peer, ERR));
    CHECK(peer.pid == 0);
    peer.struct_size = sizeof(peer);
    memset(&larger, 0x5a, sizeof(larger));
    larger.peer.struct_size = sizeof(larger);
    OK(tenon_connection_peer(pair.a, &larger.peer, ERR));
    CHECK(larger.peer.struct_size == sizeof(larger) && larger.peer.pid == me &&
          larger.tail[0] == 0x5a && larger.tail[15] == 0x5a);
    tenon_connection_release(pair.a);
    CHECK(close(pair.sockets[0]) == 0);
    for (i = 0; i < COUNT_OF(flags); i++) {
      tenon_connection_options options;
      tenon_connection *connection = NULL;
      int sockets[2];
      SIZED(options);
      options.flags = flags[i];
      if ((flags[i] & TENON_CONNECTION_GROUP) != 0)
        options.group = 4242424; /* not a member of the group, but the same user */
      CHECK(socketpair(AF_UNIX, kTypes[t] | SOCK_CLOEXEC, 0, sockets) == 0);
      OK(tenon_connection_new(sockets[0], &options, &connection, ERR));
      tenon_connection_release(connection);
      close(sockets[0]);
      close(sockets[1]);
    }
  }
}

static void tensors_and_bytes(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    struct pair pair = open_pair(kTypes[t]);
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 4000, 6),
                  *empty = check_storage(TENON_MODE_SHARED, 0, 0, 0);
    tenon_tensor *tensors[3];
    static const char *const names[] = {"a", NULL, ""};
    tenon_message *message = NULL, *got = NULL;
    struct pollfd poll_fd;
    size_t i, n = 9;
    OK(tenon_message_new(&message, ERR));
    OK(tenon_send(pair.a, message, NULL, ERR)); /* an empty message arrives, too */
    poll_fd.fd = tenon_connection_fd(pair.b);
    poll_fd.events = POLLIN;
    CHECK(poll(&poll_fd, 1, 10000) == 1);
    OK(tenon_recv(pair.b, NULL, &got, ERR));
    CHECK(tenon_message_count(got) == 0 && tenon_message_user_bytes(got, &n) == NULL && n == 0);
    tenon_message_release(got);
    tensors[0] = check_bytes_tensor(storage);
    tensors[1] = check_bytes_tensor(empty);
    tensors[2] = check_bytes_tensor(storage);
    OK(tenon_message_add(message, tensors, names, 3, NULL, ERR));
    OK(tenon_message_set_user_bytes(message, "hello", 5, ERR));
    OK(tenon_send(pair.b, message, NULL, ERR)); /* both directions */
    OK(tenon_recv(pair.a, NULL, &got, ERR));
    CHECK(tenon_message_count(got) == 3 && strcmp(tenon_message_name(got, 0), "a") == 0 &&
          tenon_message_name(got, 1) == NULL);
    CHECK(tenon_tensor_storage(tenon_message_tensor(got, 0)) ==
          storage); /* this process knows its own storage */
    CHECK(tenon_tensor_storage(tenon_message_tensor(got, 2)) == storage);
    CHECK(tenon_tensor_numel(tenon_message_tensor(got, 1)) == 0);
    CHECK(memcmp(tenon_message_user_bytes(got, &n), "hello", 5) == 0 && n == 5);
    tenon_message_release(got);
    tenon_message_release(message);
    for (i = 0; i < 3; i++) tenon_tensor_release(tensors[i]);
    tenon_storage_release(storage);
    tenon_storage_release(empty);
    close_pair(&pair);
  }
}

/* Sends with timeout 0 to a full socket, many times. Every message arrives once and in order,
 * however the sender continues. */
static void resumed_sends(void) {
  enum { kCount = 120 };
  static const size_t paddings[] = {0, 3000, TENON_MESSAGE_MAX_USER_NBYTES - 8};
  size_t t, p;
  int how;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    for (p = 0; p < COUNT_OF(paddings); p++) {
      for (how = 0; how < 3; how++) { /* the next send: the same message, NULL, another one */
        struct pair pair = open_pair(kTypes[t]);
        tenon_wait now = check_wait_ns(0);
        uint64_t sent = 0, received = 0, stops = 0;
        int small = 4096;
        CHECK(setsockopt(pair.sockets[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
        while (received < kCount) {
          tenon_message *got = NULL;
          tenon_status status;
          while (sent < kCount) {
            tenon_message *message = numbered(sent, paddings[p]);
            status = tenon_send(pair.a, message, &now, NULL);
            if (status == TENON_WOULD_BLOCK) {
              stops++;
              if (how == 2) {
                tenon_message_release(message); /* it is the connection's now; the next call brings
                                                   the next message */
                sent++;
                break;
              }
              for (;;) { /* until the message is sent */
                tenon_status draining;
                status = tenon_send(pair.a, how == 0 ? message : NULL, &now, NULL);
                if (status == TENON_OK) break;
                CHECK(status == TENON_WOULD_BLOCK);
                draining = tenon_recv(pair.b, &now, &got, NULL);
                if (draining == TENON_OK) {
                  CHECK(number_of(got) == received);
                  received++;
                  tenon_message_release(got);
                } else {
                  CHECK(draining == TENON_WOULD_BLOCK);
                }
              }
            } else {
              CHECK(status == TENON_OK);
            }
            tenon_message_release(message);
            sent++;
          }
          status = tenon_recv(pair.b, &now, &got, NULL);
          if (status == TENON_OK) {
            CHECK(number_of(got) == received);
            received++;
            tenon_message_release(got);
          } else {
            CHECK(status == TENON_WOULD_BLOCK);
            status = tenon_send(pair.a, NULL, &now, NULL);
            CHECK(status == TENON_OK || status == TENON_WOULD_BLOCK);
          }
        }
        CHECK(stops > 0);
        OK(tenon_send(pair.a, NULL, NULL, ERR)); /* nothing is left */
        {
          tenon_message *out = kNothing;
          FAILS_KEEPING(TENON_WOULD_BLOCK, out, tenon_recv(pair.b, &now, &out, ERR));
        }
        close_pair(&pair);
      }
    }
  }
}

static void peer_goes(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    struct pair pair = open_pair(kTypes[t]);
    tenon_message *message = numbered(1, 10), *got = NULL, *out = kNothing;
    OK(tenon_send(pair.a, message, NULL, ERR));
    OK(tenon_send(pair.a, message, NULL, ERR));
    tenon_connection_release(pair.a);
    close(pair.sockets[0]);
    OK(tenon_recv(pair.b, NULL, &got, ERR)); /* messages from before the end arrive first */
    tenon_message_release(got);
    OK(tenon_recv(pair.b, NULL, &got, ERR));
    tenon_message_release(got);
    FAILS_KEEPING(TENON_PEER_GONE, out, tenon_recv(pair.b, NULL, &out, ERR));
    FAILS_KEEPING(TENON_PEER_GONE, out, tenon_recv(pair.b, NULL, &out, ERR));
    FAILS(TENON_PEER_GONE, tenon_send(pair.b, message, NULL, ERR)); /* and there is no SIGPIPE */
    tenon_connection_release(pair.b);
    close(pair.sockets[1]);
    tenon_message_release(message);
  }
}

static void wait_for_kill(int sock) {
  check_signal(sock);
  for (;;) pause();
}

static void peer_is_killed(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    int sock, status = 0;
    pid_t child = check_spawn(kTypes[t], wait_for_kill, &sock);
    tenon_connection *connection = NULL;
    tenon_message *out = kNothing;
    check_await(sock);
    OK(tenon_connection_new(sock, &g_options, &connection, ERR));
    CHECK(kill(child, SIGKILL) == 0);
    FAILS_KEEPING(TENON_PEER_GONE, out, tenon_recv(connection, NULL, &out, ERR));
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    tenon_connection_release(connection);
    close(sock);
  }
}

static void half_a_message_then_the_end(void) {
  struct pair pair = open_pair(SOCK_STREAM);
  tenon_message *message = numbered(1, 60000), *out = kNothing;
  tenon_wait now = check_wait_ns(0);
  int small = 4096;
  tenon_status status;
  CHECK(setsockopt(pair.sockets[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
  status = tenon_send(pair.a, message, &now, NULL);
  CHECK(status == TENON_WOULD_BLOCK);
  FAILS_KEEPING(TENON_WOULD_BLOCK, out, tenon_recv(pair.b, &now, &out, ERR));
  tenon_connection_release(pair.a);
  close(pair.sockets[0]);
  FAILS_KEEPING(TENON_PEER_GONE, out, tenon_recv(pair.b, NULL, &out, ERR));
  tenon_connection_release(pair.b);
  close(pair.sockets[1]);
  tenon_message_release(message);
}

static void garbage(void) {
  static const size_t lengths[] = {1, 7, 64, 4096};
  size_t t, i, pattern;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    for (i = 0; i < COUNT_OF(lengths); i++) {
      for (pattern = 0; pattern < 3; pattern++) {
        unsigned char bytes[4096];
        int sockets[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        tenon_connection *connection = NULL;
        tenon_message *out = kNothing;
        CHECK(socketpair(AF_UNIX, kTypes[t] | SOCK_CLOEXEC, 0, sockets) == 0);
        OK(tenon_connection_new(sockets[0], &g_options, &connection, ERR));
        memset(bytes, 0, sizeof(bytes));
        if (pattern == 1) memset(bytes, 0xff, sizeof(bytes));
        if (pattern == 2) check_fill(bytes, sizeof(bytes), 77);
        check_send(sockets[1], bytes, lengths[i], &fd, 1);
        close(sockets[1]);
        FAILS_EITHER_KEEPING(TENON_CORRUPT, TENON_PEER_GONE, out,
                             tenon_recv(connection, NULL, &out, ERR));
        if (lengths[i] >= 64)
          FAILS_KEEPING(TENON_CORRUPT, out,
                        tenon_recv(connection, NULL, &out, ERR)); /* the connection is broken */
        tenon_connection_release(connection);
        close(sockets[0]);
        close(fd);
      }
    }
  }
}

/* An fd crosses a connection once, however many tensors lie in its segment, in one message or in
 * many. */
static void receive_many(int sock) {
  tenon_connection *connection = NULL;
  tenon_message *kept = NULL;
  tenon_wait now = check_wait_ns(0);
  long fds = 0;
  int i;
  OK(tenon_connection_new(sock, &g_options, &connection, ERR));
  for (i = 0; i < 200; i++) {
    tenon_message *got = NULL;
    size_t k;
    OK(tenon_recv(connection, NULL, &got, ERR));
    CHECK(tenon_message_count(got) == 10);
    for (k = 0; k < 10; k++)
      CHECK(
          check_filled(tenon_tensor_data(tenon_message_tensor(got, k)), 500, (uint64_t)i * 10 + k));
    if (i == 0) {
      kept = got;
      fds = check_count_fds();
    } else {
      CHECK_EQ(check_count_fds(), fds);
      tenon_message_release(got);
    }
  }
  tenon_message_release(kept);
  check_signal(sock);
  {
    tenon_message *out = kNothing;
    FAILS_EITHER_KEEPING(TENON_WOULD_BLOCK, TENON_PEER_GONE, out,
                         tenon_recv(connection, &now, &out, ERR));
  }
  tenon_connection_release(connection);
}

static void one_fd_for_many(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    int sock, i;
    pid_t child = check_spawn(kTypes[t], receive_many, &sock);
    tenon_connection *connection = NULL;
    OK(tenon_connection_new(sock, &g_options, &connection, ERR));
    for (i = 0; i < 200; i++) {
      tenon_message *message = NULL;
      uint64_t k;
      OK(tenon_message_new(&message, ERR));
      for (k = 0; k < 10; k++) {
        tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 500, (uint64_t)i * 10 + k);
        tenon_tensor *tensor = check_bytes_tensor(storage);
        OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
        tenon_tensor_release(tensor);
        tenon_storage_release(storage);
      }
      OK(tenon_send(connection, message, NULL, ERR));
      tenon_message_release(message);
    }
    check_await(sock);
    tenon_connection_release(connection);
    close(sock);
    check_join(child);
  }
}

/* A receiver with lower limits refuses a message, and the error names what it refused. */
static void limits(void) {
  struct {
    uint64_t max_message_nbytes, max_tensors, max_segments;
  } small[] = {{64, 0, 0}, {0, 2, 0}, {0, 0, 2}};
  size_t t, i, k;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    for (i = 0; i < COUNT_OF(small); i++) {
      tenon_connection_options options;
      tenon_connection *sender = NULL, *receiver = NULL;
      tenon_message *message = NULL, *out = kNothing;
      int sockets[2];
      tenon_status status;
      SIZED(options);
      options.max_message_nbytes = small[i].max_message_nbytes;
      options.max_tensors = small[i].max_tensors;
      options.max_segments = small[i].max_segments;
      CHECK(socketpair(AF_UNIX, kTypes[t] | SOCK_CLOEXEC, 0, sockets) == 0);
      OK(tenon_connection_new(sockets[0], &g_options, &sender, ERR));
      OK(tenon_connection_new(sockets[1], &options, &receiver, ERR));
      OK(tenon_message_new(&message, ERR));
      for (k = 0; k < 3; k++) {
        tenon_storage *storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 100, k);
        tenon_tensor *tensor = check_bytes_tensor(storage);
        OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
        tenon_tensor_release(tensor);
        tenon_storage_release(storage);
      }
      OK(tenon_send(sender, message, NULL, ERR));
      status = tenon_recv(receiver, NULL, &out, NULL);
      CHECK(out == kNothing);
      CHECK(status == TENON_CORRUPT || status == TENON_RESOURCE_EXHAUSTED);
      tenon_message_release(message);
      tenon_connection_release(sender);
      tenon_connection_release(receiver);
      close(sockets[0]);
      close(sockets[1]);
    }
  }
}

static void opened_as_the_options_say(void) {
  static const struct {
    tenon_access access;
    uint32_t flags;
    int read_only, shared;
  } ways[] = {{TENON_ACCESS_AUTO, 0, 0, 1},
              {TENON_ACCESS_READ_ONLY, 0, 1, 1},
              {TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COPY, 0, 0},
              {TENON_ACCESS_AUTO, TENON_OPEN_PRIVATE_COW, 0, 0}};
  size_t i;
  for (i = 0; i < COUNT_OF(ways); i++) {
    tenon_connection_options options;
    tenon_connection *sender = NULL, *receiver = NULL;
    tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 1), *got_storage;
    tenon_tensor *tensor = check_bytes_tensor(storage);
    tenon_message *message = NULL, *got = NULL;
    int sockets[2];
    SIZED(options);
    options.open_access = ways[i].access;
    options.open_flags = ways[i].flags;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    OK(tenon_connection_new(sockets[0], &g_options, &sender, ERR));
    OK(tenon_connection_new(sockets[1], &options, &receiver, ERR));
    OK(tenon_message_new(&message, ERR));
    OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
    OK(tenon_send(sender, message, NULL, ERR));
    OK(tenon_recv(receiver, NULL, &got, ERR));
    got_storage = tenon_tensor_storage(tenon_message_tensor(got, 0));
    CHECK((got_storage == storage) == (i == 0));
    CHECK(tenon_storage_is_read_only(got_storage) == ways[i].read_only &&
          tenon_storage_is_shared(got_storage) == ways[i].shared);
    CHECK(check_filled(tenon_storage_data(got_storage), 100, 1));
    tenon_message_release(got);
    tenon_message_release(message);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
    tenon_connection_release(sender);
    tenon_connection_release(receiver);
    close(sockets[0]);
    close(sockets[1]);
  }
}

/* Sends queue up, and a send and a receive can run at the same time: four senders and two receivers
 * on each end. */
enum { kThreadMessages = 300 };

static void *send_some(void *connection) {
  int i;
  for (i = 0; i < kThreadMessages; i++) {
    unsigned char bytes[2000];
    tenon_message *message = NULL;
    check_fill(bytes, sizeof(bytes), 3);
    CHECK(tenon_message_new(&message, NULL) == TENON_OK);
    CHECK(tenon_message_set_user_bytes(message, bytes, sizeof(bytes), NULL) == TENON_OK);
    CHECK(tenon_send(connection, message, NULL, NULL) == TENON_OK);
    tenon_message_release(message);
  }
  return NULL;
}

static void *receive_some(void *connection) {
  int i;
  for (i = 0; i < 2 * kThreadMessages; i++) {
    tenon_message *message = NULL;
    size_t n = 0;
    const void *bytes;
    CHECK(tenon_recv(connection, NULL, &message, NULL) == TENON_OK);
    bytes = tenon_message_user_bytes(message, &n);
    CHECK(n == 2000 && check_filled(bytes, n, 3));
    tenon_message_release(message);
  }
  return NULL;
}

static void both_ways_at_once(void) {
  size_t t;
  for (t = 0; t < COUNT_OF(kTypes); t++) {
    struct pair pair = open_pair(kTypes[t]);
    pthread_t threads[12];
    size_t i;
    for (i = 0; i < 8; i++)
      CHECK(pthread_create(&threads[i], NULL, send_some, i % 2 ? pair.a : pair.b) == 0);
    for (i = 8; i < 12; i++)
      CHECK(pthread_create(&threads[i], NULL, receive_some, i % 2 ? pair.a : pair.b) == 0);
    for (i = 0; i < 12; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    close_pair(&pair);
  }
}

static void sent_and_released(void) {
  struct pair pair = open_pair(SOCK_STREAM);
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 3000, 8);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  tenon_message *message = NULL, *got = NULL;
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  OK(tenon_send(pair.a, message, NULL, ERR));
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_storage_release(
      storage); /* released before the message is received: the bytes are still there */
  OK(tenon_recv(pair.b, NULL, &got, ERR));
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(got, 0)), 3000, 8));
  close_pair(&pair);
  CHECK(check_filled(tenon_tensor_data(tenon_message_tensor(got, 0)), 3000,
                     8)); /* the memory outlives the connection */
  tenon_message_release(got);
}

static void run_all(void) {
  RUN(bad_sockets);
  RUN(bad_input);
  RUN(sockets_stay_as_they_were);
  RUN(adopted_sockets);
  RUN(peers);
  RUN(tensors_and_bytes);
  RUN(resumed_sends);
  RUN(peer_goes);
  RUN(peer_is_killed);
  RUN(half_a_message_then_the_end);
  RUN(garbage);
  RUN(one_fd_for_many);
  RUN(limits);
  RUN(opened_as_the_options_say);
  RUN_ONCE(both_ways_at_once);
  RUN(sent_and_released);
}

int main(void) {
  check_begin(120);
  SIZED(g_options);
  run_all();
  puts("with rings");
  g_options.flags = TENON_CONNECTION_RING;
  run_all();
  return 0;
}
