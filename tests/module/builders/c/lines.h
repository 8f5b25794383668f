/* The lines of a file of steps, and the words of the one that is being executed
 * (tests/module/builders/README.md). */
#ifndef TENON_BUILDERS_LINES_H
#define TENON_BUILDERS_LINES_H

#include <stddef.h>
#include <stdint.h>

#define MOST_WORDS 128

/* How many lines the file has. It is read as a whole, once. */
size_t read_lines(const char* path);

/* Go to the next line; 0 if there is none. */
int next_line(void);

size_t n_words(void);

/* What a word says. A word that is not there, or does not say that, ends the program, as fail does.
 */
int is(size_t at, const char* text);
const char* text_at(size_t at);
const char* text_or_null(size_t at); /* NULL if it is empty */
size_t nbytes_at(size_t at);         /* of the text */
int64_t number_at(size_t at);
double float_at(size_t at);
size_t index_at(size_t at, size_t count); /* less than count */
int32_t numbers_at(size_t at, int64_t* out,
                   size_t most); /* how many; -1 if there is "-" in their place */
const unsigned char* bytes_at(size_t at,
                              size_t* nbytes); /* of hexadecimal digits, in place of them */

/* End the program with a message that names the line. */
void fail(const char* format, ...);

#endif
