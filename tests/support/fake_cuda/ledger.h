/* The ledger of a fake_cuda world: the objects, calls and faults of its processes. Tests open the
 * fake libcuda.so.1 by name and find these functions with dlsym. If they are missing, the driver is
 * a real one. The functions need FAKE_CUDA_WORLD but no cuInit, and their caller does not become a
 * process of the world. Each first releases what dead processes held. A pid of 0 means all
 * processes, including ended ones. */
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
  FAKE_CUDA_IPC_OPEN,    /* memory opened by a legacy handle; `count` counts the opens */
  FAKE_CUDA_VMM_HANDLE,  /* of cuMemCreate, import or retain; `count` counts references */
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
  FAKE_CUDA_INTERIOR_POINTER_EXPORTED, /* a real driver accepts it, cuda.h demands the base */
  FAKE_CUDA_READ_ONLY_WRITTEN,
  FAKE_CUDA_USED_AFTER_FORK,
  FAKE_CUDA_FREED_TWICE,   /* a free, close or release of something that is not open */
  FAKE_CUDA_STRAY_POINTER, /* a copy that leaves its allocation, or starts in none */
  FAKE_CUDA_HOST_FREED_WHILE_REGISTERED,
  FAKE_CUDA_RULES
};

typedef struct fake_cuda_fault {
  uint64_t number; /* from 0, in the order in which faults happened */
  int32_t rule;
  int32_t pid;
  char function[40]; /* the function that noticed; empty for a stream's thread */
  char text[120];
} fake_cuda_fault;

typedef struct fake_cuda_object {
  int32_t kind;
  int32_t pid;     /* 0: no living process; opens or a handle in flight keep it */
  uint32_t device; /* physical: the same number in every process */
  uint32_t reserved;
  uint64_t id;     /* never reused in this world */
  uint64_t target; /* id of the object that it opens or maps, or 0 */
  uint64_t size;
  uint64_t count;
  uint64_t address; /* in the process of `pid` */
} fake_cuda_object;

/* Counts the calls of the function of that name, all its versions together. */
uint64_t fake_cuda_calls(const char* function, int32_t pid);
/* Counts the calls of all functions except cuGetProcAddress, cuGetErrorName, cuGetErrorString and
 * cuDriverGetVersion. */
uint64_t fake_cuda_all_calls(int32_t pid);

/* Counts the live objects of a kind; kind 0: of all kinds. */
uint64_t fake_cuda_live(int32_t kind, int32_t pid);
/* Writes up to `capacity` live objects to `out`, in no order, and returns how many there are. */
uint64_t fake_cuda_objects(int32_t kind, int32_t pid, fake_cuda_object* out, uint64_t capacity);
/* The bytes that are allocated on a device, by all processes. */
uint64_t fake_cuda_bytes(uint32_t device);
/* Counts the objects that processes still held when they ended: by themselves (killed = 0), or
 * killed (killed = 1). */
uint64_t fake_cuda_left(int32_t kind, int32_t killed);
uint64_t fake_cuda_processes(void);

/* fake_cuda_faults counts the faults of a rule, or of all rules (0). fake_cuda_get_fault reads one
 * of the last 1,024 faults by its number, and returns 0 if that fault is not kept. */
uint64_t fake_cuda_faults(int32_t rule);
int fake_cuda_get_fault(uint64_t number, fake_cuda_fault* out);

/* Adds to FAKE_CUDA_FAIL in this process: the nth call of the function from now on fails with
 * `code`. 0 as nth: every call. 0 as code: no call fails any more. */
void fake_cuda_fail(const char* function, uint64_t nth, int32_t code);

/* Sets the counts of calls, faults and leftovers to 0. Live objects stay. */
void fake_cuda_reset(void);

#ifdef __cplusplus
}
#endif

#endif
