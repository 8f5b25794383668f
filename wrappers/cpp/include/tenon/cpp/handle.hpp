// Ownership of one reference of the C library, and where an exception of a deleter goes. Nothing here is for callers by its own name.
#ifndef TENON_CPP_HANDLE_HPP
#define TENON_CPP_HANDLE_HPP

#include <tenon/cpp/config.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <utility>

TENON_CPP_BEGIN

#ifndef TENON_NO_EXCEPTIONS
/// Called with what a deleter threw when nobody can catch it: its last reference was given back by a destructor.
using DeleterExceptionHandler = void (*)(std::exception_ptr thrown) noexcept;

namespace detail {

inline void print_thrown(std::exception_ptr thrown) noexcept {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tenon: a deleter threw, and nobody could catch it: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "tenon: a deleter threw, and nobody could catch it\n");
  }
}

inline std::atomic<DeleterExceptionHandler> deleter_exception_handler{print_thrown};

// While one stands on a thread, what deleters throw there goes into it and no farther: no exception may cross the C library.
class Catcher {
 public:
  Catcher() noexcept : outer_(std::exchange(innermost, this)) {}
  Catcher(const Catcher&) = delete;
  Catcher& operator=(const Catcher&) = delete;
  ~Catcher() { innermost = outer_; }

  void rethrow() {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

  static void hand_over(std::exception_ptr thrown) noexcept {
    if (innermost != nullptr && !innermost->thrown_) {
      innermost->thrown_ = std::move(thrown);
    } else {
      deleter_exception_handler.load()(std::move(thrown));
    }
  }

 private:
  inline static thread_local Catcher* innermost = nullptr;
  Catcher* outer_;
  std::exception_ptr thrown_;
};

}  // namespace detail

/// Set the handler, for the whole program; null: print one line to stderr, as at first. Returns the one before.
inline DeleterExceptionHandler set_deleter_exception_handler(DeleterExceptionHandler handler) noexcept {
  return detail::deleter_exception_handler.exchange(handler == nullptr ? detail::print_thrown : handler);
}
#endif

namespace detail {

// Runs what a user handed in, and lets nothing out of it.
template <class Function>
void guarded(Function&& function) noexcept {
#ifdef TENON_NO_EXCEPTIONS
  function();
#else
  try {
    function();
  } catch (...) {
    Catcher::hand_over(std::current_exception());
  }
#endif
}

// One reference, which moves and is given back once.
template <class Self, class RawType, void (*kRelease)(RawType*)>
class Owned {
 public:
  using Raw = RawType;

  Owned() noexcept = default;
  Owned(Owned&& other) noexcept : raw_(other.detach()) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) reset(other.detach());
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { reset(nullptr); }

  /// Whether there is an object; not if default-made, moved from or closed.
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  /// The C object, borrowed; null if empty.
  RawType* get() const noexcept { return raw_; }
  /// The C object, which is the caller's to release from now on.
  [[nodiscard]] RawType* detach() noexcept { return std::exchange(raw_, nullptr); }
  /// Take over a reference to a C object; null gives an empty one.
  static Self adopt(RawType* raw) noexcept {
    Self self;
    self.raw_ = raw;
    return self;
  }

  /// Give the reference back now. A second time does nothing. If a deleter runs in it and throws, the exception comes out here.
  void close() {
#ifdef TENON_NO_EXCEPTIONS
    reset(nullptr);
#else
    Catcher catcher;
    reset(nullptr);
    catcher.rethrow();
#endif
  }

 protected:
  void reset(RawType* raw) noexcept { kRelease(std::exchange(raw_, raw)); }

 private:
  RawType* raw_ = nullptr;
};

// As Owned, and a copy is one more reference.
template <class Self, class RawType, RawType* (*kRetain)(RawType*), void (*kRelease)(RawType*)>
class Counted : public Owned<Self, RawType, kRelease> {
  using Base = Owned<Self, RawType, kRelease>;

 public:
  Counted() noexcept = default;
  Counted(Counted&&) noexcept = default;
  Counted& operator=(Counted&&) noexcept = default;
  Counted(const Counted& other) noexcept : Base() { this->reset(kRetain(other.get())); }
  Counted& operator=(const Counted& other) noexcept {
    // The new one first: the old one's end may be what keeps it.
    this->reset(kRetain(other.get()));
    return *this;
  }
  ~Counted() = default;

  /// One more reference to a C object that stays the caller's.
  static Self retain(RawType* raw) noexcept { return Self::adopt(kRetain(raw)); }
};

}  // namespace detail

TENON_CPP_END

#endif
