/* One function for each kind of case. It returns 0, or 1 and records a reason (wrong). */
#ifndef TENON_TESTS_VECTORS_KINDS_H
#define TENON_TESTS_VECTORS_KINDS_H

#include "case.h"

/* run_vectors.c. The keys dtype, sizes, strides, offset and flags have the prefix. */
int make_tensor(const struct test_case *test, const char *prefix, tenon_storage *storage,
                tenon_tensor **out, tenon_error **error);
/* Makes a tensor of uint8 over all bytes of a storage. */
tenon_status make_bytes_tensor(tenon_storage *storage, tenon_tensor **out);
/* Makes a storage that is released with the case. Ends the program if that fails. */
tenon_storage *make_storage(uint64_t nbytes, uint32_t flags);
/* Compares a status, its error (which it consumes) and the error's details with what is expected.
 */
int outcome(const struct test_case *test, tenon_status status, tenon_error *error);
/* The same for an expectation whose keys have another prefix than "expect.". */
int outcome_of(const struct test_case *test, const char *prefix, tenon_status status,
               tenon_error *error);

/* messages.c */
int run_message(const struct test_case *test);
int run_encode(const struct test_case *test);
int run_descriptor(const struct test_case *test);

/* composites.c */
int run_composite(const struct test_case *test);

/* objects.c */
int run_object(const struct test_case *test);

/* arenas.c */
int run_arena(const struct test_case *test);
int run_lease(const struct test_case *test);

/* cuda.c */
int run_cuda_counter(const struct test_case *test);
int run_cuda_open(const struct test_case *test);
int run_cuda_share(const struct test_case *test);
int run_cuda_event(const struct test_case *test);
int run_cuda_module(const struct test_case *test);
int run_cuda_arena(const struct test_case *test);

/* files.c */
int run_named_file(const struct test_case *test);
int run_new_named_file(const struct test_case *test);
tenon_open_options open_options(const struct test_case *test);
/* Reads a whole file, with a NUL after it. The caller frees it. Returns NULL and sets errno if that
 * fails. */
unsigned char *read_file(const char *path, size_t *nbytes);

#endif
