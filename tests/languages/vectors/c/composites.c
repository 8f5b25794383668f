/* Composites: they are made of a case's parts, sent through a descriptor and compared. */
#include <stdio.h>
#include <string.h>

#include "../../composite_parts.h"
#include "kinds.h"

static void release_composite(void *object) { tenon_composite_release((tenon_composite *)object); }

static void release_descriptor(void *object) {
  tenon_descriptor_release((tenon_descriptor *)object);
}

/* Returns the prefix of the keys of the part with that name, or NULL if the case lacks it. */
static const char *prefix_of(const struct test_case *test, const char *name) {
  const int64_t n = case_number(test, "parts");
  int64_t i;
  for (i = 0; i < n; i++) {
    char prefix[32];
    snprintf(prefix, sizeof(prefix), "parts.%d.", (int)i);
    if (strcmp(case_text(test, case_key(prefix, "part")), name) == 0) return case_key(prefix, "");
  }
  return NULL;
}

static int make_part(const struct test_case *test, const char *prefix, tenon_tensor **out) {
  size_t nbytes;
  const unsigned char *bytes = bytes_of_hex(case_text(test, case_key(prefix, "data")), &nbytes);
  tenon_storage *storage = make_storage(nbytes, 0);
  if (tenon_storage_write(storage, 0, bytes, nbytes, NULL) != TENON_OK)
    return wrong("%s cannot be written", prefix);
  if (make_tensor(test, prefix, storage, out, NULL) != TENON_OK)
    return wrong("%s is no tensor", prefix);
  keep_tensor(*out);
  return 0;
}

static double scale_of(const struct test_case *test) {
  const char *hex = case_find(test, "spec.scale");
  double scale = 0;
  size_t nbytes;
  if (hex != NULL) memcpy(&scale, bytes_of_hex(hex, &nbytes), sizeof(scale));
  return scale;
}

static int spec_of(const struct test_case *test, tenon_composite_spec *spec) {
  size_t n, i;
  const int64_t *dtype = case_numbers(test, "spec.dtype", &n);
  memset(spec, 0, sizeof(*spec));
  spec->struct_size = sizeof(*spec);
  spec->layout = (int32_t)case_number(test, "spec.layout");
  if (dtype != NULL) {
    spec->dtype.code = (uint8_t)dtype[0];
    spec->dtype.bits = (uint8_t)dtype[1];
    spec->dtype.lanes = (uint16_t)dtype[2];
  }
  spec->strides = case_numbers(test, "spec.strides", &n);
  spec->sizes = case_numbers(test, "spec.sizes", &n);
  spec->ndim = (int32_t)n;
  spec->offset = (uint64_t)case_number_or(test, "spec.offset", 0);
  spec->flags = (uint32_t)case_number_or(test, "spec.flags", 0);
  spec->scale = scale_of(test);
  spec->zero_point = case_number_or(test, "spec.zero_point", 0);
  spec->axis = (int32_t)case_number_or(test, "spec.axis", 0);
  spec->ragged_dim = (int32_t)case_number_or(test, "spec.ragged_dim", 0);
  spec->quantizer = (int32_t)case_number_or(test, "spec.quantizer", 0);
  spec->coalesced = (int32_t)case_number_or(test, "spec.coalesced", 0);
  for (i = 0; i < N_COMPOSITE_PARTS; i++) {
    const char *prefix = prefix_of(test, composite_parts[i].name);
    if (prefix != NULL) MUST(make_part(test, prefix, composite_part(spec, i)));
  }
  return 0;
}

static int same_dtype(tenon_dtype got, const struct test_case *test, const char *key) {
  const int64_t numbers[3] = {got.code, got.bits, got.lanes};
  return same_numbers(key, numbers, 3, test, key);
}

static int same_data(tenon_tensor *tensor, const struct test_case *test, const char *prefix) {
  const tenon_storage *storage = tenon_tensor_storage(tensor);
  return same_hex(prefix, tenon_storage_data(storage), (size_t)tenon_storage_nbytes(storage),
                  case_text(test, case_key(prefix, "data")));
}

/* Compares one part of a composite. checked: the part may be a copy, so only its shape is compared.
 */
static int same_part(const struct test_case *test, const char *prefix, tenon_tensor *tensor,
                     int checked) {
  tenon_tensor_view view;
  size_t n;
  view.struct_size = sizeof(view);
  if (tenon_tensor_get_view(tensor, &view, NULL) != TENON_OK)
    return wrong("%s has no view", prefix);
  MUST(same_dtype(view.dtype, test, case_key(prefix, "dtype")));
  MUST(same_numbers(prefix, view.sizes, (size_t)view.ndim, test, case_key(prefix, "sizes")));
  if (checked) return 0;
  SAME("offset", view.offset, case_number_or(test, case_key(prefix, "offset"), 0));
  if (case_numbers(test, case_key(prefix, "strides"), &n) != NULL) {
    MUST(same_numbers(prefix, view.strides, (size_t)view.ndim, test, case_key(prefix, "strides")));
  }
  return same_data(tensor, test, prefix);
}

