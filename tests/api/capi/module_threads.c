/* Tests rule 8 of tenon.h for modules: any thread may call any function at any time, whatever other
 * threads do with the same tree, and a fork leaves the child a whole tree. */
#include "module_kit.h"

#include <pthread.h>

/* Without the library's lock 3000 rounds have always failed, and 300 have not. */
enum { kRounds = TENON_TEST_SANITIZED ? 600 : 3000, kForks = 40 };

/* What the threads of one case share. They must not use OK, which has one place for errors. */
struct shared {
  tenon_module *net; /* has the submodule "part" of two parents, and the parameter "weight" */
  tenon_module *part;
  tenon_value *tensors[2];
  int is_over; /* atomic */
};

/* A call may succeed, or be refused because an export runs. */
static int is_good(tenon_status status) {
  if (status != TENON_OK && status != TENON_PERMISSION)
    fprintf(stderr, "a call in a thread returned %s\n", tenon_status_name(status));
  return status == TENON_OK || status == TENON_PERMISSION;
}

static void *add_and_remove(void *context) {
  struct shared *shared = context;
  tenon_value *number = NULL;
  char name[40];
  int i;
  CHECK(tenon_value_new_int(7, &number, NULL) == TENON_OK);
  for (i = 0; i < kRounds; i++) {
    tenon_status removed = TENON_PERMISSION;
    snprintf(name, sizeof(name), "an_attribute_with_a_long_name_%d", i);
    CHECK(is_good(tenon_module_define(shared->part, "def f(self) -> int:\n  return 1\n", NULL)));
    if (tenon_module_add_attribute(shared->part, name, "int", number, NULL) != TENON_OK) continue;
    while (removed == TENON_PERMISSION) removed = tenon_module_remove(shared->part, name, NULL);
    CHECK(removed == TENON_OK);
  }
  tenon_value_release(number);
  return NULL;
}

static void *replace_tensors(void *context) {
  struct shared *shared = context;
  const char *const path = "part.weight";
  int i;
  for (i = 0; i < kRounds; i++) {
    tenon_value *const *tensor = &shared->tensors[i % 2];
    CHECK(is_good(tenon_module_set(shared->net, path, *tensor, NULL)));
    CHECK(is_good(tenon_module_load(shared->net, &path, tensor, 1, TENON_LOAD_ALLOW_MISSING, NULL,
                                    NULL, NULL)));
    CHECK(is_good(tenon_module_set_extra_file(shared->net, "note", "x", 1, NULL)));
  }
  return NULL;
}

/* The attributes of an object, as a wrapper lists them: one call after another. */
static void look_at_object(tenon_value *object) {
  const size_t n = tenon_value_count(object);
  size_t i;
  for (i = 0; i < n; i++) {
    const char *const name = tenon_value_attribute_name(object, i);
    tenon_value *item = NULL;
    tenon_status status;
    if (name == NULL) continue; /* the attribute has gone since */
    status = tenon_value_find(object, name, &item, NULL);
    CHECK(status == TENON_OK || status == TENON_NOT_FOUND);
    CHECK(strcmp(name, "weight") == 0 || strcmp(name, "training") == 0 ||
          strncmp(name, "an_attribute_with_a_long_name_", 30) == 0);
    tenon_value_release(item);
    item = NULL;
    status = tenon_value_item(object, i, &item, NULL);
    CHECK(status == TENON_OK || status == TENON_INVALID_ARGUMENT);
    tenon_value_release(item);
  }
}

static void *look(void *context) {
  struct shared *shared = context;
  tenon_value *object = NULL;
  CHECK(tenon_module_object(shared->part, &object, NULL) == TENON_OK);
  while (!__atomic_load_n(&shared->is_over, __ATOMIC_ACQUIRE)) {
    tenon_member_list *list = NULL;
    tenon_file_list *files = NULL;
    tenon_name_list *warnings = NULL;
    char text[64];
    CHECK(tenon_module_members(shared->part, &list, NULL) == TENON_OK);
    CHECK(tenon_member_list_count(list) >= 2);
    tenon_member_list_release(list);
    CHECK(tenon_module_find(shared->net, "part.weight", &list, NULL) == TENON_OK);
    tenon_member_list_release(list);
    CHECK(tenon_module_tensors(shared->net, &list, NULL) == TENON_OK);
    CHECK(tenon_member_list_count(list) == 2);
    tenon_member_list_release(list);
    CHECK(tenon_module_code_files(shared->net, &files, NULL) == TENON_OK);
    tenon_file_list_release(files);
    CHECK(tenon_module_extra_files(shared->net, &files, NULL) == TENON_OK);
    tenon_file_list_release(files);
    CHECK(tenon_module_check(shared->net, NULL) == TENON_OK);
    CHECK(tenon_module_warnings(shared->net, &warnings, NULL) == TENON_OK);
    tenon_name_list_release(warnings);
    CHECK(tenon_module_class_name(shared->part, text, sizeof(text), NULL, NULL) == TENON_OK);
    CHECK(tenon_value_type(object, text, sizeof(text), NULL, NULL) == TENON_OK);
    look_at_object(object);
  }
  tenon_value_release(object);
  return NULL;
}

