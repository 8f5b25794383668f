/// @file
/// Waits: how long a call may block, and how to end a wait from another thread or from a signal
/// handler.
#ifndef TENON_CPP_WAIT_HPP
#define TENON_CPP_WAIT_HPP

#include <tenon/wait.h>
#include <tenon/cpp/error.hpp>
#include <tenon/cpp/handle.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

TENON_CPP_BEGIN

/// Ends waits from outside. One Cancel can serve any number of waits, at the same time or one after
/// another. The Cancel must outlive these waits.
class Cancel : public detail::Owned<Cancel, tenon_cancel, tenon_cancel_release> {
 public:
  /// Makes a Cancel that is not triggered. It uses one fd.
  static Result<Cancel> try_make() { return detail::make<Cancel>(tenon_cancel_new); }
#ifndef TENON_NO_EXCEPTIONS
  static Cancel make() { return try_make().value(); }
#endif
  /// Ends every wait that uses this Cancel, now and later, with kCancelled. Any thread and any
  /// signal handler may call this function.
  void trigger() const noexcept { tenon_cancel_trigger(get()); }
  /// Makes a triggered Cancel usable again. No wait may be using it.
  void reset() const noexcept { tenon_cancel_reset(get()); }
};

/// How long a call may wait: {.timeout = 5s, .cancel = &cancel}. With nothing set, the default
/// depends on the call: a connection waits for ever, a name for 5 seconds, and a full arena not at
/// all.
struct Wait {
  /// 0 means that the call does not wait and gives kWouldBlock instead. Unset means for ever.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
  /// A Cancel that can end the wait, borrowed for the call. Null means that the wait cannot be
  /// cancelled.
  const Cancel* cancel = nullptr;
  /// A signal whose handler has returned ends the wait with kInterrupted.
  bool interruptible = false;
};

namespace detail {

// Calls function(wait, err), which makes one call of the C library that takes a tenon_wait.
template <class Function>
Result<void> waiting(const Wait& wait, Function&& function) {
  if (!wait.timeout && wait.cancel == nullptr && !wait.interruptible) {
    return call(
        [&](tenon_error** err) { return function(static_cast<const tenon_wait*>(nullptr), err); });
  }
  tenon_wait c{};
  c.struct_size = sizeof c;
  c.timeout_ns = -1;
  if (wait.timeout) {
    if (wait.timeout->count() < 0)
      return wrong("timeout " + std::to_string(wait.timeout->count()) +
                   " ns is negative; leave it unset to wait for ever");
    c.timeout_ns = wait.timeout->count();
  }
  c.cancel = wait.cancel == nullptr ? nullptr : wait.cancel->get();
  c.flags = wait.interruptible ? std::uint32_t{TENON_WAIT_INTERRUPTIBLE} : 0U;
  return call([&](tenon_error** err) { return function(&c, err); });
}

}  // namespace detail

TENON_CPP_END

#endif
