/* Helpers of the tests of objects: a node, a node that is read, and a tensor of float32. */
#ifndef TENON_TESTS_CAPI_OBJECT_KIT_H
#define TENON_TESTS_CAPI_OBJECT_KIT_H

#include "composite_kit.h"

CHECK_UNUSED static tenon_object_node node_of(int32_t kind) {
  tenon_object_node node;
  SIZED(node);
  node.kind = kind;
  return node;
}

CHECK_UNUSED static tenon_object_node node_at(const tenon_object *object, size_t index) {
  tenon_object_node node = node_of(-1);
  OK(tenon_object_get_nodes(object, index, &node, 1, ERR));
  return node;
}

/* Returns a tensor of n float32 that begins at an element of the storage. */
CHECK_UNUSED static tenon_tensor *floats_at(tenon_storage *storage, uint64_t offset, int64_t n) {
  return part_over(storage, kFloat, offset, 1, &n);
}

#endif
