/* Tests tenon/archive.h: exports of modules to files, fds and functions give the same bytes.
 * Refused exports leave nothing behind.
 */
#include "archive_folder.h"

static size_t count_files(void) {
  DIR *dir = opendir(folder);
  const struct dirent *entry;
  size_t n = 0;
  CHECK(dir != NULL);
  while ((entry = readdir(dir)) != NULL) n += entry->d_name[0] != '.' || entry->d_name[1] == 't';
  closedir(dir);
  return n;
}

static tenon_export_options options_of(const char *archive_name) {
  tenon_export_options options;
  SIZED(options);
  options.archive_name = archive_name;
  return options;
}

static tenon_export_report report_of_nothing(void) {
  tenon_export_report report;
  memset(&report, 0x5a, sizeof(report));
  report.struct_size = sizeof(report);
  return report;
}

/* Checks that an MLP cannot be changed while it is exported. */
static void cannot_change(tenon_module *module) {
  static const char *const no_names[] = {"forward"};
  static const char *const paths[] = {"fc1.bias"};
  tenon_module *other = NULL;
  tenon_value *tensor = NULL, *number = NULL;
  CHECK(tenon_module_new("Other", &other, NULL) == TENON_OK &&
        tenon_value_new_int(1, &number, NULL) == TENON_OK);
  tensor = value_at(module, "fc1.bias");
  CHECK(tenon_module_add_parameter(module, "p", tensor, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_add_buffer(module, "p", tensor, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_add_attribute(module, "p", "int", number, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_add_constant(module, "p", "int", number, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_add_constant(module, "p", "Tensor", tensor, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_add_submodule(module, "p", other, NULL, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_define(module, "def f(self) -> int:\n  return 1\n", NULL) == TENON_PERMISSION);
  CHECK(tenon_module_define_types(module, "__torch__", "def f() -> int:\n  return 1\n", NULL) ==
        TENON_PERMISSION);
  CHECK(tenon_module_set_hooks(module, 0, no_names, 1, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_set_traced_inputs(module, "forward", &tensor, 1, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_set_extra_file(module, "x", "y", 1, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_remove_extra_file(module, "x", NULL) == TENON_PERMISSION);
  CHECK(tenon_module_set(module, "fc1.bias", tensor, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_set_submodule(module, "fc1", other, NULL) == TENON_PERMISSION);
  CHECK(tenon_module_remove(module, "fc1", NULL) == TENON_PERMISSION);
  CHECK(tenon_module_remove(module, "forward", NULL) == TENON_PERMISSION);
  CHECK(tenon_module_load(module, paths, &tensor, 1, TENON_LOAD_ALLOW_MISSING, NULL, NULL, NULL) ==
        TENON_PERMISSION);
  tenon_value_release(tensor);
  tenon_value_release(number);
  tenon_module_release(other);
}

/* The bytes that a writer received. The call with the number `fails_at` (from 1) returns `result`.
 */
struct writer {
  unsigned char *bytes;
  size_t nbytes;
  int calls;
  int fails_at;
  int64_t result;
  tenon_module *changes; /* every call tries to change this module */
};

static int64_t write_to(void *context, const void *data, size_t nbytes) {
  struct writer *writer = context;
  if (writer->changes != NULL) cannot_change(writer->changes);
  if (++writer->calls == writer->fails_at) return writer->result;
  writer->bytes = realloc(writer->bytes, writer->nbytes + nbytes);
  CHECK(writer->bytes != NULL);
  memcpy(writer->bytes + writer->nbytes, data, nbytes);
  writer->nbytes += nbytes;
  return (int64_t)nbytes;
}

static int same_as_file(const struct writer *writer, const char *name) {
  FILE *file = fopen(name, "re");
  size_t i;
  int same = file != NULL;
  for (i = 0; same && i < writer->nbytes; i++) same = fgetc(file) == writer->bytes[i];
  same = same && fgetc(file) == EOF;
  if (file != NULL) fclose(file);
  return same;
}

static void everywhere_the_same(void) {
  tenon_module *module = new_mlp(), *again = NULL;
  tenon_export_options options = options_of("net");
  tenon_export_report report = report_of_nothing(), other;
  struct writer writer;
  struct stat info;
  int fd, ends[2];
  char byte = '?';
  memset(&writer, 0, sizeof(writer));
  make_folder("net.pt");
  OK(tenon_module_set_extra_file(module, "labels.txt", "cat\ndog\n", 8, ERR));
  OK(tenon_export_module(module, path, NULL, &report, ERR));
  CHECK(stat(path, &info) == 0 && (uint64_t)info.st_size == report.nbytes);
  CHECK(report.struct_size == sizeof(report) && report.version == 10 && report.skipped_files == 0 &&
        report.records == 11);
  CHECK(memchr(report.oldest_pytorch, '\0', sizeof(report.oldest_pytorch)) != NULL &&
        strncmp(report.oldest_pytorch, "1.", 2) == 0);
  CHECK_EQ(count_files(), 1);

  other = report_of_nothing();
  OK(tenon_export_module_to(module, write_to, &writer, &options, &other, ERR));
  CHECK(other.nbytes == report.nbytes && other.records == report.records &&
        writer.nbytes == report.nbytes);
  CHECK(same_as_file(&writer, path));

  /* The export starts at the fd's position. */
  fd = open(other_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(fd >= 0 && write(fd, "!", 1) == 1 && lseek(fd, 0, SEEK_SET) == 0);
  OK(tenon_export_module_fd(module, fd, &options, NULL, ERR));
  CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)writer.nbytes);
  close(fd);
  CHECK(same_as_file(&writer, other_path));

  /* Replaces an old file, with an fsync of file and directory. The module that is read back exports
   * to the same file again. */
  options.durability = TENON_DURABILITY_FILE_AND_DIRECTORY;
  OK(tenon_import_module(path, NULL, &again, ERR));
  OK(tenon_export_module(again, other_path, &options, &other, ERR));
  CHECK(same_as_file(&writer, other_path) && other.version == 10);
  CHECK_EQ(count_files(), 2);
  tenon_module_release(again);

  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  options.durability = TENON_DURABILITY_NONE;
  OK(tenon_export_module_fd(module, ends[0], &options, NULL, ERR));
  CHECK(read(ends[1], &byte, 1) == 1 && byte == 'P');
  close(ends[1]);
  FAILS(TENON_PEER_GONE, tenon_export_module_fd(module, ends[0], &options, NULL, ERR));
  close(ends[0]);
  free(writer.bytes);
  tenon_module_release(module);
  remove_folder();
}

static void writer_fails(void) {
  static const struct {
    int64_t result;
    tenon_status code;
    const char *detail;
  } cases[] = {
      {-EIO, TENON_IO, "5"},
      {-ENOSPC, TENON_RESOURCE_EXHAUSTED, "28"},
      {-EPIPE, TENON_PEER_GONE, "32"},
      {0, TENON_IO, NULL},
      {1, TENON_IO, NULL},
      {INT64_MAX, TENON_IO, NULL},
      {INT64_MIN, TENON_IO, NULL},
  };
  tenon_module *module = new_mlp();
  tenon_export_report report = report_of_nothing();
  struct writer writer, whole;
  size_t i;
  int at;
  memset(&whole, 0, sizeof(whole));
  OK(tenon_export_module_to(module, write_to, &whole, NULL, NULL, ERR));
  CHECK(whole.calls >= 1);
  for (i = 0; i < COUNT_OF(cases); i++) {
    for (at = 1; at <= whole.calls; at += whole.calls > 1 ? whole.calls - 1 : 1) {
      tenon_error *error = NULL;
      memset(&writer, 0, sizeof(writer));
      writer.fails_at = at;
      writer.result = cases[i].result;
      CHECK_EQ(tenon_export_module_to(module, write_to, &writer, NULL, &report, &error),
               cases[i].code);
      check_error_shape(__FILE__, __LINE__, cases[i].code, error);
      CHECK(writer.calls == at && report.version == 0x5a5a5a5a);
      if (cases[i].detail != NULL)
        CHECK(strcmp(tenon_error_detail(error, "errno"), cases[i].detail) == 0);
      tenon_error_release(error);
      free(writer.bytes);
    }
  }
  memset(&writer, 0, sizeof(writer));
  writer.changes = module;
  OK(tenon_export_module_to(module, write_to, &writer, NULL, NULL, ERR));
  CHECK(writer.nbytes == whole.nbytes && memcmp(writer.bytes, whole.bytes, whole.nbytes) == 0);
  OK(tenon_module_remove(module, "fc1", ERR)); /* allowed again: the export is over */
  free(writer.bytes);
  free(whole.bytes);
  tenon_module_release(module);
}

/* The work of the hook. */
struct hooked {
  tenon_module *module;
  const tenon_file *files;
  size_t n;
  tenon_status status;
  int calls;
};

static tenon_status give_files(void *context, const tenon_module *module, const tenon_file **files,
                               size_t *n) {
  struct hooked *hooked = context;
  CHECK(module == hooked->module);
  cannot_change(hooked->module);
  *files = hooked->files;
  *n = hooked->n;
  hooked->calls++;
  return hooked->status;
}

static void extra_file_is(const tenon_file_list *list, size_t index, const char *name,
                          const char *text) {
  tenon_file file;
  OK(tenon_file_list_get(list, index, &file, ERR));
  if (strcmp(file.name, name) != 0 || file.nbytes != strlen(text) ||
      memcmp(file.data, text, file.nbytes) != 0)
    check_fail(__FILE__, __LINE__, file.name);
}

static void extra_files(void) {
  static const tenon_file mine[] = {{"a", "mine", 4}, {"sub/b", "mine", 4}},
                          hooks[] = {{"a", "hook", 4}, {"c", "hook", 4}, {"own", "hook", 4}};
  static const tenon_file twice[] = {{"a", "1", 1}, {"a", "2", 1}}, bad[] = {{"../a", "1", 1}},
                          no_name[] = {{NULL, "1", 1}}, no_data[] = {{"a", NULL, 1}};
  tenon_module *module = new_mlp(), *read = NULL;
  tenon_export_options options = options_of(NULL);
  tenon_export_report report = report_of_nothing();
  tenon_file_list *list = NULL;
  struct hooked hooked;
  memset(&hooked, 0, sizeof(hooked));
  make_folder("net.pt");
  OK(tenon_module_set_extra_file(module, "own", "own", 3, ERR));
  OK(tenon_module_set_extra_file(module, "a", "own", 3, ERR));
  hooked.module = module;
  hooked.files = hooks;
  hooked.n = COUNT_OF(hooks);
  options.extra_files = mine;
  options.n_extra_files = COUNT_OF(mine);
  options.hook = give_files;
  options.hook_context = &hooked;
  OK(tenon_export_module(module, path, &options, &report, ERR));
  CHECK(hooked.calls == 1 && report.skipped_files == 2);
  OK(tenon_import_module(path, NULL, &read, ERR));
  OK(tenon_module_extra_files(read, &list, ERR));
  CHECK_EQ(tenon_file_list_count(list), 4);
  extra_file_is(list, 0, "a", "mine");
  extra_file_is(list, 1, "sub/b", "mine");
  extra_file_is(list, 2, "own", "own");
  extra_file_is(list, 3, "c", "hook");
  tenon_file_list_release(list);
  tenon_module_release(read);
  CHECK(unlink(path) == 0);

  hooked.status = TENON_TIMEOUT;
  FAILS(TENON_TIMEOUT, tenon_export_module(module, path, &options, NULL, ERR));
  hooked.status = 99;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  hooked.status = TENON_OK;
  hooked.files = NULL;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  hooked.n = 0;
  OK(tenon_export_module(module, path, &options, NULL, ERR));
  CHECK(unlink(path) == 0);
  options.hook = NULL;
  options.n_extra_files = 2;
  options.extra_files = twice;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.n_extra_files = 1;
  options.extra_files = bad;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.extra_files = no_name;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.extra_files = no_data;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.extra_files = NULL;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  CHECK_EQ(count_files(), 0);
  tenon_module_release(module);
  remove_folder();
}

static void refused(void) {
  tenon_module *module = new_mlp();
  tenon_export_options options = options_of(NULL);
  tenon_export_report report = report_of_nothing();
  struct writer writer;
  struct {
    tenon_export_options options;
    unsigned char newer[8];
  } larger;
  struct stat before, after;
  int fds[2];
  memset(&writer, 0, sizeof(writer));
  make_folder("net.pt");
  INVALID(tenon_export_module(NULL, path, NULL, NULL, ERR));
  INVALID(tenon_export_module(module, NULL, NULL, NULL, ERR));
  INVALID(tenon_export_module_fd(NULL, 1, NULL, NULL, ERR));
  INVALID(tenon_export_module_fd(module, -1, NULL, NULL, ERR));
  INVALID(tenon_export_module_to(NULL, write_to, &writer, NULL, NULL, ERR));
  INVALID(tenon_export_module_to(module, NULL, &writer, NULL, NULL, ERR));
  CHECK(pipe(fds) == 0);
  INVALID_SAYING(
      "errno", "9",
      tenon_export_module_fd(module, fds[0], NULL, NULL, ERR)); /* not open for writing */
  close(fds[0]);
  close(fds[1]);

  report.struct_size = sizeof(report) - 1;
  INVALID_KEEPING(report, tenon_export_module(module, path, NULL, &report, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  OK(tenon_export_module(module, path, &larger.options, NULL, ERR));
  larger.newer[7] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_export_module(module, path, &larger.options, NULL, ERR));
  options = options_of(NULL);
  options.flags = 16;
  FAILS(TENON_UNSUPPORTED, tenon_export_module(module, path, &options, NULL, ERR));
  options = options_of(NULL);
  options.durability = 3;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.durability = TENON_DURABILITY_FILE;
  INVALID(tenon_export_module_to(module, write_to, &writer, &options, NULL, ERR));
  options = options_of("a/b");
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options = options_of("");
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options = options_of(NULL);
  options.file_version = 11;
  INVALID(tenon_export_module(module, path, &options, NULL, ERR));
  options.file_version = 3;
  OK(tenon_export_module(module, path, &options, NULL,
                         ERR)); /* no operator in the code means something else there */
  CHECK(stat(path, &before) == 0);
  OK(tenon_module_define(module, "def half(self, x: Tensor) -> Tensor:\n  return torch.div(x, 2)\n",
                         ERR));
  INVALID_SAYING("operator", "div", tenon_export_module(module, path, &options, NULL, ERR));
  CHECK(stat(path, &after) == 0 && after.st_ino == before.st_ino &&
        after.st_size == before.st_size); /* the old file stays */

  FAILS_SAYING(TENON_NOT_FOUND, "path", "nowhere",
               tenon_export_module(module, "/tmp/tenon-nowhere/x.pt", NULL, NULL, ERR));
  INVALID(tenon_export_module(module, folder, NULL, NULL, ERR));

  /* Code that PyTorch would refuse is refused, unless TENON_EXPORT_UNCHECKED is set. The export
   * fails, and not the definition. */
  OK(tenon_module_define(module, "def bad(self) -> int:\n  return nothing\n", ERR));
  INVALID_SAYING("excerpt", "nothing", tenon_export_module(module, other_path, NULL, NULL, ERR));
  INVALID_SAYING("line", "", tenon_export_module_to(module, write_to, &writer, NULL, NULL, ERR));
  CHECK(writer.calls == 0);
  options = options_of(NULL);
  options.flags = TENON_EXPORT_UNCHECKED;
  OK(tenon_export_module(module, other_path, &options, NULL, ERR));
  CHECK_EQ(count_files(), 2);
  tenon_module_release(module);
  remove_folder();
}

int main(void) {
  check_begin(240);
  RUN(everywhere_the_same);
  RUN(writer_fails);
  RUN(extra_files);
  RUN(refused);
  return 0;
}
