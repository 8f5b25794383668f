/* Tests tenon/module.h: modules that are built, read, changed and refused. */
#include "module_kit.h"

static const char *const kForward =
    "def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.scale)\n";

static void building(void) {
  tenon_module *module = new_module("my.Net");
  tenon_value *scale = new_vector(3, 1), *number = new_int(7), *text = new_str("x");
  tenon_module *child = new_linear(2, 2, 0), *out = PATTERN;
  char name[64] = "?";
  size_t nbytes = 0;
  OK(tenon_module_class_name(module, name, sizeof(name), &nbytes, ERR));
  CHECK(strcmp(name, "__torch__.my.Net") == 0 && nbytes == strlen(name));
  OK(tenon_module_class_name(module, name, 6, NULL, ERR));
  CHECK(strcmp(name, "__tor") == 0);
  nbytes = 0;
  OK(tenon_module_class_name(module, NULL, 0, &nbytes, ERR));
  CHECK_EQ(nbytes, 16);

  OK(tenon_module_add_parameter(module, "scale", scale, ERR));
  OK(tenon_module_add_parameter(module, "bias", NULL, ERR));
  OK(tenon_module_add_buffer(module, "mean", scale, ERR));
  OK(tenon_module_add_attribute(module, "n", "int", number, ERR));
  OK(tenon_module_add_attribute(module, "label", NULL, text, ERR)); /* the value decides the type */
  OK(tenon_module_add_constant(module, "size", "int", number, ERR));
  OK(tenon_module_add_submodule(module, "0", child, NULL, ERR));
  OK(tenon_module_add_submodule(module, "again", child, NULL, ERR));
  OK(tenon_module_define(module, kForward, ERR));
  OK(tenon_module_check(module, ERR));

  /* A name that is taken, by a member of any kind. */
  INVALID_SAYING("name", "scale", tenon_module_add_parameter(module, "scale", scale, ERR));
  INVALID_SAYING("name", "scale", tenon_module_add_buffer(module, "scale", scale, ERR));
  INVALID_SAYING("name", "n", tenon_module_add_attribute(module, "n", "int", number, ERR));
  INVALID_SAYING("name", "size", tenon_module_add_constant(module, "size", "int", number, ERR));
  INVALID_SAYING("name", "0", tenon_module_add_submodule(module, "0", child, NULL, ERR));
  INVALID_SAYING("name", "forward",
                 tenon_module_add_attribute(module, "forward", "int", number, ERR));
  INVALID_SAYING("line", "1",
                 tenon_module_define(module, "def scale(self) -> int:\n  return 1\n", ERR));

  /* Invalid names and types, and values that do not fit. */
  INVALID(tenon_module_add_parameter(module, "a.b", scale, ERR));
  INVALID(tenon_module_add_parameter(module, "", scale, ERR));
  INVALID(tenon_module_add_parameter(module, "\xc3", scale, ERR));
  INVALID(tenon_module_add_constant(module, "0", "int", number, ERR));
  INVALID_SAYING("found", "int", tenon_module_add_parameter(module, "p", number, ERR));
  INVALID_SAYING("wanted", "float", tenon_module_add_attribute(module, "f", "float", number, ERR));
  INVALID_SAYING("where", "f", tenon_module_add_attribute(module, "f", "float", number, ERR));
  INVALID_SAYING("column", "6", tenon_module_add_attribute(module, "f", "List[", number, ERR));
  INVALID(tenon_module_add_attribute(module, "f", "__torch__.Nothing", number, ERR));
  INVALID(tenon_module_add_submodule(module, "self_again", module, NULL, ERR));
  INVALID(tenon_module_add_submodule(child, "parent", module, NULL, ERR));
  INVALID(tenon_module_add_submodule(module, "c", child, "int", ERR));
  FAILS(TENON_NOT_FOUND, tenon_module_add_submodule(module, "c", child, "__torch__.Nothing", ERR));
  INVALID_KEEPING(out, tenon_module_new("1x", &out, ERR));
  INVALID_KEEPING(out, tenon_module_new("", &out, ERR));
  tenon_value_release(scale);
  tenon_value_release(number);
  tenon_value_release(text);
  tenon_module_release(child);
  tenon_module_release(module);
}

