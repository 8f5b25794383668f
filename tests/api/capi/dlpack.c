/* Tests tenon/dlpack.h: both forms, both directions, and who calls the deleter. */
#include "check.h"

#include <dlpack/dlpack.h>
#include <pthread.h>

static tenon_tensor *const kNothing = PATTERN;

static int deleted;
static pthread_t deleted_on;

static void count_versioned(DLManagedTensorVersioned *self) {
  (void)self;
  deleted++;
  deleted_on = pthread_self();
}
static void count_legacy(DLManagedTensor *self) {
  (void)self;
  deleted++;
}

static float values[24];
static int64_t shape[2] = {4, 6}, strides[2] = {6, 1};

static DLTensor view(void) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.data = values;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

static DLManagedTensorVersioned versioned(void) {
  DLManagedTensorVersioned managed;
  memset(&managed, 0, sizeof(managed));
  managed.version.major = DLPACK_MAJOR_VERSION;
  managed.version.minor = DLPACK_MINOR_VERSION;
  managed.deleter = count_versioned;
  managed.dl_tensor = view();
  return managed;
}

static DLManagedTensor legacy(void) {
  DLManagedTensor managed;
  memset(&managed, 0, sizeof(managed));
  managed.deleter = count_legacy;
  managed.dl_tensor = view();
  return managed;
}

static tenon_tensor_spec spec_of(const tenon_tensor *tensor) {
  tenon_tensor_spec spec;
  SIZED(spec);
  OK(tenon_tensor_get_spec(tensor, &spec, ERR));
  return spec;
}

static void *release_elsewhere(void *tensor) {
  tenon_tensor_release(tensor);
  return NULL;
}

static void in(void) {
  DLManagedTensorVersioned managed = versioned();
  DLManagedTensor old = legacy();
  tenon_tensor *tensor = NULL, *second = NULL;
  tenon_storage *storage;
  tenon_message *message = NULL;
  void *data = NULL;
  pthread_t thread;
  deleted = 0;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == values && tenon_tensor_numel(tensor) == 24 &&
        tenon_tensor_is_contiguous(tensor) == 1);
  CHECK(spec_of(tensor).dtype.code == TENON_DTYPE_FLOAT && spec_of(tensor).sizes[1] == 6);
  OK(tenon_tensor_data_mut(tensor, &data, ERR));
  CHECK(data == values);
  storage = tenon_storage_retain(tenon_tensor_storage(tensor));
  CHECK(tenon_storage_is_shared(storage) == 0 && tenon_storage_is_read_only(storage) == 0);
  OK(tenon_message_new(&message, ERR));
  FAILS(TENON_UNSUPPORTED,
        tenon_message_add(message, &tensor, NULL, 1, NULL, ERR)); /* private: it cannot be lent */
  CHECK(tenon_message_count(message) == 0);
  tenon_message_release(message);
  tenon_tensor_release(tensor);
  CHECK(deleted == 0); /* the storage is still held */
  tenon_storage_release(storage);
  CHECK(deleted == 1);

  OK(tenon_tensor_from_dlpack_legacy(&old, &second, ERR));
  CHECK(tenon_tensor_data(second) == values &&
        tenon_storage_is_read_only(tenon_tensor_storage(second)) == 0);
  tenon_tensor_release(second);
  CHECK(deleted == 2);

  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR)); /* on the thread of the last release */
  CHECK(pthread_create(&thread, NULL, release_elsewhere, tensor) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(deleted == 3 && !pthread_equal(deleted_on, pthread_self()));

  managed.deleter = NULL; /* DLPack allows a null deleter */
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  tenon_tensor_release(tensor);
  old.deleter = NULL;
  OK(tenon_tensor_from_dlpack_legacy(&old, &tensor, ERR));
  tenon_tensor_release(tensor);
}

