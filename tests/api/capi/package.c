/* Tests tenon/package.h: packages that are written, read, and written again over a base. It also
   tests what the calls refuse. */
#include "archive_folder.h"

static tenon_package_options package_options(void) {
  tenon_package_options options;
  SIZED(options);
  return options;
}

static tenon_export_report report_of_nothing(void) {
  tenon_export_report report;
  memset(&report, 0x5a, sizeof(report));
  report.struct_size = sizeof(report);
  return report;
}

static tenon_package_entry module_entry(const char *name, const tenon_module *module) {
  tenon_package_entry entry;
  memset(&entry, 0, sizeof(entry));
  entry.name = name;
  entry.module = module;
  return entry;
}

static tenon_package_entry text_entry(const char *name, const char *text) {
  tenon_package_entry entry;
  memset(&entry, 0, sizeof(entry));
  entry.name = name;
  entry.data = text;
  entry.nbytes = strlen(text);
  return entry;
}

static tenon_module *new_net(const char *class_name, tenon_value *weight) {
  tenon_module *module = new_module(class_name);
  OK(tenon_module_add_parameter(module, "weight", weight, ERR));
  OK(tenon_module_define(
      module, "def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n",
      ERR));
  return module;
}

static tenon_package *open_package(const char *file) {
  tenon_package *package = NULL;
  OK(tenon_package_open(file, NULL, &package, ERR));
  return package;
}

static tenon_module *package_module(tenon_package *package, const char *name) {
  tenon_module *module = NULL;
  OK(tenon_package_module(package, name, &module, ERR));
  return module;
}

static int same_module(const tenon_module *a, const tenon_module *b) {
  tenon_value *first = NULL, *second = NULL;
  int same;
  OK(tenon_module_object(a, &first, ERR));
  OK(tenon_module_object(b, &second, ERR));
  same = first == second;
  tenon_value_release(first);
  tenon_value_release(second);
  return same;
}

static void modules_are(const tenon_package *package, const char *const *names, size_t n) {
  tenon_name_list *list = NULL;
  OK(tenon_package_modules(package, &list, ERR));
  names_are(list, names, n);
  tenon_name_list_release(list);
}

static int has_record(const tenon_package *package, const char *name) {
  tenon_name_list *list = NULL;
  size_t i;
  int found = 0;
  OK(tenon_package_records(package, &list, ERR));
  for (i = 0; i < tenon_name_list_count(list); i++)
    found += strcmp(tenon_name_list_get(list, i), name) == 0;
  tenon_name_list_release(list);
  return found;
}

static void record_is(const tenon_package *package, const char *name, const char *text) {
  tenon_file_list *list = NULL;
  tenon_file file;
  OK(tenon_package_read(package, name, &list, ERR));
  CHECK_EQ(tenon_file_list_count(list), 1);
  OK(tenon_file_list_get(list, 0, &file, ERR));
  CHECK(strcmp(file.name, name) == 0);
  if (file.nbytes != strlen(text) || memcmp(file.data, text, file.nbytes) != 0)
    check_fail(__FILE__, __LINE__, (const char *)file.data);
  tenon_file_list_release(list);
}

static uint64_t record_nbytes(const tenon_package *package, const char *name) {
  tenon_file_list *list = NULL;
  tenon_file file;
  OK(tenon_package_read(package, name, &list, ERR));
  OK(tenon_file_list_get(list, 0, &file, ERR));
  tenon_file_list_release(list);
  return file.nbytes;
}

/* models/a.pkl and models/b.pkl, whose modules share one weight, and notes/readme.txt. */
static void write_pair(const char *file) {
  tenon_value *weight = new_vector(8, 1);
  tenon_module *a = new_net("nets.a.A", weight), *b = new_net("nets.b.B", weight);
  tenon_package_entry entries[3];
  entries[0] = module_entry("models/a.pkl", a);
  entries[1] = module_entry("models/b.pkl", b);
  entries[2] = text_entry("notes/readme.txt", "two nets\n");
  OK(tenon_export_package(entries, 3, file, NULL, NULL, ERR));
  tenon_module_release(a);
  tenon_module_release(b);
  tenon_value_release(weight);
}

