// Weak references: know a storage without keeping its bytes alive.
#ifndef TENON_CPP_WEAK_HPP
#define TENON_CPP_WEAK_HPP

#include <tenon/weak.h>
#include <tenon/cpp/storage.hpp>

TENON_CPP_BEGIN

/// Knows a storage without keeping its bytes alive. A copy knows the same storage.
class WeakStorage : public detail::Counted<WeakStorage, tenon_weak, tenon_weak_retain, tenon_weak_release> {
 public:
  /// A weak reference to a storage.
  static Result<WeakStorage> try_make(const Storage& storage) {
    return detail::make<WeakStorage>([&](tenon_weak** out, tenon_error** err) { return tenon_weak_ref(storage.get(), out, err); });
  }
#ifndef TENON_NO_EXCEPTIONS
  static WeakStorage make(const Storage& storage) { return try_make(storage).value(); }
#endif

  /// The storage, or an empty one if it is gone. A race with its last release has one winner.
  Storage lock() const noexcept { return Storage::adopt(tenon_weak_lock(get())); }
  /// Whether the storage is gone. Once true, always true; false may be out of date at once.
  bool expired() const noexcept { return tenon_weak_expired(get()) != 0; }
  /// The storage's id, also after it is gone.
  std::uint64_t id() const noexcept { return tenon_weak_id(get()); }
};

TENON_CPP_END

#endif
