/* Tests tenon/archive.h: the bytecode that an export keeps, drops or makes, the operators that it
 * calls, and debug tables. */
#include "module_kit.h"

/* The golden archive has bytecode of one function, and 6 debug tables. */
static const char *golden(void) {
  static char name[512];
  const char *source = getenv("TENON_SOURCE_DIR");
  CHECK(source != NULL); /* CTest sets it */
  snprintf(name, sizeof(name), "%s/tests/peers/golden/lite/mlp-2.15.ptl", source);
  return name;
}

static tenon_export_options options_of(int32_t bytecode, const char *methods) {
  tenon_export_options options;
  SIZED(options);
  options.bytecode = bytecode;
  options.methods = methods;
  return options;
}

static int64_t count(void *context, const void *data, size_t nbytes) {
  (void)data;
  *(uint64_t *)context += nbytes;
  return (int64_t)nbytes;
}

static tenon_export_report report_of(const tenon_module *module,
                                     const tenon_export_options *options) {
  tenon_export_report report;
  uint64_t nbytes = 0;
  memset(&report, 0x5a, sizeof(report));
  report.struct_size = sizeof(report);
  OK(tenon_export_module_to(module, count, &nbytes, options, &report, ERR));
  CHECK_EQ(report.nbytes, nbytes);
  return report;
}

static uint32_t functions_of(const tenon_module *module, int32_t bytecode, const char *methods) {
  const tenon_export_options options = options_of(bytecode, methods);
  return report_of(module, &options).bytecode_functions;
}

/* The method forward calls relu, and both methods call forward and add. */
static tenon_module *new_two_methods(void) {
  tenon_module *module = new_module("Two");
  OK(tenon_module_define(module,
                         "def forward(self, x: Tensor) -> Tensor:\n"
                         "  return torch.relu(x)\n"
                         "def both(self, x: Tensor) -> Tensor:\n"
                         "  return torch.add(self.forward(x), x)\n",
                         ERR));
  return module;
}

static void made_kept_and_dropped(void) {
  struct bytes bytes = {NULL, 0};
  const tenon_export_options options = options_of(TENON_BYTECODE_COMPILE, "forward");
  tenon_module *module = new_two_methods(), *read = NULL;
  CHECK_EQ(functions_of(module, TENON_BYTECODE_KEEP, NULL), 0);
  CHECK_EQ(functions_of(module, TENON_BYTECODE_COMPILE, NULL), 2);
  CHECK_EQ(functions_of(module, TENON_BYTECODE_COMPILE, "both,forward"), 2);
  OK(tenon_export_module_to(module, collect, &bytes, &options, NULL, ERR));
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
  CHECK_EQ(functions_of(read, TENON_BYTECODE_KEEP, NULL), 1);
  CHECK_EQ(functions_of(read, TENON_BYTECODE_DROP, NULL), 0);
  CHECK_EQ(functions_of(read, TENON_BYTECODE_COMPILE, NULL), 2);
  tenon_module_release(read);
  free(bytes.data);
  tenon_module_release(module);
}

