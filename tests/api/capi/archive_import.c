/* Tests tenon/archive.h: modules that are imported from files, fds and memory. It tests what they
 * keep alive, which archives are refused, and what the report says. */
#include "module_kit.h"

static char path[64];

/* Exports an MLP to memory. */
static struct bytes exported(void) {
  struct bytes bytes = {NULL, 0};
  tenon_module *module = new_mlp();
  OK(tenon_export_module_to(module, collect, &bytes, NULL, NULL, ERR));
  tenon_module_release(module);
  return bytes;
}

static void write_file(const struct bytes *bytes) {
  int fd;
  snprintf(path, sizeof(path), "/tmp/tenon-import-XXXXXX");
  fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, bytes->data, bytes->nbytes) == (ssize_t)bytes->nbytes);
  close(fd);
}

static tenon_import_options options_of(int32_t tensors) {
  tenon_import_options options;
  SIZED(options);
  options.tensors = tensors;
  return options;
}

static tenon_import_report report_of(const tenon_module *module) {
  tenon_import_report report;
  memset(&report, 0x5a, sizeof(report));
  report.struct_size = sizeof(report);
  OK(tenon_module_import_report(module, &report, ERR));
  CHECK_EQ(report.struct_size, sizeof(report));
  return report;
}

static tenon_tensor *tensor_at(const tenon_module *module, const char *where) {
  tenon_value *value = value_at(module, where);
  tenon_tensor *tensor = NULL;
  OK(tenon_value_get_tensor(value, &tensor, ERR));
  tenon_value_release(value);
  return tensor;
}

static int is_read_only(const tenon_module *module) {
  tenon_tensor *tensor = tensor_at(module, "fc1.weight");
  const int read_only = tenon_storage_is_read_only(tenon_tensor_storage(tensor));
  tenon_tensor_release(tensor);
  return read_only;
}

/* The code has a call that PyTorch 1.13 accepts and the newest refuses. An export that writes code
 * fails, unless it writes bytecode for an old PyTorch. */
static void only_the_older_takes(tenon_module *built) {
  struct bytes bytes = {NULL, 0};
  tenon_export_options options;
  tenon_module *read = NULL;
  SIZED(options);
  OK(tenon_module_define(
      built, "def older(self, x: Tensor) -> Tensor:\n  y, _ = torch.symeig(x)\n  return y\n", ERR));
  INVALID_SAYING("excerpt", "torch.symeig(x)", tenon_module_check(built, ERR));
  INVALID_SAYING("line", "", tenon_export_module_to(built, collect, &bytes, NULL, NULL, ERR));
  CHECK_EQ(bytes.nbytes, 0);
  options.bytecode = TENON_BYTECODE_COMPILE;
  options.methods = "forward";
  INVALID(tenon_export_module_to(built, collect, &bytes, &options, NULL, ERR));
  options.bytecode_version = 7;
  OK(tenon_export_module_to(built, collect, &bytes, &options, NULL, ERR));
  bytes.nbytes = 0;
  SIZED(options);
  options.flags = TENON_EXPORT_UNCHECKED;
  OK(tenon_export_module_to(built, collect, &bytes, &options, NULL, ERR));
  /* The archive then looks as if PyTorch 1.13 had written it. */
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &read, ERR));
  OK(tenon_module_check(read, ERR));
  OK(tenon_module_define(read, "def newer(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n",
                         ERR));
  INVALID(tenon_module_check(read, ERR));
  tenon_module_release(read);
  free(bytes.data);
}

/* A file that is cut short under a mapped tensor is an error of the library's own copies. */
static void from_a_file_that_is_cut_short(void) {
  static const int32_t kMaps[] = {TENON_IMPORT_MAP, TENON_IMPORT_MAP_PRIVATE};
  struct bytes bytes = exported();
  size_t i;
  for (i = 0; i < 2; ++i) {
    tenon_import_options options = options_of(kMaps[i]);
    tenon_module *module = NULL;
    tenon_storage *storage;
    tenon_tensor *tensor;
    float numbers[2] = {0, 0};
    write_file(&bytes);
    OK(tenon_import_module(path, &options, &module, ERR));
    tensor = tensor_at(module, "fc2.weight");
    tenon_module_release(module);
    storage = tenon_tensor_storage(tensor);
    CHECK(tenon_storage_is_sealed(storage) == 0 && tenon_storage_is_shared(storage) == 0);
    if (kMaps[i] == TENON_IMPORT_MAP_PRIVATE) {
      const float own = 7;
      OK(tenon_storage_write(storage, sizeof(float), &own, sizeof(own), ERR));
      OK(tenon_storage_read(storage, 0, numbers, sizeof(numbers), ERR));
      CHECK(numbers[0] == 100 && numbers[1] == 7);
    }
    OK(tenon_storage_read(storage, 0, numbers, sizeof(float), ERR));
    CHECK(numbers[0] == 100);
    CHECK(truncate(path, 0) == 0 && unlink(path) == 0);
    FAILS(TENON_CORRUPT, tenon_storage_read(storage, 0, numbers, sizeof(numbers), ERR));
    FAILS(kMaps[i] == TENON_IMPORT_MAP ? TENON_PERMISSION : TENON_CORRUPT,
          tenon_storage_write(storage, 0, numbers, sizeof(numbers), ERR));
    tenon_tensor_release(tensor);
  }
  free(bytes.data);
}

