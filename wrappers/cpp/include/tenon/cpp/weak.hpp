/// @file
/// Weak references: they identify a storage without keeping its bytes alive.
#ifndef TENON_CPP_WEAK_HPP
#define TENON_CPP_WEAK_HPP

#include <tenon/weak.h>
#include <tenon/cpp/storage.hpp>

#include <cstdint>

TENON_CPP_BEGIN

/// A weak reference to a storage. It does not keep the storage's bytes alive. A copy refers to the
/// same storage.
class WeakStorage
    : public detail::Counted<WeakStorage, tenon_weak, tenon_weak_retain, tenon_weak_release> {
 public:
  /// Makes a weak reference to a storage.
  static Result<WeakStorage> try_make(const Storage& storage) {
    return detail::make<WeakStorage>([&](tenon_weak** out, tenon_error** err) {
      return tenon_weak_ref(storage.get(), out, err);
    });
  }
#ifndef TENON_NO_EXCEPTIONS
  static WeakStorage make(const Storage& storage) { return try_make(storage).value(); }
#endif

  /// Returns the storage, or an empty object if the storage has expired. If the call races with the
  /// storage's last release, it returns either a complete storage or an empty object.
  Storage lock() const noexcept { return Storage::adopt(tenon_weak_lock(get())); }
  /// Whether the storage has expired. After the first true the result is always true. A false may
  /// be out of date at once.
  bool expired() const noexcept { return tenon_weak_expired(get()) != 0; }
  /// The storage's id, which stays available after the storage has expired.
  std::uint64_t id() const noexcept { return tenon_weak_id(get()); }
};

TENON_CPP_END

#endif
