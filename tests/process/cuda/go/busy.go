package cuda

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void* function(const char* name) {
  void* function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (function == NULL) abort();
  return function;
}
#define CU(name, ...) ((int (*)(__VA_ARGS__))function(name))

struct busy {
  void* stream;
  int ends[2];
};

static void stay(void* busy) {
  char byte = 0;
  if (read(((struct busy*)busy)->ends[0], &byte, 1) != 1) abort();
}

// A real driver loads the code of a fill or a copy with the first of its kind, which can wait for
// all that is under way: for ever, where that waits for this process. So these are the first.
static int load_code(void) {
  uint64_t room = 0;
  return CU("cuMemAlloc_v2", uint64_t*, size_t)(&room, 4096) == 0 &&
         CU("cuMemsetD8_v2", uint64_t, unsigned char, size_t)(room, 0, 2000) == 0 &&
         CU("cuMemsetD8_v2", uint64_t, unsigned char, size_t)(room + 1, 0, 1) == 0 &&
         CU("cuMemcpy", uint64_t, uint64_t, size_t)(room + 2048, room, 2000) == 0 &&
         CU("cuMemFree_v2", uint64_t)(room) == 0;
}

static struct busy* begin(void) {
  struct busy* busy = calloc(1, sizeof *busy);
  void* context = NULL;
  if (CU("cuInit", unsigned)(0) != 0 ||
      CU("cuDevicePrimaryCtxRetain", void**, int)(&context, 0) != 0 ||
      CU("cuCtxSetCurrent", void*)(context) != 0 ||
      CU("cuStreamCreate", void**, unsigned)(&busy->stream, 1) != 0 || pipe(busy->ends) != 0 ||
      !load_code() ||
      CU("cuLaunchHostFunc", void*, void (*)(void*), void*)(busy->stream, stay, busy) != 0)
    abort();
  return busy;
}

static void end(struct busy* busy) {
  if (write(busy->ends[1], "g", 1) != 1 || CU("cuStreamSynchronize", void*)(busy->stream) != 0 ||
      CU("cuStreamDestroy_v2", void*)(busy->stream) != 0)
    abort();
  close(busy->ends[0]);
  close(busy->ends[1]);
  free(busy);
}
*/
import "C"

// Busy is a stream whose work lasts until LetGo, so that no test depends on timing.
type Busy struct{ it *C.struct_busy }

// NewBusy makes a busy stream.
func NewBusy() Busy { return Busy{C.begin()} }

// Stream returns the CUstream.
func (b Busy) Stream() uintptr { return uintptr(b.it.stream) }

// LetGo ends the work and destroys the stream.
func (b Busy) LetGo() { C.end(b.it) }
