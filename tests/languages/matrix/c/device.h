/* Copies between the host and the memory of a CUDA device, by the driver that Tenon has found and
 * started. The programs of C, C++ and Go use it. */
#ifndef TENON_TESTS_MATRIX_DEVICE_H
#define TENON_TESTS_MATRIX_DEVICE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void *device_function(void *driver, const char *name, void *out) {
  void *const found = driver == NULL ? NULL : dlsym(driver, name);
  memcpy(out, &found, sizeof(found));
  return found;
}

/* The data pointer of a DLManagedTensorVersioned. It follows the version, context, deleter and
 * flags. */
static inline uint64_t device_data(const void *managed) {
  uint64_t data;
  memcpy(&data, (const char *)managed + 32, sizeof(data));
  return data;
}

/* The driver, with that device's primary context current; NULL on failure. */
static inline void *device_driver(int device) {
  int (*retain)(void **, int), (*make_current)(void *);
  void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *context = NULL;
  if (device_function(driver, "cuDevicePrimaryCtxRetain", &retain) == NULL ||
      device_function(driver, "cuCtxSetCurrent", &make_current) == NULL) {
    return NULL;
  }
  return retain(&context, device) == 0 && make_current(context) == 0 ? driver : NULL;
}

/* Copies in the default stream, so after the work that a connection without a stream of its own has
 * waited for. Returns 0 when the copy is done. */
static inline int device_copy(int device, void *host, uint64_t address, size_t nbytes,
                              int to_device) {
  int (*read)(void *, uint64_t, size_t), (*write)(uint64_t, const void *, size_t);
  void *driver;
  if (nbytes == 0) return 0;
  driver = device_driver(device);
  if (device_function(driver, "cuMemcpyDtoH_v2", &read) == NULL ||
      device_function(driver, "cuMemcpyHtoD_v2", &write) == NULL)
    return -1;
  return to_device ? write(address, host, nbytes) : read(host, address, nbytes);
}

/* Gives the default stream a copy between two places of a device. Returns 0 and does not wait for
 * the copy. */
static inline int device_move(int device, uint64_t to, uint64_t from, size_t nbytes) {
  int (*copy)(uint64_t, uint64_t, size_t, void *);
  if (nbytes == 0) return 0;
  if (device_function(device_driver(device), "cuMemcpyDtoDAsync_v2", &copy) == NULL) return -1;
  return copy(to, from, nbytes, NULL);
}

#endif
