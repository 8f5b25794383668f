#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

unsigned char wire_pattern(unsigned seed, uint64_t i) {
  return (unsigned char)(seed * 31 + i * 7 + i / 256);
}

int wire_split(char *line, const char **words) {
  int n = 0, i;
  char *word;
  for (word = strtok(line, " \n"); word != NULL && n < WIRE_WORDS; word = strtok(NULL, " \n"))
    words[n++] = word;
  for (i = n; i < WIRE_WORDS; i++) words[i] = "";
  return n;
}

int wire_numbers(const char *word, int64_t *out) {
  int n = 0;
  char *end;
  if (strcmp(word, "-") == 0) return 0;
  while (*word != '\0' && n < WIRE_NDIM) {
    out[n++] = strtoll(word, &end, 10);
    word = *end == ',' ? end + 1 : end;
  }
  return n;
}

const char *wire_word(const int64_t *numbers, int n, char *room) {
  char *at = room;
  int i;
  if (n == 0) return "-";
  for (i = 0; i < n; i++) at += sprintf(at, "%s%lld", i == 0 ? "" : ",", (long long)numbers[i]);
  return room;
}

void wire_put(char *line, const char *format, ...) {
  const size_t length = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + length, WIRE_LINE - length, format, arguments);
  va_end(arguments);
}

void wire_put_hex(char *line, const void *bytes, size_t nbytes) {
  static const char digits[] = "0123456789abcdef";
  const unsigned char *from = (const unsigned char *)bytes;
  char *to = line + strlen(line);
  size_t i;
  if (nbytes == 0) *to++ = '-';
  for (i = 0; i < nbytes && to < line + WIRE_LINE - 3; i++) {
    *to++ = digits[from[i] >> 4];
    *to++ = digits[from[i] & 15];
  }
  *to = '\0';
}

unsigned char *wire_bytes(const char *hex, size_t *nbytes) {
  unsigned char *out = (unsigned char *)malloc(strlen(hex) / 2 + 1);
  size_t i;
  *nbytes = strlen(hex) / 2;
  if (out == NULL) abort();
  for (i = 0; i < *nbytes; i++) {
    const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    out[i] = (unsigned char)strtoul(pair, NULL, 16);
  }
  return out;
}

static int make_socket(const char *path, struct sockaddr_un *address) {
  memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int wire_listen(const char *path) {
  struct sockaddr_un address;
  int fd = make_socket(path, &address);
  if (fd >= 0 &&
      (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 16) != 0))
    return -1;
  return fd;
}

static int readable(int fd) {
  struct pollfd wait = {fd, POLLIN, 0};
  errno = ETIMEDOUT;
  return poll(&wait, 1, WIRE_WAIT_SECONDS * 1000) == 1;
}

int wire_accept(int listener) {
  return readable(listener) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

int wire_connect(const char *path) {
  struct sockaddr_un address;
  int fd = make_socket(path, &address);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

struct packet {
  struct msghdr message;
  struct iovec part;
  char byte;
  union {
    size_t align; /* CMSG_ALIGN rounds to it */
    char room[CMSG_SPACE(WIRE_FDS * sizeof(int))];
  } control;
};

static void make_packet(struct packet *packet, size_t control) {
  memset(packet, 0, sizeof(*packet));
  packet->byte = '*';
  packet->part.iov_base = &packet->byte;
  packet->part.iov_len = 1;
  packet->message.msg_iov = &packet->part;
  packet->message.msg_iovlen = 1;
  packet->message.msg_control = control == 0 ? NULL : packet->control.room;
  packet->message.msg_controllen = control;
}

int wire_send_fds(int socket, const int *fds, size_t n) {
  struct packet packet;
  struct cmsghdr *header;
  make_packet(&packet, n == 0 ? 0 : CMSG_SPACE(n * sizeof(int)));
  if (n != 0) {
    header = CMSG_FIRSTHDR(&packet.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(header), fds, n * sizeof(int));
  }
  return sendmsg(socket, &packet.message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int wire_receive_fds(int socket, int *fds) {
  struct packet packet;
  struct cmsghdr *header;
  size_t n;
  make_packet(&packet, sizeof(packet.control.room));
  if (!readable(socket) || recvmsg(socket, &packet.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  header = CMSG_FIRSTHDR(&packet.message);
  if (header == NULL) return 0;
  errno = EPROTO;
  if (header->cmsg_type != SCM_RIGHTS) return -1;
  n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  memcpy(fds, CMSG_DATA(header), n * sizeof(int));
  return (int)n;
}

int wire_send_fd(int socket, int fd) { return wire_send_fds(socket, &fd, 1); }

int wire_receive_fd(int socket) {
  int fds[WIRE_FDS];
  const int n = wire_receive_fds(socket, fds);
  if (n == 1) return fds[0];
  if (n >= 0) errno = EPROTO;
  return -1;
}

int wire_wait(int socket) {
  char byte;
  if (!readable(socket)) return -1;
  return recv(socket, &byte, 1, 0) == 1;
}
