/* usage: build STEPS FOLDER. It executes the steps of tests/peers/module/builders/README.md with
 * the C API. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "lines.h"

/* The objects that the steps made. A line makes at most one, so there is room for one for each
 * line. */
static tenon_storage** storages;
static tenon_value** values;
static tenon_module** modules;
static size_t n_storages, n_values, n_modules;
static const char* folder;
static tenon_error* err;

static void ok(tenon_status status) {
  if (status != TENON_OK) fail("%s: %s", tenon_status_name(status), tenon_error_message(err));
}

static tenon_storage* storage_at(size_t at) { return storages[index_at(at, n_storages)]; }
static tenon_value* value_at(size_t at) { return values[index_at(at, n_values)]; }
static tenon_value* value_or_null(size_t at) { return is(at, "-") ? NULL : value_at(at); }
static tenon_module* module_at(size_t at) { return modules[index_at(at, n_modules)]; }

/* Returns the values in every `step`th word from `first` on. */
static tenon_value** values_from(size_t first, size_t step, size_t* n) {
  static tenon_value* found[MOST_WORDS];
  size_t at;
  *n = 0;
  for (at = first; at < n_words(); at += step) found[(*n)++] = value_at(at);
  return found;
}

static const char** texts_from(size_t first, size_t step, size_t* n) {
  static const char* found[MOST_WORDS];
  size_t at;
  *n = 0;
  for (at = first; at < n_words(); at += step) found[(*n)++] = text_at(at);
  return found;
}

static void forget_all(void) {
  while (n_modules > 0) tenon_module_release(modules[--n_modules]);
  while (n_values > 0) tenon_value_release(values[--n_values]);
  while (n_storages > 0) tenon_storage_release(storages[--n_storages]);
}

static tenon_scalar_type scalar_type_at(size_t at) {
  tenon_scalar_type type = 0;
  ok(tenon_scalar_type_parse(text_at(at), &type, &err));
  return type;
}

static void make_tensor(tenon_value** out) {
  int64_t sizes[TENON_TENSOR_MAX_NDIM], strides[TENON_TENSOR_MAX_NDIM];
  tenon_tensor* tensor = NULL;
  tenon_tensor_spec spec;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  ok(tenon_scalar_type_to_dtype(scalar_type_at(2), &spec.dtype, &err));
  spec.ndim = numbers_at(3, sizes, TENON_TENSOR_MAX_NDIM);
  spec.sizes = sizes;
  if (numbers_at(4, strides, TENON_TENSOR_MAX_NDIM) >= 0) spec.strides = strides;
  spec.offset = (uint64_t)number_at(5);
  spec.flags = number_at(6) ? TENON_TENSOR_REQUIRES_GRAD : 0;
  ok(tenon_tensor_new(storage_at(1), &spec, &tensor, &err));
  ok(tenon_value_new_tensor(tensor, out, &err));
  tenon_tensor_release(tensor);
}

static int32_t name_of(size_t at, const char* const* names, int32_t n) {
  int32_t number;
  for (number = 0; number < n; number++) {
    if (is(at, names[number])) return number;
  }
  fail("there is no %s", text_at(at));
  return -1;
}

