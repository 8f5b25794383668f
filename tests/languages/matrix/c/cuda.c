#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "support/sized.h"
#include "wire.h"

static const char *const transports[] = {"none", "ipc", "fd", "fabric", "pool"};

int cuda_is(const char *strategy) { return strncmp(strategy, "cuda", 4) == 0; }

static uint64_t address_of(const tenon_storage *storage) {
  return (uint64_t)(uintptr_t)tenon_storage_data(storage);
}

/* The storage does not begin where its arena does, as in the arena of a host. The default stream
   copies the bytes from a neighbour, so a reader that does not wait for the stream finds other
   bytes. */
tenon_status cuda_make_storage(const char *strategy, unsigned char *data, uint64_t nbytes,
                               tenon_storage **storage, tenon_error **error) {
  tenon_cuda_arena_options megabyte;
  tenon_cuda_arena *arena = NULL;
  tenon_storage *neighbour = NULL;
  tenon_status status;
  SIZED(megabyte);
  megabyte.device = CUDA_LENDS;
  megabyte.capacity_nbytes = 1 << 20;
  megabyte.transport = strcmp(strategy, "cuda_fd") == 0 ? TENON_CUDA_FD : TENON_CUDA_NO_MEMORY;
  status = tenon_cuda_arena_new(&megabyte, &arena, error);
  if (status == TENON_OK)
    status = tenon_cuda_arena_allocate(arena, nbytes + 100, NULL, &neighbour, error);
  if (status == TENON_OK) status = tenon_cuda_arena_allocate(arena, nbytes, NULL, storage, error);
  if (status == TENON_OK) {
    if (device_copy(CUDA_LENDS, data, address_of(neighbour), nbytes, 1) != 0) abort();
    if (device_move(CUDA_LENDS, address_of(*storage), address_of(neighbour), nbytes) != 0) abort();
    status = tenon_storage_record_stream(neighbour, NULL, error);
  }
  tenon_storage_release(neighbour);
  tenon_cuda_arena_release(arena);
  return status;
}

void cuda_put_words(char *line, const tenon_cuda_handle *handle) {
  wire_put(line, "%s %d ", transports[handle->transport], handle->device);
  wire_put_hex(line, handle->uuid, sizeof(handle->uuid));
  wire_put(line, " %llu %llu %s %llu %u ", (unsigned long long)handle->nbytes,
           (unsigned long long)handle->offset, handle->counter[0] == '\0' ? "-" : handle->counter,
           (unsigned long long)handle->slot, handle->event_required);
  wire_put_hex(line, handle->event, handle->memory_nbytes == 0 ? 0 : sizeof(handle->event));
  wire_put(line, " ");
  wire_put_hex(line, handle->memory, handle->memory_nbytes);
  wire_put(line, " %u", handle->n_fds);
}

static uint32_t read_bytes(const char *word, uint8_t *out, size_t room) {
  size_t nbytes = 0;
  unsigned char *bytes;
  if (strcmp(word, "-") == 0) return 0;
  bytes = wire_bytes(word, &nbytes);
  if (nbytes > room) abort();
  memcpy(out, bytes, nbytes);
  free(bytes);
  return (uint32_t)nbytes;
}

void cuda_read_words(const char **words, tenon_cuda_handle *handle) {
  memset(handle, 0, sizeof(*handle));
  handle->struct_size = sizeof(*handle);
  while (handle->transport < TENON_CUDA_POOL &&
         strcmp(words[0], transports[handle->transport]) != 0)
    handle->transport++;
  handle->device = atoi(words[1]);
  read_bytes(words[2], handle->uuid, sizeof(handle->uuid));
  handle->nbytes = strtoull(words[3], NULL, 10);
  handle->offset = strtoull(words[4], NULL, 10);
  if (strcmp(words[5], "-") != 0) strncpy(handle->counter, words[5], sizeof(handle->counter) - 1);
  handle->slot = strtoull(words[6], NULL, 10);
  handle->event_required = (uint32_t)strtoul(words[7], NULL, 10);
  read_bytes(words[8], handle->event, sizeof(handle->event));
  handle->memory_nbytes = read_bytes(words[9], handle->memory, sizeof(handle->memory));
}
