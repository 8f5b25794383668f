/* Tests tenon/weak.h: what a weak reference knows, and the race of tenon_weak_lock with the last
 * release. */
#include "check.h"

#include <pthread.h>

static void life(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 1), *locked;
  tenon_weak *weak = NULL, *second = NULL;
  uint64_t id = tenon_storage_id(storage);
  OK(tenon_weak_ref(storage, &weak, ERR));
  OK(tenon_weak_ref(storage, &second, ERR));
  CHECK(tenon_storage_use_count(storage) == 1);
  CHECK(tenon_weak_expired(weak) == 0);
  CHECK(tenon_weak_id(weak) == id && tenon_weak_id(second) == id);
  locked = tenon_weak_lock(weak);
  CHECK(locked == storage);
  CHECK(tenon_storage_use_count(storage) == 2);
  tenon_storage_release(storage);
  CHECK(tenon_weak_expired(weak) == 0);
  CHECK(check_filled(tenon_storage_data(locked), 100, 1));
  tenon_storage_release(locked);
  CHECK(tenon_weak_expired(weak) == 1 && tenon_weak_expired(second) == 1);
  CHECK(tenon_weak_lock(weak) == NULL && tenon_weak_lock(second) == NULL);
  CHECK(tenon_weak_id(weak) == id);
  tenon_weak_release(second);
  storage = check_storage(TENON_MODE_SHARED, 0, 100,
                          2); /* most likely in the same block: the weak reference is not fooled */
  CHECK(tenon_weak_lock(weak) == NULL && tenon_weak_id(weak) != tenon_storage_id(storage));
  tenon_storage_release(storage);
  tenon_weak_release(weak);
}

/* A copy is a reference of its own. It outlives the first reference, knows the storage before and
 * after its end, and is released by itself. */
static void one_more(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 100, 1), *locked;
  tenon_weak *weak = NULL, *copy, *late;
  uint64_t id = tenon_storage_id(storage);
  OK(tenon_weak_ref(storage, &weak, ERR));
  copy = tenon_weak_retain(weak);
  CHECK(copy == weak);
  CHECK(tenon_storage_use_count(storage) == 1);
  tenon_weak_release(weak);
  locked = tenon_weak_lock(copy);
  CHECK(locked == storage);
  tenon_storage_release(locked);
  tenon_storage_release(storage);
  CHECK(tenon_weak_expired(copy) == 1);
  late = tenon_weak_retain(copy); /* retains an expired reference */
  tenon_weak_release(copy);
  CHECK(tenon_weak_expired(late) == 1 && tenon_weak_lock(late) == NULL &&
        tenon_weak_id(late) == id);
  tenon_weak_release(late);
}

static void memory_goes_with_the_last_strong_reference(void) {
  tenon_stats before, after;
  tenon_storage *storage;
  tenon_weak *weak = NULL;
  SIZED(before);
  after = before;
  OK(tenon_stats_get(&before, ERR));
  storage = check_storage(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED, 1 << 20, 1);
  OK(tenon_weak_ref(storage, &weak, ERR));
  tenon_storage_release(storage);
  (void)tenon_storage_trim();
  OK(tenon_stats_get(&after, ERR));
  CHECK_EQ(after.storages, before.storages);
  CHECK_EQ(after.segment_fds, before.segment_fds);
  CHECK_EQ(after.bytes_live, before.bytes_live);
  tenon_weak_release(weak);
}

static void every_kind(void) {
  static unsigned char bytes[10];
  tenon_storage *storages[4];
  tenon_weak *weak = NULL;
  size_t i;
  storages[0] = check_storage(TENON_MODE_FROZEN, 0, 10, 1);
  storages[1] = check_storage(TENON_MODE_SHARED, TENON_STORAGE_PRIVATE, 10, 1);
  OK(tenon_storage_new(NULL, 0, &storages[2], ERR));
  OK(tenon_storage_wrap(bytes, 10, NULL, NULL, NULL, &storages[3], ERR));
  for (i = 0; i < COUNT_OF(storages); i++) {
    OK(tenon_weak_ref(storages[i], &weak, ERR));
    CHECK(tenon_weak_lock(weak) == storages[i]);
    tenon_storage_release(storages[i]);
    tenon_storage_release(storages[i]);
    CHECK(tenon_weak_lock(weak) == NULL);
    tenon_weak_release(weak);
  }
}

static void bad_input(void) {
  tenon_storage *storage = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  tenon_weak *out = PATTERN;
  INVALID_KEEPING(out, tenon_weak_ref(NULL, &out, ERR));
  INVALID(tenon_weak_ref(storage, NULL, ERR));
  CHECK(tenon_storage_use_count(storage) == 1);
  CHECK(tenon_weak_lock(NULL) == NULL);
  CHECK(tenon_weak_expired(NULL) == 1);
  CHECK(tenon_weak_id(NULL) == 0);
  CHECK(tenon_weak_retain(NULL) == NULL);
  tenon_weak_release(NULL);
  tenon_storage_release(storage);
}

/* ---- the race -------------------------------------------------------------------------------- */

enum { kThreads = 8, kSlots = 512 };

struct slot {
  tenon_storage *strong;
  tenon_weak *weak;
  uint64_t seed;
  int alive;   /* wrapped ones: 1 until the deleter ran. A successful lock must see 1. It is not
                  atomic, so that TSan reports counts that do not order it. */
  int deleted; /* how often the deleter ran */
  unsigned char bytes[64];
};

