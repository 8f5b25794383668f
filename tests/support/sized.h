/* A struct of the C interface that says its own size, with zeros in its other fields. */
#ifndef TENON_TESTS_SUPPORT_SIZED_H
#define TENON_TESTS_SUPPORT_SIZED_H

#ifdef __cplusplus

namespace tenon::test {

template <typename Struct>
Struct sized() {
  Struct made{};
  made.struct_size = sizeof made;
  return made;
}

}  // namespace tenon::test

#else

#include <string.h>

#define SIZED(object) \
  (memset(&(object), 0, sizeof(object)), (void)((object).struct_size = sizeof(object)))

#endif

#endif
