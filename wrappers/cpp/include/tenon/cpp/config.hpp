/// @file
/// Decides whether a file gets the C++ headers with exceptions or without. All other headers
/// include this one.
#ifndef TENON_CPP_CONFIG_HPP
#define TENON_CPP_CONFIG_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "tenon/tenon.hpp needs C++20 (-std=c++20); tenon/tenon.h is for C99 and C++11"
#endif

#if !defined(TENON_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define TENON_NO_EXCEPTIONS 1
#endif

// The declarations of these headers are in an inline namespace, for two reasons. First, the library
// itself is C++ in a namespace `tenon`. If it is linked statically, its Error and Storage must not
// be mistaken for the classes of these headers. Second, a program may consist of files with and
// without exceptions, whose inline functions differ. Each form has a namespace of its own, so an
// object passes between such files only as its C pointer (detach, adopt).
#ifdef TENON_NO_EXCEPTIONS
#define TENON_CPP_BEGIN \
  namespace tenon {     \
  inline namespace cpp_v1_no_exceptions {
#else
#define TENON_CPP_BEGIN \
  namespace tenon {     \
  inline namespace cpp_v1 {
#endif
#define TENON_CPP_END \
  }                   \
  }

#endif
