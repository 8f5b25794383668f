/* The base of all C tests: checks that report where and why they failed, counts of everything that
 * could leak, child processes, and fds over sockets. */
#ifndef TENON_TESTS_CAPI_CHECK_H
#define TENON_TESTS_CAPI_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>

#include "api/capi/library_thread.h"
#include "api/capi/watchdog.h"
#include "support/mappings.h"
#include "support/sanitizers.h"
#include "support/sized.h"

#define CHECK_UNUSED __attribute__((unused))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* An address that no allocation has. An output that still holds it was not touched. */
#define PATTERN ((void *)(uintptr_t)0x5a5a5a5a5a5a5a5aULL)

/* Calls under test pass ERR as their error argument, and the macros below examine the error. Only
 * one thread may use them. */
static tenon_error *check_error;
static tenon_error **check_error_place = &check_error;
static tenon_status check_got;
#define ERR check_error_place

CHECK_UNUSED static void check_fail(const char *file, int line, const char *text) {
  fprintf(stderr, "%s:%d: [pid %d] failed: %s\n", file, line, (int)getpid(), text);
  fflush(NULL);
  _exit(1);
}

CHECK_UNUSED static void check_fail_status(const char *file, int line, const char *call,
                                           tenon_status want, tenon_status got,
                                           const tenon_error *error) {
  size_t i;
  const tenon_error *cause = error;
  fprintf(stderr, "%s:%d: [pid %d] wanted %s, got %s: %s\n", file, line, (int)getpid(),
          tenon_status_name(want), tenon_status_name(got), call);
  for (; cause != NULL; cause = tenon_error_cause(cause)) {
    fprintf(stderr, "  %s: %s\n", tenon_status_name(tenon_error_code(cause)),
            tenon_error_message(cause));
    for (i = 0; tenon_error_detail_key(cause, i) != NULL; i++) {
      fprintf(stderr, "    %s = %s\n", tenon_error_detail_key(cause, i),
              tenon_error_detail(cause, tenon_error_detail_key(cause, i)));
    }
  }
  fflush(NULL);
  _exit(1);
}

#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) check_fail(__FILE__, __LINE__, #condition); \
  } while (0)

