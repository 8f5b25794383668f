/* Tests tenon/weights.h: programs of torch.export whose weights are read, replaced and written
   again, a file of ExecuTorch, values that are no tensors, tensors that are saved, and what the
   calls refuse. */
#include "archive_folder.h"

#include <pthread.h>

static const char *golden(const char *file) {
  static char name[512];
  const char *source = getenv("TENON_SOURCE_DIR");
  CHECK(source != NULL); /* CTest sets it */
  snprintf(name, sizeof(name), "%s/tests/peers/golden/weights/%s", source, file);
  return name;
}

static tenon_weights *open_weights(const char *file) {
  tenon_weights *weights = NULL;
  OK(tenon_open_weights(file, NULL, &weights, ERR));
  return weights;
}

/* A build without JSON or FlatBuffers reads fewer forms. */
static int is_known(const char *file) {
  tenon_weights *weights = NULL;
  tenon_error *error = NULL;
  const tenon_status status = tenon_open_weights(golden(file), NULL, &weights, &error);
  const int known = status != TENON_UNSUPPORTED ||
                    strstr(tenon_error_message(error), "this build of Tenon") == NULL;
  if (!known) printf("%s\n", tenon_error_message(error));
  tenon_error_release(error);
  tenon_weights_release(weights);
  return known;
}

/* A contiguous float32 tensor, the caller's to release. */
static tenon_tensor *tensor_of(const tenon_weights *weights, const char *name) {
  tenon_value *value = NULL;
  tenon_tensor *tensor = NULL;
  OK(tenon_weights_tensor(weights, name, &value, ERR));
  OK(tenon_value_get_tensor(value, &tensor, ERR));
  tenon_value_release(value);
  return tensor;
}

static float element(const tenon_weights *weights, const char *name, size_t index) {
  tenon_tensor *tensor = tensor_of(weights, name);
  float found = ((const float *)tenon_tensor_data(tensor))[index];
  tenon_tensor_release(tensor);
  return found;
}

static void names_of_weights_are(const tenon_weights *weights, const char *const *names, size_t n) {
  tenon_name_list *list = NULL;
  OK(tenon_weights_names(weights, &list, ERR));
  names_are(list, names, n);
  tenon_name_list_release(list);
}

static void replace_floats(tenon_weights *weights, const char *name, int32_t ndim,
                           const int64_t *sizes, float first) {
  tenon_value *value = new_floats(ndim, sizes, first);
  OK(tenon_weights_replace(weights, name, value, ERR));
  tenon_value_release(value);
}

/* Both forms hold the same weights. */
static void replaced_and_written(const char *file) {
  static const char *const names[] = {"weight", "tied", "columns", "shift"};
  static const int64_t matrix[] = {2, 3}, square[] = {2, 2};
  tenon_weights *weights = open_weights(golden(file)), *again;
  tenon_tensor *weight = tensor_of(weights, "weight"), *tied = tensor_of(weights, "tied");
  tenon_weights_rewrite_options options;
  SIZED(options);
  options.durability = TENON_DURABILITY_FILE;

  names_of_weights_are(weights, names, COUNT_OF(names));
  CHECK(tenon_tensor_data(weight) == tenon_tensor_data(tied));
  CHECK(element(weights, "weight", 5) == 5.0F && element(weights, "shift", 1) == 0.25F);
  replace_floats(weights, "tied", 2, matrix, 10);
  replace_floats(weights, "columns", 2, square, 100);
  /* A tensor that was taken out before keeps its elements. */
  CHECK(((const float *)tenon_tensor_data(weight))[5] == 5.0F);
  tenon_tensor_release(weight);
  tenon_tensor_release(tied);
  CHECK(element(weights, "weight", 5) == 15.0F);

  OK(tenon_weights_rewrite(weights, path, &options, ERR));
  CHECK(tenon_weights_retain(weights) == weights);
  tenon_weights_release(weights);
  again = open_weights(path);
  CHECK(element(again, "weight", 5) == 15.0F && element(again, "shift", 1) == 0.25F);
  /* The file stores the columns one after the other. The given tensor was stored by rows. */
  CHECK(element(again, "columns", 1) == 102.0F && element(again, "columns", 2) == 101.0F);
  replace_floats(again, "weight", 2, matrix, 20);
  OK(tenon_weights_rewrite(again, path, NULL, ERR));
  CHECK(element(again, "tied", 0) == 20.0F);
  tenon_weights_release(again);
  tenon_weights_release(weights);
  weights = open_weights(path);
  CHECK(element(weights, "tied", 0) == 20.0F);
  tenon_weights_release(weights);
  unlink(path);
}

