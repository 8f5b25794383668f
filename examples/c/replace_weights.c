/* Imports a model, puts new weights in, and exports the model. Here the new weights are half the
 * old ones. In practice a trainer makes them. usage: replace_weights FILE OUT */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

/* Gives a new tensor of the same sizes with halved elements. It gives NULL and TENON_OK for a
 * tensor that does not have contiguous float32 elements. */
static tenon_status halve(const tenon_value *old, tenon_value **out, tenon_error **err) {
  tenon_tensor_spec spec = {.struct_size = sizeof spec};
  tenon_tensor *tensor = NULL, *made = NULL;
  tenon_storage *storage = NULL;
  void *data = NULL;
  tenon_status status = tenon_value_get_tensor(old, &tensor, NULL);
  if (status == TENON_UNSUPPORTED) return TENON_OK; /* quantised, sparse, … */
  if (status == TENON_OK) status = tenon_tensor_get_spec(tensor, &spec, err);
  if (status == TENON_OK && spec.dtype.code == TENON_DTYPE_FLOAT && spec.dtype.bits == 32 &&
      tenon_tensor_is_contiguous(tensor)) {
    const float *from = tenon_tensor_data(tensor);
    uint64_t numel = tenon_tensor_numel(tensor);
    status = tenon_storage_new(NULL, numel * sizeof(float), &storage, err);
    if (status == TENON_OK) status = tenon_storage_data_mut(storage, &data, err);
    if (status == TENON_OK) {
      for (uint64_t i = 0; i < numel; i++) ((float *)data)[i] = from[i] * 0.5F;
      spec.offset = 0;
      status = tenon_tensor_new(storage, &spec, &made, err);
    }
    if (status == TENON_OK) status = tenon_value_new_tensor(made, out, err);
  }
  tenon_tensor_release(made);
  tenon_storage_release(storage);
  tenon_tensor_release(tensor);
  return status;
}

static tenon_status replace(tenon_module *model, size_t *n_new, tenon_error **err) {
  tenon_member_list *list = NULL;
  tenon_status status = tenon_module_tensors(model, &list, err);
  size_t n = tenon_member_list_count(list), i;
  const char **paths = calloc(n + 1, sizeof *paths);
  tenon_value **values = calloc(n + 1, sizeof *values);
  *n_new = 0;
  if (status == TENON_OK && (paths == NULL || values == NULL)) status = TENON_RESOURCE_EXHAUSTED;
  for (i = 0; i < n && status == TENON_OK; i++) {
    tenon_member member = {.struct_size = sizeof member};
    status = tenon_member_list_get(list, i, &member, err);
    if (status == TENON_OK && member.kind == TENON_MEMBER_PARAMETER)
      status = halve(member.value, &values[*n_new], err);
    if (status != TENON_OK || values[*n_new] == NULL) continue;
    paths[(*n_new)++] = member.name; /* "encoder.0.weight" */
  }
  /* The call replaces all of them or none. A name that the model does not have is an error. */
  if (status == TENON_OK)
    status =
        tenon_module_load(model, paths, values, *n_new, TENON_LOAD_ALLOW_MISSING, NULL, NULL, err);
  for (i = 0; i < *n_new; i++) tenon_value_release(values[i]);
  free(values);
  free(paths);
  tenon_member_list_release(list);
  return status;
}

int main(int argc, char **argv) {
  tenon_module *model = NULL;
  tenon_error *err = NULL;
  size_t n = 0;
  if (argc != 3) return fprintf(stderr, "usage: replace_weights FILE OUT\n"), 2;
  tenon_status status = tenon_import_module(argv[1], NULL, &model, &err);
  if (status == TENON_OK) status = replace(model, &n, &err);
  if (status == TENON_OK) status = tenon_export_module(model, argv[2], NULL, NULL, &err);
  if (status == TENON_OK) {
    printf("%s: %zu parameters replaced\n", argv[2], n);
  } else {
    fprintf(stderr, "replace_weights: %s\n", tenon_error_message(err));
    tenon_error_release(err);
  }
  tenon_module_release(model);
  return status == TENON_OK ? 0 : 1;
}
