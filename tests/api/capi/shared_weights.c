/* Tests tenon/shared_weights.h within one process and its children: a name that is loaded, attached
   and left, tensors that equal those of tenon_open_weights, and what the calls refuse. The tests in
   tests/process/shared_weights kill and stop processes. */
#include "archive_folder.h"

static char rendezvous[64];

static const char *golden(void) {
  static char name[512];
  const char *source = getenv("TENON_SOURCE_DIR");
  CHECK(source != NULL); /* CTest sets it */
  snprintf(name, sizeof(name), "%s/tests/peers/golden/weights/torch-2.8.0.pt2", source);
  return name;
}

static tenon_shared_weights_options in_rendezvous(void) {
  tenon_shared_weights_options options;
  SIZED(options);
  options.directory = rendezvous;
  return options;
}

static tenon_wait seconds(int64_t count) {
  tenon_wait wait;
  SIZED(wait);
  wait.timeout_ns = count * 1000000000;
  return wait;
}

static tenon_shared_weights *open_shared(const char *file, const char *name) {
  const tenon_shared_weights_options options = in_rendezvous();
  const tenon_wait wait = seconds(30);
  tenon_shared_weights *weights = NULL;
  OK(tenon_open_shared_weights(file, name, &options, &wait, &weights, ERR));
  return weights;
}

static tenon_shared_weights_info info_of(const tenon_shared_weights *weights) {
  tenon_shared_weights_info info;
  SIZED(info);
  OK(tenon_shared_weights_info_get(weights, &info, ERR));
  return info;
}

static tenon_tensor *tensor_in(const tenon_value *value) {
  tenon_tensor *tensor = NULL;
  OK(tenon_value_get_tensor(value, &tensor, ERR));
  return tensor;
}

static tenon_tensor *shared_tensor(const tenon_shared_weights *weights, const char *name) {
  tenon_value *value = NULL;
  tenon_tensor *tensor;
  OK(tenon_shared_weights_tensor(weights, name, &value, ERR));
  tensor = tensor_in(value);
  tenon_value_release(value);
  return tensor;
}

static int files_left(void) {
  DIR *stream = opendir(rendezvous);
  struct dirent *entry;
  int count = 0;
  CHECK(stream != NULL);
  while ((entry = readdir(stream)) != NULL) count += entry->d_name[0] != '.';
  closedir(stream);
  return count;
}

static tenon_tensor_spec view_of(const tenon_tensor *tensor) {
  tenon_tensor_spec view;
  SIZED(view);
  OK(tenon_tensor_get_spec(tensor, &view, ERR));
  return view;
}

static void loads_and_attaches(void) {
  tenon_shared_weights *first = open_shared(golden(), "net");
  tenon_shared_weights *second = open_shared(golden(), "net");
  tenon_shared_weights *third = open_shared(NULL, "net");
  tenon_shared_weights_info info = info_of(first);
  tenon_tensor *here = shared_tensor(first, "weight"), *there = shared_tensor(third, "weight");
  struct stat file;
  CHECK(stat(golden(), &file) == 0);
  CHECK(info.loaded == 1 && info.serves == 1 && info.loader_pid == getpid());
  CHECK(info.server_pid == getpid() && info.version == 1 && info.count == 4);
  CHECK_EQ(info.file_nbytes, file.st_size);
  CHECK_EQ(info.file_mtime_ns, file.st_mtim.tv_sec * 1000000000LL + file.st_mtim.tv_nsec);
  CHECK(info.nbytes >= info.file_nbytes);
  CHECK(info_of(second).loaded == 0 && info_of(third).loaded == 0);
  CHECK(tenon_tensor_data(here) == tenon_tensor_data(there));
  CHECK_EQ(files_left(), 3);
  CHECK(tenon_shared_weights_retain(first) == first);
  tenon_shared_weights_release(first);
  tenon_shared_weights_release(first);
  tenon_shared_weights_release(second);
  tenon_tensor_release(here);
  tenon_shared_weights_release(third);
  /* The tensor still has the memory, so this process still hands the weights on. */
  CHECK_EQ(files_left(), 3);
  third = open_shared(NULL, "net");
  CHECK(info_of(third).loaded == 0 && info_of(third).serves == 1);
  tenon_shared_weights_release(third);
  CHECK(((const float *)tenon_tensor_data(there))[5] == 5.0F);
  tenon_tensor_release(there);
  CHECK_EQ(files_left(), 0);
}