static int64_t swallow(void *context, const void *data, size_t nbytes) {
  (void)context;
  (void)data;
  return (int64_t)nbytes;
}

static void *export_it(void *context) {
  struct shared *shared = context;
  while (!__atomic_load_n(&shared->is_over, __ATOMIC_ACQUIRE)) {
    tenon_name_list *names = NULL;
    CHECK(tenon_export_module_to(shared->net, swallow, NULL, NULL, NULL, NULL) == TENON_OK);
    CHECK(tenon_export_opnames(shared->net, NULL, &names, NULL) == TENON_OK);
    tenon_name_list_release(names);
  }
  return NULL;
}

static void begin(struct shared *shared) {
  memset(shared, 0, sizeof(*shared));
  shared->tensors[0] = new_vector(3, 0);
  shared->tensors[1] = new_vector(3, 10);
  shared->net = new_module("Net");
  shared->part = new_module("Part");
  OK(tenon_module_add_parameter(shared->part, "weight", shared->tensors[0], ERR));
  OK(tenon_module_add_submodule(shared->net, "part", shared->part, NULL, ERR));
  OK(tenon_module_add_submodule(shared->net, "again", shared->part, NULL, ERR));
  OK(tenon_module_define(shared->net,
                         "def forward(self, x: Tensor) -> Tensor:\n"
                         "  return torch.mul(x, self.part.weight)\n",
                         ERR));
}

static void finish(struct shared *shared) {
  tenon_module_release(shared->net);
  tenon_module_release(shared->part);
  tenon_value_release(shared->tensors[0]);
  tenon_value_release(shared->tensors[1]);
}

static void start(pthread_t *thread, void *(*body)(void *), struct shared *shared) {
  CHECK(pthread_create(thread, NULL, body, shared) == 0);
}

static void one_tree_in_many_threads(void) {
  struct shared shared;
  pthread_t changing[2], other[3];
  size_t i;
  begin(&shared);
  start(&changing[0], add_and_remove, &shared);
  start(&changing[1], replace_tensors, &shared);
  start(&other[0], look, &shared);
  start(&other[1], look, &shared);
  start(&other[2], export_it, &shared);
  for (i = 0; i < COUNT_OF(changing); i++) CHECK(pthread_join(changing[i], NULL) == 0);
  __atomic_store_n(&shared.is_over, 1, __ATOMIC_RELEASE);
  for (i = 0; i < COUNT_OF(other); i++) CHECK(pthread_join(other[i], NULL) == 0);
  finish(&shared);
}

/* A change adds an attribute to an object and to its class. A child that was forked in between
 * would find only one of them. */
static void forks_during_changes(void) {
  struct shared shared;
  pthread_t changing[2];
  int i;
  begin(&shared);
  start(&changing[0], add_and_remove, &shared);
  start(&changing[1], replace_tensors, &shared);
  for (i = 0; i < kForks; i++) {
    pid_t child;
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      watchdog_begin(60);
      OK(tenon_module_set(shared.net, "part.weight", shared.tensors[1], ERR));
      CHECK(first_at(shared.net, "again.weight") == 10);
      OK(tenon_module_add_attribute(shared.part, "mine", NULL, shared.tensors[0], ERR));
      OK(tenon_module_check(shared.net, ERR));
      OK(tenon_export_module_to(shared.net, swallow, NULL, NULL, NULL, ERR));
      _exit(0);
    }
    check_join(child);
  }
  for (i = 0; i < 2; i++) CHECK(pthread_join(changing[i], NULL) == 0);
  finish(&shared);
}

/* The owner of a tensor's memory. Its end uses modules. */
struct owner {
  float elements[3];
  tenon_module *module;
  int ends;
};

static void end_of_owner(void *context) {
  struct owner *owner = context;
  tenon_member_list *list = NULL;
  OK(tenon_module_members(owner->module, &list, ERR));
  tenon_member_list_release(list);
  OK(tenon_module_set_extra_file(owner->module, "ended", "x", 1, ERR));
  owner->ends++;
}