/* Compares a composite with the case. */
static int same_composite(const struct test_case *test, const tenon_composite *composite,
                          int checked) {
  tenon_composite_spec spec;
  const double scale = scale_of(test);
  size_t i, n_strides;
  spec.struct_size = sizeof(spec);
  if (tenon_composite_get_spec(composite, &spec, NULL) != TENON_OK) return wrong("no spec");
  SAME("layout", spec.layout, case_number(test, "spec.layout"));
  SAME("offset", spec.offset, case_number_or(test, "spec.offset", 0));
  SAME("flags", spec.flags, case_number_or(test, "spec.flags", 0));
  SAME("zero_point", spec.zero_point, case_number_or(test, "spec.zero_point", 0));
  SAME("axis", spec.axis, case_number_or(test, "spec.axis", 0));
  SAME("ragged_dim", spec.ragged_dim, case_number_or(test, "spec.ragged_dim", 0));
  SAME("quantizer", spec.quantizer, case_number_or(test, "spec.quantizer", 0));
  SAME("coalesced", spec.coalesced, case_number_or(test, "spec.coalesced", 0));
  if (memcmp(&spec.scale, &scale, sizeof(scale)) != 0)
    return wrong("scale is %.17g, not %.17g", spec.scale, scale);
  MUST(same_dtype(spec.dtype, test, "expect.dtype"));
  MUST(same_numbers("sizes", spec.sizes, (size_t)spec.ndim, test, "expect.sizes"));
  case_numbers(test, "expect.strides", &n_strides);
  MUST(same_numbers("strides", spec.strides, spec.strides == NULL ? 0 : n_strides, test,
                    "expect.strides"));
  for (i = 0; i < N_COMPOSITE_PARTS; i++) {
    const char *prefix = prefix_of(test, composite_parts[i].name);
    tenon_tensor *part = *composite_part(&spec, i);
    if ((part == NULL) != (prefix == NULL))
      return wrong("%s is %s", composite_parts[i].name, part == NULL ? "missing" : "there");
    if (part != NULL) MUST(same_part(test, prefix, part, checked));
  }
  return 0;
}

/* Compares a message in which the composite comes after one tensor. Its parts follow that tensor.
 */
static int same_message(const struct test_case *test, const tenon_message *message,
                        const char *name) {
  size_t n, n_parts, i, first;
  const char **parts = case_texts(test, "expect.parts", &n),
             *found = tenon_message_composite_name(message, 0);
  tenon_composite *composite = tenon_message_composite(message, 0);
  SAME("composites", tenon_message_composite_count(message), 1);
  SAME("tensors", tenon_message_count(message), n + 1);
  first = tenon_message_composite_parts(message, 0, &n_parts);
  SAME("first part", first, 1);
  SAME("parts", n_parts, n);
  for (i = 0; i < n; i++) {
    const char *prefix = prefix_of(test, parts[i]);
    if (prefix == NULL) return wrong("the case does not give %s", parts[i]);
    MUST(same_data(tenon_message_tensor(message, first + i), test, prefix));
  }
  if ((found == NULL) != (name == NULL) || (name != NULL && strcmp(found, name) != 0))
    return wrong("the name does not come back");
  if (name != NULL && tenon_message_find_composite(message, name) != composite)
    return wrong("the name does not find the composite");
  return 0;
}

/* Opens a bytes-only descriptor of a message that has a tensor and the composite. */
static int pass_on(const struct test_case *test, tenon_composite *composite, const char *name,
                   tenon_message **opened) {
  const char *first_name = "t";
  tenon_descriptor_options bytes_only = {sizeof(bytes_only), TENON_DESCRIPTOR_BYTES_ONLY, 0};
  tenon_tensor *tensor = NULL;
  tenon_message *message = NULL;
  tenon_descriptor *descriptor = NULL;
  tenon_status status;
  const unsigned char *bytes;
  uint64_t begin = 0;
  size_t nbytes, i;
  if (make_bytes_tensor(make_storage(1, 0), &tensor) != TENON_OK) return wrong("no tensor");
  keep_tensor(tensor);
  if (tenon_message_new(&message, NULL) != TENON_OK) return wrong("no message");
  keep_message(message);
  status = tenon_message_add(message, &tensor, &first_name, 1, NULL, NULL);
  if (status == TENON_OK)
    status = tenon_message_add_composites(message, &composite, &name, 1, NULL, NULL);
  if (status == TENON_OK) status = tenon_descriptor_new(message, &bytes_only, &descriptor, NULL);
  if (status != TENON_OK) return wrong("the message fails with %s", tenon_status_name(status));
  keep(descriptor, release_descriptor);
  bytes = (const unsigned char *)tenon_descriptor_bytes(descriptor, &nbytes);
  if (nbytes < 288) return wrong("%zu bytes are no descriptor with composites", nbytes);
  for (i = 8; i-- > 0;) begin = begin << 8 | bytes[240 + i];
  if (begin > nbytes) return wrong("the composites begin past the end");
  MUST(same_bytes(test, bytes + begin, nbytes - (size_t)begin));
  status = tenon_descriptor_open(bytes, nbytes, NULL, 0, NULL, opened, NULL);
  if (status != TENON_OK)
    return wrong("the descriptor is refused with %s", tenon_status_name(status));
  keep_message(*opened);
  return 0;
}

int run_composite(const struct test_case *test) {
  tenon_composite_spec spec;
  tenon_composite *composite = NULL, *checked = NULL;
  tenon_message *message = NULL;
  tenon_error *error = NULL;
  const char *name = case_text(test, "name");
  tenon_status status;
  size_t nbytes;
  name = strcmp(name, "-") == 0 ? NULL : (const char *)bytes_of_hex(name, &nbytes);
  MUST(spec_of(test, &spec));
  status = tenon_composite_new(&spec, &composite, &error);
  MUST(outcome(test, status, error));
  if (status != TENON_OK) return 0;
  keep(composite, release_composite);
  MUST(pass_on(test, composite, name, &message));
  MUST(same_message(test, message, name));
  composite = tenon_message_composite(message, 0);
  MUST(same_composite(test, composite, 0));
  error = NULL;
  status = tenon_composite_check(composite, &checked, &error);
  MUST(outcome_of(test, "expect.check.", status, error));
  if (status != TENON_OK) return 0;
  keep(checked, release_composite);
  return same_composite(test, checked, 1);
}
