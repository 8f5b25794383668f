/* Counts the mappings of the test's own process. C and C++ tests use it to find memory that was not
 * unmapped. */
#ifndef TENON_TESTS_SUPPORT_MAPPINGS_H
#define TENON_TESTS_SUPPORT_MAPPINGS_H

#include <stdio.h>
#include <string.h>

/* Returns how many lines of /proc/self/maps contain `part`, usually a part of a file's name.
 * Returns -1 if no fd is left to look with. */
static inline long count_mappings_of(const char* part) {
  char line[8192]; /* a path has 4096 bytes at most, and an escaped byte is longer */
  long count = 0;
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return -1;
  while (fgets(line, sizeof(line), maps) != NULL) count += strstr(line, part) != NULL;
  fclose(maps);
  return count;
}

/* Counts the mappings of memfds. Tenon's own segments are memfds, but files of /dev/shm that have
 * names are not. */
static inline long count_memfd_mappings(void) { return count_mappings_of("memfd:"); }

#endif
