/* Declares what tests/api/capi uses of glibc and musl lacks. Included before everything else. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stddef.h>

/* musl cannot tell how much malloc holds, so the number is the same before and after a test. */
struct mallinfo2 {
  size_t uordblks;
};
static inline struct mallinfo2 mallinfo2(void) {
  struct mallinfo2 nothing = {0};
  return nothing;
}

/* These numbers are the kernel's. */
#define FALLOC_FL_COLLAPSE_RANGE 0x08
#define FALLOC_FL_ZERO_RANGE 0x10
#define FALLOC_FL_INSERT_RANGE 0x20

/* Zig 0.17 replaces musl's malloc by its own. If another thread holds a lock of that malloc during
   fork, the lock stays held in the child. With as many threads in malloc as there are processors,
   the child then spins for ever. musl's own malloc frees its locks in the child. */
#define CHECK_MALLOC_KEEPS_LOCKS 1
