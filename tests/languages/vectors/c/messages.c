#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

/* Returns the bytes of a hex text, repeated, and a NUL after them. */
static unsigned char *repeated(const char *hex, int64_t times, size_t *nbytes) {
  size_t one;
  const unsigned char *bytes = bytes_of_hex(hex, &one);
  unsigned char *out = (unsigned char *)keep(calloc(one * (size_t)times + 1, 1), free);
  int64_t i;
  for (i = 0; i < times; i++) memcpy(out + (size_t)i * one, bytes, one);
  *nbytes = one * (size_t)times;
  return out;
}

static int compare_message(const struct test_case *test, tenon_message *message,
                           tenon_tensor **tensors, const char **names, size_t n,
                           const unsigned char *user, size_t user_nbytes) {
  size_t i, got_nbytes = 0, n_found = 0;
  const void *got = tenon_message_user_bytes(message, &got_nbytes);
  const char **find =
      case_find(test, "expect.find") == NULL ? NULL : case_texts(test, "expect.find", &n_found);
  SAME("count", tenon_message_count(message), case_number(test, "expect.count"));
  for (i = 0; i < n; i++) {
    const char *name = tenon_message_name(message, i);
    if ((name == NULL) != (names[i] == NULL) || (name != NULL && strcmp(name, names[i]) != 0))
      return wrong("name %zu does not come back", i);
  }
  SAME("user bytes", got_nbytes, user_nbytes);
  if (user_nbytes != 0 && memcmp(got, user, user_nbytes) != 0)
    return wrong("the user's bytes do not come back");
  for (i = 0; i < n_found; i++) {
    char *colon = strchr(find[i], ':');
    const int64_t index = strtoll(colon + 1, NULL, 10);
    const tenon_tensor *found;
    size_t nbytes;
    *colon = '\0';
    found = tenon_message_find(message, (const char *)bytes_of_hex(find[i], &nbytes));
    if (found != (index >= 0 && (size_t)index < n ? tensors[index] : NULL) ||
        (index >= 0 && (size_t)index >= n)) {
      return wrong("find %s does not give %lld", find[i], (long long)index);
    }
  }
  return 0;
}

int run_message(const struct test_case *test) {
  size_t n, i, user_nbytes, nbytes;
  const char **names = case_texts(test, "names", &n), *user_hex = case_find(test, "user");
  const unsigned char *user = repeated(user_hex == NULL ? "" : user_hex,
                                       case_number_or(test, "user_repeat", 1), &user_nbytes);
  tenon_tensor **tensors = (tenon_tensor **)keep(calloc(n + 1, sizeof(*tensors)), free);
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  for (i = 0; i < n; i++) {
    if (make_bytes_tensor(make_storage(1, 0), &tensors[i]) != TENON_OK) return wrong("no tensor");
    keep_tensor(tensors[i]);
    names[i] =
        strcmp(names[i], "-") == 0
            ? NULL
            : (const char *)repeated(names[i], case_number_or(test, "name_repeat", 1), &nbytes);
  }
  if (tenon_message_new(&message, NULL) != TENON_OK) return wrong("no message");
  keep_message(message);
  status = tenon_message_add(message, tensors, names, n, NULL, &error);
  if (status == TENON_OK && user_nbytes != 0)
    status = tenon_message_set_user_bytes(message, user, user_nbytes, &error);
  MUST(outcome(test, status, error));
  return status == TENON_OK ? compare_message(test, message, tensors, names, n, user, user_nbytes)
                            : 0;
}

static void release_descriptor(void *object) {
  tenon_descriptor_release((tenon_descriptor *)object);
}

int run_encode(const struct test_case *test) {
  const int64_t n = case_number_or(test, "tensors", 0);
  size_t n_storages, i, nbytes, user_nbytes;
  const int64_t *sizes = case_numbers(test, "storages", &n_storages);
  const unsigned char *user = bytes_of_hex(case_text(test, "user"), &user_nbytes);
  tenon_storage **storages =
      (tenon_storage **)keep(calloc(n_storages + 1, sizeof(*storages)), free);
  tenon_message *message = NULL;
  tenon_descriptor *descriptor = NULL;
  const void *bytes;
  int64_t t;
  for (i = 0; i < n_storages; i++)
    storages[i] = make_storage((uint64_t)sizes[i], TENON_STORAGE_ISOLATED);
  if (tenon_message_new(&message, NULL) != TENON_OK) return wrong("no message");
  keep_message(message);
  for (t = 0; t < n; t++) {
    char prefix[64];
    const char *name;
    tenon_tensor *tensor = NULL;
    snprintf(prefix, sizeof(prefix), "tensors.%d.", (int)t);
    if (make_tensor(test, prefix, storages[case_number(test, case_key(prefix, "storage"))], &tensor,
                    NULL) != TENON_OK) {
      return wrong("no tensor %d", (int)t);
    }
    keep_tensor(tensor);
    name = case_text(test, case_key(prefix, "name"));
    name = strcmp(name, "-") == 0 ? NULL : (const char *)bytes_of_hex(name, &nbytes);
    if (tenon_message_add(message, &tensor, &name, 1, NULL, NULL) != TENON_OK)
      return wrong("tensor %d is not taken", (int)t);
  }
  if (user_nbytes != 0 &&
      tenon_message_set_user_bytes(message, user, user_nbytes, NULL) != TENON_OK)
    return wrong("no user bytes");
  if (tenon_descriptor_new(message, NULL, &descriptor, NULL) != TENON_OK)
    return wrong("no descriptor");
  keep(descriptor, release_descriptor);
  bytes = tenon_descriptor_bytes(descriptor, &nbytes);
  return same_bytes(test, bytes, nbytes);
}

