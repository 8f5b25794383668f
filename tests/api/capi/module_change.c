/* Tests tenon/module.h: code that is defined and checked, members that are replaced and removed,
 * and whole sets of tensors that are loaded. */
#include "module_kit.h"

static void methods(void) {
  tenon_module *module = new_module("Net");
  tenon_value *scale = new_vector(3, 1), *input = new_vector(3, 0);
  tenon_member_list *list = NULL;
  const char *const hook = "before", *const wrong = "scale";
  OK(tenon_module_add_parameter(module, "scale", scale, ERR));
  OK(tenon_module_define(
      module,
      "def twice(self, x: Tensor) -> Tensor:\n  return torch.mul(x, 2)\n"
      "def forward(self, x: Tensor) -> Tensor:\n  return self.twice(torch.mul(x, self.scale))\n"
      "def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:\n  return input\n",
      ERR));
  OK(tenon_module_check(module, ERR));
  OK(tenon_module_define(module,
                         "def twice(self, x: Tensor) -> Tensor:\n  return torch.add(x, x)\n", ERR));
  OK(tenon_module_find(module, "twice", &list, ERR));
  CHECK(member_at(list, 0).kind == TENON_MEMBER_METHOD &&
        strstr(member_at(list, 0).source, "torch.add") != NULL);
  tenon_member_list_release(list);

  /* Code that cannot be parsed: the error has the place, and none of the code is defined. */
  FAILS_SAYING(
      TENON_INVALID_ARGUMENT, "line", "4",
      tenon_module_define(
          module, "def good(self) -> int:\n  return 1\ndef bad(self) -> int:\n  return 1 +\n",
          ERR));
  INVALID_SAYING("excerpt", "return 1 +",
                 tenon_module_define(module, "def bad(self):\n  return 1 +\n", ERR));
  INVALID_SAYING("file", "Net", tenon_module_define(module, "def bad(self):\n  return 1 +\n", ERR));
  FAILS_SAYING(TENON_UNSUPPORTED, "column", "",
               tenon_module_define(module, "def bad(self):\n  yield 1\n", ERR));
  INVALID_SAYING("line", "1", tenon_module_define(module, "class C:\n  x : int\n", ERR));
  INVALID(tenon_module_define(module, "def no_self() -> int:\n  return 1\n", ERR));
  FAILS(TENON_NOT_FOUND, tenon_module_find(module, "good", &list, ERR));

  /* Code that can be parsed but is wrong. */
  OK(tenon_module_define(
      module, "def bad(self, x: Tensor) -> Tensor:\n  y = torch.no_such_operator(x)\n  return y\n",
      ERR));
  INVALID_SAYING("excerpt", "no_such_operator", tenon_module_check(module, ERR));
  INVALID_SAYING("file", "__torch__", tenon_module_check(module, ERR));
  OK(tenon_module_remove(module, "bad", ERR));
  OK(tenon_module_check(module, ERR));

  OK(tenon_module_set_hooks(module, 1, &hook, 1, ERR));
  INVALID(tenon_module_set_hooks(module, 0, &wrong, 1, ERR));
  OK(tenon_module_set_hooks(module, 1, NULL, 0, ERR));
  OK(tenon_module_set_traced_inputs(module, "forward", &input, 1, ERR));
  INVALID(tenon_module_set_traced_inputs(module, "scale", &input, 1, ERR));
  tenon_value_release(scale);
  tenon_value_release(input);
  tenon_module_release(module);
}

/* The error of an operand of a wrong type has the place, and carets below the operand. */
static void wrong_operand(void) {
  tenon_module *module = new_module("Net");
  tenon_error *error = NULL;
  OK(tenon_module_define(
      module, "def bad(self, x: Tensor) -> Tensor:\n  return torch.add(\"a\", x)\n", ERR));
  CHECK_EQ(tenon_module_check(module, &error), TENON_INVALID_ARGUMENT);
  CHECK(strstr(tenon_error_message(error),
               "code/__torch__.py:7:22: torch.add takes a Tensor as self") != NULL);
  CHECK(strcmp(tenon_error_detail(error, "file"), "code/__torch__.py") == 0);
  CHECK(strcmp(tenon_error_detail(error, "line"), "7") == 0);
  CHECK(strcmp(tenon_error_detail(error, "column"), "22") == 0);
  CHECK(strcmp(tenon_error_detail(error, "excerpt"),
               "    return torch.add(\"a\", x)\n"
               "                     ^^^") == 0);
  tenon_error_release(error);
  tenon_module_release(module);
}

