/* The header that the Go files include instead of tenon/tenon.h. It checks the ABI, and has
 * calls that Go cannot make directly, because a struct of Go must not point to other memory of
 * Go. Nothing here decides anything. */
#ifndef TENON_GO_H
#define TENON_GO_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#if TENON_ABI_VERSION != 1
#error \
    "this Go wrapper is for ABI 1 of Tenon, and the tenon/version.h that was found has another: " \
    "take a wrapper and a library of one version"
#endif

static inline tenon_status tenon_go_tensor_new(tenon_storage* storage, uint32_t dtype, int32_t ndim,
                                               const int64_t* sizes, const int64_t* strides,
                                               uint64_t offset, uint32_t flags, tenon_tensor** out,
                                               tenon_error** err) {
  tenon_tensor_spec spec = {0};
  spec.struct_size = sizeof spec;
  spec.dtype.code = (uint8_t)dtype;
  spec.dtype.bits = (uint8_t)(dtype >> 8);
  spec.dtype.lanes = (uint16_t)(dtype >> 16);
  spec.ndim = ndim;
  spec.sizes = sizes;
  spec.strides = strides;
  spec.offset = offset;
  spec.flags = flags;
  return tenon_tensor_new(storage, &spec, out, err);
}

/* As tenon_message_get_views, but with a new reference to every tensor. */
static inline tenon_status tenon_go_message_take(const tenon_message* message,
                                                 tenon_tensor_view* out, size_t n,
                                                 tenon_error** err) {
  size_t i;
  tenon_status status = tenon_message_get_views(message, out, n, err);
  if (status != TENON_OK) return status;
  for (i = 0; i < n; i++) tenon_tensor_retain(out[i].tensor);
  return TENON_OK;
}

/* Makes a message from nodes. The object in between is of no use to a caller. */
static inline tenon_status tenon_go_message_new_from_nodes(const tenon_object_node* nodes, size_t n,
                                                           const tenon_share_options* options,
                                                           tenon_message** out, tenon_error** err) {
  tenon_object* object = NULL;
  tenon_status status = tenon_object_new(nodes, n, &object, err);
  if (status != TENON_OK) return status;
  status = tenon_message_new_from_object(object, options, out, err);
  tenon_object_release(object);
  return status;
}

/* Gives all nodes, as tenon_object_get_nodes does, but with a new reference to every tensor and
 * composite. */
static inline tenon_status tenon_go_object_take(const tenon_object* object, tenon_object_node* out,
                                                size_t n, tenon_error** err) {
  size_t i;
  tenon_status status = tenon_object_get_nodes(object, 0, out, n, err);
  if (status != TENON_OK) return status;
  for (i = 0; i < n; i++) {
    tenon_tensor_retain(out[i].tensor);
    tenon_composite_retain(out[i].composite);
  }
  return TENON_OK;
}

/* Ends a call that does not wait. It drops the error of WOULD_BLOCK, which is an expected
 * outcome. */
static inline tenon_status tenon_go_now(tenon_status status, tenon_error** err) {
  if (status == TENON_WOULD_BLOCK) {
    tenon_error_release(*err);
    *err = NULL;
  }
  return status;
}

static inline tenon_status tenon_go_send_now(tenon_connection* connection,
                                             const tenon_message* message, tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_now(tenon_send(connection, message, &wait, err), err);
}

static inline tenon_status tenon_go_recv_now(tenon_connection* connection, tenon_message** out,
                                             tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_now(tenon_recv(connection, &wait, out, err), err);
}

static inline tenon_wait tenon_go_wait(int64_t timeout_ns, tenon_cancel* cancel) {
  tenon_wait wait = {sizeof wait, timeout_ns, cancel, 0, 0};
  return wait;
}

static inline tenon_status tenon_go_send(tenon_connection* connection, const tenon_message* message,
                                         int64_t timeout_ns, tenon_cancel* cancel,
                                         tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_send(connection, message, &wait, err);
}