static struct slot slots[kSlots];
static pthread_barrier_t barrier;
static long batches;
static uint64_t locks_won[kThreads], locks_lost[kThreads];

static void slot_deleter(void *context) {
  struct slot *slot = context;
  slot->alive = 0;
  slot->deleted++;
  memset(slot->bytes, 0, sizeof(slot->bytes));
}

static void make_slots(uint64_t batch) {
  size_t i;
  for (i = 0; i < kSlots; i++) {
    struct slot *slot = &slots[i];
    void *data = NULL;
    slot->seed = batch * kSlots + i;
    slot->alive = 1;
    slot->deleted = 0;
    if (i % 2 == 0) {
      check_fill(slot->bytes, sizeof(slot->bytes), slot->seed);
      CHECK(tenon_storage_wrap(slot->bytes, sizeof(slot->bytes), slot_deleter, slot, NULL,
                               &slot->strong, NULL) == TENON_OK);
    } else {
      CHECK(tenon_storage_new(NULL, sizeof(slot->bytes), &slot->strong, NULL) == TENON_OK);
      CHECK(tenon_storage_data_mut(slot->strong, &data, NULL) == TENON_OK);
      check_fill(data, sizeof(slot->bytes), slot->seed);
    }
    CHECK(tenon_weak_ref(slot->strong, &slot->weak, NULL) == TENON_OK);
  }
}

static void drop_slots(void) {
  size_t i;
  for (i = 0; i < kSlots; i++) {
    CHECK(tenon_weak_lock(slots[i].weak) == NULL);
    CHECK(tenon_weak_expired(slots[i].weak) == 1);
    if (i % 2 == 0) CHECK(slots[i].deleted == 1 && slots[i].alive == 0);
    tenon_weak_release(slots[i].weak);
  }
}

static void *race(void *argument) {
  size_t self = (size_t)(uintptr_t)argument, i;
  long batch;
  for (batch = 0; batch < batches; batch++) {
    if (self == 0) make_slots((uint64_t)batch);
    pthread_barrier_wait(&barrier);
    for (i = 0; i < kSlots; i++) {
      struct slot *slot = &slots[i];
      if ((i + (size_t)batch) % kThreads == self) {
        tenon_storage_release(slot->strong);
      } else {
        tenon_storage *storage = tenon_weak_lock(slot->weak);
        if (storage == NULL) {
          locks_lost[self]++;
          CHECK(tenon_weak_expired(slot->weak) == 1);
          continue;
        }
        locks_won[self]++;
        CHECK(slot->alive == 1 && slot->deleted == 0);
        CHECK(check_filled(tenon_storage_data(storage), sizeof(slot->bytes), slot->seed));
        tenon_storage_release(storage);
      }
    }
    pthread_barrier_wait(&barrier);
    if (self == 0) drop_slots();
  }
  return NULL;
}

/* TENON_STRESS_ROUNDS: the total number of calls of lock and release. */
static void lock_against_last_release(void) {
  const char *text = getenv("TENON_STRESS_ROUNDS");
  long rounds = text != NULL ? strtol(text, NULL, 10) : (TENON_TEST_SANITIZED ? 1200000 : 4000000);
  pthread_t threads[kThreads];
  uint64_t won = 0, lost = 0;
  size_t i;
  batches = rounds / (kThreads * kSlots) + 1;
  CHECK(pthread_barrier_init(&barrier, NULL, kThreads) == 0);
  for (i = 0; i < kThreads; i++)
    CHECK(pthread_create(&threads[i], NULL, race, (void *)(uintptr_t)i) == 0);
  for (i = 0; i < kThreads; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    won += locks_won[i];
    lost += locks_lost[i];
  }
  CHECK(pthread_barrier_destroy(&barrier) == 0);
  printf("  %ld rounds, locks won %llu, lost %llu\n", batches * kThreads * kSlots,
         (unsigned long long)won, (unsigned long long)lost);
  CHECK(won > 0 && lost > 0); /* else there was no race */
}

/* All threads make, copy, lock and release weak references at once, on one storage that stays
 * alive. */
static tenon_storage *common;
static void *churn(void *argument) {
  int i;
  (void)argument;
  for (i = 0; i < 20000; i++) {
    tenon_weak *weak = NULL, *copy;
    tenon_storage *storage;
    CHECK(tenon_weak_ref(common, &weak, NULL) == TENON_OK);
    copy = tenon_weak_retain(weak);
    tenon_weak_release(weak);
    storage = tenon_weak_lock(copy);
    CHECK(storage == common);
    tenon_weak_release(copy);
    tenon_storage_release(storage);
  }
  return NULL;
}

static void many_weak_references(void) {
  pthread_t threads[kThreads];
  size_t i;
  common = check_storage(TENON_MODE_SHARED, 0, 64, 1);
  for (i = 0; i < kThreads; i++) CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0);
  for (i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(tenon_storage_use_count(common) == 1);
  tenon_storage_release(common);
}

int main(void) {
  check_begin(120);
  RUN(life);
  RUN(one_more);
  RUN(memory_goes_with_the_last_strong_reference);
  RUN(every_kind);
  RUN(bad_input);
  RUN_ONCE(lock_against_last_release);
  RUN_ONCE(many_weak_references);
  return 0;
}
