package cuda

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void* function(const char* name) {
  void* function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (function == NULL) abort();
  return function;
}
#define CU(name, ...) ((int (*)(__VA_ARGS__))function(name))

static int copy_filled(uintptr_t to, unsigned char byte, size_t nbytes) {
  void* context = NULL;
  uint64_t memory = 0;
  return CU("cuDevicePrimaryCtxRetain", void**, int)(&context, 0) == 0 &&
         CU("cuCtxSetCurrent", void*)(context) == 0 &&
         CU("cuMemAlloc_v2", uint64_t*, size_t)(&memory, nbytes) == 0 &&
         CU("cuMemsetD8_v2", uint64_t, unsigned char, size_t)(memory, byte, nbytes) == 0 &&
         CU("cuMemcpyDtoHAsync_v2", void*, uint64_t, size_t, void*)((void*)to, memory, nbytes,
                                                                    NULL) == 0 &&
         CU("cuStreamSynchronize", void*)(NULL) == 0 && CU("cuMemFree_v2", uint64_t)(memory) == 0;
}
*/
import "C"

// CopyFilled fills memory on the device with that byte, and copies it to pinned memory of the host.
func CopyFilled(to uintptr, value byte, nbytes int) bool {
	return C.copy_filled(C.uintptr_t(to), C.uchar(value), C.size_t(nbytes)) != 0
}
