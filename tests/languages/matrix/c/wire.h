/* The protocol that the matrix's programs in C use with the driver and with each other
 * (tests/languages/matrix/README.md), apart from Tenon. */
#ifndef TENON_TESTS_MATRIX_WIRE_H
#define TENON_TESTS_MATRIX_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
  WIRE_WORDS = 24,
  WIRE_LINE = 1 << 18,
  WIRE_WAIT_SECONDS = 10,
  WIRE_NDIM = 8,
  WIRE_FDS = 253 /* the kernel's limit */
};

/* Byte i of pattern(seed). */
unsigned char wire_pattern(unsigned seed, uint64_t i);
/* Splits a line in place. Returns the number of words. All further words are "". */
int wire_split(char *line, const char **words);
/* Reads numbers with commas, or "-" for none. Returns how many there are. */
int wire_numbers(const char *word, int64_t *out);
/* Writes such numbers into `room`, which has place for WIRE_NDIM numbers. */
const char *wire_word(const int64_t *numbers, int n, char *room);
/* Each appends to a NUL-terminated text of WIRE_LINE bytes. */
void wire_put(char *line, const char *format, ...);
void wire_put_hex(char *line, const void *bytes, size_t nbytes);
/* The bytes of hexadecimal digits, which the caller must free. */
unsigned char *wire_bytes(const char *hex, size_t *nbytes);

/* The functions for sockets return -1 with errno on failure. */
int wire_listen(const char *path);
int wire_accept(int listener);
int wire_connect(const char *path);
/* Sends one byte and up to WIRE_FDS fds, or none. */
int wire_send_fds(int socket, const int *fds, size_t n);
/* Returns how many fds came. `fds` has room for WIRE_FDS. */
int wire_receive_fds(int socket, int *fds);
/* Send and receive exactly one fd. */
int wire_send_fd(int socket, int fd);
int wire_receive_fd(int socket);
/* 1: a byte came, 0: the other end is gone, -1: neither. */
int wire_wait(int socket);

#endif
