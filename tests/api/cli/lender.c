/* Lends from an arena to other processes: lender CAPACITY NBYTES COUNT... (CAPACITY home: from the
 * default home). For each COUNT it starts a borrower and lends it so many storages of NBYTES in one
 * message. Prints the borrowers' pids once they have the messages. Then it obeys each byte of
 * standard input and answers with a line: m lends as many storages again to the first borrower, and
 * neither process keeps them. r releases the lender's own storages. d describes one storage in a
 * descriptor that nobody opens. f forks a child that does nothing, and answers with its pid. It
 * ends in an orderly way when standard input ends, and the borrowers (lender borrow FD) end with
 * it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define MOST_BORROWERS 4
#define MOST_STORAGES 4096

static tenon_arena* arena;
static tenon_storage* storages[MOST_STORAGES];
static size_t n_storages;
static tenon_descriptor* descriptor;

static void need(tenon_status status, const char* what, tenon_error** error) {
  if (status == TENON_OK) return;
  fprintf(stderr, "lender: %s: %s\n", what, tenon_error_message(*error));
  exit(1);
}

static void add_storage(tenon_message* message, uint64_t nbytes) {
  tenon_storage_options options;
  tenon_tensor_spec spec;
  tenon_storage* storage = NULL;
  tenon_tensor* tensor = NULL;
  tenon_error* error = NULL;
  int64_t size = (int64_t)nbytes;
  if (n_storages == MOST_STORAGES) exit(1);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.arena = arena;
  need(tenon_storage_new(&options, nbytes, &storage, &error), "tenon_storage_new", &error);
  memset(&spec, 0, sizeof spec);
  spec.struct_size = sizeof spec;
  spec.dtype.code = TENON_DTYPE_UINT;
  spec.dtype.bits = 8;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  need(tenon_tensor_new(storage, &spec, &tensor, &error), "tenon_tensor_new", &error);
  need(tenon_message_add(message, &tensor, NULL, 1, NULL, &error), "tenon_message_add", &error);
  tenon_tensor_release(tensor);
  storages[n_storages++] = storage;
}

static void release_storages(size_t from) {
  while (n_storages > from) tenon_storage_release(storages[--n_storages]);
}

static void lend(tenon_connection* connection, uint64_t nbytes, size_t count) {
  tenon_message *message = NULL, *answer = NULL;
  tenon_error* error = NULL;
  size_t i;
  need(tenon_message_new(&message, &error), "tenon_message_new", &error);
  for (i = 0; i < count; i++) add_storage(message, nbytes);
  need(tenon_send(connection, message, NULL, &error), "tenon_send", &error);
  tenon_message_release(message);
  need(tenon_recv(connection, NULL, &answer, &error), "tenon_recv", &error);
  tenon_message_release(answer);
}

static void describe(uint64_t nbytes) {
  tenon_message* message = NULL;
  tenon_error* error = NULL;
  need(tenon_message_new(&message, &error), "tenon_message_new", &error);
  add_storage(message, nbytes);
  need(tenon_descriptor_new(message, NULL, &descriptor, &error), "tenon_descriptor_new", &error);
  tenon_message_release(message);
}

static int borrow(int fd) {
  tenon_connection* connection = NULL;
  tenon_error* error = NULL;
  need(tenon_connection_new(fd, NULL, &connection, &error), "tenon_connection_new", &error);
  for (;;) {
    static int kept;
    tenon_message *message = NULL, *answer = NULL;
    if (tenon_recv(connection, NULL, &message, NULL) != TENON_OK) return 0;
    need(tenon_message_new(&answer, &error), "tenon_message_new", &error);
    need(tenon_message_set_user_bytes(answer, "x", 1, &error), "tenon_message_set_user_bytes",
         &error);
    if (tenon_send(connection, answer, NULL, NULL) != TENON_OK) return 0;
    tenon_message_release(answer);
    if (kept++) tenon_message_release(message);
  }
}

static pid_t start_borrower(const char* program, tenon_connection** out) {
  tenon_error* error = NULL;
  char number[16];
  int ends[2];
  pid_t pid;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) exit(1);
  pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(number, sizeof number, "%d", dup(ends[1]));
    execl("/proc/self/exe", program, "borrow", number, (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  need(tenon_connection_new(ends[0], NULL, out, &error), "tenon_connection_new", &error);
  return pid;
}

static pid_t fork_child(void) {
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  return pid;
}

static int serve(tenon_connection* const* connections, int n, uint64_t nbytes, size_t count) {
  char byte;
  ssize_t got;
  size_t i;
  while ((got = read(0, &byte, 1)) != 0) {
    int answer = 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return 1;
    if (byte == 'm') {
      const size_t own = n_storages;
      lend(connections[0], nbytes, count);
      release_storages(own);
    }
    if (byte == 'd') describe(nbytes);
    if (byte == 'f') answer = (int)fork_child();
    if (byte == 'r') release_storages(0);
    printf("%d\n", answer);
    fflush(stdout);
  }
  tenon_descriptor_release(descriptor);
  for (i = 0; i < (size_t)n; i++) tenon_connection_release(connections[i]);
  release_storages(0);
  tenon_arena_release(arena);
  return 0;
}

int main(int argc, char** argv) {
  tenon_connection* connections[MOST_BORROWERS];
  tenon_arena_options options;
  tenon_error* error = NULL;
  uint64_t nbytes;
  pid_t pids[MOST_BORROWERS];
  int i, n = argc - 3;
  if (argc == 3 && strcmp(argv[1], "borrow") == 0) return borrow(atoi(argv[2]));
  if (n < 0 || n > MOST_BORROWERS) return 2;
  signal(SIGCHLD, SIG_IGN);
  for (i = 0; i < n; i++) pids[i] = start_borrower(argv[0], &connections[i]);
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.mode = TENON_MODE_LENDER_WRITES;
  options.capacity_nbytes = strtoull(argv[1], NULL, 10);
  if (strcmp(argv[1], "home") != 0)
    need(tenon_arena_new(&options, &arena, &error), "tenon_arena_new", &error);
  nbytes = strtoull(argv[2], NULL, 10);
  for (i = 0; i < n; i++) lend(connections[i], nbytes, strtoull(argv[3 + i], NULL, 10));
  for (i = 0; i < n; i++) printf("%s%d", i == 0 ? "" : " ", (int)pids[i]);
  printf("\n");
  fflush(stdout);
  return serve(connections, n, nbytes, n > 0 ? strtoull(argv[3], NULL, 10) : 0);
}
