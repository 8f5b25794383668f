/* What the programs of this folder share. It has nothing to do with tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

/* Calls of Tenon return TENON_OK, or say in `err` what went wrong. */
static tenon_error *err;

static void check(tenon_status status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "failed: %s\n", tenon_error_message(err));
  exit(1);
}

/* Starts a program and returns a socket to it. The other end is its standard input. */
static inline int start(char **command, pid_t *pid) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) exit(1);
  *pid = fork();
  if (*pid == 0) {
    dup2(ends[1], STDIN_FILENO);
    execvp(command[0], command);
    _exit(127);
  }
  close(ends[1]);
  return ends[0];
}
