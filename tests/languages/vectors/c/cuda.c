/* Device memory. It comes from an archive that is imported to the device. That needs no function of
 * the driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define GIVE(call) \
  if ((call) != TENON_OK) return wrong("%s", #call)

struct archive {
  unsigned char *data;
  size_t nbytes;
};

static int64_t append(void *context, const void *data, size_t nbytes) {
  struct archive *archive = (struct archive *)context;
  archive->data = (unsigned char *)realloc(archive->data, archive->nbytes + nbytes);
  if (archive->data == NULL) abort();
  memcpy(archive->data + archive->nbytes, data, nbytes);
  archive->nbytes += nbytes;
  return (int64_t)nbytes;
}

static int write_archive(const tenon_module *module, uint32_t flags, struct archive *out) {
  tenon_export_options options;
  tenon_status status;
  SIZED(options);
  options.flags = flags;
  out->data = NULL;
  out->nbytes = 0;
  status = tenon_export_module_to(module, append, out, &options, NULL, NULL);
  keep(out->data, free);
  return status == TENON_OK ? 0 : wrong("no archive: %s", tenon_status_name(status));
}

static void release_module(void *module) { tenon_module_release((tenon_module *)module); }

static tenon_status read_archive(const struct archive *archive, int32_t tensors, int32_t device,
                                 tenon_module **out, tenon_error **error) {
  tenon_import_options options;
  tenon_status status;
  SIZED(options);
  options.tensors = tensors;
  options.device = device;
  status =
      tenon_import_module_memory(archive->data, archive->nbytes, NULL, NULL, &options, out, error);
  if (status == TENON_OK) keep(*out, release_module);
  return status;
}

static int add_buffer(tenon_module *module, const char *name, const char *hex) {
  size_t nbytes;
  const unsigned char *data = bytes_of_hex(hex, &nbytes);
  tenon_storage *storage = make_storage(nbytes, 0);
  tenon_tensor *tensor = NULL;
  tenon_value *value = NULL;
  tenon_status status;
  GIVE(tenon_storage_write(storage, 0, data, nbytes, NULL));
  GIVE(make_bytes_tensor(storage, &tensor));
  keep_tensor(tensor);
  GIVE(tenon_value_new_tensor(tensor, &value, NULL));
  status = tenon_module_add_buffer(module, name, value, NULL);
  tenon_value_release(value);
  return status == TENON_OK ? 0 : wrong("no buffer: %s", tenon_status_name(status));
}

/* Makes a module on the host with the case's data as the buffers t0, t1 and so on. */
static int make_module(const struct test_case *test, tenon_module **out) {
  size_t n, i;
  const char **data = case_texts(test, "data", &n);
  char name[32];
  GIVE(tenon_module_new("Net", out, NULL));
  keep(*out, release_module);
  for (i = 0; i < n; i++) {
    snprintf(name, sizeof(name), "t%d", (int)i);
    MUST(add_buffer(*out, name, data[i]));
  }
  return 0;
}

/* Returns the storage of a buffer. It is released with the case. */
static int storage_of(const tenon_module *module, size_t index, tenon_storage **out) {
  tenon_member_list *list = NULL;
  tenon_member member;
  tenon_tensor *tensor = NULL;
  tenon_status status;
  char name[32];
  snprintf(name, sizeof(name), "t%d", (int)index);
  GIVE(tenon_module_find(module, name, &list, NULL));
  member.struct_size = sizeof(member);
  status = tenon_member_list_get(list, 0, &member, NULL);
  if (status == TENON_OK) status = tenon_value_get_tensor(member.value, &tensor, NULL);
  tenon_member_list_release(list);
  if (status != TENON_OK) return wrong("no %s: %s", name, tenon_status_name(status));
  keep_tensor(tensor);
  *out = keep_storage(tenon_storage_retain(tenon_tensor_storage(tensor)));
  return 0;
}

static int same_device(const tenon_storage *storage, int32_t type, int32_t id) {
  const tenon_device device = tenon_storage_device(storage);
  SAME("device type", device.type, type);
  return same("device", device.id, id);
}

int run_cuda_counter(const struct test_case *test) {
  tenon_error *error = NULL;
  const tenon_status status = tenon_release_cuda_counter(
      case_text(test, "counter"), (uint64_t)case_number(test, "slot"), &error);
  return outcome(test, status, error);
}