static tenon_value *tensor_of(struct owner *owner) {
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_value *value = NULL;
  const int64_t size = 3;
  tenon_tensor_spec spec;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  spec.dtype.code = TENON_DTYPE_FLOAT;
  spec.dtype.bits = 32;
  spec.dtype.lanes = 1;
  spec.ndim = 1;
  spec.sizes = &size;
  OK(tenon_storage_wrap(owner->elements, sizeof(owner->elements), end_of_owner, owner, NULL,
                        &storage, ERR));
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  OK(tenon_value_new_tensor(tensor, &value, ERR));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return value;
}

/* Puts a tensor into the module that only the module keeps. */
static void put(struct owner *owner, const char *name) {
  tenon_value *value = tensor_of(owner);
  OK(tenon_module_add_buffer(owner->module, name, value, ERR));
  tenon_value_release(value);
}

static void what_a_change_drops_may_use_modules(void) {
  struct owner owner = {{0, 0, 0}, new_module("Net"), 0};
  const char *const names[] = {"b"};
  tenon_value *other = new_vector(3, 1);
  tenon_module *child = new_module("Child");
  tenon_module *const net = owner.module;
  put(&owner, "a");
  put(&owner, "b");
  put(&owner, "c");
  OK(tenon_module_set(net, "a", other, ERR));
  CHECK_EQ(owner.ends, 1);
  OK(tenon_module_load(net, names, &other, 1, TENON_LOAD_ALLOW_MISSING, NULL, NULL, ERR));
  CHECK_EQ(owner.ends, 2);
  OK(tenon_module_remove(net, "c", ERR));
  CHECK_EQ(owner.ends, 3);
  OK(tenon_module_add_submodule(net, "child", child, NULL, ERR));
  owner.module = child;
  put(&owner, "d");
  owner.module = net;
  tenon_module_release(child);
  OK(tenon_module_remove(net, "child", ERR));
  CHECK_EQ(owner.ends, 4);
  tenon_value_release(other);
  tenon_module_release(net);
}

/* What a callback of an export does. */
struct callback {
  tenon_module *exported;
  tenon_module *other;
  int calls;
};

static void *change_other(void *context) {
  struct callback *callback = context;
  CHECK(tenon_module_set_extra_file(callback->other, "by", "a thread", 8, NULL) == TENON_OK);
  return NULL;
}

static int64_t use_modules(void *context, const void *data, size_t nbytes) {
  struct callback *callback = context;
  tenon_member_list *list = NULL;
  pthread_t thread;
  pid_t child;
  (void)data;
  OK(tenon_module_members(callback->exported, &list, ERR));
  tenon_member_list_release(list);
  FAILS(TENON_PERMISSION, tenon_module_set_extra_file(callback->exported, "a", "b", 1, ERR));
  OK(tenon_module_set_extra_file(callback->other, "by", "this", 4, ERR));
  CHECK(pthread_create(&thread, NULL, change_other, callback) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  if (callback->calls++ == 0) {
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      watchdog_begin(60);
      OK(tenon_module_set_extra_file(callback->other, "by", "a child", 7, ERR));
      _exit(0);
    }
    check_join(child);
  }
  return (int64_t)nbytes;
}

static tenon_status hook(void *context, const tenon_module *module, const tenon_file **files,
                         size_t *n) {
  struct callback *callback = context;
  CHECK(module == callback->exported);
  CHECK(use_modules(context, "", 0) == 0);
  *files = NULL;
  *n = 0;
  return TENON_OK;
}

static void callbacks_of_an_export_use_modules(void) {
  struct callback callback = {new_mlp(), new_module("Other"), 0};
  tenon_export_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.hook = hook;
  options.hook_context = &callback;
  OK(tenon_export_module_to(callback.exported, use_modules, &callback, &options, NULL, ERR));
  CHECK(callback.calls >= 2); /* the hook and the sink */
  OK(tenon_module_set_extra_file(callback.exported, "a", "b", 1, ERR));
  tenon_module_release(callback.exported);
  tenon_module_release(callback.other);
}

/* A flatbuffer whose code is read when the module is first used. */
struct first_use {
  tenon_module *module;
  pthread_barrier_t together;
};
enum { kUsers = 4, kFirstUses = TENON_TEST_SANITIZED ? 60 : 300 };