static void written_and_read(void) {
  static const char *const names[] = {"models/a.pkl", "models/b.pkl"};
  static const char *const externs[] = {"numpy", "a.b"};
  tenon_value *weight = new_vector(8, 1);
  tenon_module *a = new_net("nets.a.A", weight), *b = new_net("nets.b.B", weight), *first = NULL,
               *second = NULL, *by_id = NULL;
  tenon_package_options options = package_options();
  tenon_export_report report = report_of_nothing();
  tenon_package_entry entries[3];
  tenon_package *package = NULL;
  tenon_name_list *list = NULL;
  tenon_value *value = NULL;
  tenon_tensor *tensor = NULL, *other = NULL;
  struct stat info;
  make_folder("pair.pt");
  entries[0] = module_entry("models/a.pkl", a);
  entries[1] = module_entry("models/b.pkl", b);
  entries[2] = text_entry("notes/readme.txt", "two nets\n");
  options.externs = externs;
  options.n_externs = COUNT_OF(externs);
  options.archive_name = "inside";
  options.durability = TENON_DURABILITY_FILE_AND_DIRECTORY;
  options.flags = TENON_EXPORT_UNCHECKED | TENON_EXPORT_KEEP_DEVICE;
  OK(tenon_export_package(entries, 3, path, &options, &report, ERR));
  CHECK(stat(path, &info) == 0 && (uint64_t)info.st_size == report.nbytes);
  CHECK(report.struct_size == sizeof(report) && report.version == 10 && report.skipped_files == 0);

  package = open_package(path);
  modules_are(package, names, COUNT_OF(names));
  OK(tenon_package_records(package, &list, ERR));
  CHECK_EQ(tenon_name_list_count(list), report.records);
  tenon_name_list_release(list);
  record_is(package, "notes/readme.txt", "two nets\n");
  record_is(package, "byteorder", "little");
  record_is(package, ".data/extern_modules", "torch.jit._script\nnumpy\na.b\n");
  CHECK_EQ(record_nbytes(package, ".data/0.storage"), 8 * sizeof(float));
  CHECK(!has_record(package, ".data/1.storage"));

  /* A resource and an id name the same module, and the weight is in memory once. */
  first = package_module(package, "models/a.pkl");
  second = package_module(package, "models/b.pkl");
  by_id = package_module(package, "0");
  CHECK(same_module(first, by_id) && !same_module(first, second));
  value = value_at(first, "weight");
  OK(tenon_value_get_tensor(value, &tensor, ERR));
  tenon_value_release(value);
  value = value_at(second, "weight");
  OK(tenon_value_get_tensor(value, &other, ERR));
  tenon_value_release(value);
  CHECK(tenon_tensor_data(tensor) == tenon_tensor_data(other));
  tenon_tensor_release(tensor);
  tenon_tensor_release(other);
  tenon_module_release(by_id);
  tenon_module_release(second);

  /* The module stays usable without its package. */
  CHECK(tenon_package_retain(package) == package);
  tenon_package_release(package);
  modules_are(package, names, COUNT_OF(names));
  tenon_package_release(package);
  CHECK(first_at(first, "weight") == 1);
  tenon_module_release(first);
  CHECK(tenon_package_retain(NULL) == NULL);
  tenon_package_release(NULL);
  tenon_module_release(a);
  tenon_module_release(b);
  tenon_value_release(weight);
  remove_folder();
}

