#include "case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char reason[1024];

static struct {
  void *object;
  void (*release)(void *object);
} kept[8192];
static size_t n_kept;

static void give_up(const char *what, const char *which) {
  fprintf(stderr, "%s: %s\n", what, which);
  exit(2);
}

void *keep(void *object, void (*release)(void *object)) {
  if (object == NULL || n_kept == sizeof(kept) / sizeof(kept[0])) give_up("cannot keep", "memory");
  kept[n_kept].object = object;
  kept[n_kept++].release = release;
  return object;
}

void release_kept(void) {
  while (n_kept > 0) {
    n_kept--;
    kept[n_kept].release(kept[n_kept].object);
  }
}

static void release_storage(void *object) { tenon_storage_release((tenon_storage *)object); }

static void release_tensor(void *object) { tenon_tensor_release((tenon_tensor *)object); }

static void release_message(void *object) { tenon_message_release((tenon_message *)object); }

tenon_storage *keep_storage(tenon_storage *storage) {
  return (tenon_storage *)keep(storage, release_storage);
}

tenon_tensor *keep_tensor(tenon_tensor *tensor) {
  return (tenon_tensor *)keep(tensor, release_tensor);
}

tenon_message *keep_message(tenon_message *message) {
  return (tenon_message *)keep(message, release_message);
}

static void *room(size_t nbytes) { return keep(calloc(nbytes + 1, 1), free); }

int case_next(char **text, struct test_case *test) {
  int size = 0;
  test->n = 0;
  test->keys = test->values = NULL;
  while (**text != '\0' && **text != '\n') {
    char *line = *text, *end = strchr(line, '\n'), *space = strchr(line, ' ');
    if (end == NULL || space == NULL || space > end) give_up("no line of `key value`", line);
    *end = *space = '\0';
    *text = end + 1;
    if (test->n == size) {
      size = size * 2 + 64;
      test->keys = (char **)realloc(test->keys, (size_t)size * sizeof(char *));
      test->values = (char **)realloc(test->values, (size_t)size * sizeof(char *));
      if (test->keys == NULL || test->values == NULL) give_up("no memory", line);
    }
    test->keys[test->n] = line;
    test->values[test->n++] = space + 1;
  }
  if (test->n == 0) return 0;
  if (**text == '\n') ++*text;
  keep(test->keys, free);
  keep(test->values, free);
  return 1;
}

const char *case_key(const char *prefix, const char *key) {
  char *both = (char *)room(strlen(prefix) + strlen(key));
  return strcat(strcpy(both, prefix), key);
}

const char *case_find(const struct test_case *test, const char *key) {
  int i;
  for (i = 0; i < test->n; i++) {
    if (strcmp(test->keys[i], key) == 0) return test->values[i];
  }
  return NULL;
}

const char *case_text(const struct test_case *test, const char *key) {
  const char *value = case_find(test, key);
  if (value == NULL) give_up("a case lacks", key);
  return value;
}

int64_t case_number(const struct test_case *test, const char *key) {
  return strtoll(case_text(test, key), NULL, 10);
}

int64_t case_number_or(const struct test_case *test, const char *key, int64_t otherwise) {
  return case_find(test, key) == NULL ? otherwise : case_number(test, key);
}

int64_t *case_numbers(const struct test_case *test, const char *key, size_t *n) {
  const char *at = case_find(test, key);
  int64_t *out;
  char *end;
  *n = 0;
  if (at == NULL || strcmp(at, "-") == 0) return NULL;
  out = (int64_t *)room(strlen(at) * sizeof(*out));
  while (*at != '\0') {
    out[(*n)++] = strtoll(at, &end, 10);
    at = *end == '\0' ? end : end + 1;
  }
  return out;
}

const char **case_texts(const struct test_case *test, const char *key, size_t *n) {
  const char *value = case_text(test, key);
  char *at = strcpy((char *)room(strlen(value)), value);
  const char **out = (const char **)room((strlen(value) + 1) * sizeof(*out));
  *n = 0;
  if (*at == '\0') return out;
  for (;;) {
    char *comma = strchr(at, ',');
    out[(*n)++] = at;
    if (comma == NULL) return out;
    *comma = '\0';
    at = comma + 1;
  }
}

unsigned char *bytes_of_hex(const char *hex, size_t *nbytes) {
  unsigned char *out = (unsigned char *)room(strlen(hex) / 2);
  size_t i;
  *nbytes = strlen(hex) / 2;
  for (i = 0; i < *nbytes; i++) {
    const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    out[i] = (unsigned char)strtoul(pair, NULL, 16);
  }
  return out;
}

char *hex_of_bytes(const void *bytes, size_t nbytes) {
  char *out = (char *)room(2 * nbytes);
  size_t i;
  for (i = 0; i < nbytes; i++) snprintf(out + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
  return out;
}

int wrong(const char *format, ...) {
  char *at;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof(reason), format, arguments);
  va_end(arguments);
  while ((at = strchr(reason, '\n')) != NULL) *at = ' ';
  return 1;
}

const char *wrong_reason(void) { return reason; }

int same(const char *what, long long got, long long wanted) {
  return got == wanted ? 0 : wrong("%s is %lld, not %lld", what, got, wanted);
}

int same_hex(const char *what, const void *got, size_t nbytes, const char *wanted) {
  const char *hex = hex_of_bytes(got, nbytes);
  return strcmp(hex, wanted) == 0 ? 0 : wrong("%s is %.200s, not %.200s", what, hex, wanted);
}

int same_numbers(const char *what, const int64_t *got, size_t n, const struct test_case *test,
                 const char *key) {
  size_t n_wanted, i;
  const int64_t *wanted = case_numbers(test, key, &n_wanted);
  SAME(what, n, n_wanted);
  for (i = 0; i < n; i++) SAME(what, got[i], wanted[i]);
  return 0;
}

int same_bytes(const struct test_case *test, const void *got, size_t nbytes) {
  size_t n_wanted, n_masks, i, m;
  const unsigned char *wanted = bytes_of_hex(case_text(test, "expect.bytes"), &n_wanted),
                      *have = (const unsigned char *)got;
  const int64_t *mask = case_numbers(test, "expect.mask", &n_masks);
  SAME("length", nbytes, n_wanted);
  for (i = 0; i < nbytes; i++) {
    int hidden = 0;
    for (m = 0; m + 1 < n_masks; m += 2)
      hidden = hidden || ((int64_t)i >= mask[m] && (int64_t)i < mask[m + 1]);
    if (!hidden && have[i] != wanted[i])
      return wrong("byte %zu is %02x, not %02x", i, have[i], wanted[i]);
  }
  return 0;
}
