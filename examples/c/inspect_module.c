/* Prints the contents of a TorchScript file. usage: inspect_module FILE */
#include <inttypes.h>
#include <stdio.h>
#include <tenon/tenon.h>

static const char *const kKinds[] = {"parameter", "buffer",    "attribute",
                                     "constant",  "submodule", "method"};

static tenon_status print_tensor(const tenon_value *value, tenon_error **err) {
  tenon_value_tensor_spec spec = {.struct_size = sizeof spec};
  tenon_status status = tenon_value_get_tensor_spec(value, &spec, err);
  if (status != TENON_OK) return status;
  printf(" %s [", tenon_scalar_type_name(spec.scalar_type));
  for (int32_t i = 0; i < spec.ndim; i++) printf("%s%" PRId64, i == 0 ? "" : ", ", spec.sizes[i]);
  printf("]");
  return TENON_OK;
}

static tenon_status print_members(const tenon_module *module, int depth, tenon_error **err) {
  tenon_member_list *list = NULL;
  tenon_status status = tenon_module_members(module, &list, err);
  for (size_t i = 0; i < tenon_member_list_count(list) && status == TENON_OK; i++) {
    tenon_member member = {.struct_size = sizeof member};
    status = tenon_member_list_get(list, i, &member, err);
    if (status != TENON_OK) break;
    printf("%*s%s %s", 2 * depth, "", kKinds[member.kind], member.name);
    if (*member.type != '\0') printf(": %s", member.type);
    if (member.kind == TENON_MEMBER_CONSTANT) printf(" = %s", member.source);
    if (tenon_value_kind(member.value) == TENON_VALUE_TENSOR)
      status = print_tensor(member.value, err);
    printf("\n");
    if (member.module != NULL && status == TENON_OK)
      status = print_members(member.module, depth + 1, err);
  }
  tenon_member_list_release(list);
  return status;
}

static tenon_status print_names(const tenon_module *module, tenon_error **err) {
  tenon_file_list *files = NULL;
  tenon_name_list *warnings = NULL;
  tenon_status status = tenon_module_extra_files(module, &files, err);
  for (size_t i = 0; i < tenon_file_list_count(files) && status == TENON_OK; i++) {
    tenon_file file;
    status = tenon_file_list_get(files, i, &file, err);
    if (status == TENON_OK) printf("extra file %s, %zu bytes\n", file.name, file.nbytes);
  }
  if (status == TENON_OK) status = tenon_module_warnings(module, &warnings, err);
  for (size_t i = 0; i < tenon_name_list_count(warnings); i++)
    printf("warning: %s\n", tenon_name_list_get(warnings, i));
  tenon_file_list_release(files);
  tenon_name_list_release(warnings);
  return status;
}

int main(int argc, char **argv) {
  tenon_module *module = NULL;
  tenon_error *err = NULL;
  tenon_import_report report = {.struct_size = sizeof report};
  char class_name[256];
  if (argc != 2) return fprintf(stderr, "usage: inspect_module FILE\n"), 2;
  tenon_status status = tenon_import_module(argv[1], NULL, &module, &err);
  if (status == TENON_OK) status = tenon_module_import_report(module, &report, &err);
  if (status == TENON_OK)
    status = tenon_module_class_name(module, class_name, sizeof class_name, NULL, &err);
  if (status == TENON_OK) {
    printf("%s, version %" PRId32 ", %" PRIu32 " records\n", class_name, report.version,
           report.records);
    status = print_members(module, 1, &err);
  }
  if (status == TENON_OK) status = print_names(module, &err);
  if (status != TENON_OK) {
    fprintf(stderr, "inspect_module: %s\n", tenon_error_message(err));
    tenon_error_release(err);
  }
  tenon_module_release(module);
  return status == TENON_OK ? 0 : 1;
}
