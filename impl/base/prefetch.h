// Asks the CPU for a cache line before it is written. A line that another CPU has written takes as
// long as a hundred instructions to come.
#pragma once

namespace tenon {

// Asks for the line of an address, to write to it. The address need not be mapped. gcc makes a
// prefetch for reading of __builtin_prefetch() on x86-64, after which the write would wait again.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace tenon
