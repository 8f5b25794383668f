/* Giving references back.

   The last one can wait: for a device (cuMemFree, cuIpcCloseMemHandle and cuMemHostUnregister do),
   and for whatever the deleter of another framework's memory waits for. What is waited for may want
   the GIL, as a function of the host in a CUDA stream that is written in Python does; so whoever
   waits must not have it. Whether a reference is the last one is not asked: between the answer and
   the release another thread can give the others back.

   Shared memory of the host that no device reaches waits for nobody and runs no foreign deleter:
   its release is a list entry, a bit of a lease or a munmap. It keeps the GIL, since to get it back
   from a thread that computes takes that one's switch interval (5 ms), for each of the thousands of
   tensors of a model. */
#include "ext.h"

#include <dlpack/dlpack.h>

static int can_wait(const tenon_storage *storage) {
  return tenon_storage_device(storage).type != kDLCPU || !tenon_storage_is_shared(storage) ||
         tenon_storage_is_pinned(storage);
}

static void release_tensor(void *tensor) { tenon_tensor_release(tensor); }

static void release_storage(void *storage) { tenon_storage_release(storage); }

/* What a deleter runs in this thread (it takes the GIL again) must not meet the exception with
 * which a frame is being left. */
static void run_without_gil(void (*release)(void *), void *it) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_BEGIN_ALLOW_THREADS
    release(it);
  Py_END_ALLOW_THREADS
  PyErr_Restore(type, value, traceback);
}

void give_back_tensor(tenon_tensor *tensor) {
  if (tensor == NULL) return;
  if (can_wait(tenon_tensor_storage(tensor)))
    run_without_gil(release_tensor, tensor);
  else
    tenon_tensor_release(tensor);
}

void give_back_storage(tenon_storage *storage) {
  if (storage == NULL) return;
  if (can_wait(storage))
    run_without_gil(release_storage, storage);
  else
    tenon_storage_release(storage);
}

/* A capsule that nobody consumed: rare, and of its memory it tells the device alone. */
void give_back_managed(void *managed, void (*deleter)(void *)) {
  run_without_gil(deleter, managed);
}
