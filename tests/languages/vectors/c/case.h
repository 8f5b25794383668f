/* Cases as the runner in C reads them: cases.txt (tests/languages/vectors/README.md). The results
 * of these functions live until the case is over. */
#ifndef TENON_TESTS_VECTORS_CASE_H
#define TENON_TESTS_VECTORS_CASE_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/tenon.h>

#include "support/sized.h"

struct test_case {
  int n;
  char **keys, **values;
};

/* Reads the next case of a file's text, which it changes. Returns 0 at the end. */
int case_next(char **text, struct test_case *test);
/* Joins prefix and key into one string. */
const char *case_key(const char *prefix, const char *key);
/* Returns NULL if there is no such key. */
const char *case_find(const struct test_case *test, const char *key);
/* Without the key, each of these ends the program, unless it has a default. */
const char *case_text(const struct test_case *test, const char *key);
int64_t case_number(const struct test_case *test, const char *key);
int64_t case_number_or(const struct test_case *test, const char *key, int64_t otherwise);
/* Numbers of an array. Arrays in an array are joined in a row. Returns NULL for null. */
int64_t *case_numbers(const struct test_case *test, const char *key, size_t *n);
/* The items of an array of text. */
const char **case_texts(const struct test_case *test, const char *key, size_t *n);
unsigned char *bytes_of_hex(const char *hex, size_t *nbytes);
char *hex_of_bytes(const void *bytes, size_t nbytes);

/* Records why the case failed. Returns 1. */
int wrong(const char *format, ...);
const char *wrong_reason(void);
/* Returns 0 if they are the same. */
int same(const char *what, long long got, long long wanted);
int same_hex(const char *what, const void *got, size_t nbytes, const char *wanted);
int same_numbers(const char *what, const int64_t *got, size_t n, const struct test_case *test,
                 const char *key);
/* Compares bytes with expect.bytes, except those under expect.mask. */
int same_bytes(const struct test_case *test, const void *got, size_t nbytes);

#define MUST(call) \
  if ((call) != 0) return 1
#define SAME(what, got, wanted) MUST(same((what), (long long)(got), (long long)(wanted)))

/* Kept objects are released when the case is over, in the opposite order. */
void *keep(void *object, void (*release)(void *object));
tenon_storage *keep_storage(tenon_storage *storage);
tenon_tensor *keep_tensor(tenon_tensor *tensor);
tenon_message *keep_message(tenon_message *message);
void release_kept(void);

#endif