/* A CPU tensor in pinned memory, as PyTorch describes it. It is host memory and needs no driver. */
static void pinned_in(void) {
  DLManagedTensorVersioned managed = versioned(), *out = NULL;
  DLManagedTensor old = legacy();
  tenon_tensor *tensor = NULL;
  void *data = NULL;
  deleted = 0;
  managed.dl_tensor.device.device_type = kDLCUDAHost;
  managed.dl_tensor.device.device_id = 1;
  old.dl_tensor.device.device_type = kDLCUDAHost;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == values && tenon_tensor_numel(tensor) == 24);
  OK(tenon_tensor_data_mut(tensor, &data, ERR));
  CHECK(data == values);
  OK(tenon_tensor_to_dlpack(tensor, &out, ERR));
  CHECK(out->dl_tensor.device.device_type == kDLCPU && out->dl_tensor.device.device_id == 0);
  out->deleter(out);
  tenon_tensor_release(tensor);
  CHECK(deleted == 1);
  OK(tenon_tensor_from_dlpack_legacy(&old, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == values);
  tenon_tensor_release(tensor);
  CHECK(deleted == 2);
  managed.dl_tensor.device.device_type = kDLCUDAManaged;
  FAILS(TENON_UNSUPPORTED, tenon_tensor_from_dlpack(&managed, &tensor, ERR));
}

static void layouts_in(void) {
  DLManagedTensorVersioned managed = versioned();
  int64_t reversed[] = {-6, -1}, transposed[] = {1, 6}, turned[] = {6, 4};
  tenon_tensor *tensor = NULL;
  deleted = 0;
  managed.dl_tensor.strides = NULL;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(spec_of(tensor).strides[0] == 6 && spec_of(tensor).strides[1] == 1);
  tenon_tensor_release(tensor);

  managed = versioned();
  shape[0] = 2;
  managed.dl_tensor.byte_offset = 48;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == values + 12 && tenon_tensor_numel(tensor) == 12);
  tenon_tensor_release(tensor);
  shape[0] = 4;

  managed = versioned();
  managed.dl_tensor.data = values + 23;
  managed.dl_tensor.strides = reversed;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_data(tensor) == values + 23 && spec_of(tensor).strides[0] == -6);
  CHECK(tenon_storage_data(tenon_tensor_storage(tensor)) == values &&
        tenon_storage_nbytes(tenon_tensor_storage(tensor)) == sizeof(values));
  tenon_tensor_release(tensor);

  managed = versioned();
  managed.dl_tensor.shape = turned;
  managed.dl_tensor.strides = transposed;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_is_contiguous(tensor) == 0);
  tenon_tensor_release(tensor);

  managed = versioned();
  managed.dl_tensor.ndim = 0;
  managed.dl_tensor.shape = NULL;
  managed.dl_tensor.strides = NULL;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 1);
  tenon_tensor_release(tensor);

  managed = versioned();
  shape[1] = 0;
  managed.dl_tensor.data = NULL;
  managed.dl_tensor.strides = NULL;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_tensor_numel(tensor) == 0);
  tenon_tensor_release(tensor);
  shape[1] = 6;
  CHECK(deleted == 6);
}