static void make_tensor_from_spec(tenon_value** out) {
  static const char* const layouts[] = {"strided",    "sparse_coo", "sparse_csr", "",
                                        "sparse_csc", "sparse_bsr", "sparse_bsc"};
  static const char* const quantizers[] = {"none", "per_tensor_affine", "per_channel_affine",
                                           "per_channel_affine_float_qparams"};
  int64_t sizes[TENON_TENSOR_MAX_NDIM], strides[TENON_TENSOR_MAX_NDIM];
  tenon_value_tensor_spec spec;
  size_t at;
  memset(&spec, 0, sizeof(spec));
  spec.struct_size = sizeof(spec);
  for (at = 1; at + 1 < n_words(); at += 2) {
    const size_t word = at + 1;
    if (is(at, "scalar_type")) {
      spec.scalar_type = scalar_type_at(word);
    } else if (is(at, "layout")) {
      spec.layout = name_of(word, layouts, 7);
    } else if (is(at, "quantizer")) {
      spec.quantizer = name_of(word, quantizers, 4);
    } else if (is(at, "device")) {
      spec.device = text_at(word);
    } else if (is(at, "sizes")) {
      spec.ndim = numbers_at(word, sizes, TENON_TENSOR_MAX_NDIM);
      spec.sizes = sizes;
    } else if (is(at, "strides")) {
      numbers_at(word, strides, TENON_TENSOR_MAX_NDIM);
      spec.strides = strides;
    } else if (is(at, "scale")) {
      spec.scale = float_at(word);
    } else if (is(at, "zero_point")) {
      spec.zero_point = number_at(word);
    } else if (is(at, "axis")) {
      spec.axis = number_at(word);
    } else if (is(at, "storage")) {
      spec.storage = storage_at(word);
    } else if (is(at, "offset")) {
      spec.offset = number_at(word);
    } else if (is(at, "storage_offset")) {
      spec.storage_offset = (uint64_t)number_at(word);
    } else if (is(at, "storage_numel")) {
      spec.storage_numel = (uint64_t)number_at(word);
    } else if (is(at, "requires_grad")) {
      spec.flags |= number_at(word) ? TENON_TENSOR_REQUIRES_GRAD : 0;
    } else if (is(at, "conj")) {
      spec.flags |= number_at(word) ? TENON_TENSOR_CONJ : 0;
    } else if (is(at, "neg")) {
      spec.flags |= number_at(word) ? TENON_TENSOR_NEG : 0;
    } else if (is(at, "coalesced")) {
      spec.coalesced = number_at(word) ? TENON_COALESCED_YES : TENON_COALESCED_NO;
    } else if (is(at, "indices")) {
      spec.indices = value_at(word);
    } else if (is(at, "plain_indices")) {
      spec.plain_indices = value_at(word);
    } else if (is(at, "values")) {
      spec.values = value_at(word);
    } else if (is(at, "scales")) {
      spec.scales = value_at(word);
    } else if (is(at, "zero_points")) {
      spec.zero_points = value_at(word);
    } else {
      fail("there is no field %s", text_at(at));
    }
  }
  ok(tenon_value_new_tensor_from_spec(&spec, out, &err));
}

/* Returns whether the step is one that makes a value. */
static int make_value(tenon_value** out) {
  tenon_value* keys[MOST_WORDS];
  size_t n;
  if (is(0, "tensor")) {
    make_tensor(out);
  } else if (is(0, "spec")) {
    make_tensor_from_spec(out);
  } else if (is(0, "none")) {
    ok(tenon_value_new_none(out, &err));
  } else if (is(0, "bool")) {
    ok(tenon_value_new_bool((int)number_at(1), out, &err));
  } else if (is(0, "int")) {
    ok(tenon_value_new_int(number_at(1), out, &err));
  } else if (is(0, "float")) {
    ok(tenon_value_new_float(float_at(1), out, &err));
  } else if (is(0, "complex")) {
    ok(tenon_value_new_complex(float_at(1), float_at(2), out, &err));
  } else if (is(0, "str")) {
    ok(tenon_value_new_str(text_at(1), nbytes_at(1), out, &err));
  } else if (is(0, "device")) {
    ok(tenon_value_new_device(text_at(1), out, &err));
  } else if (is(0, "tuple")) {
    tenon_value** items = values_from(2, 1, &n);
    ok(tenon_value_new_tuple(text_or_null(1), items, n, out, &err));
  } else if (is(0, "list")) {
    tenon_value** items = values_from(2, 1, &n);
    ok(tenon_value_new_list(text_or_null(1), items, n, out, &err));
  } else if (is(0, "dict")) {
    memcpy(keys, values_from(2, 2, &n), sizeof(keys));
    ok(tenon_value_new_dict(text_or_null(1), keys, values_from(3, 2, &n), n, out, &err));
  } else if (is(0, "enum")) {
    ok(tenon_value_new_enum(text_at(1), value_at(2), out, &err));
  } else if (is(0, "opaque")) {
    ok(tenon_value_new_opaque(text_at(1), value_at(2), out, &err));
  } else if (is(0, "object")) {
    const char** names = texts_from(2, 2, &n);
    ok(tenon_value_new_object(text_at(1), names, values_from(3, 2, &n), n, out, &err));
  } else {
    return 0;
  }
  return 1;
}

