/* Tests tenon/archive.h: archives that old versions of PyTorch wrote, read by one thread and by
 * several. */
#include "module_kit.h"

#include <pthread.h>

static int32_t version_of(const tenon_module *module) {
  tenon_import_report report;
  SIZED(report);
  OK(tenon_module_import_report(module, &report, ERR));
  return report.version;
}

static const char *fixture(const char *version) {
  static char name[512];
  const char *source = getenv("TENON_SOURCE_DIR");
  CHECK(source != NULL); /* CTest sets it */
  snprintf(name, sizeof(name), "%s/tests/peers/golden/module/%s/net.pt", source, version);
  return name;
}

static void of_old_pytorch(void) {
  static const char *const wanted[] = {
      "2 tables of source positions (.debug_pkl) are not written again",
      "div means what it meant at version 1, in __torch__.Net.halves",
      "full means what it meant at version 1, in __torch__.Net.filled",
  };
  struct bytes bytes = {NULL, 0};
  tenon_module *module = NULL, *child, *again;
  tenon_value *object = NULL, *same = NULL;
  tenon_name_list *warnings = NULL;
  tenon_export_report report;
  FAILS(TENON_UNSUPPORTED, tenon_import_module(fixture("1.2.0"), NULL, &module, ERR));
  OK(tenon_import_module(fixture("1.4.0"), NULL, &module, ERR));
  CHECK_EQ(version_of(module), 1);
  OK(tenon_module_warnings(module, &warnings, ERR));
  names_are(warnings, wanted, COUNT_OF(wanted));
  tenon_name_list_release(warnings);
  child = module_at(module, "child");
  again = module_at(module, "again");
  OK(tenon_module_object(child, &object, ERR));
  OK(tenon_module_object(again, &same, ERR));
  CHECK(object == same && first_at(again, "gain") == 0.5F);
  tenon_value_release(object);
  tenon_value_release(same);
  CHECK_EQ(version_of(child), 0);
  SIZED(report);
  OK(tenon_export_module_to(module, collect, &bytes, NULL, &report, ERR));
  CHECK_EQ(report.version, 1);
  /* An archive whose version has the old division cannot hold new code with the new one. */
  OK(tenon_module_define(module,
                         "def third(self, x: Tensor) -> Tensor:\n  return torch.div(x, 3)\n", ERR));
  INVALID_SAYING("operator", "div",
                 tenon_export_module_to(module, collect, &bytes, NULL, NULL, ERR));
  INVALID_SAYING("module", "Net", tenon_export_module_to(module, collect, &bytes, NULL, NULL, ERR));
  free(bytes.data);
  tenon_module_release(child);
  tenon_module_release(again);
  tenon_module_release(module);
}

/* Reads all parts of the module, and returns the number of its members. It does not use OK, which
 * only one thread may use. */
static void *look(void *context) {
  const tenon_module *module = context;
  tenon_member_list *list = NULL;
  tenon_file_list *files = NULL;
  tenon_name_list *warnings = NULL;
  size_t n;
  CHECK(tenon_module_tensors(module, &list, NULL) == TENON_OK);
  CHECK_EQ(tenon_member_list_count(list),
           3); /* weight, child.gain, again.gain: old classes do not name buffers */
  tenon_member_list_release(list);
  CHECK(tenon_module_members(module, &list, NULL) == TENON_OK);
  n = tenon_member_list_count(list);
  tenon_member_list_release(list);
  CHECK(tenon_module_find(module, "child.gain", &list, NULL) == TENON_OK);
  tenon_member_list_release(list);
  CHECK(tenon_module_code_files(module, &files, NULL) == TENON_OK);
  CHECK(tenon_file_list_count(files) == 2);
  tenon_file_list_release(files);
  CHECK(tenon_module_warnings(module, &warnings, NULL) == TENON_OK);
  tenon_name_list_release(warnings);
  return (void *)(uintptr_t)n;
}

static void threads(void) {
  pthread_t others[4];
  tenon_module *module = NULL;
  void *result;
  size_t i;
  OK(tenon_import_module(fixture("1.4.0"), NULL, &module,
                         ERR)); /* no thread has parsed its code yet */
  for (i = 0; i < COUNT_OF(others); i++) CHECK(pthread_create(&others[i], NULL, look, module) == 0);
  for (i = 0; i < COUNT_OF(others); i++) {
    CHECK(pthread_join(others[i], &result) == 0);
    CHECK(result == look(module));
  }
  tenon_module_release(module);
}

int main(void) {
  check_begin(120);
  RUN(of_old_pytorch);
  RUN_ONCE(threads);
  return 0;
}