static void equals_the_file(void) {
  tenon_shared_weights *shared = open_shared(golden(), "net");
  tenon_weights *plain = NULL;
  tenon_name_list *names = NULL, *plain_names = NULL;
  size_t i;
  OK(tenon_open_weights(golden(), NULL, &plain, ERR));
  OK(tenon_shared_weights_names(shared, &names, ERR));
  OK(tenon_weights_names(plain, &plain_names, ERR));
  CHECK_EQ(tenon_name_list_count(names), tenon_name_list_count(plain_names));
  CHECK(tenon_name_list_count(names) == 4);
  for (i = 0; i < tenon_name_list_count(names); i++) {
    const char *name = tenon_name_list_get(names, i);
    tenon_tensor *mine = shared_tensor(shared, name), *other;
    tenon_value *value = NULL;
    tenon_tensor_spec one, two;
    CHECK(strcmp(name, tenon_name_list_get(plain_names, i)) == 0);
    OK(tenon_weights_tensor(plain, name, &value, ERR));
    other = tensor_in(value);
    one = view_of(mine);
    two = view_of(other);
    CHECK(one.ndim == two.ndim && memcmp(&one.dtype, &two.dtype, sizeof(one.dtype)) == 0);
    CHECK(memcmp(one.sizes, two.sizes, (size_t)one.ndim * sizeof(int64_t)) == 0);
    CHECK(memcmp(one.strides, two.strides, (size_t)one.ndim * sizeof(int64_t)) == 0);
    CHECK(memcmp(tenon_tensor_data(mine), tenon_tensor_data(other), tenon_tensor_nbytes(mine)) ==
          0);
    tenon_tensor_release(mine);
    tenon_tensor_release(other);
    tenon_value_release(value);
  }
  tenon_name_list_release(names);
  tenon_name_list_release(plain_names);
  tenon_weights_release(plain);
  tenon_shared_weights_release(shared);
}

/* The values of the file are the texts of its metadata. */
static void has_a_text(const tenon_shared_weights *weights) {
  tenon_name_list *names = NULL;
  tenon_value *value = NULL;
  tenon_error *error = NULL;
  const char *text = NULL;
  size_t nbytes = 0;
  OK(tenon_shared_weights_value_names(weights, &names, ERR));
  CHECK(tenon_name_list_count(names) == 1);
  CHECK(strcmp(tenon_name_list_get(names, 0), "__metadata__.format") == 0);
  OK(tenon_shared_weights_value(weights, "__metadata__.format", &value, ERR));
  OK(tenon_value_get_str(value, &text, &nbytes, ERR));
  CHECK(nbytes == 2 && memcmp(text, "np", 2) == 0);
  CHECK(tenon_shared_weights_value(weights, "a", &value, &error) == TENON_NOT_FOUND);
  tenon_error_release(error);
  INVALID_KEEPING(names, tenon_shared_weights_value_names(NULL, &names, ERR));
  INVALID(tenon_shared_weights_value_names(weights, NULL, ERR));
  INVALID_KEEPING(value, tenon_shared_weights_value(weights, NULL, &value, ERR));
  INVALID(tenon_shared_weights_value(weights, "a", NULL, ERR));
  tenon_name_list_release(names);
  tenon_value_release(value);
}

/* The tensors of a safetensors file begin at multiples of 64 bytes, whatever the header's size. */
static void safetensors_are_aligned(void) {
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"np\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} ";
  const uint64_t header_nbytes = sizeof(header) - 1;
  const float elements[] = {1.5F, 2.5F};
  const tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *weights = NULL;
  tenon_error *error = NULL;
  tenon_tensor *tensor;
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(&header_nbytes, 8, 1, file) == 1);
  CHECK(fwrite(header, header_nbytes, 1, file) == 1 && fwrite(elements, 8, 1, file) == 1);
  CHECK(fclose(file) == 0);
  if (tenon_open_shared_weights(path, "flat", &options, NULL, &weights, &error) != TENON_OK) {
    /* A build without JSON does not read the form. A failed load leaves nothing. */
    CHECK(tenon_error_code(error) == TENON_UNSUPPORTED);
    CHECK(strstr(tenon_error_message(error), "this build of Tenon") != NULL);
    tenon_error_release(error);
  } else {
    tensor = shared_tensor(weights, "a");
    CHECK((uintptr_t)tenon_tensor_data(tensor) % 64 == 0);
    CHECK(memcmp(tenon_tensor_data(tensor), elements, sizeof(elements)) == 0);
    tenon_tensor_release(tensor);
    has_a_text(weights);
    tenon_shared_weights_release(weights);
  }
  CHECK_EQ(files_left(), 0);
  unlink(path);
}

