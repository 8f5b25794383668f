// Runs a function on a thread with a small stack. It serves the tests of code whose recursion must
// not grow with its input.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>
#include <functional>

#include "support/sanitizers.h"

// A thread of Rust has 2 MiB. A sanitizer's frames are several times as large.
inline constexpr size_t kStackNbytes = size_t{TENON_TEST_SANITIZED ? 16 : 2} << 20;

inline void on_small_stack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackNbytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}
