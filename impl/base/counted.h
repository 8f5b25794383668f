// Objects with a strong and a weak count in one word, and the two pointers that hold them.
//
// State word: strong count in the low 32 bits, weak count in the high 32. All strong references
// together own one weak reference, so the object's memory lives until both are gone. When the
// strong count falls to 0, dispose() ends what the object stands for (memory, fds); the C++ object
// itself is deleted when the weak count falls to 0.
//
// One word and not two, so that "take a strong reference unless the last one just went" is a single
// compare-exchange: with two words a lock could read strong > 0, lose the processor while the last
// release disposes, and come back to a corpse.
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

  // Many at once, of which each is given back by itself, or many together.
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
    // Whose weak reference is the only one, without a strong one, is alone with the object: nobody
    // can take one without having one.
    if (state_.load(std::memory_order_acquire) == kWeak ||
        (state_.fetch_sub(kWeak, std::memory_order_acq_rel) >> 32) == 1)
      delete this;
  }

  // A new strong reference, unless there is none left.
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
  // Runs once, when the last strong reference goes. Must not fail.
  virtual void dispose() noexcept {}
  // True: that was the last, and dispose() and the end of the object are the caller's. acq_rel:
  // what other holders wrote before their release is visible to both.
  bool release_strong(uint32_t count = 1) const noexcept {
    return (state_.fetch_sub(kStrong * count, std::memory_order_acq_rel) & kStrongMask) == count;
  }
  // The only reference of either kind: nobody else comes by one, unless he finds the object without
  // having one. acquire: as above.
  bool is_alone() const noexcept {
    return state_.load(std::memory_order_acquire) == (kStrong | kWeak);
  }
  // For what is counted under a lock of its own, and never by the functions above: a load and a
  // store, and no locked instruction.
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
  // Take over a reference that is already counted.
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  // Count one more.
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
  // Hand the counted reference to the caller.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// A weak reference.
template <typename T>
class Weak {
 public:
  Weak() noexcept = default;
  // Take over a reference that is already counted.
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

  Ref<T> lock() const noexcept {
    return object_ != nullptr && object_->try_retain() ? Ref<T>::adopt(object_) : Ref<T>();
  }
  bool expired() const noexcept { return object_ == nullptr || object_->expired(); }
  // Without a reference for a moment, which could be the last one. No other object comes to its
  // place as long as this is here.
  bool is_of(const T* object) const noexcept { return object_ == object; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace tenon
