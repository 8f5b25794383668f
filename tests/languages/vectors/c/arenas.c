/* Arenas and leases. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kinds.h"

static const int64_t patience_ns = INT64_C(10000000000);

static void release_arena(void *arena) { tenon_arena_release((tenon_arena *)arena); }

static void release_connection(void *connection) {
  tenon_connection_release((tenon_connection *)connection);
}

/* Returns the number of the word that a key has: 0 without the key, -1 if it is none of them. */
static int64_t word_of(const struct test_case *test, const char *key, const char *const *words,
                       int64_t n) {
  const char *text = case_find(test, key);
  int64_t i;
  if (text == NULL) return 0;
  for (i = 0; i < n; i++) {
    if (strcmp(text, words[i]) == 0) return i;
  }
  return -1;
}

static int figure(const tenon_arena *arena, const char *name, long long *out) {
  tenon_arena_stats now;
  SIZED(now);
  if (tenon_arena_stats_get(arena, &now, NULL) != TENON_OK) return wrong("no statistics");
#define FIGURE(member)              \
  if (strcmp(name, #member) == 0) { \
    *out = (long long)now.member;   \
    return 0;                       \
  }
  FIGURE(bytes_capacity)
  FIGURE(bytes_reserved)
  FIGURE(bytes_live)
  FIGURE(bytes_lent)
  FIGURE(bytes_free)
  FIGURE(bytes_largest_free)
  FIGURE(bytes_retired)
  FIGURE(bytes_peak)
  FIGURE(blocks_live)
  FIGURE(blocks_lent)
  FIGURE(fragmentation)
  FIGURE(pages)
  FIGURE(page_nbytes)
  FIGURE(numa_node)
  FIGURE(locked)
#undef FIGURE
  return wrong("unknown figure %s", name);
}

static int same_figure(const tenon_arena *arena, const char *name, long long wanted) {
  long long got = 0;
  MUST(figure(arena, name, &got));
  return same(name, got, wanted);
}

static tenon_status storage_in(tenon_arena *arena, uint64_t nbytes, int64_t timeout_ns,
                               tenon_storage **out, tenon_error **error) {
  tenon_storage_options options;
  tenon_wait wait;
  memset(&options, 0, sizeof(options));
  memset(&wait, 0, sizeof(wait));
  options.struct_size = sizeof(options);
  wait.struct_size = sizeof(wait);
  wait.timeout_ns = timeout_ns;
  options.arena = arena;
  if (timeout_ns > 0) options.wait = &wait;
  return tenon_storage_new(&options, nbytes, out, error);
}

int run_arena(const struct test_case *test) {
  static const char *const modes[] = {"SHARED", "LENDER_WRITES", "FROZEN"}, *const pages[] = {
                                                                                "AUTO", "SMALL",
                                                                                "THP", "HUGETLB"};
  tenon_arena_options options;
  tenon_arena *arena = NULL;
  tenon_storage *storage = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  size_t n, i;
  int at;
  const int64_t *storages = case_numbers(test, "storages", &n);
  const int64_t mode = word_of(test, "mode", modes, 3), kind = word_of(test, "pages", pages, 4);
  if (mode < 0 || kind < 0) return wrong("unknown mode or pages");
  SIZED(options);
  options.mode = (tenon_mode)mode;
  options.pages = (tenon_pages)kind;
  options.capacity_nbytes = (uint64_t)case_number(test, "capacity_nbytes");
  options.alignment = (uint64_t)case_number_or(test, "alignment", 0);
  status = tenon_arena_new(&options, &arena, &error);
  if (status != TENON_OK) return outcome(test, status, error);
  keep(arena, release_arena);
  if (case_find(test, "reserve") != NULL)
    status = tenon_arena_reserve(arena, (uint64_t)case_number(test, "reserve"), &error);
  for (i = 0; i < n && status == TENON_OK; i++) {
    status = storage_in(arena, (uint64_t)storages[i],
                        case_number_or(test, "timeout_ms", 0) * 1000000, &storage, &error);
    if (status == TENON_OK) keep_storage(storage);
  }
  MUST(outcome(test, status, error));
  for (at = 0; at < test->n; at++) {
    const char *name = test->keys[at] + strlen("expect.stats.");
    if (strncmp(test->keys[at], "expect.stats.", strlen("expect.stats.")) == 0)
      MUST(same_figure(arena, name, atoll(test->values[at])));
  }
  return 0;
}

static int lend(const struct test_case *test, tenon_arena *arena, tenon_connection *first) {
  size_t n, i;
  const int64_t *sizes = case_numbers(test, "lend", &n);
  tenon_message *message = NULL;
  int64_t left;
  tenon_status status = tenon_message_new(&message, NULL);
  for (i = 0; i < n && status == TENON_OK; i++) {
    tenon_storage *storage = NULL;
    tenon_tensor *tensor = NULL;
    status = storage_in(arena, (uint64_t)sizes[i], 0, &storage, NULL);
    if (status == TENON_OK) status = make_bytes_tensor(storage, &tensor);
    if (status == TENON_OK) status = tenon_message_add(message, &tensor, NULL, 1, NULL, NULL);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  }
  for (left = case_number(test, "messages"); left > 0 && status == TENON_OK; left--)
    status = tenon_send(first, message, NULL, NULL);
  tenon_message_release(message);
  return status == TENON_OK ? 0 : wrong("cannot lend: %s", tenon_status_name(status));
}

static int compare_holder(const struct test_case *test) {
  tenon_lease_holder holder;
  size_t total = 0;
  SIZED(holder);
  if (tenon_lease_holders(&holder, 1, &total, NULL) != TENON_OK) return wrong("no holders");
  SAME("holders", total, 1);
  SAME("uid", holder.uid, getuid());
  SAME("leases", holder.leases, case_number(test, "expect.leases"));
  SAME("nbytes", holder.nbytes, case_number(test, "expect.nbytes"));
  SAME("granted", holder.granted, case_number(test, "expect.leases"));
  SAME("granted_bytes", holder.granted_bytes, case_number(test, "expect.nbytes"));
  return holder.age_ns > 0 ? 0 : wrong("no age");
}

int run_lease(const struct test_case *test) {
  const char *end = case_text(test, "end");
  tenon_arena_options options;
  tenon_arena *arena = NULL;
  tenon_connection *first = NULL, *second = NULL;
  tenon_connection_options adopt;
  tenon_storage *whole = NULL;
  size_t total = 0;
  int64_t left;
  int ends[2], tries;
  for (tries = 0;
       tries < 10000 && tenon_lease_holders(NULL, 0, &total, NULL) == TENON_OK && total > 0;
       tries++) {
    poll(NULL, 0, 1);
  }
  SIZED(options);
  options.capacity_nbytes = (uint64_t)case_number(test, "capacity_nbytes");
  if (tenon_arena_new(&options, &arena, NULL) != TENON_OK) return wrong("no arena");
  keep(arena, release_arena);
  SIZED(adopt);
  adopt.flags = TENON_CONNECTION_ADOPT_SOCKET;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return wrong("no sockets");
  if (tenon_connection_new(ends[0], &adopt, &first, NULL) != TENON_OK)
    return wrong("no connection");
  keep(first, release_connection);
  if (tenon_connection_new(ends[1], &adopt, &second, NULL) != TENON_OK)
    return wrong("no connection");
  if (strcmp(end, "close") != 0) keep(second, release_connection);
  if (lend(test, arena, first) != 0) return 1;
  MUST(same_figure(arena, "blocks_live", 0));
  MUST(same_figure(arena, "blocks_lent", case_number(test, "expect.blocks_lent")));
  MUST(same_figure(arena, "bytes_lent", case_number(test, "expect.bytes_lent")));
  MUST(compare_holder(test));
  for (left = case_number(test, "messages"); left > 0 && strcmp(end, "receive") == 0; left--) {
    tenon_message *message = NULL;
    if (tenon_recv(second, NULL, &message, NULL) != TENON_OK) return wrong("nothing received");
    tenon_message_release(message);
  }
  if (strcmp(end, "close") == 0) tenon_connection_release(second);
  if (storage_in(arena, options.capacity_nbytes, patience_ns, &whole, NULL) != TENON_OK)
    return wrong("its blocks are still lent");
  keep_storage(whole);
  return same_figure(arena, "blocks_lent", 0);
}
