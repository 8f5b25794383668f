/* Waits until the library's thread is idle, for C and C++ tests that count what their process
 * holds. */
#ifndef TENON_TESTS_CAPI_LIBRARY_THREAD_H
#define TENON_TESTS_CAPI_LIBRARY_THREAD_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the library's thread sleeps or does not exist. */
static inline int library_thread_sleeps(void) {
  DIR *dir = opendir("/proc/self/task");
  struct dirent *entry;
  int sleeps = 1;
  if (dir == NULL) return 1; /* no fd is left to look with, in a test of that limit */
  while ((entry = readdir(dir)) != NULL) {
    char path[300], line[256] = "";
    FILE *stat;
    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
    stat = fopen(path, "re");
    if (stat == NULL) continue;
    if (fgets(line, sizeof(line), stat) != NULL && strstr(line, " (tenon) ") != NULL)
      sleeps = strstr(line, " (tenon) S") != NULL;
    fclose(stat);
  }
  closedir(dir);
  return sleeps;
}

/* The library's thread may still hold objects that other threads released. Waits until it is idle,
 * for ten seconds at most. */
static inline void library_thread_settle(void) {
  int tries;
  for (tries = 0; tries < 10000 && !library_thread_sleeps(); tries++) usleep(1000);
}

#endif
