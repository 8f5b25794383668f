/* The names of the parts of a composite, for the programs in C of matrix and vectors. */
#ifndef TENON_TESTS_LANGUAGES_COMPOSITE_PARTS_H
#define TENON_TESTS_LANGUAGES_COMPOSITE_PARTS_H

#include <stddef.h>
#include <tenon/tenon.h>

static const struct {
  const char* name;
  size_t offset; /* of the field in tenon_composite_spec */
} composite_parts[] = {
    {"values", offsetof(tenon_composite_spec, values)},
    {"indices", offsetof(tenon_composite_spec, indices)},
    {"plain_indices", offsetof(tenon_composite_spec, plain_indices)},
    {"offsets", offsetof(tenon_composite_spec, offsets)},
    {"lengths", offsetof(tenon_composite_spec, lengths)},
    {"component_sizes", offsetof(tenon_composite_spec, component_sizes)},
    {"component_strides", offsetof(tenon_composite_spec, component_strides)},
    {"scales", offsetof(tenon_composite_spec, scales)},
    {"zero_points", offsetof(tenon_composite_spec, zero_points)},
};
enum { N_COMPOSITE_PARTS = sizeof(composite_parts) / sizeof(composite_parts[0]) };

static tenon_tensor** composite_part(tenon_composite_spec* spec, size_t i) {
  return (tenon_tensor**)(void*)((char*)spec + composite_parts[i].offset);
}

#endif