static void from_a_file(void) {
  struct bytes bytes = exported();
  tenon_import_options options = options_of(TENON_IMPORT_MAP_PRIVATE);
  tenon_import_report report;
  tenon_module *module = NULL, *built = new_mlp();
  tenon_tensor *tensor;
  tenon_name_list *warnings = NULL;
  void *data = NULL;
  char byte = '?';
  int fd;
  write_file(&bytes);
  report = report_of(built);
  CHECK(report.version == 0 && report.records == 0 && report.mapped_storages == 0);
  OK(tenon_module_warnings(built, &warnings, ERR));
  names_are(warnings, NULL, 0);
  tenon_name_list_release(warnings);
  OK(tenon_module_define(built,
                         "def attend(self, x: Tensor) -> Tensor:\n  return "
                         "torch.scaled_dot_product_attention(x, x, x)\n",
                         ERR));
  OK(tenon_module_check(built, ERR)); /* the newest PyTorch accepts it */
  OK(tenon_module_warnings(built, &warnings, ERR));
  CHECK_EQ(tenon_name_list_count(warnings), 1);
  CHECK(
      strstr(
          tenon_name_list_get(warnings, 0),
          "PyTorch 1.13 refuses torch.scaled_dot_product_attention, and PyTorch 2.2 has it, in ") !=
      NULL);
  tenon_name_list_release(warnings);
  only_the_older_takes(built);
  tenon_module_release(built);

  OK(tenon_import_module(path, NULL, &module, ERR));
  report = report_of(module);
  CHECK(report.version == 10 && report.records == 10 && report.mapped_storages == 4 &&
        report.filled_storages == 0);
  CHECK(report.mapped_nbytes == (4 * 8 + 8 + 8 * 3 + 3) * sizeof(float) && report.without_crc == 0);
  CHECK(first_at(module, "fc2.weight") == 100 && is_read_only(module));
  OK(tenon_module_check(module, ERR));
  OK(tenon_module_warnings(module, &warnings, ERR));
  names_are(warnings, NULL, 0);
  tenon_name_list_release(warnings);
  /* A tensor stays valid without its module, and without the file's name. */
  tensor = tensor_at(module, "fc2.weight");
  tenon_module_release(module);
  CHECK(unlink(path) == 0);
  CHECK(*(const float *)tenon_tensor_data(tensor) == 100);
  tenon_tensor_release(tensor);

  write_file(&bytes);
  OK(tenon_import_module(path, &options, &module, ERR));
  CHECK(report_of(module).mapped_storages == 4 && !is_read_only(module));
  tensor = tensor_at(module, "fc1.weight");
  OK(tenon_tensor_data_mut(tensor, &data, ERR));
  *(float *)data = 1234;
  CHECK(first_at(module, "fc1.weight") == 1234);
  tenon_tensor_release(tensor);
  tenon_module_release(module);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 'P');
  OK(tenon_import_module_fd(fd, NULL, &module, ERR));
  CHECK(lseek(fd, 0, SEEK_CUR) == 1); /* the position does not change */
  close(fd);
  CHECK(first_at(module, "fc1.weight") == 0); /* the private view's writes do not reach the file */
  tenon_module_release(module);
  free(bytes.data);
  unlink(path);
}

