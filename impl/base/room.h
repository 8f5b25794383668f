// Room in a vector before something that must not fail, at the vector's own pace: reserve() alone
// gives just what is asked, and what is added one by one is then copied each time.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tenon {

template <typename Vector>
void make_room(Vector* vector, size_t more) {
  const size_t needed = vector->size() + more;
  if (needed > vector->capacity()) vector->reserve(std::max(needed, vector->capacity() * 2));
}

}  // namespace tenon