static void read_only(void) {
  DLManagedTensorVersioned managed = versioned(), *out = NULL;
  DLManagedTensor *old = PATTERN;
  tenon_tensor *tensor = NULL;
  void *data = PATTERN;
  deleted = 0;
  managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  OK(tenon_tensor_from_dlpack(&managed, &tensor, ERR));
  CHECK(tenon_storage_is_read_only(tenon_tensor_storage(tensor)) == 1);
  FAILS_KEEPING(TENON_PERMISSION, data, tenon_tensor_data_mut(tensor, &data, ERR));
  OK(tenon_tensor_to_dlpack(tensor, &out, ERR));
  CHECK((out->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
  FAILS_KEEPING(TENON_PERMISSION, old, tenon_tensor_to_dlpack_legacy(tensor, &old, ERR));
  tenon_tensor_release(tensor);
  CHECK(deleted == 0);
  out->deleter(out);
  CHECK(deleted == 1);
}

static void refuse(const DLManagedTensorVersioned *managed_in, tenon_status a, tenon_status b) {
  DLManagedTensorVersioned managed = *managed_in;
  DLManagedTensor old;
  tenon_tensor *out = kNothing;
  memset(&old, 0, sizeof(old));
  old.dl_tensor = managed.dl_tensor;
  old.deleter = count_legacy;
  FAILS_EITHER_KEEPING(a, b, out, tenon_tensor_from_dlpack(&managed, &out, ERR));
  CHECK(memcmp(&managed, managed_in, sizeof(managed)) == 0);
  FAILS_EITHER_KEEPING(a, b, out, tenon_tensor_from_dlpack_legacy(&old, &out, ERR));
}

static void bad_in(void) {
  DLManagedTensorVersioned managed;
  DLManagedTensor old = legacy();
  tenon_tensor *out = kNothing;
  int64_t bad_shape[2], bad_strides[2];
  deleted = 0;
  managed = versioned();
  INVALID_KEEPING(out, tenon_tensor_from_dlpack(NULL, &out, ERR));
  INVALID(tenon_tensor_from_dlpack(&managed, NULL, ERR));
  INVALID_KEEPING(out, tenon_tensor_from_dlpack_legacy(NULL, &out, ERR));
  INVALID(tenon_tensor_from_dlpack_legacy(&old, NULL, ERR));

  memset(&managed, 0xee,
         sizeof(managed)); /* another major version: nothing else of it may be read */
  managed.version.major = DLPACK_MAJOR_VERSION + 1;
  FAILS_KEEPING(TENON_INCOMPATIBLE, out, tenon_tensor_from_dlpack(&managed, &out, ERR));
  managed.version.major = 0;
  FAILS_KEEPING(TENON_INCOMPATIBLE, out, tenon_tensor_from_dlpack(&managed, &out, ERR));

  managed = versioned();
  managed.dl_tensor.device.device_type = kDLCUDA;
  refuse(&managed, TENON_UNSUPPORTED, TENON_UNSUPPORTED);
  managed = versioned();
  managed.dl_tensor.dtype.code = kDLOpaqueHandle;
  refuse(&managed, TENON_UNSUPPORTED, TENON_UNSUPPORTED);
  managed = versioned();
  managed.dl_tensor.dtype.code = 250;
  refuse(&managed, TENON_UNSUPPORTED, TENON_INVALID_ARGUMENT);
  managed = versioned();
  managed.dl_tensor.dtype.lanes = 0;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED);
  managed = versioned();
  managed.dl_tensor.dtype.bits = 0;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED);
  managed = versioned();
  managed.dl_tensor.ndim = -1;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  managed.dl_tensor.ndim = 65;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED);
  managed.dl_tensor.ndim = INT32_MAX;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_UNSUPPORTED);
  managed = versioned();
  managed.dl_tensor.shape = NULL;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  managed = versioned();
  managed.dl_tensor.data = NULL;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  managed = versioned();
  managed.dl_tensor.byte_offset = UINT64_MAX;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  managed = versioned();
  managed.dl_tensor.shape = bad_shape;
  managed.dl_tensor.strides = NULL;
  bad_shape[0] = -1;
  bad_shape[1] = 6;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  bad_shape[0] = INT64_MAX;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  bad_shape[0] = bad_shape[1] = 1LL << 32;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  bad_shape[0] = bad_shape[1] = 2;
  bad_strides[0] = INT64_MAX;
  bad_strides[1] = INT64_MAX;
  managed.dl_tensor.strides = bad_strides;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  bad_strides[0] = INT64_MIN;
  bad_strides[1] = 1;
  refuse(&managed, TENON_INVALID_ARGUMENT, TENON_INVALID_ARGUMENT);
  CHECK(deleted == 0);
}

static void out_both_forms(void) {
  static const int64_t sizes[] = {3, 4}, odd_strides[] = {-8, 1};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 400, 1);
  tenon_tensor_spec spec;
  tenon_tensor *tensor = NULL;
  DLManagedTensorVersioned *managed = NULL;
  DLManagedTensor *old = NULL;
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_BFLOAT;
  spec.dtype.bits = 16;
  spec.dtype.lanes = 1;
  spec.ndim = 2;
  spec.sizes = sizes;
  spec.strides = odd_strides;
  spec.offset = 20;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  OK(tenon_tensor_to_dlpack(tensor, &managed, ERR));
  OK(tenon_tensor_to_dlpack_legacy(tensor, &old, ERR));
  CHECK(managed->version.major == 1 && managed->flags == 0);
  CHECK(managed->dl_tensor.device.device_type == kDLCPU &&
        managed->dl_tensor.device.device_id == 0);
  CHECK(managed->dl_tensor.ndim == 2 && managed->dl_tensor.dtype.code == kDLBfloat &&
        managed->dl_tensor.dtype.bits == 16);
  CHECK((const char *)managed->dl_tensor.data + managed->dl_tensor.byte_offset ==
        (const char *)tenon_tensor_data(tensor));
  CHECK(managed->dl_tensor.shape[0] == 3 && managed->dl_tensor.shape[1] == 4 &&
        managed->dl_tensor.strides[0] == -8 && managed->dl_tensor.strides[1] == 1);
  CHECK((const char *)old->dl_tensor.data + old->dl_tensor.byte_offset ==
        (const char *)tenon_tensor_data(tensor));
  CHECK(old->dl_tensor.shape[1] == 4 && old->dl_tensor.strides[0] == -8);
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  CHECK(check_filled((const char *)managed->dl_tensor.data + managed->dl_tensor.byte_offset - 40,
                     400, 1)); /* alive through its consumers */
  managed->deleter(managed);
  CHECK(check_filled((const char *)old->dl_tensor.data + old->dl_tensor.byte_offset - 40, 400, 1));
  old->deleter(old);
}