/* Returns the object, of which the module keeps a reference. NULL: the code is bad. */
static void *use_first(void *context) {
  struct first_use *use = context;
  tenon_value *object = NULL;
  tenon_error *error = NULL;
  tenon_status status;
  (void)pthread_barrier_wait(&use->together);
  status = tenon_module_object(use->module, &object, &error);
  if (status == TENON_OK) {
    tenon_member_list *list = NULL;
    CHECK(tenon_module_find(use->module, "part.weight", &list, NULL) == TENON_OK);
    tenon_member_list_release(list);
    tenon_value_release(object);
    return object;
  }
  CHECK(status == TENON_CORRUPT);
  CHECK(strstr(tenon_error_message(error), "__torch__.py") != NULL);
  tenon_error_release(error);
  return NULL;
}

static void use_at_once(const struct bytes *bytes, int is_good) {
  struct first_use use;
  pthread_t threads[kUsers];
  int round, i;
  for (round = 0; round < kFirstUses; round++) {
    tenon_value *object = NULL;
    const tenon_status wanted = is_good ? TENON_OK : TENON_CORRUPT;
    OK(tenon_import_module_memory(bytes->data, bytes->nbytes, NULL, NULL, NULL, &use.module, ERR));
    CHECK(pthread_barrier_init(&use.together, NULL, kUsers + 1) == 0);
    for (i = 0; i < kUsers; i++) CHECK(pthread_create(&threads[i], NULL, use_first, &use) == 0);
    (void)pthread_barrier_wait(&use.together);
    if (!TENON_TEST_SANITIZED && round % 20 == 0) {
      pid_t child;
      fflush(NULL);
      child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        watchdog_begin(60);
        CHECK(tenon_module_object(use.module, &object, NULL) == wanted);
        if (is_good) {
          CHECK(first_at(use.module, "part.weight") == 0);
          tenon_value_release(object);
        }
        tenon_module_release(use.module);
        _exit(0);
      }
      check_join(child);
    }
    CHECK(tenon_module_object(use.module, &object, NULL) == wanted);
    for (i = 0; i < kUsers; i++) {
      void *found = NULL;
      CHECK(pthread_join(threads[i], &found) == 0);
      CHECK(found == object);
    }
    tenon_value_release(object);
    tenon_module_release(use.module);
    CHECK(pthread_barrier_destroy(&use.together) == 0);
  }
}

static void threads_make_the_first_use_at_once(void) {
  struct shared shared;
  struct bytes bytes = {NULL, 0};
  tenon_export_options options;
  size_t at = 0;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.flags = TENON_EXPORT_FLATBUFFER;
  begin(&shared);
  if (tenon_export_module_to(shared.net, collect, &bytes, &options, NULL, NULL) ==
      TENON_UNSUPPORTED) {
    puts("this build has no FlatBuffers");
  } else {
    use_at_once(&bytes, 1);
    while (memcmp(bytes.data + at, "def forward", 11) != 0) CHECK(++at + 11 <= bytes.nbytes);
    bytes.data[at + 1] = 'x';
    use_at_once(&bytes, 0);
  }
  free(bytes.data);
  finish(&shared);
}

static void names_live_as_long_as_their_object(void) {
  tenon_module *module = new_module("Net");
  tenon_value *number = new_int(1), *object = NULL;
  const char *training, *name;
  OK(tenon_module_add_attribute(module, "n", NULL, number, ERR));
  OK(tenon_module_object(module, &object, ERR));
  training = tenon_value_attribute_name(object, 0);
  name = tenon_value_attribute_name(object, 1);
  CHECK(name == tenon_value_attribute_name(object, 1));
  OK(tenon_module_remove(module, "training", ERR));
  CHECK(tenon_value_attribute_name(object, 1) == NULL);
  CHECK(name == tenon_value_attribute_name(object, 0));
  OK(tenon_module_remove(module, "n", ERR));
  tenon_module_release(module);
  CHECK(strcmp(training, "training") == 0 && strcmp(name, "n") == 0);
  tenon_value_release(object);
  tenon_value_release(number);
}

int main(void) {
  check_begin(300);
  RUN_ONCE(one_tree_in_many_threads);
  /* A sanitizer's allocator does not work in a child if another thread was in it at the fork. */
  if (!TENON_TEST_SANITIZED) RUN_ONCE(forks_during_changes);
  RUN_ONCE(threads_make_the_first_use_at_once);
  RUN(what_a_change_drops_may_use_modules);
  RUN(callbacks_of_an_export_use_modules);
  RUN(names_live_as_long_as_their_object);
  return 0;
}
