// A memory fence for words that this process shares with other processes. It also compiles in a
// build for ThreadSanitizer.
#pragma once

namespace tenon {

// ThreadSanitizer ignores fences, and gcc warns about that. The fence itself still works in such a
// build. So only atomic words may rely on this fence, and no plain data of threads.
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
