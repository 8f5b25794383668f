package cuda

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void* look_for(const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
static void* driver(const char* name) {
  void* function = look_for(name);
  if (function == NULL) abort();
  return function;
}
#define CU(name, ...) ((int (*)(__VA_ARGS__))driver(name))

// The head of DLPack's DLManagedTensorVersioned.
struct head {
  uint32_t major, minor;
  void *context, *deleter;
  uint64_t flags;
  void* data;
};

static uintptr_t data_of(struct head* managed) { return (uintptr_t)managed->data; }

static int fill(uint64_t to, int byte, size_t nbytes, uintptr_t stream) {
  return CU("cuMemsetD8Async", uint64_t, unsigned char, size_t, void*)(to, (unsigned char)byte,
                                                                       nbytes, (void*)stream);
}

static unsigned char* copy(uint64_t from, uintptr_t stream) {
  // A copy into host memory that the driver does not know is over when the call returns.
  void* room = NULL;
  if (CU("cuMemHostAlloc", void**, size_t, unsigned)(&room, 1, 0) != 0) abort();
  if (CU("cuMemcpyDtoHAsync_v2", void*, uint64_t, size_t, void*)(room, from, 1, (void*)stream) != 0)
    abort();
  return room;
}

static uintptr_t new_stream(void) {
  void *context = NULL, *stream = NULL;
  if (CU("cuInit", unsigned)(0) != 0 ||
      CU("cuDevicePrimaryCtxRetain", void**, int)(&context, 0) != 0 ||
      CU("cuCtxSetCurrent", void*)(context) != 0 ||
      CU("cuStreamCreate", void**, unsigned)(&stream, 1) != 0)
    abort();
  return (uintptr_t)stream;
}

static int synchronize(uintptr_t stream) { return CU("cuStreamSynchronize", void*)((void*)stream); }

static int on_the_fake(void) { return look_for("fake_cuda_live") != NULL; }

// Whether this process has memory of another's open so often, where it is counted: by the driver of
// tests/support/fake_cuda.
static int is_opened(uint64_t times) {
  void* live = look_for("fake_cuda_live");
  return live == NULL || ((uint64_t(*)(unsigned, int))live)(3, getpid()) == times;
}
*/
import "C"

import "libtenon/tenon"

// AddressOf returns the address on the device at which the tensor's storage begins.
func AddressOf(tensor *tenon.Tensor) (uintptr, error) {
	managed, err := tensor.ToDLPack()
	if err != nil {
		return 0, err
	}
	defer tenon.DeleteDLPack(managed)
	return uintptr(C.data_of((*C.struct_head)(managed))), nil
}

// OnTheFake reports whether the driver is the one of tests/support/fake_cuda. Unless a latency is
// set, a stream of the fake has finished when a call returns. The streams of a real device take
// their time.
func OnTheFake() bool { return C.on_the_fake() != 0 }

// NewStream makes a stream that lasts until the process ends.
func NewStream() uintptr { return uintptr(C.new_stream()) }

// Fill queues work in the stream: it fills bytes at an address of the device.
func Fill(address uintptr, value byte, nbytes int, stream uintptr) bool {
	return C.fill(C.uint64_t(address), C.int(value), C.size_t(nbytes), C.uintptr_t(stream)) == 0
}

// Copy queues work in the stream: it copies a byte from the device. Call the result after
// Synchronize.
func Copy(address, stream uintptr) func() byte {
	room := C.copy(C.uint64_t(address), C.uintptr_t(stream))
	return func() byte { return byte(*room) }
}

// Synchronize waits until all work of the stream is done.
func Synchronize(stream uintptr) bool { return C.synchronize(C.uintptr_t(stream)) == 0 }

// IsOpened reports whether this process has memory of another process open that many times. On a
// driver that does not count opens it returns true.
func IsOpened(times uint64) bool { return C.is_opened(C.uint64_t(times)) != 0 }
