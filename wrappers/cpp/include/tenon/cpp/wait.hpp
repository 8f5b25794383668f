// How long a call may wait, and ending waits from outside.
#ifndef TENON_CPP_WAIT_HPP
#define TENON_CPP_WAIT_HPP

#include <tenon/wait.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>

#include <chrono>
#include <optional>

TENON_CPP_BEGIN

/// Ends waits from outside. One can serve any number of waits, at once or in turn; it must outlive them.
class Cancel : public detail::Owned<Cancel, tenon_cancel, tenon_cancel_release> {
 public:
  /// Not triggered. It uses one fd.
  static Result<Cancel> try_make() { return detail::make<Cancel>(tenon_cancel_new); }
#ifndef TENON_NO_EXCEPTIONS
  static Cancel make() { return try_make().value(); }
#endif
  /// End every wait that uses this cancel, now and later, with kCancelled. Any thread, and signal handlers too.
  void trigger() const noexcept { tenon_cancel_trigger(get()); }
  /// Make it fit for use again. No wait may be using it.
  void reset() const noexcept { tenon_cancel_reset(get()); }
};

/// How long a call may wait: {.timeout = 5s, .cancel = &cancel}. With nothing set, what the call does by itself: for ever on a connection,
/// 5 seconds by name, not at all in a full arena.
struct Wait {
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;  ///< 0: do not wait (kWouldBlock); unset: for ever
  const Cancel* cancel = nullptr;                                  ///< borrowed for the call
  bool interruptible = false;                                      ///< a signal whose handler returned ends the wait with kInterrupted
};

namespace detail {

// function(wait, err): one call that takes a tenon_wait.
template <class Function>
Result<void> waiting(const Wait& wait, Function&& function) {
  if (!wait.timeout && wait.cancel == nullptr && !wait.interruptible) {
    return call([&](tenon_error** err) { return function(static_cast<const tenon_wait*>(nullptr), err); });
  }
  tenon_wait c{};
  c.struct_size = sizeof c;
  c.timeout_ns = -1;
  if (wait.timeout) {
    if (wait.timeout->count() < 0)
      return wrong("timeout " + std::to_string(wait.timeout->count()) + " ns is negative; leave it unset to wait for ever");
    c.timeout_ns = wait.timeout->count();
  }
  c.cancel = wait.cancel == nullptr ? nullptr : wait.cancel->get();
  c.flags = wait.interruptible ? std::uint32_t{TENON_WAIT_INTERRUPTIBLE} : 0U;
  return call([&](tenon_error** err) { return function(&c, err); });
}

}  // namespace detail

TENON_CPP_END

#endif
