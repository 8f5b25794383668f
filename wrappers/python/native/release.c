/* Gives references back.

   The last reference can make its release wait: for a device (cuMemFree, cuIpcCloseMemHandle and
   cuMemHostUnregister do), or in the deleter of another framework's memory. The awaited code may
   need the GIL. A host function in a CUDA stream does, if it is written in Python. So such a
   release must run without the GIL. This code does not ask whether a reference is the last one,
   because between the answer and the release another thread can give the others back.

   The release of shared host memory that no device reaches waits for nobody and runs no foreign
   deleter: it is a list entry, a bit of a lease or a munmap. It keeps the GIL. Getting the GIL back
   from a thread that computes takes the switch interval (5 ms), and a model has thousands of
   tensors. */
#include "ext.h"

#include <dlpack/dlpack.h>

static int can_wait(const tenon_storage *storage) {
  return tenon_storage_device(storage).type != kDLCPU || !tenon_storage_is_shared(storage) ||
         tenon_storage_is_pinned(storage);
}

static void release_tensor(void *tensor) { tenon_tensor_release(tensor); }

static void release_storage(void *storage) { tenon_storage_release(storage); }

/* A deleter that runs in this thread takes the GIL again. It must not meet the exception that is
   pending while a frame is left, so that exception is set aside. */
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

static void release_message(void *message) { tenon_message_release(message); }

static void release_object(void *object) { tenon_object_release(object); }

/* A message and an object may hold tensors of any memory, so their release always runs without the
   GIL. */
void give_back_message(tenon_message *message) {
  if (message != NULL) run_without_gil(release_message, message);
}

void give_back_object(tenon_object *object) {
  if (object != NULL) run_without_gil(release_object, object);
}

/* A capsule that no consumer took. That is rare, and a capsule says of its memory only the device,
   so its release always runs without the GIL. */
void give_back_managed(void *managed, void (*deleter)(void *)) {
  run_without_gil(deleter, managed);
}