/* Files of the FlatBuffers form have PTMF after their first four bytes. */
static void flatbuffers(void) {
  struct bytes bytes = {NULL, 0};
  tenon_export_options options = options_of(TENON_BYTECODE_KEEP, NULL);
  tenon_module *module = new_two_methods(), *read = NULL;
  tenon_export_report report;
  options.flags = TENON_EXPORT_FLATBUFFER;
  if (tenon_export_module_to(module, collect, &bytes, &options, NULL, NULL) == TENON_UNSUPPORTED) {
    puts("this build has no FlatBuffers");
    tenon_module_release(module);
    return;
  }
  CHECK(bytes.nbytes > 8 && memcmp(bytes.data + 4, "PTMF", 4) == 0);
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
  CHECK_EQ(report_of(read, &options).bytecode_functions, 2);
  tenon_module_release(read);
  /* The offset of the root grows, and then the root lies beyond the file. */
  bytes.data[2] = 1;
  FAILS_RAW(TENON_CORRUPT, TENON_CORRUPT,
            tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
  CHECK(strncmp(tenon_error_message(check_error), "archive in memory: the flatbuffer is broken",
                43) == 0);
  tenon_error_release(check_error);
  free(bytes.data);
  report = report_of(module, &options);
  CHECK_EQ(report.bytecode_functions, 2);
  CHECK_EQ(report.records, 0);

  /* The import keeps the archive's bytecode and drops its debug tables. */
  OK(tenon_import_module(golden(), NULL, &read, ERR));
  options.flags |= TENON_EXPORT_DEBUG_TABLES;
  report = report_of(read, &options);
  CHECK_EQ(report.bytecode_functions, 1);
  CHECK_EQ(report.debug_tables, 0);
  tenon_module_release(read);

  options.flags = TENON_EXPORT_FLATBUFFER;
  options.bytecode = TENON_BYTECODE_DROP;
  INVALID(tenon_export_module_to(module, count, NULL, &options, NULL, ERR));
  options = options_of(TENON_BYTECODE_COMPILE, NULL);
  options.flags = TENON_EXPORT_FLATBUFFER;
  options.bytecode_version = 7;
  INVALID(tenon_export_module_to(module, count, NULL, &options, NULL, ERR));
  options.bytecode_version = 0;
  options.archive_name = "model";
  INVALID(tenon_export_module_to(module, count, NULL, &options, NULL, ERR));
  tenon_module_release(module);
}

/* Replaces a text of the file by another of the same size. */
static void replace(struct bytes *bytes, const char *from, const char *to) {
  const size_t nbytes = strlen(from);
  size_t at = 0;
  CHECK(strlen(to) == nbytes);
  while (at + nbytes <= bytes->nbytes && memcmp(bytes->data + at, from, nbytes) != 0) at++;
  CHECK(at + nbytes <= bytes->nbytes);
  memcpy(bytes->data + at, to, nbytes);
}

/* The error of the last FAILS is that of the file. */
static void is_fault_of_code(void) {
  CHECK(strstr(tenon_error_message(check_error), "__torch__.py") != NULL);
  CHECK(tenon_error_detail(check_error, "line") != NULL);
  tenon_error_release(check_error);
  check_error = NULL;
}

#define BAD_CODE(call)                             \
  do {                                             \
    FAILS_RAW(TENON_CORRUPT, TENON_CORRUPT, call); \
    is_fault_of_code();                            \
  } while (0)

/* An import of a flatbuffer reads the code when the module is first used. Bad code is an error of
 * every function, and of the import if it checks everything. */
static void bad_code_is_refused_at_first_use(void) {
  struct bytes bytes = {NULL, 0};
  tenon_export_options options = options_of(TENON_BYTECODE_KEEP, NULL);
  tenon_import_options reading;
  tenon_import_report report;
  tenon_module *module = new_two_methods(), *read = NULL, *parent = new_module("Parent");
  tenon_member_list *members = NULL;
  tenon_file_list *files = NULL;
  tenon_name_list *names = NULL;
  tenon_value *object = NULL, *number = new_int(1);
  tenon_package_entry entry;
  uint64_t written = 0;
  char text[64];
  options.flags = TENON_EXPORT_FLATBUFFER;
  if (tenon_export_module_to(module, collect, &bytes, &options, NULL, NULL) == TENON_UNSUPPORTED)
    goto done;
  replace(&bytes, "def forward", "dxf forward");
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
  CHECK(tenon_module_retain(read) == read);
  tenon_module_release(read);
  SIZED(report);
  BAD_CODE(tenon_module_import_report(read, &report, ERR));
  BAD_CODE(tenon_module_warnings(read, &names, ERR));
  BAD_CODE(tenon_module_class_name(read, text, sizeof(text), NULL, ERR));
  BAD_CODE(tenon_module_object(read, &object, ERR));
  BAD_CODE(tenon_module_check(read, ERR));
  BAD_CODE(tenon_module_members(read, &members, ERR));
  BAD_CODE(tenon_module_find(read, "forward", &members, ERR));
  BAD_CODE(tenon_module_tensors(read, &members, ERR));
  BAD_CODE(tenon_module_states(read, &names, ERR));
  BAD_CODE(tenon_module_code_files(read, &files, ERR));
  BAD_CODE(tenon_module_extra_files(read, &files, ERR));
  BAD_CODE(tenon_module_constants(read, &object, ERR));
  BAD_CODE(tenon_export_opnames(read, NULL, &names, ERR));
  BAD_CODE(tenon_export_module_to(read, count, &written, NULL, NULL, ERR));
  CHECK_EQ(written, 0);
  BAD_CODE(tenon_module_add_attribute(read, "a", NULL, number, ERR));
  BAD_CODE(tenon_module_set(read, "training", number, ERR));
  BAD_CODE(tenon_module_remove(read, "forward", ERR));
  BAD_CODE(tenon_module_define(read, "def f(self) -> int:\n  return 1\n", ERR));
  BAD_CODE(tenon_module_add_submodule(parent, "child", read, NULL, ERR));
  BAD_CODE(tenon_module_add_submodule(read, "child", parent, NULL, ERR));
  memset(&entry, 0, sizeof(entry));
  entry.name = "net.pkl";
  entry.module = read;
  BAD_CODE(tenon_export_package(&entry, 1, "never_written.pt", NULL, NULL, ERR));
  tenon_module_release(read);
  SIZED(reading);
  reading.check = TENON_IMPORT_CHECK_ALL;
  BAD_CODE(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, &reading, &read, ERR));
done:
  free(bytes.data);
  tenon_value_release(number);
  tenon_module_release(parent);
  tenon_module_release(module);
}

