// A fence between what other processes see of this one, that a build for ThreadSanitizer takes too.
#pragma once

namespace tenon {

// ThreadSanitizer knows no fences, and gcc warns of it. So no plain data of threads may count on
// this one, only words that are atomic; and it fences all the same.
inline void full_fence() noexcept {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

}  // namespace tenon