static void types(void) {
  static const char *const kTypes =
      "class Pair(NamedTuple):\n  left : int\n  right : str\n"
      "class Color(Enum):\n  RED = 1\n  GREEN = 2\n"
      "class Layer(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n";
  tenon_module *module = new_module("Net"), *layer = new_linear(2, 2, 0),
               *other = new_module("Other");
  tenon_value *items[2], *pair = NULL, *half = NULL, *red = NULL, *blue = NULL;
  items[0] = new_int(1);
  items[1] = new_str("one");
  OK(tenon_module_define_types(module, "__torch__.my", kTypes, ERR));
  OK(tenon_value_new_tuple("__torch__.my.Pair", items, 2, &pair, ERR));
  OK(tenon_value_new_tuple("__torch__.my.Pair", items, 1, &half, ERR));
  OK(tenon_value_new_enum("__torch__.my.Color", items[0], &red, ERR));
  OK(tenon_value_new_enum("__torch__.my.Color", items[1], &blue, ERR));
  OK(tenon_module_add_attribute(module, "pair", "__torch__.my.Pair", pair, ERR));
  INVALID_SAYING("where", "half",
                 tenon_module_add_attribute(module, "half", "__torch__.my.Pair", half, ERR));
  OK(tenon_module_add_attribute(module, "color", "__torch__.my.Color", red, ERR));
  INVALID(tenon_module_add_attribute(module, "blue", "__torch__.my.Color", blue, ERR));
  OK(tenon_module_add_submodule(module, "layer", layer, "__torch__.my.Layer", ERR));
  INVALID(tenon_module_add_submodule(module, "other", other, "__torch__.my.Layer",
                                     ERR)); /* no forward */
  INVALID(tenon_module_set_submodule(module, "layer", other, ERR));
  INVALID(tenon_module_define_types(module, "__torch__.my", kTypes, ERR)); /* twice */
  INVALID(tenon_module_define_types(module, "not a name", kTypes, ERR));
  INVALID_SAYING("line", "1", tenon_module_define_types(module, "__torch__.my", "class (", ERR));
  OK(tenon_module_define(
      module, "def forward(self, x: Tensor) -> Tensor:\n  return self.layer.forward(x)\n", ERR));
  OK(tenon_module_check(module, ERR));
  tenon_value_release(items[0]);
  tenon_value_release(items[1]);
  tenon_value_release(pair);
  tenon_value_release(half);
  tenon_value_release(red);
  tenon_value_release(blue);
  tenon_module_release(layer);
  tenon_module_release(other);
  tenon_module_release(module);
}

static void setting(void) {
  const int64_t other_sizes[3] = {1, 2, 3};
  tenon_module *module = new_module("Net"), *left = new_module("Left"),
               *right = new_module("Right"), *layer = new_linear(2, 3, 9);
  tenon_value *shared = new_vector(4, 1), *other = new_floats(3, other_sizes, 50),
              *number = new_int(3), *got = NULL, *same = NULL;
  OK(tenon_module_add_parameter(left, "weight", shared, ERR));
  OK(tenon_module_add_parameter(right, "weight", shared, ERR));
  OK(tenon_module_add_submodule(module, "left", left, NULL, ERR));
  OK(tenon_module_add_submodule(module, "right", right, NULL, ERR));
  OK(tenon_module_add_attribute(module, "n", "Optional[int]", number, ERR));
  OK(tenon_module_add_constant(module, "c", "int", number, ERR));
  /* Every owner of a shared tensor sees the new one, whatever its shape. So does the module that
   * was taken out. */
  OK(tenon_module_set(module, "left.weight", other, ERR));
  got = value_at(module, "right.weight");
  same = value_at(left, "weight");
  CHECK(got == other && same == other);
  tenon_value_release(got);
  tenon_value_release(same);
  INVALID_SAYING("wanted", "Tensor", tenon_module_set(module, "left.weight", number, ERR));
  INVALID_SAYING("where", "left.weight", tenon_module_set(module, "left.weight", NULL, ERR));
  CHECK(first_at(module, "left.weight") == 50);
  OK(tenon_module_set(module, "n", NULL, ERR));
  got = value_at(module, "n");
  CHECK_EQ(tenon_value_kind(got), TENON_VALUE_NONE);
  tenon_value_release(got);
  FAILS(TENON_NOT_FOUND, tenon_module_set(module, "left.bias", other, ERR));
  INVALID(tenon_module_set(module, "left", other, ERR));
  INVALID(tenon_module_set(module, "c", number, ERR));

  OK(tenon_module_set_submodule(module, "right", layer, ERR));
  CHECK(first_at(module, "right.bias") == 9);
  INVALID(tenon_module_set_submodule(module, "n", layer, ERR));
  INVALID(tenon_module_set_submodule(module, "right", module, ERR));
  FAILS(TENON_NOT_FOUND, tenon_module_set_submodule(module, "middle", layer, ERR));

  OK(tenon_module_remove(module, "right.bias", ERR));
  FAILS(TENON_NOT_FOUND, tenon_module_remove(module, "right.bias", ERR));
  OK(tenon_module_remove(module, "right", ERR));
  OK(tenon_module_remove(module, "n", ERR));
  OK(tenon_module_remove(module, "c", ERR));
  OK(tenon_module_add_constant(module, "c", "int", number, ERR)); /* the name is free again */
  tenon_value_release(shared);
  tenon_value_release(other);
  tenon_value_release(number);
  tenon_module_release(left);
  tenon_module_release(right);
  tenon_module_release(layer);
  tenon_module_release(module);
}

