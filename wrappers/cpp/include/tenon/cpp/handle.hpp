/// @file
/// The base classes that own one reference to an object of the C library, and the handler for
/// exceptions of deleters. A program uses only DeleterExceptionHandler and
/// set_deleter_exception_handler by name.
#ifndef TENON_CPP_HANDLE_HPP
#define TENON_CPP_HANDLE_HPP

#include <tenon/cpp/config.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <utility>

TENON_CPP_BEGIN

#ifndef TENON_NO_EXCEPTIONS
/// A handler for exceptions of deleters that no caller can catch, because a destructor released the
/// last reference.
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

// While a Catcher exists on a thread, it collects exceptions that deleters throw on that thread. No
// exception may pass through the C library.
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

/// Sets the handler for the whole program, and returns the handler that was set before. Null sets
/// the default handler, which prints one line to stderr.
inline DeleterExceptionHandler set_deleter_exception_handler(
    DeleterExceptionHandler handler) noexcept {
  return detail::deleter_exception_handler.exchange(handler == nullptr ? detail::print_thrown
                                                                       : handler);
}
#endif

namespace detail {

// Calls a function of the program, and gives an exception that it throws to the Catcher of this
// thread or to the handler.
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

// Owns one reference, and releases it once. The object can be moved and cannot be copied.
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

  /// Whether the object owns a reference. A default-made, moved-from or closed object owns none.
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  /// The C object, borrowed. It is null for an empty object.
  RawType* get() const noexcept { return raw_; }
  /// The C object, which the caller must release from now on.
  [[nodiscard]] RawType* detach() noexcept { return std::exchange(raw_, nullptr); }
  /// Takes over a reference to a C object. Null gives an empty object.
  static Self adopt(RawType* raw) noexcept {
    Self self;
    self.raw_ = raw;
    return self;
  }

  /// Releases the reference now. A second call does nothing. If a deleter runs in this call and
  /// throws, close() throws the same exception.
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

// Does the same as Owned, but can be copied. A copy is another reference.
template <class Self, class RawType, RawType* (*kRetain)(RawType*), void (*kRelease)(RawType*)>
class Counted : public Owned<Self, RawType, kRelease> {
  using Base = Owned<Self, RawType, kRelease>;

 public:
  Counted() noexcept = default;
  Counted(Counted&&) noexcept = default;
  Counted& operator=(Counted&&) noexcept = default;
  Counted(const Counted& other) noexcept : Base() { this->reset(kRetain(other.get())); }
  Counted& operator=(const Counted& other) noexcept {
    // The new reference comes first, because the old object may be what keeps `other` alive.
    this->reset(kRetain(other.get()));
    return *this;
  }
  ~Counted() = default;

  /// Makes an object with a new reference to a C object. The old reference stays the caller's.
  static Self retain(RawType* raw) noexcept { return Self::adopt(kRetain(raw)); }
};

}  // namespace detail

TENON_CPP_END

#endif