/* Nobody can make the memory writable, not even the process that loaded it. */
static void is_read_only(void) {
  tenon_shared_weights *weights = open_shared(golden(), "net");
  tenon_tensor *tensor = shared_tensor(weights, "weight");
  const tenon_storage *storage = tenon_tensor_storage(tensor);
  const uintptr_t page = (uintptr_t)tenon_tensor_data(tensor) & ~(uintptr_t)4095;
  CHECK(tenon_storage_mode(storage) == TENON_MODE_FROZEN && tenon_storage_is_read_only(storage));
  errno = 0;
  CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
  tenon_tensor_release(tensor);
  tenon_shared_weights_release(weights);
}

/* Sends a tensor to this process, which has the memory already. */
static void send_around(tenon_tensor *tensor) {
  tenon_connection *lender = NULL, *borrower = NULL;
  tenon_message *message = NULL, *got = NULL;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  OK(tenon_connection_new(ends[0], NULL, &lender, ERR));
  OK(tenon_connection_new(ends[1], NULL, &borrower, ERR));
  OK(tenon_message_new(&message, ERR));
  OK(tenon_message_add(message, &tensor, NULL, 1, NULL, ERR));
  OK(tenon_send(lender, message, NULL, ERR));
  OK(tenon_recv(borrower, NULL, &got, ERR));
  CHECK(tenon_tensor_data(tenon_message_tensor(got, 0)) == tenon_tensor_data(tensor));
  tenon_message_release(got);
  tenon_message_release(message);
  tenon_connection_release(lender);
  tenon_connection_release(borrower);
  close(ends[0]);
  close(ends[1]);
}

static void in_a_message(void) {
  tenon_shared_weights *weights = open_shared(golden(), "net");
  tenon_tensor *tensor = shared_tensor(weights, "weight");
  send_around(tensor);
  tenon_tensor_release(tensor);
  tenon_shared_weights_release(weights);
}

struct seen {
  int calls;
  uint64_t first, last, total;
};

static void see(void *context, uint64_t done, uint64_t total) {
  struct seen *seen = context;
  if (seen->calls++ == 0) seen->first = done;
  seen->last = done;
  seen->total = total;
}

static void tells_its_progress(void) {
  tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *weights = NULL;
  struct seen seen = {0, 0, 0, 0};
  options.progress = see;
  options.progress_context = &seen;
  OK(tenon_open_shared_weights(golden(), "net", &options, NULL, &weights, ERR));
  CHECK(seen.calls == 2 && seen.first == 0 && seen.last == seen.total);
  CHECK_EQ(seen.total, info_of(weights).file_nbytes);
  tenon_shared_weights_release(weights);
}

/* A forked child reads what it has inherited, and is no holder. What it opens itself is its own. */
static void in_a_child(void) {
  tenon_shared_weights *weights = open_shared(golden(), "net");
  tenon_tensor *tensor = shared_tensor(weights, "weight");
  int status;
  pid_t child;
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    tenon_shared_weights *own;
    CHECK(((const float *)tenon_tensor_data(tensor))[5] == 5.0F);
    CHECK(info_of(weights).serves == 0 && info_of(weights).server_pid == 0);
    own = open_shared(golden(), "net");
    CHECK(info_of(own).loaded == 0 && info_of(own).serves == 0);
    CHECK(info_of(own).server_pid == getppid() && info_of(own).holders == 2);
    tenon_shared_weights_release(own);
    tenon_tensor_release(tensor);
    tenon_shared_weights_release(weights);
    CHECK_EQ(files_left(), 3);
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(info_of(weights).serves == 1);
  tenon_tensor_release(tensor);
  tenon_shared_weights_release(weights);
  CHECK_EQ(files_left(), 0);
}

static void copy_file(const char *from, const char *to) {
  char bytes[65536];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  size_t nbytes;
  CHECK(in != NULL && out != NULL);
  while ((nbytes = fread(bytes, 1, sizeof(bytes), in)) > 0)
    CHECK(fwrite(bytes, 1, nbytes, out) == nbytes);
  CHECK(fclose(in) == 0 && fclose(out) == 0);
}

