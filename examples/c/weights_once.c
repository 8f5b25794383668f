/* Four workers use one copy of a model's weights. The first that opens the name loads the file, and
 * the others map the same memory. The worker that loaded is then killed, and a fifth one attaches
 * all the same.
 *
 * usage: weights_once [FILE DIRECTORY]   with arguments it is a worker; an empty FILE only attaches
 */
#define _XOPEN_SOURCE 700 /* kill, mkdtemp */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { kWorkers = 4, kFloats = 4000000 };

static char folder[] = "/tmp/tenon-weights-once-XXXXXX";
static char file[64];

struct worker {
  pid_t pid;
  FILE *stream;
};

static void must(int good, const char *what) {
  if (good) return;
  perror(what);
  exit(1);
}

/* A safetensors file of one tensor, as a model's weights come from a hub. */
static void write_file(void) {
  char header[128];
  const float value = 2.5F;
  int length = snprintf(header, sizeof header,
                        "{\"layer.weight\":{\"dtype\":\"F32\",\"shape\":[%d],"
                        "\"data_offsets\":[0,%d]}}",
                        kFloats, kFloats * 4);
  const uint64_t nbytes = (uint64_t)length;
  FILE *out = fopen(file, "wb");
  must(out != NULL && fwrite(&nbytes, 8, 1, out) == 1, file);
  must(fwrite(header, (size_t)length, 1, out) == 1, file);
  for (int i = 0; i < kFloats; i++) must(fwrite(&value, sizeof value, 1, out) == 1, file);
  must(fclose(out) == 0, file);
}

/* This process's share, in KiB, of the pages of the mapping at an address. */
static long pss_kib(const void *address) {
  const unsigned long wanted = (unsigned long)address;
  unsigned long begin, end;
  long pss = 0;
  int is_here = 0;
  char line[512];
  FILE *maps = fopen("/proc/self/smaps", "r");
  must(maps != NULL, "smaps");
  while (fgets(line, sizeof line, maps) != NULL) {
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
      is_here = begin <= wanted && wanted < end;
    else if (is_here && sscanf(line, "Pss: %ld kB", &pss) == 1)
      break;
  }
  fclose(maps);
  return pss;
}

static void work(const char *path, const char *directory, FILE *in, FILE *out) {
  tenon_error *err = NULL;
  tenon_shared_weights *weights = NULL;
  tenon_value *value = NULL;
  tenon_tensor *tensor = NULL;
  tenon_shared_weights_options options = {0};
  tenon_shared_weights_info info = {0};
  double sum = 0;
  char line[8];
  options.struct_size = sizeof options;
  options.directory = directory;
  info.struct_size = sizeof info;
  if (*path == '\0') path = NULL;
  tenon_status status = tenon_open_shared_weights(path, "model", &options, NULL, &weights, &err);
  if (status == TENON_OK) status = tenon_shared_weights_info_get(weights, &info, &err);
  if (status == TENON_OK)
    status = tenon_shared_weights_tensor(weights, "layer.weight", &value, &err);
  if (status == TENON_OK) status = tenon_value_get_tensor(value, &tensor, &err);
  if (status != TENON_OK) {
    fprintf(stderr, "weights_once: %s\n", tenon_error_message(err));
    exit(1);
  }
  const float *elements = tenon_tensor_data(tensor);
  for (uint64_t i = 0; i < tenon_tensor_numel(tensor); i++) sum += (double)elements[i];
  fprintf(out, "%u %.0f\n", info.loaded, sum);
  fflush(out);
  if (fgets(line, sizeof line, in) != NULL) { /* until all workers have read all weights */
    fprintf(out, "%ld\n", pss_kib(elements));
    fflush(out);
    while (fgetc(in) != EOF) continue; /* a worker would serve requests now */
  }
  tenon_tensor_release(tensor);
  tenon_value_release(value);
  tenon_shared_weights_release(weights);
  exit(0);
}

static struct worker start(const char *path) {
  struct worker worker;
  int ends[2];
  must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  fflush(stdout); /* or the child would print the lines again */
  worker.pid = fork();
  must(worker.pid >= 0, "fork");
  if (worker.pid == 0) {
    close(ends[0]);
    work(path, folder, fdopen(ends[1], "r"), fdopen(dup(ends[1]), "w"));
  }
  close(ends[1]);
  worker.stream = fdopen(ends[0], "r+");
  must(worker.stream != NULL, "fdopen");
  return worker;
}

/* Says something to a worker, and gives its answer. */
static const char *ask(struct worker worker, const char *say) {
  static char line[64];
  must(write(fileno(worker.stream), say, strlen(say)) == (ssize_t)strlen(say), "write");
  must(fgets(line, sizeof line, worker.stream) != NULL, "a worker");
  return line;
}

/* With SIGKILL the worker has no time to let go of anything. With 0 it ends in order. */
static void end(struct worker worker, int signal) {
  kill(worker.pid, signal);
  shutdown(fileno(worker.stream), SHUT_WR);
  waitpid(worker.pid, NULL, 0);
  fclose(worker.stream);
}

int main(int argc, char **argv) {
  struct worker workers[kWorkers], fifth;
  int loads = 0, loader = 0, loaded;
  long pss = 0;
  double sum = 0;
  if (argc == 3) work(argv[1], argv[2], stdin, stdout);
  must(mkdtemp(folder) != NULL, folder);
  snprintf(file, sizeof file, "%s/model.safetensors", folder);
  write_file();
  for (int i = 0; i < kWorkers; i++) workers[i] = start(file);
  for (int i = 0; i < kWorkers; i++) {
    must(sscanf(ask(workers[i], ""), "%d %lf", &loaded, &sum) == 2, "an answer");
    loads += loaded;
    if (loaded) loader = i;
  }
  printf("4 workers read %.0f, and %d of them loaded the file\n", sum, loads);
  for (int i = 0; i < kWorkers; i++) pss += atol(ask(workers[i], "\n"));
  printf("the file has %d KiB, and all workers together %ld KiB\n", kFloats / 256, pss);
  end(workers[loader], SIGKILL);
  must(unlink(file) == 0, file);
  fifth = start(""); /* without a path: it can only attach */
  must(sscanf(ask(fifth, ""), "%d %lf", &loaded, &sum) == 2, "an answer");
  printf("the loader was killed, and a new worker reads %.0f\n", sum);
  for (int i = 0; i < kWorkers; i++)
    if (i != loader) end(workers[i], 0);
  end(fifth, 0);
  /* The last process that let go of the weights removed the files of the name. */
  must(rmdir(folder) == 0, folder);
  return 0;
}
