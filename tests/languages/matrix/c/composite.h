/* Composites as the driver's words describe them (tests/languages/matrix/README.md, "Composites").
 */
#ifndef TENON_TESTS_MATRIX_COMPOSITE_H
#define TENON_TESTS_MATRIX_COMPOSITE_H

#include <tenon/tenon.h>

/* Makes a composite of these words, ended by "". Each part gets a storage of its own. */
tenon_status composite_read_words(const char **words, tenon_composite **out, tenon_error **error);
/* Appends the words of a composite. put_content appends the elements of a tensor. */
void composite_put_words(char *line, const tenon_composite *composite,
                         void (*put_content)(tenon_tensor *tensor));

#endif