/* A package needs no modules, and a file may have any name that a record may have. */
static void only_files(void) {
  tenon_package_entry entries[3];
  tenon_package *package = NULL;
  tenon_module *module = NULL;
  make_folder("pair.pt");
  entries[0] = text_entry("readme.txt", "no nets\n");
  entries[1] = text_entry("a/b/empty", "");
  entries[1].data = NULL;
  entries[2] = text_entry("a/b/\xc3\xa4.txt", "UTF-8");
  OK(tenon_export_package(entries, 3, path, NULL, NULL, ERR));
  package = open_package(path);
  modules_are(package, NULL, 0);
  record_is(package, "readme.txt", "no nets\n");
  record_is(package, "a/b/empty", "");
  record_is(package, "a/b/\xc3\xa4.txt", "UTF-8");
  record_is(package, ".data/extern_modules", "torch.jit._script\n");
  FAILS_SAYING(TENON_NOT_FOUND, "name", "0", tenon_package_module(package, "0", &module, ERR));
  tenon_package_release(package);

  /* Nothing at all is a package, too. */
  OK(tenon_export_package(NULL, 0, path, NULL, NULL, ERR));
  package = open_package(path);
  modules_are(package, NULL, 0);
  CHECK(!has_record(package, "readme.txt"));
  tenon_package_release(package);
  remove_folder();
}

/* The new file replaces the file from which the base was opened. */
static void base_by_its_own_path(void) {
  static const char *const externs[] = {"numpy"};
  tenon_package_options options = package_options();
  tenon_export_report report = report_of_nothing();
  tenon_package_entry entries[2];
  tenon_package *package = NULL, *again = NULL;
  tenon_module *a = NULL, *b = NULL;
  tenon_value *weight = new_vector(4, 50);
  struct stat before, after;
  make_folder("pair.pt");
  write_pair(path);
  CHECK(stat(path, &before) == 0);
  package = open_package(path);
  a = package_module(package, "models/a.pkl");
  OK(tenon_module_set(a, "weight", weight, ERR));
  entries[0] = text_entry("notes/readme.txt", "changed\n");
  entries[1] = text_entry("notes/more.txt", "more\n");
  options.base = package;
  options.externs = externs;
  options.n_externs = 1;
  OK(tenon_export_package(entries, 2, path, &options, &report, ERR));
  CHECK(stat(path, &after) == 0 && after.st_ino != before.st_ino &&
        (uint64_t)after.st_size == report.nbytes);

  /* The old file is read still: it has its old records. */
  record_is(package, "notes/readme.txt", "two nets\n");
  b = package_module(package, "models/b.pkl");
  CHECK(first_at(b, "weight") == 1);
  tenon_module_release(a);
  tenon_module_release(b);
  again = open_package(path);
  a = package_module(again, "models/a.pkl");
  b = package_module(again, "models/b.pkl");
  CHECK(first_at(a, "weight") == 50 && first_at(b, "weight") == 1);
  record_is(again, "notes/readme.txt", "changed\n");
  record_is(again, "notes/more.txt", "more\n");
  record_is(again, ".data/extern_modules", "torch.jit._script\nnumpy\n");
  CHECK_EQ(record_nbytes(again, ".data/0.storage"), 8 * sizeof(float));
  CHECK_EQ(record_nbytes(again, ".data/1.storage"), 4 * sizeof(float));
  CHECK(!has_record(again, ".data/2.storage"));
  tenon_module_release(a);
  tenon_module_release(b);
  tenon_package_release(again);

  /* A failure leaves the file as it is. */
  entries[1].name = "notes/readme.txt";
  INVALID(tenon_export_package(entries, 2, path, &options, NULL, ERR));
  CHECK(stat(path, &before) == 0 && after.st_ino == before.st_ino &&
        after.st_size == before.st_size);
  tenon_package_release(package);
  tenon_value_release(weight);
  remove_folder();
}

