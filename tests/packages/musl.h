/* What tests/capi takes from glibc and musl has not. Included before everything else. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stddef.h>

/* What malloc holds cannot be asked here: it is the same before and after a test. */
struct mallinfo2 {
  size_t uordblks;
};
static inline struct mallinfo2 mallinfo2(void) {
  struct mallinfo2 nothing = {0};
  return nothing;
}

/* The kernel's numbers. */
#define FALLOC_FL_COLLAPSE_RANGE 0x08
#define FALLOC_FL_ZERO_RANGE 0x10
#define FALLOC_FL_INSERT_RANGE 0x20