static void nulls(void) {
  tenon_module *module = new_module("N"), *nothing = PATTERN;
  tenon_value *number = new_int(1), *value = PATTERN;
  tenon_member_list *members = PATTERN;
  tenon_name_list *names = PATTERN;
  tenon_file_list *files = PATTERN;
  tenon_member member;
  tenon_file file;
  INVALID(tenon_module_new(NULL, &nothing, ERR));
  INVALID(tenon_module_new("A", NULL, ERR));
  CHECK(tenon_module_retain(NULL) == NULL);
  tenon_module_release(NULL);
  INVALID(tenon_module_class_name(NULL, NULL, 0, NULL, ERR));
  INVALID(tenon_module_class_name(module, NULL, 1, NULL, ERR));
  INVALID_KEEPING(value, tenon_module_object(NULL, &value, ERR));
  INVALID(tenon_module_object(module, NULL, ERR));
  INVALID(tenon_module_add_parameter(NULL, "a", NULL, ERR));
  INVALID(tenon_module_add_parameter(module, NULL, NULL, ERR));
  INVALID(tenon_module_add_buffer(NULL, "a", NULL, ERR));
  INVALID(tenon_module_add_buffer(module, NULL, NULL, ERR));
  INVALID(tenon_module_add_attribute(NULL, "a", "int", number, ERR));
  INVALID(tenon_module_add_attribute(module, NULL, "int", number, ERR));
  INVALID(tenon_module_add_attribute(module, "a", "int", NULL, ERR));
  INVALID(tenon_module_add_constant(NULL, "a", "int", number, ERR));
  INVALID(tenon_module_add_constant(module, NULL, "int", number, ERR));
  INVALID(tenon_module_add_constant(module, "a", "int", NULL, ERR));
  INVALID(tenon_module_add_submodule(NULL, "a", module, NULL, ERR));
  INVALID(tenon_module_add_submodule(module, NULL, module, NULL, ERR));
  INVALID(tenon_module_add_submodule(module, "a", NULL, NULL, ERR));
  INVALID(tenon_module_define(NULL, kForward, ERR));
  INVALID(tenon_module_define(module, NULL, ERR));
  INVALID(tenon_module_define_types(NULL, "__torch__", "", ERR));
  INVALID(tenon_module_define_types(module, NULL, "", ERR));
  INVALID(tenon_module_define_types(module, "__torch__", NULL, ERR));
  INVALID(tenon_module_set_hooks(NULL, 1, NULL, 0, ERR));
  INVALID(tenon_module_set_hooks(module, 1, NULL, 1, ERR));
  INVALID(tenon_module_set_traced_inputs(NULL, "forward", NULL, 0, ERR));
  INVALID(tenon_module_set_traced_inputs(module, NULL, NULL, 0, ERR));
  INVALID(tenon_module_set_traced_inputs(module, "forward", NULL, 1, ERR));
  INVALID(tenon_module_set_extra_file(NULL, "a", NULL, 0, ERR));
  INVALID(tenon_module_set_extra_file(module, NULL, NULL, 0, ERR));
  INVALID(tenon_module_set_extra_file(module, "a", NULL, 1, ERR));
  INVALID(tenon_module_remove_extra_file(NULL, "a", ERR));
  INVALID(tenon_module_remove_extra_file(module, NULL, ERR));
  INVALID(tenon_module_set(NULL, "a", number, ERR));
  INVALID(tenon_module_set(module, NULL, number, ERR));
  INVALID(tenon_module_set_state(NULL, "a", number, ERR));
  INVALID(tenon_module_set_state(module, NULL, number, ERR));
  INVALID(tenon_module_set_submodule(NULL, "a", module, ERR));
  INVALID(tenon_module_set_submodule(module, NULL, module, ERR));
  INVALID(tenon_module_set_submodule(module, "a", NULL, ERR));
  INVALID(tenon_module_remove(NULL, "a", ERR));
  INVALID(tenon_module_remove(module, NULL, ERR));
  INVALID(tenon_module_load(NULL, NULL, NULL, 0, 0, NULL, NULL, ERR));
  INVALID(tenon_module_load(module, NULL, NULL, 1, 0, NULL, NULL, ERR));
  INVALID(tenon_module_check(NULL, ERR));
  INVALID_KEEPING(members, tenon_module_members(NULL, &members, ERR));
  INVALID(tenon_module_members(module, NULL, ERR));
  INVALID_KEEPING(members, tenon_module_find(NULL, "a", &members, ERR));
  INVALID_KEEPING(members, tenon_module_find(module, NULL, &members, ERR));
  INVALID(tenon_module_find(module, "a", NULL, ERR));
  INVALID_KEEPING(members, tenon_module_tensors(NULL, &members, ERR));
  INVALID(tenon_module_tensors(module, NULL, ERR));
  INVALID_KEEPING(names, tenon_module_states(NULL, &names, ERR));
  INVALID(tenon_module_states(module, NULL, ERR));
  INVALID_KEEPING(files, tenon_module_extra_files(NULL, &files, ERR));
  INVALID(tenon_module_extra_files(module, NULL, ERR));
  INVALID_KEEPING(files, tenon_module_code_files(NULL, &files, ERR));
  INVALID(tenon_module_code_files(module, NULL, ERR));
  INVALID_KEEPING(value, tenon_module_constants(NULL, &value, ERR));
  INVALID(tenon_module_constants(module, NULL, ERR));
  SIZED(member);
  CHECK(tenon_member_list_count(NULL) == 0 && tenon_file_list_count(NULL) == 0 &&
        tenon_name_list_count(NULL) == 0);
  CHECK(tenon_name_list_get(NULL, 0) == NULL);
  INVALID(tenon_member_list_get(NULL, 0, &member, ERR));
  INVALID(tenon_file_list_get(NULL, 0, &file, ERR));
  tenon_member_list_release(NULL);
  tenon_file_list_release(NULL);
  tenon_name_list_release(NULL);
  tenon_value_release(number);
  tenon_module_release(module);
}