/* A module of the base goes with its code when the only record that needs it is replaced. */
static void a_replaced_module_goes(void) {
  static const char *const both[] = {"models/b.pkl", "models/a.pkl"};
  static const char *const only_b[] = {"models/b.pkl"};
  tenon_package_options options = package_options();
  tenon_value *weight = new_vector(4, 50);
  tenon_module *net = new_net("nets.c.C", weight), *found = NULL, *first = NULL;
  tenon_package_entry entry = module_entry("models/a.pkl", net);
  tenon_package *base = NULL, *package = NULL;
  make_folder("pair.pt");
  write_pair(path);
  base = open_package(path);
  CHECK(has_record(base, ".data/ts_code/0/data.pkl") &&
        has_record(base, ".data/ts_code/1/data.pkl"));
  CHECK(has_record(base, ".data/ts_code/code/__torch__/nets/a.py"));
  options.base = base;
  OK(tenon_export_package(&entry, 1, other_path, &options, NULL, ERR));
  package = open_package(other_path);
  modules_are(package, both, COUNT_OF(both));
  CHECK(!has_record(package, ".data/ts_code/0/data.pkl") &&
        !has_record(package, ".data/ts_code/0/constants.pkl"));
  CHECK(has_record(package, ".data/ts_code/1/data.pkl") &&
        has_record(package, ".data/ts_code/2/data.pkl"));
  CHECK(!has_record(package, ".data/ts_code/code/__torch__/nets/a.py") &&
        has_record(package, ".data/ts_code/code/__torch__/nets/c.py"));
  CHECK_EQ(has_record(package, "models/a.pkl"), 1);
  found = package_module(package, "models/a.pkl");
  CHECK(first_at(found, "weight") == 50);
  tenon_module_release(found);
  found = package_module(package, "models/b.pkl");
  CHECK(first_at(found, "weight") == 1);
  tenon_module_release(found);
  FAILS_SAYING(TENON_NOT_FOUND, "name", "0", tenon_package_module(package, "0", &found, ERR));
  tenon_package_release(package);

  /* Both modules go, and their common storage goes with them. A file may replace a module. */
  {
    tenon_package_entry entries[2];
    entries[0] = text_entry("models/a.pkl", "no pickle");
    entries[1] = module_entry("models/b.pkl", net);
    OK(tenon_export_package(entries, 2, other_path, &options, NULL, ERR));
  }
  package = open_package(other_path);
  modules_are(package, only_b, COUNT_OF(only_b));
  record_is(package, "models/a.pkl", "no pickle");
  CHECK(!has_record(package, ".data/0.storage"));
  CHECK_EQ(record_nbytes(package, ".data/1.storage"), 4 * sizeof(float));
  tenon_package_release(package);

  /* A module of the base that moves to another name is the same module, with its id. */
  first = package_module(base, "models/a.pkl");
  entry = module_entry("models/b.pkl", first);
  OK(tenon_export_package(&entry, 1, other_path, &options, NULL, ERR));
  package = open_package(other_path);
  CHECK(has_record(package, ".data/ts_code/0/data.pkl") &&
        !has_record(package, ".data/ts_code/1/data.pkl"));
  CHECK(has_record(package, "models/a.pkl") && has_record(package, "models/b.pkl"));
  tenon_package_release(package);
  tenon_module_release(first);
  tenon_package_release(base);
  tenon_module_release(net);
  tenon_value_release(weight);
  remove_folder();
}

/* The package keeps the arena for the modules that are still to be read. */
static void arena_of_the_options(void) {
  tenon_arena_options arena_options;
  tenon_import_options options;
  tenon_package *package = NULL;
  tenon_module *module = NULL;
  memset(&arena_options, 0, sizeof(arena_options));
  memset(&options, 0, sizeof(options));
  arena_options.struct_size = sizeof(arena_options);
  arena_options.capacity_nbytes = 1 << 20;
  options.struct_size = sizeof(options);
  options.tensors = TENON_IMPORT_FILL;
  make_folder("pair.pt");
  write_pair(path);
  OK(tenon_arena_new(&arena_options, &options.arena, ERR));
  OK(tenon_package_open(path, &options, &package, ERR));
  tenon_arena_release(options.arena);
  module = package_module(package, "models/a.pkl");
  tenon_package_release(package);
  CHECK(first_at(module, "weight") == 1);
  tenon_module_release(module);
  remove_folder();
}