static void filled(void) {
  struct bytes bytes = exported();
  tenon_import_options options = options_of(TENON_IMPORT_FILL);
  tenon_arena_options arena_options;
  tenon_arena *arena = NULL;
  tenon_module *module = NULL;
  tenon_tensor *tensor;
  tenon_import_report report;
  tenon_mode mode;
  write_file(&bytes);
  for (mode = TENON_MODE_SHARED; mode <= TENON_MODE_FROZEN; mode++) {
    options.mode = mode;
    options.check = TENON_IMPORT_CHECK_FILL;
    OK(tenon_import_module(path, &options, &module, ERR));
    report = report_of(module);
    CHECK(report.filled_storages == 4 && report.mapped_storages == 0 &&
          report.filled_nbytes == 67 * sizeof(float));
    tensor = tensor_at(module, "fc2.bias");
    CHECK(tenon_storage_mode(tenon_tensor_storage(tensor)) == mode &&
          tenon_storage_is_shared(tenon_tensor_storage(tensor)));
    CHECK(*(const float *)tenon_tensor_data(tensor) == 100);
    tenon_tensor_release(tensor);
    tenon_module_release(module);
  }
  SIZED(arena_options);
  arena_options.mode = TENON_MODE_LENDER_WRITES;
  arena_options.capacity_nbytes = 1 << 16;
  OK(tenon_arena_new(&arena_options, &arena, ERR));
  options = options_of(TENON_IMPORT_FILL);
  options.arena = arena;
  OK(tenon_import_module(path, &options, &module, ERR));
  tensor = tensor_at(module, "fc1.bias");
  CHECK(tenon_storage_mode(tenon_tensor_storage(tensor)) == TENON_MODE_LENDER_WRITES);
  tenon_tensor_release(tensor);
  tenon_module_release(module);
  options.mode = TENON_MODE_FROZEN;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.mode = TENON_MODE_FROZEN;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  tenon_arena_release(arena);
  free(bytes.data);
  unlink(path);
}

static int n_released;
static void count_release(void *context) {
  CHECK(context == &n_released);
  n_released++;
}

static void from_memory(void) {
  struct bytes bytes = exported();
  tenon_import_options options = options_of(TENON_IMPORT_FILL);
  tenon_module *module = PATTERN;
  tenon_tensor *tensor;
  void *data = NULL;
  n_released = 0;
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, count_release, &n_released, NULL, &module,
                                ERR));
  CHECK_EQ(report_of(module).mapped_storages, 4);
  tensor = tensor_at(module, "fc1.weight");
  CHECK((const unsigned char *)tenon_tensor_data(tensor) > bytes.data &&
        (const unsigned char *)tenon_tensor_data(tensor) < bytes.data + bytes.nbytes);
  tenon_module_release(module);
  CHECK_EQ(n_released, 0); /* the tensor still needs the bytes */
  tenon_tensor_release(tensor);
  CHECK_EQ(n_released, 1);

  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, count_release, &n_released, &options,
                                &module, ERR));
  CHECK_EQ(n_released, 2); /* everything was copied */
  CHECK_EQ(report_of(module).filled_storages, 4);
  tenon_module_release(module);
  options.tensors = TENON_IMPORT_MAP_PRIVATE;
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, count_release, &n_released, &options,
                                &module, ERR));
  tensor = tensor_at(module, "fc1.weight");
  OK(tenon_tensor_data_mut(tensor, &data, ERR));
  *(float *)data = 77;
  tenon_tensor_release(tensor);
  tenon_module_release(module);
  CHECK_EQ(n_released, 3);
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &module, ERR));
  CHECK(first_at(module, "fc1.weight") == 0);
  tenon_module_release(module);

  /* After a failure the bytes still belong to the caller. */
  module = PATTERN;
  FAILS_KEEPING(TENON_CORRUPT, module,
                tenon_import_module_memory(bytes.data, bytes.nbytes - 1, count_release, &n_released,
                                           NULL, &module, ERR));
  FAILS_KEEPING(
      TENON_CORRUPT, module,
      tenon_import_module_memory(NULL, 0, count_release, &n_released, NULL, &module, ERR));
  FAILS_KEEPING(
      TENON_INVALID_ARGUMENT, module,
      tenon_import_module_memory(NULL, 1, count_release, &n_released, NULL, &module, ERR));
  CHECK_EQ(n_released, 3);
  free(bytes.data);
}

static unsigned char *find_bytes(const struct bytes *bytes, const char *text) {
  unsigned char *found = memmem(bytes->data, bytes->nbytes, text, strlen(text));
  CHECK(found != NULL);
  return found;
}

