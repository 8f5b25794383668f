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

/* Zig 0.17 brings a malloc of its own in the place of musl's, whose locks stay held in a child of
   fork if another thread had them then: with as many threads in malloc as there are processors the
   child turns in a circle for ever. musl's own frees them. */
#define CHECK_MALLOC_KEEPS_LOCKS 1
