/* The lines of a file of steps, and the words of the current line
 * (tests/peers/module/builders/README.md). */
#ifndef TENON_BUILDERS_LINES_H
#define TENON_BUILDERS_LINES_H

#include <stddef.h>
#include <stdint.h>

#define MOST_WORDS 128

/* Reads the whole file, once. Returns the number of lines. */
size_t read_lines(const char* path);

/* Goes to the next line. Returns 0 if there is none. */
int next_line(void);

size_t n_words(void);

/* Functions that read one word. If the word is missing or of another form, they end the program, as
 * fail does. */
int is(size_t at, const char* text);
const char* text_at(size_t at);
const char* text_or_null(size_t at); /* NULL if the word is empty */
size_t nbytes_at(size_t at);         /* of the text */
int64_t number_at(size_t at);
double float_at(size_t at);
size_t index_at(size_t at, size_t count);                 /* less than count */
int32_t numbers_at(size_t at, int64_t* out, size_t most); /* returns how many, or -1 for "-" */
const unsigned char* bytes_at(size_t at, size_t* nbytes); /* decodes hexadecimal digits in place */

/* Ends the program with a message that names the line. */
void fail(const char* format, ...);

#endif