#define CHECK_EQ(a, b)                                                                \
  do {                                                                                \
    long long check_a = (long long)(a), check_b = (long long)(b);                     \
    if (check_a != check_b) {                                                         \
      fprintf(stderr, "%s:%d: [pid %d] %s is %lld, %s is %lld\n", __FILE__, __LINE__, \
              (int)getpid(), #a, check_a, #b, check_b);                               \
      fflush(NULL);                                                                   \
      _exit(1);                                                                       \
    }                                                                                 \
  } while (0)

/* Checks that the call succeeds and leaves *err alone. */
#define OK(call)                                                                     \
  do {                                                                               \
    check_error = (tenon_error *)PATTERN;                                            \
    check_got = (call);                                                              \
    if (check_got != TENON_OK)                                                       \
      check_fail_status(__FILE__, __LINE__, #call, TENON_OK, check_got,              \
                        check_error == (tenon_error *)PATTERN ? NULL : check_error); \
    if (check_error != (tenon_error *)PATTERN)                                       \
      check_fail(__FILE__, __LINE__, "*err was written on success: " #call);         \
  } while (0)

/* Checks that an error is complete: its code, one line of text, and only details that tenon/error.h
 * names. */
CHECK_UNUSED static void check_error_shape(const char *file, int line, tenon_status code,
                                           const tenon_error *error) {
  static const char *const known[] = {"errno",
                                      "limit",
                                      "limit_value",
                                      "wanted",
                                      "path",
                                      "fd",
                                      "pid",
                                      "field",
                                      "option",
                                      "version",
                                      "live",
                                      "lent",
                                      "retired",
                                      "kept",
                                      "left",
                                      "free",
                                      "holders",
                                      "where",
                                      "found",
                                      "column",
                                      "type",
                                      "file",
                                      "line",
                                      "excerpt",
                                      "record",
                                      "offset",
                                      "opcode",
                                      "name",
                                      "other",
                                      "missing",
                                      "unexpected",
                                      "operator",
                                      "module",
                                      "other_module",
                                      "cuda_error",
                                      "cuda_error_name",
                                      "driver_version",
                                      "part",
                                      "index",
                                      "item",
                                      "dimension",
                                      "size",
                                      "class",
                                      "member",
                                      "lost"};
  const char *message = tenon_error_message(error);
  const char *key;
  size_t i, k;
  if (error == NULL || error == (const tenon_error *)PATTERN)
    check_fail(file, line, "*err was not set by a call that failed");
  if (tenon_error_code(error) != code)
    check_fail(file, line, "the error has another code than the call returned");
  if (message == NULL || strlen(message) < 8 || strchr(message, '\n') != NULL)
    check_fail(file, line, "the message is not one line of text");
  for (i = 0; (key = tenon_error_detail_key(error, i)) != NULL; i++) {
    for (k = 0; k < COUNT_OF(known) && strcmp(known[k], key) != 0; k++) {
    }
    if (k == COUNT_OF(known)) {
      fprintf(stderr, "%s:%d: detail \"%s\" is not in tenon/error.h\n", file, line, key);
      check_fail(file, line, message);
    }
    if (tenon_error_detail(error, key) == NULL)
      check_fail(file, line, "a detail that is listed cannot be found");
  }
}

CHECK_UNUSED static int check_is_one_of(tenon_status got, tenon_status a, tenon_status b) {
  return got == a || got == b;
}

/* Checks that the call fails with code a or b, in the same way with an error argument and without.
 * Leaves the error in check_error. */
#define FAILS_RAW(a, b, call)                                                           \
  do {                                                                                  \
    check_error_place = NULL;                                                           \
    check_got = (call);                                                                 \
    check_error_place = &check_error;                                                   \
    if (!check_is_one_of(check_got, (a), (b)))                                          \
      check_fail_status(__FILE__, __LINE__, #call " [err NULL]", (a), check_got, NULL); \
    check_error = (tenon_error *)PATTERN;                                               \
    check_got = (call);                                                                 \
    if (!check_is_one_of(check_got, (a), (b))) {                                        \
      check_fail_status(__FILE__, __LINE__, #call, (a), check_got,                      \
                        check_error == (tenon_error *)PATTERN ? NULL : check_error);    \
    }                                                                                   \
    check_error_shape(__FILE__, __LINE__, check_got, check_error);                      \
  } while (0)

#define FAILS_EITHER(a, b, call)      \
  do {                                \
    FAILS_RAW(a, b, call);            \
    tenon_error_release(check_error); \
    check_error = NULL;               \
  } while (0)

#define FAILS(code, call) FAILS_EITHER(code, code, call)

/* As FAILS, and the detail `key` exists and contains `part`. */
#define FAILS_SAYING(code, key, part, call)                                                       \
  do {                                                                                            \
    const char *check_detail;                                                                     \
    FAILS_RAW(code, code, call);                                                                  \
    check_detail = tenon_error_detail(check_error, key);                                          \
    if (check_detail == NULL || strstr(check_detail, part) == NULL) {                             \
      fprintf(stderr, "  detail %s = %s\n", key, check_detail == NULL ? "(none)" : check_detail); \
      check_fail_status(__FILE__, __LINE__, #call " with detail " #key " " #part, (code),         \
                        check_got, check_error);                                                  \
    }                                                                                             \
    tenon_error_release(check_error);                                                             \
    check_error = NULL;                                                                           \
  } while (0)

/* As FAILS, and not a byte of `object` changes. */
#define FAILS_KEEPING(code, object, call) FAILS_EITHER_KEEPING(code, code, object, call)
#define FAILS_EITHER_KEEPING(a, b, object, call)                \
  do {                                                          \
    unsigned char check_before[sizeof(object)];                 \
    memcpy(check_before, &(object), sizeof(object));            \
    FAILS_EITHER(a, b, call);                                   \
    if (memcmp(check_before, &(object), sizeof(object)) != 0)   \
      check_fail(__FILE__, __LINE__, "output touched: " #call); \
  } while (0)

/* As FAILS, FAILS_SAYING and FAILS_KEEPING, for calls that are wrong in themselves. */
#define INVALID(call) FAILS(TENON_INVALID_ARGUMENT, call)
#define INVALID_SAYING(key, part, call) FAILS_SAYING(TENON_INVALID_ARGUMENT, key, part, call)
#define INVALID_KEEPING(object, call) FAILS_KEEPING(TENON_INVALID_ARGUMENT, object, call)

/* ---- what could leak ------------------------------------------------------------------------- */

/* What this process holds. check_hold() counts it when the library's thread is idle. */
struct check_held {
  long fds;
  long guests;
  long mappings;
  size_t heap;
  char list[2048]; /* the list of fds, for the message */
};

/* Other processes check now and then whether the depot of a name in /dev/shm still has its process,
 * and they connect to it. These connections are guests: they come and go at any time. */
CHECK_UNUSED static int check_is_guest(int fd) {
  struct sockaddr_un name;
  socklen_t length = sizeof(name);
  int listens = 0;
  memset(&name, 0, sizeof(name));
  if (getsockname(fd, (struct sockaddr *)&name, &length) != 0 || name.sun_family != AF_UNIX)
    return 0;
  if (strncmp(name.sun_path, "/dev/shm/", 9) != 0) return 0;
  length = sizeof(listens);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && !listens;
}

/* Counts the fds. Guests among them are counted in *guests alone. */
CHECK_UNUSED static long check_list_fds(long *guests, char *list, size_t room) {
  DIR *dir = opendir("/proc/self/fd");
  struct dirent *entry;
  size_t used = 0;
  long n = 0;
  CHECK(dir != NULL);
  *guests = 0;
  if (room > 0) list[0] = '\0';
  while ((entry = readdir(dir)) != NULL) {
    const int fd = atoi(entry->d_name);
    char target[128];
    const ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));
    if (entry->d_name[0] == '.' || fd == dirfd(dir) || length < 0) continue;
    *(check_is_guest(fd) ? guests : &n) += 1;
    if (used < room)
      used += (size_t)snprintf(list + used, room - used, "  %d %.*s\n", fd, (int)length, target);
  }
  closedir(dir);
  return n;
}

CHECK_UNUSED static long check_count_fds(void) {
  long guests;
  return check_list_fds(&guests, NULL, 0);
}

/* Starts what lives as long as the process: the library's thread and its fds. A lend under a lease
 * starts them.
 */
CHECK_UNUSED static void check_warm_up(void) {
  static pid_t warm;
  int ends[2];
  tenon_connection *lender = NULL, *borrower = NULL;
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_message *message = NULL, *got = NULL;
  const int64_t size = 1;
  tenon_tensor_spec spec;
  if (warm == getpid()) return;
  warm = getpid();
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_UINT;
  spec.dtype.bits = 8;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  OK(tenon_connection_new(ends[0], NULL, &lender, ERR));
  OK(tenon_connection_new(ends[1], NULL, &borrower, ERR));
  OK(tenon_storage_new(NULL, 1, &storage, ERR));
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  OK(tenon_send(lender, message, NULL, ERR));
  OK(tenon_recv(borrower, NULL, &got, ERR));
  tenon_message_release(got);
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  tenon_connection_release(lender);
  tenon_connection_release(borrower);
  close(ends[0]);
  close(ends[1]);
}

CHECK_UNUSED static struct check_held check_hold(void) {
  struct check_held held;
  check_warm_up();
  /* The library's thread may still hold objects that other threads released. */
  library_thread_settle();
  (void)tenon_storage_trim();
  library_thread_settle();
  held.fds = check_list_fds(&held.guests, held.list, sizeof(held.list));
  held.mappings = count_memfd_mappings();
#if TENON_TEST_SANITIZED
  held.heap = 0; /* the sanitizer's own leak check is better */
#else
  held.heap = mallinfo2().uordblks;
#endif
  return held;
}

CHECK_UNUSED static int check_is_same_held(struct check_held before, struct check_held after,
                                           int with_heap) {
  return before.fds == after.fds && after.guests <= before.guests &&
         before.mappings == after.mappings && (!with_heap || after.heap <= before.heap);
}

/* Counts until the numbers equal `before`, for five seconds, because other threads may release
 * objects a moment after the case. Returns the last counts. */
CHECK_UNUSED static struct check_held check_same_held(const char *file, int line, const char *name,
                                                      struct check_held before,
                                                      struct check_held after, int with_heap) {
  int tries;
  for (tries = 0; tries < 1000 && !check_is_same_held(before, after, with_heap); tries++) {
    usleep(5000);
    after = check_hold();
  }
  if (!check_is_same_held(before, after, with_heap)) {
    fprintf(stderr, "%s:%d: %s leaks: fds %ld -> %ld, memfd mappings %ld -> %ld, heap %zu -> %zu\n",
            file, line, name, before.fds, after.fds, before.mappings, after.mappings, before.heap,
            after.heap);
    if (before.fds != after.fds || before.guests < after.guests)
      fprintf(stderr, "fds before:\n%sfds after:\n%s", before.list, after.list);
    fflush(NULL);
    _exit(1);
  }
  return after;
}

/* Runs a case again until one run leaves nothing behind, not even heap, and six times at most. The
 * first run may fill caches (malloc's too) that live as long as the process, but a leak grows each
 * time. fds and mappings must be the same after every run. */
#define RUN(test_case)                                                                          \
  do {                                                                                          \
    struct check_held check_before = check_hold(), check_after;                                 \
    int check_runs = 0;                                                                         \
    printf("- %s\n", #test_case);                                                               \
    fflush(stdout);                                                                             \
    for (;; check_before = check_after) {                                                       \
      test_case();                                                                              \
      check_after = check_same_held(__FILE__, __LINE__, #test_case, check_before, check_hold(), \
                                    ++check_runs == 6);                                         \
      if (check_runs >= 2 && check_after.heap <= check_before.heap) break;                      \
    }                                                                                           \
  } while (0)

/* Runs a long case once, and checks fds and mappings only. */
#define RUN_ONCE(test_case)                                                              \
  do {                                                                                   \
    struct check_held check_first = check_hold();                                        \
    printf("- %s\n", #test_case);                                                        \
    fflush(stdout);                                                                      \
    test_case();                                                                         \
    (void)check_same_held(__FILE__, __LINE__, #test_case, check_first, check_hold(), 0); \
  } while (0)

/* Every main begins with this. A test that hangs is ended and reports where it hangs. The program
 * restarts itself without malloc's per-thread caches, because mallinfo2 counts their blocks as
 * used. */
CHECK_UNUSED static void check_begin(unsigned seconds) {
  if (!TENON_TEST_SANITIZED && getenv("GLIBC_TUNABLES") == NULL) {
    CHECK(setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0);
    execl("/proc/self/exe", "check", (char *)NULL);
    check_fail(__FILE__, __LINE__, "could not start itself again");
  }
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  watchdog_begin(seconds * (TENON_TEST_SANITIZED ? 3 : 1));
}

/* ---- other processes ------------------------------------------------------------------------- */

/* Starts a child that runs body(its end of a new socket) and exits with 0. *other_end is this
 * process's end. Fork before anything is lent: then parent and child share only memory that is
 * sent. */
CHECK_UNUSED static pid_t check_spawn(int type, void (*body)(int), int *other_end) {
  int ends[2];
  pid_t child;
  CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  fflush(NULL);
  /* A sanitizer's allocator does not work in the child if the library's thread was in it at the
   * fork. */
  if (TENON_TEST_SANITIZED) library_thread_settle();
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    watchdog_begin(100 * (TENON_TEST_SANITIZED ? 3 : 1));
    body(ends[1]);
    fflush(NULL);
    _exit(0);
  }
  close(ends[1]);
  *other_end = ends[0];
  return child;
}

CHECK_UNUSED static void check_join(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "child %d ended with %s %d\n", (int)child,
            WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    fflush(NULL);
    _exit(1);
  }
}

/* Sends bytes, with up to 250 fds. */
CHECK_UNUSED static void check_send(int to, const void *data, size_t n, const int *fds,
                                    size_t n_fds) {
  union {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * 250)];
  } control;
  struct iovec part;
  struct msghdr packet;
  memset(&control, 0, sizeof(control));
  memset(&packet, 0, sizeof(packet));
  part.iov_base = (void *)(uintptr_t)data;
  part.iov_len = n;
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  CHECK(n_fds <= 250);
  if (n_fds > 0) {
    packet.msg_control = &control;
    packet.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
    memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * n_fds);
  }
  CHECK(sendmsg(to, &packet, MSG_NOSIGNAL) == (ssize_t)n);
}