static int compare_view(const struct test_case *test, int64_t index,
                        const tenon_tensor_view *view) {
  const int64_t dtype[3] = {view->dtype.code, view->dtype.bits, view->dtype.lanes};
  char prefix[64];
  int i;
  snprintf(prefix, sizeof(prefix), "expect.tensors.%d.", (int)index);
  for (i = 0; i < test->n; i++) {
    const char *key = test->keys[i] + strlen(prefix), *value = test->values[i];
    if (strncmp(test->keys[i], prefix, strlen(prefix)) != 0) continue;
    if (strcmp(key, "name") == 0) {
      if ((view->name == NULL) != (strcmp(value, "-") == 0))
        return wrong("tensor %d: name", (int)index);
      if (view->name != NULL) MUST(same_hex("name", view->name, strlen(view->name), value));
    } else if (strcmp(key, "dtype") == 0) {
      MUST(same_numbers("dtype", dtype, 3, test, test->keys[i]));
    } else if (strcmp(key, "sizes") == 0) {
      MUST(same_numbers("sizes", view->sizes, (size_t)view->ndim, test, test->keys[i]));
    } else if (strcmp(key, "strides") == 0) {
      MUST(same_numbers("strides", view->strides, (size_t)view->ndim, test, test->keys[i]));
    } else if (strcmp(key, "offset") == 0) {
      SAME("offset", view->offset, case_number(test, test->keys[i]));
    } else if (strcmp(key, "flags") == 0) {
      SAME("flags", view->flags, case_number(test, test->keys[i]));
    } else if (strcmp(key, "numel") == 0) {
      SAME("numel", view->numel, case_number(test, test->keys[i]));
    } else if (strcmp(key, "nbytes") == 0) {
      SAME("nbytes", view->nbytes, case_number(test, test->keys[i]));
    } else if (strcmp(key, "contiguous") == 0) {
      SAME("contiguous", view->is_contiguous, case_number(test, test->keys[i]));
    } else if (strcmp(key, "read_only") == 0) {
      SAME("read_only", view->data_mut == NULL && view->data != NULL,
           case_number(test, test->keys[i]));
    } else if (strcmp(key, "data") == 0) {
      const size_t nbytes = view->data == NULL ? 0 : strlen(value) / 2;
      MUST(same_hex("data", view->data, nbytes, value));
    } else {
      return wrong("unknown expectation %s", key);
    }
  }
  return 0;
}

int run_descriptor(const struct test_case *test) {
  size_t n_fds, nbytes, user_nbytes = 0, i;
  const int64_t *numbers = case_numbers(test, "fds", &n_fds);
  const unsigned char *bytes = bytes_of_hex(case_text(test, "bytes"), &nbytes);
  const int64_t n = case_number_or(test, "expect.tensors", 0);
  int32_t fds[8];
  tenon_open_options options = open_options(test);
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  tenon_tensor_view views[64];
  tenon_status status;
  const void *user;
  for (i = 0; i < n_fds && i < 8; i++) fds[i] = (int32_t)numbers[i];
  status = tenon_descriptor_open(bytes, nbytes, n_fds == 0 ? NULL : fds, n_fds, &options, &message,
                                 &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep_message(message);
  SAME("count", tenon_message_count(message), n);
  user = tenon_message_user_bytes(message, &user_nbytes);
  MUST(same_hex("user bytes", user, user_nbytes, case_text(test, "expect.user")));
  if (n > 64) return wrong("more than 64 tensors");
  views[0].struct_size = sizeof(views[0]);
  if (tenon_message_get_views(message, views, (size_t)n, NULL) != TENON_OK)
    return wrong("no views");
  for (i = 0; i < (size_t)n; i++) MUST(compare_view(test, (int64_t)i, &views[i]));
  return 0;
}