static void operators_are(const tenon_module *module, const char *methods,
                          const char *const *wanted, size_t n) {
  tenon_name_list *names = NULL;
  OK(tenon_export_opnames(module, methods, &names, ERR));
  names_are(names, wanted, n);
  tenon_name_list_release(names);
}

static void operators(void) {
  static const char *const all[] = {"aten::add.Tensor", "aten::relu"};
  tenon_module *module = new_two_methods();
  operators_are(module, NULL, all, 2);
  operators_are(module, "both", all, 2);
  operators_are(module, "forward,both", all, 2);
  operators_are(module, "forward", all + 1, 1);
  tenon_module_release(module);
}

static void debug_tables(void) {
  tenon_import_options reading;
  tenon_export_options writing = options_of(TENON_BYTECODE_KEEP, NULL);
  tenon_export_report report;
  tenon_module *module = NULL;
  SIZED(reading);
  writing.flags = TENON_EXPORT_DEBUG_TABLES;
  OK(tenon_import_module(golden(), &reading, &module, ERR));
  report = report_of(module, &writing);
  CHECK(report.debug_tables == 0 && report.bytecode_functions == 1);
  tenon_module_release(module);

  reading.flags = TENON_IMPORT_DEBUG_TABLES;
  OK(tenon_import_module(golden(), &reading, &module, ERR));
  CHECK_EQ(report_of(module, NULL).debug_tables, 0);
  CHECK_EQ(report_of(module, &writing).debug_tables, 6);
  /* The tables described the old code, so they go. */
  OK(tenon_module_define(module, "def more(self) -> int:\n  return 1\n", ERR));
  report = report_of(module, &writing);
  CHECK(report.debug_tables == 0 && report.bytecode_functions == 0);
  /* New bytecode has new tables. */
  writing.bytecode = TENON_BYTECODE_COMPILE;
  report = report_of(module, &writing);
  CHECK(report.debug_tables > 2 && report.bytecode_functions == 2);
  tenon_module_release(module);

  module = PATTERN;
  reading.flags = 2;
  FAILS_KEEPING(TENON_UNSUPPORTED, module, tenon_import_module(golden(), &reading, &module, ERR));
}

/* dim is an instruction unless an option says otherwise, and the call of add leaves its last
 * argument out. */
static void switches(void) {
  static const struct {
    int32_t version;
    uint32_t emit_flags;
    int is_other;
  } cases[] = {{0, 0, 0},
               {8, 0, 0},
               {0, TENON_EMIT_NO_INTERFACE_METHODS | TENON_EMIT_DEFAULTS_BEFORE_OUT, 0},
               {0, TENON_EMIT_DEFAULT_INPUTS, 1},
               {0, TENON_EMIT_PLAIN_OPERATORS, 1}};
  tenon_module *module = new_module("Dims");
  struct bytes plain = {NULL, 0};
  size_t i;
  OK(tenon_module_define(
      module, "def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, torch.dim(x))\n",
      ERR));
  for (i = 0; i < COUNT_OF(cases); i++) {
    struct bytes bytes = {NULL, 0};
    tenon_module *read = NULL;
    tenon_export_options options = options_of(TENON_BYTECODE_COMPILE, NULL);
    options.bytecode_version = cases[i].version;
    options.emit_flags = cases[i].emit_flags;
    OK(tenon_export_module_to(module, collect, &bytes, &options, NULL, ERR));
    OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
    CHECK_EQ(functions_of(read, TENON_BYTECODE_KEEP, NULL), 1);
    tenon_module_release(read);
    if (i == 0) {
      plain = bytes;
      continue;
    }
    CHECK_EQ(bytes.nbytes != plain.nbytes || memcmp(bytes.data, plain.data, plain.nbytes) != 0,
             cases[i].is_other);
    free(bytes.data);
  }
  free(plain.data);
  tenon_module_release(module);
}

