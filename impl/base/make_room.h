// make_room() makes room in a vector for `more` further elements, before a step that must not fail.
// The capacity grows as with push_back: it doubles at least. reserve() alone gives exactly the size
// that is asked for, so a vector that grows one element at a time would be copied each time. After
// std::bad_alloc the vector is as it was.
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