static void export_module(void) {
  char path[4096];
  if (snprintf(path, sizeof(path), "%s/%s", folder, text_at(2)) >= (int)sizeof(path))
    fail("the path is too long");
  ok(tenon_export_module(module_at(1), path, NULL, NULL, &err));
}

static void change_module(void) {
  tenon_module* module = module_at(1);
  size_t n;
  if (is(0, "parameter")) {
    ok(tenon_module_add_parameter(module, text_at(2), value_or_null(3), &err));
  } else if (is(0, "buffer")) {
    ok(tenon_module_add_buffer(module, text_at(2), value_or_null(3), &err));
  } else if (is(0, "attribute")) {
    ok(tenon_module_add_attribute(module, text_at(2), text_or_null(3), value_at(4), &err));
  } else if (is(0, "constant")) {
    ok(tenon_module_add_constant(module, text_at(2), text_or_null(3), value_at(4), &err));
  } else if (is(0, "submodule")) {
    ok(tenon_module_add_submodule(module, text_at(2), module_at(3), text_or_null(4), &err));
  } else if (is(0, "define")) {
    ok(tenon_module_define(module, text_at(2), &err));
  } else if (is(0, "types")) {
    ok(tenon_module_define_types(module, text_at(2), text_at(3), &err));
  } else if (is(0, "before") || is(0, "after")) {
    const char** methods = texts_from(2, 1, &n);
    ok(tenon_module_set_hooks(module, is(0, "before"), methods, n, &err));
  } else if (is(0, "traced")) {
    tenon_value** inputs = values_from(3, 1, &n);
    ok(tenon_module_set_traced_inputs(module, text_at(2), inputs, n, &err));
  } else if (is(0, "extra")) {
    const unsigned char* data = bytes_at(3, &n);
    ok(tenon_module_set_extra_file(module, text_at(2), data, n, &err));
  } else if (is(0, "set")) {
    ok(tenon_module_set(module, text_at(2), value_or_null(3), &err));
  } else if (is(0, "state")) {
    ok(tenon_module_set_state(module, text_at(2), value_or_null(3), &err));
  } else if (is(0, "replace")) {
    ok(tenon_module_set_submodule(module, text_at(2), module_at(3), &err));
  } else if (is(0, "remove")) {
    ok(tenon_module_remove(module, text_at(2), &err));
  } else if (is(0, "load")) {
    const char** paths = texts_from(2, 2, &n);
    ok(tenon_module_load(module, paths, values_from(3, 2, &n), n, 0, NULL, NULL, &err));
  } else if (is(0, "export")) {
    export_module();
  } else {
    fail("there is no such step");
  }
}

int main(int argc, char** argv) {
  size_t n_lines;
  if (argc != 3) return 2;
  folder = argv[2];
  n_lines = read_lines(argv[1]);
  storages = calloc(n_lines, sizeof(*storages));
  values = calloc(n_lines, sizeof(*values));
  modules = calloc(n_lines, sizeof(*modules));
  if (storages == NULL || values == NULL || modules == NULL) return 2;
  while (next_line()) {
    if (is(0, "model")) {
      forget_all();
    } else if (is(0, "storage")) {
      size_t nbytes;
      const unsigned char* data = bytes_at(1, &nbytes);
      ok(tenon_storage_new_from(NULL, data, nbytes, &storages[n_storages++], &err));
    } else if (is(0, "module")) {
      ok(tenon_module_new(text_at(1), &modules[n_modules++], &err));
    } else if (make_value(&values[n_values])) {
      n_values++;
    } else {
      change_module();
    }
  }
  forget_all();
  free(storages);
  free(values);
  free(modules);
  return 0;
}
