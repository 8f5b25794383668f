// Objects with a strong and a weak reference count in one word, and the two pointers that hold
// them.
//
// State word: the strong count is in the low 32 bits, the weak count in the high 32. All strong
// references together own one weak reference, so the object's memory lives until both counts are 0.
// When the strong count falls to 0, dispose() releases the resources of the object (memory, fds).
// The C++ object itself is deleted when the weak count falls to 0.
//
// Both counts are in one word, so that "take a strong reference unless the last one is gone" is a
// single compare-exchange. With two words, lock() could read strong > 0, be suspended while the
// last release disposes of the object, and return a dead object.
//
// The last release runs dispose() on the releasing thread. The end of a storage, a segment or a
// lease may take locks, and may call a release function that the user passed with wrapped memory.
// So no reference that may be the last is released under a ranked lock (base/lock_rank.h). A forked
// child has a copy of each object, which it counts apart: the object ends in both processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon {

class Counted {
 public:
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  void retain() const noexcept { state_.fetch_add(kStrong, std::memory_order_relaxed); }

  // Takes `count` strong references at once. They are released one by one or several together.
  void retain(uint32_t count) const noexcept {
    state_.fetch_add(kStrong * count, std::memory_order_relaxed);
  }

  void release(uint32_t count = 1) const noexcept {
    if (!release_strong(count)) return;
    const_cast<Counted*>(this)->dispose();
    weak_release();
  }

  void weak_retain() const noexcept { state_.fetch_add(kWeak, std::memory_order_relaxed); }

  void weak_release() const noexcept {
    // If this weak reference is the only reference left, no other thread can get one, because a
    // thread needs a reference to take another. Then no atomic subtraction is needed.
    if (state_.load(std::memory_order_acquire) == kWeak ||
        (state_.fetch_sub(kWeak, std::memory_order_acq_rel) >> 32) == 1)
      delete this;
  }

  // Takes a strong reference, unless there is none left. The caller has a weak reference, or holds
  // a lock under which the object cannot be deleted.
  bool try_retain() const noexcept {
    uint64_t now = state_.load(std::memory_order_relaxed);
    while ((now & kStrongMask) != 0) {
      if (state_.compare_exchange_weak(now, now + kStrong, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
    }
    return false;
  }

  bool expired() const noexcept {
    return (state_.load(std::memory_order_acquire) & kStrongMask) == 0;
  }
  uint64_t strong_count() const noexcept {
    return state_.load(std::memory_order_relaxed) & kStrongMask;
  }

 protected:
  Counted() noexcept = default;
  virtual ~Counted() = default;
  // Called once, when the last strong reference is released. Must not fail.
  virtual void dispose() noexcept {}
  // Returns true if these were the last strong references. The caller must then call dispose() and
  // end the object. acq_rel makes the writes of other holders before their release visible to
  // dispose() and to the destructor.
  bool release_strong(uint32_t count = 1) const noexcept {
    return (state_.fetch_sub(kStrong * count, std::memory_order_acq_rel) & kStrongMask) == count;
  }
  // Whether the caller's reference is the only one of either kind. Then no other thread can get
  // one, unless a table has the object's address and takes a reference from that, as the identity
  // cache (share/cache.h) does. acquire has the same reason as above.
  bool is_alone() const noexcept {
    return state_.load(std::memory_order_acquire) == (kStrong | kWeak);
  }
  // counts() and set_counts() are for objects whose counts change only under a lock of their owner,
  // and never by the functions above. They need a load and a store, and no locked instruction.
  struct Counts {
    uint32_t strong = 0;
    uint32_t weak = 0;
  };
  Counts counts() const noexcept {
    const uint64_t state = state_.load(std::memory_order_relaxed);
    return {static_cast<uint32_t>(state), static_cast<uint32_t>(state >> 32)};
  }
  void set_counts(Counts counts) const noexcept {
    state_.store(kWeak * counts.weak + counts.strong, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kStrong = 1;
  static constexpr uint64_t kWeak = uint64_t{1} << 32;
  static constexpr uint64_t kStrongMask = kWeak - 1;
  mutable std::atomic<uint64_t> state_{kStrong | kWeak};
};

// A strong reference.
template <typename T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  // Takes over a reference that is already counted.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Takes one more reference.
  static Ref share(T* object) noexcept {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // Hands the counted reference to the caller.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// A weak reference.
template <typename T>
class Weak {
 public:
  Weak() noexcept = default;
  // Takes over a reference that is already counted.
  static Weak adopt(T* object) noexcept {
    Weak weak;
    weak.object_ = object;
    return weak;
  }
  explicit Weak(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->weak_retain();
  }
  Weak(const Weak& other) noexcept : Weak(other.object_) {}
  Weak(Weak&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Weak& operator=(Weak other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Weak() {
    if (object_ != nullptr) object_->weak_release();
  }

  // Returns a strong reference. It is empty if the object has been disposed of.
  Ref<T> lock() const noexcept {
    return object_ != nullptr && object_->try_retain() ? Ref<T>::adopt(object_) : Ref<T>();
  }
  bool expired() const noexcept { return object_ == nullptr || object_->expired(); }
  // Whether this is a reference to `object`. Takes no strong reference, because a strong reference,
  // even for a moment, could be the last one. The address is not used again by another object as
  // long as this weak reference exists.
  bool is_of(const T* object) const noexcept { return object_ == object; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace tenon
