/*
 * Runs one test and records its circumstances if it fails or hangs. CTest starts every test by
 * this.
 *
 * usage: record --name NAME --timeout SECONDS --log-dir FOLDER [--cpu-log FILE]
 *               -- COMMAND [ARGUMENT...]
 *
 * A line with the milliseconds of CPU time that the command and the descendants for which it
 * waited took is added to FILE.
 *
 * record_state.py does the recording, so that a test that passes pays for nothing but a fork and
 * one look at /proc. The command keeps stdin, stdout and stderr, and its exit status or fatal
 * signal becomes record's own. All its descendants are found by three marks:
 *   - TENON_TEST_RUN in the environment has a value that no other run has,
 *   - the command leads a process group of its own,
 *   - a parent, or the leader of a session, is a descendant.
 * record is no subreaper: tests look at which process adopts an orphan.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

/* The exit status of a test that reached its limit, as that of timeout(1). */
enum { kExitLimit = 124, kExitUsage = 2, kNoCommand = 127 };
static const int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

struct run {
  const char* name;
  const char* log_dir;
  const char* cpu_log; /* NULL: none */
  double limit;
  char** command;
  char marker[512]; /* NAME=value; each descendant has it in its environment */
  pid_t child;
  double begin;
  int forwarded; /* a signal that record got and passed on */
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void usage(void) {
  fputs(
      "usage: record --name NAME --timeout SECONDS --log-dir FOLDER [--cpu-log FILE]\n"
      "              -- COMMAND [ARGUMENT...]\n",
      stderr);
  exit(kExitUsage);
}

static void parse(struct run* run, char** argv) {
  char** word = argv + 1;
  for (; *word != NULL && strcmp(*word, "--") != 0; word += 2) {
    if (word[1] == NULL) usage();
    if (strcmp(*word, "--name") == 0) {
      run->name = word[1];
    } else if (strcmp(*word, "--timeout") == 0) {
      run->limit = strtod(word[1], NULL);
    } else if (strcmp(*word, "--log-dir") == 0) {
      run->log_dir = word[1];
    } else if (strcmp(*word, "--cpu-log") == 0) {
      run->cpu_log = word[1];
    } else {
      usage();
    }
  }
  if (*word == NULL || word[1] == NULL || run->name == NULL || run->log_dir == NULL ||
      !(run->limit > 0))
    usage();
  run->command = word + 1;
}

/* The environment, with a new TENON_TEST_RUN in place of an outer record's. */
static char** marked_environment(struct run* run) {
  static const char kName[] = "TENON_TEST_RUN=";
  size_t count = 0, kept = 0, i;
  char** marked;
  while (environ[count] != NULL) ++count;
  marked = calloc(count + 2, sizeof(*marked));
  if (marked == NULL) abort();
  snprintf(run->marker, sizeof(run->marker), "%s%.300s:%ld:%.6f", kName, run->name, (long)getpid(),
           run->begin);
  marked[kept++] = run->marker;
  for (i = 0; i < count; ++i) {
    if (strncmp(environ[i], kName, sizeof(kName) - 1) != 0) marked[kept++] = environ[i];
  }
  return marked;
}

/* Not posix_spawn: glibc's version leaves two real-time signals ignored in the command. */
static pid_t spawn(char** words, char** environment, const sigset_t* mask, int leads) {
  const pid_t child = fork();
  if (child < 0) {
    perror("record: fork");
    exit(kNoCommand);
  }
  if (child == 0) {
    if (leads) setpgid(0, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe(words[0], words, environment);
    fprintf(stderr, "record: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(kNoCommand);
  }
  if (leads) setpgid(child, child); /* both processes call it, and the first one wins */
  return child;
}

static void start(struct run* run, const sigset_t* mask) {
  char** marked = marked_environment(run);
  run->child = spawn(run->command, marked, mask, 1);
  free(marked);
}

/* Whether the command ended before its limit. It stays a zombie, so that the number of its process
 * group belongs to nobody else. */
static int ended(struct run* run, const sigset_t* waited, siginfo_t* info) {
  for (;;) {
    const double left = run->begin + run->limit - now();
    struct timespec time;
    int sent;
    memset(info, 0, sizeof(*info));
    if (waitid(P_PID, (id_t)run->child, info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        info->si_pid == run->child)
      return 1;
    if (left <= 0) return 0;
    time.tv_sec = (time_t)left;
    time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
    sent = sigtimedwait(waited, NULL, &time);
    if (sent > 0 && sent != SIGCHLD) {
      run->forwarded = sent;
      kill(-run->child, sent);
    }
  }
}

/* Whether a process other than the command itself still has this run's mark. */
static int left_over(const struct run* run) {
  static char text[1 << 18];
  DIR* processes = opendir("/proc");
  const struct dirent* entry;
  int found = 0;
  if (processes == NULL) return 0;
  while (!found && (entry = readdir(processes)) != NULL) {
    char path[64];
    size_t size = 0;
    ssize_t n = 0;
    int fd;
    const long pid = strtol(entry->d_name, NULL, 10);
    if (pid <= 0 || pid == (long)run->child) continue;
    snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    while (size < sizeof(text) && (n = read(fd, text + size, sizeof(text) - size)) > 0)
      size += (size_t)n;
    close(fd);
    found = memmem(text, size, run->marker, strlen(run->marker) + 1) != NULL;
  }
  closedir(processes);
  return found;
}

/* Lets record_state.py report to stdout, and waits for it. Its environment has nothing that was set
 * for the test: it reads that in /proc. */
static void report(const struct run* run, const char* reason, int status, const sigset_t* mask) {
  char numbers[3][32], path[4096];
  const char* given = getenv("PATH");
  char* environment[2] = {path, NULL};
  const char* fixed[] = {"python3",   "-I",       "-S",        "-B",         TENON_RECORD_STATE,
                         "--name",    run->name,  "--log-dir", run->log_dir, "--reason",
                         reason,      "--status", numbers[0],  "--child",    numbers[1],
                         "--seconds", numbers[2], "--marker",  run->marker,  "--"};
  const size_t fixed_count = sizeof(fixed) / sizeof(fixed[0]);
  size_t count = 0;
  pid_t reporter;
  char** words;
  while (run->command[count] != NULL) ++count;
  words = calloc(fixed_count + count + 1, sizeof(*words));
  if (words == NULL) return;
  memcpy(words, fixed, sizeof(fixed));
  memcpy(words + fixed_count, run->command, count * sizeof(*words));
  snprintf(numbers[0], sizeof(numbers[0]), "%d", status);
  snprintf(numbers[1], sizeof(numbers[1]), "%ld", (long)run->child);
  snprintf(numbers[2], sizeof(numbers[2]), "%.1f", now() - run->begin);
  snprintf(path, sizeof(path), "PATH=%s", given != NULL ? given : "/usr/bin:/bin");
  reporter = spawn(words, environment, mask, 0);
  while (waitpid(reporter, NULL, 0) < 0 && errno == EINTR) continue;
  free(words);
}

/* The line is one write, because CTest runs several tests at once. */
static void log_cpu_time(const struct run* run) {
  struct rusage used;
  char line[512];
  long long milliseconds;
  const int fd = open(run->cpu_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  getrusage(RUSAGE_CHILDREN, &used);
  milliseconds = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000LL +
                 (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
  snprintf(line, sizeof(line), "%lld %.400s\n", milliseconds, run->name);
  if (write(fd, line, strlen(line)) < 0) perror("record: --cpu-log");
  close(fd);
}

/* Ends with the exit status or the signal of the command. */
static void end_as(const siginfo_t* info) {
  static const struct rlimit kNoCore = {0, 0};
  sigset_t one;
  if (info->si_code == CLD_EXITED) exit(info->si_status);
  /* Only the core file of the command is of interest. */
  setrlimit(RLIMIT_CORE, &kNoCore);
  sigemptyset(&one);
  sigaddset(&one, info->si_status);
  signal(info->si_status, SIG_DFL);
  raise(info->si_status);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  exit(128 + info->si_status);
}

int main(int argc, char** argv) {
  struct run run;
  sigset_t waited, mask;
  siginfo_t info;
  size_t i;
  if (argc < 2) usage();
  memset(&run, 0, sizeof(run));
  parse(&run, argv);
  run.begin = now();
  sigemptyset(&waited);
  sigaddset(&waited, SIGCHLD);
  for (i = 0; i < sizeof(kForwarded) / sizeof(kForwarded[0]); ++i)
    sigaddset(&waited, kForwarded[i]);
  sigprocmask(SIG_BLOCK, &waited, &mask);
  start(&run, &mask);

  if (!ended(&run, &waited, &info)) {
    report(&run, "limit", 0, &mask);
    kill(-run.child, SIGKILL);
    waitpid(run.child, NULL, 0);
    return kExitLimit;
  }
  if (run.forwarded == 0) {
    if (info.si_code != CLD_EXITED) {
      report(&run, "signal", info.si_status, &mask);
    } else if (info.si_status != 0 && info.si_status != 77) { /* 77: skipped */
      report(&run, "exit", info.si_status, &mask);
    } else if (left_over(&run)) {
      report(&run, "left", info.si_status, &mask);
    }
  }
  waitpid(run.child, NULL, 0);
  if (run.cpu_log != NULL) log_cpu_time(&run);
  end_as(&info);
}
