/* Tells C and C++ tests which sanitizer they are built with. Kits use it to wait longer, and to
 * skip tests that take memory, mappings or locks away which the sanitizer itself needs. */
#ifndef TENON_TESTS_SUPPORT_SANITIZERS_H
#define TENON_TESTS_SUPPORT_SANITIZERS_H

/* gcc defines macros, and clang answers __has_feature. */
#if defined(__SANITIZE_ADDRESS__)
#define TENON_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_TEST_ASAN 1
#endif
#endif
#ifndef TENON_TEST_ASAN
#define TENON_TEST_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TENON_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TENON_TEST_TSAN 1
#endif
#endif
#ifndef TENON_TEST_TSAN
#define TENON_TEST_TSAN 0
#endif

#define TENON_TEST_SANITIZED (TENON_TEST_ASAN || TENON_TEST_TSAN)

#endif