static inline tenon_status tenon_go_recv(tenon_connection* connection, int64_t timeout_ns,
                                         tenon_cancel* cancel, tenon_message** out,
                                         tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_recv(connection, &wait, out, err);
}

static inline tenon_status tenon_go_queue_send_now(tenon_queue* queue, const tenon_message* message,
                                                   tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_now(tenon_queue_send(queue, message, &wait, err), err);
}

/* `stalled` is the process that does not answer for its message, or 0. */
static inline tenon_status tenon_go_queue_received(tenon_status status, int64_t* stalled,
                                                   tenon_error** err) {
  const char* pid = status == TENON_WOULD_BLOCK ? tenon_error_detail(*err, "pid") : NULL;
  *stalled = pid != NULL ? strtoll(pid, NULL, 10) : 0;
  return tenon_go_now(status, err);
}

static inline tenon_status tenon_go_queue_recv_now(tenon_queue* queue, tenon_message** out,
                                                   int64_t* stalled, tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_queue_received(tenon_queue_recv(queue, &wait, out, err), stalled, err);
}

static inline tenon_status tenon_go_queue_send_many_now(tenon_queue* queue,
                                                        tenon_message** messages, size_t n,
                                                        size_t* sent, tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  const tenon_message* const* all = (const tenon_message* const*)messages;
  return tenon_go_now(tenon_queue_send_many(queue, all, n, &wait, sent, err), err);
}

static inline tenon_status tenon_go_queue_recv_many_now(tenon_queue* queue, tenon_message** out,
                                                        size_t n, size_t* received,
                                                        int64_t* stalled, tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_queue_received(tenon_queue_recv_many(queue, &wait, out, n, received, err),
                                 stalled, err);
}

/* Give a copy of an fd of the queue, which the caller closes. */
static inline tenon_status tenon_go_queue_recv_fd(tenon_queue* queue, int* out, tenon_error** err) {
  int fd = -1;
  tenon_status status = tenon_queue_recv_fd(queue, &fd, err);
  if (status == TENON_OK) *out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return status;
}

static inline tenon_status tenon_go_queue_send_fd(tenon_queue* queue, int* out, tenon_error** err) {
  int fd = -1;
  tenon_status status = tenon_queue_send_fd(queue, &fd, err);
  if (status == TENON_OK) *out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return status;
}

static inline tenon_status tenon_go_publish(tenon_publisher* publisher,
                                            const tenon_message* message, int64_t timeout_ns,
                                            tenon_cancel* cancel, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_publish(publisher, message, &wait, err);
}

static inline tenon_status tenon_go_subscriber_connect(const char* path,
                                                       const tenon_connection_options* options,
                                                       int64_t timeout_ns, tenon_cancel* cancel,
                                                       tenon_subscriber** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_subscriber_connect(path, options, &wait, out, err);
}

extern void tenonGoProgress(uintptr_t context, uint64_t done, uint64_t total);

static inline void tenon_go_progress(void* context, uint64_t done, uint64_t total) {
  tenonGoProgress((uintptr_t)context, done, total);
}

// What weights are made of: those of a file or of values, or with a path or none those that are
// found.
typedef struct tenon_go_shared_weights {
  bool publishes;
  const char* path;
  char** names;
  tenon_value** values;
  size_t count;
} tenon_go_shared_weights;

