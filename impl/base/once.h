// Keeps a value that is computed when it is first asked for. Several threads may compute it at
// once; one result stays. There is no lock, so a child of fork never waits for a thread of its
// parent.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace tenon {

template <typename T>
class Once {
 public:
  Once() noexcept = default;
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  ~Once() { delete value_.load(std::memory_order_acquire); }

  // Returns the value, which stays until set() or the end of this object. `make` computes it and
  // returns a std::unique_ptr<T>, which is not null. If `make` throws, no value is kept.
  template <typename Make>
  T& get(Make&& make) const {
    if (T* const now = value_.load(std::memory_order_acquire)) return *now;
    std::unique_ptr<T> made = std::forward<Make>(make)();
    T* present = nullptr;
    if (value_.compare_exchange_strong(present, made.get(), std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      return *made.release();
    return *present;
  }
  // Replaces the value. Must not run at the same time as get(). References that get() returned
  // before are no longer valid.
  void set(std::unique_ptr<T> value) noexcept {
    delete value_.exchange(value.release(), std::memory_order_acq_rel);
  }

 private:
  mutable std::atomic<T*> value_{nullptr};
};

}  // namespace tenon
