/* Makes the storages that the strategies on CUDA lend, and reads and writes the words of a handle
   (tests/languages/matrix/README.md). */
#ifndef TENON_TESTS_MATRIX_CUDA_H
#define TENON_TESTS_MATRIX_CUDA_H

#include <tenon/tenon.h>

enum {
  CUDA_DEVICE = 2 /* DLPack's number for CUDA */,
  CUDA_LENDS = 1 /* the device on which storages are lent */
};

int cuda_is(const char *strategy);
/* A storage that holds `data` once the default stream has reached the copy. */
tenon_status cuda_make_storage(const char *strategy, unsigned char *data, uint64_t nbytes,
                               tenon_storage **storage, tenon_error **error);

/* Appends the words of the handle to a text, as wire_put does. */
void cuda_put_words(char *line, const tenon_cuda_handle *handle);
/* Reads the words of a handle. The fds come by another way. */
void cuda_read_words(const char **words, tenon_cuda_handle *handle);

#endif