static void newest_form(void) {
  if (is_known("torch-2.15.0.pt2")) replaced_and_written("torch-2.15.0.pt2");
}
static void second_form(void) { replaced_and_written("torch-2.8.0.pt2"); }
static void first_form(void) { replaced_and_written("torch-2.6.0.pt2"); }

static void into_an_arena(void) {
  tenon_import_options options;
  tenon_weights *weights = NULL;
  tenon_arena *arena = NULL;
  OK(tenon_arena_new(NULL, &arena, ERR));
  SIZED(options);
  options.tensors = TENON_IMPORT_FILL;
  options.check = TENON_IMPORT_CHECK_ALL;
  options.arena = arena;
  OK(tenon_open_weights(golden("torch-2.6.0.pt2"), &options, &weights, ERR));
  tenon_arena_release(arena);
  CHECK(element(weights, "weight", 4) == 4.0F);
  tenon_weights_release(weights);
}

enum { kRounds = TENON_TEST_SANITIZED ? 2000 : 30000 };

/* What threads share. They must not use OK. */
struct shared {
  tenon_weights *weights;
  tenon_value *matrices[2];
  tenon_value *squares[2];
};

/* The weight "weight" is replaced in place, and "columns" by a copy. */
static void *replace_both(void *context) {
  struct shared *shared = context;
  int i;
  for (i = 0; i < kRounds; i++) {
    CHECK(tenon_weights_replace(shared->weights, "weight", shared->matrices[i % 2], NULL) ==
          TENON_OK);
    CHECK(tenon_weights_replace(shared->weights, "columns", shared->squares[i % 2], NULL) ==
          TENON_OK);
  }
  return NULL;
}

static void *read_both(void *context) {
  struct shared *shared = context;
  int i;
  for (i = 0; i < kRounds; i++) {
    tenon_value *value = NULL;
    CHECK(tenon_weights_tensor(shared->weights, "weight", &value, NULL) == TENON_OK);
    tenon_value_release(value);
    CHECK(tenon_weights_tensor(shared->weights, "columns", &value, NULL) == TENON_OK);
    tenon_value_release(value);
  }
  return NULL;
}

