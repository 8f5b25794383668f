/* Four workers use one copy of a model's weights. The first that opens the name loads the file, and
 * the others map the same memory. The worker that loaded is then killed, and a fifth one attaches
 * all the same. */
#define _XOPEN_SOURCE 700 /* kill, mkdtemp */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { kWorkers = 4, kFloats = 1000000 };

static char folder[] = "/tmp/tenon-weights-once-XXXXXX";
static char file[64];

/* What a worker tells about itself. */
struct answer {
  int loaded;
  double sum;
};

struct worker {
  pid_t pid;
  int answers; /* the end of a pipe */
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

static void work(const char *path, int answers) {
  tenon_error *err = NULL;
  tenon_shared_weights *weights = NULL;
  tenon_value *value = NULL;
  tenon_tensor *tensor = NULL;
  tenon_shared_weights_options options = {0};
  tenon_shared_weights_info info = {0};
  struct answer answer = {0, 0};
  options.struct_size = sizeof options;
  options.directory = folder;
  info.struct_size = sizeof info;
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
  for (uint64_t i = 0; i < tenon_tensor_numel(tensor); i++) answer.sum += (double)elements[i];
  answer.loaded = (int)info.loaded;
  must(write(answers, &answer, sizeof answer) == (ssize_t)sizeof answer, "write");
  pause(); /* a worker would serve requests now */
}

static struct worker start(const char *path) {
  struct worker worker;
  int ends[2];
  must(pipe(ends) == 0, "pipe");
  worker.pid = fork();
  must(worker.pid >= 0, "fork");
  if (worker.pid == 0) {
    close(ends[0]);
    work(path, ends[1]);
  }
  close(ends[1]);
  worker.answers = ends[0];
  return worker;
}

static struct answer ask(struct worker worker) {
  struct answer answer;
  must(read(worker.answers, &answer, sizeof answer) == (ssize_t)sizeof answer, "a worker");
  return answer;
}

static void end(struct worker worker) {
  kill(worker.pid, SIGKILL);
  waitpid(worker.pid, NULL, 0);
  close(worker.answers);
}

int main(void) {
  struct worker workers[kWorkers], fifth;
  int loads = 0, loader = 0;
  double sum = 0;
  must(mkdtemp(folder) != NULL, folder);
  snprintf(file, sizeof file, "%s/model.safetensors", folder);
  write_file();
  for (int i = 0; i < kWorkers; i++) workers[i] = start(file);
  for (int i = 0; i < kWorkers; i++) {
    struct answer answer = ask(workers[i]);
    loads += answer.loaded;
    if (answer.loaded) loader = i;
    sum = answer.sum;
  }
  printf("4 workers read %.1f, and %d of them loaded the file\n", sum, loads);
  end(workers[loader]);
  must(unlink(file) == 0, file);
  fifth = start(NULL); /* without a path: it can only attach */
  printf("the loader was killed, and a new worker reads %.1f\n", ask(fifth).sum);
  for (int i = 0; i < kWorkers; i++)
    if (i != loader) end(workers[i]);
  end(fifth);
  /* The last process was killed, so the files of the name are left. */
  static const char *const endings[] = {"sock", "lock", "hold"};
  for (int i = 0; i < 3; i++) {
    char path[80];
    snprintf(path, sizeof path, "%s/model.%s", folder, endings[i]);
    unlink(path);
  }
  must(rmdir(folder) == 0, folder);
  return 0;
}
