/* A cache that does not keep its storages alive. It holds weak references, and makes a storage
 * again after its last user has released it. */
#include <stdio.h>
#include <tenon/tenon.h>

enum { kEntries = 4 };
static tenon_weak *cache[kEntries];

/* Returns a new reference, or NULL with *err set. */
static tenon_storage *get(size_t entry, tenon_error **err) {
  char text[32] = {0};
  tenon_storage *storage = tenon_weak_lock(cache[entry]);
  if (storage != NULL) {
    printf("entry %zu: found\n", entry);
    return storage;
  }
  printf("entry %zu: made\n", entry);
  snprintf(text, sizeof(text), "this is entry %zu", entry);
  if (tenon_storage_new_from(NULL, text, sizeof(text), &storage, err)) return NULL;
  tenon_weak_release(cache[entry]);
  cache[entry] = NULL;
  if (tenon_weak_ref(storage, &cache[entry], err)) {
    tenon_storage_release(storage);
    return NULL;
  }
  return storage;
}

int main(void) {
  tenon_error *err = NULL;
  tenon_storage *first = get(1, &err), *second = get(1, &err);
  size_t i;
  if (first == NULL || second == NULL) {
    fprintf(stderr, "failed: %s\n", tenon_error_message(err));
    return 1;
  }
  printf("%s: the same storage: %s\n", (const char *)tenon_storage_data(first),
         first == second ? "yes" : "no");
  tenon_storage_release(first);
  tenon_storage_release(second);
  printf("expired after the last release: %s\n", tenon_weak_expired(cache[1]) ? "yes" : "no");
  first = get(1, &err);
  if (first == NULL) return 1;
  tenon_storage_release(first);
  for (i = 0; i < kEntries; i++) tenon_weak_release(cache[i]);
  return 0;
}