/* A name keeps the version of the file that was loaded. */
static void other_versions_are_refused(void) {
  static const struct timespec times[2] = {{1000, 0}, {1000, 500}};
  const tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *weights, *none = PATTERN, *newest;
  char pid[16];
  snprintf(pid, sizeof(pid), "%d", (int)getpid());
  copy_file(golden(), path);
  weights = open_shared(path, "net");
  CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
  FAILS_SAYING(TENON_PERMISSION, "field", "mtime_ns",
               tenon_open_shared_weights(path, "net", &options, NULL, &none, ERR));
  FAILS_SAYING(TENON_PERMISSION, "pid", pid,
               tenon_open_shared_weights(path, "net", &options, NULL, &none, ERR));
  CHECK(truncate(path, 100) == 0);
  FAILS_SAYING(TENON_PERMISSION, "field", "nbytes",
               tenon_open_shared_weights(path, "net", &options, NULL, &none, ERR));
  CHECK(none == PATTERN);
  /* Without a path the lent version is good, and the new file has room under another name. */
  newest = open_shared(NULL, "net");
  tenon_shared_weights_release(newest);
  copy_file(golden(), path);
  newest = open_shared(path, "net-2");
  CHECK(info_of(newest).loaded == 1);
  tenon_shared_weights_release(newest);
  tenon_shared_weights_release(weights);
  CHECK_EQ(files_left(), 0);
  unlink(path);
}

