/* What the strategies on CUDA lend, and the words of a handle (tests/matrix/README.md). */
#ifndef TENON_TESTS_MATRIX_CUDA_H
#define TENON_TESTS_MATRIX_CUDA_H

#include <tenon/tenon.h>

enum {
  CUDA_DEVICE = 2 /* as DLPack numbers it */,
  CUDA_LENDS = 1 /* the device of what is lent */
};

int cuda_is(const char *strategy);
/* A storage that holds `data`, or will when the default stream has come so far. */
tenon_status cuda_make_storage(const char *strategy, unsigned char *data, uint64_t nbytes,
                               tenon_storage **storage, tenon_error **error);

/* Appends to a text as wire_put does. */
void cuda_put_words(char *line, const tenon_cuda_handle *handle);
/* The reverse; the fds themselves come by another way. */
void cuda_read_words(const char **words, tenon_cuda_handle *handle);

#endif