static void damaged(void) {
  struct bytes bytes = exported();
  tenon_import_options options = options_of(TENON_IMPORT_MAP);
  tenon_module *module = PATTERN;
  const float twenty = 20;
  unsigned char *at;
  size_t n;
  for (n = 0; n < bytes.nbytes; n += 97) {
    FAILS(TENON_CORRUPT, tenon_import_module_memory(bytes.data, n, NULL, NULL, NULL, &module, ERR));
  }
  /* Flips a bit of the pickle. */
  at = find_bytes(&bytes, "weight");
  *at ^= 1;
  FAILS_SAYING(
      TENON_CORRUPT, "record", "data.pkl",
      tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, &module, ERR));
  *at ^= 1;
  /* Flips a bit of a tensor. Only an import that verifies all checksums notices. */
  at = memmem(bytes.data, bytes.nbytes, &twenty, sizeof(twenty));
  CHECK(at != NULL);
  *at ^= 1;
  OK(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, &options, &module, ERR));
  tenon_module_release(module);
  module = PATTERN;
  options.check = TENON_IMPORT_CHECK_ALL;
  FAILS_SAYING(
      TENON_CORRUPT, "record", "data/0",
      tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, &options, &module, ERR));
  FAILS_SAYING(
      TENON_CORRUPT, "offset", "",
      tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, &options, &module, ERR));
  options = options_of(TENON_IMPORT_FILL);
  options.check = TENON_IMPORT_CHECK_FILL;
  FAILS_SAYING(
      TENON_CORRUPT, "record", "data/0",
      tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, &options, &module, ERR));
  CHECK(module == PATTERN);
  free(bytes.data);
}

static void refused(void) {
  struct bytes bytes = exported();
  tenon_import_options options = options_of(TENON_IMPORT_MAP);
  struct {
    tenon_import_options options;
    unsigned char newer[8];
  } larger;
  tenon_import_report report;
  tenon_module *module = PATTERN, *good = NULL;
  tenon_name_list *names = PATTERN;
  int ends[2];
  write_file(&bytes);
  INVALID_KEEPING(module, tenon_import_module(NULL, NULL, &module, ERR));
  INVALID(tenon_import_module(path, NULL, NULL, ERR));
  INVALID(tenon_import_module_fd(0, NULL, NULL, ERR));
  INVALID_KEEPING(module, tenon_import_module_fd(-1, NULL, &module, ERR));
  INVALID(tenon_import_module_memory(bytes.data, bytes.nbytes, NULL, NULL, NULL, NULL, ERR));
  FAILS_SAYING(TENON_NOT_FOUND, "path", "nowhere",
               tenon_import_module("/tmp/tenon-nowhere", NULL, &module, ERR));
  INVALID(tenon_import_module("/tmp", NULL, &module, ERR));
  CHECK(pipe(ends) == 0);
  INVALID_SAYING("fd", "", tenon_import_module_fd(ends[0], NULL, &module, ERR));
  close(ends[0]);
  close(ends[1]);

  options.struct_size = sizeof(options) - 1;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  memset(&larger, 0, sizeof(larger));
  larger.options.struct_size = sizeof(larger);
  larger.newer[0] = 1;
  FAILS(TENON_UNSUPPORTED, tenon_import_module(path, &larger.options, &module, ERR));
  options = options_of(4);
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.check = 3;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_FILL);
  options.mode = 3;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.device = 1;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.max_depth = 1001;
  INVALID(tenon_import_module(path, &options, &module, ERR));
  options.max_depth = 2;
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "max_depth",
               tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.max_records = 3;
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit", "max_records",
               tenon_import_module(path, &options, &module, ERR));
  options = options_of(TENON_IMPORT_MAP);
  options.max_inflated_nbytes = 3;
  FAILS_SAYING(TENON_RESOURCE_EXHAUSTED, "limit_value", "3",
               tenon_import_module(path, &options, &module, ERR));
  CHECK(module == PATTERN);

  OK(tenon_import_module(path, NULL, &good, ERR));
  INVALID(tenon_module_import_report(good, NULL, ERR));
  report.struct_size = sizeof(report);
  INVALID(tenon_module_import_report(NULL, &report, ERR));
  INVALID(tenon_module_warnings(good, NULL, ERR));
  INVALID_KEEPING(names, tenon_module_warnings(NULL, &names, ERR));
  tenon_module_release(good);
  free(bytes.data);
  unlink(path);
}

int main(void) {
  check_begin(240);
  RUN(from_a_file);
  RUN(from_a_file_that_is_cut_short);
  RUN(filled);
  RUN(from_memory);
  RUN(damaged);
  RUN(refused);
  return 0;
}