int run_cuda_open(const struct test_case *test) {
  size_t nbytes;
  const unsigned char *memory = bytes_of_hex(case_text(test, "memory"), &nbytes);
  tenon_cuda_options options;
  tenon_cuda_handle handle;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  memset(&options, 0, sizeof(options));
  memset(&handle, 0, sizeof(handle));
  options.struct_size = sizeof(options);
  options.flags = case_number_or(test, "read_only", 0) != 0 ? (uint32_t)TENON_CUDA_READ_ONLY : 0;
  handle.struct_size = sizeof(handle);
  handle.device = (int32_t)case_number(test, "device");
  handle.nbytes = (uint64_t)case_number(test, "nbytes");
  handle.offset = (uint64_t)case_number(test, "offset");
  handle.slot = (uint64_t)case_number(test, "slot");
  handle.memory_nbytes = (uint32_t)nbytes;
  handle.long_memory = memory;
  snprintf(handle.counter, sizeof(handle.counter), "%s", case_text(test, "counter"));
  status = tenon_open_cuda(&handle, NULL, &options, &storage, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep_storage(storage);
  SAME("nbytes", tenon_storage_nbytes(storage), handle.nbytes);
  return same_device(storage, 2, handle.device);
}

static int compare_handle(const struct test_case *test, const tenon_cuda_handle *handle) {
  static const uint8_t unknown[16] = {0};
  const char *memory = case_find(test, "expect.memory"),
             *counter = case_text(test, "expect.counter");
  SAME("transport", handle->transport, case_number(test, "expect.transport"));
  SAME("device", handle->device, case_number(test, "expect.device"));
  SAME("nbytes", handle->nbytes, case_number(test, "expect.nbytes"));
  SAME("offset", handle->offset, case_number(test, "expect.offset"));
  SAME("memory_nbytes", handle->memory_nbytes, case_number(test, "expect.memory_nbytes"));
  if (memory != NULL) MUST(same_hex("memory", handle->memory, strlen(memory) / 2, memory));
  SAME("counter_nbytes", strlen(handle->counter), case_number(test, "expect.counter_nbytes"));
  if (strncmp(handle->counter, counter, strlen(counter)) != 0)
    return wrong("counter is %s", handle->counter);
  SAME("fds", handle->n_fds, case_number(test, "expect.fds"));
  SAME("event_required", handle->event_required, case_number(test, "expect.event_required"));
  return same("uuid is not known", memcmp(handle->uuid, unknown, sizeof(unknown)) == 0, 0);
}

int run_cuda_share(const struct test_case *test) {
  const int on_device = strcmp(case_text(test, "on"), "cuda") == 0;
  tenon_module *module = NULL;
  tenon_storage *storage = NULL, *again = NULL;
  tenon_error *error = NULL;
  tenon_cuda_options options;
  tenon_cuda_handle handle;
  tenon_status status = TENON_OK;
  struct archive archive;
  MUST(make_module(test, &module));
  if (on_device) {
    MUST(write_archive(module, 0, &archive));
    GIVE(read_archive(&archive, TENON_IMPORT_DEVICE, 0, &module, NULL));
  }
  MUST(storage_of(module, (size_t)case_number(test, "share"), &storage));
  SIZED(options);
  options.transport = (tenon_cuda_transport)case_number(test, "transport");
  options.form = (tenon_cuda_form)case_number(test, "form");
  handle.struct_size = sizeof(handle);
  if (case_number(test, "record") != 0) status = tenon_storage_record_stream(storage, NULL, &error);
  if (status == TENON_OK) status = tenon_share_cuda(storage, NULL, &options, &handle, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  MUST(compare_handle(test, &handle));
  GIVE(tenon_open_cuda(&handle, NULL, NULL, &again, NULL));
  keep_storage(again);
  if (handle.nbytes == 0) {
    SAME("nbytes", tenon_storage_nbytes(again), 0);
    return same_device(again, 2, handle.device);
  }
  SAME("storage", tenon_storage_id(again), tenon_storage_id(storage));
  return 0;
}

static void release_arena(void *arena) { tenon_cuda_arena_release((tenon_cuda_arena *)arena); }

static int same_figures(const struct test_case *test, const tenon_cuda_arena *arena) {
  static const char prefix[] = "expect.stats.";
  tenon_cuda_arena_stats now;
  int at;
  SIZED(now);
  GIVE(tenon_cuda_arena_stats_get(arena, &now, NULL));
  for (at = 0; at < test->n; at++) {
    const char *name = test->keys[at] + strlen(prefix);
    const long long wanted = atoll(test->values[at]);
    if (strncmp(test->keys[at], prefix, strlen(prefix)) != 0) continue;
#define FIGURE(member)                 \
  if (strcmp(name, #member) == 0) {    \
    SAME(#member, now.member, wanted); \
    continue;                          \
  }
    FIGURE(device)
    FIGURE(transport)
    FIGURE(bytes_capacity)
    FIGURE(bytes_used)
    FIGURE(bytes_free)
    FIGURE(bytes_largest_free)
    FIGURE(bytes_peak)
    FIGURE(blocks_used)
#undef FIGURE
    return wrong("unknown figure %s", name);
  }
  return 0;
}

int run_cuda_arena(const struct test_case *test) {
  tenon_cuda_arena_options options;
  tenon_cuda_arena *arena = NULL;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_wait wait;
  tenon_status status;
  size_t n, i;
  const int64_t *storages = case_numbers(test, "storages", &n);
  memset(&options, 0, sizeof(options));
  memset(&wait, 0, sizeof(wait));
  options.struct_size = sizeof(options);
  options.device = (int32_t)case_number_or(test, "device", 0);
  options.transport = (tenon_cuda_transport)case_number_or(test, "transport", 0);
  options.capacity_nbytes = (uint64_t)case_number(test, "capacity_nbytes");
  wait.struct_size = sizeof(wait);
  wait.timeout_ns = case_number_or(test, "timeout_ms", 0) * 1000000;
  status = tenon_cuda_arena_new(&options, &arena, &error);
  if (status != TENON_OK) return outcome(test, status, error);
  keep(arena, release_arena);
  for (i = 0; i < n && status == TENON_OK; i++) {
    status = tenon_cuda_arena_allocate(arena, (uint64_t)storages[i],
                                       wait.timeout_ns > 0 ? &wait : NULL, &storage, &error);
    if (status == TENON_OK) keep_storage(storage);
  }
  MUST(outcome(test, status, error));
  return same_figures(test, arena);
}

int run_cuda_event(const struct test_case *test) {
  const char *ask = case_text(test, "ask");
  tenon_cuda_event *event = NULL, *other = NULL;
  tenon_error *error = NULL;
  tenon_cuda_event_options options;
  tenon_status status;
  uint8_t handle[64];
  int complete = -1, result;
  SIZED(options);
  options.device = (int32_t)case_number(test, "device");
  if (case_number(test, "interprocess") != 0) options.flags = TENON_CUDA_EVENT_INTERPROCESS;
  status = tenon_cuda_event_new(&options, &event, &error);
  if (status == TENON_OK) status = tenon_cuda_event_record(event, NULL, &error);
  if (status == TENON_OK) status = tenon_cuda_event_wait(event, NULL, &error);
  if (status == TENON_OK) status = tenon_cuda_event_synchronize(event, NULL, &error);
  if (status == TENON_OK && strcmp(ask, "query") != 0)
    status = tenon_cuda_event_ipc_handle(event, handle, &error);
  if (status == TENON_OK && strcmp(ask, "open") == 0)
    status = tenon_cuda_event_from_ipc_handle(handle, NULL, &other, &error);
  if (status == TENON_OK) status = tenon_cuda_event_query(event, &complete, &error);
  tenon_cuda_event_release(other);
  tenon_cuda_event_release(event);
  result = outcome(test, status, error);
  if (result != 0 || status != TENON_OK) return result;
  return same("complete", complete, case_number(test, "expect.complete"));
}

static int has(const struct archive *archive, const char *text) {
  size_t at, length = strlen(text);
  for (at = 0; at + length <= archive->nbytes; at++) {
    if (memcmp(archive->data + at, text, length) == 0) return 1;
  }
  return 0;
}

int run_cuda_module(const struct test_case *test) {
  tenon_module *host = NULL, *there = NULL, *back = NULL;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  struct archive first, again;
  size_t n, i;
  const char **data;
  tenon_status status;
  const int32_t device = (int32_t)case_number(test, "device");
  const int kept = case_number(test, "keep_device") != 0;
  MUST(make_module(test, &host));
  MUST(write_archive(host, 0, &first));
  status = read_archive(&first, TENON_IMPORT_DEVICE, device, &there, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  MUST(write_archive(there, kept ? TENON_EXPORT_KEEP_DEVICE : 0, &again));
  SAME("names_device", has(&again, "cuda:0"), case_number(test, "expect.names_device"));
  if (!kept && (first.nbytes != again.nbytes || memcmp(first.data, again.data, first.nbytes) != 0))
    return wrong("another archive");
  GIVE(read_archive(&again, TENON_IMPORT_MAP, 0, &back, NULL));
  data = case_texts(test, "expect.data", &n);
  for (i = 0; i < n; i++) {
    MUST(storage_of(there, i, &storage));
    MUST(same_device(storage, 2, device));
    MUST(storage_of(back, i, &storage));
    MUST(same_device(storage, 1, 0));
    MUST(same_hex("data", tenon_storage_data(storage), (size_t)tenon_storage_nbytes(storage),
                  data[i]));
  }
  return 0;
}