/* Receives exactly n bytes, and the fds that came with the first of them. Returns the number of
 * fds. */
CHECK_UNUSED static size_t check_recv(int from, void *data, size_t n, int *fds, size_t max_fds) {
  union {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * 250)];
  } control;
  struct iovec part;
  struct msghdr packet;
  struct cmsghdr *part_control;
  size_t got_fds = 0, done = 0;
  while (done < n) {
    ssize_t got;
    memset(&packet, 0, sizeof(packet));
    part.iov_base = (char *)data + done;
    part.iov_len = n - done;
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    packet.msg_control = &control;
    packet.msg_controllen = sizeof(control);
    got = recvmsg(from, &packet, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    CHECK(got > 0);
    CHECK((packet.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0);
    for (part_control = CMSG_FIRSTHDR(&packet); part_control != NULL;
         part_control = CMSG_NXTHDR(&packet, part_control)) {
      size_t n_here = (part_control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      CHECK(part_control->cmsg_type == SCM_RIGHTS && got_fds + n_here <= max_fds);
      memcpy(fds + got_fds, CMSG_DATA(part_control), n_here * sizeof(int));
      got_fds += n_here;
    }
    done += (size_t)got;
  }
  return got_fds;
}

/* One byte each way: this process waits until the other one has reached the same point. */
CHECK_UNUSED static void check_signal(int to) { check_send(to, "!", 1, NULL, 0); }
CHECK_UNUSED static void check_await(int from) {
  char byte = 0;
  (void)check_recv(from, &byte, 1, NULL, 0);
  CHECK(byte == '!');
}

/* ---- small things ---------------------------------------------------------------------------- */

CHECK_UNUSED static int64_t check_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

CHECK_UNUSED static tenon_wait check_wait_ns(int64_t timeout_ns) {
  tenon_wait wait;
  SIZED(wait);
  wait.timeout_ns = timeout_ns;
  return wait;
}

CHECK_UNUSED static tenon_storage_options check_storage_options(tenon_mode mode, uint32_t flags) {
  tenon_storage_options options;
  SIZED(options);
  options.mode = mode;
  options.flags = flags;
  return options;
}

CHECK_UNUSED static tenon_share_options check_share_options(tenon_access access) {
  tenon_share_options options;
  SIZED(options);
  options.access = access;
  return options;
}

CHECK_UNUSED static tenon_open_options check_open_options(tenon_access access, uint32_t flags) {
  tenon_open_options options;
  SIZED(options);
  options.access = access;
  options.flags = flags;
  return options;
}

CHECK_UNUSED static tenon_fd_handle check_handle(void) {
  tenon_fd_handle handle;
  SIZED(handle);
  handle.fd = -1;
  return handle;
}

CHECK_UNUSED static unsigned char check_byte(uint64_t seed, uint64_t i) {
  return (unsigned char)((seed * 131 + i * 7 + (i >> 8)) & 0xff);
}

CHECK_UNUSED static void check_fill(void *data, uint64_t n, uint64_t seed) {
  uint64_t i;
  for (i = 0; i < n; i++) ((unsigned char *)data)[i] = check_byte(seed, i);
}

CHECK_UNUSED static int check_filled(const void *data, uint64_t n, uint64_t seed) {
  uint64_t i;
  for (i = 0; i < n; i++) {
    if (((const unsigned char *)data)[i] != check_byte(seed, i)) return 0;
  }
  return 1;
}

/* Returns a storage of that mode, filled with the seed's bytes. A FROZEN one is frozen already. */
CHECK_UNUSED static tenon_storage *check_storage(tenon_mode mode, uint32_t flags, uint64_t nbytes,
                                                 uint64_t seed) {
  tenon_storage_options options = check_storage_options(mode, flags);
  tenon_storage *storage = NULL;
  void *data = malloc(nbytes + 1);
  CHECK(data != NULL);
  check_fill(data, nbytes, seed);
  OK(tenon_storage_new(&options, nbytes, &storage, ERR));
  OK(tenon_storage_write(storage, 0, data, nbytes, ERR));
  if (mode == TENON_MODE_FROZEN && (flags & TENON_STORAGE_PRIVATE) == 0)
    OK(tenon_storage_freeze(storage, ERR));
  free(data);
  return storage;
}

/* Returns a one-dimensional uint8 tensor over the whole storage. */
CHECK_UNUSED static tenon_tensor *check_bytes_tensor(tenon_storage *storage) {
  tenon_tensor_spec spec;
  tenon_tensor *tensor = NULL;
  int64_t size = (int64_t)tenon_storage_nbytes(storage);
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_UINT;
  spec.dtype.bits = 8;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  return tensor;
}

#endif
