// The one object of a type that lives as long as the process. Two of one type would be the same object, so a mutex is in a type of its own.
#pragma once

#include <cstddef>
#include <new>

namespace tenon {

// Never destroyed: segments and the library's thread may outlive static destruction. Made in place, so it cannot fail for want of memory.
// T's constructor must not throw.
template <typename T>
T& immortal() noexcept {
  alignas(T) static std::byte room[sizeof(T)];
  static T* const instance = new (room) T();
  return *instance;
}

}  // namespace tenon
