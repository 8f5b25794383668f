/* One process of the storm (storm.py). It makes storages under names and sends them to the other
 * processes over a shared queue. It opens what it receives, checks the bytes of everything that it
 * holds, releases, forks, and is killed at some point. It prints each error to standard error, and
 * then ends with status 1.
 *
 *   storm_peer work SEED DIRECTORY ROLE TORCH CONTROL QUEUE_IN QUEUE_OUT TORCH_QUEUE_OUT
 *   storm_peer call DIRECTORY     one call of a process that is new here
 *   storm_peer sweep DIRECTORY    a sweep, also of PyTorch's dead names, however young they are
 *
 * ROLE is sender or receiver. With TORCH 1 files are lent to PyTorch too. CONTROL brings S (settle:
 * release everything, report what is left, and do nothing until R) and Q (exit in order). The peer
 * writes to it "P pid" for a child, "S ..." for the report, and "M ..." if it found no manager. */
#include "api/capi/check.h"

#define HELD 12

/* A message of the queues. torch_peer.py has the same layout. */
struct note {
  uint32_t in_flight;
  int32_t sender;
  uint64_t seed;
  tenon_filename_handle handle;
};

struct held {
  tenon_storage *storage;
  tenon_filename_handle handle;
  uint64_t seed;
  int has_own_name; /* this process made its name, and not the lender from which it came */
  int inherited;    /* inherited by fork, and only to read */
  int is_chosen;    /* another storage can have its name by the time that a message comes to it */
};

static const char *directory;
static int is_sender, is_child, with_torch, control, queue_in, queue_out, torch_out;
static uint64_t random_state;
static struct held all[HELD];
static unsigned long sent_in_flight;

static uint64_t draw(uint64_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (random_state >> 11) % below;
}

static void say(const char *text) {
  (void)send(control, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void fail(const char *what, const tenon_error *error) {
  const char *path = tenon_error_detail(error, "path");
  fprintf(stderr, "storm_peer %d, %s: %s: %s %s%s%s\n", (int)getpid(),
          is_sender ? "sender" : "receiver", what,
          error == NULL ? "" : tenon_status_name(tenon_error_code(error)),
          error == NULL ? "" : tenon_error_message(error), path == NULL ? "" : " path ",
          path == NULL ? "" : path);
  _exit(1);
}

/* The storm kills a manager now and then, and the peers report that. Any other error is a bug. */
static int is_about_manager(const tenon_error *error) {
  const char *path = tenon_error_detail(error, "path");
  const tenon_status code = tenon_error_code(error);
  char text[300];
  if (path == NULL || strstr(path, "manager") == NULL) return 0;
  if (code != TENON_PEER_GONE && code != TENON_NOT_FOUND && code != TENON_TIMEOUT) return 0;
  snprintf(text, sizeof(text), "M %s %s", tenon_status_name(code), tenon_error_message(error));
  say(text);
  return 1;
}

static int is_dead(pid_t pid) {
  char path[40], line[512];
  FILE *file;
  unsigned long long pending = 0;
  int dead = 1;
  snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
  file = fopen(path, "re");
  if (file == NULL) return 1;
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "State:", 6) == 0 && strpbrk(line + 6, "ZX") == NULL) dead = 0;
    if (sscanf(line, "ShdPnd: %llx", &pending) == 1 && (pending & (1ULL << (SIGKILL - 1))) != 0)
      dead = 1;
  }
  fclose(file);
  return dead;
}

/* If a sender was killed, its messages in flight go with it. */
static int sender_dies(pid_t pid) {
  int i;
  for (i = 0; i < 1000 && !is_dead(pid); i++) usleep(1000);
  return is_dead(pid);
}

/* ---- held storages --------------------------------------------------------------------------- */

static void look(const struct held *each) {
  char text[400];
  if (each->storage == NULL ||
      check_filled(tenon_storage_data(each->storage), each->handle.nbytes, each->seed))
    return;
  snprintf(text, sizeof(text), "the bytes of %s are not what they were", each->handle.name);
  fail(text, NULL);
}

static void look_at_all(void) {
  size_t i;
  for (i = 0; i < HELD; i++) look(&all[i]);
}

static void let_go(struct held *each) {
  look(each);
  tenon_storage_release(each->storage);
  memset(each, 0, sizeof(*each));
}

static void let_go_of_all(void) {
  size_t i;
  for (i = 0; i < HELD; i++) let_go(&all[i]);
}

static struct held *place(void) {
  struct held *each = &all[draw(HELD)];
  if (each->storage != NULL) let_go(each);
  return each;
}

