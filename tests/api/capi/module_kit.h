/* Values and modules with which the tests of module.h and archive.h begin. The caller releases the
 * result of each new_... function. */
#ifndef TENON_TESTS_CAPI_MODULE_KIT_H
#define TENON_TESTS_CAPI_MODULE_KIT_H

#include "check.h"

CHECK_UNUSED static tenon_value *new_int(int64_t number) {
  tenon_value *value = NULL;
  OK(tenon_value_new_int(number, &value, ERR));
  return value;
}

CHECK_UNUSED static tenon_value *new_str(const char *text) {
  tenon_value *value = NULL;
  OK(tenon_value_new_str(text, strlen(text), &value, ERR));
  return value;
}

/* Returns contiguous float32 values: first, first + 1, … */
CHECK_UNUSED static tenon_value *new_floats(int32_t ndim, const int64_t *sizes, float first) {
  tenon_tensor_spec spec;
  tenon_storage *storage = NULL;
  tenon_tensor *tensor = NULL;
  tenon_value *value = NULL;
  float elements[64];
  int64_t numel = 1;
  int32_t k;
  int i;
  for (k = 0; k < ndim; k++) numel *= sizes[k];
  CHECK(numel <= 64);
  for (i = 0; i < (int)numel; i++) elements[i] = first + (float)i;
  OK(tenon_storage_new_from(NULL, elements, (uint64_t)numel * sizeof(float), &storage, ERR));
  SIZED(spec);
  spec.dtype.code = TENON_DTYPE_FLOAT;
  spec.dtype.bits = 32;
  spec.dtype.lanes = 1;
  spec.ndim = ndim;
  spec.sizes = sizes;
  OK(tenon_tensor_new(storage, &spec, &tensor, ERR));
  OK(tenon_value_new_tensor(tensor, &value, ERR));
  tenon_tensor_release(tensor);
  tenon_storage_release(storage);
  return value;
}

CHECK_UNUSED static tenon_value *new_vector(int64_t n, float first) {
  return new_floats(1, &n, first);
}

/* Reads the first element of the value's tensor. No earlier call returned the address of its bytes.
 */
CHECK_UNUSED static float first_of(const tenon_value *value) {
  tenon_tensor *tensor = NULL;
  float first;
  OK(tenon_value_get_tensor(value, &tensor, ERR));
  first = *(const float *)tenon_tensor_data(tensor);
  tenon_tensor_release(tensor);
  return first;
}

CHECK_UNUSED static tenon_module *new_module(const char *class_name) {
  tenon_module *module = NULL;
  OK(tenon_module_new(class_name, &module, ERR));
  return module;
}

CHECK_UNUSED static tenon_module *new_linear(int64_t in, int64_t out, float first) {
  const int64_t sizes[2] = {out, in};
  tenon_module *module = new_module("layers.Linear");
  tenon_value *weight = new_floats(2, sizes, first), *bias = new_vector(out, first);
  OK(tenon_module_add_parameter(module, "weight", weight, ERR));
  OK(tenon_module_add_parameter(module, "bias", bias, ERR));
  OK(tenon_module_define(
      module,
      "def forward(self, x: Tensor) -> Tensor:\n  return torch.linear(x, self.weight, self.bias)\n",
      ERR));
  tenon_value_release(weight);
  tenon_value_release(bias);
  return module;
}

/* Returns an MLP: fc1: 4 -> 8, fc2: 8 -> 3. */
CHECK_UNUSED static tenon_module *new_mlp(void) {
  tenon_module *module = new_module("MLP"), *fc1 = new_linear(4, 8, 0),
               *fc2 = new_linear(8, 3, 100);
  OK(tenon_module_add_submodule(module, "fc1", fc1, NULL, ERR));
  OK(tenon_module_add_submodule(module, "fc2", fc2, NULL, ERR));
  OK(tenon_module_define(module,
                         "def forward(self, x: Tensor) -> Tensor:\n"
                         "  return self.fc2.forward(torch.relu(self.fc1.forward(x)))\n",
                         ERR));
  tenon_module_release(fc1);
  tenon_module_release(fc2);
  return module;
}

CHECK_UNUSED static tenon_member member_at(const tenon_member_list *list, size_t index) {
  tenon_member member;
  SIZED(member);
  OK(tenon_member_list_get(list, index, &member, ERR));
  return member;
}

/* Returns the value at a path. */
CHECK_UNUSED static tenon_value *value_at(const tenon_module *module, const char *path) {
  tenon_member_list *list = NULL;
  tenon_value *value;
  OK(tenon_module_find(module, path, &list, ERR));
  value = tenon_value_retain(member_at(list, 0).value);
  tenon_member_list_release(list);
  CHECK(value != NULL);
  return value;
}

CHECK_UNUSED static float first_at(const tenon_module *module, const char *path) {
  tenon_value *value = value_at(module, path);
  const float first = first_of(value);
  tenon_value_release(value);
  return first;
}

CHECK_UNUSED static tenon_module *module_at(const tenon_module *module, const char *path) {
  tenon_member_list *list = NULL;
  tenon_module *found;
  OK(tenon_module_find(module, path, &list, ERR));
  found = tenon_module_retain(member_at(list, 0).module);
  tenon_member_list_release(list);
  CHECK(found != NULL);
  return found;
}

struct bytes {
  unsigned char *data;
  size_t nbytes;
};

/* A tenon_write_function that appends to a struct bytes. */
CHECK_UNUSED static int64_t collect(void *context, const void *data, size_t nbytes) {
  struct bytes *bytes = context;
  bytes->data = realloc(bytes->data, bytes->nbytes + nbytes);
  CHECK(bytes->data != NULL);
  memcpy(bytes->data + bytes->nbytes, data, nbytes);
  bytes->nbytes += nbytes;
  return (int64_t)nbytes;
}

CHECK_UNUSED static void names_are(const tenon_name_list *list, const char *const *names,
                                   size_t n) {
  size_t i;
  CHECK_EQ(tenon_name_list_count(list), n);
  for (i = 0; i < n; i++) {
    if (strcmp(tenon_name_list_get(list, i), names[i]) != 0)
      check_fail(__FILE__, __LINE__, tenon_name_list_get(list, i));
  }
  CHECK(tenon_name_list_get(list, n) == NULL);
}

#endif