static void states(void) {
  static const char *const paths[] = {"kept.state"}, *const tensors[] = {"kept.state[0]"};
  tenon_module *module = new_module("Net"), *kept = new_module("Kept");
  tenon_value *weight = new_vector(2, 1), *other = new_vector(3, 7), *number = new_int(3),
              *items[2] = {weight, number};
  tenon_value *state = NULL, *found = NULL;
  tenon_name_list *names = NULL;
  tenon_member_list *list = NULL;
  OK(tenon_module_add_attribute(kept, "w", NULL, weight, ERR));
  OK(tenon_module_add_attribute(kept, "k", NULL, number, ERR));
  OK(tenon_module_add_submodule(module, "kept", kept, NULL, ERR));
  OK(tenon_value_new_tuple(NULL, items, 2, &state, ERR));
  INVALID_SAYING("class", "__torch__.Kept", tenon_module_set_state(module, "kept", state, ERR));
  OK(tenon_module_define(
      kept,
      "def __getstate__(self) -> Tuple[Tensor, int]:\n  return (self.w, self.k)\n"
      "def __setstate__(self, s: Tuple[Tensor, int]) -> None:\n  self.w, self.k = s\n  "
      "self.training = False\n",
      ERR));
  FAILS_SAYING(TENON_UNSUPPORTED, "class", "__torch__.Kept", tenon_module_check(module, ERR));
  INVALID_SAYING("where", "state", tenon_module_set_state(module, "kept", number, ERR));
  OK(tenon_module_set_state(module, "kept", state, ERR));
  OK(tenon_module_check(module, ERR));
  OK(tenon_module_states(module, &names, ERR));
  names_are(names, paths, 1);
  tenon_name_list_release(names);
  OK(tenon_module_tensors(module, &list, ERR));
  CHECK(tenon_member_list_count(list) == 1);
  CHECK_EQ(member_at(list, 0).kind, TENON_MEMBER_STATE);
  CHECK(strcmp(member_at(list, 0).name, tensors[0]) == 0);
  tenon_member_list_release(list);
  OK(tenon_module_set(kept, "state[0]", other, ERR));
  found = value_at(module, tensors[0]);
  CHECK(found == other);
  tenon_value_release(found);
  OK(tenon_module_load(module, tensors, &weight, 1, 0, NULL, NULL, ERR));
  CHECK(first_at(module, tensors[0]) == 1);
  FAILS(TENON_NOT_FOUND, tenon_module_set(module, "kept.state[2]", other, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_module_add_buffer(kept, "more", weight, ERR));
  tenon_value_release(state);
  tenon_value_release(number);
  tenon_value_release(other);
  tenon_value_release(weight);
  tenon_module_release(kept);
  tenon_module_release(module);
}

static void loading(void) {
  static const char *const paths[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
                                      "fc3.bias"};
  static const char *const twice[] = {"fc1.bias", "fc1.bias"};
  static const int64_t shapes[3][2] = {{8, 4}, {3, 8}, {5, 5}};
  const uint32_t all = TENON_LOAD_ALLOW_MISSING | TENON_LOAD_ALLOW_UNEXPECTED;
  tenon_module *module = new_mlp();
  tenon_value *tensors[5], *same[2], *number = new_int(1), *wrong[2];
  tenon_name_list *missing = PATTERN, *unexpected = PATTERN;
  size_t i;
  tensors[0] = new_floats(2, shapes[0], 10);
  tensors[1] = new_vector(8, 20);
  tensors[2] = new_floats(2, shapes[1], 30);
  tensors[3] = new_vector(3, 40);
  tensors[4] = new_vector(3, 50);
  OK(tenon_module_load(module, paths, tensors, 4, 0, NULL, NULL, ERR));
  CHECK(first_at(module, "fc1.weight") == 10 && first_at(module, "fc2.bias") == 40);

  INVALID_SAYING(
      "missing", "1",
      tenon_module_load(module, paths + 1, tensors + 1, 3, 0, &missing, &unexpected, ERR));
  INVALID_SAYING("unexpected", "1",
                 tenon_module_load(module, paths, tensors, 5, 0, &missing, &unexpected, ERR));
  INVALID(tenon_module_load(module, paths, tensors, 5, TENON_LOAD_ALLOW_MISSING, &missing,
                            &unexpected, ERR));
  INVALID(tenon_module_load(module, paths, tensors, 3, TENON_LOAD_ALLOW_UNEXPECTED, &missing,
                            &unexpected, ERR));
  CHECK(missing == PATTERN && unexpected == PATTERN);
  OK(tenon_module_load(module, paths + 3, tensors + 3, 2, all, &missing, &unexpected, ERR));
  names_are(missing, paths, 3);
  names_are(unexpected, paths + 4, 1);
  tenon_name_list_release(missing);
  tenon_name_list_release(unexpected);
  OK(tenon_module_load(module, NULL, NULL, 0, all, &missing, NULL, ERR));
  names_are(missing, paths, 4);
  tenon_name_list_release(missing);

  /* A refused set leaves nothing behind, and a check changes nothing. */
  tenon_value_release(tensors[0]);
  tensors[0] = new_floats(2, shapes[0], 60);
  INVALID(tenon_module_load(module, paths, tensors, 1, 0, NULL, NULL, ERR));
  INVALID(tenon_module_load(module, paths, tensors, 1, TENON_LOAD_CHECK_ONLY, NULL, NULL, ERR));
  OK(tenon_module_load(module, paths, tensors, 5, TENON_LOAD_CHECK_ONLY | all, &missing,
                       &unexpected, ERR));
  names_are(missing, paths, 0);
  names_are(unexpected, paths + 4, 1);
  tenon_name_list_release(missing);
  tenon_name_list_release(unexpected);
  OK(tenon_module_load(module, paths, tensors, 4, TENON_LOAD_CHECK_ONLY, NULL, NULL, ERR));
  wrong[0] = tensors[0];
  wrong[1] = number;
  INVALID(tenon_module_load(module, paths, wrong, 2, all, NULL, NULL, ERR));
  wrong[1] = NULL; /* None is no Tensor */
  INVALID_SAYING("where", "fc1.bias",
                 tenon_module_load(module, paths, wrong, 2, all, NULL, NULL, ERR));
  FAILS_SAYING(
      TENON_INVALID_ARGUMENT, "where", "fc1.bias",
      tenon_module_load(module, paths, wrong, 2, all | TENON_LOAD_CHECK_ONLY, NULL, NULL, ERR));
  same[0] = same[1] = tensors[1];
  INVALID_SAYING("name", "fc1.bias",
                 tenon_module_load(module, twice, same, 2, all, NULL, NULL, ERR));
  FAILS(TENON_UNSUPPORTED, tenon_module_load(module, paths, tensors, 4, 8, NULL, NULL, ERR));
  CHECK(first_at(module, "fc1.weight") == 10);
  OK(tenon_module_load(module, paths, tensors, 4, 0, NULL, NULL, ERR));
  CHECK(first_at(module, "fc1.weight") == 60);
  for (i = 0; i < 5; i++) tenon_value_release(tensors[i]);
  tenon_value_release(number);
  tenon_module_release(module);
}

int main(void) {
  check_begin(120);
  RUN(methods);
  RUN(wrong_operand);
  RUN(types);
  RUN(setting);
  RUN(states);
  RUN(loading);
  return 0;
}
