/* Imitates a slow disk for a program that loads this library in front of the C library
 * (LD_PRELOAD). The monotonic clock stands still, and each write to a file advances it by
 * TENON_SLOW_DISK_MS. So a test of a slow disk takes no time. With TENON_SLOW_DISK_HALT=N the Nth
 * write waits for a signal, or for the file TENON_SLOW_DISK_GO. With TENON_SLOW_DISK_NAMED no file
 * can be made without a name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns = 1000000000;
static long writes;

/* dlsym gives a data pointer, which ISO C cannot convert to a function pointer. */
static void find_next(const char* name, void* function) {
  void* found = dlsym(RTLD_NEXT, name);
  memcpy(function, &found, sizeof found);
}

static long setting(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : strtol(text, NULL, 10);
}

/* Waits until a signal is pending that this thread has blocked. A signal that is not blocked ends
 * the process. */
static void halt(void) {
  const char* go = getenv("TENON_SLOW_DISK_GO");
  sigset_t waiting;
  int left = 60000;
  do {
    usleep(1000);
    sigemptyset(&waiting);
    sigpending(&waiting);
  } while (sigisemptyset(&waiting) && (go == NULL || access(go, F_OK) != 0) && --left > 0);
}

static void before_write(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  now_ns += setting("TENON_SLOW_DISK_MS") * 1000000;
  if (++writes == setting("TENON_SLOW_DISK_HALT")) halt();
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  int (*next)(clockid_t, struct timespec*);
  if (clock == CLOCK_MONOTONIC) {
    out->tv_sec = now_ns / 1000000000;
    out->tv_nsec = now_ns % 1000000000;
    return 0;
  }
  find_next("clock_gettime", &next);
  return next(clock, out);
}

ssize_t write(int fd, const void* data, size_t nbytes) {
  ssize_t (*next)(int, const void*, size_t);
  find_next("write", &next);
  before_write(fd);
  return next(fd, data, nbytes);
}

ssize_t writev(int fd, const struct iovec* pieces, int n) {
  ssize_t (*next)(int, const struct iovec*, int);
  find_next("writev", &next);
  before_write(fd);
  return next(fd, pieces, n);
}

int openat(int directory, const char* path, int flags, ...) {
  int (*next)(int, const char*, int, ...);
  va_list rest;
  mode_t mode;
  va_start(rest, flags);
  mode = va_arg(rest, mode_t);
  va_end(rest);
  if ((flags & O_TMPFILE) == O_TMPFILE && getenv("TENON_SLOW_DISK_NAMED") != NULL) {
    errno = EOPNOTSUPP;
    return -1;
  }
  find_next("openat", &next);
  return next(directory, path, flags, mode);
}