static void looking(void) {
  static const struct {
    int32_t kind;
    const char *name;
    const char *type;
  } wanted[] = {
      {TENON_MEMBER_ATTRIBUTE, "training", "bool"},
      {TENON_MEMBER_PARAMETER, "scale", "Tensor"},
      {TENON_MEMBER_ATTRIBUTE, "sizes", "List[int]"},
      {TENON_MEMBER_SUBMODULE, "part", "__torch__.layers.Linear"},
      {TENON_MEMBER_CONSTANT, "depth", "int"},
      {TENON_MEMBER_METHOD, "forward", ""},
  };
  struct {
    tenon_member member;
    unsigned char newer[16];
  } larger;
  tenon_module *module = new_module("Net"), *part = new_linear(2, 2, 5);
  tenon_value *scale = new_vector(3, 1), *number = new_int(7), *sizes = NULL, *object = NULL,
              *same = NULL;
  tenon_member_list *list = NULL, *nothing = PATTERN;
  tenon_member member;
  size_t i;
  OK(tenon_value_new_list("List[int]", &number, 1, &sizes, ERR));
  OK(tenon_module_add_parameter(module, "scale", scale, ERR));
  OK(tenon_module_add_attribute(module, "sizes", "List[int]", sizes, ERR));
  OK(tenon_module_add_submodule(module, "part", part, NULL, ERR));
  OK(tenon_module_add_constant(module, "depth", "int", number, ERR));
  OK(tenon_module_define(module, kForward, ERR));

  OK(tenon_module_members(module, &list, ERR));
  CHECK_EQ(tenon_member_list_count(list), COUNT_OF(wanted));
  for (i = 0; i < COUNT_OF(wanted); i++) {
    member = member_at(list, i);
    CHECK_EQ(member.kind, wanted[i].kind);
    CHECK(strcmp(member.name, wanted[i].name) == 0 && strcmp(member.type, wanted[i].type) == 0);
    CHECK((member.module != NULL) == (member.kind == TENON_MEMBER_SUBMODULE));
    CHECK((member.value == NULL) ==
          (member.kind == TENON_MEMBER_SUBMODULE || member.kind == TENON_MEMBER_METHOD));
    CHECK((member.source[0] != '\0') ==
          (member.kind == TENON_MEMBER_CONSTANT || member.kind == TENON_MEMBER_METHOD));
  }
  CHECK(member_at(list, 1).value == scale && strcmp(member_at(list, 4).source, "7") == 0);
  CHECK(strstr(member_at(list, 5).source, "torch.mul") != NULL);
  memset(&larger, 0x5a, sizeof(larger));
  larger.member.struct_size = sizeof(larger);
  OK(tenon_member_list_get(list, 0, &larger.member, ERR));
  CHECK(larger.member.struct_size == sizeof(larger) && larger.newer[0] == 0x5a &&
        larger.newer[15] == 0x5a);
  member.struct_size = sizeof(member) - 1;
  INVALID_KEEPING(member, tenon_member_list_get(list, 0, &member, ERR));
  member.struct_size = sizeof(member);
  INVALID_KEEPING(member, tenon_member_list_get(list, COUNT_OF(wanted), &member, ERR));
  INVALID(tenon_member_list_get(list, 0, NULL, ERR));

  /* The submodule is the one that was added, and so is its object. */
  OK(tenon_module_object(part, &object, ERR));
  OK(tenon_module_object(member_at(list, 3).module, &same, ERR));
  CHECK(object == same && tenon_value_kind(object) == TENON_VALUE_OBJECT);
  tenon_value_release(object);
  tenon_value_release(same);
  tenon_member_list_release(list);

  OK(tenon_module_find(module, "part.bias", &list, ERR));
  CHECK_EQ(tenon_member_list_count(list), 1);
  CHECK(strcmp(member_at(list, 0).name, "bias") == 0 && first_of(member_at(list, 0).value) == 5);
  tenon_member_list_release(list);
  FAILS_KEEPING(TENON_NOT_FOUND, nothing, tenon_module_find(module, "part.nothing", &nothing, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, nothing, tenon_module_find(module, "scale.x", &nothing, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, nothing, tenon_module_find(module, "", &nothing, ERR));
  FAILS_KEEPING(TENON_NOT_FOUND, nothing, tenon_module_find(module, "part.", &nothing, ERR));

  OK(tenon_module_tensors(module, &list, ERR));
  CHECK_EQ(tenon_member_list_count(list), 3);
  CHECK(strcmp(member_at(list, 0).name, "scale") == 0 &&
        strcmp(member_at(list, 1).name, "part.weight") == 0);
  CHECK(strcmp(member_at(list, 2).name, "part.bias") == 0 &&
        strcmp(member_at(list, 2).type, "Tensor") == 0);
  CHECK(member_at(list, 2).kind == TENON_MEMBER_PARAMETER);
  tenon_member_list_release(list);
  tenon_value_release(scale);
  tenon_value_release(number);
  tenon_value_release(sizes);
  tenon_module_release(part);
  tenon_module_release(module);
}

static void files(void) {
  tenon_module *module = new_mlp();
  tenon_file_list *list = NULL;
  tenon_file file, untouched;
  tenon_value *tensor = new_vector(2, 4), *constants = NULL, *first = NULL;
  OK(tenon_module_extra_files(module, &list, ERR));
  CHECK_EQ(tenon_file_list_count(list), 0);
  memset(&untouched, 0x5a, sizeof(untouched));
  INVALID_KEEPING(untouched, tenon_file_list_get(list, 0, &untouched, ERR));
  tenon_file_list_release(list);
  OK(tenon_module_set_extra_file(module, "labels.txt", "cat", 3, ERR));
  OK(tenon_module_set_extra_file(module, "empty", NULL, 0, ERR));
  OK(tenon_module_set_extra_file(module, "labels.txt", "d\0g", 3, ERR));
  OK(tenon_module_extra_files(module, &list, ERR));
  OK(tenon_module_remove_extra_file(module, "labels.txt", ERR)); /* the list does not change */
  FAILS(TENON_NOT_FOUND, tenon_module_remove_extra_file(module, "labels.txt", ERR));
  INVALID(tenon_module_set_extra_file(module, "", "x", 1, ERR));
  CHECK_EQ(tenon_file_list_count(list), 2);
  OK(tenon_file_list_get(list, 0, &file, ERR));
  CHECK(strcmp(file.name, "labels.txt") == 0 && file.nbytes == 3 &&
        memcmp(file.data, "d\0g", 4) == 0);
  OK(tenon_file_list_get(list, 1, &file, ERR));
  CHECK(strcmp(file.name, "empty") == 0 && file.nbytes == 0);
  INVALID(tenon_file_list_get(list, 2, &file, ERR));
  INVALID(tenon_file_list_get(list, 0, NULL, ERR));
  tenon_file_list_release(list);

  /* A tensor has no literal: it lies among the constants, and the code refers to it. */
  OK(tenon_module_add_constant(module, "table", "Tensor", tensor, ERR));
  OK(tenon_module_code_files(module, &list, ERR));
  CHECK_EQ(tenon_file_list_count(list), 2);
  OK(tenon_file_list_get(list, 0, &file, ERR));
  CHECK(strcmp(file.name, "__torch__.py") == 0 && file.nbytes == strlen(file.data));
  CHECK(strstr(file.data, "class MLP(Module)") != NULL &&
        strstr(file.data, "CONSTANTS.c0") != NULL);
  OK(tenon_file_list_get(list, 1, &file, ERR));
  CHECK(strcmp(file.name, "__torch__/layers.py") == 0 &&
        strstr(file.data, "class Linear(Module)") != NULL);
  tenon_file_list_release(list);
  OK(tenon_module_constants(module, &constants, ERR));
  CHECK(tenon_value_kind(constants) == TENON_VALUE_TUPLE && tenon_value_count(constants) == 1);
  OK(tenon_value_item(constants, 0, &first, ERR));
  CHECK(first_of(first) == 4);
  tenon_value_release(first);
  tenon_value_release(constants);
  tenon_value_release(tensor);
  tenon_module_release(module);
}

static void releases(void) {
  tenon_module *module = new_mlp(), *fc2;
  tenon_member_list *list = NULL;
  tenon_value *weight;
  fc2 = module_at(module, "fc2");
  weight = value_at(module, "fc1.weight");
  OK(tenon_module_members(module, &list, ERR));
  OK(tenon_module_remove(module, "fc1", ERR));
  CHECK(tenon_module_retain(module) == module);
  tenon_module_release(module);
  tenon_module_release(module);
  /* A list, a value and a submodule each keep alive what they need. */
  CHECK(strcmp(member_at(list, 1).name, "fc1") == 0 &&
        first_at(member_at(list, 1).module, "bias") == 0);
  CHECK(first_of(weight) == 0 && first_at(fc2, "weight") == 100);
  OK(tenon_module_check(fc2, ERR));
  tenon_member_list_release(list);
  tenon_value_release(weight);
  tenon_module_release(fc2);
}

int main(void) {
  check_begin(120);
  RUN(building);
  RUN(nulls);
  RUN(looking);
  RUN(files);
  RUN(releases);
  return 0;
}
