// Gives each part of the library its one object that lives as long as the process: a lock with the
// table that it guards, or a constant that a constructor makes.
//
// immortal<T>() replaces a local static object, which the compiler guards with a lock of its own.
// No fork hook can take that lock. If a process forked while another thread made such an object,
// its child would wait for that thread for ever. tools/abi proves that the library has no such
// guard.
#pragma once

#include <cstddef>
#include <new>

namespace tenon {
namespace detail {

template <typename T>
class Immortal {
 public:
  static T& get() noexcept {
    (void)at_load_;  // makes the compiler define it
    if (instance_ == nullptr) instance_ = new (static_cast<void*>(room_)) T();
    return *instance_;
  }

 private:
  alignas(T) static inline std::byte room_[sizeof(T)];
  static inline constinit T* instance_ = nullptr;
  // Makes the object while the library is loaded, by the only thread that can be in it then, unless
  // another initialiser has asked for it before.
  static inline const bool at_load_ = (get(), true);
};

}  // namespace detail

// Returns the object of type T, which is never destroyed: segments and the library's thread may
// outlive the destruction of static objects. There is one object for each type, so each user
// declares a type of its own. T's constructor must not throw and must not need memory.
template <typename T>
T& immortal() noexcept {
  return detail::Immortal<T>::get();
}

}  // namespace tenon