static void forks(void) {
  tenon_module *module = new_module("Forks");
  tenon_export_options options = options_of(TENON_BYTECODE_COMPILE, NULL);
  uint64_t nbytes = 0;
  OK(tenon_module_define(
      module, "def forward(self, x: Tensor) -> Tensor:\n  return torch.wait(fork(torch.neg, x))\n",
      ERR));
  FAILS(TENON_UNSUPPORTED, tenon_export_module_to(module, count, &nbytes, &options, NULL, ERR));
  options.emit_flags = TENON_EMIT_FORKS_AT_ONCE;
  CHECK_EQ(report_of(module, &options).bytecode_functions, 1);
  tenon_module_release(module);
}

static void switches_refused(void) {
  static const struct {
    int32_t bytecode;
    int32_t version;
    uint32_t emit_flags;
    tenon_status code;
  } cases[] = {
      {TENON_BYTECODE_KEEP, 8, 0, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_DROP, 0, TENON_EMIT_PLAIN_OPERATORS, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_COMPILE, 3, 0, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_COMPILE, 9, 0, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_COMPILE, -1, 0, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_COMPILE, 0, 32, TENON_UNSUPPORTED},
  };
  tenon_module *module = new_two_methods();
  uint64_t nbytes = 0;
  size_t i;
  for (i = 0; i < COUNT_OF(cases); i++) {
    tenon_export_options options = options_of(cases[i].bytecode, NULL);
    options.bytecode_version = cases[i].version;
    options.emit_flags = cases[i].emit_flags;
    FAILS(cases[i].code, tenon_export_module_to(module, count, &nbytes, &options, NULL, ERR));
  }
  CHECK_EQ(nbytes, 0);
  tenon_module_release(module);
}

static void refused(void) {
  static const struct {
    int32_t bytecode;
    const char *methods;
    tenon_status code;
  } cases[] = {
      {TENON_BYTECODE_KEEP, "forward", TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_DROP, "forward", TENON_INVALID_ARGUMENT},
      {-1, NULL, TENON_INVALID_ARGUMENT},
      {3, NULL, TENON_INVALID_ARGUMENT},
      {TENON_BYTECODE_COMPILE, "no", TENON_NOT_FOUND},
      {TENON_BYTECODE_COMPILE, "forward,no", TENON_NOT_FOUND},
  };
  static const char *const empty_names[] = {"", ",", "forward,", ",forward", "forward,,both"};
  tenon_module *module = new_two_methods();
  tenon_name_list *names = PATTERN;
  tenon_export_options options;
  uint64_t nbytes = 0;
  size_t i;
  for (i = 0; i < COUNT_OF(cases); i++) {
    options = options_of(cases[i].bytecode, cases[i].methods);
    FAILS(cases[i].code, tenon_export_module_to(module, count, &nbytes, &options, NULL, ERR));
  }
  for (i = 0; i < COUNT_OF(empty_names); i++) {
    options = options_of(TENON_BYTECODE_COMPILE, empty_names[i]);
    INVALID(tenon_export_module_to(module, count, &nbytes, &options, NULL, ERR));
    INVALID_KEEPING(names, tenon_export_opnames(module, empty_names[i], &names, ERR));
  }
  CHECK_EQ(nbytes, 0);
  FAILS_KEEPING(TENON_NOT_FOUND, names, tenon_export_opnames(module, "no", &names, ERR));
  INVALID_KEEPING(names, tenon_export_opnames(NULL, NULL, &names, ERR));
  INVALID(tenon_export_opnames(module, NULL, NULL, ERR));
  tenon_module_release(module);
}

int main(void) {
  check_begin(120);
  RUN(made_kept_and_dropped);
  RUN(operators);
  RUN(debug_tables);
  RUN(refused);
  RUN(switches);
  RUN(forks);
  RUN(flatbuffers);
  RUN(bad_code_is_refused_at_first_use);
  RUN(switches_refused);
  return 0;
}
