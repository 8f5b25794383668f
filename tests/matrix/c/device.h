/* Copies between the host and the memory of CUDA device 0, by the driver that Tenon found and started. For the programs of C, C++ and Go.
 */
#ifndef TENON_TESTS_MATRIX_DEVICE_H
#define TENON_TESTS_MATRIX_DEVICE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void *device_function(void *driver, const char *name, void *out) {
  void *const found = dlsym(driver, name);
  memcpy(out, &found, sizeof(found));
  return found;
}

/* Where a DLManagedTensorVersioned has its data: behind its version, context, deleter and flags. */
static inline uint64_t device_data(const void *managed) {
  uint64_t data;
  memcpy(&data, (const char *)managed + 32, sizeof(data));
  return data;
}

/* 0: it has copied. In the default stream, so behind what a connection without a stream of its own has waited for. */
static inline int device_copy(void *host, uint64_t device, size_t nbytes, int to_device) {
  int (*retain)(void **, int), (*make_current)(void *), (*read)(void *, uint64_t, size_t), (*write)(uint64_t, const void *, size_t);
  void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *context = NULL;
  if (nbytes == 0) return 0;
  if (driver == NULL || device_function(driver, "cuDevicePrimaryCtxRetain", &retain) == NULL ||
      device_function(driver, "cuCtxSetCurrent", &make_current) == NULL || device_function(driver, "cuMemcpyDtoH_v2", &read) == NULL ||
      device_function(driver, "cuMemcpyHtoD_v2", &write) == NULL) {
    return -1;
  }
  if (retain(&context, 0) != 0 || make_current(context) != 0) return -1;
  return to_device ? write(device, host, nbytes) : read(host, device, nbytes);
}

#endif
