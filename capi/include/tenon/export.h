#ifndef TENON_EXPORT_H
#define TENON_EXPORT_H

/**
 * @file
 * Macros that every public declaration uses: symbol visibility, noexcept and extern "C". Programs
 * do not need them.
 */

#if defined(TENON_BUILDING) && !defined(TENON_STATIC)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

#ifdef __cplusplus
#define TENON_NOEXCEPT noexcept
#define TENON_BEGIN_DECLS extern "C" {
#define TENON_END_DECLS }
#else
#define TENON_NOEXCEPT
#define TENON_BEGIN_DECLS
#define TENON_END_DECLS
#endif

#endif