// The context 0 means that there is no progress function.
static inline tenon_status tenon_go_make_shared_weights(
    tenon_go_shared_weights made, const char* name, const char* directory, uint32_t flags,
    uint32_t group, uint64_t max_nbytes, const char* device, uint64_t budget_nbytes,
    uintptr_t context, int64_t timeout_ns, tenon_cancel* cancel, tenon_shared_weights** out,
    tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  tenon_shared_weights_options options = {0};
  options.struct_size = sizeof options;
  options.flags = flags;
  options.group = group;
  options.directory = directory;
  options.max_nbytes = max_nbytes;
  options.device = device;
  options.budget_nbytes = budget_nbytes;
  options.progress = context != 0 ? tenon_go_progress : NULL;
  options.progress_context = (void*)context;
  if (!made.publishes) return tenon_open_shared_weights(made.path, name, &options, &wait, out, err);
  if (made.path) return tenon_publish_shared_weights(made.path, name, &options, &wait, out, err);
  return tenon_publish_shared_weights_values((const char* const*)made.names, made.values,
                                             made.count, name, &options, &wait, out, err);
}

static inline tenon_status tenon_go_shared_weights_changed(tenon_shared_weights* weights,
                                                           int64_t timeout_ns, tenon_cancel* cancel,
                                                           uint64_t* version, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_shared_weights_changed(weights, &wait, version, err);
}

static inline tenon_status tenon_go_subscriber_recv_now(tenon_subscriber* subscriber,
                                                        tenon_message** out, tenon_error** err) {
  tenon_wait wait = {sizeof wait, 0, NULL, 0, 0};
  return tenon_go_now(tenon_subscriber_recv(subscriber, &wait, out, err), err);
}

static inline tenon_status tenon_go_subscriber_recv(tenon_subscriber* subscriber,
                                                    int64_t timeout_ns, tenon_cancel* cancel,
                                                    tenon_message** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_subscriber_recv(subscriber, &wait, out, err);
}

static inline tenon_status tenon_go_message_fetch(const void* ticket, size_t nbytes,
                                                  const tenon_open_options* options,
                                                  int64_t timeout_ns, tenon_cancel* cancel,
                                                  tenon_message** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_message_fetch(ticket, nbytes, options, &wait, out, err);
}

static inline tenon_status tenon_go_fetched_new(const void* head, size_t nbytes,
                                                const tenon_open_options* options,
                                                int64_t timeout_ns, tenon_cancel* cancel,
                                                tenon_fetched** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_fetched_new(head, nbytes, options, &wait, out, err);
}

static inline tenon_status tenon_go_fetched_storage(tenon_fetched* fetched, const void* record,
                                                    size_t nbytes, int64_t timeout_ns,
                                                    tenon_cancel* cancel, tenon_storage** out,
                                                    tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_fetched_storage(fetched, record, nbytes, &wait, out, err);
}

static inline tenon_status tenon_go_deposit_hand_over(int64_t timeout_ns, const int32_t* pidfds,
                                                      size_t n_pidfds, const char* family,
                                                      const char* program, size_t* n_kept,
                                                      tenon_error** err) {
  tenon_keep_options options = {sizeof options, timeout_ns, pidfds, n_pidfds, family, program};
  return tenon_deposit_hand_over(&options, n_kept, err);
}

static inline tenon_status tenon_go_storage_new(tenon_storage_options options, uint64_t nbytes,
                                                int64_t timeout_ns, tenon_cancel* cancel,
                                                tenon_storage** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  options.wait = &wait;
  return tenon_storage_new(&options, nbytes, out, err);
}

/* An address of unknown memory must not be in a pointer of Go. */
static inline tenon_status tenon_go_storage_at(uintptr_t address, uint64_t nbytes,
                                               tenon_storage** out, uint64_t* offset,
                                               tenon_error** err) {
  return tenon_storage_at((const void*)address, nbytes, out, offset, err);
}

static inline tenon_status tenon_go_storage_new_from(tenon_storage_options options,
                                                     const void* data, uint64_t nbytes,
                                                     int64_t timeout_ns, tenon_cancel* cancel,
                                                     tenon_storage** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  options.wait = &wait;
  return tenon_storage_new_from(&options, data, nbytes, out, err);
}

/* The four strings lie in C's memory, so that the struct may point to them. NULL means not
 * given. */