static struct held *anything(void) {
  struct held *each = &all[draw(HELD)];
  return each->storage == NULL ? NULL : each;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static tenon_filename_options name_options(void) {
  tenon_filename_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.directory = directory;
  return options;
}

static tenon_filename_handle name_handle(void) {
  tenon_filename_handle handle;
  memset(&handle, 0, sizeof(handle));
  handle.struct_size = sizeof(handle);
  return handle;
}

/* Returns 0 if there was no manager. */
static int share(struct held *each, int for_torch) {
  tenon_filename_options options = name_options();
  tenon_error *error = NULL;
  if (for_torch) options.flags |= TENON_FILENAME_TORCH;
  each->handle = name_handle();
  if (tenon_share_filename(each->storage, &options, NULL, &each->handle, &error) == TENON_OK) {
    each->has_own_name = 1;
    return 1;
  }
  if (!is_about_manager(error)) fail("share", error);
  tenon_error_release(error);
  return 0;
}

static void fill(tenon_storage *storage, uint64_t nbytes, uint64_t seed) {
  void *bytes = malloc(nbytes + 1);
  tenon_error *error = NULL;
  if (bytes == NULL) fail("malloc", NULL);
  check_fill(bytes, nbytes, seed);
  if (tenon_storage_write(storage, 0, bytes, nbytes, &error) != TENON_OK) fail("write", error);
  free(bytes);
}

static uint64_t some_size(void) { return draw(20) == 0 ? 200000 + draw(500000) : 1 + draw(9000); }

static void make_file(int chosen, int for_torch) {
  struct held *each = place();
  tenon_filename_options options = name_options();
  tenon_error *error = NULL;
  const uint64_t nbytes = some_size(), seed = draw(1000000);
  char name[40];
  tenon_storage *storage = NULL;
  if (chosen) {
    /* Other processes want this name too. */
    snprintf(name, sizeof(name), "tenon-chosen-%d", (int)draw(3));
    options.name = name;
  }
  if (tenon_storage_new_filename(&options, nbytes, &storage, &error) != TENON_OK) {
    if (!chosen || tenon_error_code(error) != TENON_PERMISSION) fail("new_filename", error);
    tenon_error_release(error);
    return;
  }
  fill(storage, nbytes, seed);
  each->storage = storage;
  each->seed = seed;
  each->is_chosen = chosen;
  if (!share(each, for_torch)) let_go(each);
}

static void make_memory(void) {
  static const tenon_mode modes[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES,
                                     TENON_MODE_FROZEN};
  struct held *each = place();
  tenon_storage_options options;
  tenon_error *error = NULL;
  const uint64_t nbytes = some_size(), seed = draw(1000000);
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.mode = modes[draw(3)];
  if (draw(4) == 0) options.flags = TENON_STORAGE_ISOLATED;
  if (draw(4) == 0) options.flags = TENON_STORAGE_PRIVATE; /* a lend moves it into a file */
  if (tenon_storage_new(&options, nbytes, &each->storage, &error) != TENON_OK) fail("new", error);
  fill(each->storage, nbytes, seed);
  if (options.mode == TENON_MODE_FROZEN && options.flags != TENON_STORAGE_PRIVATE &&
      tenon_storage_freeze(each->storage, &error) != TENON_OK)
    fail("freeze", error);
  each->seed = seed;
  if (!share(each, 0)) let_go(each);
}

static void send_note(struct held *each) {
  struct note note;
  tenon_error *error = NULL;
  int to_torch;
  if (!each->has_own_name && !share(each, 0)) {
    let_go(each);
    return;
  }
  to_torch = each->handle.manager[0] != '\0' && torch_out >= 0 && draw(2) == 0;
  memset(&note, 0, sizeof(note));
  /* A receiver holds what it passes on. Otherwise the next receiver could come too late. */
  note.in_flight = is_sender && draw(3) != 0;
  note.sender = (int32_t)getpid();
  note.seed = each->seed;
  note.handle = each->handle;
  if (note.in_flight && tenon_filename_incref(&each->handle, &error) != TENON_OK)
    fail("incref", error);
  if (send(to_torch ? torch_out : queue_out, &note, sizeof(note), MSG_NOSIGNAL | MSG_DONTWAIT) ==
      (ssize_t)sizeof(note)) {
    sent_in_flight += note.in_flight;
    return;
  }
  if (note.in_flight && tenon_filename_decref(&each->handle, &error) != TENON_OK)
    fail("decref", error);
}

static void receive(void) {
  struct held *each;
  struct note note;
  tenon_open_options options;
  tenon_error *error = NULL;
  tenon_storage *storage = NULL;
  tenon_status code;
  if (recv(queue_in, &note, sizeof(note), MSG_DONTWAIT) != (ssize_t)sizeof(note)) return;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.flags = TENON_OPEN_ALLOW_UNSEALED | (note.in_flight ? TENON_OPEN_DECREF : 0);
  code = tenon_open_filename(&note.handle, &options, NULL, &storage, &error);
  if (code != TENON_OK && is_about_manager(error)) {
    tenon_error_release(error);
    error = NULL;
    options.flags |= TENON_OPEN_NO_MANAGER;
    code = tenon_open_filename(&note.handle, &options, NULL, &storage, &error);
  }
  if (code != TENON_OK) {
    if ((code != TENON_NOT_FOUND && code != TENON_PEER_GONE) ||
        (note.in_flight && !sender_dies(note.sender)))
      fail("open", error);
    tenon_error_release(error);
    return;
  }
  each = place();
  each->storage = storage;
  each->handle = note.handle;
  each->seed = note.seed;
  each->inherited = is_child; /* the parent may already have passed the same storage on */
  look(each);
}

static void count_there_and_back(struct held *each) {
  tenon_error *error = NULL;
  if (!each->has_own_name && !share(each, 0)) {
    let_go(each);
    return;
  }
  if (tenon_filename_incref(&each->handle, &error) != TENON_OK) fail("incref", error);
  if (tenon_filename_decref(&each->handle, &error) != TENON_OK) fail("decref", error);
}

static void sweep(uint32_t flags, int64_t min_age_ns) {
  tenon_sweep_options options;
  tenon_error *error = NULL;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.directory = directory;
  options.flags = flags;
  options.min_age_ns = min_age_ns;
  if (tenon_filename_sweep(&options, NULL, &error) != TENON_OK) fail("sweep", error);
}

static void step(void);

/* The child reads what its parent had, makes something of its own, and ends in one of three ways,
 * unless it is killed before. */
static void fork_one(void) {
  char text[40];
  int i;
  size_t at;
  const uint64_t seed = draw(UINT64_MAX >> 12);
  const pid_t child = fork();
  if (child < 0) fail("fork", NULL);
  if (child > 0) return;
  random_state = seed | 1;
  snprintf(text, sizeof(text), "P %d", (int)getpid());
  say(text);
  alarm(60);
  sent_in_flight = 0;
  is_child = 1;
  for (at = 0; at < HELD; at++) all[at].inherited = 1;
  look_at_all();
  for (i = (int)draw(30); i > 0; i--) step();
  look_at_all();
  /* A process that exits in order would leave its messages in flight for a minute. */
  if (sent_in_flight == 0 && draw(3) == 0) exit(0);
  if (draw(2) == 0) _exit(0);
  for (;;) {
    usleep(500);
    look_at_all();
  }
}

static void step(void) {
  struct held *each = anything();
  struct held *mine = each != NULL && !each->inherited && !each->is_chosen ? each : NULL;
  const uint64_t dice = draw(100);
  if (dice < (is_sender ? 30U : 10U)) {
    make_file(draw(6) == 0, with_torch && draw(2) == 0);
  } else if (dice < (is_sender ? 50U : 15U)) {
    make_memory();
  } else if (dice < (is_sender ? 75U : 25U)) {
    if (mine != NULL) send_note(mine);
  } else if (dice < (is_sender ? 80U : 85U)) {
    receive();
  } else if (dice < 88) {
    if (mine != NULL && is_sender) count_there_and_back(mine);
  } else if (dice < 90) {
    sweep(0, 0);
  } else if (dice < 91) {
    fork_one();
  } else if (each != NULL) {
    let_go(each);
  }
  if ((each = anything()) != NULL) look(each);
}

static long mappings_left(void) {
  return count_mappings_of("memfd:tenon") + count_mappings_of(directory);
}

/* The service thread may be looking at names that other processes have just left. */
static long more_fds(long than) {
  long more;
  int i;
  if (with_torch) than += 4; /* idle connections to a manager */
  more = check_count_fds() - than;
  for (i = 0; i < 500 && more > 0; i++, more = check_count_fds() - than) usleep(2000);
  return more;
}

static void settle(long fds) {
  char text[200];
  long mappings;
  int i;
  look_at_all();
  let_go_of_all();
  (void)tenon_storage_trim();
  /* The service thread may be the last to release a segment, and a trim takes only segments without
   * a holder. */
  for (i = 0; i < 500 && (mappings = mappings_left()) > 0; i++) {
    usleep(2000);
    (void)tenon_storage_trim();
  }
  snprintf(text, sizeof(text), "S %ld %ld %lu", more_fds(fds), mappings, sent_in_flight);
  say(text);
}

static int work(void) {
  long fds;
  signal(SIGCHLD, SIG_IGN);
  alarm(60);
  /* From here on the process has its service thread and the thread's fds. */
  make_file(0, 0);
  make_memory();
  let_go_of_all();
  (void)tenon_storage_trim();
  fds = check_count_fds();
  say("W");
  for (;;) {
    char order = 0;
    if (recv(control, &order, 1, MSG_DONTWAIT) == 1) {
      if (order == 'Q') return 0;
      settle(fds);
      if (recv(control, &order, 1, 0) != 1 || order == 'Q') return 0;
    }
    step();
  }
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "call") == 0) {
    random_state = 1;
    directory = argv[2];
    control = queue_in = queue_out = torch_out = -1;
    make_file(0, 0);
    let_go_of_all();
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "sweep") == 0) {
    directory = argv[2];
    sweep(TENON_SWEEP_TORCH, 1);
    return 0;
  }
  if (argc != 10 || strcmp(argv[1], "work") != 0) return 2;
  random_state = strtoull(argv[2], NULL, 10) | 1;
  directory = argv[3];
  is_sender = strcmp(argv[4], "sender") == 0;
  with_torch = atoi(argv[5]);
  control = atoi(argv[6]);
  queue_in = atoi(argv[7]);
  queue_out = atoi(argv[8]);
  torch_out = atoi(argv[9]);
  return work();
}