static void in_many_threads(void) {
  static const int64_t matrix[] = {2, 3}, square[] = {2, 2};
  struct shared shared;
  pthread_t threads[4];
  size_t i;
  shared.weights = open_weights(golden("torch-2.6.0.pt2"));
  for (i = 0; i < 2; i++) {
    shared.matrices[i] = new_floats(2, matrix, 10.0F * (float)i);
    shared.squares[i] = new_floats(2, square, 10.0F * (float)i);
  }
  for (i = 0; i < COUNT_OF(threads); i++)
    CHECK(pthread_create(&threads[i], NULL, i < 2 ? read_both : replace_both, &shared) == 0);
  for (i = 0; i < 20; i++) OK(tenon_weights_rewrite(shared.weights, path, NULL, ERR));
  for (i = 0; i < COUNT_OF(threads); i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(element(shared.weights, "weight", 5) == 15.0F);
  unlink(path);
  for (i = 0; i < 2; i++) {
    tenon_value_release(shared.matrices[i]);
    tenon_value_release(shared.squares[i]);
  }
  tenon_weights_release(shared.weights);
}

static void of_executorch(void) {
  static const char *const names[] = {"linear.weight", "tied.weight",  "transposed",
                                      "table",         "backend_blob", "half"};
  static const int64_t sizes[] = {2, 3};
  tenon_weights *weights;
  tenon_value *value;
  if (!is_known("executorch-1.5.1.ptd")) return;
  weights = open_weights(golden("executorch-1.5.1.ptd"));
  value = new_floats(2, sizes, 0);
  names_of_weights_are(weights, names, COUNT_OF(names));
  CHECK(element(weights, "tied.weight", 3) == 3.0F);
  FAILS(TENON_UNSUPPORTED, tenon_weights_replace(weights, "tied.weight", value, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_weights_rewrite(weights, path, NULL, ERR));
  tenon_value_release(value);
  tenon_weights_release(weights);
}

/* The attributes of a module of TorchScript, and the values of a checkpoint. */
static void values(void) {
  tenon_weights *weights = open_weights(golden("../module/2.2.0/net.pt"));
  tenon_value *value = NULL, *none = PATTERN;
  tenon_name_list *names = NULL;
  const char *text = NULL;
  int64_t epoch = 0;
  tenon_tensor_release(tensor_of(weights, "weight"));
  OK(tenon_weights_value(weights, "text", &value, ERR));
  OK(tenon_value_get_str(value, &text, NULL, ERR));
  CHECK(strncmp(text, "gr", 2) == 0);
  tenon_value_release(value);
  FAILS_KEEPING(TENON_NOT_FOUND, none, tenon_weights_value(weights, "weight", &none, ERR));
  INVALID_KEEPING(none, tenon_weights_value(weights, NULL, &none, ERR));
  INVALID_KEEPING(none, tenon_weights_value(NULL, "text", &none, ERR));
  INVALID(tenon_weights_value(weights, "text", NULL, ERR));
  tenon_weights_release(weights);

  weights = open_weights(golden("../checkpoint/1.13.1/checkpoint.pt"));
  OK(tenon_weights_value(weights, "epoch", &value, ERR));
  OK(tenon_value_get_int(value, &epoch, ERR));
  CHECK(epoch == 3);
  tenon_value_release(value);
  OK(tenon_weights_value_names(weights, &names, ERR));
  CHECK(tenon_name_list_count(names) > 10);
  CHECK(strcmp(tenon_name_list_get(names, 0), "optimizer.param_groups.0.lr") == 0);
  tenon_name_list_release(names);
  OK(tenon_weights_skipped(weights, &names, ERR));
  CHECK(tenon_name_list_count(names) == 0);
  tenon_name_list_release(names);
  INVALID(tenon_weights_value_names(NULL, &names, ERR));
  INVALID(tenon_weights_skipped(weights, NULL, ERR));
  tenon_weights_release(weights);
}

/* Python made an object that no other language knows. */
static void skipped(void) {
  static const char *const lines[] = {"odd: a call of 'mine.make'"};
  static const char pickle[] =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
      "\x80\x02M\xe9\x03."
      "\x80\x02}."
      "\x80\x02}X\x03\0\0\0oddcmine\nmake\n)Rs."
      "\x80\x02].";
  tenon_weights *weights;
  tenon_name_list *names = NULL;
  FILE *file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(pickle, 1, sizeof(pickle) - 1, file) == sizeof(pickle) - 1);
  CHECK(fclose(file) == 0);
  weights = open_weights(path);
  OK(tenon_weights_skipped(weights, &names, ERR));
  names_are(names, lines, COUNT_OF(lines));
  tenon_name_list_release(names);
  tenon_weights_release(weights);
  unlink(path);
}

static void refused(void) {
  tenon_weights *weights = open_weights(golden("torch-2.6.0.pt2")), *none = PATTERN;
  tenon_value *vector = new_vector(6, 0), *number = new_int(1), *found = PATTERN;
  tenon_weights_rewrite_options options;
  INVALID_KEEPING(none, tenon_open_weights(NULL, NULL, &none, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, none, tenon_open_weights("/nowhere/net.pt2", NULL, &none, ERR));
  FAILS_KEEPING(TENON_UNSUPPORTED, none,
                tenon_open_weights(golden("../package/torch-2.15.0.pt"), NULL, &none, ERR));
  INVALID(tenon_open_weights(golden("torch-2.6.0.pt2"), NULL, NULL, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, found, tenon_weights_tensor(weights, "wait", &found, ERR));
  INVALID_KEEPING(found, tenon_weights_tensor(weights, NULL, &found, ERR));
  INVALID_KEEPING(found, tenon_weights_tensor(NULL, "weight", &found, ERR));
  INVALID(tenon_weights_replace(weights, "weight", vector, ERR));
  INVALID(tenon_weights_replace(weights, "weight", number, ERR));
  INVALID(tenon_weights_replace(weights, "weight", NULL, ERR));
  FAILS(TENON_NOT_FOUND, tenon_weights_replace(weights, "wait", vector, ERR));
  FAILS(TENON_NOT_FOUND, tenon_weights_rewrite(weights, "/nowhere/net.pt2", NULL, ERR));
  memset(&options, 0, sizeof(options));
  INVALID(tenon_weights_rewrite(weights, path, &options, ERR));
  options.struct_size = sizeof(options);
  options.flags = 1;
  FAILS(TENON_UNSUPPORTED, tenon_weights_rewrite(weights, path, &options, ERR));
  tenon_weights_release(NULL);
  CHECK(tenon_weights_retain(NULL) == NULL);
  tenon_value_release(vector);
  tenon_value_release(number);
  tenon_weights_release(weights);
}

/* What a progress function was told. */
struct told {
  uint64_t done;
  uint64_t total;
  int calls;
};

static void remember(void *context, uint64_t done, uint64_t total) {
  struct told *told = context;
  CHECK(done > told->done && done <= total);
  told->done = done;
  told->total = total;
  told->calls++;
}

/* So many that the progress function is called more than once. */
enum { kManyElements = 3 << 20 };

static tenon_value *new_zeros(int64_t n) {
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_value *value = NULL;
  tenon_tensor_spec spec;
  OK(tenon_storage_new(NULL, (uint64_t)n * sizeof(float), &storage, ERR));
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_FLOAT;
  spec.dtype.bits = 32;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &n;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  OK(tenon_value_new_tensor(tensor, &value, ERR));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return value;
}

static void saved(void) {
  static const char *const names[] = {"weight", "shift"};
  static const char *const keys[] = {"format"}, *const texts[] = {"pt"};
  const tenon_value *tensors[2];
  tenon_value *values[2], *text = NULL;
  tenon_save_weights_options options;
  tenon_weights *weights;
  const char *found = NULL;
  struct told told;
  int form;
  values[0] = new_vector(3, 5);
  values[1] = new_zeros(kManyElements);
  tensors[0] = values[0];
  tensors[1] = values[1];
  for (form = TENON_WEIGHTS_SAFETENSORS; form <= TENON_WEIGHTS_NPZ; form++) {
    const int is_safetensors = form == TENON_WEIGHTS_SAFETENSORS;
    tenon_status status;
    SIZED(options);
    memset(&told, 0, sizeof(told));
    options.form = form;
    options.durability = TENON_DURABILITY_FILE;
    options.progress = remember;
    options.progress_context = &told;
    options.metadata_keys = keys;
    options.metadata_texts = texts;
    options.metadata_count = is_safetensors ? 1 : 0;
    if (is_safetensors) {
      /* A build without JSON writes no such file. */
      status = tenon_save_weights(path, names, tensors, 2, &options, NULL);
      if (status == TENON_UNSUPPORTED) continue;
      CHECK(status == TENON_OK);
    } else {
      OK(tenon_save_weights(path, names, tensors, 2, &options, ERR));
    }
    CHECK(told.calls > 1 && told.done == told.total && told.total == (kManyElements + 3) * 4);
    weights = open_weights(path);
    CHECK(element(weights, "weight", 2) == 7.0F &&
          element(weights, "shift", kManyElements - 1) == 0.0F);
    if (is_safetensors) {
      OK(tenon_weights_value(weights, "__metadata__.format", &text, ERR));
      OK(tenon_value_get_str(text, &found, NULL, ERR));
      CHECK(strcmp(found, "pt") == 0);
      tenon_value_release(text);
    }
    tenon_weights_release(weights);
    /* No tensor makes a file too. */
    SIZED(options);
    options.form = form;
    OK(tenon_save_weights(path, NULL, NULL, 0, &options, ERR));
    unlink(path);
  }
  tenon_value_release(values[0]);
  tenon_value_release(values[1]);
}

static void not_saved(void) {
  static const char *const names[] = {"one", "two"}, *const same[] = {"one", "one"};
  static const char *const reserved[] = {"__metadata__"}, *const null[] = {NULL};
  static const char *const keys[] = {"key", "key"};
  tenon_value *value = new_vector(3, 5), *number = new_int(1);
  const tenon_value *tensors[2], *none[1] = {NULL}, *numbers[1];
  tenon_save_weights_options options;
  tensors[0] = tensors[1] = value;
  numbers[0] = number;
  SIZED(options);
  options.form = TENON_WEIGHTS_TORCH_SAVE; /* every build writes it */
  INVALID(tenon_save_weights(NULL, names, tensors, 2, &options, ERR));
  INVALID(tenon_save_weights(path, NULL, tensors, 1, &options, ERR));
  INVALID(tenon_save_weights(path, names, NULL, 1, &options, ERR));
  INVALID(tenon_save_weights(path, null, tensors, 1, &options, ERR));
  INVALID(tenon_save_weights(path, names, none, 1, &options, ERR));
  INVALID(tenon_save_weights(path, names, numbers, 1, &options, ERR));
  FAILS_SAYING(TENON_INVALID_ARGUMENT, "name", "one",
               tenon_save_weights(path, same, tensors, 2, &options, ERR));
  FAILS(TENON_NOT_FOUND, tenon_save_weights("/nowhere/a.pt", names, tensors, 2, &options, ERR));
  options.metadata_keys = options.metadata_texts = keys;
  options.metadata_count = 1;
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  options.form = TENON_WEIGHTS_SAFETENSORS;
  options.metadata_count = 2; /* the same key twice */
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  options.metadata_texts = NULL;
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  SIZED(options);
  options.form = 3;
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  SIZED(options);
  options.reserved = 1;
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  SIZED(options);
  options.durability = 9;
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  SIZED(options);
  options.flags = 2;
  FAILS(TENON_UNSUPPORTED, tenon_save_weights(path, names, tensors, 1, &options, ERR));
  memset(&options, 0, sizeof(options));
  INVALID(tenon_save_weights(path, names, tensors, 1, &options, ERR));
  if (tenon_save_weights(path, NULL, NULL, 0, NULL, NULL) == TENON_OK) {
    FAILS_SAYING(TENON_INVALID_ARGUMENT, "name", "__metadata__",
                 tenon_save_weights(path, reserved, tensors, 1, NULL, ERR));
    FAILS_SAYING(TENON_INVALID_ARGUMENT, "other", "two",
                 tenon_save_weights(path, names, tensors, 2, NULL, ERR));
    SIZED(options);
    options.flags = TENON_SAVE_DUPLICATE_SHARED;
    OK(tenon_save_weights(path, names, tensors, 2, &options, ERR));
  }
  unlink(path);
  tenon_value_release(value);
  tenon_value_release(number);
}

int main(void) {
  check_begin(120);
  make_folder("net.pt2");
  RUN(newest_form);
  RUN(second_form);
  RUN(first_form);
  RUN(into_an_arena);
  RUN_ONCE(in_many_threads);
  RUN(of_executorch);
  RUN(values);
  RUN(skipped);
  RUN(refused);
  RUN(saved);
  RUN(not_saved);
  remove_folder();
  return 0;
}
