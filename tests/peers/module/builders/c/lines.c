#include "lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char* rest; /* the file from the next line on */
static size_t line;
static char* words[MOST_WORDS];
static size_t nbytes_of[MOST_WORDS];
static size_t count;

void fail(const char* format, ...) {
  va_list arguments;
  fprintf(stderr, "line %zu, %s: ", line, count > 0 ? words[0] : "");
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

size_t read_lines(const char* path) {
  FILE* file = fopen(path, "rb");
  long nbytes;
  size_t n = 0;
  char* at;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (nbytes = ftell(file)) < 0 ||
      fseek(file, 0, SEEK_SET) != 0) {
    fail("cannot read %s: %s", path, strerror(errno));
    return 0;
  }
  rest = malloc((size_t)nbytes + 1);
  if (rest == NULL || fread(rest, 1, (size_t)nbytes, file) != (size_t)nbytes)
    fail("cannot read %s", path);
  fclose(file);
  rest[nbytes] = '\0';
  for (at = rest; *at != '\0'; at++) n += *at == '\n';
  return n;
}

/* Decodes in place. Returns the number of bytes that are left. */
static size_t unescape(char* text) {
  char *from = text, *to = text;
  for (; *from != '\0'; from++) {
    if (*from == '\\') {
      from++;
      *to++ = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == '0' ? '\0' : *from);
    } else {
      *to++ = *from;
    }
  }
  *to = '\0';
  return (size_t)(to - text);
}

int next_line(void) {
  char *end = strchr(rest, '\n'), *word = rest;
  if (end == NULL) return 0;
  *end = '\0';
  rest = end + 1;
  line++;
  for (count = 0; word != NULL; count++) {
    char* tab = strchr(word, '\t');
    if (count == MOST_WORDS) fail("there are more than %d words", MOST_WORDS);
    if (tab != NULL) *tab++ = '\0';
    words[count] = word;
    nbytes_of[count] = unescape(word);
    word = tab;
  }
  return 1;
}

size_t n_words(void) { return count; }

const char* text_at(size_t at) {
  if (at >= count) fail("there is no word %zu", at);
  return words[at];
}

int is(size_t at, const char* text) { return strcmp(text_at(at), text) == 0; }

const char* text_or_null(size_t at) { return text_at(at)[0] == '\0' ? NULL : words[at]; }

size_t nbytes_at(size_t at) {
  text_at(at);
  return nbytes_of[at];
}

int64_t number_at(size_t at) {
  char* end;
  const int64_t number = strtoll(text_at(at), &end, 10);
  if (end == words[at] || *end != '\0') fail("%s is no number", words[at]);
  return number;
}

double float_at(size_t at) {
  char* end;
  const uint64_t bits = strtoull(text_at(at), &end, 16);
  double number;
  if (end != words[at] + 16 || *end != '\0') fail("%s are no bits of a float", words[at]);
  memcpy(&number, &bits, sizeof(number));
  return number;
}

size_t index_at(size_t at, size_t n) {
  const int64_t number = number_at(at);
  if (number < 0 || (uint64_t)number >= n) fail("nothing has the number %s", words[at]);
  return (size_t)number;
}

int32_t numbers_at(size_t at, int64_t* out, size_t most) {
  const char* from = text_at(at);
  size_t n = 0;
  if (strcmp(from, "-") == 0) return -1;
  while (*from != '\0') {
    char* end;
    if (n == most) fail("there are more than %zu numbers", most);
    out[n++] = strtoll(from, &end, 10);
    if (end == from || (*end != ',' && *end != '\0')) fail("%s are no numbers", words[at]);
    from = *end == ',' ? end + 1 : end;
  }
  return (int32_t)n;
}

static unsigned digit(char c) {
  if (c >= '0' && c <= '9') return (unsigned)(c - '0');
  if (c < 'a' || c > 'f') fail("%c is no hexadecimal digit", c);
  return (unsigned)(c - 'a' + 10);
}

const unsigned char* bytes_at(size_t at, size_t* nbytes) {
  unsigned char* to = (unsigned char*)words[at];
  size_t i;
  if (nbytes_at(at) % 2 != 0) fail("half a byte is over");
  *nbytes = nbytes_of[at] / 2;
  for (i = 0; i < *nbytes; i++)
    to[i] = (unsigned char)(digit(words[at][2 * i]) << 4 | digit(words[at][2 * i + 1]));
  return to;
}