static void round_trip(void) {
  tenon_storage *storage = check_storage(TENON_MODE_LENDER_WRITES, 0, 400, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage), *back = NULL;
  DLManagedTensorVersioned *managed = NULL;
  OK(tenon_tensor_to_dlpack(tensor, &managed, ERR));
  OK(tenon_tensor_from_dlpack(managed, &back, ERR)); /* consumed */
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  CHECK(check_filled(tenon_tensor_data(back), 400, 1));
  tenon_tensor_release(back);
}

static void *delete_elsewhere(void *managed) {
  ((DLManagedTensorVersioned *)managed)->deleter(managed);
  return NULL;
}

static void deleted_on_any_thread(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  DLManagedTensorVersioned *managed = NULL;
  pthread_t thread;
  OK(tenon_tensor_to_dlpack(tensor, &managed, ERR));
  CHECK(tenon_storage_use_count(storage) >= 2);
  tenon_tensor_release(tensor);
  CHECK(pthread_create(&thread, NULL, delete_elsewhere, managed) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(tenon_storage_use_count(storage) == 1);
  tenon_storage_release(storage);
}

static void bad_out(void) {
  static const int64_t sizes[] = {8};
  static const uint32_t flags[] = {TENON_TENSOR_CONJ, TENON_TENSOR_NEG};
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1),
                *frozen = check_storage(TENON_MODE_FROZEN, 0, 64, 1);
  tenon_tensor *tensor = check_bytes_tensor(storage);
  DLManagedTensorVersioned *managed = PATTERN;
  DLManagedTensor *old = PATTERN;
  tenon_tensor_spec spec;
  size_t i;
  INVALID(tenon_tensor_to_dlpack(tensor, NULL, ERR));
  INVALID_KEEPING(managed, tenon_tensor_to_dlpack(NULL, &managed, ERR));
  INVALID(tenon_tensor_to_dlpack_legacy(tensor, NULL, ERR));
  INVALID_KEEPING(old, tenon_tensor_to_dlpack_legacy(NULL, &old, ERR));
  tenon_tensor_release(tensor);
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_COMPLEX;
  spec.dtype.bits = 64;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = sizes;
  for (i = 0; i < COUNT_OF(flags); i++) {
    spec.flags = flags[i];
    OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
    FAILS_KEEPING(TENON_UNSUPPORTED, managed, tenon_tensor_to_dlpack(tensor, &managed, ERR));
    FAILS_KEEPING(TENON_UNSUPPORTED, old, tenon_tensor_to_dlpack_legacy(tensor, &old, ERR));
    tenon_tensor_release(tensor);
  }
  tensor = check_bytes_tensor(frozen);
  FAILS_KEEPING(TENON_PERMISSION, old, tenon_tensor_to_dlpack_legacy(tensor, &old, ERR));
  tenon_tensor_release(tensor);
  CHECK(tenon_storage_use_count(storage) == 1 && tenon_storage_use_count(frozen) == 1);
  tenon_storage_release(storage);
  tenon_storage_release(frozen);
}

int main(void) {
  check_begin(60);
  RUN(in);
  RUN(pinned_in);
  RUN(layouts_in);
  RUN(read_only);
  RUN(bad_in);
  RUN(out_both_forms);
  RUN(round_trip);
  RUN(deleted_on_any_thread);
  RUN(bad_out);
  return 0;
}
