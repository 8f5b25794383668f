// Package cuda provides device memory of another framework, which Go's tests lend through the
// wrapper. It is written in C, in a package of its own, because Go's test files cannot use cgo.
package cuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// DLPack's DLManagedTensorVersioned.
struct managed {
  uint32_t major, minor;
  void* context;
  void (*deleter)(struct managed* self);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct foreign {
  struct managed managed;
  int64_t shape[2];
  int freed;
};

static void* found(const char* name) {
  void* function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (function == NULL) abort();
  return function;
}
#define CU(name, ...) ((int (*)(__VA_ARGS__))found(name))

// The primary context, current on this thread.
static int use_device(void) {
  void* context = NULL;
  int failed = CU("cuInit", unsigned)(0);
  if (failed == 0) failed = CU("cuDevicePrimaryCtxRetain", void**, int)(&context, 0);
  return failed != 0 ? failed : CU("cuCtxSetCurrent", void*)(context);
}

static void delete(struct managed* self) {
  struct foreign* foreign = self->context;
  use_device();
  if (CU("cuMemFree_v2", uint64_t)((uint64_t)(uintptr_t)self->data) == 0) ++foreign->freed;
}

// [4, 8] float32, 64 bytes into an allocation of 1024 that is all 0x5a.
static struct foreign* make(uint64_t flags) {
  struct foreign* foreign = calloc(1, sizeof *foreign);
  uint64_t memory = 0;
  if (use_device() != 0 || CU("cuMemAlloc_v2", uint64_t*, size_t)(&memory, 1024) != 0 ||
      CU("cuMemsetD8_v2", uint64_t, unsigned char, size_t)(memory, 0x5a, 1024) != 0)
    abort();
  foreign->shape[0] = 4;
  foreign->shape[1] = 8;
  foreign->managed = (struct managed){
      1, 0, foreign, delete, flags, (void*)(uintptr_t)memory, 2, 0, 2, 2, 32, 1, foreign->shape,
      NULL, 64};
  return foreign;
}

static int byte_at(struct foreign* foreign) {
  unsigned char byte = 0;
  const uint64_t from = (uint64_t)(uintptr_t)foreign->managed.data + 64;
  if (use_device() != 0 || CU("cuMemcpyDtoH_v2", void*, uint64_t, size_t)(&byte, from, 1) != 0)
    return -1;
  return byte;
}
*/
import "C"

import "unsafe"

// Foreign is a tensor of another framework for FromDLPack: [4, 8] float32, 64 bytes into its
// allocation.
type Foreign struct{ c *C.struct_foreign }

// NewForeign makes a Foreign with all bytes 0x5a. Its struct is never freed, but its memory is.
func NewForeign() Foreign { return Foreign{C.make(0)} }

// NewReadOnlyForeign makes a Foreign whose DLPack flags say that it is read-only.
func NewReadOnlyForeign() Foreign { return Foreign{C.make(1)} }

// Managed returns the DLManagedTensorVersioned of the tensor.
func (f Foreign) Managed() unsafe.Pointer { return unsafe.Pointer(&f.c.managed) }

// Freed returns how many times the tensor's memory was freed.
func (f Foreign) Freed() int { return int(f.c.freed) }

// First returns the tensor's first byte as read from the device, or -1 if the driver fails.
func (f Foreign) First() int { return int(C.byte_at(f.c)) }
