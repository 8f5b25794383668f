/* What the processes of a fake_cuda world hold, called and did wrong. The functions are exported by
 * the fake libcuda.so.1, so a test that opens it by name finds them with dlsym; where they are
 * missing, the driver is a real one. They need FAKE_CUDA_WORLD and no cuInit, count as no process
 * of the world, and first take back what died. A pid of 0 means all processes, the ended ones
 * included. */
#ifndef FAKE_CUDA_LEDGER_H
#define FAKE_CUDA_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fake_cuda_kind {
  FAKE_CUDA_NOTHING = 0,
  FAKE_CUDA_CONTEXT,
  FAKE_CUDA_ALLOCATION,  /* device memory of cuMemAlloc, cuMemCreate or a pool; size in bytes */
  FAKE_CUDA_IPC_OPEN,    /* memory opened by a legacy handle; its count is that of the opens */
  FAKE_CUDA_VMM_HANDLE,  /* of cuMemCreate, import or retain; its count is that of the references */
  FAKE_CUDA_RESERVATION, /* of cuMemAddressReserve */
  FAKE_CUDA_MAPPING,     /* of cuMemMap */
  FAKE_CUDA_POOL,        /* created here; the default pools are not counted */
  FAKE_CUDA_POOL_IMPORT,
  FAKE_CUDA_POOL_POINTER, /* imported from a pool */
  FAKE_CUDA_STREAM,
  FAKE_CUDA_EVENT,
  FAKE_CUDA_EVENT_IMPORT,
  FAKE_CUDA_HOST_ALLOCATION,
  FAKE_CUDA_HOST_REGISTRATION,
  FAKE_CUDA_KINDS
};

enum fake_cuda_rule {
  FAKE_CUDA_FREED_WHILE_OPEN = 1, /* cuMemFree of memory that another process has open */
  FAKE_CUDA_USED_AFTER_FREE,      /* an importer touched memory that its exporter had freed */
  FAKE_CUDA_POOL_FREED_BEFORE_IMPORTERS,
  FAKE_CUDA_EVENT_USED_AFTER_DESTROY,  /* by an importer, after the exporter's cuEventDestroy */
  FAKE_CUDA_INTERIOR_POINTER_EXPORTED, /* the driver takes it, cuda.h asks for the base */
  FAKE_CUDA_READ_ONLY_WRITTEN,
  FAKE_CUDA_USED_AFTER_FORK,
  FAKE_CUDA_FREED_TWICE,   /* a free, close or release of what is not (any more) */
  FAKE_CUDA_STRAY_POINTER, /* a copy that leaves its allocation, or begins in none */
  FAKE_CUDA_HOST_FREED_WHILE_REGISTERED,
  FAKE_CUDA_RULES
};

typedef struct fake_cuda_fault {
  uint64_t number; /* from 0, in the order of their happening */
  int32_t rule;
  int32_t pid;
  char function[40]; /* in which it was noticed; a stream's own thread has none */
  char text[120];
} fake_cuda_fault;

typedef struct fake_cuda_object {
  int32_t kind;
  int32_t pid;     /* 0: of no living process, kept by others' opens or by a handle under way */
  uint32_t device; /* physical: the same number in every process */
  uint32_t reserved;
  uint64_t id;     /* never used again in this world */
  uint64_t target; /* id of what it opens or maps, or 0 */
  uint64_t size;
  uint64_t count;
  uint64_t address; /* in that process */
} fake_cuda_object;

/* Calls of the function of that name, all its versions together. */
uint64_t fake_cuda_calls(const char* function, int32_t pid);
/* Calls of all functions but cuGetProcAddress, cuGetErrorName, cuGetErrorString and
 * cuDriverGetVersion. */
uint64_t fake_cuda_all_calls(int32_t pid);

/* Objects of a kind that are there now; kind 0: of all kinds. */
uint64_t fake_cuda_live(int32_t kind, int32_t pid);
/* Up to `capacity` of them, in no order; returns how many there are. */
uint64_t fake_cuda_objects(int32_t kind, int32_t pid, fake_cuda_object* out, uint64_t capacity);
/* Memory taken on a device, by all processes. */
uint64_t fake_cuda_bytes(uint32_t device);
/* Objects that processes held when they ended: on their own (killed = 0), or killed before they
 * could (killed = 1). */
uint64_t fake_cuda_left(int32_t kind, int32_t killed);
uint64_t fake_cuda_processes(void);

/* Faults so far, of a rule or (0) of all; and the last 1,024 of them by number. 0: that one is not
 * there (any more). */
uint64_t fake_cuda_faults(int32_t rule);
int fake_cuda_get_fault(uint64_t number, fake_cuda_fault* out);

/* In this process, in addition to FAKE_CUDA_FAIL: the nth call from now of that function fails with
 * `code`; 0 as nth: every one; 0 as code: none any more. */
void fake_cuda_fail(const char* function, uint64_t nth, int32_t code);

/* Counts of calls, faults and of what was left become 0. What is live stays. */
void fake_cuda_reset(void);

#ifdef __cplusplus
}
#endif

#endif