static inline tenon_filename_options tenon_go_filename_options(uint32_t access, uint32_t flags,
                                                               uint32_t mode, uint32_t group,
                                                               const char* directory,
                                                               const char* prefix, const char* name,
                                                               const char* manager) {
  tenon_filename_options options = {sizeof options, access, flags, mode,   group,
                                    directory,      prefix, name,  manager};
  return options;
}

/* A stream is a number. A memory handle of any length comes beside its struct. */
static inline tenon_status tenon_go_share_cuda(tenon_storage* storage, uintptr_t stream,
                                               uint32_t flags, uint32_t form, uint32_t transport,
                                               tenon_cuda_handle* out, tenon_error** err) {
  tenon_cuda_options options = {sizeof options, flags, form, 0, transport};
  return tenon_share_cuda(storage, (void*)stream, &options, out, err);
}

static inline tenon_status tenon_go_open_cuda(const tenon_cuda_handle* handle,
                                              const uint8_t* memory, const int32_t* fds,
                                              uintptr_t stream, uint32_t flags, int32_t device,
                                              tenon_storage** out, tenon_error** err) {
  tenon_cuda_options options = {sizeof options, flags, 0, device, 0};
  tenon_cuda_handle given = *handle;
  given.long_memory = memory;
  given.fds = fds;
  return tenon_open_cuda(&given, (void*)stream, &options, out, err);
}

static inline tenon_status tenon_go_record_stream(tenon_storage* storage, uintptr_t stream,
                                                  tenon_error** err) {
  return tenon_storage_record_stream(storage, (void*)stream, err);
}

static inline tenon_status tenon_go_order_stream(tenon_storage* storage, uintptr_t stream,
                                                 tenon_error** err) {
  return tenon_storage_order_stream(storage, (void*)stream, err);
}

static inline tenon_status tenon_go_cuda_event_record(tenon_cuda_event* event, uintptr_t stream,
                                                      tenon_error** err) {
  return tenon_cuda_event_record(event, (void*)stream, err);
}

static inline tenon_status tenon_go_cuda_event_wait(const tenon_cuda_event* event, uintptr_t stream,
                                                    tenon_error** err) {
  return tenon_cuda_event_wait(event, (void*)stream, err);
}

static inline tenon_status tenon_go_cuda_event_synchronize(const tenon_cuda_event* event,
                                                           int64_t timeout_ns, tenon_cancel* cancel,
                                                           tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_cuda_event_synchronize(event, &wait, err);
}

static inline tenon_status tenon_go_connection_set_stream(tenon_connection* connection,
                                                          int32_t device, uintptr_t stream,
                                                          tenon_error** err) {
  return tenon_connection_set_stream(connection, device, (void*)stream, err);
}

static inline tenon_status tenon_go_cuda_arena_allocate(tenon_cuda_arena* arena, uint64_t nbytes,
                                                        int64_t timeout_ns, tenon_cancel* cancel,
                                                        tenon_storage** out, tenon_error** err) {
  tenon_wait wait = tenon_go_wait(timeout_ns, cancel);
  return tenon_cuda_arena_allocate(arena, nbytes, &wait, out, err);
}

/* The head of DLPack's two structs, up to the deleter, which is all that is needed to give one
 * back. DLPack's ABI guarantees this layout. */
struct tenon_go_dlpack_versioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(void* self);
};

struct tenon_go_dlpack_legacy {
  unsigned char dl_tensor[48];
  void* manager_ctx;
  void (*deleter)(void* self);
};

static inline void tenon_go_dlpack_delete(void* managed) {
  struct tenon_go_dlpack_versioned* head = managed;
  if (head != NULL && head->deleter != NULL) head->deleter(managed);
}

static inline void tenon_go_dlpack_delete_legacy(void* managed) {
  struct tenon_go_dlpack_legacy* head = managed;
  if (head != NULL && head->deleter != NULL) head->deleter(managed);
}

#endif
