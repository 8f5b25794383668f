/* Ends a process that hangs, and prints what each of its threads waits for. */
#ifndef TENON_TESTS_CAPI_WATCHDOG_H
#define TENON_TESTS_CAPI_WATCHDOG_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void watchdog_copy(const char *path) {
  char text[256];
  ssize_t n;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  n = read(fd, text, sizeof(text));
  close(fd);
  if (n > 0 && write(2, text, (size_t)n) < 0) return;
  if (n > 0 && text[n - 1] != '\n' && write(2, "\n", 1) < 0) return;
}

/* A child that hangs, too, would never end. */
static inline void watchdog_end_children(const char *thread) {
  char text[4096], *at = text, *next;
  ssize_t n;
  int fd;
  snprintf(text, sizeof(text), "/proc/self/task/%s/children", thread);
  fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  n = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[n > 0 ? n : 0] = '\0';
  for (;; at = next) {
    const long pid = strtol(at, &next, 10);
    if (next == at) return;
    if (pid > 0) kill((pid_t)pid, SIGKILL);
  }
}

/* The calls here are not all safe in a signal handler, but the process ends anyway. A second alarm
 * ends a report that hangs. */
static inline void watchdog_bark(int signal_number) {
  char text[300];
  DIR *dir;
  struct dirent *entry;
  signal(signal_number, SIG_DFL);
  alarm(10);
  snprintf(text, sizeof(text), "pid %d hangs; its threads (name, system call, wait):\n",
           (int)getpid());
  if (write(2, text, strlen(text)) < 0) _exit(1);
  dir = opendir("/proc/self/task");
  while (dir != NULL && (entry = readdir(dir)) != NULL) {
    static const char *const files[] = {"comm", "syscall", "wchan"};
    size_t i;
    if (entry->d_name[0] == '.') continue;
    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
      snprintf(text, sizeof(text), "/proc/self/task/%s/%s", entry->d_name, files[i]);
      watchdog_copy(text);
    }
    watchdog_end_children(entry->d_name);
  }
  _exit(1);
}

static inline void watchdog_begin(unsigned seconds) {
  signal(SIGALRM, watchdog_bark);
  alarm(seconds);
}

#endif
