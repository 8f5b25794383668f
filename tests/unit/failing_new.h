// Replaces operator new, so that allocations of a thread fail when its test says so. A program has
// one operator new, so only a program with a single source may include this header.
#pragma once

#include <cstdlib>
#include <new>

namespace {
thread_local long allocations_left = -1;  // negative: any number may succeed
}

// noinline: otherwise gcc warns that free() is called for memory of new.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](size_t size) { return operator new(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
