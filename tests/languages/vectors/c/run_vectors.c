/* usage: run_vectors FOLDER. It executes the cases of FOLDER/cases.txt with the C API
 * (tests/languages/vectors/README.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

int make_tensor(const struct test_case *test, const char *prefix, tenon_storage *storage,
                tenon_tensor **out, tenon_error **error) {
  size_t n, n_sizes, n_strides;
  const int64_t *dtype = case_numbers(test, case_key(prefix, "dtype"), &n);
  tenon_tensor_spec spec;
  SIZED(spec);
  spec.dtype.code = (uint8_t)dtype[0];
  spec.dtype.bits = (uint8_t)dtype[1];
  spec.dtype.lanes = (uint16_t)dtype[2];
  spec.sizes = case_numbers(test, case_key(prefix, "sizes"), &n_sizes);
  spec.strides = case_numbers(test, case_key(prefix, "strides"), &n_strides);
  spec.ndim = (int32_t)n_sizes;
  spec.offset = (uint64_t)case_number_or(test, case_key(prefix, "offset"), 0);
  spec.flags = (uint32_t)case_number_or(test, case_key(prefix, "flags"), 0);
  return tenon_tensor_new(storage, &spec, out, error);
}

tenon_status make_bytes_tensor(tenon_storage *storage, tenon_tensor **out) {
  const int64_t size = (int64_t)tenon_storage_nbytes(storage);
  tenon_tensor_spec spec;
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_UINT;
  spec.dtype.bits = 8;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  return tenon_tensor_new(storage, &spec, out, NULL);
}

tenon_storage *make_storage(uint64_t nbytes, uint32_t flags) {
  tenon_storage *storage = NULL;
  tenon_storage_options options;
  SIZED(options);
  options.flags = flags;
  if (tenon_storage_new(&options, nbytes, &storage, NULL) != TENON_OK) abort();
  return keep_storage(storage);
}

int outcome_of(const struct test_case *test, const char *prefix, tenon_status status,
               tenon_error *error) {
  const char *wanted = case_text(test, case_key(prefix, "status")),
             *message = tenon_error_message(error);
  const char *details = case_key(prefix, "details.");
  int result = 0, i;
  if (strcmp(tenon_status_name(status), wanted) != 0) {
    result = wrong("status is %s, not %s: %s", tenon_status_name(status), wanted, message);
  } else if (status != TENON_OK) {
    if (tenon_error_code(error) != status)
      result = wrong("the error has code %d, not %d", tenon_error_code(error), status);
    if (message[0] == '\0' || strchr(message, '\n') != NULL)
      result = wrong("no message of one line: '%s'", message);
  }
  for (i = 0; i < test->n; i++) {
    const char *key = test->keys[i] + strlen(details), *detail;
    if (strncmp(test->keys[i], details, strlen(details)) != 0) continue;
    detail = tenon_error_detail(error, key);
    if (detail == NULL || strcmp(detail, test->values[i]) != 0) {
      result = wrong("detail %s is %s, not %s", key, detail == NULL ? "absent" : detail,
                     test->values[i]);
    }
  }
  tenon_error_release(error);
  return result;
}

int outcome(const struct test_case *test, tenon_status status, tenon_error *error) {
  return outcome_of(test, "expect.", status, error);
}

static int run_status(const struct test_case *test) {
  const tenon_status status = (tenon_status)case_number(test, "status");
  const char *name = case_text(test, "name");
  tenon_status other;
  if (strcmp(tenon_status_name(status), name) != 0)
    return wrong("name is %s, not %s", tenon_status_name(status), name);
  for (other = 1; other < 32 && strcmp(name, "UNKNOWN") != 0; other++) {
    if (other != status && strcmp(tenon_status_name(other), name) == 0)
      return wrong("%s is the name of %d too", name, other);
  }
  return 0;
}

/* The dtype's text is not compared, because the header has numbers only. */
static int run_dtype(const struct test_case *test) {
  size_t n;
  const int64_t *dtype = case_numbers(test, "dtype", &n), numel = case_number(test, "numel");
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  tenon_tensor_spec spec;
  tenon_status status;
  SIZED(spec);
  spec.dtype.code = (uint8_t)dtype[0];
  spec.dtype.bits = (uint8_t)dtype[1];
  spec.dtype.lanes = (uint16_t)dtype[2];
  spec.ndim = 1;
  spec.sizes = &numel;
  status = tenon_tensor_new(make_storage(4096, 0), &spec, &tensor, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep_tensor(tensor);
  SAME("nbytes", tenon_tensor_nbytes(tensor), case_number(test, "expect.nbytes"));
  if (tenon_tensor_get_spec(tensor, &spec, NULL) != TENON_OK) return wrong("no spec");
  SAME("code", spec.dtype.code, dtype[0]);
  SAME("bits", spec.dtype.bits, dtype[1]);
  SAME("lanes", spec.dtype.lanes, dtype[2]);
  return 0;
}

static int run_layout(const struct test_case *test) {
  tenon_storage *storage = make_storage((uint64_t)case_number(test, "storage_nbytes"), 0);
  tenon_tensor *tensor = NULL;
  tenon_error *error = NULL;
  tenon_tensor_view view;
  const tenon_status status = make_tensor(test, "", storage, &tensor, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep_tensor(tensor);
  view.struct_size = sizeof(view);
  if (tenon_tensor_get_view(tensor, &view, NULL) != TENON_OK) return wrong("no view");
  SAME("numel", view.numel, case_number(test, "expect.numel"));
  SAME("nbytes", view.nbytes, case_number(test, "expect.nbytes"));
  SAME("contiguous", view.is_contiguous, case_number(test, "expect.contiguous"));
  SAME("offset", view.offset, case_number_or(test, "offset", 0));
  MUST(same_numbers("sizes", view.sizes, (size_t)view.ndim, test, "sizes"));
  return same_numbers("strides", view.strides, (size_t)view.ndim, test, "expect.strides");
}

static tenon_status make_view(const struct test_case *test, const tenon_tensor *tensor,
                              tenon_tensor **out, tenon_error **error) {
  size_t n, i;
  const int64_t *given;
  tenon_index items[64];
  if (case_find(test, "reshape") != NULL) {
    given = case_numbers(test, "reshape", &n);
    return tenon_tensor_reshape(tensor, given, (int32_t)n, out, error);
  }
  if (case_find(test, "view_dtype") != NULL) {
    tenon_dtype dtype;
    given = case_numbers(test, "view_dtype", &n);
    dtype.code = (uint8_t)given[0];
    dtype.bits = (uint8_t)given[1];
    dtype.lanes = (uint16_t)given[2];
    return tenon_tensor_view_dtype(tensor, dtype, out, error);
  }
  given = case_numbers(test, "index", &n);
  memset(items, 0, sizeof(items));
  for (i = 0; 4 * i < n && i < 64; i++, given += 4) {
    items[i].struct_size = sizeof(items[i]);
    items[i].kind = (int32_t)given[0];
    items[i].start = given[1];
    items[i].stop = given[2];
    items[i].step = given[3];
  }
  return tenon_tensor_index(tensor, items, i, out, error);
}

static int run_view(const struct test_case *test) {
  tenon_storage *storage = make_storage((uint64_t)case_number(test, "storage_nbytes"), 0);
  tenon_tensor *tensor = NULL, *view = NULL;
  tenon_error *error = NULL;
  tenon_tensor_spec spec;
  tenon_status status;
  size_t n;
  const int64_t *dtype;
  if (make_tensor(test, "", storage, &tensor, NULL) != TENON_OK) return wrong("no tensor");
  keep_tensor(tensor);
  status = make_view(test, tensor, &view, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep_tensor(view);
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  if (tenon_tensor_get_spec(view, &spec, NULL) != TENON_OK) return wrong("no spec");
  dtype = case_numbers(test, "expect.dtype", &n);
  SAME("code", spec.dtype.code, dtype[0]);
  SAME("bits", spec.dtype.bits, dtype[1]);
  SAME("lanes", spec.dtype.lanes, dtype[2]);
  SAME("offset", spec.offset, case_number(test, "expect.offset"));
  SAME("flags", spec.flags, case_number(test, "expect.flags"));
  MUST(same_numbers("sizes", spec.sizes, (size_t)spec.ndim, test, "expect.sizes"));
  return same_numbers("strides", spec.strides, (size_t)spec.ndim, test, "expect.strides");
}

static const struct {
  const char *name, *expect;
  int (*run)(const struct test_case *test);
} kinds[] = {
    {"status", "", run_status},
    {"dtype", "status nbytes details", run_dtype},
    {"layout", "status numel nbytes strides contiguous details", run_layout},
    {"view", "status dtype sizes strides offset flags details", run_view},
    {"message", "status count find details", run_message},
    {"composite", "status details bytes parts sizes strides dtype check", run_composite},
    {"object", "status details text user", run_object},
    {"encode", "bytes mask", run_encode},
    {"descriptor", "status details tensors user", run_descriptor},
    {"named_file", "status details nbytes data read_only sealed mode count", run_named_file},
    {"arena", "status details stats", run_arena},
    {"lease", "blocks_lent bytes_lent leases nbytes", run_lease},
    {"new_named_file", "status details bytes mask", run_new_named_file},
    {"cuda_counter", "status details", run_cuda_counter},
    {"cuda_open", "status details", run_cuda_open},
    {"cuda_share",
     "status details transport device nbytes offset memory memory_nbytes counter counter_nbytes "
     "fds event_required",
     run_cuda_share},
    {"cuda_event", "status details complete", run_cuda_event},
    {"cuda_module", "status details names_device data", run_cuda_module},
    {"cuda_arena", "status details stats", run_cuda_arena},
};

/* Checks that the kind has every key of the expectation. */
static int check_keys(const struct test_case *test, const char *allowed) {
  int i;
  for (i = 0; i < test->n; i++) {
    const char *key = test->keys[i] + strlen("expect."), *found = allowed;
    size_t length = strcspn(key, ".");
    if (strncmp(test->keys[i], "expect.", strlen("expect.")) != 0) continue;
    while (found != NULL && *found != '\0' &&
           (strcspn(found, " ") != length || strncmp(found, key, length) != 0)) {
      found = strchr(found, ' ');
      found = found == NULL ? NULL : found + 1;
    }
    if (found == NULL || *found == '\0') return wrong("unknown expectation %s", key);
  }
  return 0;
}

static int run(const struct test_case *test) {
  const char *kind = case_text(test, "kind");
  size_t i;
  for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (strcmp(kinds[i].name, kind) != 0) continue;
    MUST(check_keys(test, kinds[i].expect));
    return kinds[i].run(test);
  }
  return wrong("unknown kind %s", kind);
}

/* Returns 0 if this machine has what the case requires, 1 with a reason if it lacks that, and 2
 * with a reason if the requirement is unknown. */
static int lacks(const struct test_case *test) {
  const char *
    requires
  = case_find(test, "requires");
  tenon_error *error = NULL;
  if (requires == NULL) return 0;
  if (strcmp(requires, "cuda") != 0) return 2 * wrong("unknown requirement %s", requires);
  if (tenon_cuda_available(&error) == TENON_OK) return 0;
  wrong("requires cuda: %s", tenon_error_message(error));
  tenon_error_release(error);
  return 1;
}

int main(int argc, char **argv) {
  struct test_case test;
  size_t nbytes = 0;
  char *text, *at, path[4096];
  int failed = 0;
  if (argc != 2) return 2;
  snprintf(path, sizeof(path), "%s/cases.txt", argv[1]);
  at = text = (char *)read_file(path, &nbytes);
  if (text == NULL) {
    perror(path);
    return 2;
  }
  while (case_next(&at, &test)) {
    char id[256];
    int result, missing;
    snprintf(id, sizeof(id), "%s", case_text(&test, "id"));
    missing = lacks(&test);
    result = missing != 0 ? missing - 1 : run(&test);
    release_kept();
    if (missing == 1) {
      printf("skip %s %s\n", id, wrong_reason());
    } else if (result != 0) {
      failed = 1;
      printf("FAIL %s %s\n", id, wrong_reason());
    } else {
      printf("ok %s\n", id);
    }
    fflush(stdout);
  }
  free(text);
  return failed;
}
