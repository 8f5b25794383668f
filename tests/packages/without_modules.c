/* Checks how the functions for modules fail in a library without modules (TENON_MODULES=OFF). The
   test packages.without_modules gives this program that library in place of its own. */
#include "api/capi/check.h"

#define REFUSED(call)                                                                              \
  do {                                                                                             \
    FAILS_RAW(TENON_UNSUPPORTED, TENON_UNSUPPORTED, call);                                         \
    CHECK(strstr(tenon_error_message(check_error), "this build of Tenon has no modules") != NULL); \
    CHECK(strstr(tenon_error_message(check_error), "-DTENON_MODULES=ON") != NULL);                 \
    tenon_error_release(check_error);                                                              \
    check_error = NULL;                                                                            \
  } while (0)

static void must_not_run(void* context) {
  (void)context;
  CHECK(!"release was called although the import failed");
}

static void modules_are_refused(void) {
  tenon_module* module = PATTERN;
  tenon_name_list* names = PATTERN;
  tenon_export_report report;
  memset(&report, 0, sizeof(report));
  report.struct_size = sizeof(report);
  REFUSED(tenon_module_new("__torch__.Model", &module, ERR));
  REFUSED(tenon_import_module("model.pt", NULL, &module, ERR));
  REFUSED(tenon_import_module_fd(0, NULL, &module, ERR));
  REFUSED(tenon_import_module_memory("PK", 2, must_not_run, NULL, NULL, &module, ERR));
  CHECK(module == PATTERN);
  REFUSED(tenon_export_module(NULL, "model.pt", NULL, &report, ERR));
  REFUSED(tenon_module_warnings(NULL, &names, ERR));
  REFUSED(tenon_export_opnames(NULL, NULL, &names, ERR));
  REFUSED(tenon_weights_names(NULL, &names, ERR));
  REFUSED(tenon_weights_skipped(NULL, &names, ERR));
  CHECK(names == PATTERN && report.nbytes == 0);
}

static void values_are_refused(void) {
  tenon_value* value = PATTERN;
  REFUSED(tenon_value_new_int(7, &value, ERR));
  REFUSED(tenon_value_new_none(&value, ERR));
  CHECK(value == PATTERN);
}

static void null_is_allowed(void) {
  CHECK(tenon_value_retain(NULL) == NULL);
  tenon_value_release(NULL);
  CHECK_EQ(tenon_value_kind(NULL), -1);
  CHECK(strcmp(tenon_value_class_name(NULL), "") == 0);
  CHECK(tenon_module_retain(NULL) == NULL);
  tenon_module_release(NULL);
  CHECK(tenon_weights_retain(NULL) == NULL);
  tenon_weights_release(NULL);
  CHECK_EQ(tenon_member_list_count(NULL), 0);
  CHECK_EQ(tenon_file_list_count(NULL), 0);
  CHECK_EQ(tenon_name_list_count(NULL), 0);
  CHECK(tenon_name_list_get(NULL, 0) == NULL);
  tenon_member_list_release(NULL);
  tenon_file_list_release(NULL);
  tenon_name_list_release(NULL);
}

int main(void) {
  check_begin(60);
  RUN(modules_are_refused);
  RUN(values_are_refused);
  RUN(null_is_allowed);
  return 0;
}