/* Refusals of tenon_package_open and of the calls that read a package. */
static void looking_refused(void) {
  tenon_package *package = NULL, *untouched = (tenon_package *)PATTERN;
  tenon_module *module = (tenon_module *)PATTERN, *mlp = new_mlp();
  tenon_name_list *names = (tenon_name_list *)PATTERN;
  tenon_file_list *files = (tenon_file_list *)PATTERN;
  tenon_import_options options;
  SIZED(options);
  make_folder("pair.pt");
  write_pair(path);
  INVALID_KEEPING(untouched, tenon_package_open(NULL, NULL, &untouched, ERR));
  INVALID(tenon_package_open(path, NULL, NULL, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, untouched, tenon_package_open(other_path, NULL, &untouched, ERR));
  INVALID_KEEPING(untouched, tenon_package_open(folder, NULL, &untouched, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID_KEEPING(untouched, tenon_package_open(path, &options, &untouched, ERR));
  options.struct_size = sizeof(options);
  options.tensors = 99;
  INVALID_KEEPING(untouched, tenon_package_open(path, &options, &untouched, ERR));
  options.tensors = TENON_IMPORT_MAP;
  options.flags = 1U << 31;
  FAILS_KEEPING(TENON_UNSUPPORTED, untouched, tenon_package_open(path, &options, &untouched, ERR));
  options.flags = 0;
  options.max_records = 3;
  FAILS_KEEPING(TENON_RESOURCE_EXHAUSTED, untouched,
                tenon_package_open(path, &options, &untouched, ERR));
  options.max_records = 0;
  options.flags = TENON_IMPORT_DEBUG_TABLES; /* has no effect */
  OK(tenon_package_open(path, &options, &package, ERR));

  INVALID_KEEPING(names, tenon_package_modules(NULL, &names, ERR));
  INVALID(tenon_package_modules(package, NULL, ERR));
  INVALID_KEEPING(names, tenon_package_records(NULL, &names, ERR));
  INVALID(tenon_package_records(package, NULL, ERR));
  INVALID_KEEPING(module, tenon_package_module(NULL, "0", &module, ERR));
  INVALID_KEEPING(module, tenon_package_module(package, NULL, &module, ERR));
  INVALID(tenon_package_module(package, "0", NULL, ERR));
  INVALID_KEEPING(module, tenon_package_module(package, "\xff", &module, ERR));
  INVALID_KEEPING(files, tenon_package_read(NULL, "byteorder", &files, ERR));
  INVALID_KEEPING(files, tenon_package_read(package, NULL, &files, ERR));
  INVALID(tenon_package_read(package, "byteorder", NULL, ERR));
  INVALID_KEEPING(files, tenon_package_read(package, "\xff", &files, ERR));

  /* The message of a module that is not there names those that are. A record has no second name. */
  FAILS_KEEPING(TENON_NOT_FOUND, module, tenon_package_module(package, "", &module, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, module,
                tenon_package_module(package, "notes/readme.txt", &module, ERR));
  FAILS_RAW(TENON_NOT_FOUND, TENON_NOT_FOUND,
            tenon_package_module(package, "models/c.pkl", &module, ERR));
  CHECK(strstr(tenon_error_message(check_error), "models/a.pkl, models/b.pkl") != NULL);
  tenon_error_release(check_error);
  FAILS_KEEPING(TENON_NOT_FOUND, files, tenon_package_read(package, "", &files, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, files, tenon_package_read(package, "pair/byteorder", &files, ERR));
  FAILS_SAYING(TENON_NOT_FOUND, "name", "models/c.pkl",
               tenon_package_read(package, "models/c.pkl", &files, ERR));
  CHECK(files == (tenon_file_list *)PATTERN);
  tenon_package_release(package);

  /* A module archive is a zip archive too, and no package. The converse is refused as well. */
  OK(tenon_export_module(mlp, other_path, NULL, NULL, ERR));
  FAILS_RAW(TENON_UNSUPPORTED, TENON_UNSUPPORTED,
            tenon_package_open(other_path, NULL, &untouched, ERR));
  CHECK(strstr(tenon_error_message(check_error), "tenon_import_module") != NULL);
  CHECK(untouched == (tenon_package *)PATTERN);
  tenon_error_release(check_error);
  FAILS_KEEPING(TENON_UNSUPPORTED, module, tenon_import_module(path, NULL, &module, ERR));
  {
    const int fd = open(other_path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "no archive\n", 11) == 11);
    close(fd);
  }
  FAILS_EITHER_KEEPING(TENON_UNSUPPORTED, TENON_CORRUPT, untouched,
                       tenon_package_open(other_path, NULL, &untouched, ERR));
  tenon_module_release(mlp);
  remove_folder();
}

/* Exports one entry, which is refused. Neither the report nor the file is touched. */
static void entry_refused(tenon_status code, tenon_package_entry entry) {
  tenon_export_report report = report_of_nothing();
  FAILS_KEEPING(code, report, tenon_export_package(&entry, 1, path, NULL, &report, ERR));
  CHECK(access(path, F_OK) != 0);
}

static void entries_refused(void) {
  static const char *const bad_names[] = {".data/x",   ".data",   ".data/ts_code/0/data.pkl",
                                          "byteorder", "version", "../x",
                                          "a/../x",    "/a/b",    "",
                                          "a//b",      "a/",      "./a",
                                          "a\\b",      "a\nb",    "\xff"};
  tenon_module *module = new_mlp();
  tenon_package_entry entry, entries[2];
  char long_name[5000];
  size_t i;
  make_folder("pair.pt");
  for (i = 0; i < COUNT_OF(bad_names); i++) {
    entry_refused(TENON_INVALID_ARGUMENT, text_entry(bad_names[i], "x"));
    entry_refused(TENON_INVALID_ARGUMENT, module_entry(bad_names[i], module));
  }
  memset(long_name, 'a', sizeof(long_name));
  long_name[1] = '/';
  long_name[sizeof(long_name) - 1] = '\0';
  entry_refused(TENON_INVALID_ARGUMENT, text_entry(long_name, "x"));
  entry_refused(TENON_INVALID_ARGUMENT, module_entry(NULL, module));
  entry_refused(TENON_INVALID_ARGUMENT, module_entry("a", module)); /* has no Python package */
  INVALID_SAYING("name", "../x",
                 (entry = module_entry("../x", module),
                  tenon_export_package(&entry, 1, path, NULL, NULL, ERR)));

  entry = module_entry("a/b", module);
  entry.reserved = 1;
  entry_refused(TENON_UNSUPPORTED, entry);
  entry = text_entry("a/b", "x");
  entry.reserved = UINT64_MAX;
  entry_refused(TENON_UNSUPPORTED, entry);
  entry = text_entry("a/b", "x");
  entry.module = module;
  entry_refused(TENON_INVALID_ARGUMENT, entry);
  entry.nbytes = 0;
  entry_refused(TENON_INVALID_ARGUMENT, entry);
  entry = module_entry("a/b", module);
  entry.nbytes = 1;
  entry_refused(TENON_INVALID_ARGUMENT, entry);
  entry = text_entry("a/b", "x");
  entry.data = NULL;
  entry_refused(TENON_INVALID_ARGUMENT, entry);

  entries[0] = module_entry("a/b", module);
  entries[1] = module_entry("a/b", module);
  INVALID_SAYING("name", "a/b", tenon_export_package(entries, 2, path, NULL, NULL, ERR));
  entries[1] = text_entry("a/b", "x");
  INVALID(tenon_export_package(entries, 2, path, NULL, NULL, ERR));
  entries[0] = text_entry("a/b", "x");
  INVALID(tenon_export_package(entries, 2, path, NULL, NULL, ERR));
  INVALID(tenon_export_package(NULL, 1, path, NULL, NULL, ERR));
  CHECK(access(path, F_OK) != 0);
  tenon_module_release(module);
  remove_folder();
}

static void options_refused(void) {
  static const char *const bad_externs[] = {"a b", "",     "a..b", ".a",  "a.",
                                            "a/b", "a\nb", "1a",   "\xff"};
  static const char *const bad_archive_names[] = {"", "a/b", ".", "..", "a\nb", "\xff"};
  const char *name = NULL;
  tenon_module *module = new_mlp();
  tenon_package_entry entry = module_entry("models/net.pkl", module);
  tenon_package_options options = package_options();
  tenon_export_report report = report_of_nothing();
  struct {
    tenon_package_options options;
    unsigned char newer[8];
  } larger;
  struct stat before, after;
  size_t i;
  make_folder("pair.pt");
  INVALID(tenon_export_package(&entry, 1, NULL, NULL, NULL, ERR));
  FAILS_SAYING(TENON_NOT_FOUND, "path", "nowhere",
               tenon_export_package(&entry, 1, "/tmp/tenon-nowhere/x.pt", NULL, NULL, ERR));
  INVALID(tenon_export_package(&entry, 1, folder, NULL, NULL, ERR));
  INVALID(tenon_export_package(&entry, 1, "", NULL, NULL, ERR));
  report.struct_size = sizeof(report) - 1;
  INVALID_KEEPING(report, tenon_export_package(&entry, 1, path, NULL, &report, ERR));
  options.struct_size = sizeof(options) - 1;
  INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));

  options = package_options();
  options.flags = TENON_EXPORT_DEBUG_TABLES;
  FAILS(TENON_UNSUPPORTED, tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  options.flags = TENON_EXPORT_FLATBUFFER;
  FAILS(TENON_UNSUPPORTED, tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  options.flags = 1U << 31;
  FAILS(TENON_UNSUPPORTED, tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  options = package_options();
  options.durability = TENON_DURABILITY_FILE_AND_DIRECTORY + 1;
  INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  options.durability = -1;
  INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));

  options = package_options();
  for (i = 0; i < COUNT_OF(bad_archive_names); i++) {
    options.archive_name = bad_archive_names[i];
    INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  }
  options = package_options();
  options.n_externs = 1;
  INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  options.externs = &name;
  INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  for (i = 0; i < COUNT_OF(bad_externs); i++) {
    name = bad_externs[i];
    INVALID(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  }
  CHECK(access(path, F_OK) != 0);

  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  OK(tenon_export_package(&entry, 1, path, &larger.options, NULL, ERR));
  larger.newer[7] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_export_package(&entry, 1, path, &larger.options, NULL, ERR));

  /* Code that PyTorch would refuse is refused, and the old file stays. */
  CHECK(stat(path, &before) == 0);
  OK(tenon_module_define(module, "def bad(self) -> int:\n  return nothing\n", ERR));
  INVALID_SAYING("excerpt", "nothing", tenon_export_package(&entry, 1, path, NULL, NULL, ERR));
  CHECK(stat(path, &after) == 0 && after.st_ino == before.st_ino &&
        after.st_size == before.st_size);
  options = package_options();
  options.flags = TENON_EXPORT_UNCHECKED;
  OK(tenon_export_package(&entry, 1, path, &options, NULL, ERR));
  tenon_module_release(module);
  remove_folder();
}

int main(void) {
  check_begin(240);
  RUN(written_and_read);
  RUN(only_files);
  RUN(base_by_its_own_path);
  RUN(a_replaced_module_goes);
  RUN(arena_of_the_options);
  RUN(looking_refused);
  RUN(entries_refused);
  RUN(options_refused);
  return 0;
}