static void refused(void) {
  tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *none = PATTERN, *weights;
  tenon_shared_weights_info info;
  tenon_value *found = PATTERN;
  tenon_name_list *list = PATTERN;
  static const char *const devices[] = {"", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:0 ", "CPU"};
  char name[256];
  size_t i;
  for (i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
    options.device = devices[i];
    FAILS_SAYING(TENON_INVALID_ARGUMENT, "field", "device",
                 tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  }
  /* Such a name is that of "net" on a device. */
  options.device = "cpu";
  INVALID_KEEPING(
      none, tenon_open_shared_weights(golden(), "net@cuda-00112233-4455-6677-8899-aabbccddeeff",
                                      &options, NULL, &none, ERR));
  options.device = NULL;
  INVALID(tenon_open_shared_weights(golden(), "net", &options, NULL, NULL, ERR));
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), NULL, &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "", &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), ".a", &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "a/b", &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "a\nb", &options, NULL, &none, ERR));
  memset(name, 'n', sizeof(name));
  name[201] = '\0';
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), name, &options, NULL, &none, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, none,
                tenon_open_shared_weights("/nowhere/net.pt2", "net", &options, NULL, &none, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, none,
                tenon_open_shared_weights(NULL, "net", &options, NULL, &none, ERR));
  options.max_nbytes = 10;
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "max_nbytes",
               tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options = in_rendezvous();
  options.group = 1;
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options.flags = TENON_SHARED_WEIGHTS_GROUP;
  options.directory = NULL;
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options.flags = 1U << 31;
  FAILS_KEEPING(TENON_UNSUPPORTED, none,
                tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options = in_rendezvous();
  options.directory = "relative";
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options.directory = "/nowhere/at/all";
  FAILS_KEEPING(TENON_NOT_FOUND, none,
                tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  options = in_rendezvous();
  /* A file that is no weights is loaded, refused, and leaves nothing. */
  copy_file("/proc/self/exe", path);
  FAILS_KEEPING(TENON_CORRUPT, none,
                tenon_open_shared_weights(path, "net", &options, NULL, &none, ERR));
  CHECK(truncate(path, 0) == 0);
  INVALID_KEEPING(none, tenon_open_shared_weights(path, "net", &options, NULL, &none, ERR));
  unlink(path);
  CHECK_EQ(files_left(), 0);

  weights = open_shared(golden(), "net");
  FAILS_KEEPING(TENON_NOT_FOUND, found, tenon_shared_weights_tensor(weights, "wait", &found, ERR));
  INVALID_KEEPING(found, tenon_shared_weights_tensor(weights, NULL, &found, ERR));
  INVALID_KEEPING(found, tenon_shared_weights_tensor(NULL, "weight", &found, ERR));
  INVALID(tenon_shared_weights_tensor(weights, "weight", NULL, ERR));
  INVALID_KEEPING(list, tenon_shared_weights_names(NULL, &list, ERR));
  INVALID(tenon_shared_weights_names(weights, NULL, ERR));
  SIZED(info);
  INVALID_KEEPING(info, tenon_shared_weights_info_get(NULL, &info, ERR));
  INVALID(tenon_shared_weights_info_get(weights, NULL, ERR));
  tenon_shared_weights_release(weights);
  tenon_shared_weights_release(NULL);
  CHECK(tenon_shared_weights_retain(NULL) == NULL);
}

static void publishes(void) {
  tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *old = open_shared(golden(), "net"), *next = NULL, *none = NULL;
  const char *names[2] = {"a", NULL};
  tenon_value *values[2] = {NULL, NULL};
  tenon_wait wait = seconds(0);
  uint64_t version = 7;
  int fd = -1;
  FAILS_KEEPING(TENON_WOULD_BLOCK, version,
                tenon_shared_weights_changed(old, &wait, &version, ERR));
  wait = seconds(30);
  OK(tenon_publish_shared_weights(golden(), "net", &options, &wait, &next, ERR));
  CHECK(info_of(next).version == 2 && info_of(next).loaded == 1 && info_of(next).serves == 1);
  OK(tenon_shared_weights_changed(old, &wait, &version, ERR));
  CHECK_EQ(version, 2);
  OK(tenon_shared_weights_changed(old, NULL, NULL, ERR));
  OK(tenon_shared_weights_changed_fd(old, &fd, ERR));
  CHECK(fd >= 0);
  tenon_shared_weights_release(next);

  next = NULL;
  OK(tenon_shared_weights_tensor(old, "weight", &values[0], ERR));
  options.device = "cuda:0";
  FAILS_SAYING(
      TENON_UNSUPPORTED, "option", "device",
      tenon_publish_shared_weights_values(names, values, 1, "net", &options, &wait, &next, ERR));
  options.device = NULL;
  /* A build without JSON does not write the form. */
  if (tenon_publish_shared_weights_values(names, values, 1, "net", &options, &wait, &next, NULL) ==
      TENON_UNSUPPORTED)
    CHECK(next == NULL);
  else
    CHECK(next != NULL && info_of(next).version == 3 && info_of(next).count == 1);

  INVALID_KEEPING(none, tenon_publish_shared_weights(NULL, "net", &options, NULL, &none, ERR));
  INVALID(tenon_publish_shared_weights(golden(), "net", &options, NULL, NULL, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, none,
                tenon_publish_shared_weights("/nowhere", "net", &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_publish_shared_weights_values(names, values, 0, "net", &options, NULL,
                                                            &none, ERR));
  INVALID_KEEPING(none, tenon_publish_shared_weights_values(names, values, 2, "net", &options, NULL,
                                                            &none, ERR));
  INVALID_KEEPING(none, tenon_publish_shared_weights_values(NULL, values, 1, "net", &options, NULL,
                                                            &none, ERR));
  INVALID(tenon_publish_shared_weights_values(names, values, 1, "net", &options, NULL, NULL, ERR));
  INVALID_KEEPING(version, tenon_shared_weights_changed(NULL, NULL, &version, ERR));
  INVALID_KEEPING(fd, tenon_shared_weights_changed_fd(NULL, &fd, ERR));
  INVALID(tenon_shared_weights_changed_fd(old, NULL, ERR));
  tenon_value_release(values[0]);
  tenon_shared_weights_release(next);
  tenon_shared_weights_release(old);
  CHECK_EQ(files_left(), 0);
}

/* Versions with REUSE are read-only too. tests/process/shared_weights tests which memory they have.
 */
static void writes_memory_again(void) {
  tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *first = open_shared(golden(), "net"), *made[4] = {NULL}, *none = NULL;
  const char *name = "weight";
  tenon_value *value = NULL;
  tenon_tensor *tensors[4] = {NULL};
  tenon_error *error = NULL;
  int i;
  options.flags = TENON_SHARED_WEIGHTS_REUSE;
  INVALID_KEEPING(none, tenon_open_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_publish_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  OK(tenon_shared_weights_tensor(first, "weight", &value, ERR));
  for (i = 0; i < 4; i++) {
    if (tenon_publish_shared_weights_values(&name, &value, 1, "net", &options, NULL, &made[i],
                                            &error) != TENON_OK) {
      /* A build without JSON does not write the form. */
      CHECK(i == 0 && tenon_error_code(error) == TENON_UNSUPPORTED);
      tenon_error_release(error);
      break;
    }
    tensors[i] = shared_tensor(made[i], "weight");
    CHECK(tenon_storage_mode(tenon_tensor_storage(tensors[i])) == TENON_MODE_LENDER_WRITES);
    CHECK(tenon_storage_is_read_only(tenon_tensor_storage(tensors[i])));
    CHECK(((const float *)tenon_tensor_data(tensors[i]))[5] == 5.0F);
    send_around(tensors[i]);
    if (i == 0) continue;
    tenon_shared_weights_release(made[i - 1]);
    tenon_tensor_release(tensors[i - 1]);
  }
  if (made[3] != NULL) {
    const uintptr_t page = (uintptr_t)tenon_tensor_data(tensors[3]) & ~(uintptr_t)4095;
    CHECK(info_of(made[3]).version == 5);
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES);
    tenon_shared_weights_release(made[3]);
    tenon_tensor_release(tensors[3]);
  }
  tenon_value_release(value);
  tenon_shared_weights_release(first);
  CHECK_EQ(files_left(), 0);
}

/* All names of the directory count, and so does each version that a process has. */
static void keeps_to_a_budget(void) {
  tenon_shared_weights_options options = in_rendezvous();
  tenon_shared_weights *first = open_shared(golden(), "net"), *second = NULL, *none = NULL;
  const uint64_t nbytes = info_of(first).file_nbytes;
  tenon_error *error = NULL;
  char text[32];
  options.budget_nbytes = 2 * nbytes - 1;
  snprintf(text, sizeof(text), "%llu", (unsigned long long)nbytes);
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "budget_nbytes",
               tenon_open_shared_weights(golden(), "other", &options, NULL, &none, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "wanted", text,
               tenon_publish_shared_weights(golden(), "net", &options, NULL, &none, ERR));
  CHECK(tenon_open_shared_weights(golden(), "other", &options, NULL, &none, &error) ==
        TENON_RESOURCE_EXHAUSTED);
  CHECK(strstr(tenon_error_message(error), "\"net\" with ") != NULL);
  tenon_error_release(error);
  CHECK(none == NULL);
  CHECK_EQ(files_left(), 3);
  /* A process that only attaches loads nothing. */
  OK(tenon_open_shared_weights(golden(), "net", &options, NULL, &second, ERR));
  tenon_shared_weights_release(second);
  options.budget_nbytes = 2 * nbytes;
  OK(tenon_publish_shared_weights(golden(), "net", &options, NULL, &second, ERR));
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "wanted", text,
               tenon_open_shared_weights(golden(), "other", &options, NULL, &none, ERR));
  /* Version 1 goes, and so there is room. */
  tenon_shared_weights_release(first);
  OK(tenon_open_shared_weights(golden(), "other", &options, NULL, &none, ERR));
  tenon_shared_weights_release(none);
  tenon_shared_weights_release(second);
  CHECK_EQ(files_left(), 0);
}

/* The directory of the default belongs to this user alone, and goes with the last name. */
static void in_the_default_directory(void) {
  tenon_shared_weights *weights = NULL;
  struct stat found;
  char name[64], directory[64];
  snprintf(name, sizeof(name), "test-%d", (int)getpid());
  snprintf(directory, sizeof(directory), "/dev/shm/tenon-weights-%u", (unsigned)geteuid());
  OK(tenon_open_shared_weights(golden(), name, NULL, NULL, &weights, ERR));
  CHECK(stat(directory, &found) == 0 && (found.st_mode & 0777) == 0700);
  tenon_shared_weights_release(weights);
}

int main(void) {
  check_begin(120);
  make_folder("net.pt2");
  snprintf(rendezvous, sizeof(rendezvous), "/dev/shm/tenon-test-XXXXXX");
  CHECK(mkdtemp(rendezvous) != NULL);
  RUN(loads_and_attaches);
  RUN(equals_the_file);
  RUN(safetensors_are_aligned);
  RUN(is_read_only);
  RUN(in_a_message);
  RUN(tells_its_progress);
  RUN(in_a_child);
  RUN(other_versions_are_refused);
  RUN(refused);
  RUN(publishes);
  RUN(writes_memory_again);
  RUN(keeps_to_a_budget);
  RUN(in_the_default_directory);
  CHECK(rmdir(rendezvous) == 0);
  remove_folder();
  return 0;
}
